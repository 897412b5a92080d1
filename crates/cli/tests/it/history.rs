//! `landau history` on records: lists, plots, sites, and records that are left out.

use crate::support::{LANDAU, Ran, Room};
use landau_record::schema::{Line, Note};
use landau_record::{Record, Writer, chain};
use serde_json::Value;
use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

fn kept(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/records").join(name)
}

/// Returns a room with a directory `runs` of records of the tree.
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
    // A name that no curve has is more often a typing error than a question.
    for (words, why) in [
        (
            &["--benchmark", "nosuch"][..],
            "--benchmark nosuch: no record has such a curve; the records have bind, socket, spawn",
        ),
        (
            &["--group", "benchmark", "--phase", "nosuch"],
            "--phase nosuch: no record has such a curve; the records have ",
        ),
        (
            &["--benchmark", "bind", "--phase", "reap", "--json"],
            "--phase reap: no record has such a curve; the records have ",
        ),
        (&["nowhere"], "no record matches all filters"),
    ] {
        let ran = room.landau(&[&["history", "runs"], words].concat());
        assert!(ran.status == Some(0) && ran.err.contains(why), "{words:?}: {ran:?}");
    }
    assert_eq!(all.err, "", "{all:?}");
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
    assert!(unknown.status == Some(2) && unknown.err.contains("use cost"), "{unknown:?}");
    let nothing = room.landau(&["history", "runs", "--draw", "cost", "--benchmark", "nothing"]);
    assert!(nothing.status == Some(2) && nothing.err.contains("no curve is selected"), "{nothing:?}");
}

/// Guards against a damaged record that aborts the command, or that is shown as if it were valid.
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

/// Guards against a typing error that replaces unrelated pages or hides the records.
#[test]
fn a_site_does_not_replace_other_pages_or_mark_the_records() {
    let room = runs(&[KERNELS[0]]);
    std::fs::create_dir(room.file("www")).unwrap();
    std::fs::write(room.file("www/index.html"), "<p>mine").unwrap();
    for output in ["www", "runs", ".", "runs/../runs"] {
        let ran = room.landau(&["history", "runs", "--site", output]);
        assert!(ran.status == Some(2) && ran.err.contains("choose another directory"), "{output}: {ran:?}");
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

/// Closes an element or an attribute wherever it is not escaped.
const MARKUP: &str = "</script><script>hit=1</script><img src=hit onerror='hit=1'>\"'&../../../hit";

/// Returns the text of a valid record whose names and host are [`MARKUP`].
fn hostile() -> String {
    let path = kept("schema-3.landau.ndjson");
    let (text, record) = (std::fs::read_to_string(&path).unwrap(), Record::read(&path).unwrap());
    let host = &record.host;
    let words = ["dup", "duplicated descriptors", &host.processor, &host.release, &host.distribution, &host.version];
    let quoted = |word: &str| serde_json::to_string(word).unwrap();
    let mut seal = chain::START.to_owned();
    let mut lines = String::new();
    for line in text.lines() {
        let (body, _) = chain::detach(line).unwrap();
        let body = words.iter().fold(body, |body, word| body.replace(&quoted(word), &quoted(MARKUP)));
        seal = chain::seal(&seal, &body);
        lines.extend([&chain::attach(&body, &seal), "\n"]);
    }
    lines
}

/// Returns every path below a directory, with the contents of regular files only: reading a pipe would block.
fn tree(folder: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut all = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let metadata = path.symlink_metadata().unwrap();
            all.insert(path.clone(), metadata.is_file().then(|| std::fs::read(&path).unwrap()));
            folders.extend(metadata.is_dir().then_some(path));
        }
    }
    all
}

/// Adds hostile records and hostile files to the valid record in `runs`.
fn fill(room: &Room) {
    let file = |name: &str| room.file("runs").join(name);
    std::fs::write(file("hostile.ndjson"), hostile()).unwrap();
    std::fs::write(file("<img src=hit onerror='hit=1'>.ndjson"), hostile().replacen("\"seed\":3", "\"seed\":4", 1))
        .unwrap();
    std::fs::create_dir(file("below")).unwrap();
    std::fs::write(file("below/torn.ndjson"), &hostile()[..4000]).unwrap();
    std::fs::write(file("note.ndjson"), format!("{}\n", MARKUP.repeat(100))).unwrap();
    std::fs::write(file("zeros.ndjson"), [b"{".to_vec(), vec![0; 1 << 20]].concat()).unwrap();
    symlink("/proc/kmsg", file("kmsg.ndjson")).unwrap();
    symlink("/", file("root")).unwrap();
    symlink("nowhere", file("nowhere.ndjson")).unwrap();
    assert!(Command::new("mkfifo").arg(file("pipe.ndjson")).status().unwrap().success());
}

