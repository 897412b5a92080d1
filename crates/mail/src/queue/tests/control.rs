//! Tests of user requests to a queue.

use super::{Queue, SECOND, addresses};
use crate::input::{Input, Offer};
use crate::ledger::State;
use crate::queue::control::{Action, Answer, Condition, Item, Request};
use crate::queue::{Notice, exposure};
use std::collections::{BTreeSet, HashSet};

/// Returns the number of changed messages.
fn found(queue: &mut Queue, action: Action, ids: &[u64]) -> u64 {
    both(queue, action, ids).1
}

/// Returns the numbers of messages found and changed.
fn both(queue: &mut Queue, action: Action, ids: &[u64]) -> (u64, u64) {
    match queue.feed.control(&Request::new(action, ids.iter().copied().collect()), queue.now_ns) {
        Answer::Done { found, changed } => (found, changed),
        other => panic!("{other:?}"),
    }
}

fn list(queue: &mut Queue) -> Vec<Item> {
    match queue.feed.control(&Request::new(Action::List, HashSet::new()), queue.now_ns) {
        Answer::Items { items, is_last: true, .. } => items,
        other => panic!("{other:?}"),
    }
}

/// Holds a new message with `recipients` recipients while the engine has the first of them. Returns the message and
/// that recipient.
fn held_while_sent(queue: &mut Queue, recipients: u32) -> (u64, (Offer, String)) {
    let id = queue.accept(recipients, "Subject: a\r\n\r\na\r\n");
    let first = queue.next().unwrap();
    assert_eq!(found(queue, Action::Hold, &[id]), 1);
    (id, first)
}

fn conditions(queue: &mut Queue) -> Vec<(u64, Condition, usize)> {
    list(queue).iter().map(|item| (item.entry.id, item.condition, item.left.len())).collect()
}

#[test]
fn the_list_has_every_message_and_what_it_waits_for() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(folder.path());
    let ids = [1, 2, 3].map(|recipients| queue.accept(recipients, "\r\na\r\n"));
    let all = queue.take_all();
    queue.settle(&all[0], State::Deferred);
    queue.settle(&all[1], State::Done);
    let last = queue.accept(1, "\r\nb\r\n");
    queue.feed.commit(0).unwrap();
    let expected = [
        (ids[0], Condition::Deferred, 1),
        (ids[1], Condition::Active, 1),
        (ids[2], Condition::Active, 3),
        (last, Condition::New, 1),
    ];
    assert_eq!(conditions(&mut queue), expected);
    let items = list(&mut queue);
    assert_eq!(items[0].reason.as_deref(), Some("450 4.2.0 later"));
    assert!(items[0].due_in_ms.is_some_and(|ms| (50_000..=100_000).contains(&ms)) && items[1].due_in_ms.is_none());
}

/// The engine does nothing else while it builds a page.
#[test]
fn a_long_list_comes_in_pages() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(folder.path());
    let ids: Vec<u64> = (0..7).map(|_| queue.accept(1, "\r\na\r\n")).collect();
    let all = queue.take_all();
    queue.settle(&all[4], State::Deferred);
    queue.feed.page = 3;
    let (mut request, mut listed, mut pages) = (Request::new(Action::List, HashSet::new()), Vec::new(), 0);
    loop {
        let Answer::Items { items, up_to, known, is_last } = queue.feed.control(&request, 0) else { panic!() };
        pages += 1;
        listed.extend(items.iter().map(|item| item.entry.id));
        if is_last {
            break;
        }
        assert_eq!(items.len(), 3);
        (request.after, request.known) = (up_to, known);
    }
    assert_eq!((listed, pages), (ids.clone(), 3));
    request = Request::new(Action::List, ids[2..5].iter().copied().collect());
    assert!(matches!(queue.feed.control(&request, 0), Answer::Items { items, is_last: true, .. } if items.len() == 3));
}

