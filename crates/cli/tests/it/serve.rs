//! `landau serve` as an operator uses it: messages, privileges, signals.

use crate::support::{LANDAU, Process, Ran, Room, eventually, is_root};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Longer than any step takes; a test that reaches it has failed.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// Returns a room that other users may enter, with a directory that they may read.
pub(crate) fn room() -> Room {
    let room = Room::new();
    std::fs::create_dir(room.file("www")).unwrap();
    std::fs::write(room.file("www/a"), "hello").unwrap();
    for folder in [room.path().to_owned(), room.file("www")] {
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    room
}

/// Returns the response of a server to a request on a new connection.
fn get(address: SocketAddr, target: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let request = format!("GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// A running server.
pub(crate) struct Serving {
    pub(crate) child: Process,
    pub(crate) address: SocketAddr,
    /// Its report of readiness.
    pub(crate) ready: serde_json::Value,
}

impl Serving {
    /// Starts a server; `--json` is added to the command.
    pub(crate) fn new(command: &mut Command) -> Self {
        let command = command.arg("--json").stdout(Stdio::piped()).stderr(Stdio::piped());
        // A tracer and the traced server form a process group.
        let mut child = Process::spawn_group(command).unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let Ok(ready) = serde_json::from_str::<serde_json::Value>(&line) else {
            panic!("{line:?}, {:?}", Ran::of(child.wait_with_output().unwrap()))
        };
        let address = ready["listening"][0]["address"].as_str().unwrap().parse().unwrap();
        Self { child, address, ready }
    }

    pub(crate) fn get(&self, target: &str) -> String {
        get(self.address, target)
    }

    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Ends the server. Returns its standard error and its exit status.
    pub(crate) fn end(self) -> Ran {
        self.signal("-TERM");
        Ran::of(self.child.wait_with_output().unwrap())
    }

    /// Returns a line of the status of each thread.
    fn of_threads(&self, name: &str) -> Vec<String> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let status = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("status")).unwrap();
        let line = |text: String| text.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
        tasks.map(|task| line(status(task.unwrap()))).collect()
    }
}

#[test]
#[cfg(target_os = "linux")]
fn every_thread_gives_up_root() {
    if !is_root() {
        eprintln!("skipped: only root can drop privileges");
        return;
    }
    let room = room();
    std::os::unix::fs::symlink("/etc/shadow", room.file("www/shadow")).unwrap();
    let words = ["serve", "www", "--listen", "127.0.0.1:0", "--workers", "2", "--log", "log", "--symlinks", "anywhere"];
    let serving = Serving::new(room.command(&words).args(["--metrics", "127.0.0.1:0"]));
    assert_eq!(serving.ready["user"], "nobody");
    assert!(serving.get("/a").ends_with("hello"));
    // Symbolic links may point anywhere here, but the unprivileged user may not read every target.
    assert!(serving.get("/shadow").starts_with("HTTP/1.1 403 "));
    let nobody = landau_sys::privilege::user("nobody").unwrap().unwrap();
    let ids = |id: u32| format!("\t{id}\t{id}\t{id}\t{id}");
    let uids = serving.of_threads("Uid:");
    assert!(uids.len() >= 4 && uids.iter().all(|line| line.ends_with(&ids(nobody.user))), "{uids:?}");
    assert!(serving.of_threads("Gid:").iter().all(|line| line.ends_with(&ids(nobody.group))));
    assert!(serving.of_threads("Groups:").iter().all(|line| line.trim_end() == "Groups:"));
    assert!(serving.of_threads("NoNewPrivs:").iter().all(|line| line == "NoNewPrivs:\t1"));
    let ran = serving.end();
    assert_eq!(ran.status, Some(0), "{ran:?}");
}

/// A directory of mode 711 may be entered, but not listed.
#[test]
#[cfg(target_os = "linux")]
fn a_directory_that_cannot_be_read_has_an_index() {
    use std::os::unix::fs::PermissionsExt;
    if !is_root() {
        eprintln!("skipped: to root every directory is readable, and only root can become somebody else");
        return;
    }
    let room = room();
    for folder in ["www/with", "www/without"] {
        std::fs::create_dir(room.file(folder)).unwrap();
        std::fs::write(room.file(&format!("{folder}/file")), "hello").unwrap();
        std::fs::set_permissions(room.file(folder), PermissionsExt::from_mode(0o711)).unwrap();
    }
    std::fs::write(room.file("www/with/index.html"), "index").unwrap();
    // The same for the served directory; the server once did not start.
    std::fs::write(room.file("www/index.html"), "index").unwrap();
    std::fs::set_permissions(room.file("www"), PermissionsExt::from_mode(0o711)).unwrap();
    let serving = Serving::new(&mut room.command(&["serve", "www", "--listen", "127.0.0.1:0"]));
    assert_eq!(serving.ready["user"], "nobody");
    assert!(serving.get("/").ends_with("\r\n\r\nindex"), "{}", serving.get("/"));
    std::fs::remove_file(room.file("www/index.html")).unwrap();
    assert!(eventually(|| serving.get("/").starts_with("HTTP/1.1 403 ")), "{}", serving.get("/"));
    assert!(serving.get("/with/").ends_with("\r\n\r\nindex"), "{}", serving.get("/with/"));
    assert!(serving.get("/without/").starts_with("HTTP/1.1 403 "));
    assert!(serving.get("/without/file").ends_with("hello"));
    for folder in ["/with", "/without"] {
        let redirect = serving.get(folder);
        assert!(redirect.contains(&format!("\r\nLocation: {folder}/\r\n")), "{redirect}");
    }
    assert_eq!(serving.end().status, Some(0));
}

#[test]
#[cfg(target_os = "linux")]
fn an_unprivileged_user_needs_no_privileges() {
    let room = room();
    let Some(mut command) = room.as_nobody(&["serve", "www", "--listen", "127.0.0.1:0"]) else { return };
    let serving = Serving::new(&mut command);
    assert!(serving.ready["user"].is_null(), "{}", serving.ready);
    assert!(serving.get("/a").ends_with("hello"));
    assert!(serving.of_threads("NoNewPrivs:").iter().all(|line| line == "NoNewPrivs:\t1"));
    let ran = serving.end();
    assert_eq!(ran.status, Some(0), "{ran:?}");
}

#[test]
fn json_has_the_addresses_and_the_counters() {
    let room = room();
    let words = ["serve", "www", "--listen", "127.0.0.1:0", "--listen", "unix:socket", "--json"];
    let mut child = Process::spawn(room.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped())).unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = || {
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        serde_json::from_str::<serde_json::Value>(&line).unwrap()
    };
    let ready = line();
    let address: SocketAddr = ready["listening"][0]["address"].as_str().unwrap().parse().unwrap();
    assert_eq!(ready["listening"][1], serde_json::json!({ "address": "unix:socket", "tls": false }));
    assert_eq!((&ready["listening"][0]["tls"], &ready["metrics"]), (&false.into(), &serde_json::Value::Null));
    assert_eq!(ready["pid"], child.id());
    TcpStream::connect(address).unwrap();
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    assert_eq!(line()["requests"], 0);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// Returns a connection after its first response and in the middle of the next request head, which makes it busy. Both
/// requests were sent in one write, so the server has already read the partial head.
pub(crate) fn busy(serving: &Serving) -> TcpStream {
    let mut busy = TcpStream::connect(serving.address).unwrap();
    busy.set_read_timeout(Some(LONG)).unwrap();
    busy.write_all(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\nGET ").unwrap();
    busy.read_exact(&mut [0; 16]).unwrap();
    busy
}

/// Reads the messages of the server until a line begins with `expected`.
fn heard(serving: &mut Serving, expected: &str) -> BufReader<std::process::ChildStderr> {
    let mut said = BufReader::new(serving.child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.starts_with(expected) {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "it ended without a word");
    }
    said
}

/// After the first signal the server waits for a busy connection; after the second it does not.
#[test]
fn the_second_signal_ends_at_once() {
    let room = room();
    let words = ["serve", "www", "--listen", "127.0.0.1:0", "--head-timeout", "1000s", "--drain-timeout", "1000s"];
    let mut serving = Serving::new(&mut room.command(&words));
    let _busy = busy(&serving);
    serving.signal("-TERM");
    let mut said = heard(&mut serving, "landau: stopping: busy connections have 16m40s");
    assert!(serving.child.try_wait().unwrap().is_none(), "a busy connection was not waited for");
    // A second signal that follows immediately counts as the same signal.
    let mut status = None;
    let has_ended = eventually(|| {
        serving.signal("-INT");
        status = serving.child.try_wait().unwrap();
        status.is_some()
    });
    assert!(has_ended && status.unwrap().code() == Some(0), "{status:?}");
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert_eq!(line, "landau: stopping at once\n");
}

/// nginx drains connections on SIGQUIT, and scripts and service files written for nginx rely on that.
#[test]
fn a_quit_waits_for_busy_connections_without_a_limit() {
    let room = room();
    let words = ["serve", "www", "--listen", "127.0.0.1:0", "--head-timeout", "1000s", "--drain-timeout", "1ms"];
    let mut serving = Serving::new(&mut room.command(&words));
    let mut busy = busy(&serving);
    serving.signal("-QUIT");
    let _said = heard(&mut serving, "landau: stopping when the last busy connection ends");
    assert!(eventually(|| TcpStream::connect(serving.address).is_err()), "it accepts connections");
    busy.write_all(b"/a HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut rest = Vec::new();
    busy.read_to_end(&mut rest).unwrap();
    assert_eq!(String::from_utf8_lossy(&rest).matches("hello").count(), 2);
    assert_eq!(serving.child.wait().unwrap().code(), Some(0));
}

#[test]
fn systemd_passes_sockets_and_is_notified() {
    let room = room();
    let notified = room.file("notify");
    let manager = UnixDatagram::bind(&notified).unwrap();
    manager.set_read_timeout(Some(LONG)).unwrap();
    std::fs::set_permissions(&notified, std::fs::Permissions::from_mode(0o777)).unwrap();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    // Above the descriptors that the shell uses. The shell assigns it the number that systemd would use.
    let passed = landau_sys::descriptor::dup_from(&OwnedFd::from(socket), 20).unwrap();
    landau_sys::descriptor::set_inherited(&passed).unwrap();
    let script = format!(
        "exec 3<&{}; export LISTEN_FDS=1 LISTEN_PID=$$; exec {} serve www --workers 2 \"$@\"",
        passed.as_raw_fd(),
        crate::support::LANDAU
    );
    let mut command = Command::new("bash");
    command.args(["-c", &script, "sh"]).current_dir(room.path()).env("NOTIFY_SOCKET", &notified);
    let serving = Serving::new(&mut command);
    assert_eq!(serving.address, address);
    let heard = || {
        let mut buffer = [0; 128];
        let len = manager.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..len]).into_owned()
    };
    assert_eq!(heard(), "READY=1");
    assert!(serving.get("/a").ends_with("hello"));
    serving.signal("-HUP");
    assert!(heard().starts_with("RELOADING=1\nMONOTONIC_USEC="));
    assert_eq!(heard(), "READY=1");
    let ran = serving.end();
    assert_eq!((heard().as_str(), ran.status), ("STOPPING=1", Some(0)), "{ran:?}");
}

/// The socket of `--metrics` was once also served as one for files: two owners of one descriptor.
#[test]
fn a_socket_from_systemd_may_be_that_of_the_metrics() {
    let room = room();
    for more in ["", "--processes 2"] {
        // Above the descriptors that the shell uses. The shell assigns them the numbers that systemd would use.
        let passed = [20, 30].map(|least| {
            let socket = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = socket.local_addr().unwrap();
            let passed = landau_sys::descriptor::dup_from(&OwnedFd::from(socket), least).unwrap();
            landau_sys::descriptor::set_inherited(&passed).unwrap();
            (passed, address)
        });
        let script = format!(
            "exec 3<&{} 4<&{}; export LISTEN_FDS=2 LISTEN_PID=$$; exec {LANDAU} serve www --metrics fd:4 {more} \"$@\"",
            passed[0].0.as_raw_fd(),
            passed[1].0.as_raw_fd()
        );
        let serving = Serving::new(Command::new("bash").args(["-c", &script, "sh"]).current_dir(room.path()));
        assert_eq!(serving.ready["listening"].as_array().unwrap().len(), 1, "{}", serving.ready);
        assert_eq!(serving.address, passed[0].1);
        assert_eq!(serving.ready["metrics"], passed[1].1.to_string());
        for _ in 0..8 {
            assert!(serving.get("/a").ends_with("hello"));
            let page = get(passed[1].1, "/metrics");
            assert!(page.contains("\nlandau_serve_start_time_seconds "), "{page}");
        }
        let ran = serving.end();
        assert_eq!(ran.status, Some(0), "{ran:?}");
    }
}

#[test]
fn a_rotated_log_is_reopened() {
    for signal in ["-HUP", "-USR1"] {
        a_log_is_reopened_at(signal);
    }
}

fn a_log_is_reopened_at(signal: &str) {
    let room = room();
    std::fs::create_dir(room.file("log")).unwrap();
    std::fs::set_permissions(room.file("log"), std::fs::Permissions::from_mode(0o777)).unwrap();
    let serving = Serving::new(&mut room.command(&["serve", "www", "--listen", "127.0.0.1:0", "--log", "log/access"]));
    serving.get("/a");
    let lines = |name: &str| std::fs::read_to_string(room.file(name)).map_or(0, |text| text.lines().count());
    assert!(eventually(|| lines("log/access") == 1));
    std::fs::rename(room.file("log/access"), room.file("log/access.1")).unwrap();
    serving.signal(signal);
    assert!(eventually(|| room.file("log/access").exists()));
    serving.get("/a");
    serving.get("/a");
    let ran = serving.end();
    assert_eq!((lines("log/access.1"), lines("log/access"), ran.status), (1, 2, Some(0)), "{ran:?}");
}

/// Each error is one line that says what to do, and the exit status is 2.
#[test]
fn errors_at_the_start_say_what_to_do() {
    let room = room();
    std::fs::write(room.file("empty.pem"), "").unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken_at = taken.local_addr().unwrap().to_string();
    let _served = std::os::unix::net::UnixListener::bind(room.file("socket")).unwrap();
    let cases: &[(&[&str], &str)] = &[
        (&["nowhere"], "landau: cannot serve nowhere: open: No such file or directory (ENOENT); pass an existing"),
        (&["www/a"], "cannot serve www/a: open: Not a directory (ENOTDIR); pass the directory that contains"),
        (&["www", "--listen", &taken_at], "another program listens there: run `ss -ltnp`"),
        (&["www", "--listen", "unix:socket"], "another program listens there: run `ss -lxp`"),
        (&["www", "--listen", "fd:999"], "the inherited descriptor is not a listening stream socket"),
        (
            &["www", "--listen", "127.0.0.1:0", "--log", "nowhere/log"],
            "landau: cannot write the log nowhere/log: No such file",
        ),
        (
            &["www", "--tls", "empty.pem", "empty.pem"],
            "landau: --tls empty.pem: no certificate in this file; it must be",
        ),
        (&["www", "--listen", "tls:127.0.0.1:0"], "no certificate; add --tls CERT.pem KEY.pem"),
        (
            &["www", "--listen", "127.0.0.1:0", "--sandbox", "always", "--symlinks", "anywhere"],
            "landau: --sandbox always: ",
        ),
        (&["www", "--user", "no such user"], "landau: --user "),
        (&["www", "--pin", "0-9999"], "landau: --pin "),
        (&["www", "--accept", "multishot", "--backend", "poll"], "landau: --backend poll with --accept multishot: "),
        (&["www", "--metrics", "tls:127.0.0.1:0"], "metrics are served without TLS"),
        (
            &["www", "--listen", "tls:fd:9", "--metrics", "fd:9"],
            "a socket cannot serve both files and metrics; use two",
        ),
        (&["www", "--listen", ":1", "--listen", "tls::1"], "an address cannot serve both TLS and plain HTTP; use two"),
        (&["www", "--max-head", "4KiB", "--max-line", "5KiB"], "landau: --max-line 5120: a request line is a part of"),
    ];
    for (words, expected) in cases {
        let ran = room.landau(&[&["serve"], *words].concat());
        assert!(ran.status == Some(2) && ran.err.contains(expected), "{words:?}: {ran:?}");
        assert_eq!(ran.err.lines().count(), 1, "{ran:?}");
    }
}

#[test]
fn useless_values_are_rejected() {
    let room = room();
    for option in ["max-connections", "max-per-address", "max-fields", "backlog", "head-timeout", "send-timeout"] {
        let ran = room.landau(&["serve", "www", &format!("--{option}"), "0"]);
        assert!(ran.status == Some(2) && ran.err.contains(&format!("'--{option}")), "{option}: {ran:?}");
    }
    for (option, value) in
        [("idle-timeout", "10"), ("idle-timeout", "1000h"), ("drain-timeout", "-1s"), ("index", "../x"), ("index", "")]
    {
        let ran = room.landau(&["serve", "www", &format!("--{option}={value}")]);
        assert!(ran.status == Some(2) && ran.err.contains(&format!("'--{option}")), "{option}={value}: {ran:?}");
    }
}

/// Returns whether strace can make system calls of a program fail here.
fn may_trace() -> bool {
    Command::new("strace").args(["-o", "/dev/null", "true"]).status().is_ok_and(|status| status.success())
}

/// Arguments of `strace` that make `io_uring_setup` fail, as a container's seccomp filter does.
const WITHOUT_RING: [&str; 6] =
    ["-o", "/dev/null", "-e", "trace=io_uring_setup", "-e", "inject=io_uring_setup:error=EPERM"];

/// Returns a command that runs this program under `strace` with these arguments.
fn under_strace(room: &Room, strace: &[&str], words: &[&str]) -> Command {
    let mut command = Command::new("strace");
    // A traced program would otherwise outlive a killed tracer.
    let with_it = ["setpriv", "--pdeathsig", "KILL", "--", LANDAU];
    command.args(["-f", "-qq"]).args(strace).args(with_it).args(words).current_dir(room.path());
    command
}

/// Starts a server under `strace` with these arguments. Also returns the server's process ID.
fn traced(room: &Room, strace: &[&str], words: &[&str]) -> (Serving, u32) {
    let serving = Serving::new(&mut under_strace(room, strace, words));
    let tracer = serving.child.id();
    let server = std::fs::read_to_string(format!("/proc/{tracer}/task/{tracer}/children")).unwrap();
    (serving, server.trim().parse().unwrap())
}

/// Ends a traced server, and thereby its tracer. A tracer that is ended itself would detach from the server.
fn end_traced(serving: Serving, server: u32) -> Ran {
    assert!(Command::new("kill").arg(server.to_string()).status().unwrap().success());
    Ran::of(serving.child.wait_with_output().unwrap())
}

#[test]
fn without_io_uring_a_fallback_is_used_and_reported() {
    if !may_trace() {
        println!("skipped: strace is not there, or may not trace");
        return;
    }
    let room = room();
    for (choice, says) in [
        (["--accept", "multishot"], "using --accept own instead of multishot: "),
        (["--backend", "io_uring"], "epoll instead of io_uring: "),
    ] {
        let words = [&["serve", "www", "--listen", "127.0.0.1:0", "--sandbox", "never"], &choice[..]].concat();
        let (serving, server) = traced(&room, &WITHOUT_RING, &words);
        assert!(serving.get("/a").ends_with("hello"), "{choice:?}");
        let url = format!("http://{}/a", serving.address);
        let load = ["load", &url, "-n", "5", "--backend", "io_uring"];
        let ran = Ran::of(under_strace(&room, &WITHOUT_RING, &load).output().unwrap());
        assert!(ran.status == Some(0) && ran.err.contains("epoll instead of io_uring: "), "{ran:?}");
        let ran = end_traced(serving, server);
        assert!(ran.err.contains(says), "{choice:?}: {ran:?}");
    }
}

/// Returns the CPU time of all workers of a server, and whether all of them are asleep.
#[cfg(target_os = "linux")]
fn workers(pid: u32) -> (Duration, bool) {
    let state = |task: PathBuf| {
        let stat = std::fs::read_to_string(task.join("stat")).unwrap();
        let (name, rest) = stat.rsplit_once(')').unwrap();
        let times = std::fs::read_to_string(task.join("schedstat")).unwrap();
        let run_ns: u64 = times.split_ascii_whitespace().next().unwrap().parse().unwrap();
        name.contains("(worker").then(|| (run_ns, rest.trim_start().starts_with('S')))
    };
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let states: Vec<(u64, bool)> = tasks.filter_map(|task| state(task.unwrap().path())).collect();
    assert!(!states.is_empty(), "it has no workers");
    (Duration::from_nanos(states.iter().map(|one| one.0).sum()), states.iter().all(|one| one.1))
}

/// Returns whether the workers of a server are idle: after they have slept for a moment, they use less than 1% of a CPU
/// over a time longer than any of their pauses. A worker that polls continuously is never asleep, however little CPU
/// time it gets: it runs or waits for a CPU. A worker that polls periodically exceeds the CPU time.
#[cfg(target_os = "linux")]
fn workers_sleep(pid: u32) -> bool {
    const TIME: Duration = Duration::from_millis(1500);
    let is_asleep = eventually(|| {
        let before = workers(pid);
        std::thread::sleep(Duration::from_millis(50));
        before.1 && workers(pid) == before
    });
    let (before, _) = workers(pid);
    std::thread::sleep(TIME);
    let used = workers(pid).0.saturating_sub(before);
    if used * 100 > TIME {
        eprintln!("the workers used {used:?} of CPU time in {TIME:?}");
    }
    is_asleep && used * 100 <= TIME
}

/// Edge-triggered backends once reported space in the send buffer repeatedly.
#[test]
#[cfg(target_os = "linux")]
fn a_client_that_does_not_read_uses_no_cpu() {
    let room = room();
    std::fs::write(room.file("www/large"), vec![b'x'; 64 << 20]).unwrap();
    let backends = landau_reactor::backends().into_iter().filter(|one| *one != landau_reactor::Backend::Null);
    let ways = backends.map(|backend| ["--backend".to_owned(), backend.to_string()]);
    for way in ways.chain([["--accept".to_owned(), "multishot".to_owned()]]) {
        let words = ["serve", "www", "--listen", "127.0.0.1:0"];
        let serving = Serving::new(room.command(&words).args(&way));
        let mut slow = TcpStream::connect(serving.address).unwrap();
        slow.write_all(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        slow.read_exact(&mut [0; 1000]).unwrap();
        assert!(workers_sleep(serving.child.id()), "{way:?}");
        drop(slow);
        assert_eq!(serving.end().status, Some(0));
    }
}

/// Cached descriptors do not prevent other files from being opened.
#[test]
#[cfg(target_os = "linux")]
fn the_cache_gives_up_descriptors_when_they_are_short() {
    let room = room();
    for number in 0..60 {
        let file = std::fs::File::create(room.file(&format!("www/{number}"))).unwrap();
        file.set_len(70_000).unwrap();
    }
    // Setting the limits of another user's process needs a privilege that root does not have everywhere.
    let me: &[&str] = if is_root() { &["--user", "root"] } else { &[] };
    let serving = Serving::new(room.command(&["serve", "www", "--listen", "127.0.0.1:0"]).args(me));
    let mut client = BufReader::new(TcpStream::connect(serving.address).unwrap());
    let mut ask = |number: usize| {
        write!(client.get_mut(), "GET /{number} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(client.read_line(&mut head).unwrap() > 0, "{head}");
        }
        if head.starts_with("HTTP/1.1 200 ") {
            client.read_exact(&mut vec![0; 70_000]).unwrap();
        }
        head.lines().next().unwrap().to_owned()
    };
    for number in 0..30 {
        assert_eq!(ask(number), "HTTP/1.1 200 OK");
    }
    let pid = serving.child.id().to_string();
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().map(|task| task.unwrap().path());
    let name = |task: &PathBuf| std::fs::read_to_string(task.join("comm")).unwrap();
    // The worker has a separate descriptor table.
    let worker = tasks.into_iter().find(|task| name(task).starts_with("worker")).unwrap();
    let numbers = std::fs::read_dir(worker.join("fd")).unwrap();
    let most = numbers.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse::<u32>().ok()).max().unwrap();
    let limit = format!("--nofile={0}:{0}", most + 1);
    assert!(Command::new("prlimit").args(["--pid", &pid, &limit]).status().is_ok_and(|status| status.success()));
    for number in 30..60 {
        assert_eq!(ask(number), "HTTP/1.1 200 OK", "file {number} of 60, descriptors below {most}");
    }
    serving.end();
}

/// A connection that was reset while its listing was generated was once reported by every wait, and ignored by the
/// worker.
#[test]
#[cfg(target_os = "linux")]
fn a_client_that_disconnects_while_its_listing_is_made_uses_no_cpu() {
    if !may_trace() {
        println!("skipped: strace is missing, or may not trace");
        return;
    }
    let room = room();
    std::fs::create_dir(room.file("www/folder")).unwrap();
    // The injected delay is longer than the test takes.
    let slowly = ["-o", "/dev/null", "-e", "trace=getdents64", "-e", "inject=getdents64:delay_enter=25000000"];
    for accept in ["own", "multishot"] {
        let words = ["serve", "www", "--listen", "127.0.0.1:0", "--sandbox", "never", "--accept", accept];
        let (serving, server) = traced(&room, &slowly, &words);
        let tasks = || std::fs::read_dir(format!("/proc/{server}/task")).unwrap().count();
        let before = tasks();
        let mut gone = TcpStream::connect(serving.address).unwrap();
        gone.write_all(b"GET /folder/ HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        assert!(eventually(|| tasks() > before), "no thread makes the listing");
        landau_sys::stream::set_reset_on_close(&gone).unwrap();
        drop(gone);
        assert!(workers_sleep(server), "{accept}");
        // Killed, because after SIGTERM the process would wait until the listing is finished.
        assert!(Command::new("kill").args(["-KILL", &server.to_string()]).status().unwrap().success());
        Ran::of(serving.child.wait_with_output().unwrap());
    }
}

/// The system calls of a request are one receive and one send with a readiness backend, and one send with a ring. With
/// both, one wait serves all requests that it found.
#[test]
#[cfg(target_os = "linux")]
fn a_request_costs_one_receive_and_one_send() {
    const REQUESTS: usize = 300;
    if !may_trace() {
        println!("skipped: strace is not there, or may not trace");
        return;
    }
    let room = room();
    for (accept, with_ring) in [("own", false), ("multishot", true)] {
        let calls = room.file("calls");
        let names = "trace=recvfrom,recvmsg,read,sendto,sendmsg,writev,write,epoll_wait,epoll_pwait,io_uring_enter";
        let trace = ["-o", calls.to_str().unwrap(), "-e", names];
        let words = ["serve", "www", "--listen", "127.0.0.1:0", "--accept", accept];
        let (serving, server) = traced(&room, &trace, &words);
        assert!(serving.get("/a").ends_with("hello"));
        let text = || std::fs::read_to_string(&calls).unwrap();
        let before = text().lines().count();
        let url = format!("http://{}/a", serving.address);
        let (count, crowd) = (REQUESTS.to_string(), "16");
        let load = ["load", &url, "-n", &count, "-c", crowd, "--warm-up", "0"];
        let ran = Ran::of(room.command(&load).output().unwrap());
        assert_eq!(ran.status, Some(0), "{ran:?}");
        let text = text();
        let count = |name: &str| text.lines().skip(before).filter(|line| line.contains(&format!(" {name}("))).count();
        let received =
            text.lines().skip(before).filter(|line| line.contains(" recvfrom(") && line.contains("GET")).count();
        let (sent, waited) = (count("sendto"), count("epoll_wait") + count("epoll_pwait"));
        let others = ["recvmsg", "sendmsg", "writev"].map(count);
        assert_eq!(others, [0, 0, 0], "{accept}");
        let entered = count("io_uring_enter");
        let expected = if with_ring { (0, REQUESTS) } else { (REQUESTS, REQUESTS) };
        assert_eq!((received, sent), expected, "{accept}");
        assert!(waited + entered <= REQUESTS + 40, "{accept}: {waited} + {entered} waits");
        end_traced(serving, server);
    }
}

/// A client may send as many requests at once as the server receives at once. Answering each request recursively, while
/// sending the previous response, once used 780 KiB of stack.
#[test]
fn many_requests_at_once_need_no_deep_stack() {
    const COUNT: usize = 5_000;
    let room = room();
    // A file that is not cached, so that each response is sent separately.
    std::fs::write(room.file("www/b"), vec![7; 200_000]).unwrap();
    let mut command = room.command(&["serve", "www", "--listen", "127.0.0.1:0", "--workers", "1"]);
    let serving = Serving::new(command.env("RUST_MIN_STACK", "262144"));
    let stream = TcpStream::connect(serving.address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let mut asking = stream.try_clone().unwrap();
    let asker = std::thread::spawn(move || {
        let request = b"GET /b HTTP/1.1\r\nHost: x\r\nRange: bytes=0-0\r\n\r\n";
        asking.write_all(&request.repeat(COUNT))
    });
    let lines = BufReader::new(stream).split(b'\n').map_while(Result::ok);
    let partial = lines.filter(|line| line.ends_with(b"HTTP/1.1 206 Partial Content\r")).take(COUNT);
    assert_eq!(partial.count(), COUNT);
    asker.join().unwrap().unwrap();
    assert_eq!(serving.end().status, Some(0));
}

/// Both signals are pending while the process is stopped, so that it handles them together.
#[test]
#[cfg(target_os = "linux")]
fn two_signals_at_once_are_one() {
    let room = room();
    let words = ["serve", "www", "--listen", "127.0.0.1:0", "--head-timeout", "1000s", "--drain-timeout", "1000s"];
    let serving = Serving::new(&mut room.command(&words));
    let mut busy = busy(&serving);
    let pid = serving.child.id();
    let status = |name: &str, value: &str| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        status.lines().any(|line| line.starts_with(name) && line.contains(value))
    };
    serving.signal("-STOP");
    assert!(eventually(|| status("State:", "T (stopped)")));
    serving.signal("-TERM");
    serving.signal("-INT");
    serving.signal("-CONT");
    assert!(eventually(|| status("ShdPnd:", "0000000000000000")));
    let _ = busy.write_all(b"/a HTTP/1.1\r\nHost: x\r\n\r\n");
    let mut rest = Vec::new();
    let _ = busy.read_to_end(&mut rest);
    let ran = Ran::of(serving.child.wait_with_output().unwrap());
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert_eq!(String::from_utf8_lossy(&rest).matches("hello").count(), 2, "{ran:?}");
    assert!(!ran.err.contains("landau: stopping at once"), "{ran:?}");
}

/// Once, all but one of 64 descriptors were reserved, without a message.
#[test]
fn most_of_few_descriptors_are_for_connections() {
    let room = room();
    let script = format!("ulimit -n 64; exec {} serve www --listen 127.0.0.1:0 \"$@\"", crate::support::LANDAU);
    let serving = Serving::new(Command::new("sh").args(["-c", &script, "sh"]).current_dir(room.path()));
    let mut clients = Vec::new();
    for _ in 0..25 {
        let mut client = TcpStream::connect(serving.address).unwrap();
        client.set_read_timeout(Some(LONG)).unwrap();
        client.write_all(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut head = [0; 15];
        client.read_exact(&mut head).unwrap();
        assert_eq!(&head, b"HTTP/1.1 200 OK", "connection {}", clients.len());
        clients.push(client);
    }
    let ran = serving.end();
    assert!(ran.err.contains("connections: RLIMIT_NOFILE is 64; raise it with ulimit -n"), "{ran:?}");
    let script = format!(
        "ulimit -n 256; exec {} serve www --listen 127.0.0.1:0 --max-connections 1000 \"$@\"",
        crate::support::LANDAU
    );
    let ran = Serving::new(Command::new("sh").args(["-c", &script, "sh"]).current_dir(room.path())).end();
    assert!(ran.err.contains("RLIMIT_NOFILE is 256"), "{ran:?}");
}

/// Connections to an upstream server that were kept for the next request once took the room of clients.
#[test]
fn kept_upstream_connections_give_way_to_clients() {
    const KEPT: usize = 30;
    let room = room();
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let rule = format!("[[rule]]\npath = '/api/'\nproxy = 'http://{}'\n", upstream.local_addr().unwrap());
    std::fs::write(room.file("serve.toml"), rule).unwrap();
    // No response is sent before the last request has arrived, so each needs a separate connection.
    let all = std::sync::Arc::new(std::sync::Barrier::new(KEPT));
    std::thread::spawn(move || {
        for mut stream in upstream.incoming().take(KEPT).map_while(Result::ok) {
            let all = all.clone();
            std::thread::spawn(move || {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    if !matches!(stream.read(&mut byte), Ok(1)) {
                        return;
                    }
                    head.push(byte[0]);
                }
                all.wait();
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
                let _ = stream.read(&mut [0]);
            });
        }
    });
    let script = format!("ulimit -n 128; exec {LANDAU} serve www --config serve.toml --listen 127.0.0.1:0 \"$@\"");
    let serving = Serving::new(Command::new("sh").args(["-c", &script, "sh"]).current_dir(room.path()));
    let ask = |target: &str| {
        let mut client = TcpStream::connect(serving.address).unwrap();
        client.set_read_timeout(Some(LONG)).unwrap();
        write!(client, "GET {target} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        client
    };
    let is_ok = |mut client: &TcpStream| {
        let mut head = [0; 15];
        client.read_exact(&mut head).unwrap();
        &head == b"HTTP/1.1 200 OK"
    };
    let relayed: Vec<TcpStream> = (0..KEPT).map(|_| ask("/api/")).collect();
    assert!(relayed.iter().all(is_ok));
    drop(relayed);
    let mut clients = Vec::new();
    // More than there is room for, beside those that were kept.
    for count in 0..2 * KEPT + 15 {
        clients.push(ask("/a"));
        assert!(clients.last().is_some_and(is_ok), "client {count} is refused");
    }
    assert_eq!(serving.end().status, Some(0));
}

/// A line may be as long as `--max-line` allows, or as the head limit if that is lower.
#[test]
fn the_request_line_is_limited() {
    let room = room();
    let fields_len = "Host: x\r\nConnection: close\r\n\r\n".len();
    let cases = [
        (&["--max-line", "100B"][..], 100, "414"),
        (&["--max-head", "300B"], 300 - fields_len, "431"),
        (&[], 8192, "414"),
    ];
    for (limits, longest, refused) in cases {
        let serving = Serving::new(room.command(&["serve", "www", "--listen", "127.0.0.1:0"]).args(limits));
        let status = |len: usize| {
            let target = format!("/{}", "x".repeat(len - "GET / HTTP/1.1\r\n".len()));
            serving.get(&target)[9..12].to_owned()
        };
        assert_eq!((status(longest), status(longest + 1)), ("404".to_owned(), refused.to_owned()), "{limits:?}");
        assert_eq!(serving.end().status, Some(0));
    }
}

/// Many clients with a partial request each once used all memory, and a failed allocation ended the server.
#[test]
#[cfg(target_os = "linux")]
fn under_a_limit_of_memory_a_crowd_is_refused() {
    const CLIENTS: usize = 5182;
    const MOST_KB: u64 = 60_000_000 / 1024;
    let limit = landau_sys::limits::raise(landau_sys::limits::Resource::Descriptors).unwrap();
    if limit < CLIENTS as u64 + 1000 {
        eprintln!("skipped: only {limit} files may be open");
        return;
    }
    let room = room();
    let words = ["serve", "www", "--listen", "127.0.0.1:0", "--head-timeout", "1000s"];
    let landau = room.command(&words);
    let mut limited = Command::new("sh");
    let script = format!("ulimit -v {MOST_KB}; exec \"$@\"");
    limited.args(["-c", &script, "sh"]).arg(landau.get_program()).args(landau.get_args());
    let serving = Serving::new(limited.current_dir(room.path()));
    let half = format!("GET /a HTTP/1.1\r\nHost: x\r\nX: {}", "y".repeat(8000 - 30));
    let clients: Vec<TcpStream> = (0..CLIENTS)
        .map(|_| {
            let mut client = TcpStream::connect(serving.address).unwrap();
            client.set_read_timeout(Some(LONG)).unwrap();
            client.write_all(half.as_bytes()).unwrap();
            client
        })
        .collect();
    let mut last = &clients[CLIENTS - 1];
    let mut answer = [0; 12];
    last.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 503");
    assert!(serving.get("/a").ends_with("hello"));
    let is_refused = |client: &&TcpStream| {
        client.set_nonblocking(true).unwrap();
        client.peek(&mut [0; 1]).is_ok()
    };
    let refused = clients[..CLIENTS - 1].iter().filter(is_refused).count() + 1;
    println!("{} wait, {refused} get 503", CLIENTS - refused);
    assert!((1000..CLIENTS - 500).contains(&refused), "{refused} of {CLIENTS}");
    drop(clients);
    let ran = serving.end();
    assert!(ran.status == Some(0) && ran.err.contains("of memory left (RLIMIT_AS"), "{ran:?}");
}
