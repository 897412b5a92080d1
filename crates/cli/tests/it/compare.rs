//! `landau compare` and `landau check` on records: their output as text, JSON and XML, and their exit statuses.

use crate::support::{LANDAU, Ran, Room, eventually};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

/// Returns the path of a record of the tree: a complete quick study.
fn sample() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/records/sample.landau.ndjson").display().to_string()
}

fn kernel(release: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/records/linux-kernels");
    folder.join(format!("{release}.landau.ndjson")).display().to_string()
}

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

/// Guards against a difference between a record and itself.
#[test]
fn a_record_compared_with_itself_has_not_changed() {
    let room = Room::new();
    let ran = room.landau(&["compare", &sample(), &sample(), "--json"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let value = json(&ran);
    let curves = value["curves"].as_array().unwrap();
    assert!(curves.len() > 5, "{}", curves.len());
    assert!(curves.iter().all(|curve| curve["changed"] == false), "{value}");
    assert_eq!(value["limits"].as_array().unwrap().len(), 0);
    let text = room.landau(&["compare", &sample(), &sample(), "--only", "changed"]);
    assert!(text.out.contains("No change is shown in") && !text.out.contains("No difference proven"), "{text:?}");
    assert!(text.out.contains("\nnew   ") && !text.out.contains("Each variant"), "{text:?}");
    let variants = room.landau(&["compare", &sample()]);
    assert!(variants.out.contains("Each variant is compared with the default case"), "{variants:?}");
}

/// Two kernels measured in instructions. They certainly differ: the search in bind was changed between them.
#[test]
fn a_changed_kernel_is_told_with_its_ratios_and_its_law() {
    let room = Room::new();
    let (old, new) = (kernel("5.10.0"), kernel("6.1.0"));
    let value = json(&room.landau(&["compare", &old, &new, "--json", "--only", "changed"]));
    let curves = value["curves"].as_array().unwrap();
    let bind = curves.iter().find(|one| one["case"] == "bind" && one["phase"] == "bind").unwrap();
    assert_ne!(bind["result"], "no_difference_proven");
    let at = bind["at"].as_array().unwrap();
    assert!(at.len() == 3 && at.windows(2).all(|pair| pair[0]["n"].as_f64() < pair[1]["n"].as_f64()), "{bind}");
    let text = room.landau(&["compare", &old, &new, "--page", "both.html"]);
    assert!(
        text.status == Some(0) && text.out.contains("\nbind · bind\n") && text.out.contains("  ratio "),
        "{text:?}"
    );
    assert!(room.file("both.html").exists());
    let mixed = room.landau(&["compare", &old, &sample()]);
    assert!(mixed.status == Some(2) && mixed.err.contains("different units"), "{mixed:?}");
}

#[test]
fn the_variants_of_one_record_are_compared_in_pairs() {
    let room = Room::new();
    let value = json(&room.landau(&["compare", &sample(), "--json"]));
    let curves = value["curves"].as_array().unwrap();
    assert!(!curves.is_empty());
    let is_variant = |one: &Value| one["paired"] == true && one["case"] != one["base_case"];
    assert!(curves.iter().all(is_variant), "{value}");
}

#[test]
fn each_answer_has_its_status() {
    let room = Room::new();
    let check = |claim: &str| room.landau(&["check", "--claim", claim, &kernel("6.1.0")]);
    let status = |claim: &str| check(claim).status;
    assert_eq!(status("bind.instructions@900 > 10"), Some(0));
    assert_eq!(status("bind.instructions@900 < 10"), Some(1));
    assert_eq!(status("bind: no cliff below 4000000000"), Some(125));
    assert_eq!(status("bind: O(x)"), Some(2));
    for (claim, expected) in [
        ("bnid: O(1)", "did you mean `bind`?"),
        ("bind.clsoe: O(1)", "did you mean `close`?"),
        ("bind.family=v5: O(1)", "`v5` is not one of"),
        ("bind: < 2x sokcet at 900", "did you mean `socket`?"),
        ("request.poll: no cliff", "write backend=poll or idle=poll"),
        ("", "a --claim is empty"),
        ("# bind: O(1)", "a --claim is empty"),
    ] {
        let unknown = check(claim);
        assert!(unknown.status == Some(2) && unknown.err.contains(expected), "{claim}: {unknown:?}");
    }
    let empty = room.landau(&["check", "--claim", "# x"]);
    assert!(empty.status == Some(2) && empty.err.contains("a --claim is empty"), "{empty:?}");
    let base = check("bind: < 1.1x base at 900");
    assert!(base.status == Some(2) && base.err.contains("--base"), "{base:?}");
    // A failure takes precedence over an inconclusive claim.
    let claims = ["bind: no cliff below 4000000000", "bind.instructions@900 < 10", "bind.instructions@900 > 10"];
    std::fs::write(room.file("claims.txt"), claims.join("\n")).unwrap();
    let all = room.landau(&["check", "claims.txt", &kernel("6.1.0"), "--junit", "claims.xml"]);
    assert_eq!(all.status, Some(1), "{all:?}");
    assert!(all.out.ends_with("1 pass, 1 fail, 1 inconclusive\n"), "{all:?}");
    let xml = std::fs::read_to_string(room.file("claims.xml")).unwrap();
    assert!(xml.contains("tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\""), "{xml}");
    let value = json(&room.landau(&["check", "claims.txt", &kernel("6.1.0"), "--json"]));
    let answers: Vec<&str> =
        value["claims"].as_array().unwrap().iter().map(|one| one["answer"].as_str().unwrap()).collect();
    assert_eq!((value["answer"].as_str(), answers), (Some("fail"), vec!["inconclusive", "fail", "pass"]));
}

/// Guards against claims about a ratio that are decided by the wrong record.
#[test]
fn a_ratio_is_over_the_base() {
    let room = Room::new();
    let (old, new) = (kernel("5.10.0"), kernel("6.1.0"));
    let value = json(&room.landau(&["check", "--claim", "bind: > 0.001x base at 900", &new, "--base", &old, "--json"]));
    let ratio = value["claims"][0]["curves"][0]["value"]["value"].as_f64().unwrap();
    let value = json(&room.landau(&["check", "--claim", "bind: > 0.001x base at 900", &old, "--base", &new, "--json"]));
    let inverse = value["claims"][0]["curves"][0]["value"]["value"].as_f64().unwrap();
    assert!((ratio * inverse - 1.0).abs() < 1e-9 && (ratio - 1.0).abs() > 0.02, "{ratio} {inverse}");
    let same = room.landau(&["check", "--claim", "bind: <= 1x base at 900", &new, "--base", &new]);
    assert_eq!(same.status, Some(0), "{same:?}");
}

/// Guards against an error that does not state the wrong line and the position in it.
#[test]
fn an_invalid_file_of_claims_is_shown_with_its_lines() {
    let room = Room::new();
    std::fs::write(room.file("claims.txt"), "# growth\nbind: O(1)\nbind O(1)\nbind: O(1) to x\n").unwrap();
    let ran = room.landau(&["check", "claims.txt", &sample()]);
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(ran.err.contains("claims.txt:3: column 6: expected `:` and an assertion, found `O(1)`"), "{ran:?}");
    assert!(ran.err.contains("  bind: O(1) to x\n                ^"), "{ran:?}");
    let nothing = room.landau(&["check"]);
    assert!(nothing.status == Some(2) && nothing.err.contains("no claims"), "{nothing:?}");
}

/// Guards against a build that is green because nobody reads the answer, as with `head`, which exits before anything is
/// printed.
#[test]
fn a_closed_pipe_does_not_change_the_status() {
    let room = Room::new();
    for (claim, status) in
        [("bind: < 1ns at 900", 1), ("bind: > 1ns at 900", 0), ("socket: no cliff below 90000000", 125)]
    {
        // The reader exits before the answer is available.
        let script = r#"{ "$0" check --claim "$1" "$2"; echo $? >status; } | true"#;
        let ran = Ran::of(room.other("bash", &["-c", script, LANDAU, claim, &sample()]).output().unwrap());
        let found = std::fs::read_to_string(room.file("status")).unwrap();
        assert!(found.trim() == status.to_string() && ran.err.is_empty(), "{claim}: {found} {ran:?}");
    }
    let altered = std::fs::read_to_string(sample()).unwrap().replacen("\"study\":\"quick\"", "\"study\":\"smoke\"", 1);
    std::fs::write(room.file("altered"), altered).unwrap();
    let script = r#"{ "$0" verify altered; echo $? >status; } | true"#;
    Ran::of(room.other("bash", &["-c", script, LANDAU]).output().unwrap());
    assert_eq!(std::fs::read_to_string(room.file("status")).unwrap().trim(), "1");
}

/// Checks the same for answers about this host and for a load.
#[test]
fn a_closed_pipe_does_not_change_an_answer_that_is_measured() {
    let room = Room::new();
    for (words, told) in [
        (&["doctor", "--for", "idle=900000000", "--no-measure"][..], ""),
        (&["doctor", "--for", "idle=900000000", "--no-measure", "--json"], ""),
        // No process listens on port 1.
        (&["load", "http://127.0.0.1:1/", "--requests", "3", "--quiet"], ""),
        (&["load", "http://127.0.0.1:1/", "--requests", "3", "--json"], ""),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ran = Ran::of(room.command(words).stdout(writer).output().unwrap());
        assert_eq!((ran.status, ran.err.as_str()), (Some(1), told), "{words:?}");
    }
    // Messages on standard error are also printed.
    let words = ["load", "http://127.0.0.1:1/", "--idle", "20", "--output", "idle.ndjson", "--quiet"];
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ran = Ran::of(room.command(&words).stdout(writer).output().unwrap());
    assert!(ran.status == Some(1) && ran.err.ends_with("\nrecord: idle.ndjson\n"), "{ran:?}");
}

/// Guards against options that are ignored for several records, and against JSON that lacks information in the text.
#[test]
fn several_records_are_shown_with_all_options() {
    let room = Room::new();
    let (old, new) = (kernel("5.10.0"), kernel("6.1.0"));
    let ran = room.landau(&["show", &old, &new, "--details"]);
    assert!(ran.status == Some(2) && ran.err.contains("--details takes one record, not 2"), "{ran:?}");

    let shown = |words: &[&str]| json(&room.landau(&[&["show", "--json", &old, &new], words].concat()));
    let curves = |rows: &Value| -> Vec<(String, String)> {
        rows.as_array().unwrap().iter().map(|row| (row["case"].to_string(), row["phase"].to_string())).collect()
    };
    let rows = |value: &Value, record: usize| curves(&value["records"][record]["rows"]);
    let all = shown(&[]);
    assert_eq!(all["unit"], "instructions");
    for (record, file) in [&old, &new].into_iter().enumerate() {
        let one = json(&room.landau(&["show", "--json", file]));
        let beside = &all["records"][record];
        // In the order of the first record; curves that it lacks follow.
        let [found, mut own] = [&all["records"][0]["rows"], &one["rows"]].map(curves);
        own.sort_by_key(|curve| found.iter().position(|other| other == curve).unwrap_or(usize::MAX));
        assert_eq!(rows(&all, record), own);
        assert!(beside["rows"][0] == one["rows"][0] && beside["timelines"] == one["timelines"], "{file}");
        assert!(file.contains(beside["name"].as_str().unwrap()), "{}", beside["name"]);
    }
    // As in the text, the first record determines the selection and the order.
    for words in [&["--sort", "cost"][..], &["--only", "growing"], &["--only", "growing", "--sort", "name"]] {
        let (several, one) = (shown(words), json(&room.landau(&[&["show", "--json", &old], words].concat())));
        assert!(several["records"][0]["rows"] == one["rows"], "{words:?}");
        let [base, other] = [0, 1].map(|record| rows(&several, record));
        assert_eq!(base[..], other[..base.len()], "{words:?}");
        assert!(words[0] == "--sort" || base.len() == other.len(), "{words:?}");
    }
    assert_ne!(rows(&all, 0), rows(&shown(&["--sort", "cost"]), 0));
}

/// Guards against evidence from one phase that is used for all phases.
#[test]
fn a_claim_about_all_phases_is_decided_for_each() {
    let room = Room::new();
    let value = json(&room.landau(&["check", "--claim", "bind.*: > 1ns at 900", &sample(), "--json"]));
    let curves = value["claims"][0]["curves"].as_array().unwrap();
    let phases: Vec<&str> = curves.iter().map(|one| one["phase"].as_str().unwrap()).collect();
    assert_eq!(phases, ["socket", "bind", "close"]);
    assert!(curves.iter().all(|one| one["answer"] == "pass" && one["value"]["value"].as_f64() > Some(1.0)), "{value}");
    let text = value["claims"][0]["text"].as_str().unwrap();
    assert!(phases.iter().all(|phase| text.contains(&format!(" · {phase}: "))), "{text}");
    // If a phase fails, only the failing ones are reported.
    let value = json(&room.landau(&["check", "--claim", "bind.*: no cliff", &sample(), "--json"]));
    let (claim, text) = (&value["claims"][0], value["claims"][0]["text"].as_str().unwrap());
    assert!(
        claim["answer"] == "fail" && text.contains(" · bind: cliff at n = 1,002") && !text.contains("none up to"),
        "{claim}"
    );
}

/// The sample's bind has a cliff at 1,002. A claim next to it, or about a ratio beyond it, is inconclusive; the growth
/// across it is that of the costs.
#[test]
fn what_lies_beside_a_cliff_is_inconclusive() {
    let room = Room::new();
    let answer = |claim: &str| {
        let value = json(&room.landau(&["check", "--claim", claim, &sample(), "--json"]));
        let claim = &value["claims"][0];
        format!("{} {}", claim["answer"].as_str().unwrap(), claim["text"].as_str().unwrap())
    };
    let beyond = answer("bind: < 25x bind.socket at 1030");
    assert!(beyond.starts_with("inconclusive") && beyond.contains("cliff at n = 1,002"), "{beyond}");
    let growth = answer("bind: grows < 154.7x");
    assert!(!growth.starts_with("pass") && growth.contains("; growth ×"), "{growth}");
    assert!(answer("bind: grows < 3x").starts_with("fail"));
    assert!(answer("bind: grows < 2000x").starts_with("pass"));
    assert!(answer("bind: grows < 2000x to 1000").starts_with("inconclusive"));
}

/// Returns a record of the tree as if an emulator's clock had measured it, with checksums that do not match.
fn emulated() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/records/schema-3.landau.ndjson");
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut line: Value = serde_json::from_str(line).unwrap();
        let members = line.as_object_mut().unwrap();
        members.remove("seal");
        if members["kind"] == "result" {
            continue;
        }
        let mut rename = |from: &str, to: &str| {
            if let Some(value) = members.remove(from) {
                members.insert(to.to_owned(), value);
            }
        };
        rename("ns", "emulated_ns");
        rename("canary_ns", "canary_emulated_ns");
        if let Some(clock) = line.get_mut("clock").and_then(Value::as_object_mut) {
            clock.insert("unit".to_owned(), "emulated_ns".into());
            for name in ["timer_overhead", "quantum"] {
                let value = clock.remove(&format!("{name}_ns")).unwrap();
                clock.insert(format!("{name}_emulated_ns"), value);
            }
        }
        lines.push(line.to_string().strip_suffix('}').unwrap().to_owned() + ",\"seal\":\"00000000\"}\n");
    }
    lines.concat()
}

