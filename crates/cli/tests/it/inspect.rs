//! `landau inspect` on servers of known architecture: those of the benchmark `architecture`, under simultaneous
//! connections, half of which end during the window.

use crate::serve::Serving;
use crate::support::{LANDAU, Process, Ran, Room, eventually, install};
use landau_architectures::{ALL, Architecture, Arguments, Workload, command_of};
use landau_reactor::{Backend, Reactor};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The number of simultaneous connections.
const CONNECTIONS: usize = 60;

/// A server of the benchmark. It ends with the test.
struct Server {
    child: Process,
    port: u16,
}

impl Server {
    fn start(architecture: &'static Architecture, backend: Backend, pool: u32) -> Self {
        let given = Arguments { architecture, workload: Workload::Work, pool, most: 500, backend };
        Self::of(command_of(Path::new(LANDAU), &given))
    }

    /// Starts a command that prints its port.
    fn of(mut command: Command) -> Self {
        let mut child = Process::spawn(command.stdin(Stdio::null()).stdout(Stdio::piped())).unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { port: line.trim().parse().unwrap(), child }
    }
}

/// Opens connections, and sends a request on one of them every 5 ms until `is_over`. After about a second it closes one
/// connection every 50 ms, until half of them are left.
fn load(port: u16, is_over: &AtomicBool) {
    let connect = |_| {
        let connection = TcpStream::connect(("127.0.0.1", port)).unwrap();
        // A connection that a full pool has not accepted gets no reply.
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

/// Returns whether system calls cannot be traced here, because of a missing privilege or a feature that the host lacks;
/// if so, prints that the test is skipped. Any other refusal is a defect.
fn is_refused(ran: &Ran) -> bool {
    const RIGHTS: [&str; 5] = ["EPERM", "EACCES", "ENOSYS", "not permitted", "ptrace_scope"];
    // A container, a kernel without BTF, an unsupported processor.
    const LACKS: [&str; 4] = [
        "in a non-initial PID namespace",
        "does not describe its structures",
        "cannot read system calls by ptrace",
        "registers of this processor are not known",
    ];
    if !ran.err.contains("cannot trace system calls") {
        return false;
    }
    assert!(RIGHTS.iter().chain(&LACKS).any(|reason| ran.err.contains(reason)), "{ran:?}");
    eprintln!("skipped: {}", ran.err.trim());
    true
}

/// Inspects a server under load. Returns `None`, and prints the reason, if the kernel refuses the evidence.
fn traced(server: &Server, words: &[&str]) -> Option<Value> {
    let ran = ran(server, words);
    if ran.status == Some(2) && is_refused(&ran) {
        return None;
    }
    assert!(matches!(ran.status, Some(0 | 1)), "{ran:?}");
    Some(serde_json::from_str(&ran.out).unwrap())
}

/// Inspects a server under load with `/proc` only.
fn inspected(server: &Server, words: &[&str]) -> Value {
    let ran = ran(server, &[&["--evidence", "proc"], words].concat());
    assert!(matches!(ran.status, Some(0 | 1)), "{ran:?}");
    serde_json::from_str(&ran.out).unwrap()
}

fn ran(server: &Server, words: &[&str]) -> Ran {
    told(4, |window| under(server, load, &[&["--for", window][..], words].concat()))
}

/// Inspects for `seconds`. While the answer is "cannot tell", which is not an error on busy processors, repeats with
/// windows of up to four times that length.
fn told(seconds: u32, inspect: impl Fn(&str) -> Ran) -> Ran {
    let times = |factor: u32| inspect(&format!("{}s", seconds * factor));
    (2..=4).fold(times(1), |ran, factor| if ran.status == Some(1) { times(factor) } else { ran })
}

/// Checks that the answer is correct and contains its evidence.
fn expect(server: &Server, architecture: &str, mechanism: &str) {
    let found = inspected(server, &[]);
    assert_eq!(found["architecture"], architecture, "{found:#}");
    assert_eq!(found["mechanism"][0], mechanism, "{found:#}");
    assert_eq!((&found["schema"], &found["pid"]), (&Value::from(3), &Value::from(server.child.id())));
    assert_eq!((&found["evidence_grade"], &found["traced"]), (&Value::from(1), &Value::Null));
    assert!(found["evidence"].as_array().is_some_and(|all| all.len() >= 2), "{found:#}");
    assert!(found["limit"]["at_most"].as_u64().is_some_and(|most| most > 0), "{found:#}");
}

fn named(name: &str) -> &'static Architecture {
    ALL.iter().find(|one| one.name == name).unwrap()
}

/// Covers all architectures of the benchmark, with both kinds of pools: larger than the load, and full.
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
        ("event-loops", 1, "event_loops", "epoll"),
    ];
    for (name, pool, answer, mechanism) in cases {
        if name == "event-loops" && std::thread::available_parallelism().is_ok_and(|processors| processors.get() < 2) {
            eprintln!("skipped: event-loops has one loop on one processor");
            continue;
        }
        expect(&Server::start(named(name), epoll, pool), answer, mechanism);
    }
}

