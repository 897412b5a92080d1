//! Tests of the queue over files.

use super::record::Meta;
use super::{Commit, Feed, Notice, Patience, SEGMENT_BYTES, Shared, Writer, open};
use crate::envelope::{Envelope, Mode};
use crate::input::{Input, Next, Offer};
use crate::ledger::{Report, State, Sync};
use crate::list::Record;
use crate::schedule::Backoff;
use landau_wire::smtp::data::Transfer;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

const SECOND: u64 = 1_000_000_000;

/// Both sides of a queue.
struct Queue {
    shared: Arc<Shared>,
    writer: Writer,
    sender: Sender<Notice>,
    feed: Feed,
    now_ns: u64,
}

impl Queue {
    fn open(directory: &Path) -> Self {
        let found = open(directory, 1 << 30).unwrap();
        let shared = Arc::clone(&found.shared);
        let (sender, receiver) = channel();
        let writer = Writer::new(Arc::clone(&shared), Sync::Never);
        let backoff = Backoff { first: Duration::from_secs(100), longest: Duration::from_secs(100) };
        let patience = Patience { backoff, lifetime: Duration::from_secs(1000) };
        let feed = Feed::new(found, receiver, Sync::Never, Envelope::new("", Mode::Data), patience, None, 0);
        Self { shared, writer, sender, feed, now_ns: 0 }
    }

    /// Accepts a message for so many recipients `r0@d`, `r1@d` and so on.
    fn accept(&mut self, recipients: u32, content: &str) -> u64 {
        let id = self.shared.next_id();
        let to = (0..recipients).map(|number| format!("r{number}@d").into()).collect();
        let meta = Meta { id, at_ms: super::feed::unix_ms(), from: "s@x".into(), to };
        self.writer.add(&meta, &[b"Received: a\r\n", content.as_bytes()]).unwrap();
        self.commit();
        id
    }

    fn commit(&mut self) {
        let Commit { entries, closed } = self.writer.commit(0).unwrap();
        for entry in entries {
            self.sender.send(Notice::Accepted(entry)).unwrap();
        }
        for segment in closed {
            self.sender.send(Notice::Closed(segment)).unwrap();
        }
    }

    fn next(&mut self) -> Option<(Offer, String)> {
        let mut record = Record::default();
        match self.feed.next(&mut record, self.now_ns).unwrap() {
            Next::Recipient(offer) => Some((offer, record.address().to_owned())),
            Next::Later(_) => None,
            Next::End => panic!("a queue has no end"),
        }
    }

    /// Hands out everything that is due. Returns the addresses.
    fn take_all(&mut self) -> Vec<(Offer, String)> {
        std::iter::from_fn(|| self.next()).collect()
    }

    fn settle(&mut self, (offer, address): &(Offer, String), state: State) {
        let report = Report { number: offer.number, address, state, code: Some(250), text: b"text" };
        self.feed.record(&report, || 0);
        self.feed.release(offer.number, self.now_ns);
    }

    fn files(&self) -> BTreeSet<String> {
        let names = std::fs::read_dir(&self.shared.directory).unwrap();
        names.map(|name| name.unwrap().file_name().into_string().unwrap()).filter(|name| name != "lock").collect()
    }
}

fn addresses(all: &[(Offer, String)]) -> Vec<&str> {
    all.iter().map(|(_, address)| address.as_str()).collect()
}

#[test]
fn what_is_left_is_handed_out_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(folder.path());
    queue.accept(3, "\r\n.first\r\n");
    queue.accept(1, "\r\nsecond\r\n");
    let all = queue.take_all();
    assert_eq!(addresses(&all), ["r0@d", "r1@d", "r2@d", "r0@d"]);
    assert_eq!(all[0].0.letter.message.encoded(Transfer::Data), b"Received: a\r\n\r\n..first\r\n.\r\n");
    assert_eq!(all[0].0.letter.envelope.from, "s@x");
    queue.settle(&all[1], State::Done);
    queue.settle(&all[2], State::Deferred);
    queue.feed.commit(0).unwrap();
    assert!(open(folder.path(), 1 << 30).unwrap_err().to_string().contains("another relay uses this queue"));
    // The states of a batch that was not committed are lost.
    queue.settle(&all[3], State::Done);
    drop((queue.writer, queue.feed));
    let mut queue = Queue::open(folder.path());
    let all = queue.take_all();
    assert_eq!(addresses(&all), ["r0@d", "r2@d", "r0@d"]);
    for one in &all {
        queue.settle(one, State::Done);
    }
    queue.feed.commit(0).unwrap();
    assert_eq!(queue.files(), BTreeSet::new());
    assert_eq!(queue.shared.bytes(), 0);
}

