//! Many simultaneous connections, limits and shutdown.

use crate::support::{Client, Got, LONG, Site, kinds};
use landau_reactor::backends;
use landau_serve::{Accepting, Listen};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const GET: &[u8] = b"GET /f HTTP/1.1\r\nHost: x\r\n\r\n";

/// All backends give the same responses.
#[test]
fn every_backend_serves() {
    for backend in backends() {
        println!("with {backend}");
        let large = vec![b'x'; 3 << 20];
        let site = Site::new(&[("f", b"content"), ("large", &large)], |config| config.backend = backend);
        let mut clients: Vec<_> = (0..100).map(|_| site.connect()).collect();
        for _ in 0..3 {
            for client in &mut clients {
                client.send(GET);
            }
            assert!(clients.iter_mut().all(|client| client.answer().unwrap().body == b"content"), "{backend}");
        }
        assert_eq!(site.get("/large", "").body.len(), large.len(), "{backend}");
        drop(clients);
        assert_eq!(site.end().succeeded, 301, "{backend}");
    }
}

/// Every way of accepting serves all connections and shuts down cleanly.
#[test]
fn every_way_of_accepting_serves() {
    let has_ring = backends().contains(&landau_reactor::Backend::IoUring);
    for (name, accepting) in Accepting::ALL.iter().filter(|(_, one)| has_ring || *one != Accepting::Multishot) {
        println!("accepting: {name}");
        let site = Site::new(&[("f", b"content")], |config| (config.workers, config.accepting) = (3, *accepting));
        let mut clients: Vec<_> = (0..60).map(|_| site.connect()).collect();
        for client in &mut clients {
            client.send(GET);
        }
        assert!(clients.iter_mut().all(|client| client.answer().unwrap().status == 200), "{name}");
        // The drain closes idle connections at once, and busy ones after their response.
        let totals = site.end();
        assert_eq!((totals.accepted, totals.closed, totals.succeeded), (60, 60, 60), "{name}");
        assert!(clients.iter_mut().all(crate::support::Client::is_ended), "{name}");
    }
}

#[test]
fn connections_over_a_limit_get_503_or_429() {
    let site = Site::new(&[("f", b"content")], |config| config.connections = Some(10));
    let mut inside: Vec<_> = (0..10).map(|_| site.connect()).collect();
    for client in &mut inside {
        client.send(GET);
    }
    assert!(inside.iter_mut().all(|client| client.answer().is_some_and(|got| got.status == 200)));
    let Got { status, head, .. } = site.connect().answer().unwrap();
    assert!(status == 503 && head.contains("Retry-After"), "{head}");
    inside.pop();
    let began = Instant::now();
    while site.get_or_refused() != 200 {
        assert!(began.elapsed() < LONG, "the freed place is never reused");
    }

    let site = Site::new(&[("f", b"content")], |config| config.connections_per_address = Some(2));
    let _two = [site.connect(), site.connect()];
    assert_eq!(site.connect().answer().unwrap().status, 429);
}

