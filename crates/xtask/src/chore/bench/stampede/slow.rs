//! Slow clients, and a well-behaved visitor among them.

use super::super::median::median;
use super::super::rivals::Server;
use super::said;
use anyhow::{Result, ensure};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The maximum ratio of the visitor's latency among slow clients to its latency without them.
const SLOWDOWN: f64 = 1.2;
/// Clients that send their heads slowly, and as many that read slowly.
const SLOW_COUNT: usize = 5_000;
/// How many of each kind take a step before the next pause: each client takes a step about every two seconds.
const SLOW_AT_ONCE: usize = 5;
const SLOW_PAUSE: Duration = Duration::from_millis(2);
/// How long the slow clients are active before the visitor is measured.
const SLOW_SETTLE: Duration = Duration::from_millis(1500);
/// How many times the visitor is measured at each of two servers.
const ROUNDS: usize = 9;

/// Returns the median latency of a well-behaved client, in microseconds.
fn visit_us(server: &Server) -> Result<f64> {
    let mut stream = server.ask("/f")?;
    let mut buffer = [0; 4096];
    let mut times = Vec::new();
    for _ in 0..3_000 {
        let began = Instant::now();
        stream.write_all(b"GET /f HTTP/1.1\r\nHost: x\r\n\r\n")?;
        ensure!(stream.read(&mut buffer)? > 0, "the server ended the visitor's connection");
        times.push(began.elapsed().as_secs_f64() * 1e6);
    }
    Ok(median(times))
}

/// Measures a visitor's latency among clients that never finish their heads and clients that hardly read their
/// responses. The server has its default timeouts; a client that it drops reconnects. The baseline is measured
/// alternately, at another server without slow clients, while the slow clients stay connected but inactive.
pub(super) fn slow(server: &Server, other: &Server) -> Result<bool> {
    let mut clients = Slow::connect(server.port)?;
    let (is_active, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    let (mut during, mut alone) = (Vec::new(), Vec::new());
    let clients = std::thread::scope(|scope| {
        let clients = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                if is_active.load(Ordering::Relaxed) {
                    clients.step()?;
                }
                std::thread::sleep(SLOW_PAUSE);
            }
            Ok::<_, anyhow::Error>(clients)
        });
        let mut visit = || {
            for _ in 0..ROUNDS {
                is_active.store(false, Ordering::Relaxed);
                std::thread::sleep(10 * SLOW_PAUSE);
                alone.push(visit_us(other)?);
                is_active.store(true, Ordering::Relaxed);
                std::thread::sleep(SLOW_SETTLE);
                during.push(visit_us(server)?);
            }
            Ok::<_, anyhow::Error>(())
        };
        let visited = visit();
        is_over.store(true, Ordering::Relaxed);
        let clients = clients.join().map_err(|_| anyhow::anyhow!("the slow clients panicked"))??;
        visited.map(|()| clients)
    })?;
    println!(
        "     the slow clients sent {} header lines and read {} times; dropped and reconnected: {} and {}",
        clients.lines, clients.reads, clients.heads_reconnected, clients.readers_reconnected
    );
    let (during, alone) = (median(during), median(alone));
    let words = format!(
        "a visitor among {SLOW_COUNT} slow heads and {SLOW_COUNT} slow readers waits {during:.1} µs, \
         alone {alone:.1} µs: ×{:.2} (at most {SLOWDOWN})",
        during / alone
    );
    Ok(said(&words, during / alone <= SLOWDOWN))
}

/// The slow clients and their counters.
struct Slow {
    port: u16,
    heads: Vec<TcpStream>,
    readers: Vec<TcpStream>,
    /// The index of the next client to take a step.
    next: usize,
    lines: u64,
    reads: u64,
    heads_reconnected: u64,
    readers_reconnected: u64,
}

impl Slow {
    fn connect(port: u16) -> Result<Self> {
        let heads = (0..SLOW_COUNT).map(|_| Self::head(port)).collect::<Result<_>>()?;
        let readers = (0..SLOW_COUNT).map(|_| Self::reader(port)).collect::<Result<_>>()?;
        Ok(Self { port, heads, readers, next: 0, lines: 0, reads: 0, heads_reconnected: 0, readers_reconnected: 0 })
    }

    fn head(port: u16) -> Result<TcpStream> {
        let mut head = TcpStream::connect(("127.0.0.1", port))?;
        head.write_all(b"GET /f HTTP/1.1\r\nHost: x\r\n")?;
        Ok(head)
    }

    fn reader(port: u16) -> Result<TcpStream> {
        let mut reader = TcpStream::connect(("127.0.0.1", port))?;
        reader.write_all(b"GET /f100m HTTP/1.1\r\nHost: x\r\n\r\n")?;
        reader.set_read_timeout(Some(Duration::from_secs(1)))?;
        Ok(reader)
    }

    /// Lets each of the next clients send a header line or read a kilobyte.
    fn step(&mut self) -> Result<()> {
        for _ in 0..SLOW_AT_ONCE {
            let number = self.next;
            self.next = (number + 1) % SLOW_COUNT;
            if self.heads[number].write_all(b"X: y\r\n").is_ok() {
                self.lines += 1;
            } else {
                self.heads[number] = Self::head(self.port)?;
                self.heads_reconnected += 1;
            }
            let mut buffer = [0; 1024];
            if matches!(self.readers[number].read(&mut buffer), Ok(1..)) {
                self.reads += 1;
            } else {
                self.readers[number] = Self::reader(self.port)?;
                self.readers_reconnected += 1;
            }
        }
        Ok(())
    }
}
