//! Other programs send mail to `landau sink smtp` and to a relay: swaks, `openssl s_client`, Postfix's smtp-source,
//! and Postfix itself. `cargo xtask test` installs Debian's packages of swaks and openssl, and fetches Postfix.

use crate::relay::{Running, mailbox};
use crate::support::{LANDAU, Room, eventually};
use landau_sys::process::OwnedChild;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// The time limit of a program, in seconds; one that takes longer hangs.
const SECONDS: &str = "120";

/// Returns a command with a time limit, in case its program hangs.
fn bounded(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("timeout");
    command.arg(SECONDS).arg(program);
    command
}

/// Returns a port below the ephemeral range, and a socket that reserves it against other tests. The name of the socket
/// is abstract: the kernel removes it with the process. Each process starts the search at a different port.
#[cfg(target_os = "linux")]
fn own_port() -> (u16, UnixDatagram) {
    use std::os::linux::net::SocketAddrExt;
    const PORTS: std::ops::RangeInclusive<u16> = 30_000..=31_999;
    let count = PORTS.len() as u32;
    let free = (0..count).find_map(|at| {
        let port = PORTS.start() + ((std::process::id() + at) % count) as u16;
        let name = std::os::unix::net::SocketAddr::from_abstract_name(format!("landau-test-port-{port}"));
        let lock = UnixDatagram::bind_addr(&name.unwrap()).ok()?;
        std::net::TcpListener::bind(("127.0.0.1", port)).ok().map(|_| (port, lock))
    });
    free.unwrap()
}

#[test]
#[cfg(target_os = "linux")]
fn tests_at_the_same_time_get_different_ports() {
    let ((first, _lock), (second, _other)) = (own_port(), own_port());
    assert_ne!(first, second);
}

/// Returns whether swaks supports STARTTLS; if not, prints that this part is skipped.
fn has_tls() -> bool {
    let output = Command::new("perl").args(["-MNet::SSLeay", "-e", "1"]).output();
    let is_there = output.is_ok_and(|output| output.status.success());
    if !is_there {
        eprintln!("skipped: STARTTLS of swaks, without libnet-ssleay-perl; cargo xtask test installs it");
    }
    is_there
}

/// Returns whether a program is installed; if not, prints that the test is skipped.
fn has(program: &str) -> bool {
    let is_there = Command::new(program).arg("--help").output().is_ok();
    if !is_there {
        eprintln!("skipped: {program} is missing; cargo xtask test installs it");
    }
    is_there
}

/// Returns the directory with Postfix's packages. If there is none, prints that the test is skipped.
fn postfix() -> Option<PathBuf> {
    let packages = Path::new(LANDAU).ancestors().nth(2)?.join("mail-servers/postfix");
    if packages.exists() {
        return Some(packages);
    }
    eprintln!("skipped: {} is missing; cargo xtask test fetches it", packages.display());
    None
}

/// Starts a sink that stores mail, and a relay that delivers to it. Both offer STARTTLS.
fn receivers(room: &Room) -> (Running, Running) {
    let sink = Running::sink(room, &["--starttls"]);
    let relay = Running::relay(room, sink.address, &["--starttls", "--tls", "required", "--insecure"]);
    (sink, relay)
}

