//! The relay over real sockets: the table of smuggling attempts, and refused clients.

use crate::smuggling::{self, Answer, Attempt};
use crate::support::{Client, LONG, Names, Running, documented};
use landau_mail::relay::{Action, Monitor, Queued, Reception, Relay, Request, ask};
use landau_mail::sink::dns::{Layout, Service};
use landau_mail::sink::mailbox::Mailboxes;
use landau_mail::sink::smtp::Smtp;
use landau_mail::sink::smtp::profile::Profiles;
use landau_mail::{Backoff, Delivery, Observer, Progress, Signer, Source};
use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

struct Silent;

impl Observer for Silent {
    fn progress(&mut self, _: &Progress) {}
}

/// A relay in a thread.
pub(crate) struct Relaying {
    pub(crate) address: SocketAddr,
    monitor: Monitor,
    must_end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Relaying {
    /// Starts a relay with settings modified by `change`.
    pub(crate) fn start(queue: &Path, change: impl FnOnce(&mut Relay)) -> Self {
        let delivery = Delivery::new(Source::File(PathBuf::new()), PathBuf::new());
        let reception = Reception {
            name: "relay.example".to_owned(),
            size_limit: 1 << 20,
            recipients: 100,
            sessions: 100,
            memory: 1 << 24,
            accept_from: Vec::new(),
            certificate: None,
        };
        let mut relay = Relay {
            listen: vec!["127.0.0.1:0".parse().unwrap()],
            reception,
            queue: queue.to_owned(),
            queue_limit: 1 << 30,
            ledger: None,
            lifetime: std::time::Duration::from_secs(1000),
            site_backoff: Backoff { first: Duration::from_secs(300), longest: Duration::from_secs(4000) },
            postmaster: None,
            delivery,
        };
        change(&mut relay);
        let (address, monitor) = (std::sync::mpsc::channel(), Arc::new(AtomicBool::new(false)));
        let (told, must_end) = (address.0, Arc::clone(&monitor));
        let thread = std::thread::spawn(move || {
            let listening = relay.bind().unwrap();
            told.send((listening.addresses()[0].to_string(), listening.monitor())).unwrap();
            listening.run(&mut Silent, &|| must_end.load(Ordering::Relaxed)).unwrap();
        });
        let (bound, seen) = address.1.recv().unwrap();
        Self { address: bound.parse().unwrap(), monitor: seen, must_end: monitor, thread: Some(thread) }
    }

    pub(crate) fn total(&self, name: &str) -> u64 {
        self.monitor.totals().iter().find(|one| one.name == name).unwrap().value
    }
}

impl Drop for Relaying {
    fn drop(&mut self) {
        self.must_end.store(true, Ordering::Relaxed);
        let ended = self.thread.take().unwrap().join();
        // A second panic would hide the first.
        if !std::thread::panicking() {
            ended.unwrap();
        }
    }
}

/// Returns the answer in the table, except that the relay refuses a message with a NUL byte, which it could not pass
/// on.
fn expected(attempt: &Attempt) -> Answer {
    let mut answer = attempt.answer.clone();
    if attempt.bytes.contains(&0) && answer.messages == 1 {
        let accepted = answer.codes.iter().skip_while(|code| **code != 354).position(|code| *code == 250).unwrap();
        let before = answer.codes.iter().position(|code| *code == 354).unwrap();
        answer.codes[before + accepted] = 550;
        answer.messages = 0;
    }
    answer
}

/// The relay behaves as in the table, however the bytes are split. It passes on the attacker's message only if the
/// table counts it as a separate message.
#[test]
fn no_message_is_smuggled_through_the_relay() {
    let attempts = smuggling::attempts();
    assert!(attempts.len() >= 40);
    let room = tempfile::tempdir().unwrap();
    let mail = room.path().join("mail");
    let smtp = Smtp::new("sink.example", Profiles::default(), 1).with_mailboxes(Mailboxes::create(&mail).unwrap());
    let sink = Running::smtp(smtp);
    let relay =
        Relaying::start(&room.path().join("queue"), |relay| relay.delivery.via = Some(sink.address.to_string()));
    let (mut accepted, mut own) = (0, 0);
    for attempt in &attempts {
        for size in [1, 7, usize::MAX] {
            let mut client = Client::connect(relay.address);
            let (codes, closes) = client.attempt(attempt, size);
            let before = std::mem::replace(&mut accepted, relay.total("messages_accepted"));
            let messages = (accepted - before) as usize;
            own += messages.saturating_sub(1);
            assert_eq!(Answer { codes, closes, messages }, expected(attempt), "{} by {size}", attempt.name);
        }
    }
    let began = Instant::now();
    while relay.total("recipients_left") + relay.total("recipients_deferred") > 0
        || sink.remote.total("messages") < accepted
    {
        assert!(began.elapsed() < LONG, "{} of {accepted} messages", sink.remote.total("messages"));
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(sink.remote.total("messages"), accepted);
    let smuggled = std::fs::read_dir(mail.join("v@y/new")).unwrap().count();
    assert_eq!(smuggled, own);
}

/// The hosts of one domain take no mail and do not answer. Its recipients could fill the memory for recipients, but
/// mail to other domains must still pass.
#[test]
fn a_site_that_does_not_answer_leaves_room_to_others() {
    let layout = Layout { domains: 2, sites: 2, ..Layout::default() };
    let names = Names::start(&Service { layout, ..Service::default() });
    // Three addresses for each site: those of the first one are dead.
    let dead: Vec<String> = (0..3).map(|host| format!("[host.\"127.1.0.{host}\"]\nsilent = 1.0\n")).collect();
    let hosts = Running::smtp_at(Smtp::new("sink.example", dead.concat().parse().unwrap(), 1), "127.0.0.0/8:0");
    let room = tempfile::tempdir().unwrap();
    let relay = Relaying::start(&room.path().join("queue"), |relay| {
        relay.delivery.name_server = Some(names.streams.address);
        relay.delivery.smtp_port = hosts.address.port();
        relay.delivery.active = 30;
    });
    let mut client = Client::connect(relay.address);
    assert_eq!([client.reply(), client.command("EHLO c")], [220, 250]);
    let mut send = |domain: &str| {
        client.send(format!("MAIL FROM:<a@x>\r\nRCPT TO:<u@{domain}>\r\nDATA\r\n").as_bytes());
        assert_eq!([client.reply(), client.reply(), client.reply()], [250, 250, 354]);
        assert_eq!(client.command("Subject: a\r\n\r\nb\r\n."), 250);
    };
    let mut messages = 0;
    for domain in ["d1.example", "d2.example"] {
        for _ in 0..100 {
            send(domain);
        }
        for _ in 0..20 {
            send(if domain == "d1.example" { "d2.example" } else { "d1.example" });
        }
        messages += 120;
    }
    assert_eq!(relay.total("messages_accepted"), messages);
    // One of the two has all its hosts alive.
    let began = std::time::Instant::now();
    while hosts.remote.total("messages") < 120 {
        assert!(began.elapsed() < LONG, "{} messages arrived", hosts.remote.total("messages"));
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(relay.total("recipients_left") > 0, "the other one does not answer");
}

fn mailbox(mail: &Path, address: &str) -> Vec<String> {
    let Ok(files) = std::fs::read_dir(mail.join(address).join("new")) else { return Vec::new() };
    files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect()
}

/// Addresses count as memory like content, so a client cannot exhaust it with recipients.
#[test]
fn recipients_count_as_memory_of_the_message() {
    let room = tempfile::tempdir().unwrap();
    let relay = Relaying::start(&room.path().join("queue"), |relay| {
        relay.delivery.via = Some("127.0.0.1:1".to_owned());
        relay.reception.memory = 4096;
    });
    let mut client = Client::connect(relay.address);
    assert_eq!([client.reply(), client.command("EHLO c")], [220, 250]);
    let long = "x".repeat(60);
    // The memory is free again after each transaction.
    for _ in 0..3 {
        assert_eq!(client.command("MAIL FROM:<>"), 250);
        let codes: Vec<i32> = (10..50).map(|number| client.command(&format!("RCPT TO:<{long}{number}@y>"))).collect();
        let accepted = codes.iter().take_while(|code| **code == 250).count();
        assert!((20..40).contains(&accepted) && codes[accepted..].iter().all(|code| *code == 452), "{codes:?}");
        assert_eq!(client.command("RSET"), 250);
    }
}

/// The session once ended at the twentieth of them, so a message with many recipients was never sent. RFC 5321 section
/// 4.5.3.1.10: the message is sent to the accepted recipients, and then to the others.
#[test]
fn recipients_over_the_limit_do_not_end_the_session() {
    let room = tempfile::tempdir().unwrap();
    let relay = Relaying::start(&room.path().join("queue"), |relay| {
        relay.delivery.via = Some("127.0.0.1:1".to_owned());
        relay.reception.recipients = 2;
    });
    let mut client = Client::connect(relay.address);
    assert_eq!([client.reply(), client.command("EHLO c")], [220, 250]);
    let offer = |client: &mut Client, count: usize| {
        client.send(format!("MAIL FROM:<>\r\n{}", "RCPT TO:<a@y>\r\n".repeat(2 + count)).as_bytes());
        assert_eq!([(); 3].map(|()| client.reply()), [250; 3]);
        assert_eq!((0..count).find(|_| client.reply() != 452), None);
    };
    for count in [30, 1000] {
        offer(&mut client, count);
        assert_eq!([client.command("DATA"), client.command("Subject: a\r\n\r\nb\r\n.")], [354, 250]);
    }
    // A client that does not stop is not a sender of mail.
    offer(&mut client, 1020);
    assert_eq!([client.reply(), client.reply()], [421, 0]);
    assert_eq!((relay.total("messages_accepted"), relay.total("recipients_accepted")), (2, 4));
}

/// Returns a relay whose next server offers only these extensions and stores its mail in `mail`.
fn relaying_to_a_sink_with(extensions: &str, room: &Path) -> (Running, Relaying) {
    let profile = format!("[default]\nextensions = [{extensions}]").parse::<Profiles>().unwrap();
    let mailboxes = Mailboxes::create(&room.join("mail")).unwrap();
    let sink = Running::smtp(Smtp::new("sink.example", profile, 1).with_mailboxes(mailboxes));
    let relay = Relaying::start(&room.join("queue"), |relay| relay.delivery.via = Some(sink.address.to_string()));
    (sink, relay)
}

/// Mail that the next server cannot take is returned with the reason.
#[test]
fn mail_beyond_ascii_fails_where_it_is_not_offered() {
    let room = tempfile::tempdir().unwrap();
    let mail = room.path().join("mail");
    let (_sink, relay) = relaying_to_a_sink_with("\"PIPELINING\", \"SIZE\"", room.path());
    let mut client = Client::connect(relay.address);
    assert_eq!([client.reply(), client.command("EHLO c")], [220, 250]);
    assert_eq!([client.command("MAIL FROM:<a@x>"), client.command("RCPT TO:<\u{e9}@y>")], [250, 553]);
    for (from, to, header) in [
        ("<a@x>", "<b1@y>", "Subject: a\r\n\r\n\u{e9}"),
        ("<a@x> SMTPUTF8", "<b2@y>", "Subject: \u{e9}\r\n\r\nb"),
        ("<a@x> SMTPUTF8", "<\u{e9}@y>", "Subject: a\r\n\r\nb"),
        ("<\u{e9}@x> SMTPUTF8", "<b3@y>", "Subject: a\r\n\r\nb"),
        ("<a@x> SMTPUTF8", "<b4@y>", "Subject: a\r\n\r\nb"),
    ] {
        assert_eq!(client.command("RSET"), 250);
        let commands = [format!("MAIL FROM:{from}"), format!("RCPT TO:{to}"), "DATA".to_owned()];
        assert_eq!(commands.map(|command| client.command(&command)), [250, 250, 354], "{from} {to}");
        assert_eq!(client.command(&format!("{header}\r\n.")), 250);
    }
    // One of the four reports waits: the server accepts no non-ASCII addresses.
    let began = Instant::now();
    let counts = || ["sent", "failed", "deferred"].map(|state| relay.total(&format!("recipients_{state}")));
    while counts() != [4, 4, 1] {
        assert!(began.elapsed() < LONG, "{:?}", counts());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!((mailbox(&mail, "b4@y").len(), relay.total("reports")), (1, 4));
    let reports = mailbox(&mail, "a@x");
    assert!(reports.len() == 3 && reports.iter().all(|text| text.is_ascii()), "{reports:?}");
    assert!(reports.iter().any(|text| text.contains("\r\nStatus: 5.6.3\r\n")), "{reports:?}");
}

/// The unconverted name of the client once made every message require SMTPUTF8.
#[test]
fn the_name_of_a_client_beyond_ascii_is_converted_in_the_trace() {
    let room = tempfile::tempdir().unwrap();
    let mail = room.path().join("mail");
    let (_sink, relay) = relaying_to_a_sink_with("\"PIPELINING\"", room.path());
    for (number, (hello, expected)) in
        [("b\u{fc}cher.test", "xn--bcher-kva.test"), ("\u{301}a.test", "unknown"), ("C.Test", "C.Test")]
            .into_iter()
            .enumerate()
    {
        let mut client = Client::connect(relay.address);
        assert_eq!([client.reply(), client.command(&format!("EHLO {hello}"))], [220, 250]);
        let commands = ["MAIL FROM:<>", &format!("RCPT TO:<u{number}@y>"), "DATA", "Subject: a\r\n\r\nb\r\n."];
        assert_eq!(commands.map(|command| client.command(command)), [250, 250, 354, 250]);
        let began = Instant::now();
        while relay.total("recipients_sent") <= number as u64 {
            assert!(began.elapsed() < LONG, "{hello}: {} failed", relay.total("recipients_failed"));
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let text = mailbox(&mail, &format!("u{number}@y")).remove(0);
        assert!(text.is_ascii() && text.starts_with(&format!("Received: from {expected} ([")), "{text}");
    }
}

/// Returns the lines received by a server that answers EHLO with `offer`.
fn heard(listener: TcpListener, offer: &'static str) -> std::sync::mpsc::Receiver<String> {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        (&stream).write_all(b"220 a\r\n").unwrap();
        while let Some(Ok(line)) = lines.next() {
            let reply = match &line[..4] {
                "EHLO" => offer,
                "DATA" => "354 go\r\n",
                "MAIL" | "RCPT" | "RSET" | "QUIT" => "250 ok\r\n",
                _ if line == "." => "250 ok\r\n",
                _ => "",
            };
            (&stream).write_all(reply.as_bytes()).unwrap();
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// A server that answers 421 to each connection until it is opened.
struct Gate {
    address: SocketAddr,
    is_open: Arc<AtomicBool>,
    connections: Arc<AtomicUsize>,
}

impl Gate {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, connections) = (listener.local_addr().unwrap(), Arc::<AtomicUsize>::default());
        let is_open = Arc::new(AtomicBool::new(false));
        let (opened, counted) = (Arc::clone(&is_open), Arc::clone(&connections));
        // The thread ends with the process.
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                counted.fetch_add(1, Ordering::Relaxed);
                if opened.load(Ordering::Relaxed) {
                    std::thread::spawn(move || serve(&stream));
                } else {
                    let _ = stream.write_all(b"421 4.3.2 no service\r\n");
                }
            }
        });
        Self { address, is_open, connections }
    }
}

/// Accepts all mail of a connection.
fn serve(mut stream: &std::net::TcpStream) {
    let _ = stream.write_all(b"220 a\r\n");
    let mut is_content = false;
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        let reply: &[u8] = match (is_content, &*line) {
            (true, ".") => b"250 ok\r\n",
            (true, _) => continue,
            (false, "DATA") => b"354 go\r\n",
            (false, _) => b"250 ok\r\n",
        };
        is_content = line == "DATA" || (is_content && line != ".");
        if stream.write_all(reply).is_err() {
            return;
        }
    }
}

/// Every message that arrived for a server that takes no mail was once tried, as was each waiting message when it was
/// due.
#[test]
fn a_site_that_answers_421_is_not_tried_for_each_message() {
    let (room, gate) = (tempfile::tempdir().unwrap(), Gate::start());
    let queue = room.path().join("queue");
    let relay = Relaying::start(&queue, |relay| relay.delivery.via = Some(gate.address.to_string()));
    let mut client = Client::connect(relay.address);
    assert_eq!([client.reply(), client.command("EHLO c")], [220, 250]);
    let wait_for = |what: &str, count: u64| {
        let began = Instant::now();
        while relay.total(what) != count {
            assert!(began.elapsed() < LONG, "{what}: {} and not {count}", relay.total(what));
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let connections = || gate.connections.load(Ordering::Relaxed);
    let flush = || ask(&queue, &Request::new(Action::Flush, HashSet::new()), &mut |_| Ok(()), &mut |_| {}).unwrap();
    for sent in 1..=20 {
        client.send(b"MAIL FROM:<a@x>\r\nRCPT TO:<u@y>\r\nDATA\r\n");
        assert_eq!([client.reply(), client.reply(), client.reply()], [250, 250, 354]);
        assert_eq!(client.command("Subject: a\r\n\r\nb\r\n."), 250);
        wait_for("recipients_deferred", sent);
    }
    let first = connections();
    assert!(first <= 5, "{first} connections");
    let counts = ["sites_suspended", "suspensions", "probes", "recipients_suspended"];
    assert_eq!(counts.map(|name| relay.total(name)), [1, 1, 0, 19]);
    let mut reasons = Vec::new();
    let request = Request::new(Action::List, HashSet::new());
    let each = &mut |message: Queued| {
        assert!(message.due_in_ms.is_some_and(|due_ms| due_ms > 200_000), "{message:?}");
        reasons.push(message.reason.unwrap());
        Ok(())
    };
    ask(&queue, &request, each, &mut |note| panic!("{note}")).unwrap();
    let is_suspended = |reason: &&String| reason.contains("delivery temporarily suspended: ");
    assert_eq!(reasons.iter().filter(is_suspended).count(), 19, "{reasons:?}");
    assert!(reasons.iter().all(|reason| reason.contains("421 4.3.2 no service")), "{reasons:?}");
    // The user flushes the queue: one connection probes the site for all messages.
    flush();
    wait_for("suspensions", 2);
    wait_for("recipients_deferred", 20);
    assert_eq!((relay.total("probes"), connections()), (1, first + 1));
    gate.is_open.store(true, Ordering::Relaxed);
    flush();
    wait_for("recipients_sent", 20);
    assert_eq!((relay.total("sites_suspended"), relay.total("recipients_deferred")), (0, 0));
}

#[test]
fn what_the_sender_asks_for_is_passed_on() {
    let room = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap();
    let lines = heard(listener, "250-a\r\n250-SMTPUTF8\r\n250 DSN\r\n");
    let relay = Relaying::start(&room.path().join("queue"), |relay| {
        relay.delivery.via = Some(server.to_string());
        relay.delivery.limits.initial = 1;
        relay.delivery.batch = 10;
    });
    let mut client = Client::connect(relay.address);
    assert_eq!([client.reply(), client.command("EHLO c")], [220, 250]);
    assert_eq!(client.command("MAIL FROM:<a@x> RET=FULL ENVID=id+2B1"), 250);
    assert_eq!(client.command("RCPT TO:<b@y> NOTIFY=SUCCESS,DELAY ORCPT=rfc822;first@y"), 250);
    assert_eq!([client.command("RCPT TO:<c@y> NOTIFY=NEVER"), client.command("RCPT TO:<d@y>")], [250, 250]);
    assert_eq!([client.command("DATA"), client.command("Subject: a\r\n\r\nb\r\n.")], [354, 250]);
    let found: Vec<String> = lines.iter().take_while(|line| line != "DATA").filter(|line| &line[4..5] == " ").collect();
    let expected = [
        "EHLO localhost",
        "MAIL FROM:<a@x> RET=FULL ENVID=id+2B1",
        "RCPT TO:<b@y> NOTIFY=SUCCESS,DELAY ORCPT=rfc822;first@y",
        "RCPT TO:<c@y> NOTIFY=NEVER",
        "RCPT TO:<d@y>",
    ];
    assert_eq!(found, expected);
    drop(lines);
}

#[test]
fn the_relay_signs_for_its_domain_only() {
    let room = tempfile::tempdir().unwrap();
    let mail = room.path().join("mail");
    let smtp = Smtp::new("sink.example", Profiles::default(), 1).with_mailboxes(Mailboxes::create(&mail).unwrap());
    let sink = Running::smtp(smtp);
    let relay = Relaying::start(&room.path().join("queue"), |relay| {
        relay.delivery.via = Some(sink.address.to_string());
        let key = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/keys/ed25519.pem");
        relay.delivery.signer = Some(Arc::new(Signer::read(&key, "own.example", "s1").unwrap()));
    });
    let mut client = Client::connect(relay.address);
    assert_eq!([client.reply(), client.command("EHLO c")], [220, 250]);
    for from in ["own.example", "other.example"] {
        let commands = [format!("MAIL FROM:<a@{from}>"), format!("RCPT TO:<{from}@y>"), "DATA".to_owned()];
        assert_eq!(commands.map(|command| client.command(&command)), [250, 250, 354]);
        assert_eq!(client.command(&format!("From: a@{from}\r\n\r\n..b\r\n.")), 250);
    }
    let began = Instant::now();
    while sink.remote.total("messages") < 2 {
        assert!(began.elapsed() < LONG, "{} of 2 messages", sink.remote.total("messages"));
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let [own, other] = ["own.example@y", "other.example@y"].map(|address| mailbox(&mail, address).remove(0));
    assert!(own.starts_with("DKIM-Signature: v=1; a=ed25519-sha256; s=s1; d=own.example;"), "{own}");
    assert!(other.starts_with("Received: ") && own.ends_with("\r\n\r\n.b\r\n"), "{other}{own}");
}

/// A non-ASCII original recipient requires SMTPUTF8 or an encoded form (RFC 6533).
#[test]
fn an_original_recipient_beyond_ascii_is_passed_on_in_ascii() {
    let room = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap();
    let lines = heard(listener, "250-a\r\n250 DSN\r\n");
    let relay = Relaying::start(&room.path().join("queue"), |relay| relay.delivery.via = Some(server.to_string()));
    let mut client = Client::connect(relay.address);
    assert_eq!([client.reply(), client.command("EHLO c")], [220, 250]);
    let rcpt = "RCPT TO:<b@y> ORCPT=utf-8;\u{e9}@y";
    assert_eq!([client.command("MAIL FROM:<a@x>"), client.command(rcpt)], [250, 553]);
    assert_eq!([client.command("RSET"), client.command("MAIL FROM:<a@x> SMTPUTF8"), client.command(rcpt)], [250; 3]);
    assert_eq!([client.command("DATA"), client.command("Subject: a\r\n\r\nb\r\n.")], [354, 250]);
    let found = loop {
        let line = lines.recv_timeout(LONG).unwrap();
        if line.starts_with("RCPT") {
            break line;
        }
    };
    assert_eq!(found, "RCPT TO:<b@y> ORCPT=utf-8;\\x{E9}@y");
}

/// The report to a non-ASCII sender waits in the queue for a server that accepts the address, where the user can see
/// it, or is sent to the postmaster at once.
#[test]
fn a_report_that_the_senders_server_cannot_take_is_not_lost() {
    for postmaster in [None, Some("p@x")] {
        let room = tempfile::tempdir().unwrap();
        let (mail, queue) = (room.path().join("mail"), room.path().join("queue"));
        let profile = "[default]\nextensions = [\"PIPELINING\", \"8BITMIME\"]\n".parse::<Profiles>().unwrap();
        let smtp = Smtp::new("sink.example", profile, 1).with_mailboxes(Mailboxes::create(&mail).unwrap());
        let sink = Running::smtp(smtp);
        let relay = Relaying::start(&queue, |relay| {
            relay.delivery.via = Some(sink.address.to_string());
            relay.postmaster = postmaster.map(str::to_owned);
        });
        let mut client = Client::connect(relay.address);
        assert_eq!([client.reply(), client.command("EHLO c")], [220, 250]);
        let commands = ["MAIL FROM:<s\u{e9}@x> SMTPUTF8", "RCPT TO:<b@y>", "DATA", "Subject: a\r\n\r\nb\r\n."];
        assert_eq!(commands.map(|command| client.command(command)), [250, 250, 354, 250]);
        let is_settled = || match postmaster {
            None => relay.total("recipients_deferred") == 1,
            Some(_) => relay.total("recipients_sent") == 1,
        };
        let began = Instant::now();
        while !is_settled() {
            assert!(began.elapsed() < LONG, "{postmaster:?}: {} failed", relay.total("recipients_failed"));
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let mut listed = Vec::new();
        let request = Request::new(Action::List, HashSet::new());
        let each = &mut |message: Queued| {
            listed.push((message.to, message.reason));
            Ok(())
        };
        ask(&queue, &request, each, &mut |note| panic!("{note}")).unwrap();
        assert_eq!((relay.total("reports"), relay.total("double_bounces")), (1 + postmaster.iter().len() as u64, 0));
        match postmaster {
            None => {
                let [(to, Some(reason))] = &listed[..] else { panic!("{listed:?}") };
                assert!(to[0] == "s\u{e9}@x" && reason.contains("5.6.7 the recipient's address"), "{listed:?}");
            }
            Some(address) => {
                assert_eq!((listed.len(), relay.total("recipients_failed")), (0, 2));
                let report = mailbox(&mail, address).remove(0);
                assert!(report.contains("To: <p@x>\r\n") && report.contains("message/global\r\n"), "{report}");
                assert!(report.contains("To: <s\u{e9}@x>\r\n"), "{report}");
            }
        }
    }
}

/// The envelope of a message counts towards the size of the queue like its content.
#[test]
fn recipients_count_as_room_in_the_queue() {
    let room = tempfile::tempdir().unwrap();
    let queue = room.path().join("queue");
    let relay = Relaying::start(&queue, |relay| {
        relay.delivery.via = Some("127.0.0.1:1".to_owned());
        (relay.queue_limit, relay.reception.recipients) = (1 << 20, 1000);
    });
    let mut client = Client::connect(relay.address);
    assert_eq!([client.reply(), client.command("EHLO c")], [220, 250]);
    let rcpt = format!("RCPT TO:<u@d> ORCPT=rfc822;{}\r\n", "x".repeat(400));
    let mut codes = Vec::new();
    for _ in 0..4 {
        client.send(format!("MAIL FROM:<>\r\n{}DATA\r\n", rcpt.repeat(1000)).as_bytes());
        let replies: Vec<i32> = (0..1002).map(|_| client.reply()).collect();
        assert!(replies[..1001].iter().all(|code| *code == 250) && replies[1001] == 354, "{replies:?}");
        codes.push(client.command("Subject: a\r\n\r\nb\r\n."));
    }
    assert!(codes[0] == 250 && codes[3] == 452, "{codes:?}");
    let files = std::fs::read_dir(queue).unwrap().map(|file| file.unwrap().metadata().unwrap().len());
    assert!(files.sum::<u64>() <= 1 << 20);
}

#[test]
fn the_document_has_each_counter_of_a_relay() {
    let room = tempfile::tempdir().unwrap();
    let relay = Relaying::start(room.path(), |relay| relay.delivery.via = Some("127.0.0.1:9".to_owned()));
    let totals = relay.monitor.totals();
    let counters: Vec<(&str, &str)> = totals.iter().map(|one| (one.name, one.about)).collect();
    assert_eq!(documented("The counters of a relay:"), counters);
    let gauges: Vec<&str> = totals.iter().filter(|one| one.is_gauge).map(|one| one.name).collect();
    assert_eq!(gauges, ["recipients_deferred", "recipients_left", "messages_held", "sites_suspended"]);
}
