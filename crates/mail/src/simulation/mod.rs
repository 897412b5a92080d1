//! Deliveries in virtual time over a simulated network, for tests: the real engine, schedule, sessions and ledger, with
//! servers whose failures are determined by a seed.
//!
//! Either all mail goes to one server, or each domain is looked up. The answers of the name server may be lost, late or
//! failures, and domains share hosts.
//!
//! A connection may be refused, never established, reset after any number of bytes in either direction, half-closed, or
//! silent from some command on. Data is sent and received in pieces. The engine may be killed at any write of the
//! ledger, any part of which may be written, and is started again.
//!
//! Two inputs are tested in this way: a list with its ledger, here, and the [queue](queue) of a relay.
//!
//! The simulation knows what each server accepted, which replies the engine has read, and what the ledger holds. So it
//! detects a lost recipient, and one that is sent to after it was acknowledged.

mod feed;
mod names;
mod network;
mod queue;
mod senders;
mod server;
mod storage;

use crate::client::Timeouts;
use crate::engine::{Engine, Observer, Plan, Progress};
use crate::envelope::{Envelope, Mode};
use crate::error::Result;
use crate::input::{Letter, Listed};
use crate::ledger::{self, Sync};
use crate::list::List;
use crate::message::Message;
use crate::route::{Lookups, Routes, Server};
use crate::schedule::{Backoff, Feedback, Limits, Schedule};
use crate::tls::{Encryption, TlsConfig};
use network::Virtual;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use senders::Senders;
use std::cell::RefCell;
use std::fmt::Write;
use std::rc::Rc;
use std::time::Duration;
use storage::Memory;

/// One second in nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// Maximum number of runs for a schedule of faults: more mean that the engine makes no progress.
const MOST_RUNS: u32 = 400;

struct Silent;

impl Observer for Silent {
    fn progress(&mut self, _: &Progress) {}
}

/// The state outside the engine.
#[derive(Debug)]
struct World {
    rng: ChaCha8Rng,
    now_ns: u64,
    mode: Mode,
    /// Whether domains have different hosts.
    is_by_domain: bool,
    /// The number of the letter that each recipient gets, if there is more than one.
    letters: Vec<u32>,
    /// The probability of a fault, 0 to 1.
    fault: f64,
    /// For each recipient, how often a server accepted the message for it.
    accepted: Vec<u32>,
    /// For each recipient, whether the current engine has read a final reply, or the ledger holds one.
    is_final: Vec<bool>,
    /// The reports that senders get from a relay.
    senders: Senders,
    /// The number of commands and contents after which every server falls silent; if this is `None`, the seed
    /// determines it.
    silence: Option<u64>,
    /// A host, by the last byte of its address, that greets clients but takes no mail: it answers MAIL with this code,
    /// or resets the connection.
    useless: Option<(u8, Option<u16>)>,
    /// Maximum number of connections of the engine's host.
    descriptors: u32,
    /// The number of open connections.
    open: u32,
    most_open: u32,
}

impl World {
    fn chance(&mut self, share: f64) -> bool {
        let share = share * self.fault;
        self.rng.random::<f64>() < share
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.rng.random_range(0..limit.max(1))
    }
}

/// A schedule of faults.
#[derive(Debug, Clone)]
struct Scenario {
    seed: u64,
    recipients: usize,
    fault: f64,
    mode: Mode,
    envelope: Envelope,
    batch: usize,
    per_connection: u64,
    is_template: bool,
    /// The probability that a write of the ledger kills the engine.
    kill: f64,
    /// Whether each domain is looked up; otherwise all mail goes to one server.
    is_by_domain: bool,
}

impl Scenario {
    fn of_seed(seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mode = if rng.random::<f64>() < 0.7 { Mode::Data } else { Mode::Rset };
        let is_template = rng.random::<f64>() < 0.3;
        let mut envelope = Envelope::new("s@example.org", mode);
        envelope.pipelining = rng.random::<f64>() < 0.7;
        envelope.chunking = rng.random::<f64>() < 0.4;
        Self {
            seed,
            recipients: rng.random_range(1..40),
            fault: [0.0, 0.2, 1.0][rng.random_range(0..3)],
            mode,
            envelope,
            batch: if is_template { 1 } else { [1, 1, 3][rng.random_range(0..3)] },
            per_connection: [1, 3, 1000][rng.random_range(0..3)],
            is_template,
            kill: [0.0, 0.1, 0.5][rng.random_range(0..3)],
            is_by_domain: rng.random(),
        }
    }

