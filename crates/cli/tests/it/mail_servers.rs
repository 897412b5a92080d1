//! `landau mail` delivers to real mail servers: every message is found in the mailboxes, byte for byte.
//!
//! The servers are Debian's, unpacked by `cargo xtask test` into `target/mail-servers` and run in a root of their own
//! by `tests/mail/private.sh`, which needs root.

use crate::support::{LANDAU, Room};
use landau_sys::process::OwnedChild;
use std::collections::BTreeMap;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

/// Longer than anything takes; a test that reaches it has failed.
const LONG: Duration = Duration::from_secs(300);

/// Scripts that start servers; a key and a certificate, which the client does not verify.
const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/mail");

/// The messages of a test.
const MESSAGES: usize = 1_000;

/// A running server, which stores all mail in one Maildir. Dropping it kills `unshare`, which kills the first process
/// of the namespace, and with it all others.
struct Server {
    child: OwnedChild,
    port: u16,
    shared: PathBuf,
}

impl Server {
    /// Starts a server; nothing if it cannot be had here, which is said.
    fn start(name: &str, shared: &Path) -> Option<Self> {
        let target = Path::new(LANDAU).ancestors().nth(2).unwrap();
        let packages = target.join("mail-servers").join(name);
        if !packages.exists() {
            eprintln!("skipped: {} is missing; cargo xtask test fetches it", packages.display());
            return None;
        }
        if landau_sys::process::effective_user() != 0 {
            eprintln!("skipped: {name} needs root for a mount namespace");
            return None;
        }
        std::fs::create_dir_all(shared).unwrap();
        if let Err(reason) = try_private(&packages, shared) {
            eprintln!("skipped: this system permits no root of its own to {name}: {reason}");
            return None;
        }
        let port = free_port();
        let script = Path::new(SCRIPTS).canonicalize().unwrap().join(format!("{name}.sh"));
        let log = std::fs::File::create(shared.join("log")).unwrap();
        let mut command = private(&packages, &script, shared);
        command.env("PORT", port.to_string()).stdin(Stdio::null());
        let child = OwnedChild::spawn(command.stdout(log.try_clone().unwrap()).stderr(log)).unwrap();
        let mut server = Self { child, port, shared: shared.to_owned() };
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = server.child.try_wait().unwrap();
            assert!(ended.is_none() && began.elapsed() < LONG, "{name} does not start: {}", server.log());
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(server)
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.shared.join("log")).unwrap_or_default()
    }

    /// Waits until so many messages are in the mailbox, and returns them.
    fn messages(&self, count: usize) -> Vec<String> {
        let folder = self.shared.join("mailboxes/all/new");
        let files = || -> Vec<PathBuf> {
            let entries = std::fs::read_dir(&folder).into_iter().flatten();
            entries.map(|entry| entry.unwrap().path()).collect()
        };
        let began = Instant::now();
        while files().len() < count {
            assert!(began.elapsed() < LONG, "{} of {count} messages: {}", files().len(), self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
        files().iter().map(|path| std::fs::read_to_string(path).unwrap()).collect()
    }
}

/// Returns a port that nobody listens at, and that the system gives to nobody who asks for any: the server binds it
/// seconds later.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(20_000);
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    std::iter::repeat_with(|| NEXT.fetch_add(1, Ordering::Relaxed)).take(9_000).find(is_free).expect("a free port")
}

/// Returns the command that runs a script in a root of its own.
fn private(packages: &Path, script: &Path, shared: &Path) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--kill-child", "sh"]).arg(Path::new(SCRIPTS).join("private.sh"));
    command.arg(packages).arg(script).arg(shared);
    command
}

/// Runs an empty script in a root of its own; the error says why that is not possible here.
fn try_private(packages: &Path, shared: &Path) -> Result<(), String> {
    let script = shared.join("empty.sh");
    std::fs::write(&script, ":\n").unwrap();
    let ran = private(packages, &script, shared).output().map_err(|error| error.to_string())?;
    if ran.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&ran.stderr).trim().to_owned()) }
}

/// The message to a recipient, as it is stored. Its lines test what transfers change: dots, empty lines, a long line.
fn message(number: &str) -> String {
    let long = "x".repeat(900);
    format!(
        "From: sender@client.test\nTo: u{number}@d1.example\nDate: Sun, 22 Nov 2026 19:00:00 +0000\n\
         Message-ID: <{number}@client.test>\nSubject: number {number}\n\n.\n..\n.dot\n\n{long}\n\
         From here on {number}\n.\n"
    )
}

/// Sends the messages, and finds each of them exactly once.
fn deliver(name: &str, is_encrypted: bool, more: &[&str]) {
    let room = Room::new();
    let shared = room.file("shared");
    if is_encrypted {
        std::fs::create_dir_all(&shared).unwrap();
        for name in ["key.pem", "cert.pem"] {
            std::fs::copy(Path::new(SCRIPTS).join(name), shared.join(name)).unwrap();
        }
    }
    let Some(server) = Server::start(name, &shared) else { return };
    let list: Vec<String> = (0..MESSAGES).map(|number| format!("u{number}@d1.example,{number}")).collect();
    std::fs::write(room.file("list.csv"), format!("email,number\n{}\n", list.join("\n"))).unwrap();
    std::fs::write(room.file("letter.eml"), message("{{number}}")).unwrap();
    let via = format!("127.0.0.1:{}", server.port);
    let words = ["mail", "list.csv", "--message", "letter.eml", "--from", "sender@client.test", "--via", &via];
    // OpenSMTPD accepts five connections at a time from its queue, and repeats of the others take seconds.
    let how = ["--helo", "client.test", "--sessions", "5", "--per-connection", "90", "--ledger", "ledger", "--quiet"];
    let ran = room.landau(&[&words[..], &how, &["--retry-after", "1s", "--attempts", "20"], more].concat());
    assert_eq!(ran.status, Some(0), "{ran:?}\n{}", server.log());
    if is_encrypted {
        let is_said = |words: &str| server.log().contains(words);
        assert!(is_said("TLS connection established") || is_said("smtp tls "), "no word of TLS: {}", server.log());
    }
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    for text in server.messages(MESSAGES) {
        let start = text.find("From: sender@client.test\n").unwrap();
        let (trace, body) = text.split_at(start);
        let is_trace = |line: &str| line.starts_with(['\t', ' ']) || TRACE.iter().any(|name| line.starts_with(name));
        assert!(trace.lines().all(is_trace), "{trace}");
        *found.entry(body.to_owned()).or_default() += 1;
    }
    let sent: BTreeMap<String, usize> = (0..MESSAGES).map(|number| (message(&number.to_string()), 1)).collect();
    assert_eq!(found.len(), sent.len());
    assert!(found == sent, "a message was changed, lost or delivered twice");
}

/// What servers write above a message.
const TRACE: [&str; 6] =
    ["Return-Path: ", "X-Original-To: ", "Delivered-To: ", "Received: ", "Envelope-to: ", "Delivery-date: "];

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

/// Without OpenSMTPD: the handshake of Debian 12's 6.8.0p2 fails with every client, `openssl s_client` too ("EVP lib").
#[test]
fn postfix_stores_every_message_over_tls() {
    deliver("postfix", true, &["--tls", "required", "--insecure"]);
}
