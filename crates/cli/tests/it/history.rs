//! `landau history` on records: lists, drawings, sites, and what is left out.

use crate::support::{Ran, Room};
use serde_json::Value;
use std::path::{Path, PathBuf};

fn kept(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/records").join(name)
}

/// A room with a folder `runs` of records of the tree.
fn runs(names: &[&str]) -> Room {
    let room = Room::new();
    std::fs::create_dir(room.file("runs")).unwrap();
    for name in names {
        let to = room.file("runs").join(Path::new(name).file_name().unwrap());
        std::fs::copy(kept(name), to).unwrap();
    }
    room
}

const KERNELS: [&str; 4] = [
    "linux-kernels/spawn-5.10.landau.ndjson",
    "linux-kernels/spawn-6.1.landau.ndjson",
    "linux-kernels/spawn-6.12.landau.ndjson",
    "linux-kernels/spawn-7.2.landau.ndjson",
];

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

#[test]
fn records_are_listed_searched_and_counted() {
    let room = runs(&[KERNELS[0], KERNELS[1], "sample.landau.ndjson"]);
    let all = room.landau(&["history", "runs"]);
    assert!(
        all.status == Some(0) && all.out.starts_with("3 records\n") && all.out.contains("sample.landau.ndjson"),
        "{all:?}"
    );
    let some = room.landau(&["history", "runs", "--benchmark", "socket", "--json"]);
    let value = json(&some);
    assert!(value["records"].as_array().unwrap().len() == 1 && value["records"][0]["seal"] == "f7be3afc", "{value}");
    let none = room.landau(&["history", "runs", "nowhere"]);
    assert!(none.out.starts_with("0 of 3 records"), "{none:?}");
    let groups = room.landau(&["history", "runs", "--group", "benchmark", "--json"]);
    let names: Vec<String> =
        json(&groups)["groups"].as_array().unwrap().iter().map(|one| one["name"].to_string()).collect();
    assert_eq!(names, ["\"bind\"", "\"socket\"", "\"spawn\""]);
    let wrong = room.landau(&["history", "runs", "--since", "yesterday"]);
    assert!(wrong.status == Some(2) && wrong.err.contains("2026-11-23"), "{wrong:?}");
}

#[test]
fn a_quantity_is_drawn_over_kernels_and_counts_are_not_compared_with_times() {
    let room = runs(&[KERNELS[0], KERNELS[1], KERNELS[2], KERNELS[3], "sample.landau.ndjson"]);
    let value = json(&room.landau(&["history", "runs", "--draw", "cost", "--over", "kernels", "--json"]));
    let spawn = value["trends"].as_array().unwrap().iter().find(|one| one["benchmark"] == "spawn").unwrap();
    let kernels: Vec<&str> =
        spawn["lines"][0]["points"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(kernels.len(), 4, "{spawn}");
    assert!(kernels[0].starts_with("Linux 5.10") && kernels[2].starts_with("Linux 6.12"), "{kernels:?}");
    let text = room.landau(&["history", "runs", "--draw", "cost", "--benchmark", "socket", "--phase", "socket"]);
    assert!(text.out.contains("cost at n = ") && text.out.contains('●'), "{text:?}");
    let unknown = room.landau(&["history", "runs", "--draw", "speed"]);
    assert!(unknown.status == Some(2) && unknown.err.contains("choose cost"), "{unknown:?}");
    let nothing = room.landau(&["history", "runs", "--draw", "cost", "--benchmark", "nothing"]);
    assert!(nothing.status == Some(2) && nothing.err.contains("no curve is selected"), "{nothing:?}");
}

/// Guards against a record from elsewhere that ends the command, or that is drawn as if it were sound.
#[test]
fn broken_records_are_named_and_the_others_are_shown() {
    let room = runs(&["sample.landau.ndjson"]);
    let sample = std::fs::read(kept("sample.landau.ndjson")).unwrap();
    std::fs::write(room.file("runs/torn.ndjson"), &sample[..sample.len() / 2]).unwrap();
    std::fs::write(room.file("runs/esc\u{1b}[31m.ndjson"), "x").unwrap();
    let ran = room.landau(&["history", "runs"]);
    assert!(ran.status == Some(0) && ran.out.starts_with("1 record, 2 left out"), "{ran:?}");
    assert!(ran.out.contains("torn.ndjson: line") && !ran.out.contains('\u{1b}'), "{ran:?}");
}

#[test]
fn a_damaged_index_is_made_again_with_a_message() {
    let room = runs(&["sample.landau.ndjson"]);
    room.landau(&["history", "runs"]);
    let index = room.file("runs/.landau-history.sqlite");
    let whole = std::fs::read(&index).unwrap();
    let damaged: Vec<u8> = whole.iter().enumerate().map(|(i, byte)| if i < 4096 { *byte } else { 0x5a }).collect();
    std::fs::write(&index, damaged).unwrap();
    let ran = room.landau(&["history", "runs"]);
    assert!(ran.status == Some(0) && ran.out.starts_with("1 record\n") && ran.err.contains("damaged"), "{ran:?}");
    let again = room.landau(&["history", "runs"]);
    assert!(again.out.starts_with("1 record\n") && again.err.is_empty(), "{again:?}");
}

/// Guards against a typing error that replaces the pages of something else, or that hides the records.
#[test]
fn a_site_does_not_replace_other_pages_or_mark_the_records() {
    let room = runs(&[KERNELS[0]]);
    std::fs::create_dir(room.file("www")).unwrap();
    std::fs::write(room.file("www/index.html"), "<p>mine").unwrap();
    for output in ["www", "runs", ".", "runs/../runs"] {
        let ran = room.landau(&["history", "runs", "--site", output]);
        assert!(ran.status == Some(2) && ran.err.contains("choose another folder"), "{output}: {ran:?}");
    }
    assert_eq!(std::fs::read_to_string(room.file("www/index.html")).unwrap(), "<p>mine");
    assert!(!room.file("www/.landau-site").exists() && !room.file("runs/.landau-site").exists());
}

#[test]
fn a_site_has_a_page_for_each_benchmark_and_record_and_is_no_part_of_the_collection() {
    let room = runs(&[KERNELS[0], KERNELS[1]]);
    let ran = room.landau(&["history", "runs", "--site", "runs/site"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let index = std::fs::read_to_string(room.file("runs/site/index.html")).unwrap();
    let links: Vec<&str> = index.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let is_page = |link: &&&str| std::path::Path::new(link).extension().is_some_and(|extension| extension == "html");
    let pages: Vec<&&str> = links.iter().filter(is_page).collect();
    assert!(
        pages.iter().any(|page| page.starts_with("record/")) && pages.contains(&&"benchmark/spawn.html"),
        "{links:?}"
    );
    assert!(pages.iter().all(|page| room.file("runs/site").join(page).is_file()), "{pages:?}");
    let again = room.landau(&["history", "runs", "--site", "runs/site"]);
    assert!(again.status == Some(0) && !again.err.contains("page 1 of"), "its pages are kept: {again:?}");
    assert!(room.landau(&["history", "runs"]).out.starts_with("2 records\n"));
}
