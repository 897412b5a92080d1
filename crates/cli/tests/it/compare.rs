//! `landau compare` and `landau check` on records: what they say, as text, JSON and XML, and their exit statuses.

use crate::support::{Ran, Room};
use serde_json::Value;
use std::path::Path;

/// A record of the tree: a complete quick study.
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
}

/// Two kernels in instructions, which differ for certain: the search of bind was changed between them.
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
    let unknown = check("bnid: O(1)");
    assert!(unknown.status == Some(2) && unknown.err.contains("did you mean `bind`?"), "{unknown:?}");
    let base = check("bind: < 1.1x base at 900");
    assert!(base.status == Some(2) && base.err.contains("--base"), "{base:?}");
    // A failure outweighs what is inconclusive.
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

/// Guards against claims of a ratio that are decided by the wrong record.
#[test]
fn a_ratio_is_over_the_base() {
    let room = Room::new();
    let (old, new) = (kernel("5.10.0"), kernel("6.1.0"));
    let value = json(&room.landau(&["check", "--claim", "bind: > 0.001x base at 900", &new, "--base", &old, "--json"]));
    let ratio = value["claims"][0]["value"]["value"].as_f64().unwrap();
    let value = json(&room.landau(&["check", "--claim", "bind: > 0.001x base at 900", &old, "--base", &new, "--json"]));
    let inverse = value["claims"][0]["value"]["value"].as_f64().unwrap();
    assert!((ratio * inverse - 1.0).abs() < 1e-9 && (ratio - 1.0).abs() > 0.02, "{ratio} {inverse}");
    let same = room.landau(&["check", "--claim", "bind: <= 1x base at 900", &new, "--base", &new]);
    assert_eq!(same.status, Some(0), "{same:?}");
}

/// Guards against an error that does not say which line is wrong, and where.
#[test]
fn an_invalid_file_of_claims_is_shown_with_its_lines() {
    let room = Room::new();
    std::fs::write(room.file("claims.txt"), "# growth\nbind: O(1)\nbind O(1)\nbind: O(1) to x\n").unwrap();
    let ran = room.landau(&["check", "claims.txt", &sample()]);
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(ran.err.contains("claims.txt:3: column 6: expected `:` and what is claimed, found `O(1)`"), "{ran:?}");
    assert!(ran.err.contains("  bind: O(1) to x\n                ^"), "{ran:?}");
    let nothing = room.landau(&["check"]);
    assert!(nothing.status == Some(2) && nothing.err.contains("no claims"), "{nothing:?}");
}

/// Without a record the claims are measured.
#[test]
fn claims_are_measured_where_there_is_no_record() {
    let room = Room::new();
    let ran = room.landau(&["check", "--claim", "dup: no limit below 300", "--claim", "dup: < 10s at 200"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.out.contains("no call was refused up to n = 3"), "{ran:?}");
    assert_eq!(room.leftovers(), Vec::<String>::new());
}