/// Guards against a panic (JSON cannot represent such a name) and against useless advice.
#[test]
fn odd_places_are_answered() {
    use std::os::unix::ffi::OsStringExt;
    let room = runs(&KERNELS[..1]);
    let odd = room.path().join(std::ffi::OsString::from_vec(b"r\xff".to_vec()));
    std::fs::rename(room.file("runs"), &odd).unwrap();
    let ran = Ran::of(room.command(&["history", "--json"]).arg(&odd).output().unwrap());
    assert!(ran.status == Some(0) && ran.out.contains("/r\u{fffd}\","), "{ran:?}");
    let ran = Ran::of(room.command(&["history", "--index", "/nowhere/x"]).arg(&odd).output().unwrap());
    assert!(ran.status == Some(2) && ran.err.contains("/nowhere/x failed; choose another path"), "{ran:?}");
    assert!(!ran.err.contains("--rebuild"), "{ran:?}");
}

/// Asserts that records that are left out are named, that the contents of records appear as text, and that nothing is
/// written outside the site and the index.
fn assert_safe(room: &Room, ran: &Ran, before: &BTreeMap<PathBuf, Option<Vec<u8>>>, unreadable: &[&str]) {
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let site = room.file("site");
    let mut after = tree(room.path());
    after.retain(|path, _| !path.starts_with(&site) && !path.ends_with(".landau-history.sqlite"));
    after.retain(|path, _| !path.starts_with(room.file("cache")));
    assert!(after == *before, "{:?}", after.keys().filter(|path| !before.contains_key(*path)).collect::<Vec<_>>());
    let pages: Vec<(PathBuf, Vec<u8>)> =
        tree(&site).into_iter().filter_map(|(path, text)| Some((path, text?))).collect();
    let texts = pages.iter().map(|(path, text)| (path, String::from_utf8_lossy(text)));
    let texts: Vec<_> = texts.filter(|(path, _)| path.extension().is_some_and(|end| end == "html")).collect();
    assert!(texts.len() >= 5, "{:?}", pages.iter().map(|(path, _)| path).collect::<Vec<_>>());
    for (path, text) in &texts {
        assert!(!text.contains("<img src=hit") && !text.contains("<script>hit"), "{}", path.display());
    }
    assert!(texts.iter().filter(|(_, text)| text.contains("&lt;script&gt;hit=1")).count() >= 3);
    let index = std::fs::read_to_string(site.join("index.html")).unwrap();
    let (_, left_out) = index.split_once("id=\"left-out\"").expect("a list of what is left out");
    let always = ["torn.ndjson", "note.ndjson", "zeros.ndjson", "kmsg.ndjson", "nowhere.ndjson", "pipe.ndjson", "root"];
    // This record is altered: its seed was changed after the checksums were computed.
    for name in always.iter().chain(&["&lt;img src=hit"]).chain(unreadable) {
        assert!(left_out.contains(name), "{name} is not named: {left_out}");
    }
}

/// Guards against an untrusted record or file that runs a script in the reader's browser, writes to other places, or
/// aborts the command.
#[test]
fn a_hostile_folder_becomes_a_harmless_site() {
    let room = runs(&["sample.landau.ndjson"]);
    fill(&room);
    let before = tree(room.path());
    let ran = room.landau(&["history", "runs", "--site", "site"]);
    assert_safe(&room, &ran, &before, &[]);
}

