//! The benchmarks `architecture` and `files`: limits are results, and nothing is left behind.

use crate::support::{LANDAU, Ran, Room, eventually, processes_with};
use landau_record::schema::Outcome;
use std::process::{Command, Stdio};

/// The members of a pool, the server and the worker end with the run, however it ends.
#[test]
#[cfg(target_os = "linux")]
fn a_killed_run_leaves_no_server() {
    let room = Room::new();
    let words = ["run", "architecture", "--study", "full", "--set", "architecture.architecture=prefork", "--no-report"];
    let mut child = room.command(&[&words[..], &["--output", "r"]].concat()).stderr(Stdio::null()).spawn().unwrap();
    let servers = || -> Vec<i32> {
        let is_ours = |pid: &i32| std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == room.path());
        processes_with("__architecture").into_iter().filter(is_ours).collect()
    };
    // The server and its pool.
    assert!(eventually(|| servers().len() > 16), "no server was started");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(eventually(|| servers().is_empty()), "a server outlived the run");
}

/// A file system without a free inode ends the curve with the exact n. Root mounts it in a namespace.
#[test]
#[cfg(target_os = "linux")]
fn a_full_file_system_is_a_limit_of_files() {
    if landau_sys::process::effective_user() != 0 {
        return;
    }
    let room = Room::new();
    let script = format!(
        "mkdir small && mount -t tmpfs -o nr_inodes=40 none small && {LANDAU} run files --study smoke --dir small \
         --set files.order=file --output r --no-report; echo status $?; ls -A small"
    );
    let output = Command::new("unshare").args(["-m", "sh", "-c", &script]).current_dir(room.path()).output().unwrap();
    let ran = Ran::of(output);
    assert_eq!(ran.out.lines().last(), Some("status 0"), "nothing is left in the folder: {ran:?}");
    let record = room.record("r");
    assert!(!record.passes.is_empty());
    for pass in &record.passes {
        let end = pass.end.as_ref().unwrap();
        assert_eq!(end.outcome, Outcome::Limit, "{end:?}");
        let limit = end.limit.as_ref().unwrap();
        // The folder of the run, its lock and the directory of the files take inodes too.
        assert!(limit.call == "open" && limit.error == "ENOSPC" && (30..40).contains(&limit.n), "{limit:?}");
    }
}

/// Every architecture serves connections that stay, too, and does the work of each request.
#[test]
#[cfg(target_os = "linux")]
fn every_architecture_works_for_connections_that_stay() {
    let room = Room::new();
    let words = ["architecture", "--set", "architecture.workload=work", "--set", "architecture.pool=40"];
    let (ran, record) = room.smoke(&words);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(record.cases.len() >= 7, "{:?}", record.skips);
    for pass in &record.passes {
        let (end, label) = (pass.end.as_ref().unwrap(), &record.case(pass.start.case).unwrap().label);
        assert_eq!((end.outcome, end.steps), (Outcome::Done, 32), "{label}: {end:?}");
        let fact = |name: &str| end.facts.get(name).map(ToString::to_string);
        assert_eq!(fact("failures").as_deref(), Some("0"), "{label}");
    }
}

/// An edge-triggered event loop that does not forget a readiness that it has used up would never sleep again.
#[test]
#[cfg(target_os = "linux")]
fn an_idle_event_loop_sleeps() {
    use landau_sys::process::{OwnedChild, time_of_ns};
    use std::io::{BufRead, BufReader, Read, Write};
    for backend in ["epoll", "epoll-edge", "poll"] {
        let words = ["__architecture", "event-loop", "work", "1", "8", backend];
        let mut command = Command::new(LANDAU);
        let mut server = OwnedChild::spawn(command.args(words).stdout(Stdio::piped())).unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().parse::<u16>().unwrap();
        let mut client = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        client.write_all(b"work\r\n").unwrap();
        client.read_exact(&mut [0; 14]).unwrap();
        let before_ns = time_of_ns(server.id()).unwrap();
        // Long enough for a loop that spins to show; a busy machine only gives it less.
        std::thread::sleep(std::time::Duration::from_millis(300));
        let used_ns = time_of_ns(server.id()).unwrap() - before_ns;
        assert!(used_ns < 20_000_000, "{backend}: {used_ns} ns while there was nothing to do");
    }
}

/// What a case times depends on its settings.
#[test]
#[cfg(target_os = "linux")]
fn every_durability_has_its_calls() {
    let room = Room::new();
    for (durability, calls) in [
        ("none", "create write close"),
        ("fsync", "create write sync close"),
        ("fsync-directory", "create write sync close"),
        ("syncfs-at-end", "create write close"),
        ("dsync", "create write close"),
        ("rename", "create write sync close rename"),
    ] {
        let durability = format!("files.durability={durability}");
        let words = ["files", "--set", "files.n=20", "--set", "files.order=file", "--set", &durability];
        let (ran, record) = room.smoke(&words);
        assert_eq!(ran.status, Some(0), "{ran:?}");
        let names: Vec<&str> = record.cases[0].phases.iter().map(|phase| phase.name.as_str()).collect();
        assert_eq!(names.join(" "), format!("{calls} stat open read unlink"));
        assert_eq!(record.passes[0].end.as_ref().unwrap().outcome, Outcome::Done);
        std::fs::remove_file(room.file("run.ndjson")).unwrap();
    }
}
