//! Collections on disk: what is indexed, what is left out, and how the index behaves.

use landau_history::{Collection, Error, Filter, Options, Place, Quantity, read, trends};
use landau_record::chain;
use landau_report::history::Over;
use std::path::{Path, PathBuf};

/// The path of a record in the source tree.
fn kept(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/records").join(name)
}

const SMALL: &str = "schema-3.landau.ndjson";

/// The small record with another start time and new checksums.
fn at(started: &str) -> String {
    let text = std::fs::read_to_string(kept(SMALL)).unwrap();
    let mut seal = chain::START.to_owned();
    let mut lines = String::new();
    for line in text.lines() {
        let (mut body, _) = chain::detach(line).unwrap();
        if let Some((head, rest)) = body.split_once("\"started\":\"") {
            body = format!("{head}\"started\":\"{started}\"{}", &rest[rest.find('"').unwrap() + 1..]);
        }
        seal = chain::seal(&seal, &body);
        lines.extend([&chain::attach(&body, &seal), "\n"]);
    }
    lines
}

struct Folder(tempfile::TempDir);

impl Folder {
    /// A directory with one record for each of `count` days.
    fn of_days(count: usize) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        for day in 1..=count {
            folder.write(&format!("{day:02}.ndjson"), at(&format!("2026-11-{day:02}T08:00:00Z")).as_bytes());
        }
        folder
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.path().join(name), bytes).unwrap();
    }

    fn index(&self) -> PathBuf {
        self.path().join(".landau-history.sqlite")
    }

    fn try_read(&self, options: &Options) -> Result<Collection, Error> {
        read(self.path(), &Filter::default(), options)
    }

    fn read(&self) -> Collection {
        self.try_read(&Options { has_curves: true, ..Options::default() }).unwrap()
    }

    fn paths(&self) -> Vec<String> {
        self.read().entries.into_iter().map(|entry| entry.path).collect()
    }
}

#[test]
fn records_that_come_change_and_go_are_followed() {
    let folder = Folder::of_days(3);
    let first = folder.read();
    assert_eq!((first.entries.len(), first.index), (3, Place::Folder(folder.index())));
    assert!(first.curves.iter().all(|curve| !curve.points.is_empty()) && first.curves.len() == 6);
    folder.write("00.ndjson", at("2026-10-01T08:00:00Z").as_bytes());
    folder.write("02.ndjson", at("2026-12-01T08:00:00Z").as_bytes());
    std::fs::remove_file(folder.path().join("03.ndjson")).unwrap();
    assert_eq!(folder.paths(), ["00.ndjson", "01.ndjson", "02.ndjson"]);
    let again = folder.try_read(&Options { is_rebuilt: true, ..Options::default() }).unwrap();
    assert_eq!(again.entries.len(), 3);
}

/// The index must not be stricter than the filter.
#[test]
fn curves_are_asked_for_without_regard_to_case() {
    let folder = Folder::of_days(1);
    let options = Options { has_curves: true, ..Options::default() };
    let found = |benchmark: &str, phase: &str, study: &str| {
        let [benchmark, phase, study] = [benchmark, phase, study].map(|text| Some(text.to_owned()));
        let filter = Filter { benchmark, phase, study, ..Filter::default() };
        let found = read(folder.path(), &filter, &options).unwrap();
        (found.entries.len(), found.curves.iter().map(|curve| curve.points.is_empty()).collect::<Vec<_>>())
    };
    assert_eq!(found("Dup", "DUP", "Quick"), (1, vec![false]));
    assert_eq!(found("dup2", "dup", "quick"), (0, vec![]));
}

/// Guards against reading every record again each time.
#[test]
fn unchanged_records_are_not_read_again() {
    let folder = Folder::of_days(2);
    folder.read();
    let path = folder.path().join("01.ndjson");
    let numbers: Vec<i64> = folder.read().entries.iter().map(|entry| entry.record).collect();
    folder.write("03.ndjson", at("2026-11-03T08:00:00Z").as_bytes());
    let after: Vec<i64> = folder.read().entries.iter().map(|entry| entry.record).collect();
    assert_eq!(after[..2], numbers);
    std::fs::write(&path, std::fs::read(&path).unwrap()).unwrap();
    let rewritten: Vec<i64> = folder.read().entries.iter().map(|entry| entry.record).collect();
    assert_ne!(rewritten[0], numbers[0]);
}