/// Without connections the answer makes no claim, and names the missing evidence.
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
    for name in ["io_uring", "io_uring-once"] {
        let backend: Backend = name.parse().unwrap();
        if let (_, Some(why)) = Reactor::resolve_backend(backend).unwrap() {
            eprintln!("skipped: {name}: {why}");
            continue;
        }
        expect(&Server::start(named("event-loop"), backend, 1), "event_loop", "io_uring");
        if name == "io_uring" {
            expect(&Server::start(named(name), Backend::default(), 1), "event_loop", name);
        }
    }
}

/// A variant: its architecture, backend and pool size, the expected answer, and how it waits.
type Variant = (&'static str, &'static str, u32, &'static str, &'static str);

const VARIANTS: [Variant; 10] = [
    ("exec", "epoll", 1, "exec", "blocking"),
    ("fork", "epoll", 1, "fork", "blocking"),
    ("prefork", "epoll", 16, "prefork", "blocking"),
    ("thread", "epoll", 1, "thread", "blocking"),
    ("thread-pool", "epoll", 16, "thread_pool", "blocking"),
    ("event-loop", "epoll", 1, "event_loop", "epoll"),
    ("event-loop", "epoll-edge", 1, "event_loop", "epoll"),
    ("event-loop", "poll", 1, "event_loop", "poll"),
    ("event-loop", "select", 1, "event_loop", "select"),
    ("event-loop", "sigio", 1, "event_loop", "sigio"),
];

/// Checks that evidence of a grade names these variants, and how they accept, send and wait.
fn expect_variants<'a>(variants: impl IntoIterator<Item = &'a Variant>, evidence: &str, grade: u8) {
    for &(name, backend, pool, answer, mechanism) in variants {
        let server = Server::start(named(name), backend.parse().unwrap(), pool);
        let Some(found) = traced(&server, &["--evidence", evidence]) else { return };
        assert_eq!(found["architecture"], answer, "{found:#}");
        assert_eq!(found["mechanism"][0], mechanism, "{found:#}");
        assert_eq!((&found["evidence_grade"], &found["evidence_by"]), (&Value::from(grade), &Value::from(evidence)));
        // The standard output of the executed program is the connection.
        let sends = if name == "exec" { "write" } else { "sendto" };
        assert_eq!(found["traced"]["sends"], Value::from(vec![sends]), "{found:#}");
        assert!(found["traced"]["replies"].as_u64().is_some_and(|replies| replies > 0), "{found:#}");
        assert_eq!(found["traced"]["stopped"].is_null(), evidence == "bpf", "{found:#}");
        if mechanism == "epoll" {
            assert_eq!(found["is_edge_triggered"], backend == "epoll-edge", "{found:#}");
        }
    }
}