fn said(output: &Output) -> String {
    format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn swaks_delivers_plain_pipelined_and_encrypted() {
    if !has("swaks") {
        return;
    }
    let ways: &[&[&str]] = &[&[], &["--pipeline"], &["--protocol", "SMTP"], &["--tls"], &["--tls", "--pipeline"]];
    let ways = if has_tls() { ways } else { &ways[..3] };
    let room = Room::new();
    let (mut sink, mut relay) = receivers(&room);
    let mut sent = 0;
    for address in [sink.address, relay.address] {
        for how in ways {
            let mut command = bounded("swaks");
            command.args(["--server", &address.ip().to_string(), "--port", &address.port().to_string()]);
            command.args(["--from", "s@client.test", "--to", "a@d.example", "--helo", "client.test"]).args(*how);
            let output = command.args(["--body", "line\n.dot\n"]).output().unwrap();
            assert!(output.status.success(), "{how:?}: {}", said(&output));
            sent += 1;
        }
    }
    relay.drain();
    assert_eq!(sink.totals()["messages"], sent);
    let mail = mailbox(&room, "a@d.example");
    assert!(mail.len() == sent && mail.iter().all(|text| text.contains("\r\n.dot\r\n")), "{mail:?}");
    assert!(mail.iter().filter(|text| text.contains("with ESMTPS id")).count() == ways.len() - 3, "{mail:?}");
    relay.end();
    sink.end();
}

#[test]
fn openssl_does_the_handshake() {
    if !has("openssl") {
        return;
    }
    let room = Room::new();
    let (sink, relay) = receivers(&room);
    for address in [sink.address, relay.address] {
        for version in ["-tls1_2", "-tls1_3"] {
            let mut command = bounded("openssl");
            command.args([
                "s_client",
                "-starttls",
                "smtp",
                "-quiet",
                "-crlf",
                "-connect",
                &address.to_string(),
                version,
            ]);
            let mut child =
                command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            // While standard input is open, it reads until the server closes the connection.
            let mut input = child.stdin.take().unwrap();
            std::io::Write::write_all(&mut input, b"EHLO c\nMAIL FROM:<a@b>\nQUIT\n").unwrap();
            let output = child.wait_with_output().unwrap();
            drop(input);
            let text = said(&output);
            assert!(text.contains("250 2.1.0 Ok") && text.contains("221 2.0.0 Bye"), "{version}: {text}");
        }
    }
    relay.end();
    sink.end();
}

#[test]
fn smtp_source_is_satisfied() {
    let Some(packages) = postfix() else { return };
    let root = packages.join("usr");
    let libraries = [root.join("lib/postfix"), root.join(format!("lib/{}-linux-gnu", std::env::consts::ARCH))];
    let room = Room::new();
    let (mut sink, mut relay) = receivers(&room);
    let (mut messages, mut recipients) = (0_u64, 0_u64);
    for address in [sink.address, relay.address] {
        for (how, each) in [(&[][..], 1), (&["-d"], 1), (&["-r", "3"], 3)] {
            let mut command = bounded(root.join("sbin/smtp-source"));
            command.env("LD_LIBRARY_PATH", std::env::join_paths(&libraries).unwrap());
            command.args(["-s", "10", "-m", "300", "-l", "3000", "-f", "s@client.test", "-t", "a@d.example"]).args(how);
            let output = command.arg(format!("{}:{}", address.ip(), address.port())).output().unwrap();
            assert!(output.status.success() && output.stderr.is_empty(), "{how:?}: {}", said(&output));
            (messages, recipients) = (messages + 300, recipients + 300 * each);
        }
    }
    let totals = relay.drain();
    assert_eq!((&totals["messages_accepted"], &totals["errors"]), (&(messages / 2).into(), &0.into()), "{totals}");
    let totals = sink.totals();
    assert_eq!((&totals["recipients"], &totals["errors"]), (&recipients.into(), &0.into()), "{totals}");
    relay.end();
    sink.end();
}

/// Returns whether the server at a port greets with this name.
fn greets(port: u16, name: &str) -> bool {
    let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut greeting = String::new();
    let was_read = BufReader::new(stream).read_line(&mut greeting).is_ok();
    was_read && greeting.starts_with(&format!("220 {name} "))
}

/// Starts Postfix, which relays all mail to `to`. Returns `None`, and prints the reason, if that is not possible here.
/// The socket reserves its port.
#[cfg(target_os = "linux")]
fn start_postfix(packages: &Path, shared: &Path, to: SocketAddr) -> Option<(OwnedChild, u16, UnixDatagram)> {
    if landau_sys::process::effective_user() != 0 {
        eprintln!("skipped: postfix needs root for a mount namespace");
        return None;
    }
    let scripts = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/mail")).canonicalize().unwrap();
    std::fs::create_dir_all(shared).unwrap();
    let (port, lock) = own_port();
    // Another Postfix may listen on this port nevertheless.
    let name = format!("postfix-{}-{port}.test", std::process::id());
    let log = File::create(shared.join("log")).unwrap();
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--kill-child", "sh"]).arg(scripts.join("private.sh"));
    command.arg(packages).arg(scripts.join("postfix.sh")).arg(shared);
    command.env("NAME", &name).env("PORT", port.to_string()).env("RELAY", to.port().to_string()).stdin(Stdio::null());
    let mut child = OwnedChild::spawn(command.stdout(log.try_clone().unwrap()).stderr(log)).unwrap();
    let listens = || greets(port, &name) || child.try_wait().unwrap().is_some();
    assert!(eventually(listens), "postfix neither starts nor ends");
    let text = std::fs::read_to_string(shared.join("log")).unwrap();
    if text.contains("unshare failed") {
        eprintln!("skipped: this system permits no root of its own to postfix: {text}");
        return None;
    }
    assert!(child.try_wait().unwrap().is_none(), "{text}");
    Some((child, port, lock))
}

/// Mail for 200 recipients goes through Postfix to the sink or the relay, encrypted, and arrives complete and exactly
/// once.
#[test]
#[cfg(target_os = "linux")]
fn postfix_is_satisfied() {
    const MESSAGES: usize = 200;
    let Some(packages) = postfix() else { return };
    for to_relay in [false, true] {
        let room = Room::new();
        let (mut sink, mut relay) = receivers(&room);
        let to = if to_relay { relay.address } else { sink.address };
        let shared = room.file("shared");
        let Some((_postfix, port, _lock)) = start_postfix(&packages, &shared, to) else { return };
        let list: Vec<String> = (0..MESSAGES).map(|number| format!("a@d.example,{number}")).collect();
        std::fs::write(room.file("list.csv"), format!("email,number\n{}\n", list.join("\n"))).unwrap();
        std::fs::write(room.file("letter.eml"), "From: s@client.test\nSubject: {{number}}\n\n.dot\n\u{e9}\n").unwrap();
        let via = format!("127.0.0.1:{port}");
        let words = ["mail", "list.csv", "--message", "letter.eml", "--from", "s@client.test", "--via", &via];
        let ran = room.landau(&[&words[..], &["--ledger", "ledger", "--quiet", "--retry-after", "1s"]].concat());
        let log = || std::fs::read_to_string(shared.join("log")).unwrap_or_default();
        assert_eq!(ran.status, Some(0), "{ran:?}\n{}", log());
        assert!(eventually(|| sink.totals()["messages"] == MESSAGES), "{}\n{}", sink.totals(), log());
        let mut subjects: Vec<String> = mailbox(&room, "a@d.example")
            .iter()
            .map(|text| {
                assert!(text.ends_with("\r\n\r\n.dot\r\n\u{e9}\r\n"), "{text}");
                text.split("\r\nSubject: ").nth(1).unwrap().split("\r\n").next().unwrap().to_owned()
            })
            .collect();
        subjects.sort();
        let mut expected: Vec<String> = (0..MESSAGES).map(|number| number.to_string()).collect();
        expected.sort();
        assert_eq!(subjects, expected);
        let encrypted = if to_relay { relay.totals() } else { sink.totals() }["encrypted"].as_u64().unwrap();
        assert!(encrypted > 0, "{}", log());
        relay.drain();
        relay.end();
        sink.end();
    }
}