#[test]
fn what_is_no_sound_record_is_named_and_left_out() {
    let folder = Folder::of_days(1);
    let good = std::fs::read(folder.path().join("01.ndjson")).unwrap();
    folder.write("torn.ndjson", &good[..good.len() - 9]);
    let altered =
        String::from_utf8(good.clone()).unwrap().replacen("\"machine\":\"x86_64\"", "\"machine\":\"x86_65\"", 1);
    folder.write("altered.ndjson", altered.as_bytes());
    let newer = String::from_utf8(good.clone()).unwrap().replacen("\"schema\":3", "\"schema\":9", 1);
    folder.write("newer.ndjson", newer.as_bytes());
    folder.write("other.ndjson", b"{\"hello\":1}\n");
    folder.write("empty.ndjson", b"");
    folder.write("binary.ndjson", &[0xff; 3000]);
    folder.write("copy.ndjson", &good);
    let collection = folder.read();
    let reason = |path: &str| {
        let found = collection.left_out.iter().find(|one| one.path == path);
        found.unwrap_or_else(|| panic!("{path} is not in {:?}", collection.left_out)).reason.clone()
    };
    for (path, part) in [
        ("torn.ndjson", "is torn"),
        ("altered.ndjson", "line 2 was altered"),
        ("newer.ndjson", "its schema is 9"),
        ("other.ndjson", "not a Landau record"),
        ("empty.ndjson", "it is empty"),
        ("binary.ndjson", "first line is torn"),
        ("copy.ndjson", "a copy of 01.ndjson"),
    ] {
        assert!(reason(path).contains(part), "{path}: {}", reason(path));
    }
    assert_eq!((collection.entries.len(), collection.left_out.len()), (1, 7));
}

#[test]
fn every_record_of_the_tree_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { index: Some(folder.path().join("index")), has_curves: true, ..Options::default() };
    let collection = read(&kept(""), &Filter::default(), &options).unwrap();
    assert_eq!(collection.left_out, []);
    assert!(collection.entries.len() >= 18, "{}", collection.entries.len());
    let index = Some(folder.path().join("kernels"));
    let kernels = read(&kept("linux-kernels"), &Filter::default(), &Options { index, ..options }).unwrap();
    let bind = trends(&kernels, &[Quantity::Cost { n: None }], Over::Kernels);
    let bind = bind.iter().find(|one| one.case == "bind" && one.phase == "bind").unwrap();
    assert!(bind.lines[0].points.len() >= 4, "{bind:?}");
}

/// Guards against a damaged index that hides records or crashes the program.
#[test]
fn a_damaged_index_is_recognised_and_can_be_rebuilt() {
    let folder = Folder::of_days(2);
    folder.read();
    let whole = std::fs::read(folder.index()).unwrap();
    let middle: Vec<u8> = whole.iter().enumerate().map(|(i, byte)| if i >= 4096 { 0x5a } else { *byte }).collect();
    let cut = whole[..whole.len() / 3].to_vec();
    for damaged in [middle, cut] {
        folder.write(".landau-history.sqlite", &damaged);
        let options = Options { has_curves: true, ..Options::default() };
        match folder.try_read(&options) {
            Ok(found) => assert_eq!(found.entries.len(), 2),
            Err(error) => assert!(error.is_damage(), "{error:?}"),
        }
        let rebuilt = folder.try_read(&Options { is_rebuilt: true, ..options }).unwrap();
        assert_eq!((rebuilt.entries.len(), rebuilt.curves.len()), (2, 4));
        assert_eq!(folder.read().entries.len(), 2);
    }
}

/// Guards against a typing error that destroys another file.
#[test]
fn a_file_that_is_no_index_is_not_overwritten() {
    let folder = Folder::of_days(1);
    let before = std::fs::read(folder.path().join("01.ndjson")).unwrap();
    for is_rebuilt in [false, true] {
        let index = Some(folder.path().join("01.ndjson"));
        let error = folder.try_read(&Options { index, is_rebuilt, ..Options::default() }).unwrap_err();
        assert!(matches!(error, Error::NotAnIndex { .. }), "{error:?}");
    }
    assert_eq!(std::fs::read(folder.path().join("01.ndjson")).unwrap(), before);
}