#[test]
fn calls_at_tracepoints_show_how_a_server_sends_and_waits() {
    expect_variants(&VARIANTS, "bpf", 2);
}

/// Covers pools and tasks with connections that end, and event loops with connections that stay open. An executed
/// program makes too many calls before it serves.
#[test]
fn stops_at_calls_show_how_a_server_sends_and_waits() {
    let is_loop = |variant: &&Variant| matches!(variant.1, "epoll-edge" | "sigio");
    expect_variants(VARIANTS.iter().filter(is_loop), "ptrace", 3);
    let ending =
        [("fork", 1, "fork"), ("thread", 1, "thread"), ("prefork", 4, "prefork"), ("thread-pool", 4, "thread_pool")];
    for (name, pool, answer) in ending {
        let architecture = named(name);
        let given = Arguments { architecture, workload: Workload::Busy, pool, most: 500, backend: Backend::default() };
        let server = Server::of(command_of(Path::new(LANDAU), &given));
        let inspect =
            |window: &str| under(&server, several_short_connections, &["--for", window, "--evidence", "ptrace"]);
        let ran = told(6, inspect);
        if is_refused(&ran) {
            return;
        }
        let found: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!((&found["architecture"], &found["mechanism"][0]), (&answer.into(), &"blocking".into()), "{ran:?}");
        assert_eq!(found["traced"]["sends"], Value::from(vec!["sendto"]), "{ran:?}");
        assert!(found["traced"]["established"].as_u64().is_some_and(|count| count > 0), "{ran:?}");
    }
}

/// Inspects a server under this load.
fn under(server: &Server, load: fn(u16, &AtomicBool), words: &[&str]) -> Ran {
    let is_over = AtomicBool::new(false);
    let port = server.port.to_string();
    std::thread::scope(|scope| {
        scope.spawn(|| load(server.port, &is_over));
        let ran = Room::new().landau(&[&["inspect", "--port", &port, "--json"], words].concat());
        is_over.store(true, Ordering::Relaxed);
        ran
    })
}

/// The web server has a separate descriptor table for each worker, and sends files that it does not cache with
/// `sendfile`.
#[test]
fn the_web_server_is_inspected_though_its_threads_have_their_own_descriptors() {
    let room = Room::new();
    std::fs::create_dir(room.file("www")).unwrap();
    std::fs::write(room.file("www/index.html"), "hello").unwrap();
    let serving = Serving::new(&mut room.command(&["serve", "www", "--listen", "127.0.0.1:0", "--workers", "1"]));
    let (port, url) = (serving.address.port().to_string(), format!("http://{}/", serving.address));
    for evidence in ["proc", "bpf"] {
        let words = ["inspect", "--port", &port, "--json", "--load", &url, "--evidence", evidence, "--for"];
        let ran = told(8, |window| {
            let ran = room.landau(&[&words[..], &[window]].concat());
            // The output of the load exceeds the capacity of a pipe. It once blocked without a reader, and was
            // considered failed.
            assert!(!ran.err.contains("--load"), "{ran:?}");
            ran
        });
        if is_refused(&ran) {
            break;
        }
        let found: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(
            (&found["architecture"], &found["mechanism"][0]),
            (&"event_loop".into(), &"epoll".into()),
            "{ran:?}"
        );
        assert!(!found["unseen"].to_string().contains("--load"), "{ran:?}");
        if evidence == "bpf" {
            assert_eq!(found["traced"]["sends"], Value::from(vec!["sendto"]), "{ran:?}");
        }
    }
    serving.end();
}

/// An unprivileged user and its copy of the program; `None` if this process cannot become that user.
struct Nobody {
    user: landau_sys::privilege::Identity,
    room: Room,
    program: std::path::PathBuf,
}

