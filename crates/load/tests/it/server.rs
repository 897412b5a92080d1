//! A small server on threads, whose manners a test chooses.

use landau_load::schedule::Arrivals;
use landau_load::{Job, Launch, Outcome, Wish};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What a server does with a request: the bytes to write, and whether it closes then.
pub(crate) type Manner = Arc<dyn Fn(u64) -> (Vec<u8>, bool) + Send + Sync>;

/// A server that lives as long as the test's process.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) requests: Arc<AtomicU64>,
    pub(crate) connections: Arc<AtomicU64>,
    sockets: Arc<Mutex<Vec<TcpStream>>>,
}

/// An answer with a body of that length.
pub(crate) fn answer(length: usize) -> Vec<u8> {
    let mut bytes = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").into_bytes();
    bytes.resize(bytes.len() + length, b'x');
    bytes
}

/// A server whose manner is a function of the request's number, from 0.
pub(crate) fn serve(manner: impl Fn(u64) -> (Vec<u8>, bool) + Send + Sync + 'static) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let manner: Manner = Arc::new(manner);
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
            let (manner, requests) = (Arc::clone(&manner), Arc::clone(&requests));
            std::thread::spawn(move || converse(stream, &manner, &requests));
        }
    });
    server
}

fn converse(mut stream: TcpStream, manner: &Manner, requests: &AtomicU64) {
    let (mut held, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        while let Some(end) = held.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8(held.drain(..end + 4).collect()).unwrap();
            let (bytes, mut closes) = manner(requests.fetch_add(1, Ordering::SeqCst));
            closes |= head.contains("Connection: close");
            if stream.write_all(&bytes).is_err() || closes {
                let _ = stream.shutdown(std::net::Shutdown::Both);
                return;
            }
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(count) => held.extend_from_slice(&buffer[..count]),
        }
    }
}

impl Server {
    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Resets every connection that it has.
    pub(crate) fn hang_up(&self) {
        for socket in self.sockets.lock().unwrap().drain(..) {
            let _ = socket.shutdown(std::net::Shutdown::Both);
        }
    }
}

/// A wish for 100 requests over four connections.
pub(crate) fn wish(url: &str) -> Wish {
    Wish {
        urls: vec![url.to_owned()],
        confirmed: Vec::new(),
        method: "GET".to_owned(),
        headers: Vec::new(),
        replay: None,
        insecure: false,
        roots: None,
        connections: 4,
        pipeline: 1,
        per_connection: None,
        rate: None,
        arrivals: Arrivals::Uniform,
        crowd: None,
        duration: None,
        request_count: Some(100),
        warm_up: Duration::ZERO,
        timeout: Duration::from_secs(20),
        connect_rate: None,
        workers: None,
        pins: Vec::new(),
        sources: Vec::new(),
        seed: 1,
        mechanism: landau_load::mechanism(),
        waived: Vec::new(),
    }
}

/// Makes the load with workers that are threads.
pub(crate) fn run(wish: &Wish) -> Outcome {
    let begun = Instant::now();
    let job = Job::resolve(wish).unwrap();
    landau_load::run(&job, &Launch::Thread, &mut (), &|| begun.elapsed() > Duration::from_secs(120)).unwrap()
}

/// Names of the gates that failed.
pub(crate) fn failed(outcome: &Outcome) -> Vec<&'static str> {
    let failed = outcome.gates.iter().filter(|gate| gate.standing == landau_load::gate::Standing::Failed);
    // Other tests of the same process, and other programs, share the processors and the host's counters.
    failed.map(|gate| gate.name).filter(|name| !["lag", "overflow", "saturated"].contains(name)).collect()
}
