//! Wrong arguments and unusable paths: the error names the cause, the status is 2, and no file is lost.

use crate::support::{LANDAU, Ran, Room, install, is_root};
use landau_record::schema::EndOutcome;
use std::process::{Command, Stdio};

#[test]
fn an_unknown_benchmark_is_an_error_that_suggests_the_nearest() {
    let room = Room::new();
    let ran = room.landau(&["run", "bnd", "--no-report"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.err.contains("unknown benchmark `bnd` (did you mean `bind`?)"), "{}", ran.err);
    assert!(std::fs::read_dir(room.path()).unwrap().next().is_none(), "nothing was left behind");
}

#[test]
fn a_wrong_case_is_an_error_that_names_the_valid_settings() {
    let room = Room::new();
    for (case, answer) in [
        ("bnd", "did you mean `bind`?"),
        ("fork.statc", "did you mean `static`?"),
        ("fork.run", "it is a phase; a case has settings only"),
        ("fork.linkage=x", "is not one of"),
        ("request.poll", "write backend=poll or idle=poll"),
    ] {
        let ran = room.landau(&["run", "--case", case, "--no-report"]);
        assert!(ran.status == Some(2) && ran.err.contains(answer), "{case}: {ran:?}");
    }
    assert!(std::fs::read_dir(room.path()).unwrap().all(|entry| entry.unwrap().file_name() == "state"));
    let (ran, record) = room.smoke(&["--case", "socket.udp.n=20", "--case", "socket.n=10"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let cases: Vec<(&str, u64)> = record.cases.iter().map(|case| (case.label.as_str(), case.n)).collect();
    assert_eq!(cases, [("socket type=udp", 20), ("socket", 10)]);
}

/// Guards against a run of the study `then` that replays nothing.
#[test]
fn a_case_of_the_replayed_studies_cannot_be_chosen() {
    let room = Room::new();
    let ran = room.landau(&["run", "--study", "then", "--case", "bind.n=20", "--no-report"]);
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(ran.err.contains("--case bind.n=20") && ran.err.contains("write `bind` instead"), "{}", ran.err);
    assert_eq!(ran.err.trim_end().lines().count(), 1, "{}", ran.err);
    assert!(std::fs::read_dir(room.path()).unwrap().all(|entry| entry.unwrap().file_name() == "state"));
}

#[test]
fn a_wrong_setting_is_an_error_that_names_the_valid_ones() {
    let room = Room::new();
    for (setting, answer) in [
        ("bind.famly=v4", "it has n, family, v6only, range"),
        ("bind.family=v5", "is not one of v4, v6"),
        ("bind", "write it as BENCHMARK.PARAMETER=VALUE"),
        ("socket.n=many", "is not an integer"),
        ("sockte.n=5", "did you mean `socket`?"),
    ] {
        let ran = room.landau(&["run", "--set", setting, "--no-report"]);
        assert_eq!(ran.status, Some(2), "{setting}");
        assert!(ran.err.contains(answer), "{setting}: {}", ran.err);
    }
}

#[test]
fn a_missing_cpu_is_an_error() {
    let room = Room::new();
    let ran = room.landau(&["run", "nop", "--cpu", "9999", "--no-report"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.err.contains("cannot pin workers to processor 9999"), "{}", ran.err);
}

#[test]
fn an_existing_record_is_never_overwritten() {
    let room = Room::new();
    std::fs::write(room.file("mine"), "precious").unwrap();
    let ran = room.landau(&["run", "nop", "--output", "mine", "--no-report"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.err.contains("never overwrites a file"), "{}", ran.err);
    assert_eq!(std::fs::read(room.file("mine")).unwrap(), b"precious");
}

#[test]
fn the_longest_time_limit_is_accepted() {
    let room = Room::new();
    let ran = room.landau(&["run", "nop", "--passes", "1", "--time-limit", "876000h", "--no-report"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
}

#[test]
fn an_unwritable_place_is_an_error_before_measuring() {
    let room = Room::new();
    let ran = room.landau(&["run", "--output", "/nonexistent/record", "--no-report"]);
    assert_eq!((ran.status, ran.out.as_str()), (Some(2), ""));
    assert!(ran.err.contains("create its directory first"), "{}", ran.err);
    let ran = room.landau(&["run", "--dir", "/nonexistent", "--no-report", "--output", "r"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.err.contains("choose another directory with --dir"), "{}", ran.err);
    assert!(!room.file("r").exists(), "the run was begun");
}

/// The file system is a tmpfs of 2 MiB, which root mounts in a namespace.
#[test]
fn too_little_disk_space_is_an_error_before_measuring() {
    if !is_root() {
        eprintln!("skipped: this needs root");
        return;
    }
    let (room, small) = (Room::new(), "mkdir small && mount -t tmpfs -o size=2m none small");
    let in_small = |script: &str| {
        let script = format!("{small} && {script}; echo status $?");
        let ran = Ran::of(room.other("unshare", &["-m", "sh", "-c", &script]).output().unwrap());
        std::fs::remove_dir(room.file("small")).unwrap();
        assert!(ran.out.contains("status 2"), "{ran:?}");
        ran.err
    };
    let err = in_small(&format!("{LANDAU} run --output small/r --no-report"));
    assert!(err.contains("MiB free; free some space or choose another place with --output"), "{err}");
    // A resumed run has no --output.
    room.smoke(&["nop"]);
    let resume = format!("cp run.ndjson small/r && {LANDAU} run --resume small/r --passes 1000 --no-report");
    let err = in_small(&resume);
    assert!(err.contains("MiB free; free some space or copy the record to another place and resume"), "{err}");
    assert!(!err.contains("--output"), "{err}");
}

/// With 64 descriptors every benchmark ends at the limit, which is a result, or is skipped with a reason.
#[test]
fn a_low_descriptor_limit_is_a_result() {
    let room = Room::new();
    let script = format!("ulimit -n 64; {LANDAU} run --study smoke --output r --no-report --set socket.n=100");
    let output = room.other("sh", &["-c", &script]).output().unwrap();
    let ran = Ran::of(output);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let record = room.record("r");
    let socket = record.cases.iter().find(|case| case.label == "socket").unwrap();
    let pass = record.passes_of(socket.case)[0];
    let limit = pass.end.as_ref().unwrap().limit.as_ref().unwrap();
    assert!(limit.error == "EMFILE" && limit.meaning.contains("RLIMIT_NOFILE is 64"), "{limit:?}");
    assert!(pass.series["close"].costs.len() as u64 == limit.n - 1, "destruction is measured too");
}

#[test]
fn an_unprivileged_user_can_run_the_study() {
    if !is_root() {
        eprintln!("skipped: this needs root");
        return;
    }
    let folder = std::env::temp_dir().join(format!("landau-unprivileged-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let program = folder.join("landau");
    install(LANDAU, &program);
    let script = format!(
        "chown -R 65534:65534 {0} && cd {0} && exec setpriv --reuid 65534 --regid 65534 --clear-groups \
         env XDG_STATE_HOME={0}/state ./landau run --study smoke --output r --no-report --dir .",
        folder.display()
    );
    let ran = Ran::of(Command::new("sh").args(["-c", &script]).output().unwrap());
    let record = landau_record::Record::read(&folder.join("r"));
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert_eq!(record.unwrap().host.privilege, "unprivileged");
}

#[test]
fn a_closed_pipe_is_a_success() {
    let room = Room::new();
    let mut child = room.command(&["generate", "reference"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_file_that_is_not_a_record_is_an_error() {
    let room = Room::new();
    std::fs::write(room.file("text"), "hello\n").unwrap();
    std::fs::write(room.file("empty"), "").unwrap();
    for (file, answer) in [("text", "not a Landau record"), ("empty", "is empty"), ("missing", "No such file")] {
        let ran = room.landau(&["verify", file]);
        assert_eq!(ran.status, Some(2), "{file}: {ran:?}");
        assert!(ran.err.contains(answer), "{file}: {}", ran.err);
    }
}

#[test]
fn verify_names_the_first_altered_line() {
    let room = Room::new();
    room.smoke(&["nop", "dup", "--passes", "2"]);
    let text = std::fs::read_to_string(room.file("run.ndjson")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let number = lines.iter().position(|line| line.contains("\"ns\":[")).unwrap();
    let changed = lines[number].replacen("\"ns\":[", "\"ns\":[1", 1);
    let mut altered = lines.clone();
    altered[number] = &changed;
    let mut shorter = lines.clone();
    shorter.remove(number);
    let mut swapped = lines.clone();
    swapped.swap(number, number + 1);
    for (name, lines) in [("altered", altered), ("shorter", shorter), ("swapped", swapped)] {
        std::fs::write(room.file(name), lines.join("\n") + "\n").unwrap();
        let ran = room.landau(&["verify", name]);
        assert_eq!(ran.status, Some(1), "{name}: {ran:?}");
        assert!(ran.out.contains(&format!("line {}", number + 1)), "{name}: {}", ran.out);
    }
}

/// Guards against measuring passes whose report cannot be written, and against a name that makes two runs share a page.
#[test]
fn names_of_reports_and_records_are_checked_before_anything_is_measured() {
    use std::os::unix::ffi::OsStringExt;
    let room = Room::new();
    room.smoke(&["nop"]);
    let before = std::fs::read(room.file("run.ndjson")).unwrap();
    for (report, expected) in
        [("missing/x.html", "directory missing does not exist"), ("./run.ndjson", "the same file")]
    {
        let ran = room.landau(&["run", "--resume", "run.ndjson", "--passes", "9", "--report", report]);
        assert!(ran.status == Some(2) && ran.err.contains(expected), "{ran:?}");
        assert_eq!(std::fs::read(room.file("run.ndjson")).unwrap(), before, "{report}");
    }
    let name = std::ffi::OsString::from_vec(b"r\xff.ndjson".to_vec());
    let ran = Ran::of(room.command(&["run", "nop", "--study", "smoke", "--output"]).arg(&name).output().unwrap());
    assert!(ran.status == Some(2) && ran.err.contains("the name of a record must be UTF-8"), "{ran:?}");
    assert!(!room.path().join(name).exists());
}

/// Guards against advice that fails: only records of `landau run` can be resumed.
#[test]
fn the_record_of_a_load_is_not_to_be_resumed() {
    let room = Room::new();
    let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/records/network/crowd-1000000.landau.ndjson");
    let text = std::fs::read_to_string(kept).unwrap();
    let (without_end, _) = text.trim_end().rsplit_once('\n').unwrap();
    std::fs::write(room.file("load.ndjson"), format!("{without_end}\n")).unwrap();
    let (shown, verified) = (room.landau(&["show", "load.ndjson"]), room.landau(&["verify", "load.ndjson"]));
    assert!(shown.err.contains("the run did not end") && !shown.err.contains("--resume"), "{shown:?}");
    assert!(verified.out.contains("the run did not end") && !verified.out.contains("--resume"), "{verified:?}");
}

/// Guards against a refused resumption that removes a truncated line.
#[test]
fn a_refused_resumption_does_not_change_the_record() {
    let room = Room::new();
    room.smoke(&["nop"]);
    let text = std::fs::read_to_string(room.file("run.ndjson")).unwrap();
    let (without_end, end) = text.trim_end().rsplit_once('\n').unwrap();
    let torn = format!("{without_end}\n{}", &end[..20]).replacen("\"ns\":[", "\"ns\":[1", 1);
    std::fs::write(room.file("run.ndjson"), &torn).unwrap();
    let ran = room.landau(&["run", "--resume", "run.ndjson", "--no-report"]);
    assert!(ran.status == Some(2) && ran.err.contains("was altered"), "{ran:?}");
    assert_eq!(std::fs::read_to_string(room.file("run.ndjson")).unwrap(), torn);
}

#[test]
fn a_report_never_overwrites_a_record() {
    let room = Room::new();
    room.smoke(&["nop"]);
    let before = std::fs::read(room.file("run.ndjson")).unwrap();
    for words in [
        &["report", "run.ndjson", "-o", "run.ndjson"][..],
        &["run", "nop", "--study", "smoke", "--output", "new", "--report", "run.ndjson"],
        &["run", "nop", "--study", "smoke", "--output", "same", "--report", "same"],
    ] {
        let ran = room.landau(words);
        assert_eq!(ran.status, Some(2), "{words:?}: {ran:?}");
        assert_eq!(std::fs::read(room.file("run.ndjson")).unwrap(), before, "{words:?}");
        assert!(
            !room.file("new").exists() && !room.file("same").exists(),
            "{words:?}: refused before anything is measured"
        );
    }
}

/// Guards against a page that replaces a device, against opening a pipe to examine it, and against a page that replaces
/// a link instead of its target.
#[test]
fn a_page_replaces_files_only() {
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/records/sample.landau.ndjson");
    let room = Room::new();
    assert!(room.other("mkfifo", &["pipe"]).status().unwrap().success());
    std::os::unix::fs::symlink("pipe", room.file("to-pipe")).unwrap();
    // Like a device, but private to this test.
    let _listener = std::os::unix::net::UnixListener::bind(room.file("socket")).unwrap();
    for words in [
        &["report", sample, "-o", "pipe"][..],
        &["report", sample, "-o", "to-pipe"],
        &["compare", sample, sample, "--page", "socket"],
        &["run", "nop", "--study", "smoke", "--output", "r", "--report", "pipe"],
    ] {
        let ran = room.landau(words);
        assert!(ran.status == Some(2) && ran.err.contains("it is a device, a pipe or a socket"), "{words:?}: {ran:?}");
    }
    assert!(!room.file("r").exists(), "refused before anything is measured");
    // The reader of a pipe receives the answers of a check.
    let claim = format!("'{LANDAU}' check --claim 'bind: > 1ns at 900' '{sample}' --junit pipe >/dev/null");
    let ran = Ran::of(room.other("sh", &["-c", &format!("cat pipe & {claim}; wait")]).output().unwrap());
    assert!(ran.out.contains("<testsuites"), "{ran:?}");
    std::fs::create_dir(room.file("there")).unwrap();
    std::fs::write(room.file("there/old.html"), "<!DOCTYPE html>").unwrap();
    for (link, place) in [("old", "there/old.html"), ("new", "there/new.html")] {
        std::os::unix::fs::symlink(place, room.file(link)).unwrap();
        let ran = room.landau(&["report", sample, "-o", link]);
        assert_eq!(ran.status, Some(0), "{ran:?}");
        assert!(room.file(link).is_symlink(), "{link} was replaced");
        assert!(std::fs::read(room.file(place)).unwrap().len() > 100_000, "{place}");
    }
    assert_eq!(std::fs::read_dir(room.file("there")).unwrap().count(), 2);
}

/// The server closes idle connections, which `connect` detects in the first steps.
#[test]
fn a_failed_pass_sets_the_status_and_enters_no_verdict() {
    let room = Room::new();
    let server = format!("connect.command={LANDAU} serve {{dir}} --listen 127.0.0.1:{{port}} --idle-timeout 10ms");
    let words = ["connect", "--passes", "1", "--set", &server, "--set", "connect.n=2000", "--time-limit", "10m"];
    let ran = room.landau(&[&["run", "--output", "r", "--no-report"], &words[..]].concat());
    assert_eq!(ran.status, Some(1), "{ran:?}");
    let record = room.record("r");
    assert_eq!(record.end.as_ref().unwrap().outcome, EndOutcome::Failed);
    assert!(record.results.is_empty(), "{:?}", record.results);
    let shown = room.landau(&["show", "r"]);
    let words = shown.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("pass 1 failed: at n = ") && words.contains("was closed by the server"), "{words}");
}

#[test]
fn a_run_with_closed_pipes_completes_and_writes_its_report() {
    for closed in ["| true", "2>&1 | true"] {
        let room = Room::new();
        let script = format!("{LANDAU} run nop dup --study smoke --set dup.n=50 --output r {closed}; exit 0");
        room.other("sh", &["-c", &script]).output().unwrap();
        assert_eq!(room.record("r").end.unwrap().outcome, EndOutcome::Complete, "{closed}");
        assert!(std::fs::read_to_string(room.file("r.html")).unwrap().starts_with("<!"), "{closed}");
    }
}

#[test]
fn a_run_without_a_possible_case_is_an_error_with_the_reasons() {
    let room = Room::new();
    let ran = room.landau(&["run", "bind", "--set", "bind.range=100-200", "--no-report", "--output", "r"]);
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(ran.err.contains("no case can be measured") && ran.err.contains("range=100-200"), "{ran:?}");
    assert!(!room.file("r").exists());
}

#[test]
fn verify_detects_an_altered_digit_in_a_report() {
    let room = Room::new();
    let ran = room.landau(&["run", "nop", "pipe", "--study", "smoke", "--passes", "2", "--output", "r.landau.ndjson"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert_eq!(room.landau(&["verify", "r.html"]).status, Some(0));
    let page = std::fs::read_to_string(room.file("r.html")).unwrap();
    let place = page.find("Findings").unwrap();
    let digit = place + page[place..].find(|letter: char| letter.is_ascii_digit()).unwrap();
    let other = if &page[digit..=digit] == "1" { "2" } else { "1" };
    std::fs::write(room.file("altered.html"), format!("{}{other}{}", &page[..digit], &page[digit + 1..])).unwrap();
    let ran = room.landau(&["verify", "altered.html"]);
    assert_eq!(ran.status, Some(1), "{ran:?}");
}

/// The documents quote this record.
#[test]
fn the_sample_record_verifies() {
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/records/sample.landau.ndjson");
    let ran = Room::new().landau(&["verify", sample]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
}
