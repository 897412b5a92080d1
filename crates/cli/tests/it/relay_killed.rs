//! Repeated kill -9 of a relay under load, with a server that defers some of its mail and refuses some.
//!
//! After each kill every recipient of a message that was acknowledged is in the queue, in its mailbox, or in a report
//! to the sender. While a relay runs, its counters add up.

use crate::relay::{Client, LONG, Running, check_sum};
use crate::support::Room;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const SENDERS: u64 = 4;
const SESSIONS: u64 = 8;

/// The maximum number of messages that are acknowledged but not delivered. It bounds what each restart must read.
const MOST_WAITING: u64 = 500;

/// The server's profile: depending on the domain, it defers the first two attempts for each address, or refuses all.
const PROFILE: &str = "[domain.\"later.test\".temporary]\nshare = 1.0\nattempts = 2\n\n\
                       [domain.\"bad.test\"]\npermanent = 1.0\n";

/// Returns the recipients of a message: two that receive it, and one that the server refuses.
fn recipients(number: u64) -> [String; 3] {
    ["a@good.test".to_owned(), format!("b{}@later.test", number / 20), "c@bad.test".to_owned()]
}

/// The state that the senders share.
#[derive(Default)]
struct Flow {
    /// The number of the next message.
    next: AtomicU64,
    /// The number of messages that the server has accepted.
    delivered: AtomicU64,
    connected: AtomicU64,
    must_end: AtomicBool,
    /// The numbers of the messages that were acknowledged, by their identifiers.
    acknowledged: Mutex<BTreeMap<u64, u64>>,
}

impl Flow {
    /// Returns whether enough messages are still undelivered.
    fn is_enough(&self) -> bool {
        // For each message the server accepts two copies and a report. Messages that a kill cut off before they were
        // acknowledged do not count.
        let sent = self.acknowledged.lock().unwrap().len() as u64 + SENDERS;
        sent > self.delivered.load(Ordering::Relaxed) / 3 + MOST_WAITING
    }

    /// Sends messages on a connection until it is lost.
    fn send_until_lost(&self, address: std::net::SocketAddr) -> std::io::Result<()> {
        let mut client = Client::connect(address)?;
        client.reply()?;
        client.command("EHLO c")?;
        self.connected.fetch_add(1, Ordering::Relaxed);
        while !self.must_end.load(Ordering::Relaxed) {
            if self.is_enough() {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let to = recipients(number);
            let content = format!("Subject: {number}\r\n\r\nx");
            let reply = client.deliver("s@x.test", &to.each_ref().map(String::as_str), &content)?;
            let id = reply.trim_end().strip_prefix("250 2.0.0 Ok: queued as ").unwrap_or_else(|| panic!("{reply}"));
            self.acknowledged.lock().unwrap().insert(u64::from_str_radix(id, 16).unwrap(), number);
        }
        Ok(())
    }
}

/// The messages and reports found in mailboxes.
#[derive(Default)]
struct Arrived {
    /// How often each message was delivered, by its number and the index of the recipient.
    messages: HashMap<(u64, usize), u64>,
    /// How often each report was delivered, by its identifier, and the number of its message.
    reports: BTreeMap<u64, (u64, u64)>,
}

impl Arrived {
    /// Collects and removes the contents of the mailboxes.
    fn collect(&mut self, mailboxes: &Path) {
        let Ok(all) = std::fs::read_dir(mailboxes) else { return };
        for mailbox in all.map(Result::unwrap) {
            let name = mailbox.file_name().into_string().unwrap();
            // The sink creates the directories of a mailbox one by one.
            let Ok(files) = std::fs::read_dir(mailbox.path().join("new")) else { continue };
            for file in files.map(|file| file.unwrap().path()) {
                self.add(&name, &std::fs::read_to_string(&file).unwrap());
                std::fs::remove_file(file).unwrap();
            }
        }
    }

    fn add(&mut self, mailbox: &str, text: &str) {
        let subject = |text: &str| text.rsplit("\nSubject: ").next()?.split("\r\n").next()?.parse().ok();
        let number: u64 = subject(text).unwrap_or_else(|| panic!("{mailbox}: {text}"));
        if mailbox == "s@x.test" {
            assert!(text.contains("Final-Recipient: rfc822; c@bad.test\r\nAction: failed\r\n"), "{text}");
            let id = text.split("boundary=\"=_").nth(1).and_then(|rest| rest.split('.').next()).unwrap();
            self.reports.entry(u64::from_str_radix(id, 16).unwrap()).or_insert((number, 0)).1 += 1;
            return;
        }
        let index = recipients(number).iter().position(|address| address == mailbox);
        let index = index.unwrap_or_else(|| panic!("message {number} came to {mailbox}"));
        *self.messages.entry((number, index)).or_default() += 1;
    }

