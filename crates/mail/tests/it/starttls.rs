//! Tests of STARTTLS in the sink and the relay: encrypted mail, discarded bytes, and refusals.

use crate::relay::Relaying;
use crate::support::{Client, Running, Silent, delivery};
use landau_mail::relay::Relay;
use landau_mail::sink::mailbox::Mailboxes;
use landau_mail::sink::smtp::Smtp;
use landau_mail::sink::smtp::profile::Profiles;
use landau_mail::{Certificate, Encryption, Envelope, Mode, Outcome, Source, deliver};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn sink(mail: &Path, profile: &str) -> Running {
    let smtp = Smtp::new("sink.example", profile.parse::<Profiles>().unwrap(), 1);
    let smtp = smtp.with_mailboxes(Mailboxes::create(mail).unwrap());
    Running::smtp(smtp.with_tls(&Certificate::SelfSigned).unwrap())
}

const REQUIRED: Encryption = Encryption::Required { ca_file: None, is_insecure: true };

/// An encrypted client.
struct Encrypted(BufReader<StreamOwned<ClientConnection, TcpStream>>);

impl Encrypted {
    /// Performs the handshake on a connection.
    fn new(stream: TcpStream) -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = landau_trust::verifier(None, true, &provider).unwrap();
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
        let name = ServerName::try_from("sink.example").unwrap();
        let session = ClientConnection::new(Arc::new(config), name).unwrap();
        Self(BufReader::new(StreamOwned::new(session, stream)))
    }

    /// Sends commands; returns the lines of the replies to them.
    fn say(&mut self, text: &str) -> Vec<String> {
        self.0.get_mut().write_all(text.as_bytes()).unwrap();
        let (mut lines, mut left) = (Vec::new(), text.matches("\r\n").count());
        while left > 0 {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "{lines:?}");
            left -= usize::from(line.as_bytes()[3] == b' ');
            lines.push(line.trim_end().to_owned());
        }
        lines
    }
}

/// Delivers a message larger than a record to 8 recipients.
fn run(folder: &Path, address: SocketAddr) -> (Outcome, String) {
    let text = format!("Subject: a\n\n..\n{}", "0123456789\n".repeat(20_000));
    std::fs::write(folder.join("letter"), &text).unwrap();
    std::fs::write(folder.join("list"), "u@a.test\n".repeat(8)).unwrap();
    let mut delivery = delivery(folder, Source::File(folder.join("list")));
    delivery.message = Some(folder.join("letter"));
    delivery.envelope = Envelope::new("s@a.test", Mode::Data);
    delivery.via = Some(address.to_string());
    delivery.encryption = REQUIRED;
    (deliver(&delivery, &mut Silent, &|| false).unwrap(), text.replace('\n', "\r\n"))
}

fn mailbox(mail: &Path) -> Vec<String> {
    let files = std::fs::read_dir(mail.join("u@a.test/new")).unwrap();
    files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect()
}

#[test]
fn the_sink_stores_what_comes_encrypted() {
    let room = tempfile::tempdir().unwrap();
    let mail = room.path().join("mail");
    let sink = sink(&mail, "");
    let (outcome, text) = run(room.path(), sink.address);
    assert!(outcome.recipients.done == 8 && outcome.encrypted >= outcome.connections, "{:?}", outcome.lost);
    let stored = mailbox(&mail);
    assert!(stored.len() == 8 && stored.iter().all(|one| *one == text));
    assert_eq!(sink.remote.total("tls_failures"), 0);
}

