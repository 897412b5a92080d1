//! Interrupted runs (Ctrl-C, kill -9, truncated files, full disks): the record is valid and `--resume` continues it.

use crate::support::{LANDAU, Process, Ran, Room, eventually, processes_with};
use landau_record::schema::EndOutcome;
use std::process::{Child, Command, Stdio};

/// Starts a run of several seconds, and returns after its first pass has ended.
fn measuring(room: &Room) -> Process {
    let sizes = ["--set", "fork.n=300", "--set", "map_files.n=300", "--passes", "3"];
    let words = [&["run", "fork", "map_files", "--output", "r", "--no-report", "--seed", "1"][..], &sizes].concat();
    let child = Process::spawn(room.command(&words).stderr(Stdio::null())).unwrap();
    let begun =
        eventually(|| std::fs::read_to_string(room.file("r")).is_ok_and(|text| text.contains("\"kind\":\"pass_end\"")));
    assert!(begun, "no pass ended");
    child
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn sigint_leaves_a_valid_record_and_no_scratch_files() {
    let room = Room::new();
    let mut child = measuring(&room);
    signal(&child, "-INT");
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let record = room.record("r");
    assert_eq!(record.end.as_ref().unwrap().outcome, EndOutcome::Interrupted);
    assert_eq!((&record.fault, &record.torn), (&None, &None));
    assert_eq!(room.leftovers(), Vec::<String>::new(), "scratch files were left behind");
    assert_eq!(room.landau(&["verify", "r"]).status, Some(0));
}

/// After SIGKILL no worker, fork helper or child is left, and `--resume` runs the missing passes.
#[test]
fn sigkill_leaves_no_process_and_the_run_can_be_resumed() {
    let room = Room::new();
    let mut child = measuring(&room);
    signal(&child, "-KILL");
    child.wait().unwrap();
    // No command line contains the scratch directory, so look at working directories.
    let gone = eventually(|| {
        !processes_with("landau-fork-helper").iter().any(|pid| in_folder(*pid, room.path()))
            && !processes_with("__worker").iter().any(|pid| in_folder(*pid, room.path()))
    });
    assert!(gone, "a process outlived the run");
    assert_eq!(room.landau(&["verify", "r"]).status, Some(0), "the record is valid");
    let killed = room.record("r");
    assert!(killed.end.is_none());
    let ran = room.landau(&["run", "--resume", "r", "--no-report"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let record = room.record("r");
    assert_eq!(record.end.as_ref().unwrap().outcome, EndOutcome::Complete);
    for case in &record.cases {
        assert_eq!(record.passes_of(case.case).len(), 3, "{}", case.label);
        assert!(record.passes_of(case.case).iter().all(|pass| pass.is_complete()), "{}", case.label);
    }
    assert_eq!(room.leftovers(), Vec::<String>::new(), "the next run removes the scratch files of the killed one");
    assert_eq!(room.landau(&["verify", "r"]).status, Some(0));
}

/// Returns whether the working directory of a process is `folder`, as it is for this test's processes only.
fn in_folder(pid: i32, folder: &std::path::Path) -> bool {
    std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == folder)
}

/// A record truncated at any byte can be read, and resumed if its plan is complete.
#[test]
fn a_record_truncated_at_any_byte_can_be_read() {
    let room = Room::new();
    room.smoke(&["nop", "pipe", "--passes", "2"]);
    let bytes = std::fs::read(room.file("run.ndjson")).unwrap();
    let first_line = bytes.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    for len in (first_line..bytes.len()).step_by(97) {
        let record = landau_record::Record::parse("torn", &bytes[..len]).unwrap();
        assert_eq!(record.fault, None, "truncated at {len}");
        assert_eq!(record.torn.is_some(), bytes[len - 1] != b'\n', "truncated at {len}");
    }
    std::fs::write(room.file("torn"), &bytes[..bytes.len() * 2 / 3]).unwrap();
    let ran = room.landau(&["run", "--resume", "torn", "--no-report"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert_eq!(room.landau(&["verify", "torn"]).status, Some(0));
    assert_eq!(room.record("torn").resumes.len(), 1);
}

/// An incomplete plan considered complete would resume as a finished run.
#[test]
fn a_record_with_an_incomplete_plan_is_not_resumed() {
    let room = Room::new();
    room.smoke(&["nop", "dup", "open"]);
    let text = std::fs::read_to_string(room.file("run.ndjson")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let first_case = lines.iter().position(|line| line.contains("\"kind\":\"case\"")).unwrap();
    std::fs::write(room.file("part"), lines[..=first_case].join("\n") + "\n").unwrap();
    let ran = room.landau(&["run", "--resume", "part"]);
    assert!(ran.status == Some(2) && ran.err.contains("start a new run"), "{ran:?}");
}

#[test]
fn a_complete_or_altered_record_is_not_resumed() {
    let room = Room::new();
    room.smoke(&["nop"]);
    let ran = room.landau(&["run", "--resume", "run.ndjson"]);
    assert!(ran.status == Some(2) && ran.err.contains("nothing to resume"), "{ran:?}");
    let text = std::fs::read_to_string(room.file("run.ndjson")).unwrap();
    let cut = text.rfind("{\"kind\":\"end\"").unwrap();
    std::fs::write(room.file("altered"), text[..cut].replacen("\"pass\":0", "\"pass\":7", 1)).unwrap();
    let ran = room.landau(&["run", "--resume", "altered"]);
    assert!(ran.status == Some(2) && ran.err.contains("was altered"), "{ran:?}");
}

/// The error names the cause, the record is valid, and the run can be resumed when there is space. The file system is a
/// tmpfs, which root mounts in a namespace.
#[test]
fn a_run_whose_disk_fills_up_can_be_resumed() {
    if landau_sys::process::effective_user() != 0 {
        eprintln!("skipped: only root can mount a file system");
        return;
    }
    let room = Room::new();
    let script = format!(
        "mkdir full && mount -t tmpfs -o size=24m none full || exit 9
         {LANDAU} run dup --set dup.n=1000 --passes 60 --output full/r --no-report --quiet & landau=$!
         while kill -0 $landau && ! grep -q pass_end full/r 2>/dev/null; do sleep 0.05; done
         dd if=/dev/zero of=full/fill bs=1M 2>/dev/null
         wait $landau; echo run $?
         {LANDAU} verify full/r; echo verify $?
         rm full/fill
         {LANDAU} run --resume full/r --no-report --quiet; echo resume $?
         {LANDAU} verify full/r; echo verify $?"
    );
    let output = room.other("unshare", &["-m", "sh", "-c", &script]).output().unwrap();
    let ran = Ran::of(output);
    assert!(ran.err.contains("No space left on device") && ran.err.contains("--resume full/r"), "{ran:?}");
    let statuses: Vec<&str> = ran.out.lines().filter(|line| line.split(' ').count() == 2).collect();
    assert_eq!(statuses, ["run 2", "verify 0", "resume 0", "verify 0"], "{ran:?}");
}

#[test]
fn a_time_limit_ends_the_run_and_lists_the_passes_left_out() {
    let room = Room::new();
    let words = ["run", "fork", "--passes", "50", "--output", "r", "--no-report", "--time-limit", "1s"];
    let ran = room.landau(&words);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let record = room.record("r");
    assert_eq!(record.end.as_ref().unwrap().outcome, EndOutcome::Cut);
    assert!(!record.cuts.is_empty() && ran.err.contains("left out"), "{ran:?}");
}
