//! The benchmarks `architecture` and `files`: limits are results, and nothing is left behind.

use crate::support::{LANDAU, Process, Ran, Room, eventually, processes_with};
use landau_record::schema::{EndOutcome, Outcome};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The members of a pool, the server and the worker end with the run, no matter how it ends.
#[test]
#[cfg(target_os = "linux")]
fn a_killed_run_leaves_no_server() {
    let room = Room::new();
    let words = ["run", "architecture", "--study", "full", "--set", "architecture.architecture=prefork", "--no-report"];
    let words = [&words[..], &["--output", "r"]].concat();
    let mut child = Process::spawn(room.command(&words).stderr(Stdio::null())).unwrap();
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

/// No part of a server outlives its run, whether members of a pool, threads, or forked and executed children.
#[test]
#[cfg(target_os = "linux")]
fn a_server_of_any_architecture_ends_with_its_run() {
    for architecture in ["exec", "fork", "thread-pool", "event-loops", "io_uring"] {
        let room = Room::new();
        let setting = format!("architecture.architecture={architecture}");
        let words = ["run", "architecture", "--study", "full", "--set", &setting, "--no-report", "--output", "r"];
        let words = [&words[..], &["--set", "architecture.workload=work"]].concat();
        let mut child = Process::spawn(room.command(&words).stderr(Stdio::null())).unwrap();
        let is_ours = |pid: &i32| std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == room.path());
        let count =
            || ["__architecture", "landau-fork-helper"].into_iter().flat_map(processes_with).filter(is_ours).count();
        assert!(eventually(|| count() > 0), "no server of {architecture} was started");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(eventually(|| count() == 0), "a process of {architecture} outlived the run");
    }
}

/// Runs a script in a new mount namespace, in which `small` is an empty directory. Returns `None` if nothing can be
/// mounted.
#[cfg(target_os = "linux")]
fn in_namespace(room: &Room, script: &str) -> Option<Ran> {
    if landau_sys::process::effective_user() != 0 {
        eprintln!("skipped: only root can mount a file system");
        return None;
    }
    if let Err(error) = landau_sys::disk::probe_mount() {
        eprintln!("skipped: root may not mount a file system here ({error})");
        return None;
    }
    std::fs::create_dir(room.file("small")).unwrap();
    Some(Ran::of(room.other("unshare", &["-m", "sh", "-c", script]).output().unwrap()))
}

/// A file system without a free inode ends the curve at the exact n, and nothing is left in the directory.
#[test]
#[cfg(target_os = "linux")]
fn a_full_file_system_is_a_limit_of_files() {
    let room = Room::new();
    let script = format!(
        "mount -t tmpfs -o nr_inodes=40 none small && {LANDAU} run files --study smoke --dir small --set \
         files.order=file --output r --no-report; echo status $?; ls -A small"
    );
    let Some(ran) = in_namespace(&room, &script) else { return };
    assert_eq!(ran.out.lines().last(), Some("status 0"), "nothing is left in the folder: {ran:?}");
    let record = room.record("r");
    assert!(!record.passes.is_empty());
    for pass in &record.passes {
        let end = pass.end.as_ref().unwrap();
        assert_eq!(end.outcome, Outcome::Limit, "{end:?}");
        let limit = end.limit.as_ref().unwrap();
        // The scratch directory of the run, its lock and the directory of the files also use inodes.
        assert!(limit.call == "open" && limit.error == "ENOSPC" && (30..40).contains(&limit.n), "{limit:?}");
    }
}

/// A case whose files do not fit is not started.
#[test]
#[cfg(target_os = "linux")]
fn a_file_system_without_space_is_refused_by_files() {
    let room = Room::new();
    let script = format!(
        "mount -t tmpfs -o size=160k none small && {LANDAU} run files --study smoke --dir small --output r \
         --no-report; echo status $?; ls -A small"
    );
    let Some(ran) = in_namespace(&room, &script) else { return };
    assert_eq!(ran.out.lines().last(), Some("status 2"), "nothing is left in the folder: {ran:?}");
    assert!(ran.err.contains("its files need 1 MiB") && ran.err.contains("--dir"), "{}", ran.err);
    assert!(!room.file("r").exists(), "a record of nothing");
}

