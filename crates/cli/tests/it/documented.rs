//! The JSON of commands without another test of its members, and the tables in the documents. Each table lists every
//! member, and no member that is missing in the output.

use crate::lab::kernel;
use crate::support::Room;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// Members whose contents are documented elsewhere.
const LEAVES: [&str; 5] =
    ["results[].verdict", "rows[].p99.outcome", "ladders.records[].ladder", "records[].rows", "records[].timelines"];

/// Collects the paths of a value's members: `rows[]`, `rows[].text.small`. An interval is a leaf, and so is a list of
/// lists. For a list at the top level, the members are those of its objects.
fn paths(value: &Value, before: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) if !["value", "low", "high"].iter().all(|name| members.contains_key(*name)) => {
            for (name, value) in members {
                let path = if before.is_empty() { name.clone() } else { format!("{before}.{name}") };
                // A list may be null.
                found.insert(path.clone());
                if !LEAVES.contains(&path.as_str()) {
                    paths(value, &path, found);
                }
            }
        }
        Value::Array(all) => {
            let place = if before.is_empty() { String::new() } else { format!("{before}[]") };
            all.iter().filter(|one| one.is_object()).for_each(|one| paths(one, &place, found));
        }
        _ => {}
    }
}

/// Returns the members in the output of these commands.
fn printed(room: &Room, commands: &[&[&str]]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for words in commands {
        let ran = room.landau(&[*words, &["--json"]].concat());
        let value: Value = serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{words:?}: {error}: {ran:?}"));
        paths(&value, "", &mut found);
    }
    found
}

/// Returns the members that the tables of a section document. The header of a table states the parent or the parents:
/// "member of `rows[]`".
fn documented(document: &str, section: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(document);
    let text = std::fs::read_to_string(path).unwrap();
    let section = text.split_once(&format!("\n{section}\n")).unwrap_or_else(|| panic!("no section {section}")).1;
    let section = section.split("\n## ").next().unwrap().split("\n### ").next().unwrap();
    let quoted = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<String>>();
    let (mut found, mut of) = (BTreeSet::new(), vec![String::new()]);
    for line in section.lines().filter(|line| line.starts_with("| ")) {
        let cell = line.trim_start_matches("| ").split(" | ").next().unwrap();
        if cell.starts_with("member of ") {
            of = quoted(cell).iter().map(|path| format!("{path}.")).collect();
        } else if cell.starts_with("member") {
            of = vec![String::new()];
        } else {
            let names = quoted(cell);
            let members = of.iter().flat_map(|of| names.iter().map(move |name| format!("{of}{name}")));
            found.extend(members.map(|path| path.trim_end_matches("[]").to_owned()));
        }
    }
    found
}

fn kept(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/records").join(name).display().to_string()
}

