//! A descriptor that another process watches.

use crate::child;
use crate::common::{LONG, among_others, events, pair, quiet};
use landau_reactor::{Backend, Interest, Reactor, Token, backends, handover};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

const NAME: &str = "handover::what_was_handed_over_is_watched_there";

/// The other process: takes the line as its standard input, two connections from it, and echoes in capitals.
fn echo() {
    let line = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let mut name = [0; 32];
    let received = handover::take(&line, &mut name, 2).unwrap().unwrap();
    let backend: Backend = std::str::from_utf8(&name[..received.byte_count]).unwrap().parse().unwrap();
    let mut reactor = Reactor::new(backend).unwrap();
    let mut streams: Vec<Option<UnixStream>> = received.descriptors.into_iter().map(|fd| Some(fd.into())).collect();
    for (index, stream) in streams.iter().flatten().enumerate() {
        reactor.register(stream, Token(index as u32), Interest::READABLE).unwrap();
    }
    while !reactor.is_empty() {
        for event in events(&mut reactor, LONG) {
            let place = &mut streams[event.token.0 as usize];
            let stream = place.as_mut().unwrap();
            let mut bytes = [0; 64];
            match stream.read(&mut bytes) {
                Ok(0) => reactor.close(place.take().unwrap().into()).unwrap(),
                Ok(count) => stream.write_all(&bytes[..count].to_ascii_uppercase()).unwrap(),
                Err(_) => reactor.clear_readiness(stream, Interest::READABLE),
            }
        }
    }
}

#[test]
fn what_was_handed_over_is_watched_there() {
    if child::is("echo") {
        return echo();
    }
    let _guard = among_others();
    for backend in backends() {
        println!("with {backend}");
        let (here, there) = handover::line().unwrap();
        let mut command = child::command("", NAME, "echo");
        let mut other = command.stdin(there).stdout(std::process::Stdio::null()).spawn().unwrap();
        drop(command);
        let ((mut one, one_there), (mut two, two_there)) = (pair(), pair());
        // Watched here first: what is left behind here must not reach over there.
        let mut reactor = Reactor::new(backend).unwrap();
        reactor.register(&one_there, Token(1), Interest::READABLE).unwrap();
        quiet(&mut reactor);
        reactor.deregister(&one_there).unwrap();
        handover::give(&here, backend.name().as_bytes(), &[one_there.as_fd(), two_there.as_fd()]).unwrap();
        drop((one_there, two_there));
        for stream in [&mut one, &mut two] {
            stream.set_nonblocking(false).unwrap();
            for (question, answer) in [(b"hello", b"HELLO"), (b"world", b"WORLD")] {
                stream.write_all(question).unwrap();
                let mut got = [0; 5];
                stream.read_exact(&mut got).unwrap();
                assert_eq!(&got, answer);
            }
        }
        assert_eq!(reactor.next_event(), None);
        drop((one, two));
        assert!(other.wait().unwrap().success());
    }
}

#[test]
fn messages_stay_apart_and_whole() {
    let (here, there) = handover::line().unwrap();
    let (one, two) = pair();
    let ends: Vec<OwnedFd> = vec![one.into(), two.into()];
    handover::give(&here, b"first", &[ends[0].as_fd()]).unwrap();
    handover::give(&here, b"second", &[]).unwrap();
    handover::give(&here, b"third", &[ends[0].as_fd(), ends[1].as_fd()]).unwrap();
    let mut bytes = [0; 64];
    let first = handover::take(&there, &mut bytes, 1).unwrap().unwrap();
    assert_eq!((&bytes[..first.byte_count], first.descriptors.len()), (&b"first"[..], 1));
    let second = handover::take(&there, &mut bytes, 1).unwrap().unwrap();
    assert_eq!((&bytes[..second.byte_count], second.descriptors.len()), (&b"second"[..], 0));
    assert!(handover::take(&there, &mut bytes, 1).is_err());
    drop(here);
    assert!(handover::take(&there, &mut bytes, 1).unwrap().is_none());
}
