//! The platforms that need no emulator: they measure, do not change the host and leave nothing behind.

use crate::support::{LANDAU, Process, Ran, Room, eventually, install};
use landau_record::schema::{CrashKind, EndOutcome, Outcome, Unit};
use landau_record::{Record, SCHEMA_VERSION};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Runs a smoke study of the lab in the room.
fn lab(room: &Room, arguments: &[&str]) -> Ran {
    let fixed = ["lab", "run", "--study", "smoke", "--no-report", "--seed", "1", "--cache", "cache"];
    room.landau(&[&fixed, arguments].concat())
}

/// Returns the only record that a run left.
fn record(room: &Room, ran: &Ran) -> Record {
    Record::read(&record_path(room, ran)).unwrap()
}

fn record_path(room: &Room, ran: &Ran) -> PathBuf {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(room.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(".landau.ndjson"))
        .collect();
    assert_eq!(paths.len(), 1, "{paths:?} {ran:?}");
    paths.remove(0)
}

/// Returns the processes with this working directory, which all processes of a test have.
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

/// Guards against the loss of a record that a newer landau wrote, or that another run is writing.
#[test]
fn resume_replaces_only_unfinished_records_that_it_can_read() {
    let room = Room::new();
    let again = || lab(&room, &["--kernel", "host", "dup", "--resume"]);
    let ran = again();
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let path = record_path(&room, &ran);
    let whole = std::fs::read_to_string(&path).unwrap();
    let newer = whole.replacen(&format!("\"schema\":{SCHEMA_VERSION}"), "\"schema\":99", 1);
    std::fs::write(&path, &newer).unwrap();
    let ran = again();
    assert!(ran.status == Some(2) && ran.err.contains("its schema is 99"), "{ran:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), newer);

    let (without_end, _) = whole.trim_end().rsplit_once('\n').unwrap();
    std::fs::write(&path, format!("{without_end}\n")).unwrap();
    let other = std::fs::File::open(&path).unwrap();
    other.try_lock().unwrap();
    let ran = again();
    assert!(ran.status == Some(2) && ran.err.contains("another run is writing it"), "{ran:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{without_end}\n"));
    // A child of another test may hold a copy of the descriptor, and with it the lock.
    other.unlock().unwrap();
    for unfinished in [&format!("{without_end}\n"), "{\"kind\":\"head", ""] {
        std::fs::write(&path, unfinished).unwrap();
        let ran = again();
        assert_eq!(ran.status, Some(0), "{ran:?}");
        let record = record(&room, &ran);
        assert_eq!(record.end.as_ref().unwrap().outcome, EndOutcome::Complete);
        assert_eq!((record.fault, record.torn), (None, None));
    }
}

/// Guards against a name that is searched for in PATH, while the record contains the checksum of the file here.
#[test]
fn a_program_without_a_slash_is_the_file_here() {
    let room = Room::new();
    install(LANDAU, &room.file("landau-here"));
    let ran = lab(&room, &["--kernel", "host", "--program", "landau-here", "dup"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert_eq!(record(&room, &ran).end.unwrap().outcome, EndOutcome::Complete);
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

/// Writes a program named `ssh` that runs its command on this machine. Returns a PATH that finds it first.
fn stub_of_ssh(room: &Room, text: &str) -> String {
    let folder = room.file("bin");
    std::fs::create_dir_all(&folder).unwrap();
    let script = room.file("script");
    std::fs::write(&script, text).unwrap();
    install(&script, &folder.join("ssh"));
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap())
}

/// Starts a benchmark over a stub of ssh.
fn start_by_ssh(room: &Room, path: &str, benchmark: &[&str]) -> Process {
    let words = ["lab", "run", "--study", "smoke", "--no-report", "--cache", "cache", "-k", "ssh:me@elsewhere:2222"];
    let mut command = room.command(&[&words[..], benchmark].concat());
    command.env("PATH", path).stdout(Stdio::piped()).stderr(Stdio::piped());
    Process::spawn(&mut command).unwrap()
}

/// Runs a benchmark over a stub of ssh. Also returns the program's process ID.
fn by_ssh(room: &Room, path: &str, benchmark: &[&str]) -> (Ran, u32) {
    let child = start_by_ssh(room, path, benchmark);
    let id = child.id();
    (Ran::of(child.wait_with_output().unwrap()), id)
}

/// Returns a stub of ssh that counts its calls in the file `calls`. The first call copies the program, the second runs
/// it, further ones start it again.
fn counting_stub(copy: &str, run: &str, again: &str) -> String {
    format!(
        "#!/bin/sh\n[ \"$1\" = -V ] && {{ echo OpenSSH_stub; exit 0; }}\nfor last; do :; done\necho call >> calls\n\
         case $(wc -l < calls) in\n1) {copy};;\n2) {run};;\n*) {again};;\nesac\n"
    )
}

/// Executes on this machine what ssh would execute on the remote one.
const CALL: &str = "exec sh -c \"$last\"";

/// Returns the number of copies of the program that a run has left behind.
fn copies_of(id: u32) -> usize {
    let name = format!("landau-{id}-");
    let entries = std::fs::read_dir("/tmp").unwrap().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&name)).count()
}