/// Uses records with variants and tails, with a ladder of slow calls, with articles, with instructions, and with a
/// timeline.
#[test]
fn the_members_of_show_are_documented() {
    let room = Room::new();
    let (sample, ladder, articles) =
        (kept("sample.landau.ndjson"), kept("then/2004.landau.ndjson.gz"), kept("then/2001.landau.ndjson.gz"));
    let [old, new] = ["5.10", "6.1"].map(|release| kept(&format!("linux-kernels/spawn-{release}.landau.ndjson")));
    let (ran, _) = room.smoke(&["download"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let one: &[&[&str]] =
        &[&["show", &sample], &["show", &ladder], &["show", &articles], &["show", &old], &["show", "run.ndjson"]];
    let of_one = documented("record.md", "## JSON of `landau show`");
    assert_eq!(printed(&room, one), of_one);
    let several = printed(&room, &[&["show", &old, &new]]);
    let (findings, own): (BTreeSet<_>, _) = several.into_iter().partition(|path| path.starts_with("findings[]."));
    assert!(!findings.is_empty() && findings.is_subset(&of_one), "{findings:?}");
    assert_eq!(own, documented("record.md", "### JSON of several records"));
}

/// Guards against a kind of finding, an outcome or a change with an undocumented name.
#[test]
fn the_words_of_show_are_documented() {
    let room = Room::new();
    let section = std::fs::read_to_string(kept("../record.md")).unwrap();
    let section = section.split_once("\n## JSON of `landau show`\n").unwrap().1;
    let section = section.split("\n## ").next().unwrap();
    let files = ["sample.landau.ndjson", "then/2001.landau.ndjson.gz", "explain/bind.landau.ndjson.gz"].map(kept);
    let mut words = BTreeSet::new();
    for file in &files {
        let value: Value = serde_json::from_str(&room.landau(&["show", file, "--json"]).out).unwrap();
        let list = |name: &str| value[name].as_array().unwrap().clone();
        let mut found = vec![value["unit"].clone()];
        found.extend(list("findings").iter().map(|one| one["kind"].clone()));
        found.extend(list("variants").iter().map(|one| one["nature"].clone()));
        for row in list("rows") {
            let outcome = &row["p99"]["outcome"];
            found.extend([&row["direction"], &row["class"], &outcome["kind"], &outcome["reason"]].map(Clone::clone));
        }
        let tests = list("then").into_iter().flat_map(|article| article["tests"].as_array().unwrap().clone());
        found.extend(tests.map(|test| test["change"].clone()));
        // A member that does not apply is null, and is skipped.
        words.extend(found.iter().filter_map(Value::as_str).map(str::to_owned));
    }
    assert!(words.len() > 15, "{words:?}");
    let missing: Vec<_> = words.iter().filter(|word| !section.contains(&format!("`{word}`"))).collect();
    assert!(missing.is_empty(), "docs/record.md lacks {missing:?}");
}

/// Uses a record, an altered record, and a page.
#[test]
fn the_members_of_verify_are_documented() {
    let room = Room::new();
    let sample = kept("sample.landau.ndjson");
    let altered = std::fs::read_to_string(&sample).unwrap().replacen("\"study\":\"", "\"study\":\"x", 1);
    std::fs::write(room.file("altered.ndjson"), altered).unwrap();
    assert_eq!(room.landau(&["report", &sample, "-o", "page.html"]).status, Some(0));
    let commands: &[&[&str]] = &[&["verify", &sample], &["verify", "altered.ndjson"], &["verify", "page.html"]];
    assert_eq!(printed(&room, commands), documented("record.md", "## JSON of `landau verify`"));
    let page: Value = serde_json::from_str(&room.landau(&["verify", "page.html", "--json"]).out).unwrap();
    let seals: Vec<_> = page.as_array().unwrap().iter().map(|one| one["seal"].as_str().unwrap()).collect();
    assert!(seals.len() == 2 && !seals[0].is_empty() && seals[1].is_empty(), "the record, then its page: {page}");
}

#[test]
fn the_members_of_list_are_documented() {
    let room = Room::new();
    assert_eq!(printed(&room, &[&["list"]]), documented("benchmarks.md", "## JSON of `landau list`"));
    // Members that are lists of lists have the documented number of entries.
    let rows: Value = serde_json::from_str(&room.landau(&["list", "bind", "request", "--json"]).out).unwrap();
    for row in rows.as_array().unwrap() {
        let len = |member: &str| -> Vec<usize> {
            row[member].as_array().unwrap().iter().map(|one| one.as_array().unwrap().len()).collect()
        };
        assert!(len("parameters").iter().all(|len| *len == 3) && !len("parameters").is_empty(), "{row}");
        assert!(len("unavailable").iter().all(|len| *len == 2), "{row}");
    }
}

#[test]
fn the_members_of_pids_are_documented() {
    let room = Room::new();
    let words: &[&str] = &["pids", "--allocators", "netbsd-table,hash-probe", "--n", "100,200", "--passes", "2"];
    assert_eq!(printed(&room, &[words]), documented("benchmarks.md", "## JSON of `landau pids`"));
}

#[test]
fn the_members_of_the_lab_are_documented() {
    let room = Room::new();
    let platforms = printed(&room, &[&["lab", "platforms"]]);
    assert_eq!(platforms, documented("lab.md", "### JSON of `landau lab platforms`"));
    // The claim does not hold for the good kernel, so that one boot ends the search.
    let Some(kernel) = kernel() else { return };
    let (kernel, claim) = (kernel.display().to_string(), "syscall.instructions@50 > 1000");
    let ran = room.landau(&["lab", "bisect", "--good", &kernel, "--bad", &kernel, "--claim", claim, "--json"]);
    assert_eq!(ran.status, Some(1), "{ran:?}");
    let mut found = BTreeSet::new();
    paths(&serde_json::from_str(&ran.out).unwrap(), "", &mut found);
    assert_eq!(found, documented("lab.md", "### JSON of `landau lab bisect`"));
}

/// The statements of `inspect` about an architecture's growth are the medians and the ranges of the passes in the
/// record.
#[test]
fn the_growth_of_architectures_is_that_of_the_record() {
    use landau_host::inspect::Architecture;
    use landau_record::schema::Fact;
    use landau_report::quantity;
    let read = |name: &str| landau_record::Record::read(Path::new(&kept(&format!("architecture/{name}")))).unwrap();
    let (quick, loops) = (read("quick.landau.ndjson.gz"), read("event-loops.landau.ndjson.gz"));
    let cost = |record: &landau_record::Record, case: u32, open: &str| {
        let of = |end: &landau_record::schema::PassEnd| match end.facts.get(open)? {
            Fact::Number { value, .. } => Some(*value),
            Fact::Text(_) => None,
        };
        let ends = record.passes.iter().filter(|pass| pass.start.case == case).filter_map(|pass| pass.end.as_ref());
        let mut values: Vec<f64> = ends.filter_map(of).collect();
        values.sort_by(f64::total_cmp);
        assert!(values.len() >= 5, "{}", values.len());
        let [least, .., most] = values[..] else { panic!("too few passes: {values:?}") };
        let median = f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2]);
        format!("{} ({})", quantity::duration(median), quantity::durations(least, most))
    };
    for (architecture, record, label) in [
        (Architecture::Exec, &quick, "architecture architecture=exec"),
        (Architecture::Fork, &quick, "architecture architecture=fork"),
        (Architecture::Prefork, &quick, "architecture architecture=prefork"),
        (Architecture::Thread, &quick, "architecture architecture=thread"),
        (Architecture::ThreadPool, &quick, "architecture architecture=thread-pool"),
        (Architecture::EventLoop, &quick, "architecture"),
        // With one processor there would be only one loop.
        (Architecture::EventLoops, &loops, "architecture architecture=event-loops processors=all"),
    ] {
        let case = record.cases.iter().find(|case| case.label == label).unwrap().case;
        let [few, many] =
            ["16", "1000"].map(|n| cost(record, case, &format!("server_processor_time_per_reply_at_{n}")));
        let said = format!("took {few} of processor time for a connection that it answered and closed at once with 9");
        let growth = architecture.growth();
        assert!(growth.contains(&said) && growth.contains(&format!("and {many} with 257")), "{label}: {few} {many}");
    }
    // The processors on which they ran.
    let places: std::collections::BTreeSet<String> = ["server_processor", "client_processor"]
        .iter()
        .flat_map(|name| loops.passes.iter().map(move |pass| (name, pass.end.as_ref().unwrap().facts.get(name))))
        .map(|(name, fact)| match fact {
            Some(Fact::Text(text)) => format!("{name} {text}"),
            other => panic!("{name}: {other:?}"),
        })
        .collect();
    assert_eq!(places.into_iter().collect::<Vec<_>>(), ["client_processor 1", "server_processor 0, 1"]);
    let place = "on two processors, one of which its client used too, under Linux 6.18";
    assert!(Architecture::EventLoops.growth().contains(place), "{}", Architecture::EventLoops.growth());
    assert!(Architecture::EventLoop.growth().contains("on one processor under Linux 6.18"));
    // Landau has no server with these architectures.
    for other in [Architecture::EventLoopWithWorkers, Architecture::EventLoopProcesses] {
        assert!(!other.growth().contains("took"), "{}", other.growth());
    }
}
