//! Tests of the queue over files.

mod attempts;
mod control;
mod disk;

use super::disk::faults;
use super::feed::LOADED_BYTES;
use super::loaded::read;
use super::record::{About, Meta};
use super::recover::{Found, Left};
use super::segments::MOST_OPEN;
use super::{Commit, Feed, Handling, Notice, Patience, SEGMENT_BYTES, Shared, Writer, open, parse};
use crate::envelope::{Envelope, Mode, Request};
use crate::input::{Input, Next, Offer};
use crate::ledger::{Host, Report, State, Sync};
use crate::list::Record;
use crate::schedule::Backoff;
use landau_wire::smtp::data::Transfer;
use landau_wire::smtp::parameter::Notify;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

const SECOND: u64 = 1_000_000_000;

/// A message that a start has found.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) id: u64,
    pub(crate) segment: u32,
    /// The indices of the remaining recipients.
    pub(crate) left: Vec<u32>,
    /// The message and the recipients that it reports.
    pub(crate) about: Option<(u64, Vec<u32>)>,
    pub(crate) is_held: bool,
    /// Its first recipient.
    pub(crate) to: String,
    pub(crate) at_ms: u64,
}

/// Returns the messages that a start has found.
pub(crate) fn seen(found: &Found) -> Vec<Seen> {
    let mut bytes = Vec::new();
    let mut seen = |left: &Left| {
        read(&found.shared, &left.entry, &mut bytes).unwrap();
        let meta = parse(&bytes).unwrap().meta;
        Seen {
            id: left.entry.id,
            segment: left.entry.segment,
            left: left.recipients.clone(),
            about: meta.about.map(|about| (about.id, about.recipients)),
            is_held: found.held.contains(&left.entry.id),
            to: meta.to[0].to_string(),
            at_ms: left.entry.at_ms,
        }
    };
    found.left.iter().map(&mut seen).collect()
}

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
        Self::limited(directory, 1 << 30)
    }

    fn limited(directory: &Path, limit: u64) -> Self {
        Self::synced(directory, limit, Sync::Never)
    }

    fn synced(directory: &Path, limit: u64, sync: Sync) -> Self {
        let found = open(directory, limit, sync).unwrap();
        let shared = Arc::clone(&found.shared);
        let (sender, receiver) = channel();
        let writer = Writer::new(Arc::clone(&shared), sync);
        let backoff = Backoff { first: Duration::from_secs(100), longest: Duration::from_secs(100) };
        let patience = Patience { backoff, lifetime: Duration::from_secs(1000) };
        let envelope = Envelope { helo: "relay.test".to_owned(), ..Envelope::new("", Mode::Data) };
        let handling = Handling { sync, envelope, signer: None, postmaster: None, patience };
        let feed = Feed::new(found, receiver, handling, None, 0);
        Self { shared, writer, sender, feed, now_ns: 0 }
    }

    /// Accepts a message for `recipients` recipients: `r0@d`, `r1@d` and so on.
    fn accept(&mut self, recipients: u32, content: &str) -> u64 {
        self.accept_with(recipients, content, |_| {})
    }

    /// Accepts a message whose envelope `change` modifies.
    fn accept_with(&mut self, recipients: u32, content: &str, change: impl FnOnce(&mut Meta<'_>)) -> u64 {
        let id = self.shared.next_id();
        let to = (0..recipients).map(|number| format!("r{number}@d").into()).collect();
        let mut meta = Meta::new(id, super::disk::unix_ms(), "s@x", to);
        change(&mut meta);
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
        match self.feed.next(&mut record, self.now_ns, &|_| false).unwrap() {
            Next::Recipient(offer) => Some((offer, record.address().to_owned())),
            Next::Later(_) => None,
            Next::End => panic!("a queue has no end"),
        }
    }

    /// Takes everything that is due. Returns the recipients with their addresses.
    fn take_all(&mut self) -> Vec<(Offer, String)> {
        std::iter::from_fn(|| self.next()).collect()
    }

    fn settle(&mut self, one: &(Offer, String), state: State) {
        self.answer(one, state, false);
    }

    /// Settles recipients as done, and commits.
    fn settle_all<'a>(&mut self, all: impl IntoIterator<Item = &'a (Offer, String)>, now_ns: u64) {
        for one in all {
            self.settle(one, State::Done);
        }
        self.feed.commit(now_ns).unwrap();
    }

    /// Settles a recipient after the answer of a server.
    fn answer(&mut self, (offer, address): &(Offer, String), state: State, has_dsn: bool) {
        let host = Some(Host { name: "mx.d", has_dsn });
        let (code, text) = match state {
            State::Done => (250, &b"2.0.0 Ok"[..]),
            State::Deferred => (450, &b"4.2.0 later"[..]),
            State::Failed => (550, &b"5.1.1 no such user"[..]),
        };
        let report = Report { number: offer.number, address, state, code: Some(code), text, host };
        self.feed.record(&report, || 0);
        self.feed.release(offer.number, self.now_ns);
    }

    /// Returns the content of a message.
    fn content(offer: &Offer) -> String {
        String::from_utf8(offer.letter.message.content().into_owned()).unwrap()
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
    assert!(
        open(folder.path(), 1 << 30, Sync::Never)
            .unwrap_err()
            .to_string()
            .contains("another relay is using this queue")
    );
    // The states of a batch that was not committed are lost.
    queue.settle(&all[3], State::Done);
    drop((queue.writer, queue.feed));
    let mut queue = Queue::open(folder.path());
    let all = queue.take_all();
    assert_eq!(addresses(&all), ["r0@d", "r2@d", "r0@d"]);
    queue.settle_all(&all, 0);
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
    queue.settle_all(&all[..3], 0);
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
}

