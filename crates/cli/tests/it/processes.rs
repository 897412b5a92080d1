//! `landau serve --processes`: worker processes that end, and their supervisor.

use crate::serve::{LONG, Serving, room};
use crate::support::{Ran, Room, eventually, is_root};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{ChildStderr, Command};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

fn serving(room: &Room, processes: &str, more: &[&str]) -> Serving {
    let words = ["serve", "www", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--processes", processes];
    Serving::new(room.command(&words).args(more))
}

/// Returns the worker processes that the server reported when it was ready.
fn processes(serving: &Serving) -> Vec<u32> {
    let list = serving.ready["processes"].as_array().unwrap();
    list.iter().map(|pid| u32::try_from(pid.as_u64().unwrap()).unwrap()).collect()
}

fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
}

/// Returns whether a process runs. A zombie has ended; its parent has not yet waited for it.
fn is_running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// Returns a value from `/metrics`.
fn metric(serving: &Serving, name: &str) -> u64 {
    let mut stream = TcpStream::connect(serving.ready["metrics"].as_str().unwrap()).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    let line = page.lines().find_map(|line| line.strip_prefix(&format!("landau_serve_{name} ")));
    line.unwrap_or_else(|| panic!("{name}: {page}")).parse().unwrap()
}

/// Opens a persistent connection.
fn connect(serving: &Serving) -> TcpStream {
    let stream = TcpStream::connect(serving.address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
}

/// Sends a request on a persistent connection. Returns whether there was a response.
fn ask(stream: &mut TcpStream) -> bool {
    let sent = stream.write_all(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
    let mut answer = Vec::new();
    let mut buffer = [0; 1000];
    while sent.is_ok() && !answer.ends_with(b"hello") {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return false,
            Ok(count) => answer.extend_from_slice(&buffer[..count]),
        }
    }
    answer.starts_with(b"HTTP/1.1 200 ")
}

/// Returns the next line on standard error that does not depend on the machine.
fn next_line(said: &mut BufReader<ChildStderr>) -> String {
    loop {
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        if !["no sandbox: ", "of memory left", "room for "].iter().any(|note| line.contains(note)) {
            return line;
        }
    }
}

/// Only the connections of the killed process are lost, and each kill is counted and reported once.
#[test]
#[cfg(target_os = "linux")]
fn a_killed_process_is_replaced_and_nothing_else_is_lost() {
    const KILLS: u32 = 3;
    if !may_list_children() {
        return;
    }
    let room = room();
    let mut serving = serving(&room, "2", &["--sandbox", "if-possible"]);
    let mut said = BufReader::new(serving.child.stderr.take().unwrap());
    let mut kept: Vec<TcpStream> = (0..24).map(|_| connect(&serving)).collect();
    assert!(kept.iter_mut().all(ask));
    let (is_over, lost, answered) = (AtomicBool::new(false), AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let count = if ask(&mut connect(&serving)) { &answered } else { &lost };
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        for kill in 1..=KILLS {
            let before = answered.load(Ordering::Relaxed);
            assert!(eventually(|| answered.load(Ordering::Relaxed) >= before + 20), "the server does not answer");
            let workers = children(&serving, 2);
            signal(workers[kill as usize % 2], "-KILL");
            let line = next_line(&mut said);
            assert!(
                line.contains(&format!(
                    "worker process {} was killed by SIGKILL; starting another",
                    workers[kill as usize % 2]
                )),
                "{line}"
            );
            assert!(eventually(|| metric(&serving, "processes") == 2), "none was started");
            assert_eq!(metric(&serving, "process_ends_total"), u64::from(kill));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    // The client has one connection at a time, which may have belonged to the killed process.
    assert!(lost.load(Ordering::Relaxed) <= KILLS, "{lost:?} of {answered:?}");
    // Both initial processes were killed, and with them all earlier connections.
    assert_eq!(kept.iter_mut().map(ask).filter(|is_answered| *is_answered).count(), 0);
    assert!(eventually(|| metric(&serving, "open_connections") == 0), "the dead are counted");
    let counted = metric(&serving, "succeeded_total") as u32;
    assert!(counted >= 24 + answered.load(Ordering::Relaxed), "{counted} of {answered:?}");
    let ran = serving.end();
    assert_eq!(ran.status, Some(0), "{ran:?}");
}

/// Sends SIGTERM repeatedly until the server has ended.
fn insist(serving: &mut Serving) {
    let mut status = None;
    let has_ended = eventually(|| {
        serving.signal("-TERM");
        status = serving.child.try_wait().unwrap();
        status.is_some()
    });
    assert!(has_ended && status.unwrap().code() == Some(0), "{status:?}");
}

/// Returns the current worker processes, as soon as there are `count` of them.
fn children(serving: &Serving, count: usize) -> Vec<u32> {
    let mut found = Vec::new();
    assert!(eventually(|| {
        found = landau_sys::system::children(serving.child.id());
        found.retain(|pid| {
            let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
            tasks.flatten().any(|task| {
                std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.starts_with("worker"))
            })
        });
        found.len() == count
    }));
    found
}

/// Returns whether the system lists the children of a process.
fn may_list_children() -> bool {
    let lists = landau_sys::system::lists_children();
    if !lists {
        eprintln!("skipped: the system does not list the children of processes");
    }
    lists
}

/// Stops a process with SIGSTOP, and waits until it is stopped.
fn stop(pid: u32) {
    signal(pid, "-STOP");
    let is_stopped = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        status.lines().any(|line| line.starts_with("State:") && line.contains("T (stopped)"))
    };
    assert!(eventually(is_stopped));
}

/// The supervisor keeps the socket open: connections wait in the accept queue while there is no worker process.
#[test]
#[cfg(target_os = "linux")]
fn connections_in_the_queue_outlive_a_process() {
    let room = room();
    let serving = serving(&room, "1", &[]);
    let worker = processes(&serving)[0];
    stop(worker);
    let mut waiting: Vec<TcpStream> = (0..20).map(|_| connect(&serving)).collect();
    for stream in &mut waiting {
        stream.write_all(b"GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    }
    signal(worker, "-KILL");
    for stream in &mut waiting {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("hello"), "{answer}");
    }
    assert_eq!(metric(&serving, "process_ends_total"), 1);
    assert_eq!(serving.end().status, Some(0));
}

/// A process that fails at its start is restarted after increasing pauses.
#[test]
fn processes_that_fail_at_once_are_started_less_and_less_often() {
    let room = room();
    let mut serving = serving(&room, "1", &[]);
    let mut said = BufReader::new(serving.child.stderr.take().unwrap());
    std::fs::rename(room.file("www"), room.file("elsewhere")).unwrap();
    signal(processes(&serving)[0], "-KILL");
    let mut pauses = Vec::new();
    while pauses.len() < 4 {
        let line = next_line(&mut said);
        assert!(!line.is_empty(), "it ended: {pauses:?}");
        match line.split_once("starting another one") {
            // On a very busy machine the first process may have run for a long time before it was killed.
            Some((_, pause)) => pauses.extend(Some(pause.trim().to_owned()).filter(|pause| !pause.is_empty())),
            None => assert!(line.starts_with("landau: cannot serve www: "), "{line}"),
        }
    }
    assert_eq!(pauses, ["in 100ms", "in 200ms", "in 400ms", "in 800ms"]);
    std::fs::rename(room.file("elsewhere"), room.file("www")).unwrap();
    assert!(serving.get("/a").ends_with("hello"));
    assert_eq!(serving.end().status, Some(0));
}

#[test]
#[cfg(target_os = "linux")]
fn signals_are_passed_on() {
    let room = room();
    std::fs::create_dir(room.file("log")).unwrap();
    std::fs::set_permissions(room.file("log"), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let more = ["--log", "log/access", "--head-timeout", "1000s", "--drain-timeout", "1000s"];
    let mut serving = serving(&room, "2", &more);
    let lines = |name: &str| std::fs::read_to_string(room.file(name)).map_or(0, |text| text.lines().count());
    serving.get("/a");
    assert!(eventually(|| lines("log/access") == 1));
    std::fs::rename(room.file("log/access"), room.file("log/access.1")).unwrap();
    serving.signal("-HUP");
    assert!(eventually(|| room.file("log/access").exists()));
    let workers = processes(&serving);
    // Both workers have the log open.
    let has_it = |pid: &u32| {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let fds = tasks.flat_map(|task| std::fs::read_dir(task.unwrap().path().join("fd")).into_iter().flatten());
        fds.flatten().any(|fd| std::fs::read_link(fd.path()).is_ok_and(|path| path.ends_with("log/access")))
    };
    assert!(eventually(|| workers.iter().all(has_it)));
    for _ in 0..20 {
        serving.get("/a");
    }
    assert!(eventually(|| lines("log/access") == 20));
    // Busy connections are given time to finish.
    let mut busy: Vec<TcpStream> = (0..8).map(|_| crate::serve::busy(&serving)).collect();
    let said = serving.child.stderr.take().unwrap();
    serving.signal("-TERM");
    assert!(eventually(|| TcpStream::connect(serving.address).is_err()), "it accepts connections");
    for stream in &mut busy {
        stream.write_all(b"/a HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut rest = String::new();
        stream.read_to_string(&mut rest).unwrap();
        assert_eq!(rest.matches("hello").count(), 2, "{rest}");
    }
    assert_eq!(serving.child.wait().unwrap().code(), Some(0));
    let said: Vec<String> = BufReader::new(said).lines().map(Result::unwrap).collect();
    let ending = said.iter().filter(|line| line.starts_with("landau: stopping: busy connections have 16m40s"));
    assert_eq!(ending.count(), 1, "{said:?}");
    assert!(!said.iter().any(|line| line.contains("worker process")), "{said:?}");
}

/// A thread that looks up a name may outlive a reload in the supervisor, which forks. A process that is started later
/// has the same rules as the others.
#[test]
#[cfg(target_os = "linux")]
fn a_reload_reaches_the_processes_that_are_started_later() {
    let room = room();
    let write = |rules: &str| std::fs::write(room.file("serve.toml"), rules).unwrap();
    write("[[rule]]\npath = '/'\nset-headers = { X-A = 'one' }\n");
    let serving = serving(&room, "2", &["--config", "serve.toml", "--sandbox", "never"]);
    assert!(serving.get("/a").contains("X-A: one\r\n"));
    // The name is new, and no process listens there.
    write(
        "[[rule]]\npath = '/'\nset-headers = { X-A = 'two' }\n[[rule]]\npath = '/b/'\nproxy = 'http://localhost:9'\n",
    );
    serving.signal("-HUP");
    let has_rules = || serving.get("/a").contains("X-A: two\r\n") && serving.get("/b/").starts_with("HTTP/1.1 502 ");
    let all_have_them = || (0..30).all(|_| has_rules());
    assert!(eventually(all_have_them));
    let threads = std::fs::read_dir(format!("/proc/{}/task", serving.child.id())).unwrap().count();
    assert_eq!(threads, 1, "the supervisor has other threads");
    for pid in processes(&serving) {
        signal(pid, "-KILL");
    }
    assert!(eventually(|| metric(&serving, "process_ends_total") == 2 && metric(&serving, "processes") == 2));
    assert!(all_have_them());
    assert_eq!(serving.end().status, Some(0));
}

/// The second SIGTERM ends processes that wait for busy connections.
#[test]
fn the_second_signal_ends_all_processes_at_once() {
    let room = room();
    let mut serving = serving(&room, "2", &["--head-timeout", "1000s", "--drain-timeout", "1000s"]);
    let mut busy = connect(&serving);
    assert!(ask(&mut busy));
    busy.write_all(b"GET ").unwrap();
    assert!(eventually(|| metric(&serving, "held_bytes") > 0));
    insist(&mut serving);
    assert!(processes(&serving).iter().all(|&pid| !is_running(pid)));
}

/// Workers do not outlive their supervisor.
#[test]
#[cfg(target_os = "linux")]
fn without_a_supervisor_the_processes_end() {
    if !may_list_children() {
        return;
    }
    let room = room();
    let mut serving = serving(&room, "2", &[]);
    let all = landau_sys::system::children(serving.child.id());
    assert_eq!(all.len(), 3, "two workers, and one for the metrics");
    signal(serving.child.id(), "-KILL");
    serving.child.wait().unwrap();
    assert!(eventually(|| !all.iter().any(|&pid| is_running(pid))), "{all:?}");
}

#[test]
#[cfg(target_os = "linux")]
fn worker_processes_give_up_privileges() {
    if !may_list_children() {
        return;
    }
    let room = room();
    let serving = serving(&room, "2", &["--symlinks", "inside"]);
    let sandboxed = serving.ready["sandbox"].as_bool().unwrap();
    let alone = Serving::new(&mut room.command(&["serve", "www", "--listen", "127.0.0.1:0"]));
    assert_eq!(sandboxed, alone.ready["sandbox"].as_bool().unwrap());
    alone.end();
    for pid in children(&serving, 2) {
        for task in std::fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
            let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
            assert!(status.contains("\nNoNewPrivs:\t1\n"), "{status}");
            let nobody = landau_sys::privilege::user("nobody").unwrap().unwrap().user;
            assert!(
                !is_root() || status.contains(&format!("\nUid:\t{nobody}\t{nobody}\t{nobody}\t{nobody}\n")),
                "{status}"
            );
        }
    }
    assert_eq!(serving.end().status, Some(0));
}

/// One line states the reason, as without a supervisor.
#[test]
fn an_error_at_the_start_is_told_once() {
    let room = room();
    for (words, expected) in [
        (&["nowhere"][..], "landau: cannot serve nowhere: "),
        (&["www", "--log", "nowhere/log"], "landau: cannot write the log nowhere/log: "),
        (&["www", "--log", "-"], "landau: --log - with --processes: "),
    ] {
        let fixed = ["serve", "--listen", "127.0.0.1:0", "--processes", "3"];
        let ran: Ran = room.landau(&[&fixed, words].concat());
        assert!(ran.status == Some(2) && ran.err.starts_with(expected), "{words:?}: {ran:?}");
        assert_eq!(ran.err.lines().count(), 1, "{ran:?}");
    }
}

/// Each further signal once gave a process that does not end another five seconds.
#[test]
#[cfg(target_os = "linux")]
fn a_process_that_does_not_end_is_killed_however_often_the_signal_comes() {
    let room = room();
    let mut serving = serving(&room, "2", &[]);
    stop(processes(&serving)[0]);
    insist(&mut serving);
    let mut said = String::new();
    serving.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(said.matches(" did not stop in time; killing it").count(), 1, "{said}");
}

/// nginx replaces its program on this signal. It once ended this server immediately.
#[test]
fn an_upgrade_in_place_is_refused() {
    let room = room();
    let words = ["serve", "www", "--listen", "127.0.0.1:0"];
    for processes in [&[][..], &["--processes", "1"]] {
        let mut serving = Serving::new(room.command(&words).args(processes));
        let mut said = BufReader::new(serving.child.stderr.take().unwrap());
        serving.signal("-USR2");
        let line = next_line(&mut said);
        assert!(line.starts_with("landau: SIGUSR2: in-place upgrade is not supported"), "{line}");
        assert!(serving.get("/a").ends_with("hello"));
        assert_eq!(serving.end().status, Some(0));
    }
}

/// Once, all processes used the first CPUs of the list.
#[test]
#[cfg(target_os = "linux")]
fn processes_are_pinned_to_different_cpus() {
    let cpus = landau_sys::system::processors();
    if cpus.len() < 2 || !may_list_children() {
        eprintln!("skipped: this needs two CPUs");
        return;
    }
    let room = room();
    let serving = serving(&room, "2", &["--pin", &format!("{},{}", cpus[0], cpus[1])]);
    let allowed = |pid: u32| {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
        let status = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("status")).unwrap();
        let worker = tasks.map(status).find(|status| status.starts_with("Name:\tworker")).unwrap();
        let line = worker.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
        line.trim().parse::<u32>().unwrap()
    };
    let mut pinned: Vec<u32> = children(&serving, 2).into_iter().map(allowed).collect();
    pinned.sort_unstable();
    assert_eq!(pinned, cpus[..2]);
    assert_eq!(serving.end().status, Some(0));
}