/// Between two pages, messages change: they are parked, tried, or leave the queue. New ones arrive.
#[test]
fn a_list_has_what_moved_meanwhile_and_not_what_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(folder.path());
    queue.feed.page = 1;
    let mut ids: Vec<u64> = (0..30).map(|_| queue.accept(1, "\r\na\r\n")).collect();
    queue.feed.commit(0).unwrap();
    let (mut request, mut listed) = (Request::new(Action::List, HashSet::new()), Vec::new());
    loop {
        let Answer::Items { items, up_to, known, is_last } = queue.feed.control(&request, 0) else { panic!() };
        listed.extend(items.iter().map(|item| (item.entry.id, item.condition)));
        if is_last {
            break;
        }
        if request.after == 0 {
            let all: Vec<_> = (0..12).map(|_| queue.next().unwrap()).collect();
            queue.settle_all(&all[..8], 0);
            queue.settle(&all[8], State::Deferred);
            ids.push(queue.accept(1, "\r\nb\r\n"));
            assert!(queue.next().is_some(), "the engine knows of it");
        }
        (request.after, request.known) = (up_to, known);
    }
    let expected = ids.iter().enumerate().filter(|(at, _)| *at == 0 || *at >= 8).map(|(at, &id)| {
        let condition = match at {
            8 => Condition::Deferred,
            9..=12 => Condition::Active,
            _ => Condition::New,
        };
        (id, condition)
    });
    assert_eq!(listed, expected.collect::<Vec<_>>());
}

#[test]
fn held_messages_wait_until_they_are_released_whatever_happens() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(folder.path());
    let ids = [1, 1, 1].map(|recipients| queue.accept(recipients, "\r\na\r\n"));
    let first = queue.next().unwrap();
    // A message that is being sent is held when it is returned; an untried one, at once.
    assert_eq!(found(&mut queue, Action::Hold, &[ids[0], ids[1], 99]), 2);
    queue.settle(&first, State::Deferred);
    assert_eq!(queue.take_all().len(), 1);
    queue.now_ns = 500 * SECOND;
    assert_eq!(found(&mut queue, Action::Flush, &[]), 0);
    assert_eq!(queue.take_all().len(), 0);
    let held = [(ids[0], Condition::Held, 1), (ids[1], Condition::Held, 1)];
    assert_eq!(conditions(&mut queue)[..2], held);
    drop((queue.writer, queue.feed));
    let mut queue = Queue::open(folder.path());
    assert_eq!(queue.take_all().len(), 1);
    assert_eq!(conditions(&mut queue)[..2], held);
    assert_eq!(found(&mut queue, Action::Release, &[ids[1]]), 1);
    assert_eq!(addresses(&queue.take_all()), ["r0@d"]);
    drop((queue.writer, queue.feed));
    let mut queue = Queue::open(folder.path());
    assert_eq!(conditions(&mut queue)[0], held[0]);
    assert_eq!(found(&mut queue, Action::Release, &[]), 1);
    assert_eq!(queue.take_all().len(), 3);
}

#[test]
fn a_deleted_message_is_gone_and_its_sender_not_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(folder.path());
    let ids = [3, 1, 1].map(|recipients| queue.accept(recipients, "\r\na\r\n"));
    // The engine has the first recipient and then none. The deletion must not wait for more.
    let first = queue.next().unwrap();
    queue.settle(&first, State::Deferred);
    assert_eq!(found(&mut queue, Action::Delete, &[ids[0], ids[2]]), 2);
    let all = queue.take_all();
    assert_eq!(addresses(&all), ["r0@d"]);
    queue.feed.commit(0).unwrap();
    let published = *queue.feed.published().lock().unwrap();
    let tally = published.tally;
    assert_eq!((published.deleted, tally.failed, tally.left, tally.deferred), (4, 0, 1, 0));
    assert_eq!(found(&mut queue, Action::Delete, &[ids[1]]), 1);
    // This message is being sent: the engine continues with its recipients.
    assert_eq!(conditions(&mut queue), [(ids[1], Condition::Active, 1)]);
    queue.settle(&all[0], State::Deferred);
    queue.feed.commit(0).unwrap();
    assert_eq!((list(&mut queue).len(), queue.feed.reports), (0, 0));
    drop((queue.writer, queue.feed));
    let mut queue = Queue::open(folder.path());
    queue.feed.commit(0).unwrap();
    assert_eq!((queue.take_all().len(), queue.files()), (0, BTreeSet::new()));
}