/// The device may damage any byte: only the message whose record contains the byte is lost.
#[test]
fn a_damaged_record_loses_no_other_message() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(folder.path());
    let mut ends = vec![0];
    for number in 0..4 {
        queue.accept(1, &format!("\r\n{number}\r\n"));
        ends.push(queue.shared.bytes() as usize);
    }
    drop((queue.writer, queue.feed));
    let whole = std::fs::read(folder.path().join("00000001.mail")).unwrap();
    for at in 0..whole.len() {
        let copy = tempfile::tempdir().unwrap();
        let mut damaged = whole.clone();
        damaged[at] ^= 0x55;
        std::fs::write(copy.path().join("00000001.mail"), &damaged).unwrap();
        let found = open(copy.path(), 1 << 30, Sync::Never).unwrap();
        let lost = ends.iter().filter(|&&end| end <= at).count() - 1;
        let left: Vec<usize> = found.left.iter().map(|one| one.entry.offset as usize).collect();
        let expected: Vec<usize> = (0..4).filter(|&number| number != lost).map(|number| ends[number]).collect();
        assert_eq!((left, found.notes.len()), (expected, 1), "{at}: {:?}", found.notes);
        drop(found);
        let mut queue = Queue::open(copy.path());
        assert_eq!(queue.take_all().len(), 3, "{at}");
        // The undelivered bytes are kept, in only one copy however often the queue is opened.
        let kept = std::fs::read(copy.path().join("00000001.cut")).unwrap();
        assert!(kept == damaged[ends[lost]..ends[lost + 1]] && !queue.files().contains("00000001.cut1"), "{at}");
    }
    // Two consecutive damaged records, and noise at the end.
    let mut damaged = whole.clone();
    damaged[ends[1] + 20] ^= 1;
    damaged[ends[2]..ends[2] + 16].fill(0xff);
    damaged.extend_from_slice(b"LQM\x01LQM\x01");
    std::fs::write(folder.path().join("00000001.mail"), &damaged).unwrap();
    std::fs::write(folder.path().join("00000001.cut"), "an earlier one").unwrap();
    let mut queue = Queue::open(folder.path());
    assert_eq!(queue.take_all().iter().map(|(offer, _)| Queue::content(offer)).collect::<Vec<_>>().len(), 2);
    let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    assert_eq!([read("00000001.cut"), read("00000001.cut2")], [b"an earlier one".to_vec(), b"LQM\x01LQM\x01".to_vec()]);
    assert_eq!(read("00000001.cut1"), damaged[ends[1]..ends[3]]);
    // The data set aside counts as part of the queue.
    let files = queue.files().iter().map(|name| read(name).len() as u64).sum::<u64>();
    assert_eq!(queue.shared.bytes(), files);
}