/// If no file can be created, nothing is measured and no record is written.
#[test]
#[cfg(target_os = "linux")]
fn a_read_only_folder_is_an_error_of_files() {
    let room = Room::new();
    let script = format!(
        "mount -t tmpfs -o ro none small && {LANDAU} run files --study smoke --dir small --output r --no-report; \
         echo status $?"
    );
    let Some(ran) = in_namespace(&room, &script) else { return };
    assert_eq!(ran.out.lines().last(), Some("status 2"), "{ran:?}");
    assert!(ran.err.contains("small") && ran.err.contains("--dir"), "{}", ran.err);
    assert!(!room.file("r").exists(), "a record of nothing");
}

/// A file system is unmounted during the run. The later passes fail and name the call, and the record is complete. The
/// register still lists the directory, which may reappear with its file system.
#[test]
#[cfg(target_os = "linux")]
fn a_vanished_mount_fails_the_passes_after_it() {
    let room = Room::new();
    // The run has hundreds of passes left when the first has ended.
    let script = format!(
        "mount -t tmpfs none small; {LANDAU} run files --study smoke --passes 500 --dir small --output r --no-report \
         --set files.order=file & pid=$!; \
         until grep -q '\"kind\":\"pass_end\"' r 2>/dev/null || ! kill -0 $pid; do sleep 0.05; done; \
         umount -l small; wait $pid; echo status $?; ls -A small; cat state/landau/scratch"
    );
    let Some(ran) = in_namespace(&room, &script) else { return };
    let lines: Vec<&str> = ran.out.lines().skip_while(|line| !line.starts_with("status")).collect();
    assert_eq!(lines.first(), Some(&"status 1"), "{ran:?}");
    assert!(lines.len() == 2 && lines[1].contains("/small/landau-scratch-"), "{lines:?}");
    let record = room.record("r");
    assert_eq!((&record.fault, &record.torn), (&None, &None));
    assert_eq!(record.end.as_ref().unwrap().outcome, EndOutcome::Failed);
    let last = record.passes.last().and_then(|pass| pass.end.as_ref()).unwrap();
    assert_eq!(last.outcome, Outcome::Failed);
    assert!(last.error.as_ref().is_some_and(|error| error.contains("mkdir")), "{last:?}");
    assert_eq!(room.landau(&["verify", "r"]).status, Some(0));
}

/// Another program fills the file system during the run. The later passes end with the error of the call, at a limit or
/// before their first file. The record is complete, and only that program's file is left.
#[test]
#[cfg(target_os = "linux")]
fn a_file_system_that_fills_up_ends_the_passes_after_it() {
    let room = Room::new();
    // The run has hundreds of passes left when the first has ended. A pass that ended differently from the first has
    // encountered the full file system. A shell without job control makes its background processes ignore SIGINT.
    let script = format!(
        "mount -t tmpfs -o size=4m none small
         {LANDAU} run files --study smoke --passes 500 --set files.order=file --dir small --output r --no-report &
         pid=$!
         until grep -q '\"kind\":\"pass_end\"' r 2>/dev/null || ! kill -0 $pid; do sleep 0.05; done
         until grep '\"kind\":\"pass_end\"' r | grep -vq '\"outcome\":\"done\"' || ! kill -0 $pid
         do dd if=/dev/zero bs=4k >>small/fill 2>/dev/null; sleep 0.05; done
         kill -TERM $pid; wait $pid; echo status $?; ls -A small; cat state/landau/scratch"
    );
    let Some(ran) = in_namespace(&room, &script) else { return };
    let lines: Vec<&str> = ran.out.lines().skip_while(|line| !line.starts_with("status")).collect();
    assert_eq!(lines, ["status 1", "fill"], "{ran:?}");
    let record = room.record("r");
    assert_eq!((&record.fault, &record.torn), (&None, &None));
    let ends: Vec<_> = record.passes.iter().filter_map(|pass| pass.end.as_ref()).collect();
    assert!(ends.iter().any(|end| end.outcome == Outcome::Done), "{ends:?}");
    let is_full = |end: &&&landau_record::schema::PassEnd| {
        let has_limit = end.limit.as_ref().is_some_and(|limit| limit.call == "write" && limit.error == "ENOSPC");
        has_limit || end.error.as_ref().is_some_and(|error| error.contains("ENOSPC"))
    };
    assert!(ends.iter().any(|end| is_full(&end)), "{ends:?}");
    assert!(ends.iter().all(|end| is_full(&end) || matches!(end.outcome, Outcome::Done | Outcome::Interrupted)));
    assert_eq!(room.landau(&["verify", "r"]).status, Some(0));
}

