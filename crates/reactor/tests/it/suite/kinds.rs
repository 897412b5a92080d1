//! Kinds of descriptors: listeners, connecting sockets, pipes, files.

use crate::child;
use crate::common::{LONG, drain, each, events, fill, fill_and_empty, no_events, only};
use landau_reactor::{Interest, Token};
use landau_sys::socket::{Address, Family};
use landau_sys::stream;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

#[test]
fn a_listener_is_readable_when_a_connection_waits() {
    each(|reactor| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        reactor.register(&listener, Token(1), Interest::READABLE).unwrap();
        for count in [1, 3] {
            no_events(reactor);
            let clients: Vec<_> = (0..count).map(|_| TcpStream::connect(address).unwrap()).collect();
            for _ in 0..count {
                assert!(only(reactor).ready.is_readable());
                listener.accept().unwrap();
            }
            assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
            reactor.clear_readiness(&listener, Interest::READABLE);
            drop(clients);
        }
        no_events(reactor);
    });
}

/// A dropped reactor holds no file open.
#[test]
fn an_address_is_free_after_its_reactor_was_dropped() {
    let _guard = crate::common::among_others();
    for backend in landau_reactor::backends() {
        println!("with {backend}");
        let _closes = child::none_starts();
        let listener = TcpListener::bind(crate::common::own_address()).unwrap();
        let address = listener.local_addr().unwrap();
        let others: Vec<_> = (0..50).map(|_| crate::common::pair()).collect();
        let mut reactor = landau_reactor::Reactor::new(backend).unwrap();
        for (one, _) in &others {
            reactor.register(one, Token(1), Interest::READABLE).unwrap();
        }
        reactor.register(&listener, Token(2), Interest::READABLE).unwrap();
        no_events(&mut reactor);
        drop(reactor);
        drop(listener);
        TcpListener::bind(address).unwrap();
        for (one, mut two) in others {
            drop(one);
            assert_eq!(two.read(&mut [0]).unwrap(), 0);
        }
    }
}

/// The number of times that two loops register a listener in the test below. Before the fix, three of five runs failed
/// while other programs kept the processors busy.
const ROUNDS: usize = 100;

/// An open file has one owner of its signals (`sigio`). Of two loops that registered a listener at the same moment, one
/// received signals for the other's descriptor number, and neither was notified of a connection.
#[test]
fn a_listener_that_two_loops_register_at_once_is_readable_in_both() {
    let _guard = crate::common::among_others();
    for backend in landau_reactor::backends().into_iter().filter(|&one| one != landau_reactor::Backend::Null) {
        for round in 0..ROUNDS {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let copies = [listener.try_clone().unwrap(), listener.try_clone().unwrap()];
            let begun = AtomicUsize::new(0);
            let (ready, waiting) = mpsc::channel();
            std::thread::scope(|scope| {
                let watch = |copy| {
                    let (begun, ready) = (&begun, ready.clone());
                    scope.spawn(move || {
                        let reactor = landau_reactor::Reactor::new(backend);
                        // Counted even if that failed; otherwise the other loop would wait for ever.
                        begun.fetch_add(1, Ordering::AcqRel);
                        let mut reactor = reactor.unwrap();
                        while begun.load(Ordering::Acquire) < 2 {
                            std::thread::yield_now();
                        }
                        reactor.register(copy, Token(1), Interest::READABLE).unwrap();
                        no_events(&mut reactor);
                        ready.send(()).unwrap();
                        let found = events(&mut reactor, LONG);
                        assert_eq!(found.len(), 1, "{backend}, round {round}");
                    });
                };
                copies.iter().for_each(watch);
                // A loop that panics before that sends nothing.
                (0..2).for_each(|_| waiting.recv_timeout(LONG).unwrap());
                TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            });
        }
    }
}

#[test]
fn a_unix_listener_is_readable_when_a_connection_waits() {
    each(|reactor| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        reactor.register(&listener, Token(1), Interest::READABLE).unwrap();
        no_events(reactor);
        let _client = std::os::unix::net::UnixStream::connect(&path).unwrap();
        assert!(only(reactor).ready.is_readable());
        listener.accept().unwrap();
    });
}

fn begin(address: SocketAddr) -> (OwnedFd, Result<(), landau_sys::Error>) {
    let socket = stream::stream(Family::V4).unwrap();
    let begun = stream::connect(&socket, &Address::from(address));
    (socket, begun)
}