/// The data set aside may take an eighth of the queue's limit. Beyond that, a torn end stays in its segment.
#[test]
fn what_is_set_aside_has_a_limit() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(folder.path());
    queue.accept(1, "\r\na\r\n");
    drop((queue.writer, queue.feed));
    let mail = folder.path().join("00000001.mail");
    let whole = std::fs::read(&mail).unwrap();
    let torn = [&whole[..], &[b'x'; 200]].concat();
    std::fs::write(&mail, &torn).unwrap();
    for _ in 0..2 {
        let found = open(folder.path(), 8 * 199, Sync::Never).unwrap();
        assert!(found.notes.len() == 1 && found.notes[0].contains("--queue-limit"), "{:?}", found.notes);
        assert_eq!((found.left.len(), found.damaged_bytes, std::fs::read(&mail).unwrap()), (1, 200, torn.clone()));
    }
    let found = open(folder.path(), 8 * 200, Sync::Never).unwrap();
    assert_eq!((found.left.len(), std::fs::read(&mail).unwrap()), (1, whole));
    drop(found);
    // The existing file is at the limit.
    std::fs::write(&mail, [&torn[..], b"y"].concat()).unwrap();
    assert!(open(folder.path(), 8 * 200, Sync::Never).unwrap().notes[0].contains("--queue-limit"));
}

#[test]
fn a_damaged_state_sends_to_its_recipient_again_and_to_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(folder.path());
    queue.accept(4, "\r\na\r\n");
    let all = queue.take_all();
    queue.settle_all(&all[..3], 0);
    drop((queue.writer, queue.feed));
    let (mail, states) = (folder.path().join("00000001.mail"), folder.path().join("00000001.states"));
    let whole = std::fs::read(&states).unwrap();
    assert_eq!(whole.len(), 48);
    for at in 0..whole.len() {
        let copy = tempfile::tempdir().unwrap();
        let mut damaged = whole.clone();
        damaged[at] ^= 0x55;
        std::fs::copy(&mail, copy.path().join("00000001.mail")).unwrap();
        std::fs::write(copy.path().join("00000001.states"), &damaged).unwrap();
        let again = format!("r{}@d", at / 16);
        assert_eq!(addresses(&Queue::open(copy.path()).take_all()), [again.as_str(), "r3@d"], "{at}");
    }
}

#[test]
fn deferred_messages_come_back_and_old_ones_are_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(folder.path());
    queue.accept(2, "\r\na\r\n");
    let all = queue.take_all();
    queue.settle(&all[0], State::Done);
    // The engine may return a recipient without an attempt.
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
    // The report to the sender is left.
    assert_eq!((tally.done, tally.failed, tally.deferred, tally.left), (1, 1, 0, 1));
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
    // One recipient of the first message is left, and none of the other messages in its segment.
    let last = all[all.len() - 1].0.number >> 32;
    for one in all.iter().filter(|one| one.0.number >> 32 != last) {
        let is_kept = one.0.number == 1;
        queue.settle(one, if is_kept { State::Deferred } else { State::Done });
    }
    let before = queue.shared.bytes();
    queue.feed.commit(5 * SECOND).unwrap();
    assert!(queue.shared.bytes() < before - SEGMENT_BYTES / 2, "{before} {}", queue.shared.bytes());
    assert!(!queue.files().contains("00000001.mail"), "{:?}", queue.files());
    queue.settle_all(all.iter().filter(|one| one.0.number >> 32 == last), 6 * SECOND);
    drop((queue.writer, queue.feed));
    let mut queue = Queue::open(folder.path());
    assert_eq!(addresses(&queue.take_all()), ["r1@d"]);
}

