//! What every mechanism must do alike.

use landau_reactor::{Event, Interest, Mechanism, Reactor, Token, mechanisms};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(20);

/// Each mechanism of this system in turn; what fails says with which.
fn each(test: impl Fn(&mut Reactor)) {
    let there = mechanisms();
    assert!(there.contains(&Mechanism::default()), "{there:?}");
    for mechanism in there {
        println!("with {mechanism}");
        test(&mut Reactor::new(mechanism).unwrap());
    }
}

fn events(reactor: &mut Reactor, limit: Duration) -> Vec<Event> {
    reactor.wait(Some(limit)).unwrap();
    std::iter::from_fn(|| reactor.next_event()).collect()
}

/// What is there but is not read is told again, whatever the kernel does; what was used up is told when there is more.
#[test]
fn it_is_level_to_the_user() {
    each(|reactor| {
        let (mut reading, mut writing) = UnixStream::pair().unwrap();
        reactor.register(&reading, Token(1), Interest::READ).unwrap();
        writing.write_all(b"abc").unwrap();
        for _ in 0..3 {
            let told = events(reactor, LONG);
            assert!(told.len() == 1 && told[0].token == Token(1) && told[0].ready.is_readable(), "{told:?}");
        }
        let mut buffer = [0; 8];
        assert_eq!(reading.read(&mut buffer).unwrap(), 3);
        reactor.used_up(&reading, Interest::READ);
        if reactor.mechanism() != Mechanism::Null {
            assert_eq!(events(reactor, Duration::ZERO), vec![]);
        }
        writing.write_all(b"d").unwrap();
        assert_eq!(events(reactor, LONG).len(), 1);
        reactor.deregister(&reading).unwrap();
        assert_eq!(events(reactor, Duration::ZERO), vec![]);
    });
}