#[test]
fn flushed_messages_are_due_now() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(folder.path());
    let ids = [1, 1].map(|recipients| queue.accept(recipients, "\r\na\r\n"));
    for one in queue.take_all() {
        queue.settle(&one, State::Deferred);
    }
    assert_eq!(queue.take_all().len(), 0);
    assert_eq!(found(&mut queue, Action::Flush, &[ids[1]]), 1);
    let all = queue.take_all();
    assert_eq!(all.len(), 1);
    queue.settle(&all[0], State::Deferred);
    assert_eq!(found(&mut queue, Action::Flush, &[]), 2);
    assert_eq!(queue.take_all().len(), 2);
}

#[test]
fn what_is_found_need_not_change() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(folder.path());
    let id = queue.accept(1, "\r\na\r\n");
    let one = queue.take_all();
    assert_eq!(both(&mut queue, Action::Flush, &[id]), (1, 0), "it is being sent");
    assert_eq!(both(&mut queue, Action::Hold, &[id]), (1, 1));
    assert_eq!(both(&mut queue, Action::Hold, &[id, id, 7]), (1, 0));
    // The engine delivers to the recipient that it has. Then nothing is held.
    queue.settle(&one[0], State::Done);
    queue.feed.commit(0).unwrap();
    assert_eq!((queue.feed.held.len(), both(&mut queue, Action::Release, &[id])), (0, (0, 0)));
}

#[test]
fn no_further_recipient_of_a_held_message_is_handed_out() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(folder.path());
    let (id, first) = held_while_sent(&mut queue, 3);
    assert_eq!(queue.take_all().len(), 0);
    queue.settle(&first, State::Done);
    queue.now_ns = 500 * SECOND;
    assert_eq!(queue.take_all().len(), 0);
    assert_eq!(conditions(&mut queue), [(id, Condition::Held, 2)]);
    assert_eq!(found(&mut queue, Action::Release, &[id]), 1);
    assert_eq!(addresses(&queue.take_all()), ["r1@d", "r2@d"]);
}

/// Postpones a recipient because its site is crowded, and commits. Returns the number of reports so far.
fn postpone(queue: &mut Queue, one: &(Offer, String)) -> u64 {
    queue.feed.postpone(one.0.number, 7, queue.now_ns);
    queue.feed.commit(queue.now_ns).unwrap();
    queue.feed.reports
}

/// Releases a message, which is tried for 100 s before it is given up, although it is too old.
fn release_and_try(queue: &mut Queue, id: u64) {
    assert_eq!(found(queue, Action::Release, &[id]), 1);
    for (seconds, reports) in [(50, 0), (49, 0), (2, 1)] {
        queue.now_ns += seconds * SECOND;
        let one = queue.next().unwrap();
        assert_eq!((one.1.as_str(), postpone(queue, &one)), ("r0@d", reports));
    }
}

/// A message that was held for longer than its lifetime is tried when it is released, before it is given up.
#[test]
fn the_time_of_a_held_message_does_not_run_out() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(folder.path());
    let (id, first) = held_while_sent(&mut queue, 1);
    queue.now_ns = 1_000_000 * SECOND;
    assert_eq!(postpone(&mut queue, &first), 0);
    assert_eq!(conditions(&mut queue), [(id, Condition::Held, 1)]);
    assert_eq!((queue.take_all().len(), queue.feed.reports), (0, 0));
    release_and_try(&mut queue, id);
}

/// A message that was tried before it was held has the same time.
#[test]
fn a_deferred_message_is_tried_again_when_it_is_released() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(folder.path());
    let (id, first) = held_while_sent(&mut queue, 1);
    queue.settle(&first, State::Deferred);
    queue.now_ns = 1_000_000 * SECOND;
    assert_eq!((queue.take_all().len(), conditions(&mut queue)), (0, vec![(id, Condition::Held, 1)]));
    release_and_try(&mut queue, id);
}