/// Accepts one message, settles it with `settle`, and returns how many messages reappear after a system crash.
fn left_after_a_crash(seed: u64, settle: impl FnOnce(&mut Queue)) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let (directory, lost) = (folder.path().join("queue"), folder.path().join("lost"));
    std::fs::create_dir(&lost).unwrap();
    let _disk = faults::begin(seed, &lost);
    let mut queue = Queue::synced(&directory, 64 << 10, Sync::Interval(Duration::from_secs(1)));
    queue.accept(1, &"x".repeat(8 << 10));
    settle(&mut queue);
    assert!(queue.files().is_empty(), "{:?}", queue.files());
    drop(queue);
    faults::crash(&directory);
    seen(&open(&directory, 64 << 10, Sync::Interval(Duration::from_secs(1))).unwrap()).len()
}

/// The states of a segment were once never synced if it was deleted before the sync was due, and a system crash could
/// undo the deletion.
#[test]
fn a_segment_that_was_deleted_does_not_come_back_without_its_states() {
    for seed in 0..50 {
        let left = left_after_a_crash(seed, |queue| {
            let all = queue.take_all();
            queue.settle_all(&all, 0);
            assert!(queue.files().is_empty(), "{:?}", queue.files());
            queue.feed.commit(2 * SECOND).unwrap();
        });
        assert_eq!(left, 0, "seed {seed}");
    }
}

/// The directory was once not synced after the first attempt failed on a full disk. The fourth call syncs it.
#[test]
fn a_deletion_is_synced_after_an_attempt_that_failed() {
    for (failing, seed) in (0..4).flat_map(|failing| (0..20).map(move |seed| (failing, seed))) {
        let left = left_after_a_crash(seed, |queue| {
            let all = queue.take_all();
            faults::fill_after(failing);
            queue.settle_all(&all, 0);
            queue.feed.commit(2 * SECOND).unwrap();
        });
        assert_eq!(left, 0, "call {failing}, seed {seed}");
    }
}

#[test]
fn a_message_in_two_segments_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(folder.path());
    queue.accept(2, "\r\na\r\n");
    drop((queue.writer, queue.feed));
    // A crash during a move, between the copy and the deletion.
    std::fs::copy(folder.path().join("00000001.mail"), folder.path().join("00000002.mail")).unwrap();
    let mut queue = Queue::open(folder.path());
    let all = queue.take_all();
    assert_eq!(addresses(&all), ["r0@d", "r1@d"]);
    queue.settle_all(&all, 2 * SECOND);
    assert_eq!(queue.files(), BTreeSet::new());
}

#[test]
fn a_directory_that_cannot_be_written_loses_no_message() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(folder.path());
    queue.accept(1, "\r\na\r\n");
    queue.writer.close();
    // A file with the name of the next segment exists, so the segment cannot be created.
    std::fs::write(folder.path().join("00000002.mail"), "").unwrap();
    let id = queue.shared.next_id();
    let meta = Meta::new(id, 1, "", vec!["lost@d".into()]);
    queue.writer.add(&meta, &[b"\r\n"]).unwrap();
    assert!(queue.writer.commit(0).is_err());
    queue.accept(1, "\r\nb\r\n");
    let all = queue.take_all();
    assert_eq!(all.len(), 2);
}

/// Returns the time at which the feed must be asked again.
fn later(queue: &mut Queue) -> u64 {
    match queue.feed.next(&mut Record::default(), queue.now_ns, &|_| false).unwrap() {
        Next::Later(at_ns) => at_ns,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_message_that_is_due_and_does_not_fit_in_memory_keeps_no_processor_busy() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(folder.path());
    queue.accept(1, "\r\na\r\n");
    let one = queue.take_all();
    queue.settle(&one[0], State::Deferred);
    queue.now_ns = 200 * SECOND;
    queue.feed.shares.set_all(LOADED_BYTES);
    assert!(later(&mut queue) > queue.now_ns + SECOND);
    queue.feed.shares.set_all(0);
    assert_eq!(queue.take_all().len(), 1);
}

#[test]
fn a_message_that_cannot_be_read_is_tried_again_and_the_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(folder.path());
    queue.accept(1, "\r\na\r\n");
    queue.writer.close();
    queue.accept(1, "\r\nb\r\n");
    let (mail, aside) = (folder.path().join("00000001.mail"), folder.path().join("aside"));
    std::fs::rename(&mail, &aside).unwrap();
    let all = queue.take_all();
    assert_eq!(all.iter().map(|(offer, _)| Queue::content(offer)).collect::<Vec<_>>(), ["Received: a\r\n\r\nb\r\n"]);
    assert!(later(&mut queue) > queue.now_ns);
    queue.feed.commit(0).unwrap();
    assert_eq!(queue.feed.published().lock().unwrap().unreadable, 1);
    std::fs::rename(&aside, &mail).unwrap();
    queue.now_ns = 200 * SECOND;
    let again = queue.take_all();
    assert!(again.len() == 1 && !again[0].0.is_again, "the engine has not had it");
}

