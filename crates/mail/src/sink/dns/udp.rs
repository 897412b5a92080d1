//! The thread that answers over UDP.

use super::Dns;
use crate::sink::error::Error;
use crate::sink::listener::Listen;
use crate::sink::server::{Config, Sink};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The interval at which the thread checks whether it must end.
const ATTENTION: Duration = Duration::from_millis(100);

/// Maximum number of delayed answers. Beyond it, a client must repeat its query, as after any loss.
const MOST_LATE: usize = 1 << 16;

/// Maximum number of attempts to find a port that is free for both TCP and UDP.
const PORT_ATTEMPTS: u32 = 100;

/// A thread that answers the datagrams of one address.
#[derive(Debug)]
pub struct Datagrams {
    must_end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// A delayed answer: its time, number, destination and bytes. The earliest is the greatest.
type Late = Reverse<(Instant, u64, SocketAddr, Vec<u8>)>;

/// Listens over TCP and answers over UDP at the same addresses. If the system chooses the port, it is one that is free
/// for both.
pub fn bind(dns: &Dns, config: &Config) -> Result<(Sink, Vec<Datagrams>), Error> {
    let is_chosen = config.listen.iter().any(|listen| listen.port == 0);
    let mut attempt = 0;
    loop {
        attempt += 1;
        let sink = Sink::bind(dns.clone(), config.clone())?;
        let datagrams: Result<Vec<Datagrams>, Error> =
            sink.addresses().into_iter().map(|listen| Datagrams::start(dns, listen)).collect();
        match datagrams {
            Ok(datagrams) => return Ok((sink, datagrams)),
            Err(Error::Listen { cause, .. })
                if is_chosen && attempt < PORT_ATTEMPTS && cause.kind() == ErrorKind::AddrInUse => {}
            Err(error) => return Err(error),
        }
    }
}

impl Datagrams {
    /// Answers at the address of a sink that listens over TCP: one address, since an answer must come from the address
    /// of the query.
    fn start(dns: &Dns, listen: Listen) -> Result<Self, Error> {
        let address = listen.bound();
        let failed = |cause: std::io::Error| Error::Listen {
            address: format!("{listen} over UDP"),
            cause: landau_sys::Error::from_io("bind", &cause),
            hint: "",
        };
        if address.ip().is_unspecified() {
            return Err(Error::OneAddress { address: listen.to_string() });
        }
        let socket = UdpSocket::bind(address).map_err(failed)?;
        let must_end = Arc::new(AtomicBool::new(false));
        let (dns, end) = (dns.clone(), must_end.clone());
        let thread = std::thread::Builder::new().name("udp".to_owned()).spawn(move || answer(dns, &socket, &end));
        Ok(Self { must_end, thread: Some(thread.map_err(failed)?) })
    }
}

impl Drop for Datagrams {
    /// Ends the thread.
    fn drop(&mut self) {
        self.must_end.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // A panic was printed already.
            let _ = thread.join();
        }
    }
}

fn answer(mut dns: Dns, socket: &UdpSocket, must_end: &AtomicBool) {
    let (mut buffer, mut out) = (vec![0; landau_wire::dns::MESSAGE_BYTES], Vec::new());
    let mut late: BinaryHeap<Late> = BinaryHeap::new();
    let mut count = 0;
    while !must_end.load(Ordering::Acquire) {
        let now = Instant::now();
        while late.peek().is_some_and(|Reverse((due, ..))| *due <= now) {
            if let Some(Reverse((_, _, client, bytes))) = late.pop() {
                // A client that is gone needs no answer.
                let _ = socket.send_to(&bytes, client);
            }
        }
        let wait = late.peek().map_or(ATTENTION, |Reverse((due, ..))| *due - now).min(ATTENTION);
        // A timeout of zero would be an error.
        let _ = socket.set_read_timeout(Some(wait.max(Duration::from_micros(1))));
        // On a timeout, check the answers that are due.
        let Ok((len, client)) = socket.recv_from(&mut buffer) else { continue };
        out.clear();
        match dns.answer_datagram(&buffer[..len], &mut out) {
            None => {}
            Some(Duration::ZERO) => drop(socket.send_to(&out, client)),
            Some(_) if late.len() >= MOST_LATE => dns.udp.udp_overflow.add_shared(1),
            Some(delay) => {
                count += 1;
                late.push(Reverse((Instant::now() + delay, count, client, out.clone())));
            }
        }
    }
}
