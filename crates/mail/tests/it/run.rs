//! Tests of a delivery that its caller drives turn by turn.

use crate::support::Running;
use landau_mail::synthetic::Shape;
use landau_mail::{
    Backoff, Delivery, Envelope, Feedback, Limits, Mode, Observer, Progress, Run, Source, Sync, deliver,
};
use std::time::Duration;

fn delivery(via: String, directory: &std::path::Path) -> Delivery {
    let long = Duration::from_secs(60);
    let source = Source::Synthetic(Shape { recipients: u64::MAX, domains: 10, zipf: 0.0, seed: 1 });
    Delivery {
        via: Some(via),
        sync: Sync::Never,
        envelope: Envelope::new("a@b.test", Mode::Rset),
        limits: Limits {
            sessions: 3,
            per_site: 10,
            initial: 10,
            feedback: Feedback::Inverse,
            backoff: Backoff { first: long, longest: long },
            attempts: 1,
            seed: 1,
        },
        active: 100,
        per_connection: u64::MAX,
        reuse_for: Duration::MAX,
        timeout: long,
        ..Delivery::new(source, directory.join("ledger"))
    }
}

#[test]
fn connections_that_are_held_send_nothing() {
    let (sink, room) = (Running::profile(""), tempfile::tempdir().unwrap());
    let mut run = Run::start(&delivery(sink.address.to_string(), room.path())).unwrap();
    run.set_busy(0);
    while run.progress().greeted < 3 {
        assert!(run.turn().unwrap());
    }
    for _ in 0..3 {
        run.turn().unwrap();
    }
    assert_eq!((run.progress().recipients.done, run.progress().open), (0, 3));
    run.set_busy(2);
    while run.progress().recipients.done < 50 {
        run.turn().unwrap();
    }
    run.set_sessions(4);
    while run.progress().greeted < 4 {
        run.turn().unwrap();
    }
    let outcome = run.finish().unwrap();
    assert_eq!((outcome.connections, outcome.lost.len(), outcome.recipients.failed), (4, 0, 0));
    let accepted = sink.remote.totals().iter().find(|one| one.name == "recipients").unwrap().value;
    assert_eq!(accepted, outcome.recipients.done, "every transaction in progress has ended");
    let ledger = std::fs::read_to_string(room.path().join("ledger")).unwrap();
    assert_eq!(ledger.lines().filter(|line| line.contains("\"accepted\"")).count() as u64, accepted);
}

struct Silent;

impl Observer for Silent {
    fn progress(&mut self, _: &Progress) {}
}

/// Servers with a full accept queue leave connections without a greeting. The run once waited minutes for one, although
/// every message was sent.
#[test]
fn a_connection_that_nobody_needs_is_not_waited_for() {
    let (sink, room) = (Running::profile("[default]\nsilent = 0.5\n"), tempfile::tempdir().unwrap());
    let mut delivery = delivery(sink.address.to_string(), room.path());
    delivery.source = Source::Synthetic(Shape { recipients: 50, domains: 10, zipf: 0.0, seed: 1 });
    delivery.limits.sessions = 8;
    let outcome = deliver(&delivery, &mut Silent, &|| false).unwrap();
    assert!((1..8).contains(&outcome.connections), "some were greeted: {}", outcome.connections);
    assert_eq!((outcome.recipients.done, outcome.lost), (50, Vec::new()));
}

/// Such connections were once counted as timed out, although none had waited for long.
#[test]
fn connections_without_a_greeting_are_not_lost_when_the_run_is_stopped() {
    let (sink, room) = (Running::profile("[default]\nsilent = 1.0\n"), tempfile::tempdir().unwrap());
    let mut run = Run::start(&delivery(sink.address.to_string(), room.path())).unwrap();
    while run.progress().open < 3 {
        run.turn().unwrap();
    }
    let outcome = run.finish().unwrap();
    assert_eq!((outcome.connections, outcome.recipients.done, outcome.lost), (0, 0, Vec::new()));
}