#[test]
fn the_time_of_a_message_that_an_earlier_run_held_does_not_run_out() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(folder.path());
    let id = queue.accept_with(1, "Subject: a\r\n\r\na\r\n", |meta| meta.at_ms = 1);
    queue.feed.commit(0).unwrap();
    assert_eq!(found(&mut queue, Action::Hold, &[id]), 1);
    drop((queue.writer, queue.feed));
    let mut queue = Queue::open(folder.path());
    queue.now_ns = 500 * SECOND;
    assert_eq!((queue.take_all().len(), conditions(&mut queue)), (0, vec![(id, Condition::Held, 1)]));
    release_and_try(&mut queue, id);
}

/// Otherwise each hold would extend the lifetime of a message.
#[test]
fn only_the_release_of_a_message_gives_it_more_time() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(folder.path());
    queue.accept(1, "\r\na\r\n");
    queue.next().unwrap();
    let expires_ns = |queue: &Queue| queue.feed.slots[0].as_ref().unwrap().waiting.untried_expires_ns;
    let before = expires_ns(&queue);
    queue.now_ns = 990 * SECOND;
    found(&mut queue, Action::Hold, &[]);
    assert_eq!(expires_ns(&queue), before);
    found(&mut queue, Action::Release, &[]);
    assert_eq!(expires_ns(&queue), 1090 * SECOND);
}

#[test]
fn a_failure_of_a_deleted_message_is_not_reported() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(folder.path());
    let id = queue.accept(2, "Subject: a\r\n\r\na\r\n");
    let all = queue.take_all();
    queue.settle(&all[0], State::Failed);
    assert_eq!(found(&mut queue, Action::Delete, &[id]), 1);
    queue.settle(&all[1], State::Failed);
    queue.feed.commit(0).unwrap();
    assert_eq!((queue.take_all().len(), queue.feed.reports), (0, 0));
    drop((queue.writer, queue.feed));
    assert_eq!(Queue::open(folder.path()).take_all().len(), 0, "it is recorded");
}

/// Confirmed changes must survive kill -9.
#[test]
fn an_answer_comes_when_the_change_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(folder.path());
    let id = queue.accept(1, "\r\na\r\n");
    let (sender, answer) = std::sync::mpsc::channel();
    let request = Request::new(Action::Delete, HashSet::from([id]));
    queue.sender.send(Notice::Asked(request, sender.clone())).unwrap();
    assert!(queue.next().is_none() && answer.try_recv().is_err(), "nothing is written yet");
    // A list changes nothing, while a full disk may delay everything else.
    queue.sender.send(Notice::Asked(Request::new(Action::List, HashSet::new()), sender)).unwrap();
    assert!(queue.next().is_none() && matches!(answer.try_recv(), Ok(Answer::Items { is_last: true, .. })));
    queue.feed.commit(0).unwrap();
    assert!(matches!(answer.try_recv(), Ok(Answer::Done { found: 1, changed: 1 })));
    drop((queue.writer, queue.feed));
    assert_eq!(Queue::open(folder.path()).take_all().len(), 0);
}

#[test]
fn the_queue_is_for_its_owner() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("queue");
    let mut queue = Queue::open(&path);
    let id = queue.accept(2, "\r\na\r\n");
    let all = queue.take_all();
    queue.settle_all(&all[..1], 0);
    found(&mut queue, Action::Hold, &[id]);
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), exposure(&path)), (0o700, None));
    let files: Vec<u32> = std::fs::read_dir(&path).unwrap().map(|file| mode(&file.unwrap().path())).collect();
    assert_eq!(files, [0o600; 4], "lock, messages, states, held");
    drop((queue.writer, queue.feed));
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    assert!(exposure(&path).is_some_and(|note| note.contains("chmod 700")));
}