#[test]
fn a_connecting_socket_is_writable_when_connected() {
    each(|reactor| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (socket, begun) = begin(listener.local_addr().unwrap());
        assert_eq!(begun.unwrap_err().call, "connect");
        reactor.register_nonblocking(&socket, Token(1), Interest::WRITABLE).unwrap();
        assert!(only(reactor).ready.is_writable());
        stream::take_error(&socket).unwrap();
        assert_eq!(stream::send(&socket, b"x", false), Ok(1));
    });
}

#[test]
fn a_refused_connection_is_writable() {
    each(|reactor| {
        for interest in [Interest::WRITABLE, Interest::BOTH] {
            let closes = child::none_starts();
            let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
            let (socket, begun) = begin(address);
            assert!(begun.is_err());
            drop(closes);
            reactor.register_nonblocking(&socket, Token(1), interest).unwrap();
            let found = events(reactor, LONG);
            assert!(found.iter().any(|event| event.ready.is_writable()), "{found:?}");
            let error = stream::take_error(&socket).unwrap_err();
            assert_eq!(std::io::Error::from_raw_os_error(error.errno).kind(), ErrorKind::ConnectionRefused);
            reactor.close(socket).unwrap();
        }
    });
}

#[test]
fn a_pipe_is_readable_until_its_end() {
    each(|reactor| {
        let (mut reading, mut writing) = std::io::pipe().unwrap();
        reactor.register(&reading, Token(1), Interest::READABLE).unwrap();
        no_events(reactor);
        writing.write_all(b"abc").unwrap();
        only(reactor);
        assert_eq!(drain(reactor, &mut reading), Some(3));
        no_events(reactor);
        drop(writing);
        assert!(only(reactor).ready.is_readable());
        assert_eq!(reading.read(&mut [0]).unwrap(), 0);
    });
}

#[test]
fn a_pipe_is_writable_until_it_breaks() {
    each(|reactor| {
        let _closes = child::none_starts();
        let (mut reading, mut writing) = std::io::pipe().unwrap();
        stream::set_blocking(&reading, false).unwrap();
        reactor.register(&writing, Token(1), Interest::WRITABLE).unwrap();
        only(reactor);
        fill_and_empty(reactor, &mut writing, &mut reading);
        fill(reactor, &mut writing);
        no_events(reactor);
        drop(reading);
        assert!(only(reactor).ready.is_writable());
        assert_eq!(writing.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
    });
}

/// `epoll` refuses files and they send no signals, but all backends report them as ready while there is interest.
#[test]
fn a_file_is_always_ready() {
    each(|reactor| {
        let file = tempfile::tempfile().unwrap();
        let (other, mut peer) = crate::common::pair();
        reactor.register(&other, Token(2), Interest::READABLE).unwrap();
        reactor.register(&file, Token(1), Interest::READABLE).unwrap();
        for _ in 0..3 {
            let found = events(reactor, LONG);
            let file_found = found.iter().find(|event| event.token == Token(1)).unwrap();
            assert!(file_found.ready.is_readable() && !file_found.ready.is_writable(), "{found:?}");
            reactor.clear_readiness(&other, Interest::READABLE);
        }
        peer.write_all(b"x").unwrap();
        let found = events(reactor, LONG);
        assert_eq!(found.len(), 2, "{found:?}");
        reactor.set_interest(&file, Interest::BOTH).unwrap();
        let found = events(reactor, LONG);
        assert!(found.iter().any(|event| event.token == Token(1) && event.ready.is_writable()), "{found:?}");
        reactor.set_interest(&file, Interest::NONE).unwrap();
        events(reactor, Duration::ZERO);
        assert_eq!(only(reactor).token, Token(2));
        reactor.deregister(&file).unwrap();
        reactor.register(&file, Token(3), Interest::WRITABLE).unwrap();
        let found = events(reactor, LONG);
        assert!(found.iter().any(|event| event.token == Token(3) && event.ready.is_writable()), "{found:?}");
        reactor.close(file.into()).unwrap();
        assert_eq!(only(reactor).token, Token(2));
    });
}

/// It supports `poll` but sends no signals.
#[cfg(target_os = "linux")]
#[test]
fn an_eventfd_is_readable_when_it_is_raised() {
    each(|reactor| {
        let counter = landau_sys::event::eventfd().unwrap();
        reactor.register(&counter, Token(1), Interest::READABLE).unwrap();
        no_events(reactor);
        std::thread::scope(|scope| {
            scope.spawn(|| landau_sys::event::eventfd_write(&counter).unwrap());
            while events(reactor, LONG).is_empty() {}
        });
        assert!(only(reactor).ready.is_readable());
    });
}