/// A resumed run continues in the directory of the interrupted one, no matter where it is started, and refuses another
/// directory.
#[test]
fn a_resumed_run_of_files_stays_in_its_folder() {
    let room = Room::new();
    for folder in ["first", "other"] {
        std::fs::create_dir(room.file(folder)).unwrap();
    }
    let words = ["run", "files", "--study", "smoke", "--passes", "1", "--dir", "first", "--output", "r", "--no-report"];
    assert_eq!(room.landau(&words).status, Some(0));
    let ran = room.landau(&["run", "--resume", "r", "--passes", "2", "--dir", "other", "--no-report"]);
    assert_eq!(ran.status, Some(2), "{ran:?}");
    let first = room.file("first").display().to_string();
    assert!(ran.err.contains("--dir other") && ran.err.contains(&first), "{}", ran.err);
    // Without that directory the run cannot be resumed.
    std::fs::rename(room.file("first"), room.file("gone")).unwrap();
    let ran = room.landau(&["run", "--resume", "r", "--passes", "2", "--no-report"]);
    assert!(ran.status == Some(2) && ran.err.contains(&first), "{ran:?}");
    std::fs::rename(room.file("gone"), room.file("first")).unwrap();
    assert_eq!(room.landau(&["run", "--resume", "r", "--passes", "2", "--no-report"]).status, Some(0));
    assert_eq!(room.record("r").header.folder, Some(first));
    assert_eq!(room.landau(&["verify", "r"]).status, Some(0));
}

