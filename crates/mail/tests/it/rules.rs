//! Tests of the rules of a delivery, over real sockets: modes, merge fields, reuse of connections, limits of a site,
//! answers 421, 4yz and 5yz, and the final contents of the mailboxes.

use crate::support::{LONG, Names, Running, Silent, delivery, documented};
use landau_mail::sink::dns::{Layout, Service};
use landau_mail::sink::mailbox::{Mailboxes, directory_name};
use landau_mail::sink::smtp::Smtp;
use landau_mail::sink::smtp::profile::Profiles;
use landau_mail::synthetic::Shape;
use landau_mail::{Delivery, Envelope, Mode, Outcome, Source, Tally, deliver};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::time::{Duration, Instant};

fn shape(recipients: u64) -> Source {
    Source::Synthetic(Shape { recipients, domains: 10, zipf: 0.0, seed: 1 })
}

/// Delivers to 30 recipients at a sink.
fn run(folder: &Path, sink: &Running, change: impl FnOnce(&mut Delivery)) -> Outcome {
    let mut delivery = delivery(folder, shape(30));
    delivery.via = Some(sink.address.to_string());
    change(&mut delivery);
    deliver(&delivery, &mut Silent, &|| false).unwrap()
}

/// Makes a delivery send a message.
fn with_message(folder: &Path, delivery: &mut Delivery, text: &str) {
    let path = folder.join("letter.eml");
    std::fs::write(&path, text).unwrap();
    delivery.message = Some(path);
    delivery.envelope = Envelope::new("s@client.test", Mode::Data);
}

fn reasons(outcome: &Outcome, text: &str) -> u64 {
    outcome.reasons.iter().filter(|(reason, _)| reason.contains(text)).map(|(_, count)| count).sum()
}

