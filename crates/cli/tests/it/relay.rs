//! `landau mail --relay` as an operator uses it: mail that passes through it to mailboxes, refusals, and reports.

use crate::support::Room;
use landau_sys::process::OwnedChild;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Longer than any step takes; a test that reaches it has failed.
pub(crate) const LONG: Duration = Duration::from_secs(120);

/// A running sink or relay.
pub(crate) struct Running {
    child: OwnedChild,
    /// The lines of its output, read by a thread, so that a hanging process does not block the test.
    lines: Receiver<String>,
    pub(crate) address: SocketAddr,
}

impl Running {
    fn new(room: &Room, words: &[&str]) -> Self {
        Self::start(&mut room.command(words))
    }

    /// Starts it with a command.
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = OwnedChild::spawn(command.stdout(Stdio::piped()).stderr(Stdio::inherit())).unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        // The thread ends with the process or with the test.
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let address = SocketAddr::from(([0; 4], 0));
        let mut running = Self { child, lines, address };
        running.address = running.line()["listening"][0]["address"].as_str().unwrap().parse().unwrap();
        running
    }

    /// Starts a sink that stores messages in the directory `mail`.
    pub(crate) fn sink(room: &Room, more: &[&str]) -> Self {
        let words = ["sink", "smtp", "--maildir", "mail", "--listen", "127.0.0.1:0", "--json"];
        Self::new(room, &[&words[..], more].concat())
    }

    /// Starts a relay that delivers to a server.
    pub(crate) fn relay(room: &Room, via: SocketAddr, more: &[&str]) -> Self {
        let via = via.to_string();
        let words = ["mail", "--relay", "--queue", "queue", "--via", &via, "--listen", "127.0.0.1:0", "--json"];
        Self::new(
            room,
            &[
                &words[..],
                &["--retry-after", "100ms", "--minimal-backoff-time", "100ms", "--maximal-backoff-time", "1s"],
                more,
            ]
            .concat(),
        )
    }

    /// Returns the next line that it prints.
    fn line(&mut self) -> serde_json::Value {
        let line =
            self.lines.recv_timeout(LONG).unwrap_or_else(|error| panic!("no line: {error}; {}", self.describe()));
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"))
    }

    /// Describes the state of the process.
    pub(crate) fn describe(&mut self) -> String {
        let pid = self.child.id();
        match self.child.try_wait() {
            Ok(Some(status)) => format!("process {pid} has ended: {status}"),
            Ok(None) => {
                let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
                format!("process {pid} is running: {}", stat.chars().take(60).collect::<String>())
            }
            Err(error) => format!("process {pid}: {error}"),
        }
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Kills the process, and waits for it to end.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn signal(&self, name: &str) {
        assert!(Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap().success());
    }

    pub(crate) fn totals(&mut self) -> serde_json::Value {
        self.signal("-USR1");
        self.line()
    }

    /// Waits until the queue of the relay is empty. Panics if nothing changes for two minutes.
    pub(crate) fn drain(&mut self) -> serde_json::Value {
        let (mut last, mut since) = (serde_json::Value::Null, Instant::now());
        loop {
            let totals = self.totals();
            check_sum(&totals);
            if totals["recipients_left"] == 0 && totals["recipients_deferred"] == 0 {
                return totals;
            }
            if totals != last {
                (last, since) = (totals, Instant::now());
            }
            assert!(since.elapsed() < LONG, "the queue does not empty: {last}; {}", self.describe());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends the process and returns the counters.
    pub(crate) fn end(mut self) -> serde_json::Value {
        self.signal("-TERM");
        let totals = self.line();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        totals
    }
}

/// Checks that every recipient is in exactly one state: those in the queue at the start, those accepted, and those of
/// reports.
pub(crate) fn check_sum(totals: &serde_json::Value) {
    let count = |name: &str| totals[name].as_u64().unwrap_or_else(|| panic!("{name} is missing: {totals}"));
    let states = ["sent", "deferred", "failed", "deleted", "left"].map(|state| count(&format!("recipients_{state}")));
    let known = count("recipients_found") + count("recipients_accepted") + count("reports");
    assert_eq!(states.iter().sum::<u64>(), known, "{totals}");
}

/// A client.
pub(crate) struct Client(BufReader<TcpStream>);

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> std::io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(LONG))?;
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::new(stream)))
    }

    fn send(&mut self, text: &str) -> std::io::Result<()> {
        self.0.get_mut().write_all(text.as_bytes())
    }

    /// Receives a reply. Returns an error if the connection ends first.
    pub(crate) fn reply(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        loop {
            line.clear();
            if self.0.read_line(&mut line)? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            if line.as_bytes().get(3) != Some(&b'-') {
                return Ok(line);
            }
        }
    }

    pub(crate) fn command(&mut self, text: &str) -> std::io::Result<String> {
        self.send(&format!("{text}\r\n"))?;
        self.reply()
    }

    /// Sends a message with pipelined commands. Returns the last reply.
    pub(crate) fn deliver(&mut self, from: &str, to: &[&str], content: &str) -> std::io::Result<String> {
        let rcpt = to.join(">\r\nRCPT TO:<");
        self.send(&format!("MAIL FROM:<{from}>\r\nRCPT TO:<{rcpt}>\r\nDATA\r\n"))?;
        for _ in 0..=to.len() {
            let reply = self.reply()?;
            assert!(reply.starts_with("250 "), "{reply}");
        }
        let reply = self.reply()?;
        assert!(reply.starts_with("354 "), "{reply}");
        self.send(&format!("{content}\r\n.\r\n"))?;
        self.reply()
    }
}