/// A closed connection makes room for the next one from its address. A dual-stack socket reports the same client with
/// an IPv4-mapped address, which shares the count. Other addresses have separate counts.
#[test]
fn closed_connections_do_not_count() {
    for kind in kinds() {
        let site = Site::new(&[("f", b"content")], |config| {
            config.listen.push("[::]:0".parse().unwrap());
            (config.connections_per_address, config.accepting) = (Some(2), kind);
        });
        let Listen::Tcp(both) = site.server().addresses()[1].clone() else { panic!("the second address is TCP") };
        let connect = |host: &str| Client::new(TcpStream::connect(format!("{host}:{}", both.port())).unwrap());
        for round in 0..6 {
            let mut client = connect("127.0.0.1");
            client.send(b"GET /f HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
            assert_eq!(client.answer().unwrap().status, 200, "{kind:?}: round {round}");
            assert!(client.is_ended());
        }
        let _two = [site.connect(), connect("127.0.0.1")];
        assert_eq!(connect("127.0.0.1").answer().unwrap().status, 429, "{kind:?}: both sockets count the same");
        let mut other = connect("[::1]");
        other.send(GET);
        assert_eq!(other.answer().unwrap().status, 200, "{kind:?}: another address");
    }
}

/// The first waiting worker is woken; without turns it would get nearly all connections that arrive one by one.
#[test]
#[cfg(target_os = "linux")]
fn workers_that_share_a_listener_take_turns() {
    // A worker that gets no CPU time for that long misses its turn. Without turns, one worker gets all connections each
    // time.
    let takes_turns = || {
        let site =
            Site::new(&[("f", b"content")], |config| (config.accepting, config.workers) = (Accepting::Shared, 4));
        let mut clients = Vec::new();
        for _ in 0..160 {
            let mut client = site.connect();
            client.send(GET);
            assert_eq!(client.answer().unwrap().status, 200);
            clients.push(client);
            // By then the worker waits again, unless the machine is busy.
            std::thread::sleep(Duration::from_millis(2));
        }
        site.server().totals_by_worker().iter().all(|one| one.accepted > 0)
    };
    assert!((0..5).any(|_| takes_turns()));
}

/// During a drain the server refuses new connections and finishes requests in progress.
#[test]
fn connections_while_the_server_ends_are_refused() {
    let ways = kinds().into_iter().chain([Accepting::Steered, Accepting::Shared, Accepting::Handed]);
    for (accepting, is_passed) in ways.flat_map(|one| [(one, false), (one, true)]) {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        let site = Site::new(&[("f", b"content")], |config| {
            (config.accepting, config.workers, config.timeouts.drain) = (accepting, 2, 2 * LONG);
            if is_passed {
                let passed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
                config.listen = vec![Listen::Inherited(std::os::fd::IntoRawFd::into_raw_fd(passed))];
            }
            config.listen.push(Listen::Unix(socket.clone()));
        });
        let mut busy = site.connect();
        busy.send(&[GET, b"GET /f"].concat());
        assert_eq!(busy.answer().unwrap().status, 200);
        site.server().drain();
        let began = Instant::now();
        while TcpStream::connect(site.address).is_ok() || std::os::unix::net::UnixStream::connect(&socket).is_ok() {
            assert!(began.elapsed() < LONG, "{accepting:?}, passed on {is_passed}: clients can still connect");
            std::thread::yield_now();
        }
        busy.send(&GET[b"GET /f".len()..]);
        assert_eq!(busy.answer().unwrap().status, 200, "{accepting:?}");
        assert!(busy.is_ended());
        site.end();
    }
}

/// Clients that connected before the drain get their responses.
#[test]
fn connections_waiting_at_the_end_are_answered() {
    for accepting in kinds().into_iter().chain([Accepting::Shared, Accepting::Handed]) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("f"), "content").unwrap();
        let mut config = landau_serve::Config::new(folder.path());
        (config.accepting, config.workers, config.timeouts.drain) = (accepting, 2, 2 * LONG);
        config.listen = vec!["127.0.0.1:0".parse().unwrap()];
        let server = landau_serve::Server::start(config).unwrap();
        let Listen::Tcp(address) = server.addresses()[0].clone() else { panic!("it listens on TCP") };
        let mut clients: Vec<_> = (0..20).map(|_| Client::new(TcpStream::connect(address).unwrap())).collect();
        for client in &mut clients {
            client.send(GET);
        }
        // These send nothing, and the drain does not wait for them.
        let _silent = [TcpStream::connect(address).unwrap(), TcpStream::connect(address).unwrap()];
        server.drain();
        server.release();
        for client in &mut clients {
            let got = client.answer().unwrap_or_else(|| panic!("{accepting:?}: closed without an answer"));
            assert_eq!((got.status, got.field("Connection")), (200, Some("close")));
        }
        drop(clients);
        let totals = server.join().unwrap();
        assert_eq!((totals.accepted, totals.closed, totals.succeeded), (22, 22, 20), "{accepting:?}");
    }
}

