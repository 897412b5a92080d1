//! Slow clients, and a visitor among them.

use super::super::median::median;
use super::super::rivals::Server;
use super::said;
use anyhow::{Result, ensure};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// With all the slow ones there, the others wait at most so many times as long.
const SLOWDOWN: f64 = 1.2;
/// Clients that send their heads slowly, and as many that read slowly.
const SLOW_COUNT: usize = 5_000;
/// So many of each go on at once, and then they rest for a moment: each comes about every two seconds.
const SLOW_AT_ONCE: usize = 5;
const SLOW_PAUSE: Duration = Duration::from_millis(2);
/// So long they are at it before the visitor comes.
const SLOW_SETTLE: Duration = Duration::from_millis(1500);
/// How often the visitor goes to each of two servers.
const ROUNDS: usize = 9;

/// The median time that one who does all right waits, in microseconds.
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

/// Clients that never finish their heads, and clients that hardly read what they asked for. They go on all the time
/// while a visitor is measured, in the server's default patience: whom it drops comes again. The visitor goes in turn
/// while they are at it and while they, connected as they are, do nothing at a server beside it that has none.
pub(super) fn slow(server: &Server, other: &Server) -> Result<bool> {
    let mut crowd = Slow::connect(server.port)?;
    let (is_active, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    let (mut during, mut alone) = (Vec::new(), Vec::new());
    let crowd = std::thread::scope(|scope| {
        let crowd = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                if is_active.load(Ordering::Relaxed) {
                    crowd.go_on()?;
                }
                std::thread::sleep(SLOW_PAUSE);
            }
            Ok::<_, anyhow::Error>(crowd)
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
        let crowd = crowd.join().map_err(|_| anyhow::anyhow!("the slow clients panicked"))??;
        visited.map(|()| crowd)
    })?;
    println!(
        "     meanwhile they sent {} lines of heads and read {} times; dropped, and back again: {} and {}",
        crowd.lines, crowd.reads, crowd.heads_again, crowd.readers_again
    );
    let (during, alone) = (median(during), median(alone));
    let words = format!(
        "a visitor among {SLOW_COUNT} slow heads and {SLOW_COUNT} slow readers waits {during:.1} µs, \
         alone {alone:.1} µs: ×{:.2} (at most {SLOWDOWN})",
        during / alone
    );
    Ok(said(&words, during / alone <= SLOWDOWN))
}

/// Slow clients, and what they did.
struct Slow {
    port: u16,
    heads: Vec<TcpStream>,
    readers: Vec<TcpStream>,
    /// Whose turn it is.
    next: usize,
    lines: u64,
    reads: u64,
    heads_again: u64,
    readers_again: u64,
}

impl Slow {
    fn connect(port: u16) -> Result<Self> {
        let heads = (0..SLOW_COUNT).map(|_| Self::head(port)).collect::<Result<_>>()?;
        let readers = (0..SLOW_COUNT).map(|_| Self::reader(port)).collect::<Result<_>>()?;
        Ok(Self { port, heads, readers, next: 0, lines: 0, reads: 0, heads_again: 0, readers_again: 0 })
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

    /// A line of a head and a kilobyte read, by each of the next few.
    fn go_on(&mut self) -> Result<()> {
        for _ in 0..SLOW_AT_ONCE {
            let number = self.next;
            self.next = (number + 1) % SLOW_COUNT;
            if self.heads[number].write_all(b"X: y\r\n").is_ok() {
                self.lines += 1;
            } else {
                self.heads[number] = Self::head(self.port)?;
                self.heads_again += 1;
            }
            let mut buffer = [0; 1024];
            if matches!(self.readers[number].read(&mut buffer), Ok(1..)) {
                self.reads += 1;
            } else {
                self.readers[number] = Self::reader(self.port)?;
                self.readers_again += 1;
            }
        }
        Ok(())
    }
}
