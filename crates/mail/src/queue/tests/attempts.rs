//! Tests of the times at which recipients are tried, and of the reports about attempts.

use super::{Queue, SECOND, addresses, later, reports};
use crate::envelope::Request;
use crate::input::{Input, Next, Offer};
use crate::ledger::{Journal, Report, State};
use crate::list::Record;
use crate::queue::Meta;
use crate::queue::feed::LOADED_BYTES;
use landau_wire::smtp::parameter::Notify;

/// Returns the recipients that are handed out. `is_crowded` applies to all sites.
fn take(queue: &mut Queue, is_crowded: bool) -> Vec<(Offer, String)> {
    let mut all = Vec::new();
    let mut record = Record::default();
    loop {
        match queue.feed.next(&mut record, queue.now_ns, &|_| is_crowded).unwrap() {
            Next::Recipient(offer) => all.push((offer, record.address().to_owned())),
            Next::Later(_) => return all,
            Next::End => panic!("a queue has no end"),
        }
    }
}

#[test]
fn large_messages_of_a_site_leave_memory_to_other_sites() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(folder.path());
    let large = format!("\r\n{}", format!("{}\r\n", "x".repeat(998)).repeat(10_000));
    for _ in 0..9 {
        queue.accept(2, &large);
    }
    // The first site takes no mail: its messages stay in memory, at twice 10 MB each.
    let (mut at_first, mut at_second) = (0, 0);
    while let Some((offer, address)) = queue.next() {
        let site = u32::from(address == "r1@d");
        if queue.feed.admit(offer.number, site) {
            if site == 0 {
                at_first += 1;
            } else {
                at_second += 1;
                queue.settle(&(offer, address), State::Done);
            }
        } else {
            assert_eq!(site, 0, "the second site has none in memory");
            queue.feed.postpone(offer.number, site, 0);
        }
    }
    assert_eq!(at_second, 9);
    assert!((2..6).contains(&at_first), "{at_first} of the first site");
    assert!(!queue.feed.shares.is_full());
}

#[test]
fn a_message_whose_site_is_crowded_is_not_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(folder.path());
    queue.accept(2, "\r\na\r\n");
    for one in queue.take_all() {
        queue.feed.postpone(one.0.number, 7, 0);
    }
    // Another message to the domain is not even encoded.
    queue.accept(1, "\r\nb\r\n");
    assert_eq!(take(&mut queue, true).len(), 0);
    let (mail, aside) = (folder.path().join("00000001.mail"), folder.path().join("aside"));
    std::fs::rename(&mail, &aside).unwrap();
    for _ in 0..5 {
        queue.now_ns += 5 * SECOND;
        assert_eq!(take(&mut queue, true).len(), 0);
    }
    assert_eq!(queue.feed.unreadable, 0, "it was read");
    std::fs::rename(&aside, &mail).unwrap();
    queue.now_ns += 5 * SECOND;
    assert_eq!(addresses(&take(&mut queue, false)), ["r0@d", "r1@d", "r0@d"]);
}

/// The domain may have other servers by then.
#[test]
fn a_crowded_message_is_looked_up_again_at_times() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(folder.path());
    queue.accept(1, "\r\na\r\n");
    let one = queue.take_all();
    queue.feed.postpone(one[0].0.number, 7, 0);
    let seconds = (0..200).find(|_| {
        queue.now_ns += 2 * SECOND;
        !take(&mut queue, true).is_empty()
    });
    assert!(seconds.is_some_and(|seconds| seconds > 20), "{seconds:?}");
}

#[test]
fn recipients_that_were_not_tried_do_not_wait_for_those_that_failed() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(folder.path());
    queue.accept(2, "\r\na\r\n");
    let all = queue.take_all();
    queue.settle(&all[0], State::Deferred);
    queue.feed.postpone(all[1].0.number, 7, 0);
    queue.now_ns = 3 * SECOND;
    let all = take(&mut queue, false);
    assert_eq!(addresses(&all), ["r1@d"]);
    queue.settle(&all[0], State::Deferred);
    queue.now_ns = 40 * SECOND;
    assert_eq!(queue.take_all().len(), 0, "each waits for half of its time at least");
    queue.now_ns = 103 * SECOND;
    assert_eq!(queue.take_all().len(), 2);
}

