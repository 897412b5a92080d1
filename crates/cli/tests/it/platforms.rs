//! The lab's platforms that need no emulator: they measure, change nothing of the host and leave nothing behind.

use crate::support::{Ran, Room, eventually};
use landau_record::Record;
use landau_record::schema::Unit;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// A smoke run of the lab in this folder.
fn lab(room: &Room, words: &[&str]) -> Ran {
    let fixed = ["lab", "run", "--study", "smoke", "--no-report", "--seed", "1", "--cache", "cache"];
    room.landau(&[&fixed, words].concat())
}

/// The one record that a run left.
fn record(room: &Room, ran: &Ran) -> Record {
    let paths: Vec<PathBuf> = std::fs::read_dir(room.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(".landau.ndjson"))
        .collect();
    assert_eq!(paths.len(), 1, "{paths:?} {ran:?}");
    Record::read(&paths[0]).unwrap()
}

/// Processes that work in a folder: everything that a test's program started does.
fn processes_in(folder: &Path) -> Vec<String> {
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    let is_there = |path: &PathBuf| std::fs::read_link(path.join("cwd")).is_ok_and(|cwd| cwd == folder);
    pids.map(|entry| entry.path()).filter(is_there).map(|path| path.display().to_string()).collect()
}

fn host_value(name: &str) -> String {
    std::fs::read_to_string(Path::new("/proc/sys").join(name.replace('.', "/"))).unwrap()
}

