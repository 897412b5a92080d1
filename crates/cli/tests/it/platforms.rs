//! The platforms that need no emulator: they measure, do not change the host and leave nothing behind.

use crate::support::{Ran, Room, eventually, install};
use landau_record::Record;
use landau_record::schema::{EndOutcome, Unit};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Runs a smoke study of the lab in this folder.
fn lab(room: &Room, arguments: &[&str]) -> Ran {
    let fixed = ["lab", "run", "--study", "smoke", "--no-report", "--seed", "1", "--cache", "cache"];
    room.landau(&[&fixed, arguments].concat())
}

/// Returns the only record that a run left.
fn record(room: &Room, ran: &Ran) -> Record {
    let paths: Vec<PathBuf> = std::fs::read_dir(room.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(".landau.ndjson"))
        .collect();
    assert_eq!(paths.len(), 1, "{paths:?} {ran:?}");
    Record::read(&paths[0]).unwrap()
}

/// Returns the processes whose working directory is a folder, as it is for everything that a test starts.
fn processes_in(folder: &Path) -> Vec<String> {
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    let is_there = |path: &PathBuf| std::fs::read_link(path.join("cwd")).is_ok_and(|cwd| cwd == folder);
    pids.map(|entry| entry.path()).filter(is_there).map(|path| path.display().to_string()).collect()
}

fn host_value(name: &str) -> String {
    std::fs::read_to_string(Path::new("/proc/sys").join(name.replace('.', "/"))).unwrap()
}