/// Returns the recipients that a ledger has in a state.
fn recipients_in(folder: &Path, state: &str) -> BTreeSet<String> {
    let ledger = std::fs::read_to_string(folder.join("ledger")).unwrap();
    let lines = ledger.lines().filter(|line| line.contains(&format!("\"state\":\"{state}\"")));
    lines.map(|line| line.split("\"to\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned()).collect()
}

#[test]
fn each_mode_goes_as_far_as_its_name_says() {
    for (mode, state, expected) in
        [(Mode::Data, "sent", [30, 30, 0]), (Mode::Rset, "accepted", [0, 30, 30]), (Mode::Quit, "greeted", [0, 0, 0])]
    {
        let (sink, folder) = (Running::profile(""), tempfile::tempdir().unwrap());
        let outcome = run(folder.path(), &sink, |delivery| {
            with_message(folder.path(), delivery, "Subject: a\n\nb\n");
            delivery.envelope = Envelope::new("s@client.test", mode);
        });
        assert_eq!((outcome.recipients.done, outcome.recipients.sum()), (30, 30), "{mode:?}: {:?}", outcome.lost);
        assert_eq!(recipients_in(folder.path(), state).len(), 30, "{mode:?}");
        let counts = ["messages", "recipients", "resets_of_transactions"].map(|name| sink.remote.total(name));
        assert_eq!(counts, expected, "{mode:?}");
        assert!(mode != Mode::Quit || outcome.connections == 30, "{}", outcome.connections);
    }
}

#[test]
fn each_recipient_gets_its_fields_and_the_mailboxes_are_what_the_ledger_says() {
    let folder = tempfile::tempdir().unwrap();
    let profile: Profiles = "[default]\npermanent = 0.2\ntemporary = { share = 0.3, attempts = 1 }".parse().unwrap();
    let mail = folder.path().join("mail");
    let sink = Running::smtp(Smtp::new("sink.example", profile, 1).with_mailboxes(Mailboxes::create(&mail).unwrap()));
    let list: Vec<String> = (0..200).map(|number| format!("u{number}@d.example,Name {number}")).collect();
    let path = folder.path().join("list.csv");
    std::fs::write(&path, format!("email,name\n{}\n", list.join("\n"))).unwrap();
    let outcome = run(folder.path(), &sink, |delivery| {
        delivery.source = Source::File(path);
        with_message(folder.path(), delivery, "Subject: {{name}}\n\nDear {{name}}\n.\n");
    });
    let (sent, failed) = (recipients_in(folder.path(), "sent"), recipients_in(folder.path(), "failed"));
    assert_eq!((sent.len() as u64, failed.len() as u64), (outcome.recipients.done, outcome.recipients.failed));
    assert!(sent.len() > 100 && failed.len() > 10 && sent.len() + failed.len() == 200, "{:?}", outcome.recipients);
    assert!(!recipients_in(folder.path(), "deferred").is_empty(), "some were tried twice");
    let boxes: BTreeSet<String> =
        std::fs::read_dir(&mail).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(boxes, sent.iter().map(|address| directory_name(address)).collect::<BTreeSet<String>>());
    for address in &sent {
        let files: Vec<_> = std::fs::read_dir(mail.join(directory_name(address)).join("new")).unwrap().collect();
        let text = std::fs::read_to_string(files[0].as_ref().unwrap().path()).unwrap();
        let name = format!("Name {}", &address[1..address.find('@').unwrap()]);
        assert_eq!((files.len(), text), (1, format!("Subject: {name}\r\n\r\nDear {name}\r\n.\r\n")));
    }
}

#[test]
fn a_connection_is_used_for_a_number_of_messages_and_a_time() {
    for (per_connection, reuse_for, connections) in
        [(3, Duration::MAX, 10), (u64::MAX, Duration::ZERO, 30), (u64::MAX, Duration::MAX, 1)]
    {
        let (sink, folder) = (Running::profile(""), tempfile::tempdir().unwrap());
        let outcome = run(folder.path(), &sink, |delivery| {
            (delivery.limits.sessions, delivery.per_connection, delivery.reuse_for) = (1, per_connection, reuse_for);
        });
        assert_eq!((outcome.recipients.done, outcome.connections), (30, connections), "{:?}", outcome.lost);
    }
}

/// All domains with the same MX hosts share one limit.
#[test]
fn domains_with_the_same_hosts_share_the_limit_of_connections() {
    for sites in [1, 2] {
        let layout = Layout { domains: 50, sites, ..Layout::default() };
        let names = Names::start(&Service { layout, ..Service::default() });
        let profiles = Profiles::default();
        let hosts = Running::smtp_at(Smtp::new("sink.example", profiles, 1), "127.0.0.0/8:0");
        let folder = tempfile::tempdir().unwrap();
        let source = Source::Synthetic(Shape { recipients: 500, domains: 50, zipf: 0.0, seed: 1 });
        let mut delivery = delivery(folder.path(), source);
        delivery.name_server = Some(names.streams.address);
        delivery.smtp_port = hosts.address.port();
        (delivery.limits.per_site, delivery.limits.initial) = (2, 10);
        let outcome = deliver(&delivery, &mut Silent, &|| false).unwrap();
        assert_eq!(outcome.recipients.done, 500, "{:?}", outcome.reasons);
        assert!(outcome.most_open <= 2 * sites, "{} connections to {sites} sites", outcome.most_open);
    }
}

/// A 421 after messages ends the connection but is not an attempt: each recipient still has only one.
#[test]
fn a_421_ends_the_connection_and_is_no_attempt() {
    let (sink, folder) = (Running::profile("[default]\nmessages = 2"), tempfile::tempdir().unwrap());
    let outcome = run(folder.path(), &sink, |delivery| {
        with_message(folder.path(), delivery, "Subject: a\n\nb\n");
        (delivery.limits.sessions, delivery.limits.attempts) = (1, 1);
    });
    assert_eq!((outcome.recipients.done, outcome.recipients.deferred), (30, 0), "{:?}", outcome.reasons);
    assert!(outcome.connections >= 15 && sink.remote.total("message_limit") >= 14, "{}", outcome.connections);
}

/// Such a 421 was once mistaken for the end of a useful connection, and the run did not end.
#[test]
fn a_421_to_the_first_message_of_a_connection_is_an_attempt() {
    let (sink, folder) = (Running::profile("[default]\nextensions = []\nmessages = 0"), tempfile::tempdir().unwrap());
    let mut delivery = delivery(folder.path(), shape(30));
    delivery.via = Some(sink.address.to_string());
    with_message(folder.path(), &mut delivery, "Subject: a\n\nb\n");
    (delivery.limits.sessions, delivery.limits.initial, delivery.limits.attempts) = (1, 1, 1);
    let began = Instant::now();
    let outcome = deliver(&delivery, &mut Silent, &|| began.elapsed() > LONG).unwrap();
    assert!(!outcome.is_interrupted, "{:?}", outcome.lost);
    let Tally { done, deferred, .. } = outcome.recipients;
    assert_eq!((done, deferred, outcome.attempts, outcome.connections), (0, 1, 1, 1), "{:?}", outcome.lost);
    assert_eq!(recipients_in(folder.path(), "deferred").len(), 1);
}

/// Starts a server without extensions that takes one transaction of each connection and answers the next one with 421:
/// at MAIL, RCPT, DATA, or the end of the content, written as `.`.
fn closing_at(stage: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        // The thread ends with the test's process.
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let (mut messages, mut is_content, mut line) = (0, false, String::new());
            stream.get_mut().write_all(b"220 s\r\n").unwrap();
            while stream.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
                let command = line.trim_end().split([' ', ':']).next().unwrap().to_owned();
                line.clear();
                if is_content && command != "." {
                    continue;
                }
                let is_closing = messages > 0 && command == stage;
                is_content = command == "DATA" && !is_closing;
                messages += u32::from(command == ".");
                let reply: &[u8] = match (is_closing, is_content) {
                    (true, _) => b"421 4.3.2 no more\r\n",
                    (false, true) => b"354 go\r\n",
                    (false, false) => b"250 ok\r\n",
                };
                // The client may have closed the connection.
                let sent = stream.get_mut().write_all(reply);
                if is_closing || sent.is_err() {
                    break;
                }
            }
        }
    });
    address
}

