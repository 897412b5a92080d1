//! Non-ASCII addresses, as received by servers with and without SMTPUTF8.

use crate::support::{Names, Running, Silent, delivery};
use landau_mail::sink::dns::Service;
use landau_mail::sink::mailbox::{Mailboxes, directory_name};
use landau_mail::sink::smtp::Smtp;
use landau_mail::sink::smtp::profile::Profiles;
use landau_mail::{Envelope, Mode, Outcome, Source, deliver};
use std::collections::BTreeSet;
use std::path::Path;

/// The profile of a server without support for non-ASCII addresses.
const ASCII_ONLY: &str = "[default]\nextensions = [\"PIPELINING\", \"8BITMIME\"]\n";

/// Sends to a list from a sender through a server with a profile. Returns the outcome, and the recipients as stored by
/// the server.
fn sent(profile: &str, from: &str, list: &[&str]) -> (Outcome, BTreeSet<String>) {
    let room = tempfile::tempdir().unwrap();
    let mail = room.path().join("mail");
    let smtp = Smtp::new("sink.example", profile.parse::<Profiles>().unwrap(), 1);
    let sink = Running::smtp(smtp.with_mailboxes(Mailboxes::create(&mail).unwrap()));
    std::fs::write(room.path().join("list"), list.join("\n")).unwrap();
    std::fs::write(room.path().join("letter"), "Subject: x\n\ny\n").unwrap();
    let mut delivery = delivery(room.path(), Source::File(room.path().join("list")));
    delivery.envelope = Envelope::new(from, Mode::Data);
    delivery.message = Some(room.path().join("letter"));
    delivery.via = Some(sink.address.to_string());
    let outcome = deliver(&delivery, &mut Silent, &|| false).unwrap();
    (outcome, mailboxes(&mail))
}

fn mailboxes(root: &Path) -> BTreeSet<String> {
    std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

const LIST: [&str; 3] = ["a@b.example", "a@B\u{fc}cher.example", "\u{e4}@b\u{fc}cher.example"];

#[test]
fn a_server_with_smtputf8_gets_addresses_as_they_are() {
    let (outcome, found) = sent("", "s\u{e9}@b\u{fc}cher.example", &LIST);
    assert_eq!((outcome.recipients.done, outcome.reasons.len()), (3, 0), "{:?}", outcome.reasons);
    assert_eq!(found, LIST.map(directory_name).into());
}

#[test]
fn a_server_without_smtputf8_gets_domains_in_ascii_and_no_local_part_beyond_it() {
    let (outcome, found) = sent(ASCII_ONLY, "s@b\u{fc}cher.example", &LIST);
    assert_eq!((outcome.recipients.done, outcome.recipients.failed), (2, 1), "{:?}", outcome.reasons);
    assert!(outcome.reasons[0].0.contains("5.6.7 the recipient's address"), "{:?}", outcome.reasons);
    assert_eq!(found, ["a@b.example", "a@xn--bcher-kva.example"].map(str::to_owned).into());
    let (outcome, found) = sent(ASCII_ONLY, "s\u{e9}@b.example", &LIST);
    assert_eq!((outcome.recipients.failed, found.len()), (3, 0), "{:?}", outcome.reasons);
    assert!(outcome.reasons.iter().any(|(reason, _)| reason.contains("5.6.7 the sender's")), "{:?}", outcome.reasons);
}

/// Such a recipient was once omitted from its transaction and had no outcome; such a sender became the null sender.
#[test]
fn an_address_that_is_too_long_in_ascii_cannot_be_converted() {
    let long = format!("{}@{}test", "a".repeat(64), "\u{fc}.".repeat(30));
    let (outcome, found) = sent(ASCII_ONLY, "s@b.example", &[&long, "a@b.example"]);
    assert_eq!((outcome.recipients.done, outcome.recipients.failed), (1, 1), "{:?}", outcome.reasons);
    assert!(outcome.reasons[0].0.contains("5.6.7 the recipient's address"), "{:?}", outcome.reasons);
    assert_eq!(found, ["a@b.example".to_owned()].into());
    let (outcome, found) = sent(ASCII_ONLY, &long, &["a@b.example"]);
    assert_eq!((outcome.recipients.failed, found.len()), (1, 0), "{:?}", outcome.reasons);
    assert!(outcome.reasons[0].0.contains("5.6.7 the sender's address"), "{:?}", outcome.reasons);
}

/// The name server knows only ASCII names. IDNA converts `d1` in full-width characters to `d1`.
#[test]
fn domains_are_looked_up_in_ascii() {
    let (names, hosts) =
        (Names::start(&Service::default()), Running::smtp_at(Smtp::new("s", Profiles::default(), 1), "127.0.0.0/8:0"));
    let room = tempfile::tempdir().unwrap();
    let list = [
        "a@d0001.example",
        "b@\u{ff44}0001.example",
        "c@d0001\u{3002}example",
        "d@b\u{fc}cher.example",
        "e@\u{301}a.example",
    ];
    std::fs::write(room.path().join("list"), list.join("\n")).unwrap();
    let mut delivery = delivery(room.path(), Source::File(room.path().join("list")));
    delivery.name_server = Some(names.streams.address);
    delivery.smtp_port = hosts.address.port();
    let outcome = deliver(&delivery, &mut Silent, &|| false).unwrap();
    // The zone has no b\u{fc}cher, and the last one is not a valid name.
    assert_eq!((outcome.recipients.done, outcome.recipients.failed), (3, 2), "{:?}", outcome.reasons);
    assert!(
        outcome.reasons.iter().any(|(reason, _)| reason.contains("not a valid domain name")),
        "{:?}",
        outcome.reasons
    );
    assert!(outcome.reasons.iter().any(|(reason, _)| reason.contains("does not exist")), "{:?}", outcome.reasons);
}
