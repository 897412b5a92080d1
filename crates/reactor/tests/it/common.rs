//! Helpers that the tests share.

use landau_reactor::{Backend, Event, Interest, Reactor, Token, backends};
use landau_sys::descriptor::dup_from;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

/// Longer than anything here takes, however busy the machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Held exclusively by tests that open many descriptors or need a certain number: other tests need small numbers.
static NUMBERS: RwLock<()> = RwLock::new(());

pub(crate) fn alone() -> RwLockWriteGuard<'static, ()> {
    NUMBERS.write().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn among_others() -> RwLockReadGuard<'static, ()> {
    NUMBERS.read().unwrap_or_else(PoisonError::into_inner)
}

fn each_backend(test: impl Fn(&mut Reactor)) {
    let there = backends();
    assert!(there.contains(&Backend::default()), "{there:?}");
    for backend in there {
        println!("with {backend}");
        test(&mut Reactor::new(backend).unwrap());
    }
}

/// Runs a test with each backend of this system.
pub(crate) fn each(test: impl Fn(&mut Reactor)) {
    let _guard = among_others();
    each_backend(test);
}

/// Like [`each`], while no other test runs.
pub(crate) fn each_alone(test: impl Fn(&mut Reactor)) {
    let _guard = alone();
    each_backend(test);
}

/// Waits once and returns the events.
pub(crate) fn events(reactor: &mut Reactor, timeout: Duration) -> Vec<Event> {
    reactor.wait(Some(timeout)).unwrap();
    std::iter::from_fn(|| reactor.next_event()).collect()
}

/// Waits once and returns the only event.
#[track_caller]
pub(crate) fn only(reactor: &mut Reactor) -> Event {
    let found = events(reactor, LONG);
    assert_eq!(found.len(), 1, "{found:?}");
    found[0]
}

/// Asserts that a wait finds no event. The null backend always finds one.
#[track_caller]
pub(crate) fn no_events(reactor: &mut Reactor) {
    let found = events(reactor, Duration::ZERO);
    assert!(found.is_empty() || is_null(reactor), "{found:?}");
}

pub(crate) fn is_null(reactor: &Reactor) -> bool {
    reactor.backend() == Backend::Null
}

/// A loopback address that only this process uses, so that no other process can take a port that is closed for a
/// moment.
pub(crate) fn own_address() -> SocketAddr {
    let host = if cfg!(target_os = "linux") { std::process::id() & 0xf_ffff | 0x10_0000 } else { 1 };
    SocketAddr::from((Ipv4Addr::from_bits(0x7f00_0000 | host), 0))
}

pub(crate) fn pair() -> (UnixStream, UnixStream) {
    let (one, two) = UnixStream::pair().unwrap();
    one.set_nonblocking(true).unwrap();
    two.set_nonblocking(true).unwrap();
    (one, two)
}

/// A TCP connection: client, server.
pub(crate) fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    client.set_nonblocking(true).unwrap();
    server.set_nonblocking(true).unwrap();
    (client, server)
}

/// Moves a descriptor to a number, which must be free.
pub(crate) fn at(number: RawFd, fd: impl Into<OwnedFd>) -> OwnedFd {
    use std::os::fd::AsRawFd;
    let moved = dup_from(&fd.into(), number).unwrap();
    assert_eq!(moved.as_raw_fd(), number, "the number is in use; run the test alone");
    moved
}

/// Reads until that would block, clears the readiness and returns the number of bytes; `None` at the end of the stream.
pub(crate) fn drain(reactor: &mut Reactor, stream: &mut (impl std::io::Read + AsFd)) -> Option<usize> {
    let mut buffer = [0; 4096];
    let mut all = 0;
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return None,
            Ok(count) => all += count,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
                reactor.clear_readiness(stream, Interest::READABLE);
                return Some(all);
            }
        }
    }
}

/// Reads exactly `count` bytes.
#[track_caller]
pub(crate) fn drain_all(reactor: &mut Reactor, stream: &mut (impl std::io::Read + AsFd), count: usize) {
    let mut got = 0;
    while got < count {
        got += drain(reactor, stream).unwrap();
    }
}

/// Writes until that would block, clears the readiness and returns the number of bytes.
pub(crate) fn fill(reactor: &mut Reactor, stream: &mut (impl std::io::Write + AsFd)) -> usize {
    let mut all = 0;
    loop {
        match stream.write(&[7; 4096]) {
            Ok(count) => all += count,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
                reactor.clear_readiness(stream, Interest::WRITABLE);
                return all;
            }
        }
    }
}

/// Fills one end and empties the other: the first is writable again after that, and not before.
#[track_caller]
pub(crate) fn fill_and_empty(
    reactor: &mut Reactor,
    writing: &mut (impl std::io::Write + AsFd),
    reading: &mut (impl std::io::Read + AsFd),
) {
    let filled = fill(reactor, writing);
    no_events(reactor);
    drain_all(reactor, reading, filled);
    assert!(only(reactor).ready.is_writable());
}

pub(crate) fn token(event: Event) -> Token {
    event.token
}