/// Returns the messages in the mailbox of an address.
pub(crate) fn mailbox(room: &Room, address: &str) -> Vec<String> {
    let Ok(files) = std::fs::read_dir(room.file("mail").join(address).join("new")) else { return Vec::new() };
    files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect()
}

#[test]
fn mail_passes_with_a_trace_and_the_queue_is_empty_after_it() {
    let room = Room::new();
    let sink = Running::sink(&room, &[]);
    let mut relay = Running::relay(&room, sink.address, &["--helo", "relay.example", "--ledger", "ledger"]);
    let mut client = Client::connect(relay.address).unwrap();
    assert!(client.reply().unwrap().starts_with("220 relay.example "));
    assert!(client.command("EHLO client.example").unwrap().starts_with("250 "));
    let content = "Subject: {{a}}\r\n\r\n..dot\r\nb";
    for number in 0..20 {
        let reply = client.deliver("s@x.example", &["a@d.example", "b@d.example"], content).unwrap();
        assert!(reply.starts_with("250 2.0.0 "), "{number}: {reply}");
    }
    // A chunk whose last line is not terminated, and the null sender.
    let chunk = "Subject: b\r\n\r\nc";
    client
        .send(&format!("MAIL FROM:<> SIZE=20\r\nRCPT TO:<postmaster>\r\nBDAT {} LAST\r\n{chunk}", chunk.len()))
        .unwrap();
    let replies: Vec<String> = (0..3).map(|_| client.reply().unwrap()).collect();
    assert!(replies.iter().all(|reply| reply.starts_with("250 ")), "{replies:?}");
    let totals = relay.drain();
    assert_eq!((&totals["recipients_sent"], &totals["messages_accepted"]), (&41.into(), &21.into()));
    let files: Vec<_> = std::fs::read_dir(room.file("queue")).unwrap().map(|file| file.unwrap().file_name()).collect();
    relay.end();
    sink.end();
    // The lock, the socket, and both files of the open segment.
    assert!(files.len() <= 4, "{files:?}");
    let mail = mailbox(&room, "b@d.example");
    assert_eq!(mail.len(), 20);
    let (trace, rest) = mail[0].split_once("Subject:").unwrap();
    assert!(
        trace.starts_with("Received: from client.example ([127.0.0.1])\r\n\tby relay.example with ESMTP id "),
        "{trace}"
    );
    assert_eq!(rest, " {{a}}\r\n\r\n.dot\r\nb\r\n");
    let mail = mailbox(&room, "postmaster@relay.example");
    assert!(mail.len() == 1 && mail[0].ends_with("\r\nSubject: b\r\n\r\nc\r\n"), "{mail:?}");
    let ledger = std::fs::read_to_string(room.file("ledger")).unwrap();
    assert_eq!(ledger.matches("\"state\":\"sent\"").count(), 41, "{ledger}");
}

#[test]
fn a_relay_does_nothing_but_deliver() {
    let room = Room::new();
    let words =
        ["mail", "--relay", "--listen", "127.0.0.1:0", "--queue", "q", "--via", "127.0.0.1:1", "--mode", "rset"];
    let ran = room.landau(&words);
    assert_eq!(ran.status, Some(2));
    assert!(ran.err.contains("omit --mode"), "{}", ran.err);
}

#[test]
fn limits_are_answered_and_loops_refused() {
    let room = Room::new();
    let sink = Running::sink(&room, &[]);
    let limits = ["--size-limit", "4KiB", "--clients", "2", "--recipients-limit", "100", "--queue-limit", "1MiB"];
    let relay = Running::relay(&room, sink.address, &limits);
    let mut client = Client::connect(relay.address).unwrap();
    client.reply().unwrap();
    assert!(client.command("MAIL FROM:<>").unwrap().starts_with("503 "));
    client.command("EHLO c").unwrap();
    assert!(client.command("MAIL FROM:<> SIZE=5000").unwrap().starts_with("552 5.3.4 "));
    assert!(client.command("MAIL FROM:<> BODY=BINARYMIME").unwrap().starts_with('5'));
    let large = "x".repeat(70) + "\r\n";
    let reply = client.deliver("", &["a@b"], &large.repeat(60)).unwrap();
    assert!(reply.starts_with("552 5.3.4 "), "{reply}");
    let reply = client.deliver("", &["a@b"], &("Received: x\r\n".repeat(101) + "\r\nb")).unwrap();
    assert!(reply.starts_with("554 5.4.6 "), "{reply}");
    let reply = client.deliver("", &["a@b"], "a\0b").unwrap();
    assert!(reply.starts_with("550 5.6.0 "), "{reply}");
    client.command("MAIL FROM:<>").unwrap();
    for _ in 0..100 {
        assert!(client.command("RCPT TO:<a@b>").unwrap().starts_with("250 "));
    }
    assert!(client.command("RCPT TO:<a@b>").unwrap().starts_with("452 4.5.3 "));
    let mut second = Client::connect(relay.address).unwrap();
    assert!(second.reply().unwrap().starts_with("220 "));
    let mut third = Client::connect(relay.address).unwrap();
    assert!(third.reply().unwrap().starts_with("421 4.3.2 "));
    let totals = relay.end();
    assert_eq!((&totals["messages_accepted"], &totals["loops"], &totals["busy"]), (&0.into(), &1.into(), &1.into()));
    sink.end();
}

