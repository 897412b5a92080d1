//! `landau predict`: sums of calls by the curves of a record that was just made.

use crate::support::Room;
use serde_json::Value;

/// Guards against a sum that is not that of its curves, and against an extrapolation that is not said.
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
    assert!(ran.status == Some(0) && ran.out.contains("An extrapolation: the calls were measured to 400"), "{ran:?}");
    assert!(ran.out.contains("tcp · accept, extrapolated ("), "{ran:?}");
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