/// Creates a database of another program with this version.
fn database(path: &Path, version: i64) {
    let db = rusqlite::Connection::open(path).unwrap();
    db.execute_batch("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)").unwrap();
    db.pragma_update(None, "user_version", version).unwrap();
}

/// Reads the directory, which must refuse its index by name.
fn refuses(folder: &Folder, is_rebuilt: bool) {
    let error = folder.try_read(&Options { is_rebuilt, ..Options::default() }).unwrap_err();
    assert!(matches!(error, Error::NotAnIndex { .. }), "{error:?}");
    assert!(error.to_string().contains(".landau-history.sqlite"), "{error}");
}

/// Guards against a directory from elsewhere whose index is a symbolic link to a file of the user.
#[test]
fn an_index_that_is_a_link_is_refused_and_what_it_links_to_is_kept() {
    let folder = Folder::of_days(1);
    let elsewhere = tempfile::tempdir().unwrap();
    let (text, none) = (elsewhere.path().join("text"), elsewhere.path().join("none"));
    std::fs::write(&text, "precious ".repeat(99)).unwrap();
    let databases = [0, 1, 7].map(|version| elsewhere.path().join(format!("{version}.sqlite")));
    databases.iter().zip([0, 1, 7]).for_each(|(path, version)| database(path, version));
    for target in databases.iter().chain([&text]) {
        let before = std::fs::read(target).unwrap();
        std::os::unix::fs::symlink(target, folder.index()).unwrap();
        for is_rebuilt in [false, true] {
            refuses(&folder, is_rebuilt);
            assert!(std::fs::read(target).unwrap() == before, "{target:?}");
        }
        std::fs::remove_file(folder.index()).unwrap();
    }
    std::os::unix::fs::symlink(&none, folder.index()).unwrap();
    refuses(&folder, false);
    assert!(!none.exists());
}

/// Guards against emptying a text file of that name as a damaged index.
#[test]
fn a_text_with_the_name_of_the_index_is_kept() {
    let folder = Folder::of_days(1);
    for text in ["short".to_owned(), "not a database, but long enough to be taken for one ".repeat(40)] {
        for is_rebuilt in [false, true] {
            folder.write(".landau-history.sqlite", text.as_bytes());
            refuses(&folder, is_rebuilt);
            assert_eq!(std::fs::read_to_string(folder.index()).unwrap(), text);
        }
    }
}

#[test]
fn a_database_of_another_program_with_the_name_of_the_index_is_kept() {
    for version in [0, 1, 7] {
        let folder = Folder::of_days(1);
        database(&folder.index(), version);
        let before = std::fs::read(folder.index()).unwrap();
        for is_rebuilt in [false, true] {
            refuses(&folder, is_rebuilt);
            assert!(std::fs::read(folder.index()).unwrap() == before, "version {version}");
        }
    }
}

/// Guards against mistaking a symbolic link in the path of the directory for a link at the index.
#[test]
fn a_folder_behind_a_link_has_its_index_and_can_be_rebuilt() {
    let folder = Folder::of_days(1);
    let elsewhere = tempfile::tempdir().unwrap();
    let link = elsewhere.path().join("link");
    std::os::unix::fs::symlink(folder.path(), &link).unwrap();
    for is_rebuilt in [false, true] {
        let found = read(&link, &Filter::default(), &Options { is_rebuilt, ..Options::default() }).unwrap();
        assert_eq!((found.entries.len(), found.index), (1, Place::Folder(link.join(".landau-history.sqlite"))));
    }
    assert!(folder.index().is_file());
}

/// Guards against races between two programs that index at once: each must see every record, rebuilding or not.
#[test]
fn programs_that_index_at_once_all_see_every_record() {
    let folder = Folder::of_days(9);
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..6)
            .map(|number| {
                let folder = &folder;
                scope.spawn(move || {
                    let options = Options { has_curves: true, is_rebuilt: number % 3 == 2, ..Options::default() };
                    folder.try_read(&options).map(|found| (found.entries.len(), found.curves.len()))
                })
            })
            .collect();
        for handle in handles {
            assert_eq!(handle.join().unwrap().unwrap(), (9, 18));
        }
    });
}