/// The lifetime of a message is from its arrival (RFC 5321 section 4.5.4.1), even for recipients that were not tried.
#[test]
fn every_recipient_of_a_message_that_is_too_old_is_returned() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(folder.path());
    queue.accept(2, "Subject: a\r\n\r\nb\r\n");
    let all = queue.take_all();
    queue.now_ns = 500 * SECOND;
    queue.settle(&all[0], State::Deferred);
    queue.feed.postpone(all[1].0.number, 7, queue.now_ns);
    queue.now_ns = 2000 * SECOND;
    let all = take(&mut queue, true);
    assert_eq!(addresses(&all), ["r0@d", "r1@d"], "the last attempt, although the site of one is crowded");
    queue.settle(&all[0], State::Deferred);
    queue.feed.postpone(all[1].0.number, 7, queue.now_ns);
    queue.feed.commit(queue.now_ns).unwrap();
    let all = take(&mut queue, false);
    assert_eq!(addresses(&all), ["s@x"]);
    let report = &reports(&all)[0];
    assert!(report.contains("in time; the last attempt: 450 4.2.0 later"), "{report}");
    assert!(report.contains("in time; no connection was free for its server"), "{report}");
    assert_eq!((queue.feed.tally.failed, queue.feed.tally.left), (2, 1));
}

/// A relay that was stopped for longer than the lifetime tries its messages before it gives them up.
#[test]
fn a_recipient_that_was_not_tried_since_the_start_has_some_time() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(folder.path());
    queue.accept_with(1, "Subject: a\r\n\r\nb\r\n", |meta| meta.at_ms -= 2_000_000);
    let one = queue.take_all();
    queue.feed.postpone(one[0].0.number, 7, 0);
    queue.now_ns = 99 * SECOND;
    let one = take(&mut queue, false);
    assert_eq!(addresses(&one), ["r0@d"]);
    queue.now_ns = 101 * SECOND;
    queue.feed.postpone(one[0].0.number, 7, queue.now_ns);
    queue.feed.commit(queue.now_ns).unwrap();
    assert_eq!(addresses(&take(&mut queue, false)), ["s@x"]);
}

#[test]
fn a_message_that_can_be_read_again_has_no_failed_reads() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(folder.path());
    queue.accept(1, "\r\na\r\n");
    let (mail, aside) = (folder.path().join("00000001.mail"), folder.path().join("aside"));
    for round in 1..4 {
        std::fs::rename(&mail, &aside).unwrap();
        assert!(later(&mut queue) > queue.now_ns);
        let failed: Vec<u32> = queue.feed.parked.iter().flatten().map(|waiting| waiting.failed_reads).collect();
        assert_eq!(failed, [1], "{round}");
        std::fs::rename(&aside, &mail).unwrap();
        queue.now_ns += 200 * SECOND;
        let one = queue.take_all();
        queue.settle(&one[0], State::Deferred);
        queue.now_ns += 200 * SECOND;
    }
}

#[test]
fn an_attempt_has_one_report() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(folder.path());
    queue.accept(4, "Subject: a\r\n\r\nb\r\n");
    let all = queue.take_all();
    for (one, state) in all.iter().zip([State::Failed, State::Failed, State::Done, State::Failed]) {
        assert_eq!(queue.feed.reports, 0);
        queue.settle(one, state);
        queue.feed.commit(0).unwrap();
    }
    let all = queue.take_all();
    let report = &reports(&all)[0];
    assert_eq!((all.len(), report.matches("Action: failed\r\n").count()), (1, 3), "{report}");
    assert_eq!(queue.feed.reports, 1);
}