    fn list(&self) -> List {
        let mut text = "email,name\n".to_owned();
        for number in 0..self.recipients {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "r{number}@d{}.test,.Name {number}", number % 5);
        }
        List::read(std::io::Cursor::new(text)).unwrap()
    }

    fn message(&self) -> Message {
        let field = if self.is_template { "{{name}}" } else { "" };
        let text = format!("Subject: a\n\n{field}\n.\n..b{}\n", "x".repeat(300));
        Message::parse(text.as_bytes(), self.list().columns(), None).unwrap()
    }

    fn plan(&self) -> Plan {
        Plan {
            envelope: self.envelope.clone().checked().unwrap(),
            active: 8,
            per_connection: self.per_connection,
            reuse_for_ns: 300 * SECOND,
            batch: self.batch,
            timeouts: Timeouts::new(Duration::from_secs(600)),
            tls: TlsConfig::new(&Encryption::Never).unwrap(),
            bounces: None,
            keeps_double_bounces: false,
        }
    }

    fn routes(&self) -> Routes {
        if !self.is_by_domain {
            return Routes::to_server(&Server::resolve("127.0.0.1:25", &[]).unwrap(), self.seed);
        }
        let server = Some(std::net::SocketAddr::from(([127, 0, 0, 53], 53)));
        let lookups = Lookups { server, port: 25, allowed: Vec::new(), own_name: "localhost".to_owned() };
        let mut routes = Routes::by_domain(lookups, self.seed).unwrap();
        if self.seed.is_multiple_of(2) {
            // Sites are forgotten as soon as possible.
            routes.set_many_sites(0);
        }
        routes
    }

    fn limits(&self) -> Limits {
        Limits {
            sessions: 6,
            per_site: 6,
            initial: 2,
            feedback: Feedback::Inverse,
            backoff: Backoff { first: Duration::from_secs(60), longest: Duration::from_secs(600) },
            attempts: 3,
            seed: self.seed,
        }
    }

    fn world(&self) -> World {
        World {
            rng: ChaCha8Rng::seed_from_u64(self.seed ^ 0x5eed),
            now_ns: SECOND,
            mode: self.mode,
            is_by_domain: self.is_by_domain,
            letters: Vec::new(),
            fault: self.fault,
            accepted: vec![0; self.recipients],
            is_final: vec![false; self.recipients],
            senders: Senders::default(),
            silence: None,
            useless: None,
            descriptors: u32::MAX,
            open: 0,
            most_open: 0,
        }
    }

    /// Runs engines until no recipient is left, and checks their results. Returns the number of runs, and of duplicates
    /// that SMTP cannot prevent.
    fn run(&self) -> (u32, u32) {
        let world = Rc::new(RefCell::new(self.world()));
        let bytes = Rc::new(RefCell::new(Vec::new()));
        for run in 1..=MOST_RUNS {
            // Later runs have no faults, so that they end.
            let kill = if run < 30 { self.kill } else { 0.0 };
            if run > 40 {
                world.borrow_mut().fault = 0.0;
            }
            let is_complete = self.run_once(&world, &bytes, kill, run);
            world.borrow_mut().open = 0;
            let states = self.check(&world.borrow(), &bytes.borrow());
            world.borrow_mut().is_final.clone_from(&states);
            if is_complete && states.iter().all(|is_final| *is_final) {
                let duplicates = world.borrow().accepted.iter().map(|&count| count.saturating_sub(1)).sum();
                return (run, duplicates);
            }
        }
        panic!("seed {}: not finished after {MOST_RUNS} runs", self.seed);
    }

    /// Returns an engine with the list, the ledger and the network.
    fn engine(&self, world: &Rc<RefCell<World>>, storage: Memory) -> Result<Engine<Virtual, Listed<Memory>>> {
        let (plan, message) = (self.plan(), self.message());
        let opened = ledger::open_storage(storage, self.mode, &message, Sync::Never)?;
        let input = Listed::new(self.list(), Letter::new(plan.envelope.clone(), message), opened);
        let network = Virtual::new(Rc::clone(world));
        Ok(Engine::new(network, input, self.routes(), plan, Schedule::new(self.limits())))
    }

    /// Runs an engine until it ends or is killed. Returns whether it ended.
    fn run_once(&self, world: &Rc<RefCell<World>>, bytes: &Rc<RefCell<Vec<u8>>>, kill: f64, run: u32) -> bool {
        let storage = Memory::new(Rc::clone(bytes), kill, self.seed.wrapping_mul(1_000).wrapping_add(u64::from(run)));
        let Ok(mut engine) = self.engine(world, storage) else { return false };
        let outcome = engine.run(&mut Silent, &|| false);
        assert!(world.borrow().most_open <= 6, "seed {}: {} connections", self.seed, world.borrow().most_open);
        if outcome.is_ok() && !engine.has_given_up() {
            assert_eq!(engine.stats.recipients.sum(), self.recipients as u64, "seed {}", self.seed);
            assert_eq!(engine.stats.recipients.left, 0, "seed {}: recipients were forgotten", self.seed);
        }
        outcome.is_ok()
    }

    /// Compares the ledger with the messages that the servers accepted. Returns for each recipient whether its state is
    /// final.
    fn check(&self, world: &World, bytes: &[u8]) -> Vec<bool> {
        let storage = Memory::new(Rc::new(RefCell::new(bytes.to_vec())), 0.0, 0);
        let (_, history) = ledger::open_storage(storage, self.mode, &self.message(), Sync::Never).unwrap();
        let states = (0..self.recipients).map(|number| {
            let address = format!("r{number}@d{}.test", number % 5);
            let state = history.state(number as u64, &address).unwrap();
            let is_done = state == Some(ledger::State::Done);
            assert!(
                !is_done || world.accepted[number] > 0,
                "seed {}: {address} is done in the ledger, and no server accepted it",
                self.seed
            );
            is_done || state == Some(ledger::State::Failed)
        });
        states.collect()
    }
}