#[test]
fn a_queue_of_many_segments_needs_few_descriptors() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::limited(folder.path(), 80_000);
    let content = format!("\r\n{}\r\n", "x".repeat(10_000));
    let count = 3 * MOST_OPEN;
    for _ in 0..count {
        queue.accept(2, &content);
    }
    let all = queue.take_all();
    for round in 0..2 {
        for one in all.iter().filter(|one| one.1 == format!("r{round}@d")) {
            // The last recipient of each message remains.
            queue.settle(one, if round == 0 { State::Done } else { State::Deferred });
        }
        queue.feed.commit(0).unwrap();
    }
    let names = std::fs::read_dir("/proc/self/fd").unwrap();
    let open = names.filter_map(|name| std::fs::read_link(name.ok()?.path()).ok());
    let open =
        open.filter(|path| path.starts_with(folder.path()) && path.extension().is_some_and(|end| end == "states"));
    assert!(open.count() <= MOST_OPEN);
    drop((queue.writer, queue.feed));
    assert_eq!(addresses(&Queue::open(folder.path()).take_all()), vec!["r1@d"; count]);
}

/// The relay once ended in this case, and later sent again the mail that it had not recorded.
#[test]
fn a_lack_of_descriptors_ends_no_relay_and_loses_no_state() {
    let (folder, lost) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let _disk = faults::begin(1, lost.path());
    let mut queue = Queue::limited(folder.path(), 80_000);
    // One segment of five messages, and the beginning of another one.
    let content = format!("\r\n{}\r\n", "x".repeat(2_000));
    for _ in 0..6 {
        queue.accept(1, &content);
    }
    let all = queue.take_all();
    for (number, one) in all.iter().enumerate() {
        queue.settle(one, if number == 0 { State::Deferred } else { State::Done });
    }
    // The states cannot be written, and the remaining messages of the first segment cannot be moved.
    faults::run_short(u32::MAX);
    for second in 1..5 {
        queue.feed.commit(second * SECOND).unwrap();
        assert!(matches!(queue.feed.next(&mut Record::default(), second * SECOND, &|_| false), Ok(Next::Later(_))));
    }
    assert!(!queue.shared.has_room(1), "nothing is accepted");
    faults::run_short(0);
    queue.feed.commit(5 * SECOND).unwrap();
    assert!(queue.shared.has_room(1));
    // The messages cannot be moved now either, but the states are still written.
    faults::run_short(u32::MAX);
    for second in 6..9 {
        queue.feed.commit(second * SECOND).unwrap();
    }
    drop((queue.writer, queue.feed));
    faults::run_short(0);
    let mut queue = Queue::open(folder.path());
    assert_eq!(addresses(&queue.take_all()), ["r0@d"]);
}

/// Returns the reports among messages.
fn reports(all: &[(Offer, String)]) -> Vec<String> {
    all.iter().filter(|one| one.0.letter.envelope.from.is_empty()).map(|one| Queue::content(&one.0)).collect()
}