/// A path consists of bytes, which need not be valid UTF-8.
#[test]
#[cfg(target_os = "linux")]
fn a_folder_whose_name_is_no_text_is_found_again() {
    use std::os::unix::ffi::OsStringExt;
    let room = Room::new();
    let folder = room.path().join(std::ffi::OsString::from_vec(b"caf\xe9 \"".to_vec()));
    std::fs::create_dir(&folder).unwrap();
    let words = ["run", "files", "--study", "smoke", "--passes", "1", "--output", "r", "--no-report", "--dir"];
    let ran = Ran::of(room.command(&words).arg(&folder).output().unwrap());
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert_eq!(room.record("r").header.folder(), Some(folder.clone()));
    let ran = room.landau(&["run", "--resume", "r", "--passes", "2", "--no-report"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert_eq!(count_in(&folder), 0);
}

/// Starts a run that fills a directory for a long time. Returns when the directory has entries.
fn filling(room: &Room) -> Process {
    let words = ["run", "files", "--study", "smoke", "--set", "files.size=0B", "--set", "files.n=1000000"];
    let words = [&words[..], &["--set", "files.order=file", "--dir", "names", "--output", "r", "--no-report"]].concat();
    std::fs::create_dir(room.file("names")).unwrap();
    let child = Process::spawn(room.command(&words).stderr(Stdio::null())).unwrap();
    let has_names = || {
        let first = |folder: PathBuf| std::fs::read_dir(folder).ok()?.flatten().next().map(|entry| entry.path());
        let pass = first(room.file("names")).and_then(|folder| first(folder.join("files")));
        pass.is_some_and(|pass| pass.join("file-00000500").exists())
    };
    assert!(eventually(has_names), "no file was created");
    child
}

fn count_in(folder: &std::path::Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

#[test]
#[cfg(target_os = "linux")]
fn an_interrupted_run_of_files_leaves_nothing() {
    let room = Room::new();
    let mut child = filling(&room);
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert_eq!(room.record("r").end.as_ref().unwrap().outcome, EndOutcome::Interrupted);
    assert_eq!(count_in(&room.file("names")), 0, "files were left behind");
    assert_eq!(std::fs::read_to_string(room.file("state/landau/scratch")).unwrap(), "");
}

/// The next run anywhere names the leftovers of a killed run; the next run in the same place removes them.
#[test]
#[cfg(target_os = "linux")]
fn what_a_killed_run_of_files_leaves_is_named_and_removed() {
    let room = Room::new();
    let mut child = filling(&room);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(count_in(&room.file("names")), 1);
    let elsewhere = |output| room.landau(&["run", "nop", "--study", "smoke", "--no-report", "--output", output]);
    // The worker may take a moment to end.
    let named = || {
        let ran = elsewhere("other");
        std::fs::remove_file(room.file("other")).unwrap();
        ran.err.contains("remove it with: rm -r") && ran.err.contains("/names/landau-scratch-")
    };
    assert!(eventually(named), "the folder is not named");
    let words = ["run", "nop", "--study", "smoke", "--no-report", "--dir", "names", "--output", "same"];
    let ran = room.landau(&words);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert_eq!(count_in(&room.file("names")), 0, "the folder was not removed");
    assert!(!elsewhere("last").err.contains("remove it with"), "a folder that is gone is named");
}

/// By default the files are in the current directory, whose file system is measured.
#[test]
fn files_are_in_the_current_directory() {
    let room = Room::new();
    let (words, temporary) = (["run", "files", "--study", "smoke", "--no-report", "--output", "r"], Room::new());
    let mut command = room.command(&words);
    let mut child = Process::spawn(command.env("TMPDIR", temporary.path()).stderr(Stdio::null())).unwrap();
    let is_there = eventually(|| !room.leftovers().is_empty() || child.try_wait().unwrap().is_some());
    assert!(is_there && temporary.leftovers().is_empty());
    assert!(child.wait().unwrap().success());
    let register = std::fs::read_to_string(room.file("state/landau/scratch")).unwrap();
    assert_eq!((register.as_str(), room.leftovers().len()), ("", 0));
}

/// Each file system that this system can mount stores the files, and reads them back with a cold cache if it has a
/// device.
#[test]
#[cfg(target_os = "linux")]
fn every_file_system_holds_the_files() {
    for kind in ["ext4", "xfs", "btrfs", "tmpfs"] {
        let room = Room::new();
        let setting = format!("files.filesystem={kind}");
        let words = ["files", "--set", &setting, "--set", "files.n=40"];
        let fixed = ["run", "--study", "smoke", "--output", "run.ndjson", "--no-report"];
        let ran = room.landau(&[&fixed[..], &words].concat());
        if !room.file("run.ndjson").exists() {
            assert!(ran.err.contains("skipped, because"), "{ran:?}");
            eprintln!("skipped: {}", ran.err);
            continue;
        }
        assert_eq!(ran.status, Some(0), "{kind}: {ran:?}");
        for pass in &room.record("run.ndjson").passes {
            let end = pass.end.as_ref().unwrap();
            assert_eq!((end.outcome, end.steps), (Outcome::Done, 40), "{kind}: {end:?}");
            assert_eq!(end.facts.get("file_system").map(ToString::to_string).as_deref(), Some(kind));
            // Only ext4 has block groups, and inodes that it does not reuse for minutes.
            let placement = end.facts.get("directory_placement").map(ToString::to_string);
            let is_spread = placement.is_some_and(|text| text.contains("chattr +T"));
            assert_eq!(is_spread, kind == "ext4", "{end:?}");
        }
        assert_eq!(room.leftovers(), Vec::<String>::new());
    }
}

/// Every architecture also serves persistent connections, and does the work of each request.
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

/// With the default number of connections such a pool was once only found too small when a pass failed.
#[test]
fn a_pool_that_is_too_small_is_skipped() {
    let room = Room::new();
    let sets = ["architecture=thread-pool", "workload=work", "pool=10"].map(|set| format!("architecture.{set}"));
    let words = ["run", "architecture", "--study", "quick", "--passes", "1", "--output", "r", "--no-report"];
    let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
    let ran = room.landau(&[&words[..], &sets].concat());
    assert!(ran.err.contains("a pool of 10 serves only 10 of 64 persistent connections; set pool=0"), "{ran:?}");
}

/// An edge-triggered event loop that does not clear a readiness that it has used up would never sleep again.
#[test]
#[cfg(target_os = "linux")]
fn an_idle_event_loop_sleeps() {
    use landau_sys::process::{OwnedChild, time_of_ns};
    use std::io::{BufRead, BufReader, Read, Write};
    let room = Room::new();
    for backend in ["epoll", "epoll-edge", "poll"] {
        let words = ["__architecture", "event-loop", "work", "1", "8", backend];
        let mut server = OwnedChild::spawn(room.command(&words).stdout(Stdio::piped())).unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().parse::<u16>().unwrap();
        let mut client = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        client.write_all(b"work\r\n").unwrap();
        client.read_exact(&mut [0; 14]).unwrap();
        let before_ns = time_of_ns(server.id()).unwrap();
        // Long enough to detect a spinning loop. A busy machine only gives the loop less CPU time.
        std::thread::sleep(std::time::Duration::from_millis(300));
        let used_ns = time_of_ns(server.id()).unwrap() - before_ns;
        assert!(used_ns < 20_000_000, "{backend}: {used_ns} ns while there was nothing to do");
    }
}

/// The calls that a case times depend on its settings.
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
