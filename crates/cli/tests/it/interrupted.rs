//! Interruptions: Ctrl-C, kill -9, a torn file. The record stays readable and the run goes on.

use crate::support::{LANDAU, Ran, Room, eventually, processes_with};
use std::process::{Child, Command, Stdio};

/// A run that lasts long enough to be interrupted, started and already measuring.
fn measuring(room: &Room) -> Child {
    let words = ["run", "fork", "map_files", "--passes", "9", "--output", "r", "--no-report", "--seed", "1"];
    let child = room.command(&words).stderr(Stdio::null()).spawn().unwrap();
    let begun =
        eventually(|| std::fs::read_to_string(room.file("r")).is_ok_and(|text| text.contains("\"kind\":\"pass_end\"")));
    assert!(begun, "the run never measured anything");
    child
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn ctrl_c_leaves_a_valid_record_and_nothing_else() {
    let room = Room::new();
    let mut child = measuring(&room);
    signal(&child, "-INT");
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let record = room.record("r");
    assert_eq!(record.end.as_ref().unwrap().outcome, "interrupted");
    assert_eq!((&record.fault, &record.torn), (&None, &None));
    assert_eq!(room.leftovers(), Vec::<String>::new(), "files are removed on Ctrl-C too");
    assert_eq!(room.landau(&["verify", "r"]).status, Some(0));
}

/// After kill -9 no worker, no fork helper and no child is left, and `--resume` measures what is missing.
#[test]
fn kill_leaves_no_process_and_the_run_can_be_resumed() {
    let room = Room::new();
    let mut child = measuring(&room);
    signal(&child, "-KILL");
    child.wait().unwrap();
    // The worker's order names the scratch folder, but not its command line: look for all that were its children.
    let gone = eventually(|| {
        !processes_with("landau-fork-helper").iter().any(|pid| in_folder(*pid, room.path()))
            && !processes_with("__worker").iter().any(|pid| in_folder(*pid, room.path()))
    });
    assert!(gone, "processes outlived the run");
    assert_eq!(room.landau(&["verify", "r"]).status, Some(0), "what was measured is valid");
    let killed = room.record("r");
    assert!(killed.end.is_none());
    let ran = room.landau(&["run", "--resume", "r", "--no-report"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let record = room.record("r");
    assert_eq!(record.end.as_ref().unwrap().outcome, "complete");
    for case in &record.cases {
        assert_eq!(record.passes_of(case.case).len(), 9, "{}", case.label);
        assert!(record.passes_of(case.case).iter().all(|pass| pass.is_whole()), "{}", case.label);
    }
    assert_eq!(room.leftovers(), Vec::<String>::new(), "the next run sweeps up after the killed one");
    assert_eq!(room.landau(&["verify", "r"]).status, Some(0));
}

/// Whether a process works in that folder, which only this test's does.
fn in_folder(pid: i32, folder: &std::path::Path) -> bool {
    std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == folder)
}

/// A record torn at any byte still reads, and resumes unless not even its plan was written down.
#[test]
fn a_record_torn_at_any_byte_reads() {
    let room = Room::new();
    room.smoke(&["nop", "pipe", "--passes", "2"]);
    let bytes = std::fs::read(room.file("run.ndjson")).unwrap();
    let first_line = bytes.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    for len in (first_line..bytes.len()).step_by(97) {
        let record = landau_record::Record::parse("torn", &bytes[..len]).unwrap();
        assert_eq!(record.fault, None, "torn at {len}");
        assert_eq!(record.torn.is_some(), bytes[len - 1] != b'\n', "torn at {len}");
    }
    std::fs::write(room.file("torn"), &bytes[..bytes.len() * 2 / 3]).unwrap();
    let ran = room.landau(&["run", "--resume", "torn", "--no-report"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert_eq!(room.landau(&["verify", "torn"]).status, Some(0));
    assert_eq!(room.record("torn").resumes.len(), 1);
}

/// A plan of which only a part reached the disk must not be taken for the whole: it would be resumed as complete.
#[test]
fn a_plan_that_is_not_whole_is_not_resumed() {
    let room = Room::new();
    room.smoke(&["nop", "dup", "open"]);
    let text = std::fs::read_to_string(room.file("run.ndjson")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let first_case = lines.iter().position(|line| line.contains("\"kind\":\"case\"")).unwrap();
    std::fs::write(room.file("part"), lines[..=first_case].join("\n") + "\n").unwrap();
    let ran = room.landau(&["run", "--resume", "part"]);
    assert!(ran.status == Some(2) && ran.err.contains("start anew"), "{ran:?}");
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

/// A disk that fills up in the middle of a run: the error says so, what was measured is valid, and once there is room
/// the run goes on. The file system is a real one, where root may mount it.
#[test]
fn a_disk_that_fills_up_costs_nothing_but_the_last_second() {
    if landau_sys::process::effective_user() != 0 {
        return;
    }
    let room = Room::new();
    let script = format!(
        "mkdir full && mount -t tmpfs -o size=24m none full || exit 9
         {LANDAU} run fork dup --passes 20 --output full/r --no-report --quiet & landau=$!
         while ! grep -q pass_end full/r 2>/dev/null; do :; done
         dd if=/dev/zero of=full/fill bs=1M 2>/dev/null
         wait $landau; echo run $?
         {LANDAU} verify full/r; echo verify $?
         rm full/fill
         {LANDAU} run --resume full/r --no-report --quiet; echo resume $?
         {LANDAU} verify full/r; echo verify $?"
    );
    let output = Command::new("unshare").args(["-m", "sh", "-c", &script]).current_dir(room.path()).output().unwrap();
    let ran = Ran::of(output);
    assert!(ran.err.contains("No space left on device") && ran.err.contains("--resume full/r"), "{ran:?}");
    let statuses: Vec<&str> = ran.out.lines().filter(|line| line.split(' ').count() == 2).collect();
    assert_eq!(statuses, ["run 2", "verify 0", "resume 0", "verify 0"], "{ran:?}");
}

/// The time limit cuts, says what it cut, and the run still counts as done.
#[test]
fn a_time_limit_says_what_was_left_out() {
    let room = Room::new();
    let words = ["run", "fork", "--passes", "50", "--output", "r", "--no-report", "--time-limit", "1s"];
    let ran = room.landau(&words);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let record = room.record("r");
    assert_eq!(record.end.as_ref().unwrap().outcome, "cut");
    assert!(!record.cuts.is_empty() && ran.err.contains("left out"), "{ran:?}");
}