/// Runs `count` schedules, from seed `first` on.
fn run_seeds(first: u64, count: u64) -> (u32, u32) {
    let mut sum = (0, 0);
    for seed in first..first + count {
        let (runs, duplicates) = Scenario::of_seed(seed).run();
        sum = (sum.0 + runs, sum.1 + duplicates);
    }
    sum
}

/// Returns the first seed and the number of schedules chosen by the user; by default, `count` from seed 0.
fn chosen_seeds(count: u64) -> (u64, u64) {
    let chosen = std::env::var("LANDAU_MAIL_SEEDS").ok();
    let chosen = chosen.as_deref().and_then(|text| text.split_once(':'));
    chosen.map_or((0, count), |(first, count)| (first.parse().unwrap(), count.parse().unwrap()))
}

/// `LANDAU_MAIL_SEEDS=FIRST:COUNT` chooses other schedules: 0:10000 is the proof that docs/mail.md refers to.
#[test]
fn no_recipient_is_lost_and_none_is_sent_to_after_its_acknowledgement() {
    let (first, count) = chosen_seeds(2_000);
    let (runs, duplicates) = run_seeds(first, count);
    assert!(u64::from(runs) > count, "no engine was killed");
    // The schedules must reach the time between acknowledgement and write, in which a duplicate cannot be avoided.
    assert!(count < 1_000 || duplicates > 0, "{runs} runs without a crash after an acknowledgement");
}

#[test]
fn without_faults_every_recipient_is_sent_to_once() {
    for seed in 0..300 {
        let scenario = Scenario { fault: 0.0, kill: 0.0, ..Scenario::of_seed(seed) };
        assert_eq!(scenario.run(), (1, 0), "seed {seed}");
    }
}