    /// Returns the number of duplicates among messages and reports.
    fn copies(&self) -> u64 {
        self.messages.values().chain(self.reports.values().map(|(_, count)| count)).map(|count| count - 1).sum()
    }
}

/// A server, and a relay that is killed repeatedly.
struct Siege {
    room: Room,
    sink: Running,
    flow: Arc<Flow>,
    arrived: Arrived,
    /// The recipients of acknowledged messages that were not in the queue after a kill, by identifier and index.
    settled: HashSet<(u64, usize)>,
    /// The number of recipients in the queue after the last kill.
    queued: u64,
    kill: u64,
    began: Instant,
}

impl Siege {
    fn new() -> Self {
        let room = Room::new();
        std::fs::write(room.file("profile.toml"), PROFILE).unwrap();
        let sink = Running::sink(&room, &["--profile", "profile.toml"]);
        let (flow, arrived, settled) = (Arc::default(), Arrived::default(), HashSet::new());
        Self { room, sink, flow, arrived, settled, queued: 0, kill: 0, began: Instant::now() }
    }

    /// Describes the progress of the test in one line.
    fn describe(&mut self, relay: Option<&mut Running>) -> String {
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let flow = &self.flow;
        format!(
            "kill {}, {:.0} s, load {}; {} messages begun, {} acknowledged, {} taken, {} senders connected; \
             the queue had {} recipients at the last kill; relay: {}; sink: {}",
            self.kill,
            self.began.elapsed().as_secs_f64(),
            load.trim_end(),
            flow.next.load(Ordering::Relaxed),
            flow.acknowledged.lock().unwrap().len(),
            flow.delivered.load(Ordering::Relaxed),
            flow.connected.load(Ordering::Relaxed),
            self.queued,
            relay.map_or_else(|| "ended".to_owned(), Running::describe),
            self.sink.describe()
        )
    }

    fn start(&self) -> Running {
        let sessions = SESSIONS.to_string();
        let more = ["--sessions", &sessions, "--initial", &sessions, "--ledger", "ledger", "--sync", "never"];
        Running::relay(&self.room, self.sink.address, &more)
    }

    fn senders(&self, relay: &Running) -> Vec<JoinHandle<()>> {
        self.flow.must_end.store(false, Ordering::Relaxed);
        self.flow.connected.store(0, Ordering::Relaxed);
        let sender = |_| {
            let (flow, address) = (Arc::clone(&self.flow), relay.address);
            // The connection is lost when the relay is killed.
            std::thread::spawn(move || drop(flow.send_until_lost(address)))
        };
        (0..SENDERS).map(sender).collect()
    }

    /// Returns the counters of a relay. Checks that they add up, and that the relay has found what the previous one
    /// left.
    fn totals(&mut self, relay: &mut Running) -> serde_json::Value {
        let totals = relay.totals();
        check_sum(&totals);
        let is_all = totals["recipients_found"] == self.queued;
        assert!(is_all, "the relay found other recipients: {totals}; {}", self.describe(Some(relay)));
        totals
    }

    /// Waits until a relay has delivered `messages` messages under load, and kills it.
    fn round(&mut self, messages: u64) {
        self.kill += 1;
        let mut relay = self.start();
        let senders = self.senders(&relay);
        let taken = |sink: &mut Running| sink.totals()["messages"].as_u64().unwrap();
        let target = taken(&mut self.sink) + messages;
        let (mut last, mut since) = (0, Instant::now());
        // A sender that is not connected yet could later reach another process at the port of the killed relay.
        while last < target || self.flow.connected.load(Ordering::Relaxed) < SENDERS {
            let now = taken(&mut self.sink);
            self.flow.delivered.store(now, Ordering::Relaxed);
            self.totals(&mut relay);
            if now != last {
                (last, since) = (now, Instant::now());
            }
            let is_alive = since.elapsed() < LONG && !relay.has_ended();
            assert!(is_alive, "no progress to {target} messages: {}", self.describe(Some(&mut relay)));
            std::thread::sleep(Duration::from_millis(1));
        }
        relay.kill();
        self.flow.must_end.store(true, Ordering::Relaxed);
        for sender in senders {
            sender.join().unwrap();
        }
        self.check(Some(&mut relay));
    }

    /// Returns the recipients in the queue, by message. It reads a copy, so that the next relay finds the queue as the
    /// kill has left it.
    fn left(&self) -> BTreeMap<u64, Vec<String>> {
        let copy = self.room.file("copy");
        std::fs::create_dir(&copy).unwrap();
        for file in std::fs::read_dir(self.room.file("queue")).unwrap().map(Result::unwrap) {
            if file.file_type().unwrap().is_file() {
                std::fs::copy(file.path(), copy.join(file.file_name())).unwrap();
            }
        }
        let ran = self.room.landau(&["queue", "copy", "--json"]);
        assert_eq!(ran.status, Some(0), "{}", ran.err);
        std::fs::remove_dir_all(copy).unwrap();
        let message = |line: &str| {
            let message: serde_json::Value = serde_json::from_str(line).unwrap();
            let id = u64::from_str_radix(message["id"].as_str().unwrap(), 16).unwrap();
            (id, serde_json::from_value(message["to"].clone()).unwrap())
        };
        ran.out.lines().map(message).collect()
    }