/// Guards against an emulator's time that is shown or decides a claim as if it were real time.
#[test]
fn an_emulated_clock_is_named_and_decides_nothing() {
    let room = Room::new();
    std::fs::write(room.file("emulated.ndjson"), emulated()).unwrap();
    let said = "Not times: measured with an emulator's clock.";
    for words in [
        &["show", "emulated.ndjson"][..],
        &["compare", "emulated.ndjson"],
        &["predict", "emulated.ndjson", "--for", "dup.dup", "--at", "500"],
    ] {
        let ran = room.landau(words);
        assert!(ran.status == Some(0) && ran.out.starts_with(said), "{words:?}: {ran:?}");
    }
    let claims = ["dup: < 1s at 900", "dup: grows < 2000x", "dup: no cliff below 500", "dup: no limit below 900"];
    let words = claims.iter().flat_map(|claim| ["--claim", *claim]);
    let value =
        json(&room.landau(&["check", "emulated.ndjson", "--json"].into_iter().chain(words).collect::<Vec<_>>()));
    let answers: Vec<_> =
        value["claims"].as_array().unwrap().iter().map(|one| one["answer"].as_str().unwrap()).collect();
    assert_eq!(answers, ["inconclusive", "inconclusive", "inconclusive", "pass"], "{value}");
}

