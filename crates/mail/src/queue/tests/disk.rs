//! Tests on a full disk, in a mount namespace.

use super::{Queue, SECOND, addresses, reports};
use crate::input::{Input, Next};
use crate::ledger::State;
use crate::ledger::Sync;
use crate::list::Record;
use crate::queue::record::Meta;
use crate::queue::{is_full, open};
use std::path::Path;

/// The directory of the queue in a test that another test starts in a mount namespace.
const SMALL_DISK: &str = "LANDAU_SMALL_DISK";

/// Runs a test on a disk of 8 MiB.
fn run_on_a_small_disk(test: &str) {
    if landau_sys::process::effective_user() != 0 {
        eprintln!("skipped: a disk of its own needs root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=8m none \"$1\" && exec \"$2\" --exact \"$3\" --ignored";
    let mut command = std::process::Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(folder.path()).arg(std::env::current_exe().unwrap());
    command.arg(format!("queue::tests::disk::{test}"));
    let ran = command.env(SMALL_DISK, folder.path()).output().unwrap();
    let text = String::from_utf8_lossy(&ran.stdout);
    if String::from_utf8_lossy(&ran.stderr).contains("unshare failed") {
        eprintln!("skipped: this system permits no mount namespace");
        return;
    }
    assert!(ran.status.success() && text.contains("1 passed"), "{text}{}", String::from_utf8_lossy(&ran.stderr));
}

/// Fills the rest of the disk. Returns the file.
fn fill(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("filler");
    let mut file = std::fs::File::create(&path).unwrap();
    for size in [1 << 16, 1 << 12, 1] {
        while std::io::Write::write_all(&mut file, &vec![0; size]).is_ok() {}
    }
    path
}

#[test]
fn a_full_disk_loses_nothing_and_ends_no_relay() {
    run_on_a_small_disk("on_a_small_disk");
}

#[test]
fn a_move_that_a_full_disk_cut_off_sends_nothing_again() {
    run_on_a_small_disk("move_on_a_small_disk");
}

#[test]
fn a_relay_starts_on_a_full_disk() {
    run_on_a_small_disk("start_on_a_small_disk");
}

#[test]
#[ignore = "a_full_disk_loses_nothing_and_ends_no_relay starts it on a disk of its own"]
fn on_a_small_disk() {
    let disk = std::path::PathBuf::from(std::env::var_os(SMALL_DISK).unwrap());
    let folder = disk.join("queue");
    let mut queue = Queue::limited(&folder, 8 << 20);
    let content = format!("Subject: a\r\n\r\n{}", format!("{}\r\n", "x".repeat(98)).repeat(1000));
    // Five segments of eleven messages: the last one is open.
    for _ in 0..50 {
        queue.accept(1, &content);
    }
    let filler = fill(&disk);
    let id = queue.shared.next_id();
    let meta = Meta::new(id, 1, "", vec!["lost@d".into()]);
    queue.writer.add(&meta, &[content.as_bytes()]).unwrap();
    assert!(is_full(&queue.writer.commit(0).unwrap_err()));
    let all = queue.take_all();
    assert_eq!(all.len(), 50);
    // In each segment one message remains; the first of the others fails, which must be reported.
    for (number, one) in all.iter().enumerate() {
        let state = match number {
            1 => State::Failed,
            _ if number % 11 == 0 => State::Deferred,
            _ => State::Done,
        };
        queue.settle(one, state);
    }
    let files = queue.files();
    for second in 1..20 {
        // Neither states nor the report can be written, and nothing is moved.
        queue.feed.commit(second * SECOND).unwrap();
        assert!(matches!(queue.feed.next(&mut Record::default(), second * SECOND, &|_| false), Ok(Next::Later(_))));
    }
    assert!(!queue.shared.has_room(1), "nothing is accepted");
    let new: Vec<String> = queue.files().difference(&files).cloned().collect();
    assert!(new.iter().all(|name| name.ends_with(".states")) && new.len() <= 1, "{new:?}");
    std::fs::remove_file(&filler).unwrap();
    let before = queue.shared.bytes();
    // There is space for the states, then little again: the remaining messages cannot be moved, and stay in use.
    queue.feed.commit(20 * SECOND).unwrap();
    assert!(queue.shared.has_room(1));
    let filler = fill(&disk);
    for second in 21..40 {
        queue.feed.commit(second * SECOND).unwrap();
    }
    std::fs::remove_file(&filler).unwrap();
    for second in 40..60 {
        queue.feed.commit(second * SECOND).unwrap();
    }
    assert!(queue.shared.bytes() < before / 4, "{} of {before}", queue.shared.bytes());
    drop((queue.writer, queue.feed));
    let mut queue = Queue::open(&folder);
    let all = queue.take_all();
    let (reports, left) = (reports(&all).len(), all.iter().filter(|one| one.1 == "r0@d").count());
    assert_eq!((reports, left, all.len()), (1, 5, 6));
}

#[test]
#[ignore = "a_move_that_a_full_disk_cut_off_sends_nothing_again starts it on a disk of its own"]
fn move_on_a_small_disk() {
    let disk = std::path::PathBuf::from(std::env::var_os(SMALL_DISK).unwrap());
    let folder = disk.join("queue");
    let mut queue = Queue::limited(&folder, 8 << 20);
    let content = format!("Subject: a\r\n\r\n{}", format!("{}\r\n", "x".repeat(98)).repeat(1000));
    // One segment of eleven messages, and the beginning of another one.
    for _ in 0..12 {
        queue.accept(2, &content);
    }
    let all = queue.take_all();
    for (number, one) in all.iter().enumerate() {
        // One recipient of the first message is left, and both of the last one.
        queue.settle(one, if [1, 22, 23].contains(&number) { State::Deferred } else { State::Done });
    }
    queue.feed.compact_ns = u64::MAX;
    queue.feed.commit(SECOND).unwrap();
    let filler = fill(&disk);
    // There is space for the copy of one message, but not for its states.
    let file = std::fs::OpenOptions::new().write(true).open(&filler).unwrap();
    file.set_len(file.metadata().unwrap().len() - (25 << 12)).unwrap();
    drop(file);
    queue.feed.compact_ns = 0;
    for second in 2..6 {
        queue.feed.commit(second * SECOND).unwrap();
    }
    let copies = |queue: &Queue| queue.files().contains("00000003.mail");
    assert!(copies(&queue) && queue.files().contains("00000001.mail"), "{:?}", queue.files());
    assert!(!queue.shared.has_room(1), "the states of the copy are not written");
    // The relay is killed, and the disk is full at its next start, too.
    drop((queue.writer, queue.feed));
    fill(&disk);
    let mut queue = Queue::open(&folder);
    for second in 2..6 {
        queue.feed.commit(second * SECOND).unwrap();
    }
    drop((queue.writer, queue.feed));
    std::fs::remove_file(&filler).unwrap();
    for round in 0..3 {
        let mut queue = Queue::open(&folder);
        queue.now_ns = 1000 * SECOND;
        let all = queue.take_all();
        assert_eq!(addresses(&all), if round == 2 { vec!["r0@d", "r1@d"] } else { vec!["r1@d", "r0@d", "r1@d"] });
        if round == 1 {
            // Delivered from its place, regardless of other copies.
            queue.settle(&all[0], State::Done);
        }
        for second in 1000..1003 {
            queue.feed.commit(second * SECOND).unwrap();
        }
        assert!(!queue.files().contains("00000001.mail"), "{round}: {:?}", queue.files());
    }
}

#[test]
#[ignore = "a_relay_starts_on_a_full_disk starts it on a disk of its own"]
fn start_on_a_small_disk() {
    let disk = std::path::PathBuf::from(std::env::var_os(SMALL_DISK).unwrap());
    let folder = disk.join("queue");
    let mut queue = Queue::open(&folder);
    queue.accept(1, "\r\na\r\n");
    drop((queue.writer, queue.feed));
    let mail = folder.join("00000001.mail");
    let torn = [std::fs::read(&mail).unwrap(), b"cut off by a crash".to_vec()].concat();
    std::fs::write(&mail, &torn).unwrap();
    let filler = fill(&disk);
    let found = open(&folder, 1 << 30, Sync::Never).unwrap();
    assert!(found.notes.len() == 1 && found.notes[0].contains("could not be copied"), "{:?}", found.notes);
    drop(found);
    let mut queue = Queue::open(&folder);
    let all = queue.take_all();
    assert_eq!((addresses(&all), std::fs::read(&mail).unwrap() == torn), (vec!["r0@d"], true));
    assert_eq!(queue.files().len(), 1, "{:?}", queue.files());
    drop((queue.writer, queue.feed));
    std::fs::remove_file(filler).unwrap();
    let mut queue = Queue::open(&folder);
    let all = queue.take_all();
    assert_eq!(std::fs::read(folder.join("00000001.cut")).unwrap(), b"cut off by a crash");
    queue.settle_all(&all, 0);
    assert!(!mail.exists());
}