impl Nobody {
    fn new() -> Option<Self> {
        use std::os::unix::fs::PermissionsExt;
        let Some(user) = landau_sys::privilege::user("nobody").unwrap() else {
            eprintln!("skipped: there is no user nobody");
            return None;
        };
        if landau_sys::process::effective_user() != 0 {
            eprintln!("skipped: this needs root, to become nobody");
            return None;
        }
        let room = Room::new();
        let program = room.file("landau");
        install(LANDAU, &program);
        std::fs::set_permissions(room.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        Some(Self { user, room, program })
    }

    /// Starts a server as this user.
    fn server(&self, name: &str, workload: Workload) -> Server {
        use std::os::unix::process::CommandExt;
        let backend = Backend::default();
        let given = Arguments { architecture: named(name), workload, pool: 1, most: 500, backend };
        let mut command = command_of(&self.program, &given);
        command.uid(self.user.user).gid(self.user.group).current_dir(self.room.path());
        Server::of(command)
    }

    /// Inspects a server as this user, under this load, until the answer is not "cannot tell".
    fn inspect(&self, server: &Server, load: fn(u16, &AtomicBool), words: &[&str]) -> Ran {
        told(5, |window| self.inspect_for(window, server, load, words))
    }

    /// Inspects a server as this user, under this load, once.
    fn inspect_for(&self, window: &str, server: &Server, load: fn(u16, &AtomicBool), words: &[&str]) -> Ran {
        use std::os::unix::process::CommandExt;
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| load(server.port, &is_over));
            let mut command = self.room.other(self.program.to_str().unwrap(), &["inspect", "--json", "--for", window]);
            command.uid(self.user.user).gid(self.user.group).args(["--port", &server.port.to_string()]).args(words);
            let ran = Ran::of(command.output().unwrap());
            is_over.store(true, Ordering::Relaxed);
            ran
        })
    }
}

/// An unprivileged user inspects its own server with `/proc`. Tracing is refused, with a reason.
#[test]
fn a_user_without_rights_inspects_its_own_server() {
    let Some(nobody) = Nobody::new() else { return };
    let server = nobody.server("event-loop", Workload::Work);
    let ran = nobody.inspect(&server, load, &[]);
    let found: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&found["architecture"], &found["evidence_grade"]), (&"event_loop".into(), &1.into()), "{ran:?}");
    let why = found["unseen"].as_array().unwrap().iter().find(|one| one["what"].as_str().unwrap().contains("sends"));
    assert!(why.unwrap()["why"].as_str().unwrap().contains("EPERM"), "{ran:?}");
    let ran = nobody.inspect(&server, load, &["--evidence", "bpf"]);
    assert!(ran.status == Some(2) && ran.err.contains("run landau inspect as root"), "{ran:?}");
}

/// Opens connections one after the other, and reads from each until the server closes it.
fn short_connections(port: u16, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        let mut connection = TcpStream::connect(("127.0.0.1", port)).unwrap();
        // A server without a free thread closes the connection without a reply.
        let _ = connection.read_to_end(&mut Vec::new());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Does the same as `short_connections`, several at a time.
fn several_short_connections(port: u16, is_over: &AtomicBool) {
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| short_connections(port, is_over));
        }
    });
}

