//! `landau mail` delivers to real mail servers: every message is found in the mailboxes, byte for byte.
//!
//! The servers are Debian's, unpacked by `cargo xtask test` into `target/mail-servers`. Each test sends 1,000 messages,
//! or `LANDAU_MAIL_MESSAGES`.

#[path = "../../../../tests/mail/server.rs"]
mod server;

use crate::support::{LANDAU, Room};
use landau_sys::process::OwnedChild;
use server::{MailServer, SCRIPTS, refusal};
use std::collections::BTreeMap;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Longer than any step takes; a test that reaches it has failed.
const LONG: Duration = Duration::from_secs(300);

/// Returns the number of messages of a test.
fn message_count() -> usize {
    std::env::var("LANDAU_MAIL_MESSAGES").map_or(1_000, |text| text.parse().expect("LANDAU_MAIL_MESSAGES: a number"))
}

/// Returns the directory with the package of a server. Returns `None`, and prints the reason, if the server cannot run
/// here.
fn packages(name: &str, room: &Room) -> Option<PathBuf> {
    let target = Path::new(LANDAU).ancestors().nth(2).unwrap();
    let packages = target.join("mail-servers").join(name);
    if !packages.exists() {
        eprintln!("skipped: {} is missing; cargo xtask test fetches it", packages.display());
        return None;
    }
    if let Some(reason) = refusal(&packages, &room.file("private")).unwrap() {
        eprintln!("skipped: this system permits no root of its own to {name}: {reason}");
        return None;
    }
    Some(packages)
}

/// Waits until a Maildir has `count` messages, and returns them.
fn stored(folder: &Path, count: usize, log: &dyn Fn() -> String) -> Vec<String> {
    let files = || -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    let began = Instant::now();
    while files().len() < count {
        assert!(began.elapsed() < LONG, "{} of {count} messages: {}", files().len(), log());
        std::thread::sleep(Duration::from_millis(50));
    }
    files().iter().map(|path| std::fs::read_to_string(path).unwrap()).collect()
}

/// Returns the message to a recipient, as it is stored. Its lines test what a transfer may alter: dots, empty lines, a
/// long line.
fn message(number: &str) -> String {
    let long = "x".repeat(900);
    format!(
        "From: sender@client.test\nTo: u{number}@d1.example\nDate: Sun, 22 Nov 2026 19:00:00 +0000\n\
         Message-ID: <{number}@client.test>\nSubject: number {number}\n\n.\n..\n.dot\n\n{long}\n\
         From here on {number}\n.\n"
    )
}

/// Sends a message to each recipient through a server. Returns whether all of them are done, and the output.
fn send(room: &Room, port: u16, more: &[&str]) -> (bool, String) {
    let list: Vec<String> = (0..message_count()).map(|number| format!("u{number}@d1.example,{number}")).collect();
    std::fs::write(room.file("list.csv"), format!("email,number\n{}\n", list.join("\n"))).unwrap();
    std::fs::write(room.file("letter.eml"), message("{{number}}")).unwrap();
    let via = format!("127.0.0.1:{port}");
    let words = ["mail", "list.csv", "--message", "letter.eml", "--from", "sender@client.test", "--via", &via];
    // OpenSMTPD accepts five connections at a time from its queue, and retries of the others take seconds.
    let how = ["--helo", "client.test", "--sessions", "5", "--per-connection", "90", "--ledger", "ledger", "--quiet"];
    let ran = room.landau(&[&words[..], &how, &["--retry-after", "1s", "--attempts", "20"], more].concat());
    (ran.status == Some(0), format!("{ran:?}"))
}

/// Checks that each message is stored exactly once, byte for byte, below the trace fields that servers add.
fn check(stored: &[String]) {
    let mut found: BTreeMap<&str, usize> = BTreeMap::new();
    for text in stored {
        let start = text.find("From: sender@client.test\n").expect("a stored message begins with its header");
        let (trace, body) = text.split_at(start);
        let is_trace = |line: &str| line.starts_with(['\t', ' ']) || TRACE.iter().any(|name| line.starts_with(name));
        assert!(trace.lines().all(is_trace), "{trace}");
        *found.entry(body).or_default() += 1;
    }
    let sent: Vec<String> = (0..message_count()).map(|number| message(&number.to_string())).collect();
    assert_eq!(found.len(), sent.len());
    let is_once = |message: &String| found.get(message.as_str()) == Some(&1);
    assert!(sent.iter().all(is_once), "a message was changed, lost or delivered twice");
}