/// Unencrypted bytes after STARTTLS would otherwise be read as commands of the encrypted session (CVE-2011-0411).
#[test]
fn commands_injected_before_the_handshake_are_discarded() {
    let room = tempfile::tempdir().unwrap();
    let sink = sink(&room.path().join("mail"), "");
    let stream = TcpStream::connect(sink.address).unwrap();
    let mut plain = BufReader::new(stream.try_clone().unwrap());
    let mut line = || {
        let mut line = String::new();
        plain.read_line(&mut line).unwrap();
        line
    };
    assert!(line().starts_with("220 "));
    let injected = "EHLO evil\r\nMAIL FROM:<evil@x>\r\nRCPT TO:<v@y>\r\n";
    (&stream).write_all(format!("EHLO c\r\nSTARTTLS\r\n{injected}").as_bytes()).unwrap();
    let mut offers = Vec::new();
    loop {
        let line = line();
        if line.starts_with("220 ") {
            break;
        }
        offers.push(line);
    }
    assert!(offers.iter().any(|line| line.ends_with("STARTTLS\r\n")), "{offers:?}");
    let mut client = Encrypted::new(stream);
    // The session has no state, and no command of the attacker was executed.
    assert_eq!(client.say("RCPT TO:<a@b>\r\n"), ["503 5.5.1 command out of order"]);
    assert_eq!(client.say("MAIL FROM:<a@b>\r\n"), ["503 5.5.1 command out of order"]);
    let offers = client.say("EHLO c\r\n");
    assert!(!offers.iter().any(|line| line.ends_with("STARTTLS")), "{offers:?}");
    assert_eq!(client.say("STARTTLS\r\n"), ["502 5.5.1 command not offered"]);
    assert_eq!(client.say("MAIL FROM:<a@b>\r\nQUIT\r\n"), ["250 2.1.0 Ok", "221 2.0.0 Bye"]);
    assert_eq!(sink.remote.total("plain_bytes_discarded"), injected.len() as u64);
    assert_eq!((sink.remote.total("commands"), sink.remote.total("encrypted")), (8, 1));
}

/// Waits for a condition, with a long limit for busy machines.
fn eventually(has_come: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(120);
    while !has_come() {
        assert!(Instant::now() < end, "it did not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_client_that_speaks_no_tls_is_closed() {
    let room = tempfile::tempdir().unwrap();
    let sink = sink(&room.path().join("mail"), "");
    let mut client = sink.connect();
    assert_eq!([client.reply(), client.command("EHLO c"), client.command("STARTTLS")], [220, 250, 220]);
    client.send(b"EHLO c\r\nMAIL FROM:<a@b>\r\n");
    client.end();
    eventually(|| sink.remote.total("closed") > 0);
    assert_eq!((sink.remote.total("tls_failures"), sink.remote.total("commands")), (1, 2));
}

#[test]
fn starttls_is_offered_only_with_a_certificate_and_by_the_profile() {
    let plain = Running::profile("");
    let mut client = plain.connect();
    assert_eq!([client.reply(), client.command("EHLO c"), client.command("STARTTLS")], [220, 250, 502]);
    let room = tempfile::tempdir().unwrap();
    let without = sink(&room.path().join("mail"), "[default]\nextensions = [\"SIZE\"]");
    let mut client = without.connect();
    assert_eq!([client.reply(), client.command("EHLO c"), client.command("STARTTLS")], [220, 250, 502]);
    let smtp = Smtp::new("sink.example", Profiles::default(), 1);
    let missing = room.path().join("missing.pem");
    let files = Certificate::Files { certificate: missing.clone(), key: missing };
    let error = smtp.with_tls(&files).unwrap_err().to_string();
    assert!(error.contains("missing.pem") && error.starts_with("cannot offer STARTTLS: "), "{error}");
}

/// A message is received encrypted by the relay, and passed on encrypted.
#[test]
fn the_relay_encrypts_both_ways() {
    let room = tempfile::tempdir().unwrap();
    let mail = room.path().join("mail");
    let sink = sink(&mail, "");
    let relay = Relaying::start(&room.path().join("queue"), |relay: &mut Relay| {
        relay.delivery.via = Some(sink.address.to_string());
        relay.delivery.encryption = REQUIRED;
        relay.reception.certificate = Some(Certificate::SelfSigned);
    });
    let (outcome, text) = run(room.path(), relay.address);
    assert!(outcome.recipients.done == 8 && outcome.encrypted >= outcome.connections, "{:?}", outcome.lost);
    eventually(|| sink.remote.total("messages") >= 8);
    let stored = mailbox(&mail);
    assert_eq!(stored.len(), 8);
    assert!(stored.iter().all(|one| one.ends_with(&text) && one.contains(" with ESMTPS id ")), "{:.300}", stored[0]);
    assert_eq!(sink.remote.total("messages"), 8);
    assert!(sink.remote.total("encrypted") > 0);
    let mut client = Client::connect(relay.address);
    assert_eq!([client.reply(), client.command("EHLO c"), client.command("STARTTLS")], [220, 250, 220]);
}