/// Whether a platform is usable here, by the program's own account.
fn is_usable(room: &Room, platform: &str) -> bool {
    let ran = room.landau(&["lab", "platforms", "--json", "--cache", "cache"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let rows: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let row = rows.as_array().unwrap().iter().find(|row| row["platform"] == platform);
    row.unwrap_or_else(|| panic!("{platform}: {}", ran.out))["usable"] == true
}

#[test]
fn the_running_kernel_is_measured_where_it_runs() {
    let room = Room::new();
    let ran = lab(&room, &["--kernel", "host", "bind", "open"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.err.contains("platform: native"), "{ran:?}");
    let record = record(&room, &ran);
    let lab = record.lab.as_ref().unwrap();
    assert_eq!((lab.platform.as_str(), record.unit()), ("native", Unit::Ns));
    assert_eq!(record.end.as_ref().unwrap().outcome, "complete");
    assert!(record.passes.iter().all(landau_record::Pass::is_whole));
    assert_eq!(room.leftovers(), Vec::<String>::new());
    assert_eq!(processes_in(room.path()), Vec::<String>::new());
}

#[test]
fn a_setting_is_tried_in_a_network_of_its_own_and_the_host_keeps_its_own() {
    const RANGE: &str = "net.ipv4.ip_local_port_range";
    let room = Room::new();
    if !is_usable(&room, "netns") {
        return println!("skipped: no network namespace can be made here");
    }
    let before = host_value(RANGE);
    let ran = lab(&room, &["--platform", "netns", "bind", "--sysctl", &format!("{RANGE}=41000 42500")]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let record = record(&room, &ran);
    assert_eq!(record.lab.as_ref().unwrap().platform, "netns");
    let seen: Vec<&str> = record.host.sysctls[RANGE].split_whitespace().collect();
    assert_eq!(seen, ["41000", "42500"], "the guest did not see what was set");
    assert_eq!(host_value(RANGE), before, "the host was changed");
    assert_eq!(room.leftovers(), Vec::<String>::new());
}

#[test]
fn a_setting_that_would_reach_the_host_is_refused() {
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
fn what_does_not_fit_together_is_refused_with_what_to_do() {
    let room = Room::new();
    std::fs::write(room.file("text"), "no kernel").unwrap();
    for (words, told) in [
        (["--platform", "native", "--kernel", "text"], "--kernel host"),
        (["--platform", "exact", "--kernel", "text"], "a text file"),
        (["--platform", "exact", "--kernel", "ssh:nobody@nowhere"], "ssh"),
        (["--platform", "ssh", "--kernel", "host"], "ssh:user@host"),
        (["--platform", "exact", "--kernel", "image:text"], "disk image"),
    ] {
        let ran = lab(&room, &words);
        assert!(ran.status == Some(2) && ran.err.contains(told), "{words:?}: {ran:?}");
    }
}

#[test]
fn kill_leaves_no_guest() {
    let room = Room::new();
    let words = ["lab", "run", "--platform", "native", "fork", "--passes", "90", "--no-report", "--cache", "cache"];
    let mut child = room.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    assert!(eventually(|| processes_in(room.path()).len() >= 3), "no guest was started");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(eventually(|| processes_in(room.path()).is_empty()), "{:?}", processes_in(room.path()));
}

/// A program called `ssh` that runs the words on this machine, and the search path on which it is found first.
fn stub_of_ssh(room: &Room, text: &str) -> String {
    use std::os::unix::fs::PermissionsExt;
    let folder = room.file("bin");
    std::fs::create_dir(&folder).unwrap();
    let path = folder.join("ssh");
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap())
}

/// What a run under a stub of ssh said, and the program's identifier.
fn by_ssh(room: &Room, path: &str) -> (Ran, u32) {
    let words = ["lab", "run", "--study", "smoke", "--no-report", "--cache", "cache"];
    let mut command = room.command(&[&words[..], &["-k", "ssh:me@elsewhere:2222", "bind"]].concat());
    command.env("PATH", path).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let id = child.id();
    (Ran::of(child.wait_with_output().unwrap()), id)
}

#[test]
fn by_ssh_the_program_goes_there_measures_and_is_removed() {
    let room = Room::new();
    let stub = "#!/bin/sh\n[ \"$1\" = -V ] && { echo OpenSSH_stub; exit 0; }\necho \"$@\" >> words\n\
                for last; do :; done\nexec sh -c \"$last\"\n";
    let path = stub_of_ssh(&room, stub);
    let (ran, id) = by_ssh(&room, &path);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let record = record(&room, &ran);
    assert_eq!(record.lab.as_ref().unwrap().platform, "ssh");
    assert_eq!((record.unit(), record.end.as_ref().unwrap().outcome.as_str()), (Unit::Ns, "complete"));
    let words = std::fs::read_to_string(room.file("words")).unwrap();
    assert!(words.lines().count() == 2 && words.contains("-p 2222 -- me@elsewhere"), "{words}");
    assert!(words.lines().all(|line| line.contains("BatchMode=yes")), "{words}");
    let left = std::fs::read_dir("/tmp")
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&format!("landau-{id}-")));
    assert_eq!(left.count(), 0, "the program was left at the other end");
    assert_eq!(processes_in(room.path()), Vec::<String>::new());
}

#[test]
fn what_ssh_says_of_a_refusal_is_told() {
    let room = Room::new();
    let stub =
        "#!/bin/sh\n[ \"$1\" = -V ] && exit 0\necho 'me@elsewhere: Permission denied (publickey).' >&2\nexit 255\n";
    let path = stub_of_ssh(&room, stub);
    let (ran, _) = by_ssh(&room, &path);
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(ran.err.contains("Permission denied (publickey)"), "{ran:?}");
}

#[test]
fn every_engine_is_listed_with_what_it_needs() {
    let room = Room::new();
    let ran = room.landau(&["lab", "platforms", "--json", "--cache", "cache"]);
    let rows: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let names: Vec<&str> = rows.as_array().unwrap().iter().filter_map(|row| row["platform"].as_str()).collect();
    assert_eq!(names, ["native", "netns", "kvm", "exact", "tcg", "vng", "uml", "gvisor", "ssh"]);
    assert_eq!(rows[0]["usable"], true);
    for row in rows.as_array().unwrap() {
        assert!(!row["detail"].as_str().unwrap().is_empty() && !row["about"].as_str().unwrap().is_empty(), "{row}");
    }
}