#[test]
fn the_sender_is_told_of_failures_once_whatever_is_lost_in_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(folder.path());
    queue.accept_with(3, "Subject: a\r\n\r\nbody\r\n", |meta| {
        (meta.ret, meta.envid) = (Some("FULL".into()), Some("id+2B1".into()));
        let orcpt = Some("rfc822;O+2B0@d".into());
        meta.requests = vec![Request { notify: None, orcpt }, Request::default(), Request::default()];
    });
    let all = queue.take_all();
    queue.settle(&all[0], State::Failed);
    queue.settle(&all[1], State::Done);
    queue.settle(&all[2], State::Failed);
    // A crash before the commit: nothing is recorded, and everything is tried again.
    drop((queue.writer, queue.feed));
    let mut queue = Queue::open(folder.path());
    let all = queue.take_all();
    assert_eq!(addresses(&all), ["r0@d", "r1@d", "r2@d"]);
    for (one, state) in all.iter().zip([State::Failed, State::Deferred, State::Failed]) {
        queue.settle(one, state);
    }
    queue.feed.commit(0).unwrap();
    drop((queue.writer, queue.feed));
    // A crash between the report and the states.
    std::fs::remove_file(folder.path().join("00000001.states")).unwrap();
    let mut queue = Queue::open(folder.path());
    let all = queue.take_all();
    assert_eq!(addresses(&all), ["r1@d", "s@x"]);
    let report = &reports(&all)[0];
    for text in [
        "Original-Envelope-Id: id+1\r\n",
        "Original-Recipient: rfc822; O+0@d\r\nFinal-Recipient: rfc822; r0@d\r\nAction: failed\r\nStatus: 5.1.1\r\n",
        "Final-Recipient: rfc822; r2@d\r\n",
        "Diagnostic-Code: smtp; 550 5.1.1 no such user\r\n",
        "\r\nbody\r\n",
    ] {
        assert!(report.contains(text), "{text} in {report}");
    }
    // The report is delivered, and its segment deleted: its information is recorded elsewhere.
    queue.settle(&all[1], State::Done);
    queue.feed.commit(0).unwrap();
    queue.feed.commit(0).unwrap();
    drop((queue.writer, queue.feed));
    assert!(!folder.path().join("00000002.mail").exists());
    let mut queue = Queue::open(folder.path());
    let all = queue.take_all();
    assert_eq!(addresses(&all), ["r1@d"]);
    queue.settle(&all[0], State::Done);
    queue.feed.commit(0).unwrap();
    queue.feed.commit(0).unwrap();
    assert_eq!(queue.files(), BTreeSet::new());
}

/// The message that a report is about may be deleted. If another message reused its identifier, it would count as
/// reported.
#[test]
fn no_message_gets_the_identifier_of_one_that_a_report_is_about() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(folder.path());
    let gone = u64::MAX / 2;
    queue.accept_with(1, "\r\na\r\n", |meta| meta.about = Some(About { id: gone, recipients: vec![0] }));
    drop((queue.writer, queue.feed));
    let mut queue = Queue::open(folder.path());
    assert_eq!(queue.accept(1, "\r\nb\r\n"), gone + 1);
}

#[test]
fn notifications_are_those_that_the_sender_asked_for() {
    let failure = Notify { failure: true, ..Notify::NEVER };
    let success = Notify { success: true, ..Notify::NEVER };
    for (from, notify, state, has_dsn, action) in [
        ("s@x", None, State::Failed, false, Some("failed")),
        ("s@x", Some(failure), State::Failed, true, Some("failed")),
        ("s@x", Some(success), State::Failed, false, None),
        ("s@x", Some(Notify::NEVER), State::Failed, false, None),
        ("", None, State::Failed, false, None),
        ("", Some(failure), State::Failed, false, None),
        ("s@x", None, State::Done, false, None),
        ("s@x", Some(success), State::Done, false, Some("relayed")),
        ("s@x", Some(success), State::Done, true, None),
        ("s@x", Some(failure), State::Done, false, None),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut queue = Queue::open(folder.path());
        queue.accept_with(1, "Subject: a\r\n\r\nb\r\n", |meta| {
            meta.from = from.into();
            meta.requests = vec![Request { notify, orcpt: None }];
        });
        let all = queue.take_all();
        queue.answer(&all[0], state, has_dsn);
        queue.feed.commit(0).unwrap();
        let reports: Vec<String> = queue.take_all().iter().map(|(offer, _)| Queue::content(offer)).collect();
        let found = reports.first().and_then(|text| text.split_once("Action: ")?.1.split_once("\r\n")).map(|two| two.0);
        assert_eq!((found, reports.len()), (action, usize::from(action.is_some())), "{from:?} {notify:?} {state:?}");
    }
}