/// The trace fields that servers add above a message.
const TRACE: [&str; 11] = [
    "Return-Path: ",
    "X-Original-To: ",
    "Delivered-To: ",
    "Received: ",
    "Envelope-to: ",
    "Delivery-date: ",
    "X-Client-Addr: ",
    "X-Client-Proto: ",
    "X-Helo-Args: ",
    "X-Mail-Args: ",
    "X-Rcpt-Args: ",
];

/// Sends the messages to a server, and checks that each is stored exactly once.
fn deliver(name: &str, is_encrypted: bool, more: &[&str]) {
    let room = Room::new();
    let Some(packages) = packages(name, &room) else { return };
    let shared = room.file("shared");
    if is_encrypted {
        std::fs::create_dir_all(&shared).unwrap();
        for name in ["key.pem", "cert.pem"] {
            std::fs::copy(Path::new(SCRIPTS).join(name), shared.join(name)).unwrap();
        }
    }
    let server = MailServer::start(&packages, name, &shared, None).unwrap();
    let (is_done, printed) = send(&room, server.port, more);
    assert!(is_done, "{printed}\n{}", server.log());
    if is_encrypted {
        let is_said = |words: &str| server.log().contains(words);
        assert!(is_said("TLS connection established") || is_said("smtp tls "), "no word of TLS: {}", server.log());
    }
    check(&stored(&shared.join("mailboxes/all/new"), message_count(), &|| server.log()));
}

#[test]
fn postfix_stores_every_message() {
    deliver("postfix", false, &[]);
    deliver("postfix", false, &["--chunking"]);
}

#[test]
fn opensmtpd_stores_every_message() {
    deliver("opensmtpd", false, &[]);
}

#[test]
fn exim_stores_every_message() {
    deliver("exim", false, &[]);
    deliver("exim", false, &["--chunking"]);
}

/// There is no such test for OpenSMTPD: the TLS handshake of Debian 12's 6.8.0p2 fails with every client, including
/// `openssl s_client` ("EVP lib").
#[test]
fn postfix_stores_every_message_over_tls() {
    deliver("postfix", true, &["--tls", "required", "--insecure"]);
}

/// Postfix's `smtp-sink` writes each message to a separate file, followed by an empty line.
#[test]
fn smtp_sink_stores_every_message() {
    let room = Room::new();
    let Some(packages) = packages("postfix", &room) else { return };
    let (log, dumps) = (room.file("log"), room.file("dumps"));
    std::fs::create_dir(&dumps).unwrap();
    let root = packages.join("usr");
    let libraries = [root.join("lib/postfix"), root.join(format!("lib/{}-linux-gnu", std::env::consts::ARCH))];
    let output = std::fs::File::create(&log).unwrap();
    let port = server::free_port().unwrap();
    let mut command = Command::new(root.join("sbin/smtp-sink"));
    command.env("LD_LIBRARY_PATH", std::env::join_paths(libraries).unwrap());
    command.args(["-u", "root", "-d"]).arg(dumps.join("%s.")).args([&format!("127.0.0.1:{port}"), "100"]);
    command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
    let mut sink = OwnedChild::spawn(&mut command).unwrap();
    let said = || std::fs::read_to_string(&log).unwrap();
    let began = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(sink.try_wait().unwrap().is_none() && began.elapsed() < LONG, "smtp-sink does not start: {}", said());
        std::thread::sleep(Duration::from_millis(20));
    }
    let (is_done, printed) = send(&room, port, &[]);
    assert!(is_done, "{printed}\n{}", said());
    let stored = stored(&dumps, message_count(), &said);
    let without_end = |text: &String| text.strip_suffix('\n').expect("an empty line at the end").to_owned();
    check(&stored.iter().map(without_end).collect::<Vec<_>>());
}
