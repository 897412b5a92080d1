//! `landau inspect` names the architecture of servers whose architecture is known: those of the benchmark
//! `architecture`, under simultaneous connections of which half end during the window.

use crate::support::{LANDAU, Room};
use landau_architectures::{ALL, Architecture, Arguments, Workload, command_of};
use landau_reactor::Backend;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Simultaneous connections.
const CONNECTIONS: usize = 60;

/// A server of the benchmark, which ends with the test.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(architecture: &'static Architecture, backend: Backend, pool: u32) -> Self {
        let given = Arguments { architecture, workload: Workload::Work, pool, most: 500, backend };
        let mut command = command_of(Path::new(LANDAU), &given);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { port: line.trim().parse().unwrap(), child }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Opens connections, and sends a request on one of them every 5 ms until `is_over`. After about a second it closes one
/// every 50 ms, until half of them are left.
fn load(port: u16, is_over: &AtomicBool) {
    let connect = |_| {
        let connection = TcpStream::connect(("127.0.0.1", port)).unwrap();
        // Nobody replies on a connection that a full pool has not accepted.
        connection.set_nonblocking(true).unwrap();
        connection
    };
    let mut open: Vec<TcpStream> = (0..CONNECTIONS).map(connect).collect();
    let mut closed = 0;
    for round in 0.. {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        if round >= 200 && round % 10 == 0 && closed < CONNECTIONS / 2 {
            // Every other one: the pool serves the first ones.
            drop(open.remove(closed));
            closed += 1;
        }
        let place = round % open.len();
        let _ = open[place].write_all(b"x");
        let _ = open[place].read(&mut [0; 64]);
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Inspects a server under load.
fn inspected(server: &Server, words: &[&str]) -> Value {
    let is_over = AtomicBool::new(false);
    let port = server.port.to_string();
    let ran = std::thread::scope(|scope| {
        scope.spawn(|| load(server.port, &is_over));
        let fixed = ["inspect", "--port", &port, "--for", "4s", "--json"];
        let ran = Room::new().landau(&[&fixed, words].concat());
        is_over.store(true, Ordering::Relaxed);
        ran
    });
    assert!(matches!(ran.status, Some(0 | 1)), "{ran:?}");
    serde_json::from_str(&ran.out).unwrap()
}

/// Checks an answer: it is the right one, with its evidence.
fn expect(server: &Server, architecture: &str, mechanism: &str) {
    let found = inspected(server, &[]);
    assert_eq!(found["architecture"], architecture, "{found:#}");
    assert_eq!(found["mechanism"][0], mechanism, "{found:#}");
    assert_eq!((&found["schema"], &found["pid"]), (&Value::from(1), &Value::from(server.child.id())));
    assert!(found["evidence"].as_array().is_some_and(|all| all.len() >= 2), "{found:#}");
    assert!(found["limit"]["at_most"].as_u64().is_some_and(|most| most > 0), "{found:#}");
}

fn named(name: &str) -> &'static Architecture {
    ALL.iter().find(|one| one.name == name).unwrap()
}

/// All architectures of the benchmark, with both kinds of pools: larger than the load, and full.
#[test]
fn each_architecture_of_the_benchmark_is_named() {
    let epoll = Backend::default();
    let cases = [
        ("exec", 1, "exec", "blocking"),
        ("fork", 1, "fork", "blocking"),
        ("prefork", 80, "prefork", "blocking"),
        ("prefork", 16, "prefork", "blocking"),
        ("thread", 1, "thread", "blocking"),
        ("thread-pool", 80, "thread_pool", "blocking"),
        ("thread-pool", 16, "thread_pool", "blocking"),
        ("event-loop", 1, "event_loop", "epoll"),
    ];
    for (name, pool, answer, mechanism) in cases {
        expect(&Server::start(named(name), epoll, pool), answer, mechanism);
    }
}

/// Without connections nothing is claimed, and what would decide is named.
#[test]
fn an_idle_server_cannot_be_told() {
    let server = Server::start(named("event-loop"), Backend::default(), 1);
    let pid = server.child.id().to_string();
    let ran = Room::new().landau(&["inspect", &pid, "--for", "500ms", "--json"]);
    let found: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.status, &found["architecture"]), (Some(1), &Value::Null), "{ran:?}");
    assert!(found["unseen"][0]["why"].as_str().is_some_and(|why| why.contains("200 simultaneous")), "{found:#}");
}

#[test]
fn what_cannot_be_inspected_is_an_error() {
    let ran = Room::new().landau(&["inspect", "4294967295"]);
    assert_eq!((ran.status, ran.out.as_str()), (Some(2), ""));
    assert!(ran.err.contains("there is no process 4294967295"), "{ran:?}");
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let ran = Room::new().landau(&["inspect", "--port", &free]);
    assert!(ran.status == Some(2) && ran.err.contains("no program listens on TCP port"), "{ran:?}");
    let own = std::process::id().to_string();
    let both = Room::new().landau(&["inspect", &own, "--port", &free]);
    assert!(both.status == Some(2) && both.err.contains("cannot be used with"), "{both:?}");
}

#[test]
fn each_backend_of_an_event_loop_is_named() {
    for name in ["poll", "select"] {
        expect(&Server::start(named("event-loop"), name.parse().unwrap(), 1), "event_loop", name);
    }
}