/// The deadline for the reply to EHLO once stayed in force. With 19,000 connections, those opened in advance timed out
/// before they had work.
#[test]
fn a_connection_that_is_held_does_not_time_out() {
    let scenario = Scenario { recipients: 20, fault: 0.0, is_by_domain: false, ..Scenario::of_seed(0) };
    let world = Rc::new(RefCell::new(scenario.world()));
    let mut engine = scenario.engine(&world, Memory::new(Rc::default(), 0.0, 0)).unwrap();
    engine.set_busy(0);
    for second in 1..=1_000 {
        while world.borrow().now_ns < second * SECOND {
            engine.turn(second * SECOND).unwrap();
        }
    }
    assert!(engine.progress().greeted > 0);
    assert_eq!(engine.progress().recipients.done, 0);
    engine.set_busy(u32::MAX);
    engine.run(&mut Silent, &|| false).unwrap();
    assert_eq!((engine.progress().recipients.done, engine.stats.lost.sorted()), (20, Vec::new()));
}

/// Runs an engine for a number of seconds.
fn pass(engine: &mut Engine<Virtual, Listed<Memory>>, world: &Rc<RefCell<World>>, seconds: u64) {
    let until_ns = world.borrow().now_ns + seconds * SECOND;
    while world.borrow().now_ns < until_ns {
        engine.turn(until_ns).unwrap();
    }
}

/// The answers of servers since the last write were once lost, and those recipients were sent to again.
#[test]
fn a_list_that_cannot_be_read_to_its_end_loses_no_state() {
    for is_unsynced in [false, true] {
        run_with_an_unreadable_line(is_unsynced);
    }
}

/// Runs an engine whose list has an unreadable line, and whose ledger perhaps cannot be synced at the end. The second
/// error was once not reported.
fn run_with_an_unreadable_line(is_unsynced: bool) {
    let scenario =
        Scenario { recipients: 20, fault: 0.0, is_by_domain: false, is_template: false, ..Scenario::of_seed(0) };
    let (world, bytes) = (Rc::new(RefCell::new(scenario.world())), Rc::default());
    let (plan, message) = (scenario.plan(), scenario.message());
    let mut storage = Memory::new(Rc::clone(&bytes), 0.0, 0);
    storage.is_unsynced = is_unsynced;
    let opened = ledger::open_storage(storage, scenario.mode, &message, Sync::Interval(Duration::MAX)).unwrap();
    let lines: Vec<String> = (0..20).map(|number| format!("r{number}@d{}.test\n", number % 5)).collect();
    let list = List::read(std::io::Cursor::new([lines.concat().as_bytes(), b"\xff\n"].concat())).unwrap();
    let input = Listed::new(list, Letter::new(plan.envelope.clone(), message), opened);
    let network = Virtual::new(Rc::clone(&world));
    let mut engine = Engine::new(network, input, scenario.routes(), plan, Schedule::new(scenario.limits()));
    let error = engine.run(&mut Silent, &|| false).unwrap_err();
    assert!(error.to_string().contains("line 21 of the list"), "{error}");
    assert_eq!(error.to_string().contains("not synced"), is_unsynced, "{error}");
    let states = scenario.check(&world.borrow(), &bytes.borrow());
    assert!(states.contains(&true), "no recipient was sent to");
    assert_eq!(states, world.borrow().is_final);
}

/// RFC 5321 section 5.1: after a server that greets the client but takes no mail, the next one is tried. All attempts
/// once used the first one, until the mail was given up.
#[test]
fn mail_goes_to_the_next_host_if_the_first_one_takes_none_after_its_greeting() {
    for failure in [Some(452), Some(451), Some(421), None] {
        for seed in 0..20 {
            let scenario = Scenario { recipients: 20, fault: 0.0, is_by_domain: true, ..Scenario::of_seed(seed) };
            // First the best host of two domains, then one of two equal hosts of two others. Finally the only host of
            // another domain, which is still tried.
            for (host, expected) in [(3, 20), (1, 20), (4, 16)] {
                let world = Rc::new(RefCell::new(World { useless: Some((host, failure)), ..scenario.world() }));
                let mut engine = scenario.engine(&world, Memory::new(Rc::default(), 0.0, 0)).unwrap();
                engine.run(&mut Silent, &|| false).unwrap();
                let (done, reasons) = (engine.progress().recipients.done, engine.stats.reasons.sorted());
                assert_eq!(done, expected, "{failure:?} of host {host}, seed {seed}: {reasons:?}");
                let attempts: u64 = reasons.iter().map(|(_, count)| count).sum();
                assert!(done == 20 || attempts > 4, "{failure:?} of host {host}, seed {seed}: {reasons:?}");
            }
        }
    }
}

