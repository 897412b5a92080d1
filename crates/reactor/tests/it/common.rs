//! The words that the tests are written in.

use landau_reactor::{Backend, Event, Interest, Reactor, Token, backends};
use landau_sys::descriptor::dup_from;
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

/// Longer than anything here takes, on however busy a machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Tests that hold many descriptors, or want a certain number, are alone: others must find small numbers free.
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

/// Each backend of this system in turn; what fails says with which.
pub(crate) fn each(test: impl Fn(&mut Reactor)) {
    let _guard = among_others();
    each_backend(test);
}

/// The same, with no other test beside it.
pub(crate) fn each_alone(test: impl Fn(&mut Reactor)) {
    let _guard = alone();
    each_backend(test);
}

/// What a wait tells.
pub(crate) fn events(reactor: &mut Reactor, limit: Duration) -> Vec<Event> {
    reactor.wait(Some(limit)).unwrap();
    std::iter::from_fn(|| reactor.next_event()).collect()
}

/// The one event that a wait tells.
#[track_caller]
pub(crate) fn only(reactor: &mut Reactor) -> Event {
    let told = events(reactor, LONG);
    assert_eq!(told.len(), 1, "{told:?}");
    told[0]
}

/// Asserts that a wait tells nothing. The instrument has no idea and is not asked.
#[track_caller]
pub(crate) fn quiet(reactor: &mut Reactor) {
    let told = events(reactor, Duration::ZERO);
    assert!(told.is_empty() || is_null(reactor), "{told:?}");
}

pub(crate) fn is_null(reactor: &Reactor) -> bool {
    reactor.backend() == Backend::Null
}

pub(crate) fn pair() -> (UnixStream, UnixStream) {
    let (one, two) = UnixStream::pair().unwrap();
    one.set_nonblocking(true).unwrap();
    two.set_nonblocking(true).unwrap();
    (one, two)
}

/// A pair over TCP: client, server.
pub(crate) fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    client.set_nonblocking(true).unwrap();
    server.set_nonblocking(true).unwrap();
    (client, server)
}

/// A descriptor under exactly that number, which must be free.
pub(crate) fn at(number: RawFd, fd: impl Into<OwnedFd>) -> OwnedFd {
    use std::os::fd::AsRawFd;
    let moved = dup_from(&fd.into(), number).unwrap();
    assert_eq!(moved.as_raw_fd(), number, "a test that wants a number is alone");
    moved
}

/// Reads until it would block, says so, and gives the count; none at the end of the stream.
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

/// Reads so many bytes, in whatever pieces they come.
#[track_caller]
pub(crate) fn drain_all(reactor: &mut Reactor, stream: &mut (impl std::io::Read + AsFd), count: usize) {
    let mut got = 0;
    while got < count {
        got += drain(reactor, stream).unwrap();
    }
}

/// Writes until it would block, says so, and gives the count.
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

/// Fills one end and empties the other: that there is room again is told, and that there is none is not.
#[track_caller]
pub(crate) fn fill_and_empty(
    reactor: &mut Reactor,
    writing: &mut (impl std::io::Write + AsFd),
    reading: &mut (impl std::io::Read + AsFd),
) {
    let filled = fill(reactor, writing);
    quiet(reactor);
    drain_all(reactor, reading, filled);
    assert!(only(reactor).ready.is_writable());
}

pub(crate) fn token(event: Event) -> Token {
    event.token
}