#[test]
fn a_queue_cut_at_any_byte_has_every_message_before_the_cut() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(folder.path());
    let mut ends = vec![0];
    for number in 0..3 {
        queue.accept(2, &format!("\r\n{number}\r\n"));
        ends.push(queue.shared.bytes());
    }
    let all = queue.take_all();
    for one in &all[..3] {
        queue.settle(one, State::Done);
    }
    queue.feed.commit(0).unwrap();
    drop((queue.writer, queue.feed));
    let (mail, states) = (folder.path().join("00000001.mail"), folder.path().join("00000001.states"));
    let (whole, whole_states) = (std::fs::read(&mail).unwrap(), std::fs::read(&states).unwrap());
    for cut in 0..=whole.len() {
        let copy = tempfile::tempdir().unwrap();
        std::fs::write(copy.path().join("00000001.mail"), &whole[..cut]).unwrap();
        let mut queue = Queue::open(copy.path());
        let count = ends.iter().filter(|&&end| end > 0 && end <= cut as u64).count();
        assert_eq!(queue.take_all().len(), 2 * count, "{cut}");
        let is_clean = ends.contains(&(cut as u64));
        assert_eq!(queue.files().contains("00000001.cut"), !is_clean, "{cut}");
    }
    for cut in 0..=whole_states.len() {
        let copy = tempfile::tempdir().unwrap();
        std::fs::write(copy.path().join("00000001.mail"), &whole).unwrap();
        std::fs::write(copy.path().join("00000001.states"), &whole_states[..cut]).unwrap();
        assert_eq!(Queue::open(copy.path()).take_all().len(), 6 - cut / 16, "{cut}");
    }
    let mut damaged = whole.clone();
    damaged[20] ^= 1;
    std::fs::write(&mail, &damaged).unwrap();
    let found = open(folder.path(), 1 << 30).unwrap();
    assert!(found.left.is_empty() && found.notes[0].contains("are not a whole message"), "{:?}", found.notes);
}

#[test]
fn deferred_messages_come_back_and_old_ones_are_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(folder.path());
    queue.accept(2, "\r\na\r\n");
    let all = queue.take_all();
    queue.settle(&all[0], State::Done);
    // The engine may give a recipient back without an attempt.
    queue.feed.release(all[1].0.number, 0);
    for round in 1..=20 {
        assert!(queue.next().is_none(), "{round}");
        queue.now_ns += 100 * SECOND;
        let again = queue.take_all();
        assert_eq!(addresses(&again), ["r1@d"], "{round}");
        assert!(again[0].0.is_again);
        queue.settle(&again[0], State::Deferred);
        if queue.now_ns >= 1000 * SECOND {
            break;
        }
    }
    assert_eq!(queue.now_ns, 1000 * SECOND);
    queue.feed.commit(queue.now_ns).unwrap();
    let tally = queue.feed.published().lock().unwrap().tally;
    assert_eq!((tally.done, tally.failed, tally.deferred, tally.left), (1, 1, 0, 0));
}

#[test]
fn a_mostly_empty_segment_is_moved_and_its_states_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(folder.path());
    let large = format!("\r\n{}\r\n", "x".repeat(900)).repeat(1100);
    while queue.files().len() < 2 {
        queue.accept(3, &large);
    }
    let all = queue.take_all();
    // Of the first message one recipient is left, of the others of its segment none.
    let last = all[all.len() - 1].0.number >> 32;
    for one in all.iter().filter(|one| one.0.number >> 32 != last) {
        let is_kept = one.0.number == 1;
        queue.settle(one, if is_kept { State::Deferred } else { State::Done });
    }
    let before = queue.shared.bytes();
    queue.feed.commit(5 * SECOND).unwrap();
    assert!(queue.shared.bytes() < before - SEGMENT_BYTES / 2, "{before} {}", queue.shared.bytes());
    assert!(!queue.files().contains("00000001.mail"), "{:?}", queue.files());
    for one in all.iter().filter(|one| one.0.number >> 32 == last) {
        queue.settle(one, State::Done);
    }
    queue.feed.commit(6 * SECOND).unwrap();
    drop((queue.writer, queue.feed));
    let mut queue = Queue::open(folder.path());
    assert_eq!(addresses(&queue.take_all()), ["r1@d"]);
}

#[test]
fn a_message_in_two_segments_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(folder.path());
    queue.accept(2, "\r\na\r\n");
    drop((queue.writer, queue.feed));
    // A crash after the copy and before the deletion of a move.
    std::fs::copy(folder.path().join("00000001.mail"), folder.path().join("00000002.mail")).unwrap();
    let mut queue = Queue::open(folder.path());
    let all = queue.take_all();
    assert_eq!(addresses(&all), ["r0@d", "r1@d"]);
    for one in &all {
        queue.settle(one, State::Done);
    }
    queue.feed.commit(2 * SECOND).unwrap();
    assert_eq!(queue.files(), BTreeSet::new());
}

#[test]
fn a_directory_that_cannot_be_written_loses_no_message() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(folder.path());
    queue.accept(1, "\r\na\r\n");
    queue.writer.close();
    // The name of the next segment is taken, so it cannot be begun.
    std::fs::write(folder.path().join("00000002.mail"), "").unwrap();
    let id = queue.shared.next_id();
    let meta = Meta { id, at_ms: 1, from: "".into(), to: vec!["lost@d".into()] };
    queue.writer.add(&meta, &[b"\r\n"]).unwrap();
    assert!(queue.writer.commit(0).is_err());
    queue.accept(1, "\r\nb\r\n");
    let all = queue.take_all();
    assert_eq!(all.len(), 2);
}