/// The ledger must not report a recipient as failed while a crash could still make the relay send to it again.
#[test]
fn a_failure_has_its_line_once_its_report_is_in_the_queue() {
    let folder = tempfile::tempdir().unwrap();
    let (mut queue, ledger) = (Queue::open(&folder.path().join("queue")), folder.path().join("ledger"));
    queue.feed.journal = Some(Journal::open(&ledger).unwrap());
    queue.accept(2, "Subject: a\r\n\r\nb\r\n");
    let all = queue.take_all();
    let failures = || std::fs::read_to_string(&ledger).unwrap().matches("\"state\":\"failed\"").count();
    queue.settle(&all[0], State::Failed);
    queue.feed.commit(0).unwrap();
    assert_eq!((failures(), queue.feed.reports), (0, 0), "the attempt is not over");
    queue.settle(&all[1], State::Done);
    queue.feed.commit(0).unwrap();
    assert_eq!((failures(), queue.feed.reports), (1, 1));
    queue.feed.commit(0).unwrap();
    assert_eq!(failures(), 1);
}

/// After a crash, a recipient that has the message must not get it again, even if others of the message are still
/// tried.
#[test]
fn that_mail_was_passed_on_is_told_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(folder.path());
    queue.accept_with(3, "Subject: a\r\n\r\nb\r\n", |meta| {
        let notify = Some(Notify { success: true, failure: true, delay: false });
        meta.requests = vec![Request { notify, orcpt: None }; 3];
    });
    let all = queue.take_all();
    queue.settle(&all[0], State::Done);
    queue.settle(&all[1], State::Failed);
    queue.feed.commit(0).unwrap();
    let reported = queue.take_all();
    let report = &reports(&reported)[0];
    assert!(report.contains("Action: relayed") && !report.contains("Action: failed"), "{report}");
    drop((queue.writer, queue.feed));
    let mut queue = Queue::open(folder.path());
    let all = queue.take_all();
    assert_eq!(addresses(&all), ["r1@d", "r2@d", "s@x"]);
    queue.settle(&all[0], State::Failed);
    queue.settle(&all[1], State::Done);
    queue.feed.commit(0).unwrap();
    let report = &reports(&queue.take_all())[0];
    assert!(report.contains("Action: relayed") && report.contains("Action: failed"), "{report}");
}

/// Accepts a message whose sender wants it returned in full, and makes it fail. Returns the report.
fn returned(queue: &mut Queue, content: &str) -> (Offer, String) {
    queue.accept_with(1, content, |meta| meta.ret = Some("FULL".into()));
    let all = queue.take_all();
    queue.settle(&all[0], State::Failed);
    queue.feed.commit(queue.now_ns).unwrap();
    queue.take_all().remove(0)
}

#[test]
fn a_report_has_a_header_only_if_there_is_no_room_or_the_message_is_large() {
    let content = format!("Subject: a\r\n\r\n{}", format!("{}\r\n", "x".repeat(98)).repeat(1000));
    for (limit, messages, is_whole) in [(1 << 20, 1, true), (150_000, 1, false), (64 << 20, 20, false)] {
        let folder = tempfile::tempdir().unwrap();
        let mut queue = Queue::limited(folder.path(), limit);
        let report = Queue::content(&returned(&mut queue, &content.repeat(messages)).0);
        assert_eq!(report.contains("xxxx"), is_whole, "{limit} {messages}");
        assert!(report.contains("Subject: a\r\n"));
    }
}

#[test]
fn a_report_that_is_too_large_comes_back_without_the_message() {
    for (code, text) in [(Some(552), "5.3.4 too large"), (None, "5.3.4 the message has 2000 bytes")] {
        let folder = tempfile::tempdir().unwrap();
        let mut queue = Queue::open(folder.path());
        let (offer, address) = returned(&mut queue, "Subject: a\r\n\r\nthe body\r\n");
        assert!(Queue::content(&offer).contains("the body"));
        let refuse = |queue: &mut Queue, offer: &Offer| {
            let state = State::Failed;
            let report =
                Report { number: offer.number, address: &address, state, code, text: text.as_bytes(), host: None };
            queue.feed.record(&report, || 0);
            queue.feed.release(offer.number, 0);
            queue.feed.commit(0).unwrap();
        };
        refuse(&mut queue, &offer);
        // A crash between the report and the states.
        drop((queue.writer, queue.feed));
        let mut queue = Queue::open(folder.path());
        let all = queue.take_all();
        assert_eq!(addresses(&all), ["s@x"]);
        let short = Queue::content(&all[0].0);
        assert!(short.contains("Subject: a\r\n") && !short.contains("the body"), "{short}");
        refuse(&mut queue, &all[0].0);
        assert_eq!(queue.take_all().len(), 0, "nobody is told about a report");
        queue.feed.commit(0).unwrap();
        drop((queue.writer, queue.feed));
        assert_eq!(Queue::open(folder.path()).take_all().len(), 0);
    }
}