/// These threads end before a sample sees them with their connections, so `/proc` alone does not show their purpose. A
/// user without permission for BPF traces its own server with ptrace, which shows it.
#[test]
fn a_user_without_rights_stops_its_own_server_at_its_calls() {
    let Some(nobody) = Nobody::new() else { return };
    let server = nobody.server("thread", Workload::Busy);
    let by_proc = nobody.inspect_for("5s", &server, short_connections, &["--evidence", "proc"]);
    let found: Value = serde_json::from_str(&by_proc.out).unwrap();
    assert_eq!((by_proc.status, &found["architecture"]), (Some(1), &Value::Null), "{by_proc:?}");
    let ran = nobody.inspect(&server, short_connections, &["--evidence", "ptrace"]);
    if ran.err.contains("ptrace_scope") {
        eprintln!("skipped: {}", ran.err.trim());
        return;
    }
    let found: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&found["architecture"], &found["evidence_grade"]), (&"thread".into(), &3.into()), "{ran:?}");
    assert_eq!(found["traced"]["sends"], Value::from(vec!["sendto"]), "{ran:?}");
    let stopped = &found["traced"]["stopped"];
    assert!(stopped["calls"].as_u64() > Some(10) && stopped["each_us"].as_f64() > Some(0.0), "{ran:?}");
    let last = found["evidence"].as_array().unwrap().last().unwrap().as_str().unwrap();
    assert!(last.contains("each stopped the server for at least"), "{ran:?}");
    expect_free(&server, b"");
    // Tracing another user's server is refused.
    let other = Server::start(named("thread"), Backend::default(), 1);
    let ran = nobody.inspect(&other, load, &["--evidence", "ptrace"]);
    assert!(ran.status == Some(2) && ran.err.contains("as root or as"), "{ran:?}");
}

/// Returns a field of a process's status.
fn status_of(pid: u32, field: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    text.lines().find_map(|line| Some(line.strip_prefix(field)?.trim().to_owned())).unwrap()
}

/// Checks that the server is no longer traced, and that it replies to this request.
fn expect_free(server: &Server, request: &[u8]) {
    let pid = server.child.id();
    assert!(eventually(|| status_of(pid, "TracerPid:") == "0"), "{}", status_of(pid, "TracerPid:"));
    let mut connection = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    connection.write_all(request).unwrap();
    assert!(connection.read(&mut [0; 64]).unwrap() > 0);
    assert!(!status_of(pid, "State:").starts_with('t'), "{}", status_of(pid, "State:"));
}

/// Starts an inspection that stops the server at its calls until the inspection ends.
fn start_stopping(room: &Room, server: &Server) -> Option<Process> {
    start_stopping_with(room, server, &[])
}

/// Does the same with further options.
fn start_stopping_with(room: &Room, server: &Server, words: &[&str]) -> Option<Process> {
    let port = server.port.to_string();
    let mut command = room.command(&["inspect", "--port", &port, "--for", "600s", "--json", "--evidence", "ptrace"]);
    let mut child = Process::spawn(command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped())).unwrap();
    let is_there =
        eventually(|| status_of(server.child.id(), "TracerPid:") != "0" || child.try_wait().unwrap().is_some());
    assert!(is_there);
    if child.try_wait().unwrap().is_none() {
        return Some(child);
    }
    let ran = Ran::of(child.wait_with_output().unwrap());
    assert!(is_refused(&ran), "{ran:?}");
    None
}

