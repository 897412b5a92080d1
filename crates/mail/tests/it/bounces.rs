//! Reports about recipients that failed.

use crate::support::{Running, Silent, delivery};
use landau_mail::{Delivery, Envelope, Error, Mode, Outcome, Source, deliver};
use std::path::Path;

fn run(folder: &Path, change: impl FnOnce(&mut Delivery)) -> Outcome {
    try_run(folder, change).unwrap()
}

fn try_run(folder: &Path, change: impl FnOnce(&mut Delivery)) -> Result<Outcome, Error> {
    let sink = Running::profile("[domain.\"bad.test\"]\npermanent = 1.0\n");
    std::fs::write(folder.join("letter"), "Subject: a\n\nb\n").unwrap();
    std::fs::write(folder.join("list"), "a@good.test\nb@bad.test\nc@good.test\nno address\nd@bad.test\n").unwrap();
    let mut delivery = delivery(folder, Source::File(folder.join("list")));
    delivery.message = Some(folder.join("letter"));
    delivery.via = Some(sink.address.to_string());
    delivery.envelope = Envelope::new("s@a.test", Mode::Data);
    delivery.bounces = Some(folder.join("bounces"));
    change(&mut delivery);
    deliver(&delivery, &mut Silent, &|| false)
}

/// Returns the reports.
fn reports(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder.join("bounces/new")).unwrap();
    let mut all: Vec<String> = files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect();
    all.sort();
    all
}

#[test]
fn each_recipient_that_failed_has_a_report() {
    let folder = tempfile::tempdir().unwrap();
    let outcome = run(folder.path(), |_| {});
    assert_eq!((outcome.recipients.done, outcome.recipients.failed, outcome.bounces), (2, 3, 3));
    let reports = reports(folder.path());
    assert_eq!(reports.len(), 3);
    for (address, status) in
        [("b@bad.test", "Status: 5.1.1"), ("d@bad.test", "Status: 5."), ("no address", "Status: 5.0.0")]
    {
        let final_recipient = format!("Final-Recipient: rfc822; {address}\r\n");
        let own: Vec<&String> = reports.iter().filter(|report| report.contains(&final_recipient)).collect();
        assert!(own.len() == 1 && own[0].contains(&status[..9]), "{address}: {reports:?}");
        assert_eq!(own[0].contains("Remote-MTA: dns; 127.0.0.1\r\nDiagnostic-Code: smtp; 5"), address != "no address");
    }
    // The ledger has them as failed: they are not reported again.
    assert_eq!(run(folder.path(), |_| {}).bounces, 0);
}

#[test]
fn a_sender_who_asked_for_no_failures_gets_none() {
    let folder = tempfile::tempdir().unwrap();
    let outcome = run(folder.path(), |delivery| {
        delivery.envelope.notify = Some(landau_wire::smtp::parameter::Notify::NEVER);
    });
    assert_eq!((outcome.recipients.failed, outcome.bounces, reports(folder.path()).len()), (3, 0, 0));
}

#[test]
fn a_recipient_whose_report_cannot_be_written_is_not_recorded_as_failed() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(run(folder.path(), |_| {}).bounces, 3);
    let names: Vec<_> = std::fs::read_dir(folder.path().join("bounces/new")).unwrap().map(|one| one.unwrap()).collect();
    std::fs::remove_file(folder.path().join("ledger")).unwrap();
    // A directory occupies the name of each report.
    for name in names {
        std::fs::remove_file(name.path()).unwrap();
        std::fs::create_dir(name.path()).unwrap();
    }
    assert!(matches!(try_run(folder.path(), |_| {}), Err(Error::Bounce(_))));
    let ledger = std::fs::read_to_string(folder.path().join("ledger")).unwrap();
    assert!(!ledger.contains("\"failed\""), "{ledger}");
}