#[test]
fn a_full_queue_is_answered_with_452_and_empties_when_the_server_is_back() {
    let room = Room::new();
    // The second sink reuses the address of the first. Only this test uses 127.0.0.2, so no other process takes it in
    // between.
    let sink = Running::new(&room, &["sink", "smtp", "--maildir", "mail", "--listen", "127.0.0.2:0", "--json"]);
    let (address, via) = (sink.address, sink.address.to_string());
    sink.end();
    let mut relay = Running::relay(&room, address, &["--queue-limit", "1MiB"]);
    let mut client = Client::connect(relay.address).unwrap();
    client.reply().unwrap();
    client.command("EHLO c").unwrap();
    let content = format!("Subject: a\r\n\r\n{}", ("x".repeat(70) + "\r\n").repeat(500));
    let mut accepted = 0_u64;
    loop {
        if client.command("MAIL FROM:<s@x>").unwrap().starts_with("452 4.3.1 ") {
            break;
        }
        client.command("RSET").unwrap();
        let reply = client.deliver("s@x", &["a@d"], &content).unwrap();
        if reply.starts_with("452 4.3.1 ") {
            break;
        }
        assert!(reply.starts_with("250 "), "{reply}");
        accepted += 1;
        assert!(accepted < 100);
    }
    assert!(accepted > 20, "{accepted}");
    std::fs::remove_dir_all(room.file("mail")).unwrap();
    let sink = Running::new(&room, &["sink", "smtp", "--maildir", "mail", "--listen", &via, "--json"]);
    let totals = relay.drain();
    assert_eq!(totals["recipients_sent"], accepted);
    assert!(client.deliver("s@x", &["a@d"], &content).unwrap().starts_with("250 "), "there is room again");
    relay.drain();
    relay.end();
    sink.end();
    assert_eq!(mailbox(&room, "a@d").len() as u64, accepted + 1);
}

/// The sender of a message that the next server refuses receives a report, through the queue of the relay.
#[test]
fn a_failure_comes_back_to_the_sender() {
    let room = Room::new();
    std::fs::write(room.file("profile.toml"), "[domain.\"bad.example\"]\npermanent = 1.0\n").unwrap();
    let sink = Running::sink(&room, &["--profile", "profile.toml"]);
    let mut relay = Running::relay(&room, sink.address, &["--helo", "relay.example"]);
    let mut client = Client::connect(relay.address).unwrap();
    client.reply().unwrap();
    client.command("EHLO c").unwrap();
    let mut say = |text: &str| client.command(text).unwrap();
    assert!(say("MAIL FROM:<s@x.example> RET=HDRS ENVID=QQ").starts_with("250 "));
    assert!(say("RCPT TO:<a@good.example> NOTIFY=SUCCESS,FAILURE").starts_with("250 "));
    assert!(say("RCPT TO:<b@bad.example> ORCPT=rfc822;first@x.example").starts_with("250 "));
    assert!(say("RCPT TO:<c@bad.example> NOTIFY=NEVER").starts_with("250 "));
    assert!(say("DATA").starts_with("354 "));
    assert!(say("Subject: lost\r\n\r\nbody\r\n.").starts_with("250 "));
    let totals = relay.drain();
    assert_eq!((&totals["recipients_failed"], &totals["reports"]), (&2.into(), &1.into()), "{totals}");
    relay.end();
    sink.end();
    let reports = mailbox(&room, "s@x.example");
    assert_eq!(reports.len(), 1, "{reports:?}");
    for text in [
        "From: Mail Delivery System <MAILER-DAEMON@relay.example>\r\nTo: <s@x.example>\r\n",
        "Reporting-MTA: dns; relay.example\r\nOriginal-Envelope-Id: QQ\r\n",
        "Original-Recipient: rfc822; first@x.example\r\nFinal-Recipient: rfc822; b@bad.example\r\nAction: failed\r\n",
        "Subject: lost\r\n",
    ] {
        assert!(reports[0].contains(text), "{text} in {}", reports[0]);
    }
    assert!(!reports[0].contains("c@bad.example") && !reports[0].contains("body"), "{}", reports[0]);
    assert_eq!(mailbox(&room, "a@good.example").len(), 1);
}