#[test]
fn over_ssh_the_program_is_copied_measures_and_is_removed() {
    let room = Room::new();
    let stub = "#!/bin/sh\n[ \"$1\" = -V ] && { echo OpenSSH_stub; exit 0; }\necho \"$@\" >> arguments\n\
                for last; do :; done\nexec sh -c \"$last\"\n";
    let path = stub_of_ssh(&room, stub);
    let (ran, id) = by_ssh(&room, &path, &["bind"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let record = record(&room, &ran);
    assert_eq!(record.lab.as_ref().unwrap().platform, "ssh");
    assert_eq!((record.unit(), record.end.as_ref().unwrap().outcome), (Unit::Ns, EndOutcome::Complete));
    let calls = std::fs::read_to_string(room.file("arguments")).unwrap();
    assert!(calls.lines().count() == 2 && calls.contains("-p 2222 -- me@elsewhere"), "{calls}");
    assert!(calls.lines().all(|line| line.contains("BatchMode=yes")), "{calls}");
    assert_eq!(copies_of(id), 0, "the program was left on the remote machine");
    assert_eq!(processes_in(room.path()), Vec::<String>::new());
}

/// Guards against an incomplete copy of the program that is executed or left on the remote machine.
#[test]
fn a_copy_that_was_cut_short_is_an_error_and_removed() {
    let room = Room::new();
    let path = stub_of_ssh(&room, &counting_stub("head -c 100000 | sh -c \"$last\"", CALL, CALL));
    let (ran, id) = by_ssh(&room, &path, &["bind"]);
    assert!(ran.status == Some(2) && ran.err.contains("the copy is incomplete"), "{ran:?}");
    assert_eq!(std::fs::read_to_string(room.file("calls")).unwrap(), "call\n");
    assert_eq!(copies_of(id), 0, "the copy was left on the remote machine");
    let records = || std::fs::read_dir(room.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(records().all(|name| !name.to_string_lossy().ends_with("ndjson")), "{:?}", records().collect::<Vec<_>>());
}

#[test]
fn copying_the_program_can_be_interrupted() {
    let room = Room::new();
    let path = stub_of_ssh(&room, &counting_stub("exec sleep 30", CALL, CALL));
    let child = start_by_ssh(&room, &path, &["bind"]);
    assert!(eventually(|| room.file("calls").exists()), "nothing was copied");
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let ran = Ran::of(child.wait_with_output().unwrap());
    assert!(ran.status == Some(1) && ran.err.contains("interrupted before anything was measured"), "{ran:?}");
}

/// Guards against an unfinished record without a crash after a machine has crashed permanently.
#[test]
fn a_machine_that_cannot_be_started_again_has_crashed() {
    let room = Room::new();
    // The connection is cut after the third message, in which a pass has begun.
    let run = "sh -c \"$last\" | while IFS= read -r line; do printf '%s\\n' \"$line\"; \
               case $line in *'LANDAU-FRAME 2 '*) exit;; esac; done";
    let again = "echo no route to host >&2; exit 255";
    let path = stub_of_ssh(&room, &counting_stub(CALL, run, again));
    let (ran, _) = by_ssh(&room, &path, &["fork", "--set", "fork.n=6000"]);
    assert!(ran.status == Some(1) && ran.err.contains("the machine ended without a message"), "{ran:?}");
    let record = record(&room, &ran);
    assert_eq!(record.end.as_ref().unwrap().outcome, EndOutcome::Crashed);
    let crash = &record.crashes[0];
    assert_eq!((crash.crash, crash.boots, crash.same_place), (CrashKind::Exit, 1, None));
    assert_eq!(record.passes.last().unwrap().end.as_ref().unwrap().outcome, Outcome::Crashed);
    let is_told = |note: &String| note.contains("could not be started again") && note.contains("no route to host");
    assert!(record.notes.iter().any(is_told), "{:?}", record.notes);
    // This host may have stopped it, so it is measured again.
    let path = stub_of_ssh(&room, &counting_stub(CALL, CALL, CALL));
    let (ran, _) = by_ssh(&room, &path, &["dup", "--resume"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
}

/// Guards against a full disk on the remote machine that is recorded as a crash of its kernel.
#[test]
fn a_guest_that_cannot_go_on_has_not_crashed() {
    let room = Room::new();
    // A limit on the file size acts like a full disk: the guest has no memory for its samples.
    let run = format!("ulimit -f 0; trap '' XFSZ; {CALL}");
    let path = stub_of_ssh(&room, &counting_stub(CALL, &run, CALL));
    let (ran, _) = by_ssh(&room, &path, &["bind"]);
    assert!(ran.status == Some(1) && ran.err.contains("its guest could not continue: "), "{ran:?}");
    assert_eq!(std::fs::read_to_string(room.file("calls")).unwrap(), "call\ncall\n", "it was started again");
    let record = record(&room, &ran);
    assert_eq!(record.end.as_ref().unwrap().outcome, EndOutcome::Failed);
    assert!(record.crashes.is_empty(), "{:?}", record.crashes);
    assert!(record.notes.iter().any(|note| note.contains("the guest could not continue: ")), "{:?}", record.notes);
}

#[test]
fn the_error_message_of_ssh_is_shown() {
    let room = Room::new();
    let stub =
        "#!/bin/sh\n[ \"$1\" = -V ] && exit 0\necho 'me@elsewhere: Permission denied (publickey).' >&2\nexit 255\n";
    let path = stub_of_ssh(&room, stub);
    let (ran, _) = by_ssh(&room, &path, &["bind"]);
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