/// The server continues whenever and however the inspection ends; here, by SIGKILL after a number of requests.
#[test]
fn a_server_goes_on_if_the_inspection_is_killed() {
    let room = Room::new();
    let server = Server::start(named("thread-pool"), Backend::default(), 4);
    let mut connection = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    for requests in [0, 3, 30, 300, 1_000] {
        let Some(mut child) = start_stopping(&room, &server) else { return };
        for _ in 0..requests {
            connection.write_all(b"x").unwrap();
            assert!(connection.read(&mut [0; 64]).unwrap() > 0);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        connection.write_all(b"x").unwrap();
        assert!(connection.read(&mut [0; 64]).unwrap() > 0);
        expect_free(&server, b"x");
    }
}

#[test]
fn an_interrupted_inspection_answers_and_lets_the_server_go() {
    let room = Room::new();
    let server = Server::start(named("thread-pool"), Backend::default(), 4);
    for signal in ["INT", "TERM"] {
        let Some(child) = start_stopping(&room, &server) else { return };
        let status = room.other("kill", &[&format!("-{signal}"), &child.id().to_string()]).status().unwrap();
        assert!(status.success());
        let ran = Ran::of(child.wait_with_output().unwrap());
        let found: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!((ran.status, &found["evidence_by"]), (Some(1), &Value::from("ptrace")), "{ran:?}");
        expect_free(&server, b"x");
    }
}

/// Ctrl-Z stops neither the inspection, because that would leave the server stopped, nor its load.
#[test]
fn a_terminal_does_not_stop_an_inspection_at_calls() {
    let room = Room::new();
    let server = Server::start(named("thread-pool"), Backend::default(), 4);
    let url = format!("http://127.0.0.1:{}/", server.port);
    let Some(mut child) = start_stopping_with(&room, &server, &["--load", &url]) else { return };
    let loads = landau_sys::system::children(child.id());
    let ignored: Vec<String> = [child.id()].iter().chain(&loads).map(|pid| status_of(*pid, "SigIgn:")).collect();
    // SIGTERM makes the inspection end its load; after SIGKILL, the load would continue.
    assert!(room.other("kill", &["-TERM", &child.id().to_string()]).status().unwrap().success());
    child.wait().unwrap();
    assert!(loads.len() == 1 || !landau_sys::system::lists_children(), "{loads:?}");
    for ignored in ignored {
        // SIGTSTP, SIGTTIN and SIGTTOU: 20 to 22.
        assert_eq!(u64::from_str_radix(&ignored, 16).unwrap() >> 19 & 7, 7, "{ignored}");
    }
    expect_free(&server, b"x");
}

#[test]
fn a_server_that_is_traced_already_is_an_error() {
    let room = Room::new();
    let server = Server::start(named("thread-pool"), Backend::default(), 4);
    let Some(mut child) = start_stopping(&room, &server) else { return };
    let ran = room.landau(&["inspect", "--port", &server.port.to_string(), "--evidence", "ptrace"]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(ran.status == Some(2) && ran.err.contains("is already traced by process"), "{ran:?}");
    assert!(ran.err.contains("(landau)"), "{ran:?}");
    expect_free(&server, b"x");
}

/// A server that its operator stops with SIGSTOP stays stopped while it is traced, and continues after SIGCONT.
#[test]
fn a_server_that_is_stopped_by_a_signal_stays_stopped() {
    let room = Room::new();
    let server = Server::start(named("event-loop"), Backend::default(), 1);
    let mut connection = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    let Some(mut child) = start_stopping(&room, &server) else { return };
    let pid = server.child.id();
    let kill = |signal: &str| assert!(room.other("kill", &[signal, &pid.to_string()]).status().unwrap().success());
    kill("-STOP");
    assert!(eventually(|| status_of(pid, "State:").starts_with(['t', 'T'])));
    connection.write_all(b"x").unwrap();
    connection.set_nonblocking(true).unwrap();
    // While another server of this kind answers 500 times, a server that was not stopped would answer once.
    let control = Server::start(named("event-loop"), Backend::default(), 1);
    let mut exchange = TcpStream::connect(("127.0.0.1", control.port)).unwrap();
    for _ in 0..500 {
        exchange.write_all(b"x").unwrap();
        assert!(exchange.read(&mut [0; 64]).unwrap() > 0);
        let early = connection.read(&mut [0; 64]);
        assert!(early.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock));
    }
    kill("-CONT");
    connection.set_nonblocking(false).unwrap();
    assert!(connection.read(&mut [0; 64]).unwrap() > 0);
    child.kill().unwrap();
    child.wait().unwrap();
    expect_free(&server, b"x");
}

/// Inspects third-party programs that are installed, each under load: no answer is wrong. It takes minutes:
/// `LANDAU_INSPECT_PROGRAMS=1 cargo test -p landau --test it inspect::programs -- --nocapture`.
#[test]
fn programs_that_others_wrote_are_named() {
    if std::env::var_os("LANDAU_INSPECT_PROGRAMS").is_none() {
        eprintln!("skipped: LANDAU_INSPECT_PROGRAMS is not set");
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/inspect/programs.py");
    let status = Command::new("python3").arg(script).args(["--landau", LANDAU]).status().unwrap();
    assert!(status.success(), "{status}");
}

#[test]
fn a_unit_without_a_control_group_is_an_error() {
    let ran = Room::new().landau(&["inspect", "--unit", "no-such-unit"]);
    assert!(ran.status == Some(2) && ran.err.contains("no-such-unit.service has no control group"), "{ran:?}");
}

/// A control group like the one that systemd creates for a unit. Dropping this value removes it.
struct Unit {
    name: String,
    folder: PathBuf,
}

impl Unit {
    /// Creates a group in the hierarchy that systemd would use; `None` if this process may not.
    fn make() -> Option<Self> {
        let name = format!("landau-test-{}", std::process::id());
        let tops = ["/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"];
        let top = tops.iter().find(|top| Path::new(top).join("cgroup.procs").exists())?;
        let folder = Path::new(top).join(format!("{name}.service"));
        std::fs::create_dir(&folder).ok()?;
        Some(Self { name, folder })
    }
}

impl Drop for Unit {
    fn drop(&mut self) {
        // The processes of the group have been killed, but may not have left it yet.
        eventually(|| std::fs::remove_dir(&self.folder).is_ok());
    }
}

/// The main process of a unit is the one that a manager outside the unit has started.
#[test]
fn a_unit_is_inspected_by_its_name() {
    let Some(unit) = Unit::make() else {
        eprintln!("skipped: no control group can be made here");
        return;
    };
    let architecture = named("prefork");
    let given = Arguments { architecture, workload: Workload::Work, pool: 4, most: 500, backend: Backend::default() };
    let program = command_of(Path::new(LANDAU), &given);
    let mut command = Command::new("sh");
    command.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(unit.folder.join("cgroup.procs"));
    command.arg(program.get_program()).args(program.get_args());
    let server = Server::of(command);
    let processes = || std::fs::read_to_string(unit.folder.join("cgroup.procs")).unwrap().lines().count();
    assert!(eventually(|| processes() == 5), "{} processes", processes());
    for name in [unit.name.clone(), format!("{}.service", unit.name)] {
        let ran = Room::new().landau(&["inspect", "--unit", &name, "--for", "500ms", "--evidence", "proc", "--json"]);
        // Without connections the architecture of the server cannot be determined.
        assert_eq!(ran.status, Some(1), "{ran:?}");
        let found: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(found["pid"], server.child.id(), "{found:#}");
        assert_eq!(found["ports"], Value::from(vec![server.port]), "{found:#}");
        assert!(found["most"]["processes"].as_u64() >= Some(5), "{found:#}");
    }
}

/// Guards against a load that fails silently: "cannot tell" would then seem to be an answer about the server.
#[test]
fn a_load_that_fails_is_told_in_both_forms() {
    let server = Server::start(named("event-loop"), Backend::default(), 1);
    let port = server.port.to_string();
    let room = Room::new();
    let words = ["inspect", "--port", &port, "--evidence", "proc", "--load"];
    // No process listens on port 1, and there is no port 99999. A busy machine may need some time to start the load.
    for (url, window, why) in
        [("http://127.0.0.1:1/", "8s", "connection refused"), ("http://127.0.0.1:99999/", "5s", "99999")]
    {
        for form in [&[][..], &["--json"]] {
            let ran = room.landau(&[&words[..], &[url, "--for", window], form].concat());
            assert!(ran.err.contains("landau: --load: ") && ran.err.contains(why), "{ran:?}");
            if form.is_empty() {
                let text = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
                assert!(text.contains("under the load of --load: ") && text.contains(why), "{ran:?}");
                continue;
            }
            let found: Value = serde_json::from_str(&ran.out).unwrap();
            let last = found["unseen"].as_array().unwrap().last().unwrap();
            assert!(last["what"].as_str().unwrap().contains("--load"), "{found}");
            assert!(last["why"].as_str().unwrap().contains(why), "{found}");
        }
    }
}