/// Whether a platform is usable here, according to `landau lab platforms`.
fn is_usable(room: &Room, platform: &str) -> bool {
    let ran = room.landau(&["lab", "platforms", "--json", "--cache", "cache"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let rows: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let row = rows.as_array().unwrap().iter().find(|row| row["platform"] == platform);
    row.unwrap_or_else(|| panic!("{platform}: {}", ran.out))["usable"] == true
}

#[test]
fn native_measures_the_running_kernel() {
    let room = Room::new();
    let ran = lab(&room, &["--kernel", "host", "bind", "open"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.err.contains("platform: native"), "{ran:?}");
    let record = record(&room, &ran);
    let lab = record.lab.as_ref().unwrap();
    assert_eq!((lab.platform.as_str(), record.unit()), ("native", Unit::Ns));
    assert_eq!(record.end.as_ref().unwrap().outcome, EndOutcome::Complete);
    assert!(record.passes.iter().all(landau_record::Pass::is_complete));
    assert_eq!(room.leftovers(), Vec::<String>::new());
    assert_eq!(processes_in(room.path()), Vec::<String>::new());
}

#[test]
fn netns_sets_sysctls_without_changing_the_host() {
    const RANGE: &str = "net.ipv4.ip_local_port_range";
    let room = Room::new();
    if !is_usable(&room, "netns") {
        return println!("skipped: no network namespace can be created here");
    }
    let before = host_value(RANGE);
    let ran = lab(&room, &["--platform", "netns", "bind", "--sysctl", &format!("{RANGE}=41000 42500")]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let record = record(&room, &ran);
    assert_eq!(record.lab.as_ref().unwrap().platform, "netns");
    let seen: Vec<&str> = record.host.sysctls[RANGE].split_whitespace().collect();
    assert_eq!(seen, ["41000", "42500"], "the guest did not see the sysctl");
    assert_eq!(host_value(RANGE), before, "the host was changed");
    assert_eq!(room.leftovers(), Vec::<String>::new());
}

#[test]
fn sysctls_that_would_change_the_host_are_refused() {
    let room = Room::new();
    let before = [host_value("fs.file-max"), host_value("vm.max_map_count")];
    for (platform, setting) in
        [("netns", "fs.file-max=1000"), ("netns", "vm.max_map_count=100"), ("native", "net.core.somaxconn=1")]
    {
        let ran = lab(&room, &["--platform", platform, "bind", "--sysctl", setting]);
        assert_eq!(ran.status, Some(2), "{ran:?}");
        let name = setting.split('=').next().unwrap();
        assert!(ran.err.contains(name) && ran.err.contains("exact"), "{ran:?}");
    }
    assert_eq!([host_value("fs.file-max"), host_value("vm.max_map_count")], before);
}

#[test]
fn impossible_combinations_are_refused_with_advice() {
    let room = Room::new();
    std::fs::write(room.file("text"), "not a kernel").unwrap();
    for (arguments, expected) in [
        (["--platform", "native", "--kernel", "text"], "--kernel host"),
        (["--platform", "exact", "--kernel", "text"], "a text file"),
        (["--platform", "exact", "--kernel", "ssh:nobody@nowhere"], "ssh"),
        (["--platform", "ssh", "--kernel", "host"], "ssh:USER@HOST"),
        (["--platform", "exact", "--kernel", "image:text"], "disk image"),
    ] {
        let ran = lab(&room, &arguments);
        assert!(ran.status == Some(2) && ran.err.contains(expected), "{arguments:?}: {ran:?}");
    }
}

#[test]
fn sigkill_leaves_no_guest() {
    let room = Room::new();
    let words = ["lab", "run", "--platform", "native", "fork", "--passes", "90", "--no-report", "--cache", "cache"];
    let mut child = room.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    assert!(eventually(|| processes_in(room.path()).len() >= 3), "no guest was started");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(eventually(|| processes_in(room.path()).is_empty()), "{:?}", processes_in(room.path()));
}

/// Writes a program called `ssh` that runs its command on this machine; returns a PATH that finds it first.
fn stub_of_ssh(room: &Room, text: &str) -> String {
    let folder = room.file("bin");
    std::fs::create_dir(&folder).unwrap();
    let script = room.file("script");
    std::fs::write(&script, text).unwrap();
    install(&script, &folder.join("ssh"));
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap())
}

/// Runs a benchmark over a stub of ssh; returns the program's process ID too.
fn by_ssh(room: &Room, path: &str) -> (Ran, u32) {
    let words = ["lab", "run", "--study", "smoke", "--no-report", "--cache", "cache"];
    let mut command = room.command(&[&words[..], &["-k", "ssh:me@elsewhere:2222", "bind"]].concat());
    command.env("PATH", path).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let id = child.id();
    (Ran::of(child.wait_with_output().unwrap()), id)
}

#[test]
fn over_ssh_the_program_is_copied_measures_and_is_removed() {
    let room = Room::new();
    let stub = "#!/bin/sh\n[ \"$1\" = -V ] && { echo OpenSSH_stub; exit 0; }\necho \"$@\" >> arguments\n\
                for last; do :; done\nexec sh -c \"$last\"\n";
    let path = stub_of_ssh(&room, stub);
    let (ran, id) = by_ssh(&room, &path);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let record = record(&room, &ran);
    assert_eq!(record.lab.as_ref().unwrap().platform, "ssh");
    assert_eq!((record.unit(), record.end.as_ref().unwrap().outcome), (Unit::Ns, EndOutcome::Complete));
    let calls = std::fs::read_to_string(room.file("arguments")).unwrap();
    assert!(calls.lines().count() == 2 && calls.contains("-p 2222 -- me@elsewhere"), "{calls}");
    assert!(calls.lines().all(|line| line.contains("BatchMode=yes")), "{calls}");
    let left = std::fs::read_dir("/tmp")
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&format!("landau-{id}-")));
    assert_eq!(left.count(), 0, "the program was left on the remote machine");
    assert_eq!(processes_in(room.path()), Vec::<String>::new());
}

#[test]
fn the_error_message_of_ssh_is_shown() {
    let room = Room::new();
    let stub =
        "#!/bin/sh\n[ \"$1\" = -V ] && exit 0\necho 'me@elsewhere: Permission denied (publickey).' >&2\nexit 255\n";
    let path = stub_of_ssh(&room, stub);
    let (ran, _) = by_ssh(&room, &path);
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(ran.err.contains("Permission denied (publickey)"), "{ran:?}");
}

#[test]
fn every_platform_is_listed_with_its_needs() {
    let room = Room::new();
    let ran = room.landau(&["lab", "platforms", "--json", "--cache", "cache"]);
    let rows: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let names: Vec<&str> = rows.as_array().unwrap().iter().filter_map(|row| row["platform"].as_str()).collect();
    let registered: Vec<&str> = landau_lab::platform::REGISTRY.iter().map(|platform| platform.name()).collect();
    assert_eq!(names, registered);
    assert!(is_usable(&room, "native"));
    for row in rows.as_array().unwrap() {
        assert!(!row["detail"].as_str().unwrap().is_empty() && !row["about"].as_str().unwrap().is_empty(), "{row}");
    }
}
