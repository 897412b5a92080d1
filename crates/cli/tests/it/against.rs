//! `landau run --against`: two sides in turn, their records, switching and restoring the host, and refused command
//! lines.

use crate::support::{LANDAU, Process, Ran, Room, eventually, install};
use landau_record::schema::{EndOutcome, Role};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Runs two sides in the smoke study; the records are `run.base.ndjson` and `run.new.ndjson`.
fn smoke(room: &Room, words: &[&str]) -> Ran {
    let fixed = ["run", "--study", "smoke", "--output", "run.ndjson", "--seed", "1", "--passes", "5"];
    room.landau(&[&fixed, words].concat())
}

/// Returns the comparison of those records.
fn compared(room: &Room) -> Value {
    let ran = room.landau(&["compare", "run.base.ndjson", "run.new.ndjson", "--json"]);
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

fn curve<'v>(value: &'v Value, phase: &str) -> &'v Value {
    let curves = value["curves"].as_array().unwrap();
    curves.iter().find(|one| one["phase"] == phase).unwrap_or_else(|| panic!("no phase {phase}: {value}"))
}

/// Each pass has its counterpart, so the comparison is paired by round. Equal sides are called different by chance in
/// up to one of twenty reports, so this is not asserted here.
#[test]
fn both_sides_have_ordinary_records_with_paired_rounds() {
    let room = Room::new();
    let ran = smoke(&room, &["dup", "pipe", "--against", "same"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.out.starts_with("base  run.base: smoke study") && room.file("run.html").exists(), "{ran:?}");
    let sides = ["run.base.ndjson", "run.new.ndjson"].map(|name| room.record(name));
    for (record, role) in sides.iter().zip([Role::Base, Role::New]) {
        assert_eq!(record.end.as_ref().unwrap().outcome, EndOutcome::Complete);
        assert_eq!(record.header.side.as_ref().unwrap().role, role);
        let rounds: Vec<Vec<u32>> = (0..record.cases.len() as u32)
            .map(|case| record.passes_of(case).iter().map(|pass| pass.start.round).collect())
            .collect();
        assert_eq!(rounds, vec![vec![0, 1, 2, 3, 4]; 2]);
    }
    let order =
        |record: &landau_record::Record| -> Vec<u32> { record.passes.iter().map(|pass| pass.start.case).collect() };
    assert_eq!(order(&sides[0]), order(&sides[1]), "the sides measure the cases in one order");
    let value = compared(&room);
    let curves = value["curves"].as_array().unwrap();
    assert!(curves.len() >= 4 && curves.iter().all(|one| one["paired"] == true), "{value}");
    for name in ["run.base.ndjson", "run.new.ndjson"] {
        assert_eq!(room.landau(&["verify", name]).status, Some(0));
    }
    assert_eq!(room.leftovers(), Vec::<String>::new());
}

/// Builds a library that spends some time in `dup()` before it calls the kernel.
fn library(room: &Room, loops: u32) {
    let source = format!(
        "#define _GNU_SOURCE\n#include <sys/syscall.h>\n#include <unistd.h>\n\
         int dup(int fd) {{ for (volatile int i = 0; i < {loops}; i++); return syscall(SYS_dup, fd); }}\n"
    );
    std::fs::write(room.file("slow.c"), source).unwrap();
    let built = room.other("cc", &["-O1", "-shared", "-fPIC", "-o", "slow.so", "slow.c"]).status().unwrap();
    assert!(built.success());
}

/// A library makes a call many times as expensive, in one of two phases.
#[test]
fn a_slower_call_is_found_in_its_phase() {
    let room = Room::new();
    library(&room, 20_000);
    let preload = format!("LD_PRELOAD={}", room.file("slow.so").display());
    let ran = smoke(&room, &["dup", "--against", &preload, "--no-report"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.out.contains("new differs in LD_PRELOAD=") && ran.out.contains("dup · dup"), "{ran:?}");
    let value = compared(&room);
    assert_eq!(curve(&value, "dup")["result"], "slower", "{value}");
    assert!(curve(&value, "dup")["ratio"]["value"].as_f64().unwrap() > 3.0, "{value}");
    // A claim about the ratio has the same interval: its passes are also paired.
    let there = &curve(&value, "dup")["at"][2];
    let claim = format!("dup: > 3x base at {}", there["n"]);
    let words = ["check", "--claim", &claim, "run.new.ndjson", "--base", "run.base.ndjson", "--json"];
    let checked: Value = serde_json::from_str(&room.landau(&words).out).unwrap();
    assert_eq!(checked["claims"][0]["curves"][0]["value"], there["ratio"], "{checked}");
    let new = room.record("run.new.ndjson");
    assert!(new.header.environment["LD_PRELOAD"].ends_with("slow.so"));
    assert!(room.record("run.base.ndjson").header.environment.is_empty());
}

/// Both sides measure a case under the same name; the settings state what each measured.
#[test]
fn a_parameter_differs_between_the_sides() {
    let room = Room::new();
    let ran = smoke(&room, &["socket", "--set", "socket.n=200", "--against", "socket.type=udp", "--no-report"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let of = |name: &str| {
        let cases = room.record(name).cases;
        cases.into_iter().map(|case| (case.label, case.settings["type"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(of("run.base.ndjson")[0], ("socket".to_owned(), "tcp".to_owned()));
    assert_eq!(of("run.new.ndjson")[0], ("socket".to_owned(), "udp".to_owned()));
    assert!(curve(&compared(&room), "socket")["ratio"]["value"].is_number());
    // A case selects its benchmark too.
    for words in [&["--case", "socket.n=20"][..], &["dup", "--case", "socket.n=20"]] {
        let one = Room::new();
        let ran = smoke(&one, &[words, &["--against", "socket.type=udp", "--no-report"]].concat());
        assert_eq!(ran.status, Some(0), "{ran:?}");
        let new = one.record("run.new.ndjson").cases;
        let socket = new.iter().find(|case| case.benchmark == "socket").unwrap();
        assert_eq!((socket.settings["type"].as_str(), socket.n), ("udp", 20));
    }
    let ran = smoke(&room, &["--case", "dup", "--against", "socket.type=udp"]);
    assert!(ran.status == Some(2) && ran.err.contains("`socket` is not among the benchmarks"), "{ran:?}");
}

/// Another program runs the passes of the new side, even if it is a wrapper script, and even if its file is replaced
/// during the run, as by a compiler.
#[test]
fn another_program_measures_the_new_side() {
    let room = Room::new();
    install(LANDAU, &room.file("other"));
    let script = format!("#!/bin/sh\nexec '{}' \"$@\"\n", room.file("other").display());
    std::fs::write(room.file("script.txt"), script).unwrap();
    install(room.file("script.txt"), &room.file("wrapped"));
    let ran = smoke(&room, &["dup", "--against", "./wrapped", "--no-report"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let side = room.record("run.new.ndjson").header.side.unwrap();
    let program = side.program.unwrap();
    assert_eq!(
        (program.version.as_str(), Path::new(&program.path)),
        (env!("CARGO_PKG_VERSION"), &*room.file("wrapped"))
    );
    assert_eq!(side.differences, ["./wrapped"]);
    assert_eq!(room.record("run.new.ndjson").passes_of(0).len(), 5);
}

/// Guards against a curve whose passes were run by two programs: another build may have the same version.
#[test]
fn another_build_of_the_program_does_not_continue_the_run() {
    let room = Room::new();
    let script = |comment: &str| {
        let text = format!("#!/bin/sh\n{comment}exec '{LANDAU}' \"$@\"\n");
        std::fs::write(room.file("script.txt"), text).unwrap();
        install(room.file("script.txt"), &room.file("wrapped"));
    };
    script("");
    let ran = smoke(&room, &["dup", "--against", "./wrapped", "--no-report"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let more = |passes| room.landau(&["run", "--resume", "run.new.ndjson", "--passes", passes, "--no-report"]);
    assert_eq!(more("6").status, Some(0));
    let before = std::fs::read(room.file("run.new.ndjson")).unwrap();
    script("# another build\n");
    let ran = more("7");
    assert!(
        ran.status == Some(2) && ran.err.contains("wrapped, the program that made its passes: the file was replaced"),
        "{ran:?}"
    );
    assert!(!ran.err.contains("continue with"), "{ran:?}");
    assert_eq!(std::fs::read(room.file("run.new.ndjson")).unwrap(), before);
}

/// Nothing is measured or written if a side cannot be measured as requested.
#[test]
fn a_side_that_cannot_be_measured_is_refused() {
    let room = Room::new();
    let refused = |words: &[&str], reason: &str| {
        let ran = smoke(&room, &[&["dup"], words].concat());
        assert!(ran.status == Some(2) && ran.err.contains(reason), "{words:?}: {ran:?}");
        assert!(!room.file("run.base.ndjson").exists() && !room.file("run.new.ndjson").exists(), "{words:?}");
    };
    refused(&["--against", "./missing"], "there is no such program");
    refused(&["--against", "/bin/false"], "it did not answer like a landau with worker protocol 1 (exit status: 1");
    refused(&["--against", "/bin/cat"], "it did not answer like a landau");
    refused(&["--against", "LD_PRELOAD=/missing.so"], "cannot be preloaded");
    // Another version of the protocol.
    let answer = r#"{"protocol":99,"landau":"9.9.9","lanes":[],"cases":[]}"#;
    std::fs::write(room.file("script.txt"), format!("#!/bin/sh\necho '{answer}'\n")).unwrap();
    install(room.file("script.txt"), &room.file("newer"));
    refused(&["--against", "./newer"], "landau 9.9.9 uses worker protocol 99; this landau uses");
    refused(&["--against", "dup.size=3"], "--against dup.size=3: `dup` has no parameter `size`");
    refused(&["--against", "pipe.n=30"], "`pipe` is not among the benchmarks of this run");
    refused(&["--against", "same", "--against", "A=1"], "cannot be combined with another difference");
    refused(
        &["--switch", "echo no >&2; exit 3", "--restore", "true"],
        "--switch 'echo no >&2; exit 3': exit status 3: no",
    );
    refused(&["--switch", "true", "--restore", "exit 4"], "the host is still switched to the new side");
    let alone = smoke(&room, &["dup", "--switch", "true"]);
    assert!(alone.status == Some(2) && alone.err.contains("--restore"), "{alone:?}");
    // A record is never overwritten, and no single record of a pair is left behind.
    std::fs::write(room.file("run.new.ndjson"), "mine").unwrap();
    let ran = smoke(&room, &["dup", "--against", "same"]);
    assert!(ran.status == Some(2) && !room.file("run.base.ndjson").exists(), "{ran:?}");
    assert_eq!(std::fs::read_to_string(room.file("run.new.ndjson")).unwrap(), "mine");
}

const SWITCH: &str = "echo on >> host";
const RESTORE: &str = "echo off >> host";

/// Returns the output of the commands, one word each.
fn host(room: &Room) -> Vec<String> {
    let text = std::fs::read_to_string(room.file("host")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Asserts that the host was never switched or restored twice in a row, and that it was restored in the end.
fn assert_restored(room: &Room) {
    let host = host(room);
    let expected: Vec<&str> = ["on", "off"].into_iter().cycle().take(host.len()).collect();
    assert!(host == expected && host.len().is_multiple_of(2), "{host:?}");
}

#[test]
fn the_host_is_switched_for_the_new_side_and_restored() {
    let room = Room::new();
    let ran = smoke(&room, &["dup", "--switch", SWITCH, "--restore", RESTORE, "--no-report"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert_restored(&room);
    // Switched once to describe the host, then once per round, unless the new side is last in one round and first in
    // the next.
    let times = host(&room).len() / 2;
    assert!((4..=6).contains(&times), "{:?}", host(&room));
    assert!(ran.out.contains("host switched by: echo on >> host"), "{ran:?}");
    let switch = room.record("run.base.ndjson").header.side.unwrap().switch.unwrap();
    assert_eq!((switch.command.as_str(), switch.restore.as_str()), (SWITCH, RESTORE));
}

/// A switch command that does not end as long as the file `hold` exists.
const HELD: &str = "echo on >> host; while test -e hold; do touch held; sleep 0.05; done";

/// Starts a run, and returns while it is switching the host, after its first passes.
fn switched(room: &Room) -> Process {
    let words = ["run", "dup", "pipe", "--study", "smoke", "--passes", "40", "--output", "r", "--no-report"];
    let switch = ["--switch", HELD, "--restore", RESTORE];
    let child = Process::spawn(room.command(&[&words[..], &switch].concat()).stderr(Stdio::null())).unwrap();
    let has_measured = || std::fs::read_to_string(room.file("r.new")).is_ok_and(|text| text.contains("pass_end"));
    assert!(eventually(has_measured), "no pass ended");
    std::fs::write(room.file("hold"), "").unwrap();
    assert!(eventually(|| room.file("held").exists()), "the host was not switched");
    child
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

fn assert_complete(room: &Room) {
    for name in ["r.base", "r.new"] {
        let record = room.record(name);
        assert_eq!(record.end.as_ref().unwrap().outcome, EndOutcome::Complete);
        for case in &record.cases {
            let passes = record.passes_of(case.case);
            assert!(passes.len() == 40 && passes.iter().all(|pass| pass.is_complete()), "{name}: {}", case.label);
        }
        assert_eq!(room.landau(&["verify", name]).status, Some(0));
    }
}

#[test]
fn sigint_restores_the_host_and_keeps_both_records() {
    let room = Room::new();
    let mut child = switched(&room);
    signal(&child, "-INT");
    assert_eq!(child.wait().unwrap().code(), Some(1));
    std::fs::remove_file(room.file("hold")).unwrap();
    assert_restored(&room);
    assert_eq!(room.leftovers(), Vec::<String>::new());
    for name in ["r.base", "r.new"] {
        assert_eq!(room.record(name).end.as_ref().unwrap().outcome, EndOutcome::Interrupted);
    }
    // Either record identifies the run.
    let ran = room.landau(&["run", "--resume", "r.new", "--no-report"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert_restored(&room);
    assert_complete(&room);
    let compared = room.landau(&["compare", "r.base", "r.new", "--json"]);
    let value: Value = serde_json::from_str(&compared.out).unwrap();
    assert!(value["curves"].as_array().unwrap().iter().all(|one| one["paired"] == true), "{value}");
}

/// Returns the marker of a run that left the host switched.
fn marker(room: &Room) -> PathBuf {
    let marker = |name: String| room.file(&name).join("switched");
    room.leftovers().into_iter().map(marker).find(|path| path.exists()).expect("no marker")
}

/// Runs the program as a user whose runs have executed nothing yet, such as one who was sent a record.
fn elsewhere(room: &Room, words: &[&str]) -> Ran {
    Ran::of(room.command(words).env("XDG_STATE_HOME", room.file("other-state")).output().unwrap())
}

/// Guards against a record that executes commands on the machine of a user who resumes it.
#[test]
fn what_a_record_of_somebody_else_names_is_not_executed() {
    let room = Room::new();
    let (_, record) = room.smoke(&["nop", "--passes", "2"]);
    assert!(record.header.environment.is_empty());
    let add = |passes| ["run", "--resume", "run.ndjson", "--passes", passes, "--no-report"];
    let plain = elsewhere(&room, &add("3"));
    assert!(plain.status == Some(0) && !plain.err.contains("executes"), "{plain:?}");
    std::fs::remove_file(room.file("run.ndjson")).unwrap();
    room.smoke(&["nop", "--passes", "2", "--env", "LANDAU_TEST=./evil.so"]);
    let before = std::fs::read(room.file("run.ndjson")).unwrap();
    let ran = elsewhere(&room, &add("3"));
    assert!(ran.status == Some(2) && ran.err.contains("  environment: LANDAU_TEST=./evil.so"), "{ran:?}");
    assert_eq!(std::fs::read(room.file("run.ndjson")).unwrap(), before);
    let own = room.landau(&add("3"));
    assert!(own.status == Some(0) && own.err.contains("specifies what the run executes"), "{own:?}");
    // `./evil.so` in a received directory is a different file.
    std::fs::create_dir(room.file("sent")).unwrap();
    std::fs::copy(room.file("run.ndjson"), room.file("sent/run.ndjson")).unwrap();
    let sent = Ran::of(room.command(&add("4")).current_dir(room.file("sent")).output().unwrap());
    assert!(sent.status == Some(2) && sent.err.contains("in this directory"), "{sent:?}");
    let trusted = elsewhere(&room, &[&add("4")[..], &["--trust-record"]].concat());
    assert_eq!(trusted.status, Some(0), "{trusted:?}");
    assert_eq!(room.record("run.ndjson").passes_of(0).len(), 4);
}

/// A killed run cannot restore the host. The next run reports it, and resuming the killed run restores the host.
#[test]
fn sigkill_leaves_the_host_switched_and_the_next_run_says_so() {
    let room = Room::new();
    let mut child = switched(&room);
    signal(&child, "-KILL");
    child.wait().unwrap();
    std::fs::remove_file(room.file("hold")).unwrap();
    assert_eq!(host(&room).last().unwrap(), "on");
    let next = room.landau(&["run", "nop", "--study", "smoke", "--output", "n", "--no-report"]);
    let told = format!("an earlier run left the changes of --switch on the host; undo them with: {RESTORE}");
    assert!(next.status == Some(2) && next.err.contains(&told) && !room.file("n").exists(), "{next:?}");
    assert_eq!(host(&room).last().unwrap(), "on", "another run changes nothing");
    // A command in the marker is executed only if it is also in the record.
    let marker = marker(&room);
    let text = std::fs::read_to_string(&marker).unwrap();
    std::fs::write(&marker, text.replace(RESTORE, "echo planted >> host")).unwrap();
    let ran = room.landau(&["run", "--resume", "r.base", "--no-report"]);
    assert!(ran.status == Some(2) && ran.err.contains("differs from the one in the record"), "{ran:?}");
    assert_eq!(host(&room).last().unwrap(), "on");
    std::fs::write(&marker, text).unwrap();
    // A record from another user does not restore the host either.
    let ran = elsewhere(&room, &["run", "--resume", "r.base", "--no-report"]);
    assert!(ran.status == Some(2) && ran.err.contains("pass --trust-record:"), "{ran:?}");
    assert!(ran.err.contains(&format!("  switch: {HELD}\n  restore: {RESTORE}")), "{ran:?}");
    assert_eq!(host(&room).last().unwrap(), "on");
    let ran = room.landau(&["run", "--resume", "r.base", "--no-report"]);
    assert!(ran.err.contains("the record specifies what the run executes") && ran.err.contains(RESTORE), "{ran:?}");
    assert!(
        ran.status == Some(0) && ran.err.contains("had left the changes of --switch on the host; they were undone"),
        "{ran:?}"
    );
    assert_restored(&room);
    assert_complete(&room);
    let calm = room.landau(&["run", "nop", "--study", "smoke", "--output", "m", "--no-report"]);
    assert!(!calm.err.contains("--switch"), "{calm:?}");
    assert_eq!(room.leftovers(), Vec::<String>::new());
}

/// Guards against a run that hangs before it starts because a program answers only half a line.
#[test]
fn a_program_that_does_not_answer_can_be_interrupted() {
    let room = Room::new();
    std::fs::write(room.file("script.txt"), "#!/bin/sh\nprintf x; touch asked; exec sleep 300\n").unwrap();
    install(room.file("script.txt"), &room.file("half"));
    let words = ["run", "dup", "--study", "smoke", "--output", "r", "--against", "./half"];
    let child = Process::spawn(room.command(&words).stderr(Stdio::piped())).unwrap();
    assert!(eventually(|| room.file("asked").exists()), "the program was not asked");
    signal(&child, "-TERM");
    // If it ignored the signal, it would wait 10 s and end with the same status.
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.code() == Some(2) && said.contains("interrupted"), "{:?}: {said}", ended.status);
    assert!(!room.file("r.base").exists() && room.leftovers().is_empty());
}

/// The file system is a tmpfs, which root mounts in a namespace.
#[test]
fn a_full_disk_restores_the_host_and_both_sides_can_be_resumed() {
    if landau_sys::process::effective_user() != 0 {
        eprintln!("skipped: only root can mount a file system");
        return;
    }
    let room = Room::new();
    let script = format!(
        "mkdir full && mount -t tmpfs -o size=48m none full || exit 9
         {LANDAU} run dup --set dup.n=1000 --passes 30 --output full/r --no-report --quiet \\
             --switch '{SWITCH}' --restore '{RESTORE}' &
         landau=$!
         while kill -0 $landau && ! grep -q pass_end full/r.new 2>/dev/null; do sleep 0.05; done
         dd if=/dev/zero of=full/fill bs=1M 2>/dev/null
         wait $landau; echo run $?
         for side in base new; do {LANDAU} verify full/r.$side; echo verify $?; done
         rm full/fill
         {LANDAU} run --resume full/r.base --no-report --quiet; echo resume $?
         for side in base new; do {LANDAU} verify full/r.$side; echo verify $?; done"
    );
    let ran = Ran::of(room.other("unshare", &["-m", "sh", "-c", &script]).output().unwrap());
    assert!(ran.err.contains("No space left on device") && ran.err.contains("--resume full/r.base"), "{ran:?}");
    let statuses: Vec<&str> = ran.out.lines().filter(|line| line.split(' ').count() == 2).collect();
    let verified = ["verify 0"; 2];
    assert_eq!(statuses, [&["run 2"][..], &verified, &["resume 0"], &verified].concat(), "{ran:?}");
    assert_restored(&room);
}
