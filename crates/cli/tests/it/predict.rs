//! `landau predict`: sums of calls from the curves of a new record.

use crate::support::{Ran, Room};
use serde_json::Value;

/// Guards against a sum that differs from that of its curves, and against an extrapolation that is not reported.
#[test]
fn a_sum_of_calls_is_predicted_from_their_curves() {
    let room = Room::new();
    let run =
        ["run", "tcp", "--set", "tcp.n=400", "--passes", "3", "--no-report", "--quiet", "--output", "calls.ndjson"];
    let ran = room.landau(&run);
    assert_eq!(ran.status, Some(0), "{ran:?}");

    let ran = room.landau(&["predict", "calls.ndjson", "--for", "accept+2*read+write+close", "--at", "300", "--json"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let value: Value = serde_json::from_str(&ran.out).unwrap();
    let terms = value["terms"].as_array().unwrap();
    let phases: Vec<&str> = terms.iter().map(|term| term["phase"].as_str().unwrap()).collect();
    assert_eq!(phases, ["accept", "recv", "send", "close"]);
    let sum: f64 = terms.iter().map(|term| term["cost"]["value"].as_f64().unwrap()).sum();
    let cost = &value["cost"];
    assert!((cost["value"].as_f64().unwrap() / sum - 1.0).abs() < 1e-9 && sum > 0.0, "{value}");
    assert!(cost["low"].as_f64() <= cost["value"].as_f64() && cost["value"].as_f64() <= cost["high"].as_f64());
    assert_eq!((&value["extrapolated"], &value["measured_to"]), (&Value::Bool(false), &Value::from(400.0)));
    let read = terms[1]["cost"]["value"].as_f64().unwrap();
    let once = room.landau(&["predict", "calls.ndjson", "--for", "recv", "--at", "300", "--json"]);
    let once: Value = serde_json::from_str(&once.out).unwrap();
    assert!((read / once["cost"]["value"].as_f64().unwrap() - 2.0).abs() < 1e-9);

    let ran = room.landau(&["predict", "calls.ndjson", "--for", "accept+open", "--at", "300"]);
    assert!(ran.status == Some(2) && ran.err.trim_end().ends_with("measure it: landau run open"), "{ran:?}");

    let ran = room.landau(&["predict", "calls.ndjson", "--for", "accept+tcp.send", "--at", "100000"]);
    // On a busy machine a curve may lose points to interference; it is then not extrapolated.
    if ran.status != Some(2) || !ran.err.contains("its curve has too few points to extrapolate") {
        let extrapolated = "Extrapolated: the calls were measured up to 400";
        assert!(ran.status == Some(0) && ran.out.contains(extrapolated), "{ran:?}");
        assert!(ran.out.contains("tcp · accept, extrapolated ("), "{ran:?}");
    }
}

/// Guards against an error that does not say what to write or to measure.
#[test]
fn what_cannot_be_predicted_is_said() {
    let room = Room::new();
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/records/sample.landau.ndjson");
    let fails = |sum: &str, text: &str| {
        let ran = room.landau(&["predict", sample, "--for", sum, "--at", "100"]);
        assert!(ran.status == Some(2) && ran.err.contains(text), "{ran:?}");
    };
    fails("accept+", "`` is not a call: write CALL, BENCHMARK.PHASE or TIMES*CALL");
    fails("0*accept", "`0` is not a factor");
    fails("accept", "`tcp` was not measured; measure it: landau run tcp");
    fails("socket.nothing", "no case of `socket` that was measured has nothing");
    let ran = room.landau(&["predict", sample, "--for", "socket.close", "--at", "0"]);
    assert!(ran.status == Some(2) && ran.err.contains("--at"), "{ran:?}");
}

/// An unprivileged user measures the calls and predicts from them.
#[test]
fn a_user_without_rights_predicts() {
    let room = Room::new();
    room.open(0o777);
    let run = ["run", "tcp", "--set", "tcp.n=400", "--passes", "3", "--no-report", "--quiet", "--output", "r.ndjson"];
    let Some(mut nobody) = room.as_nobody(&run) else { return };
    let ran = Ran::of(nobody.output().unwrap());
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let words = ["predict", "r.ndjson", "--for", "accept+read+write+close", "--at", "300", "--json"];
    let ran = Ran::of(room.as_nobody(&words).unwrap().output().unwrap());
    let value: Value = serde_json::from_str(&ran.out).unwrap();
    assert!(ran.status == Some(0) && value["cost"]["value"].as_f64().is_some_and(|cost| cost > 0.0), "{ran:?}");
}

/// Guards against requiring the name of the only record, and against using a record without reporting its name.
#[test]
fn without_a_name_the_newest_record_of_the_folder_is_used() {
    let room = Room::new();
    let words = ["predict", "--for", "socket.close", "--at", "100"];
    let ran = room.landau(&words);
    assert!(ran.status == Some(2) && ran.err.contains("there is no record (*.landau.ndjson) in the"), "{ran:?}");
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/records/sample.landau.ndjson");
    for (name, age) in [("b.landau.ndjson", 20), ("a.landau.ndjson", 10)] {
        std::fs::copy(sample, room.file(name)).unwrap();
        let written = std::time::SystemTime::now() - std::time::Duration::from_secs(age);
        std::fs::File::options().write(true).open(room.file(name)).unwrap().set_modified(written).unwrap();
    }
    std::fs::write(room.file("landau.html"), "no record").unwrap();
    std::fs::create_dir(room.file("folder.landau.ndjson")).unwrap();
    let ran = room.landau(&words);
    assert!(ran.status == Some(0) && ran.err.contains("record: a.landau.ndjson"), "{ran:?}");
}

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/predict.md");
const RECORD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/records/predict/calls.landau.ndjson.gz");

/// Guards against figures in the document that are not in its record, and against a page that shows a sum without
/// saying that the server used much more.
#[test]
fn the_document_and_the_page_say_where_the_sum_misses() {
    let room = Room::new();
    let words = ["predict", RECORD, "--for", "accept+read+write+close", "--at", "350"];
    let ran = room.landau(&words);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let document = std::fs::read_to_string(DOCUMENT).unwrap();
    assert!(document.contains(&ran.out), "docs/predict.md does not have this output:\n{}", ran.out);
    let value: Value = serde_json::from_str(&room.landau(&[&words[..], &["--json"]].concat()).out).unwrap();
    let servers = value["servers"].as_array().unwrap();
    assert_eq!(servers.len(), 4, "{value}");
    let missed = servers.iter().filter(|one| one["misses"] == true).count();
    assert!(missed > 0, "{value}");
    assert_eq!(room.landau(&["report", RECORD, "-o", "page.html"]).status, Some(0));
    let page = std::fs::read_to_string(room.file("page.html")).unwrap();
    let (_, section) = page.split_once("id=\"servers\"").expect("a section for the servers");
    let section = section.split("</section>").next().unwrap();
    assert_eq!(section.matches("<strong>misses: ").count(), missed, "{section}");
    for server in servers {
        assert!(section.contains(server["case"].as_str().unwrap()), "{section}");
    }
}