#[test]
fn the_memory_of_loaded_messages_is_bounded_by_what_each_takes() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(folder.path());
    queue.accept(1, "\r\na\r\n");
    queue.accept(1, "\r\nb\r\n");
    let one = queue.next().unwrap();
    queue.feed.shares.set_all(LOADED_BYTES);
    assert!(queue.next().is_none());
    queue.feed.shares.set_all(LOADED_BYTES - 1);
    assert!(queue.next().is_some());
    queue.settle(&one, State::Done);
}

/// Reports are written even if the queue is full, so each must be as short as possible.
#[test]
fn reports_beyond_the_limit_have_nothing_of_the_message() {
    let folder = tempfile::tempdir().unwrap();
    let limit = 1 << 20;
    let mut queue = Queue::limited(folder.path(), limit);
    // The messages fill seven eighths, and each has a header of 25 kB.
    let header = format!("{}\r\nbody\r\n", "X-Header: xxxxxxxxxxxxx\r\n".repeat(1000));
    let mut count = 0;
    while queue.shared.bytes() < limit - limit / 8 {
        queue.accept_with(10, &header, |meta| meta.ret = Some("FULL".into()));
        count += 1;
    }
    for one in queue.take_all() {
        queue.settle(&one, State::Failed);
    }
    let before = queue.shared.bytes();
    queue.feed.write_reports(0, true).unwrap();
    let (after, reports) = (queue.shared.bytes(), queue.feed.reports);
    assert_eq!(reports, count);
    assert!(after > limit && after < limit + count * 6000, "{before} to {after} for {count} reports");
    let files: u64 = queue.files().iter().map(|name| folder.path().join(name).metadata().unwrap().len()).sum();
    assert_eq!(files, after);
    let texts: Vec<String> = queue.take_all().iter().map(|(offer, _)| Queue::content(offer)).collect();
    assert!(texts[0].contains("X-Header") && !texts.last().unwrap().contains("X-Header"));
    assert!(texts.iter().all(|text| text.matches("Action: failed\r\n").count() == 10));
}

/// Many clients may send in one turn, so an unwritten batch counts towards the limit.
#[test]
fn a_batch_that_is_not_written_takes_room() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::limited(folder.path(), 1 << 20);
    let (content, mut count) = ([b'x'; 10_000], 0);
    while queue.shared.has_room(10_000) && count < 1000 {
        queue.writer.add(&Meta::new(count, 1, "s@x", vec!["r@d".into()]), &[&content]).unwrap();
        count += 1;
    }
    assert!((100..105).contains(&count), "{count}");
    queue.commit();
    let mail = folder.path().join("00000001.mail").metadata().unwrap().len();
    assert_eq!(queue.shared.bytes(), mail);
    queue.writer.add(&Meta::new(count, 1, "s@x", vec!["r@d".into()]), &[&content]).unwrap();
    queue.writer.take_batch();
    assert_eq!(queue.shared.bytes(), mail, "what is not written takes none");
}

/// A report must not be lost because a server does not offer 8BITMIME.
#[test]
fn a_report_beyond_ascii_is_sent_again_in_seven_bits() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(folder.path());
    let (offer, address) = returned(&mut queue, "Subject: a\r\n\r\nth\u{e9} body\r\n");
    assert!(offer.letter.message.is_8bit());
    let text = &b"5.6.3 the message contains non-ASCII bytes, and the server does not offer 8BITMIME"[..];
    let state = State::Failed;
    queue.feed.record(&Report { number: offer.number, address: &address, state, code: None, text, host: None }, || 0);
    queue.feed.release(offer.number, 0);
    queue.feed.commit(0).unwrap();
    let all = queue.take_all();
    assert_eq!(addresses(&all), ["s@x"]);
    assert!(!all[0].0.letter.message.is_8bit());
    assert!(Queue::content(&all[0].0).contains("Content-Type: message/global\r\nContent-Transfer-Encoding: base64"));
}