/// The same test as another user, who may neither read all files nor write to the directory.
#[test]
fn a_hostile_folder_is_read_by_another_user() {
    let room = runs(&["sample.landau.ndjson"]);
    let Some(mut nobody) = room.as_nobody(&["history", "runs", "--site", "site"]) else { return };
    fill(&room);
    let mode = |name: &str, mode: u32| {
        std::fs::set_permissions(room.file(name), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    std::fs::write(room.file("runs/secret.ndjson"), hostile()).unwrap();
    std::fs::create_dir(room.file("runs/closed")).unwrap();
    for (name, rights) in [(".", 0o755), ("runs", 0o755), ("runs/secret.ndjson", 0o600), ("runs/closed", 0o700)] {
        mode(name, rights);
    }
    for folder in ["site", "cache"] {
        std::fs::create_dir(room.file(folder)).unwrap();
        mode(folder, 0o777);
    }
    let before = tree(room.path());
    let before: BTreeMap<_, _> =
        before.into_iter().filter(|(path, _)| ![room.file("site"), room.file("cache")].contains(path)).collect();
    let ran = Ran::of(nobody.env("XDG_CACHE_HOME", room.file("cache")).output().unwrap());
    assert!(ran.err.contains("the directory is read-only; the index is"), "{ran:?}");
    assert_safe(&room, &ran, &before, &["secret.ndjson", "closed"]);
}

/// Guards against an untrusted directory with a prepared site, through whose symbolic links files outside would be
/// written.
#[test]
fn a_site_with_links_is_refused() {
    for link in [".landau-site", "record", "benchmark"] {
        let room = runs(&[KERNELS[0]]);
        std::fs::write(room.file("precious"), "mine").unwrap();
        std::fs::create_dir_all(room.file("elsewhere")).unwrap();
        std::fs::create_dir(room.file("runs/site")).unwrap();
        if link == ".landau-site" {
            symlink("../../precious", room.file("runs/site/.landau-site")).unwrap();
        } else {
            std::fs::write(room.file("runs/site/.landau-site"), "").unwrap();
            symlink("../../elsewhere", room.file("runs/site").join(link)).unwrap();
        }
        let ran = room.landau(&["history", "runs", "--site", "runs/site"]);
        assert!(ran.status == Some(2) && ran.err.contains("is a symbolic link"), "{link}: {ran:?}");
        assert_eq!(std::fs::read_to_string(room.file("precious")).unwrap(), "mine");
        assert_eq!(std::fs::read_dir(room.file("elsewhere")).unwrap().count(), 0);
    }
}

/// Guards against a partial record next to its page, which would block the page permanently.
#[test]
fn a_full_disk_is_an_error_and_leaves_no_part_of_a_record_beside_its_page() {
    let room = runs(&[KERNELS[0]]);
    let name = Path::new(KERNELS[0]).file_name().unwrap().to_str().unwrap();
    // Made of incompressible digits, more than fit in a page.
    let small = std::fs::read_to_string(room.file("runs").join(name)).unwrap();
    let mut writer = Writer::create(&room.file("large.ndjson")).unwrap();
    for line in small.lines() {
        let mut value: Value = serde_json::from_str(line).unwrap();
        value.as_object_mut().unwrap().remove("seal");
        let line: Line = serde_json::from_value(value).unwrap();
        if matches!(line, Line::End(_)) {
            let mut state = 1_u64;
            let mut digits = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                format!("{:08x}", state >> 32)
            };
            for _ in 0..100 {
                let text = (0..12_500).map(|_| digits()).collect();
                writer.append(&Line::Note(Note { text })).unwrap();
            }
        } else {
            writer.append(&line).unwrap();
        }
    }
    writer.sync().unwrap();
    std::fs::create_dir(room.file("pages")).unwrap();
    let words = ["report", "large.ndjson", "-o", "pages/page.html"];
    // A limit on the file size acts like a full disk, and needs no root.
    let script = format!("ulimit -f 100; trap '' XFSZ; exec '{LANDAU}' {}", words.join(" "));
    let ran = Ran::of(room.other("sh", &["-c", &script]).output().unwrap());
    assert!(ran.status == Some(2) && ran.err.contains("next to the report"), "{:?} {:.300}", ran.status, ran.err);
    assert_eq!(tree(&room.file("pages")).len(), 0);
    let ran = room.landau(&words);
    assert_eq!(ran.status, Some(0), "{:.300}", ran.err);
    let copy = std::fs::read(room.file("pages/large.ndjson")).unwrap();
    assert!(copy == std::fs::read(room.file("large.ndjson")).unwrap());
    assert_eq!(tree(&room.file("pages")).len(), 2);
}

/// Guards against a large record whose copy next to its page has the name of another record's copy, so that the site
/// cannot be written.
#[test]
fn records_of_one_name_have_copies_of_different_names() {
    let room = runs(&[KERNELS[0]]);
    std::fs::create_dir(room.file("runs/b")).unwrap();
    std::fs::copy(kept(KERNELS[1]), room.file("runs/b/spawn-5.10.landau.ndjson")).unwrap();
    let ran = room.landau(&["history", "runs", "--site", "site"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let pages = tree(&room.file("site/record"));
    let name =
        |text: &str| text.split("data-file-name=\"").nth(1).map(|rest| rest.split('"').next().unwrap().to_owned());
    let texts = pages.values().flatten().map(|text| String::from_utf8_lossy(text).into_owned());
    let names: Vec<String> = texts.filter_map(|text| name(&text)).collect();
    assert!(
        names.len() == 2 && names[0] != names[1] && names.iter().all(|one| one.ends_with(".landau.ndjson")),
        "{names:?}"
    );
}