/// Guards against a comparison that does not report failed passes and altered records, including those of the base of a
/// claim.
#[test]
fn failures_are_told_before_what_changed() {
    let room = Room::new();
    let altered = std::fs::read_to_string(sample()).unwrap().replacen("\"study\":\"", "\"study\":\"x", 1);
    std::fs::write(room.file("altered.ndjson"), altered).unwrap();
    let alarms = |words: &[&str]| json(&room.landau(words))["alarms"].as_array().unwrap().clone();
    let found = alarms(&["compare", &sample(), "altered.ndjson", "--json"]);
    assert!(found.len() == 1 && found[0]["kind"] == "failed", "{found:?}");
    assert!(found[0]["text"].as_str().unwrap().starts_with("altered: "), "{found:?}");
    assert_eq!(alarms(&["compare", &sample(), &sample(), "--json"]), Vec::<Value>::new());
    assert_eq!(alarms(&["compare", "altered.ndjson", "--json"]).len(), 1);
    let text = room.landau(&["compare", &sample(), "altered.ndjson"]).out;
    let alarm = text.find("\nFailures and crashes\n  failed: altered: ");
    assert!(alarm.is_some() && alarm < text.find("No difference proven"), "{text}");
    let claim = "bind: < 9x base at 500";
    let ran = room.landau(&["check", "--claim", claim, &sample(), "--base", "altered.ndjson"]);
    assert!(ran.err.contains("altered.ndjson: line 1 was altered"), "{ran:?}");
}