/// Such a 421 was once mistaken for the end of a useful connection. Its recipients were sent to again at once and
/// nothing was recorded, regardless of the server's reply about them or the message.
#[test]
fn a_421_after_mail_was_accepted_is_an_attempt() {
    for (stage, done) in [("MAIL", 4), ("RCPT", 2), ("DATA", 2), (".", 2)] {
        let folder = tempfile::tempdir().unwrap();
        let mut delivery = delivery(folder.path(), shape(4));
        delivery.via = Some(closing_at(stage).to_string());
        with_message(folder.path(), &mut delivery, "Subject: a\n\nb\n");
        (delivery.limits.sessions, delivery.limits.attempts, delivery.batch) = (1, 1, 2);
        let outcome = deliver(&delivery, &mut Silent, &|| false).unwrap();
        let Tally { done: sent, deferred, .. } = outcome.recipients;
        assert_eq!((sent, deferred), (done, 4 - done), "{stage}: {:?}", outcome.reasons);
        assert_eq!(reasons(&outcome, "421 "), 4 - done, "{stage}: {:?}", outcome.reasons);
        assert_eq!(outcome.connections, if stage == "MAIL" { 2 } else { 1 }, "{stage}: {:?}", outcome.lost);
    }
}

/// A server that accepts fewer connections than the client wants eventually gets fewer, and all of the mail.
#[test]
fn connections_that_are_refused_with_421_are_tried_again() {
    let (sink, folder) = (Running::profile("[default]\nconnections = 2"), tempfile::tempdir().unwrap());
    let outcome = run(folder.path(), &sink, |delivery| {
        delivery.source = shape(300);
        (delivery.limits.sessions, delivery.limits.initial, delivery.limits.attempts) = (10, 10, 1000);
    });
    assert_eq!(outcome.recipients.done, 300, "{:?} {:?}", outcome.reasons, outcome.notes);
    let busy = sink.remote.total("busy");
    let refused: u64 = outcome.lost.iter().filter(|(reason, _)| reason.contains("421")).map(|(_, count)| count).sum();
    assert!(busy >= 8 && refused > 0 && refused <= busy, "{busy} refused, {:?}", outcome.lost);
}

