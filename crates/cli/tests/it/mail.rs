//! `landau mail` as a user types it: refused options, and runs that are killed and resumed.

use crate::support::{LANDAU, Ran, Room, eventually, is_root};
use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// The state of a server.
#[derive(Default)]
struct Seen {
    /// The recipients, in the order in which the server accepted their messages.
    accepted: Vec<String>,
    /// The recipients that the ledger has recorded as sent.
    recorded: HashSet<String>,
    /// The recipients to which mail was sent although the ledger had recorded them.
    repeated: Vec<String>,
    /// The process to kill, and the number of messages until then.
    kill: Option<(u32, usize)>,
}

/// An SMTP server that offers PIPELINING and accepts everything.
struct Sink {
    port: u16,
    seen: Arc<Mutex<Seen>>,
    open: Arc<AtomicU32>,
}

impl Sink {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let sink = Self { port, seen: Arc::default(), open: Arc::default() };
        let (seen, open) = (Arc::clone(&sink.seen), Arc::clone(&sink.open));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (seen, open) = (Arc::clone(&seen), Arc::clone(&open));
                open.fetch_add(1, Ordering::SeqCst);
                std::thread::spawn(move || {
                    // A killed client resets its connections.
                    let _ = serve(&stream, &seen);
                    open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        sink
    }
}

fn serve(stream: &TcpStream, seen: &Mutex<Seen>) -> std::io::Result<()> {
    let (mut input, mut out) = (BufReader::new(stream), b"220 sink\r\n".to_vec());
    let (mut line, mut recipients, mut is_content) = (String::new(), Vec::new(), false);
    loop {
        if input.buffer().is_empty() {
            (&*stream).write_all(&out)?;
            out.clear();
        }
        line.clear();
        if input.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let reply = match line.get(..4).unwrap_or(&line) {
            ".\r\n" if is_content => {
                is_content = false;
                accept(&mut recipients, &mut seen.lock().unwrap());
                "250 accepted"
            }
            _ if is_content => continue,
            "EHLO" => "250-sink\r\n250 PIPELINING",
            "RCPT" => {
                let address = line.split(['<', '>']).nth(1).unwrap_or_default();
                recipients.push(address.to_owned());
                "250 ok"
            }
            "DATA" => {
                is_content = true;
                "354 go on"
            }
            _ => "250 ok",
        };
        out.extend_from_slice(reply.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
}

fn accept(recipients: &mut Vec<String>, seen: &mut Seen) {
    for address in recipients.drain(..) {
        if seen.recorded.contains(&address) {
            seen.repeated.push(address.clone());
        }
        seen.accepted.push(address);
    }
    match &mut seen.kill {
        Some((pid, 0)) => {
            // The process may already have ended.
            let _ = landau_sys::process::kill(*pid);
            seen.kill = None;
        }
        Some((_, left)) => *left -= 1,
        None => {}
    }
}

/// Returns the recipients that a ledger has recorded as sent, once for each record.
fn sent(ledger: &str) -> Vec<String> {
    let lines = ledger.split_inclusive('\n').filter(|line| line.ends_with('\n')).skip(1);
    let values = lines.map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    values.filter(|value| value["state"] == "sent").map(|value| value["to"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_killed_run_is_continued_and_nobody_is_sent_to_after_the_ledger_has_them() {
    const RECIPIENTS: usize = 3_000;
    let (room, sink) = (Room::new(), Sink::start());
    std::fs::write(room.file("letter"), "Subject: a\n\nb\n").unwrap();
    let via = format!("127.0.0.1:{}", sink.port);
    let count = RECIPIENTS.to_string();
    let words = ["mail", "--recipients", &count, "--domains", "7", "--message", "letter", "--via", &via, "--quiet"];
    let mut kills = 0;
    let outcome = loop {
        let mut child = room.command(&[&words[..], &["--ledger", "l", "--sessions", "9", "--json"]].concat());
        let child = child.stdout(std::process::Stdio::piped()).spawn().unwrap();
        sink.seen.lock().unwrap().kill = Some((child.id(), 40 + 37 * (kills % 5)));
        let output = child.wait_with_output().unwrap();
        assert!(eventually(|| sink.open.load(Ordering::SeqCst) == 0), "the server still has connections");
        let mut seen = sink.seen.lock().unwrap();
        seen.kill = None;
        let ledger = std::fs::read_to_string(room.file("l")).unwrap_or_default();
        seen.recorded.extend(sent(&ledger));
        if output.status.success() {
            break output;
        }
        kills += 1;
        assert!(kills < 200, "no progress: {} of {RECIPIENTS} recorded", seen.recorded.len());
    };
    let outcome: serde_json::Value = serde_json::from_slice(&outcome.stdout).unwrap();
    assert_eq!(outcome["recipients"]["done"], RECIPIENTS);
    let mut recorded = sent(&std::fs::read_to_string(room.file("l")).unwrap());
    recorded.sort();
    recorded.dedup();
    let seen = sink.seen.lock().unwrap();
    let accepted: HashSet<&String> = seen.accepted.iter().collect();
    assert_eq!((recorded.len(), accepted.len()), (RECIPIENTS, RECIPIENTS));
    assert!(kills > 10, "{kills} kills");
    assert!(seen.repeated.is_empty(), "sent to again: {:?}", seen.repeated);
}

#[test]
fn public_servers_and_missing_messages_are_refused() {
    let room = Room::new();
    std::fs::write(room.file("list"), "a@b.test\n").unwrap();
    std::fs::write(room.file("letter"), "Subject: a\n\nb\n").unwrap();
    let refused = |words: &[&str], expected: &str| {
        let ran = room.landau(&[&["mail", "list", "--ledger", "l", "--quiet"], words].concat());
        assert!(ran.status == Some(2) && ran.err.contains(expected), "{words:?}: {ran:?}");
    };
    let public = ["--message", "letter", "--via", "192.0.2.1:25"];
    refused(&public, "add --allow-host 192.0.2.1 --yes-send-to-public");
    refused(&[&public[..], &["--allow-host", "192.0.2.1"]].concat(), "--yes-send-to-public");
    refused(&[&public[..], &["--allow-host", "192.0.2.2", "--yes-send-to-public"]].concat(), "--allow-host 192.0.2.1");
    refused(&["--via", "127.0.0.1:9"], "--message FILE is required");
    let report = ["--via", "127.0.0.1:9", "--message", "letter", "--report", "./l"];
    refused(&report, "--ledger and --report name the same file: ./l");
    refused(&["--via", "127.0.0.1:x", "--message", "letter"], "write HOST:PORT");
    refused(&["--via", "127.0.0.1:9", "--message", "letter", "--from", "a b@c"], "--from a b@c: malformed address");
}

/// Waits until both sinks are ready, while they run, for two minutes at most.
const AWAIT_SINKS: &str = r#"
    await_sinks() {
        for i in $(seq 2400); do
            [ -s dns ] && [ -s smtp ] && return
            kill -0 $d && kill -0 $s || break
            sleep 0.05
        done
        echo "a sink is not ready" >&2
        exit 1
    }
"#;

/// In a separate network namespace whose `/etc/resolv.conf` names a sink, the system's resolver finds the same servers
/// as `--name-server`. This includes domains with truncated answers, without MX, with a null MX, and nonexistent ones.
#[test]
#[cfg(target_os = "linux")]
fn the_systems_resolver_finds_what_a_named_server_does() {
    const SCRIPT: &str = r#"
        printf 'nameserver 127.0.0.1\n' > resolv.conf
        ip link set lo up && mount --bind resolv.conf /etc/resolv.conf || { echo cannot; exit 0; }
        odd="--null-mx 0.1 --no-mx 0.1 --nonexistent 0.1 --truncated 0.2"
        "$0" sink dns --listen 127.0.0.1:53 $odd --json > dns & d=$!
        "$0" sink smtp --listen 0.0.0.0:25 --json > smtp & s=$!
        trap 'kill $d $s; wait' EXIT
        await_sinks
        "$0" mail list --mode rset --ledger named --name-server 127.0.0.1 --json
        "$0" mail list --mode rset --ledger configured --json
    "#;
    if !is_root() {
        eprintln!("skipped: namespaces of its own need root");
        return;
    }
    let room = Room::new();
    let list: Vec<String> = (1..=80).map(|number| format!("u@d{number:04}.example")).collect();
    std::fs::write(room.file("list"), list.join("\n")).unwrap();
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "bash", "-c", &[AWAIT_SINKS, SCRIPT].concat(), LANDAU]).current_dir(room.path());
    let ran = Ran::of(command.output().unwrap());
    if ran.out.trim() == "cannot" || (ran.out.is_empty() && ran.err.starts_with("unshare:")) {
        eprintln!("skipped: this system permits no network of its own: {ran:?}");
        return;
    }
    let outcomes: Vec<serde_json::Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [named, configured] = &outcomes[..] else { panic!("{ran:?}") };
    assert_eq!(configured["recipients"], named["recipients"], "{ran:?}");
    let count = |state: &str| named["recipients"][state].as_u64().unwrap();
    assert!(count("done") > 40 && count("failed") > 4 && count("done") + count("failed") == 80, "{named}");
}

/// In a separate network namespace, IPv6 is first enabled and then disabled. Hosts with addresses of both families
/// receive their mail at once, and hosts without IPv4 later.
#[test]
#[cfg(target_os = "linux")]
fn without_ipv6_mail_goes_to_ipv4_addresses() {
    const SCRIPT: &str = r#"
        ip link set lo up && echo 0 > /proc/sys/net/ipv6/conf/all/disable_ipv6 || { echo cannot; exit 0; }
        "$0" sink dns --dual-stack 0.5 --ipv6-only 0.5 --no-mx 0.3 --json > dns & d=$!
        "$0" sink smtp --listen :2525 --json > smtp & s=$!
        trap 'kill $d $s; wait' EXIT
        await_sinks
        mail() { "$0" mail list --mode rset --ledger $1 --name-server 127.0.0.1:5353 --smtp-port 2525 \
            --retry-after 1ms --json; }
        mail with
        echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6
        mail without
    "#;
    let room = Room::new();
    let list: Vec<String> = (1..=80).map(|number| format!("u@d{number:04}.example")).collect();
    std::fs::write(room.file("list"), list.join("\n")).unwrap();
    let mut command = Command::new("unshare");
    command
        .args(["--net", "--map-root-user", "bash", "-c", &[AWAIT_SINKS, SCRIPT].concat(), LANDAU])
        .current_dir(room.path());
    let ran = Ran::of(command.output().unwrap());
    if ran.out.trim() == "cannot" || (ran.out.is_empty() && ran.err.starts_with("unshare:")) {
        eprintln!("skipped: this system permits no network of its own, or has no IPv6: {ran:?}");
        return;
    }
    let outcomes: Vec<serde_json::Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [with, without] = &outcomes[..] else { panic!("{ran:?}") };
    assert_eq!((&with["recipients"]["done"], with["lost_connections"].as_array().unwrap().len()), (&80.into(), 0));
    let count = |state: &str| without["recipients"][state].as_u64().unwrap();
    assert!(count("done") > 20 && count("failed") == 0 && count("done") + count("deferred") + count("left") == 80);
    assert!(without["reasons"].as_array().unwrap().is_empty(), "{without}");
    let lost = without["lost_connections"].to_string();
    assert!(lost.contains("ENETUNREACH") && !without["notes"].to_string().contains("limiting to "), "{without}");
    // Hosts with both families are reached without an attempt over IPv6.
    assert!(!lost.contains("ECONNREFUSED"), "{without}");
}

#[test]
fn a_report_is_a_page_that_loads_nothing() {
    let (room, sink) = (Room::new(), Sink::start());
    std::fs::write(room.file("m.eml"), "Subject: x\n\ny\n").unwrap();
    let via = format!("127.0.0.1:{}", sink.port);
    let words = ["mail", "--recipients", "50", "--domains", "5", "--message", "m.eml", "--via", &via];
    let ran = room.landau(&[&words[..], &["--ledger", "l", "--report", "page.html", "--quiet"]].concat());
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let page = std::fs::read_to_string(room.file("page.html")).unwrap();
    assert!(page.contains("<h1>50 of 50 recipients sent</h1>") && page.contains("d5.example"), "{page}");
    assert!(!page.contains("<script") && !page.contains("://"), "nothing is loaded or executed");
    for heading in
        ["Throughput over time", "Latency by phase", "Domains", "Deferred and failed", "Connections refused or lost"]
    {
        assert!(page.contains(&format!("{heading}</h2>")), "{heading}");
    }
    // The message is not a page, which must be detected before the delivery begins.
    let other = ["--ledger", "l2", "--report", "m.eml"];
    let ran = room.landau(&[&words[..], &other].concat());
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(!room.file("l2").exists());
}

/// With Zipf's law the largest of three domains has 6 of 11 recipients, and determines the duration of the run.
#[test]
fn the_time_of_the_largest_domain_is_named() {
    let (room, sink) = (Room::new(), Sink::start());
    std::fs::write(room.file("m.eml"), "Subject: x\n\ny\n").unwrap();
    let via = format!("127.0.0.1:{}", sink.port);
    let words = ["mail", "--recipients", "1100", "--domains", "3", "--zipf", "1", "--message", "m.eml", "--via", &via];
    let ran = room.landau(&[&words[..], &["--ledger", "l", "--report", "page.html", "--quiet", "--json"]].concat());
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let outcome: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let largest = &outcome["largest_domain"];
    assert_eq!(largest["domain"], "d1.example", "{outcome}");
    let share = largest["share_of_elapsed"].as_f64().unwrap();
    assert!(share > 0.0 && share <= 1.0 && largest["own_ns"].as_u64().unwrap() > 0, "{largest}");
    let recipients = outcome["domains"][0]["done"].as_u64().unwrap();
    assert!((540..=660).contains(&recipients), "{recipients}");
    assert!(std::fs::read_to_string(room.file("page.html")).unwrap().contains("d1.example"));
}