/// Guards against a page or another file that is overwritten after minutes of measuring.
#[test]
fn only_a_report_is_replaced() {
    let room = Room::new();
    let junit = |path: &str| room.landau(&["check", "--claim", "bind: > 1ns at 900", &sample(), "--junit", path]);
    for text in ["<svg></svg>", "<!DOCTYPE html>", "<?xml version=\"1.0\"?>\n<svg></svg>", "x"] {
        std::fs::write(room.file("precious"), text).unwrap();
        let ran = junit("precious");
        assert!(ran.status == Some(2) && ran.err.contains("is not a JUnit report"), "{text}: {ran:?}");
        assert_eq!(std::fs::read_to_string(room.file("precious")).unwrap(), text);
    }
    assert_eq!([junit("new.xml").status, junit("new.xml").status], [Some(0), Some(0)]);
    let nowhere = room.landau(&["check", "--claim", "dup: no cliff", "--junit", "missing/claims.xml"]);
    assert!(nowhere.status == Some(2) && !nowhere.err.contains("round"), "measured first: {nowhere:?}");
}

/// Without a record the claims are measured: a claim without an n up to the size of the study, each setting, and both
/// sides of a ratio, in pairs.
#[test]
fn claims_are_measured_where_there_is_no_record() {
    let room = Room::new();
    let claims = ["dup: no limit below 300", "dup: < 10s at 200"];
    let ran = room.landau(&["check", "--claim", claims[0], "--claim", claims[1]]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.out.contains("no call was refused up to n = 303 in"), "{ran:?}");
    assert!(!ran.err.contains("record"), "a record that is gone: {ran:?}");
    let claims =
        ["epoll_ctl.add: no limit", "epoll_ctl.add: < 10s at 200", "bind.range=40000-42001: < 1000000x bind at 50"];
    let words = claims.iter().flat_map(|claim| ["--claim", *claim]);
    let ran = room.landau(&["check", "--json"].into_iter().chain(words).collect::<Vec<_>>());
    let value = json(&ran);
    assert_eq!((ran.status, &value["answer"]), (Some(0), &Value::from("pass")), "{ran:?}");
    let text = |index: usize| value["claims"][index]["text"].as_str().unwrap();
    assert!(text(0).contains("no call was refused up to n = 5,000"), "{}", text(0));
    assert!(text(2).contains("bind range=40000-42001 · bind: ") && text(2).contains("the cost of bind"), "{}", text(2));
    assert_eq!(room.leftovers(), Vec::<String>::new());
}