#[test]
fn a_4yz_is_tried_again_and_a_5yz_is_final() {
    for (profile, expected) in [
        ("[default]\ntemporary = { share = 1.0, attempts = 1 }", (30, 0, 60)),
        ("[default]\npermanent = 1.0", (0, 30, 30)),
    ] {
        let (sink, folder) = (Running::profile(profile), tempfile::tempdir().unwrap());
        let outcome = run(folder.path(), &sink, |_| {});
        assert_eq!((outcome.recipients.done, outcome.recipients.failed, outcome.attempts), expected, "{profile}");
        assert_eq!(outcome.reasons.iter().map(|(_, count)| count).sum::<u64>(), 30, "{:?}", outcome.reasons);
    }
}

/// The sink uses only its own clock, which the test advances: the second run is after the time of greylisting.
#[test]
fn a_greylisted_recipient_is_accepted_by_a_later_run() {
    let (sink, folder) = (Running::profile("[default]\ngreylist = \"1h\""), tempfile::tempdir().unwrap());
    let outcome = run(folder.path(), &sink, |_| {});
    assert_eq!((outcome.recipients.done, outcome.recipients.deferred), (0, 30));
    assert!(sink.remote.total("recipients_greylisted") >= 30);
    sink.clock.advance(Duration::from_secs(3601));
    let outcome = run(folder.path(), &sink, |_| {});
    assert_eq!((outcome.recipients.done, outcome.recipients.deferred), (30, 0), "{:?}", outcome.reasons);
}

#[test]
fn a_message_that_the_server_does_not_take_is_not_sent() {
    for (profile, text, reason) in [
        ("[default]\nsize_limit = \"100B\"", format!("Subject: a\n\n{}\n", "x".repeat(200)), "5.3.4 "),
        ("[default]\nextensions = [\"SIZE\"]", "Subject: a\n\n\u{e9}\n".to_owned(), "5.6.3 "),
        ("[default]\nextensions = [\"8BITMIME\"]", "Subject: \u{e9}\n\nb\n".to_owned(), "5.6.9 "),
    ] {
        let (sink, folder) = (Running::profile(profile), tempfile::tempdir().unwrap());
        let outcome = run(folder.path(), &sink, |delivery| with_message(folder.path(), delivery, &text));
        assert_eq!((outcome.recipients.failed, reasons(&outcome, reason)), (30, 30), "{:?}", outcome.reasons);
        assert_eq!((sink.remote.total("messages"), sink.remote.total("errors")), (0, 0), "{profile}");
    }
}

/// The value of a field is known only with the recipient. A non-ASCII value in the header requires SMTPUTF8, like a
/// non-ASCII header.
#[test]
fn a_field_beyond_ascii_in_the_header_needs_smtputf8() {
    let list = "email,name\na@d.example,Zo\u{eb}\nb@d.example,Bo\n";
    for (offered, text, done) in [
        ("\"8BITMIME\"", "Subject: {{name}}\n\nb\n", 1),
        ("\"8BITMIME\"", "Subject: a\n\n{{name}}\n", 2),
        ("\"8BITMIME\", \"SMTPUTF8\"", "Subject: {{name}}\n\nb\n", 2),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let sink = Running::profile(&format!("[default]\nextensions = [{offered}]"));
        let path = folder.path().join("list.csv");
        std::fs::write(&path, list).unwrap();
        let outcome = run(folder.path(), &sink, |delivery| {
            delivery.source = Source::File(path);
            with_message(folder.path(), delivery, text);
        });
        let Tally { done: sent, failed, .. } = outcome.recipients;
        assert_eq!((sent, failed, reasons(&outcome, "5.6.9 ")), (done, 2 - done, 2 - done), "{:?}", outcome.reasons);
        assert_eq!((sink.remote.total("messages"), sink.remote.total("errors")), (done, 0), "{offered} {text}");
    }
}

#[test]
fn the_document_names_each_member_of_the_result() {
    let (sink, folder) = (Running::profile(""), tempfile::tempdir().unwrap());
    let json = run(folder.path(), &sink, |_| {}).json();
    let members: BTreeSet<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
    let rows = documented("`--json` prints the result");
    assert_eq!(rows.iter().map(|(name, _)| *name).collect::<BTreeSet<&str>>(), members);
    assert_eq!(rows.len(), members.len(), "each once");
}