    /// Checks the state of each acknowledged recipient, after a relay was killed or has ended.
    fn check(&mut self, relay: Option<&mut Running>) {
        let left = self.left();
        // Read after the queue: the server had already accepted everything that is no longer in the queue.
        self.arrived.collect(&self.room.file("mail"));
        self.queued = left.values().map(|to| to.len() as u64).sum();
        let acknowledged = self.flow.acknowledged.lock().unwrap().clone();
        let reported: HashSet<u64> = self.arrived.reports.values().map(|(number, _)| *number).collect();
        let (mut lost, mut again, mut unreported) = (Vec::new(), Vec::new(), 0);
        for (&id, &number) in &acknowledged {
            for (index, address) in recipients(number).into_iter().enumerate() {
                let is_left = left.get(&id).is_some_and(|to| to.contains(&address));
                match (is_left, index) {
                    (true, _) if self.settled.contains(&(id, index)) => again.push((number, address)),
                    (true, _) => {}
                    (false, 2) => unreported += usize::from(!reported.contains(&number)),
                    (false, _) if self.arrived.messages.contains_key(&(number, index)) => {}
                    (false, _) => lost.push((number, address)),
                }
                if !is_left {
                    self.settled.insert((id, index));
                }
            }
        }
        let is_report = |id: &&u64| !acknowledged.contains_key(id) && left[id] == ["s@x.test"];
        let waiting = left.keys().filter(is_report).filter(|id| !self.arrived.reports.contains_key(id)).count();
        let some = |all: &[(u64, String)]| format!("{} recipients, such as {:?}", all.len(), &all[..all.len().min(5)]);
        let wrong = [
            (!lost.is_empty(), format!("acknowledged and lost: {}", some(&lost))),
            (!again.is_empty(), format!("settled and in the queue again: {}", some(&again))),
            (unreported > waiting, format!("{unreported} failures are not reported, and {waiting} reports are queued")),
        ];
        let wrong: Vec<String> = wrong.into_iter().filter(|(is_wrong, _)| *is_wrong).map(|(_, text)| text).collect();
        assert!(wrong.is_empty(), "{}; {}", wrong.join("; "), self.describe(relay));
    }

    /// Delivers the rest, and checks that everything was delivered or reported exactly once.
    fn finish(mut self) -> String {
        self.kill += 1;
        let mut relay = self.start();
        self.totals(&mut relay);
        relay.drain();
        relay.end();
        let mut relay = self.start();
        self.queued = 0;
        self.totals(&mut relay);
        // A running relay deletes files, so it is ended before the check.
        relay.end();
        self.check(None);
        self.sink.end();
        let Self { room, flow, arrived, kill, .. } = self;
        let acknowledged = flow.acknowledged.lock().unwrap();
        let reported: BTreeSet<u64> = arrived.reports.values().map(|(number, _)| *number).collect();
        assert_eq!(reported.len(), arrived.reports.len(), "a failure was reported twice");
        let missing = acknowledged.values().filter(|number| !reported.contains(number)).count();
        assert_eq!(missing, 0, "acknowledged, refused by the server, and not reported");
        let deferred = check_ledger(&std::fs::read_to_string(room.file("ledger")).unwrap());
        assert!(deferred > 0, "the server deferred nothing");
        // In one batch of events, a session may read the reply to a message and send the next one before either is
        // recorded.
        let (copies, kills) = (arrived.copies(), kill - 1);
        assert!(copies <= kills * 2 * SESSIONS, "{copies} copies after {kills} kills");
        assert!(acknowledged.len() as u64 > kills * 5, "{} messages", acknowledged.len());
        format!(
            "{kills} kills: of {} acknowledged messages to {} recipients each, every recipient was delivered to or \
             reported; {copies} copies",
            acknowledged.len(),
            recipients(0).len()
        )
    }
}

/// Checks that no recipient was recorded as done twice. Returns the number of deferrals.
fn check_ledger(ledger: &str) -> u64 {
    let (mut finals, mut deferred) = (BTreeMap::<String, u64>::new(), 0);
    for line in ledger.split_inclusive('\n').filter(|line| line.ends_with("}\n")) {
        // A kill can truncate a line; the first line of the next run then follows it directly.
        let Ok(line) = serde_json::from_str::<serde_json::Value>(line) else { continue };
        if line["state"] == "deferred" {
            deferred += 1;
        } else {
            *finals.entry(format!("{} {}", line["message"], line["to"])).or_default() += 1;
        }
    }
    let twice: Vec<_> = finals.iter().filter(|(_, count)| **count > 1).take(5).collect();
    assert!(twice.is_empty(), "recorded as done and sent to again: {twice:?}");
    deferred
}

/// Kills a relay under load eight times, or `LANDAU_RELAY_KILLS` times.
#[test]
fn a_killed_relay_loses_nothing_and_sends_nothing_again_that_it_has_recorded() {
    let kills: u64 = std::env::var("LANDAU_RELAY_KILLS").ok().map_or(8, |text| text.parse().unwrap());
    let mut siege = Siege::new();
    for kill in 0..kills {
        // Each kill comes after a different number of messages.
        siege.round(20 + (kill * 37) % 150);
    }
    println!("{}", siege.finish());
}