/// Returns the number of processes whose working directory is the room: the program and its children.
fn processes_in(room: &Room) -> usize {
    let room = room.path().canonicalize().unwrap();
    let folders = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path().join("cwd"));
    folders.filter(|folder| std::fs::read_link(folder).is_ok_and(|place| place == room)).count()
}

/// Guards against a measurement that outlives its command, and against answers from an incomplete one.
#[test]
fn an_interrupted_check_leaves_no_measurement_behind() {
    for (signal, status) in [("-TERM", Some(2)), ("-KILL", None)] {
        let room = Room::new();
        let mut check = room.command(&["check", "--claim", "fork: no cliff below 3000"]);
        let mut check = check.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        assert!(eventually(|| !room.leftovers().is_empty() && processes_in(&room) > 1), "nothing is measured");
        let pid = check.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        let mut ended = None;
        let has_ended = eventually(|| {
            ended = check.try_wait().unwrap();
            ended.is_some()
        });
        // Killed before any assertion, so that no other test waits for leftover processes.
        check.kill().unwrap();
        let output = check.wait_with_output().unwrap();
        assert!(has_ended, "{signal}: {output:?}");
        assert_eq!(ended.unwrap().code(), status, "{signal}: {output:?}");
        assert!(eventually(|| processes_in(&room) == 0), "{signal}: processes are left");
        let said = String::from_utf8(output.stderr).unwrap();
        if status.is_some() {
            assert!(said.contains("interrupted; no claim was checked") && !said.contains("--resume"), "{said}");
            assert_eq!(room.leftovers(), Vec::<String>::new());
        }
    }
}