/// A connection goes to the worker of the processor that received it, whatever the order in which workers start.
#[test]
#[cfg(target_os = "linux")]
fn steered_connections_go_to_their_processor() {
    let processors = landau_sys::system::processors();
    if !processors.starts_with(&[0, 1]) {
        println!("skipped: this test requires the first two processors");
        return;
    }
    for _ in 0..16 {
        let site = Site::new(&[("f", b"content")], |config| {
            (config.workers, config.accepting, config.processors) = (2, Accepting::Steered, vec![0, 1]);
        });
        for processor in [0, 1, 0, 1] {
            let accepted = || site.server().totals_by_worker()[processor as usize].accepted;
            let (before, address) = (accepted(), site.address);
            let there = std::thread::spawn(move || {
                landau_sys::system::pin(&[processor]).unwrap();
                let mut client = Client::new(TcpStream::connect(address).unwrap());
                client.send(GET);
                client.answer().unwrap().status
            });
            assert_eq!(there.join().unwrap(), 200);
            assert_eq!(accepted(), before + 1, "{:?}", site.server().totals_by_worker());
        }
    }
}

/// Limits apply to the whole server, for any number of workers and every way of accepting.
#[test]
fn limits_hold_over_all_workers() {
    for accepting in kinds().into_iter().chain([Accepting::Shared, Accepting::Handed]) {
        let served = |change: &dyn Fn(&mut landau_serve::Config)| {
            let site = Site::new(&[("f", b"content")], |config| {
                (config.workers, config.accepting) = (4, accepting);
                change(config);
            });
            let mut clients: Vec<_> = (0..40).map(|_| site.connect()).collect();
            let get = |client: &mut Client| {
                client.send(GET);
                client.answer().is_some_and(|got| got.status == 200)
            };
            let served: Vec<_> = clients.extract_if(.., |client| get(client)).collect();
            let (count, began) = (served.len(), Instant::now());
            // Each closed connection makes room for another.
            for mut client in served {
                client.stream.shutdown(std::net::Shutdown::Both).unwrap();
                while !get(&mut client) {
                    assert!(began.elapsed() < LONG, "the freed place is never reused");
                    client = site.connect();
                }
            }
            count
        };
        assert_eq!(served(&|config| config.connections = Some(9)), 9, "{accepting:?}");
        assert_eq!(served(&|config| config.connections_per_address = Some(3)), 3, "{accepting:?}");
    }
}

impl Site {
    /// Returns the status of the response, or of a refusal sent before the request.
    fn get_or_refused(&self) -> u16 {
        let mut client = self.connect();
        client.send(GET);
        client.answer().map_or(0, |got| got.status)
    }
}

/// A drain finishes responses in progress.
#[test]
fn responses_under_way_are_finished_at_the_end() {
    let large = vec![b'x'; 20 << 20];
    let site = Site::new(&[("large", &large)], |config| config.timeouts.drain = Duration::from_secs(20));
    let mut client = site.connect();
    client.send(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n");
    let began = Instant::now();
    while site.server().totals().requests == 0 {
        assert!(began.elapsed() < LONG, "the request is never answered");
    }
    site.server().drain();
    assert_eq!(client.answer().unwrap().body.len(), large.len());
    assert_eq!(site.end().succeeded, 1);
}

/// Workers that watched the same socket from the same moment on could once all miss its connections (`sigio`): the
/// kernel signals one of them, with the descriptor number of another.
#[test]
fn workers_that_share_a_socket_miss_no_connection() {
    for backend in landau_reactor::backends().into_iter().filter(|&one| one != landau_reactor::Backend::Null) {
        for _ in 0..25 {
            let site = Site::new(&[("a", b"hello")], |config| {
                (config.accepting, config.backend, config.workers) = (Accepting::Shared, backend, 2);
            });
            assert_eq!(site.get("/a", "").status, 200);
            site.end();
        }
    }
}