/// A shortage was once noted only once in a run, which may be that of a relay.
#[test]
fn each_time_that_this_host_runs_short_is_noted() {
    let scenario = Scenario { recipients: 20, fault: 0.0, is_by_domain: false, ..Scenario::of_seed(0) };
    let world = Rc::new(RefCell::new(World { descriptors: 2, ..scenario.world() }));
    let mut engine = scenario.engine(&world, Memory::new(Rc::default(), 0.0, 0)).unwrap();
    engine.schedule = Schedule::new(Limits { initial: 6, sessions: 20, per_site: 20, ..scenario.limits() });
    engine.schedule.add_sites(1);
    engine.set_busy(0);
    // The limit holds for a minute. If no connection can be opened after that, it is still the same shortage.
    for (descriptors, notes) in [(2, 1), (2, 1), (3, 2), (3, 2), (4, 3), (5, 4)] {
        world.borrow_mut().descriptors = descriptors;
        pass(&mut engine, &world, 70);
        assert_eq!((engine.notes.len(), engine.progress().open), (notes, descriptors), "{:?}", engine.notes);
    }
    assert!(engine.notes[0].contains("limiting to 2 connections"), "{:?}", engine.notes);
    assert!(engine.notes[3].contains("limiting to 5 connections"), "{:?}", engine.notes);
}

/// A relay that runs for months gets mail for ever more sites.
#[test]
fn an_engine_forgets_the_sites_that_it_does_not_need() {
    let scenario = Scenario { recipients: 20, fault: 0.0, is_by_domain: true, ..Scenario::of_seed(1) };
    let world = Rc::new(RefCell::new(scenario.world()));
    let mut engine = scenario.engine(&world, Memory::new(Rc::default(), 0.0, 0)).unwrap();
    engine.run(&mut Silent, &|| false).unwrap();
    assert_eq!((engine.routes_mut().known_site_count(), engine.progress().recipients.done), (3, 20));
    // The routes of the domains are cached for 300 s, and the lack of MX records of one domain for 60 s.
    for (seconds, sites) in [(30, 3), (200, 2), (200, 0)] {
        world.borrow_mut().now_ns += seconds * SECOND;
        engine.turn(u64::MAX).unwrap();
        engine.routes_mut().set_many_sites(1);
        engine.turn(u64::MAX).unwrap();
        assert_eq!(engine.routes_mut().known_site_count(), sites);
    }
}

/// RFC 5321 section 4.5.3.2: the server stops answering at EHLO, MAIL, RCPT, DATA or the content.
#[test]
fn a_server_that_falls_silent_is_given_up_after_the_time_of_the_rfc() {
    for (silence, limit) in [(1, 300), (2, 300), (3, 300), (4, 120), (5, 600)] {
        let mut scenario = Scenario { recipients: 1, fault: 0.0, is_by_domain: false, ..Scenario::of_seed(0) };
        (scenario.mode, scenario.is_template, scenario.batch) = (Mode::Data, false, 1);
        scenario.envelope = Envelope::new("s@example.org", Mode::Data);
        (scenario.envelope.pipelining, scenario.envelope.chunking) = (false, false);
        let world = Rc::new(RefCell::new(World { silence: Some(silence), ..scenario.world() }));
        let mut engine = scenario.engine(&world, Memory::new(Rc::default(), 0.0, 0)).unwrap();
        let began_ns = world.borrow().now_ns;
        let mut seconds = 0;
        while seconds < 1000 && engine.stats.lost.sorted().is_empty() {
            seconds += 1;
            while world.borrow().now_ns < began_ns + seconds * SECOND {
                engine.turn(began_ns + seconds * SECOND).unwrap();
            }
        }
        assert!((limit..=limit + 2).contains(&seconds), "{silence}: {seconds} s, {:?}", engine.stats.lost.sorted());
        assert_eq!(world.borrow().accepted, [0]);
    }
}