/// A report, or other mail from the null sender, cannot be returned.
#[test]
fn only_the_postmaster_is_told_of_mail_without_a_sender_that_fails() {
    for postmaster in [None, Some("p@x")] {
        let folder = tempfile::tempdir().unwrap();
        let mut queue = Queue::open(folder.path());
        queue.feed.handling.postmaster = postmaster.map(Into::into);
        queue.accept(1, "Subject: a\r\n\r\nbody\r\n");
        queue.accept_with(2, "Subject: b\r\n\r\nb\r\n", |meta| meta.from = "".into());
        // The sender of this message wants no reports.
        queue.accept_with(1, "Subject: c\r\n\r\nc\r\n", |meta| {
            meta.from = "".into();
            meta.requests = vec![Request { notify: Some(Notify::NEVER), orcpt: None }];
        });
        let mut told = Vec::new();
        // The report to s@x fails, too, as do those to the postmaster.
        for _ in 0..4 {
            let all = queue.take_all();
            told.extend(all.iter().map(|(offer, address)| (address.clone(), Queue::content(offer))));
            for one in &all {
                queue.settle(one, State::Failed);
            }
            queue.feed.commit(0).unwrap();
        }
        let to: Vec<&str> = told.iter().map(|(address, _)| address.as_str()).collect();
        let published = *queue.feed.published().lock().unwrap();
        if postmaster.is_none() {
            assert_eq!((&to[..], published.double_bounces), (&["r0@d", "r0@d", "r1@d", "r0@d", "s@x"][..], 3));
        } else {
            assert_eq!((&to[4..], published.double_bounces), (&["s@x", "p@x", "p@x"][..], 2));
            let (others, own) = (&told[5].1, &told[6].1);
            assert!(others.contains("rfc822; r0@d\r\n") && others.contains("rfc822; r1@d\r\n"), "{others}");
            for text in ["To: <p@x>\r\n", "rfc822; s@x\r\n", "message/rfc822\r\n", "To: <s@x>\r\n", "r0@d\r\n"] {
                assert!(own.contains(text), "{text} in {own}");
            }
        }
        drop((queue.writer, queue.feed));
        assert_eq!(Queue::open(folder.path()).take_all().len(), 0, "it is recorded");
    }
}

#[test]
fn a_message_that_is_given_up_is_returned_with_the_last_reason() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(folder.path());
    queue.accept(1, "Subject: a\r\n\r\nb\r\n");
    let all = queue.take_all();
    queue.now_ns = 1001 * SECOND;
    queue.settle(&all[0], State::Deferred);
    queue.feed.commit(queue.now_ns).unwrap();
    let report = &reports(&queue.take_all())[0];
    assert!(
        report.contains("Status: 5.4.7\r\n") && report.contains("the last attempt: 450 4.2.0 later\r\n"),
        "{report}"
    );
}

/// A crash occurs after a move has copied messages and before it has written their states. The first start uses the
/// copies and deletes the originals, but must keep their states.
#[test]
fn a_move_that_a_crash_cut_off_sends_nothing_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(folder.path());
    queue.accept(3, "\r\na\r\n");
    let all = queue.take_all();
    queue.settle(&all[0], State::Done);
    queue.settle(&all[1], State::Done);
    queue.feed.commit(0).unwrap();
    drop((queue.writer, queue.feed));
    std::fs::copy(folder.path().join("00000001.mail"), folder.path().join("00000002.mail")).unwrap();
    for _ in 0..2 {
        let mut queue = Queue::open(folder.path());
        assert_eq!(addresses(&queue.take_all()), ["r2@d"]);
        queue.feed.commit(0).unwrap();
        queue.feed.commit(SECOND).unwrap();
        assert!(!queue.files().contains("00000001.mail"), "{:?}", queue.files());
    }
}
