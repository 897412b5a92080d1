//! A small server on threads whose responses a test chooses.

use landau_load::outcome::GateState;
use landau_load::plan::Arrivals;
use landau_load::{Job, Launch, LoadSpec, Outcome};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Returns the server's reaction to a request, given its number: the bytes to send, and whether to close afterwards.
pub(crate) type Respond = Arc<dyn Fn(u64) -> (Vec<u8>, bool) + Send + Sync>;

/// A server that runs until the end of the test process.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) requests: Arc<AtomicU64>,
    pub(crate) connections: Arc<AtomicU64>,
    sockets: Arc<Mutex<Vec<TcpStream>>>,
}

/// A response with a body of `length` bytes.
pub(crate) fn response(length: usize) -> Vec<u8> {
    let mut bytes = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").into_bytes();
    bytes.resize(bytes.len() + length, b'x');
    bytes
}

/// Starts a server. Requests are numbered from 0.
pub(crate) fn serve(respond: impl Fn(u64) -> (Vec<u8>, bool) + Send + Sync + 'static) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let respond: Respond = Arc::new(respond);
    let (requests, connections) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let sockets = Arc::new(Mutex::new(Vec::new()));
    let server = Server {
        address,
        requests: Arc::clone(&requests),
        connections: Arc::clone(&connections),
        sockets: Arc::clone(&sockets),
    };
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            connections.fetch_add(1, Ordering::SeqCst);
            sockets.lock().unwrap().push(stream.try_clone().unwrap());
            let (respond, requests) = (Arc::clone(&respond), Arc::clone(&requests));
            std::thread::spawn(move || serve_connection(stream, &respond, &requests));
        }
    });
    server
}

fn serve_connection(mut stream: TcpStream, respond: &Respond, requests: &AtomicU64) {
    let (mut received, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        while let Some(end) = received.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8(received.drain(..end + 4).collect()).unwrap();
            let (bytes, mut closes) = respond(requests.fetch_add(1, Ordering::SeqCst));
            closes |= head.contains("Connection: close");
            if stream.write_all(&bytes).is_err() || closes {
                let _ = stream.shutdown(std::net::Shutdown::Both);
                return;
            }
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(count) => received.extend_from_slice(&buffer[..count]),
        }
    }
}

impl Server {
    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Closes every connection.
    pub(crate) fn close_all(&self) {
        for socket in self.sockets.lock().unwrap().drain(..) {
            let _ = socket.shutdown(std::net::Shutdown::Both);
        }
    }
}

/// A closed loop of 100 requests over four connections. The timeout is longer than any pause of a busy machine.
pub(crate) fn spec(url: &str) -> LoadSpec {
    LoadSpec {
        urls: vec![url.to_owned()],
        allowed_hosts: Vec::new(),
        method: "GET".to_owned(),
        headers: Vec::new(),
        replay: None,
        insecure: false,
        ca_file: None,
        connections: 4,
        pipeline: 1,
        http2: false,
        per_connection: None,
        rate: None,
        arrivals: Arrivals::Constant,
        idle: None,
        duration: None,
        request_count: Some(100),
        warm_up: Duration::ZERO,
        timeout: Duration::from_secs(60),
        connect_rate: None,
        workers: None,
        cpus: Vec::new(),
        sources: Vec::new(),
        seed: 1,
        backend: landau_load::default_backend(),
        waived: Vec::new(),
    }
}

/// Runs a load with workers that are threads.
pub(crate) fn run(spec: &LoadSpec) -> Outcome {
    run_until(spec, &|| false)
}

/// Runs a load that is interrupted when `interrupted` returns true.
pub(crate) fn run_until(spec: &LoadSpec, interrupted: &dyn Fn() -> bool) -> Outcome {
    landau_load::run(&Job::resolve(spec).unwrap(), &Launch::Thread, &mut (), interrupted).unwrap()
}

/// The names of the gates that failed, without those that depend on the machine: other tests share its CPUs and
/// its counters.
pub(crate) fn failed(outcome: &Outcome) -> Vec<&'static str> {
    let failed = outcome.gates.iter().filter(|gate| gate.state == GateState::Failed);
    failed.map(|gate| gate.name).filter(|name| !["lag", "overflow", "saturated"].contains(name)).collect()
}
