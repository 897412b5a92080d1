//! The queue of a relay in the simulation: the real files, on a failing disk, behind the real engine.
//!
//! Letters arrive while the engine runs. The relay is killed at any write of the queue, any part of which may be made,
//! or asked to end, and is started again; the start may be killed, too. The system may crash, which loses unsynced
//! data. Disks become full, users hold, release, flush and delete messages, segments are compacted, recipients are
//! deferred, refused and given up, and their senders get reports.
//!
//! The relay writes a ledger, whose lines are written after the states they describe: a recipient with a line is not
//! left in the queue at any later start. Data that the schedule syncs also survives a system crash: all of it, or the
//! data older than a second. Lines of that second prove nothing after the crash.
//!
//! At each start the simulation compares the queue with the mail that servers accepted and refused. Every recipient of
//! an acknowledged letter is left in the queue, was sent to, was deleted by the user, or has failed for a reason given
//! by a server. Its sender or the postmaster has exactly one report of a failure, or the report is in the queue, and is
//! delivered once. No recipient is sent to after the queue has it as done, or while its message is held. The counts of
//! recipients add up at each write. A relay ends with an error because of a full disk only when it is asked to end, and
//! only if the disk stays full for half a minute.

mod checks;
mod records;

use super::network::Virtual;
use super::senders::About;
use super::{SECOND, Scenario, Silent, World};
use crate::engine::Engine;
use crate::envelope::{Envelope, Mode, Request};
use crate::error::{Error, Result};
use crate::input::{Input, IsCrowded, Next};
use crate::ledger::{Journal, Report, State, Sync};
use crate::list::Record;
use crate::queue::control::{self, Action, Answer};
use crate::queue::disk::faults::{self, Odds};
use crate::queue::tests::seen;
use crate::queue::{self, Commit, Feed, Found, Handling, Meta, Notice, Patience, Published, Shared, Writer};
use crate::schedule::{Limits, Schedule, SiteCounts};
use checks::Queued;
use landau_wire::smtp::parameter::Notify;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use records::{Place, Records};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The maximum sizes of a queue in bytes: a segment has an eighth.
const LIMITS: [u64; 2] = [64 << 10, 16 << 10];

/// The share of large letters. A small letter is moved to another segment after the large ones in its segment are gone.
const LARGE: f64 = 0.3;

/// After this number of runs no more faults occur, so that the last run ends.
const MOST_FAULTY_RUNS: u32 = 40;
const MOST_RUNS: u32 = 60;

/// The relay's reply to a letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reply {
    Accepted,
    Refused,
}

/// A letter and its state.
#[derive(Debug)]
struct Posted {
    /// The identifier of its message, if it was passed to the queue.
    id: Option<u64>,
    /// The numbers of its recipients.
    recipients: Range<u32>,
    has_sender: bool,
    notify: Vec<Option<Notify>>,
    bytes: usize,
    /// When it arrives.
    at_ns: u64,
    reply: Option<Reply>,
    is_deleted: bool,
    segment: Option<u32>,
}

/// A schedule of faults, and the state of its simulation.
struct Case {
    scenario: Scenario,
    rng: ChaCha8Rng,
    limit: u64,
    sync: Sync,
    odds: Odds,
    /// Whether the system crashes with the relay.
    has_crashes: bool,
    /// The probability of a user request, 0 to 1 for each check.
    asking: f64,
    lifetime: Duration,
    postmaster: Option<&'static str>,
    letters: Vec<Posted>,
    /// The number of letters that have arrived.
    come: usize,
    /// The letters by their identifiers in the queue.
    ids: BTreeMap<u64, u32>,
    /// The identifiers of the reports that were found or accepted, by subject.
    reports: BTreeMap<About, BTreeSet<u64>>,
    /// The reports that the last start has found.
    queued: BTreeMap<u64, Queued>,
    /// The reports to senders that have failed since.
    failed: Vec<u64>,
    /// The subjects of reports that a system crash may have lost or duplicated.
    excused: BTreeSet<About>,
    is_final: Vec<bool>,
    /// The letters whose hold was confirmed to the user.
    held: BTreeSet<u64>,
    records: Records,
    /// When letters were acknowledged and recipients recorded, as long as a system crash may lose them.
    recent_letters: Vec<(u64, usize)>,
    recent_records: Vec<(u64, Place)>,
    /// Whether the last run was killed.
    was_killed: bool,
    /// When the current run is asked to end.
    stop_ns: u64,
    /// Whether no work is left.
    is_over: bool,
    world: Rc<RefCell<World>>,
    counts: Counts,
}

/// The counts of events in the schedules.
#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    runs: u32,
    kills: u32,
    crashes: u32,
    copies: u32,
    moves: u32,
    failed: u32,
    deferred: u64,
}

impl Case {
    /// Returns the schedule of a seed, whose relay has a ledger in a directory.
    fn of_seed(seed: u64, room: &Path) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x0717);
        let (mut letters, mut recipients) = (Vec::new(), 0);
        let limit = LIMITS[rng.random_range(0..LIMITS.len())];
        let most_bytes = limit as usize / 16;
        for _ in 0..rng.random_range(1..25) {
            let count = rng.random_range(1..5);
            let notify = |rng: &mut ChaCha8Rng| match rng.random_range(0..6) {
                0 => Some(Notify::NEVER),
                1 => Some(Notify { success: true, failure: true, ..Notify::NEVER }),
                _ => None,
            };
            let bytes = if rng.random::<f64>() < LARGE { most_bytes / 2..most_bytes } else { 0..100 };
            letters.push(Posted {
                id: None,
                recipients: recipients..recipients + count,
                has_sender: rng.random::<f64>() < 0.8,
                notify: (0..count).map(|_| notify(&mut rng)).collect(),
                bytes: rng.random_range(bytes),
                at_ns: rng.random_range(0..200 * SECOND),
                reply: None,
                is_deleted: false,
                segment: None,
            });
            recipients += count;
        }
        letters.sort_by_key(|letter| letter.at_ns);
        let all = recipients as usize + letters.len() + 1;
        let mut scenario = Scenario { mode: Mode::Data, recipients: all, ..Scenario::of_seed(seed) };
        scenario.envelope.mode = Mode::Data;
        let mut world = scenario.world();
        world.senders.recipients = recipients;
        world.senders.letters = letters.len() as u32;
        world.letters = vec![0; recipients as usize];
        for (letter, number) in letters.iter().zip(0..) {
            world.letters[letter.recipients.start as usize..letter.recipients.end as usize].fill(number);
        }
        let has_crashes = rng.random::<f64>() < 0.4;
        // Only synced data survives a system crash.
        let policies = [Sync::Always, Sync::Interval(Duration::from_secs(1)), Sync::Never];
        let sync = policies[rng.random_range(0..if has_crashes { 2 } else { 3 })];
        Self {
            rng: ChaCha8Rng::seed_from_u64(seed ^ 0xca5e),
            limit,
            sync,
            odds: Odds {
                kill: [0.0, 0.01, 0.1][rng.random_range(0..3)],
                full: [0.0, 0.0, 0.05][rng.random_range(0..3)],
            },
            has_crashes,
            asking: [0.0, 0.0, 0.01][rng.random_range(0..3)],
            lifetime: Duration::from_secs([300_000, 300_000, 900][rng.random_range(0..3)]),
            postmaster: rng.random::<bool>().then_some("p@d1.test"),
            come: 0,
            ids: BTreeMap::new(),
            reports: BTreeMap::new(),
            queued: BTreeMap::new(),
            failed: Vec::new(),
            excused: BTreeSet::new(),
            is_final: vec![false; recipients as usize],
            held: BTreeSet::new(),
            records: Records::new(&room.join("ledger")),
            recent_letters: Vec::new(),
            recent_records: Vec::new(),
            was_killed: false,
            stop_ns: u64::MAX,
            is_over: false,
            world: Rc::new(RefCell::new(world)),
            counts: Counts::default(),
            letters,
            scenario,
        }
    }

    fn now_ns(&self) -> u64 {
        self.world.borrow().now_ns
    }

    fn patience(&self) -> Patience {
        Patience { backoff: self.scenario.limits().backoff, lifetime: self.lifetime }
    }

    fn handling(&self) -> Handling {
        let envelope = Envelope { helo: "relay.test".to_owned(), ..self.scenario.envelope.clone() };
        let postmaster = self.postmaster.map(Into::into);
        Handling { sync: self.sync, envelope, signer: None, postmaster, patience: self.patience() }
    }

    /// Records that the user releases letters.
    fn release(&mut self, ids: &BTreeSet<u64>) {
        for id in ids {
            self.held.remove(id);
            let recipients = self.letters[self.ids[id] as usize].recipients.clone();
            self.world.borrow_mut().senders.held.retain(|recipient| !recipients.contains(recipient));
        }
    }

    /// Forgets holds of letters that the relay may have finished, and thereby released, before it could record that.
    fn forget_holds(&mut self) {
        let (world, now_ns) = (self.world.borrow(), self.now_ns());
        self.held.retain(|id| {
            let posted = &self.letters[self.ids[id] as usize];
            let is_known =
                |recipient: u32| world.accepted[recipient as usize] > 0 || world.senders.refused.contains(&recipient);
            let is_old = now_ns.saturating_sub(posted.at_ns) >= self.lifetime.as_nanos() as u64;
            let is_refused = world.senders.refused_senders.contains(&self.ids[id]);
            !(is_old || is_refused || posted.is_deleted || posted.recipients.clone().any(is_known))
        });
    }

    fn has_faults(&self) -> bool {
        self.counts.runs < MOST_FAULTY_RUNS
    }

    /// Starts a relay on the files of a directory, repeatedly if necessary, and checks the queue that it finds.
    fn open(&mut self, directory: &Path) -> Found {
        let mut starts = 0;
        loop {
            starts += 1;
            // A start takes time.
            let start_ns = self.rng.random_range(SECOND / 500..SECOND / 10);
            self.world.borrow_mut().now_ns += start_ns;
            let odds = if self.has_faults() && starts < 5 { self.odds } else { Odds { kill: 0.0, full: 0.0 } };
            faults::revive(odds);
            faults::set_ms(self.now_ns() / 1_000_000);
            match queue::open(directory, self.limit, self.sync) {
                Ok(found) => {
                    self.check(&found);
                    return found;
                }
                Err(error) => {
                    // A relay must also start on a full disk.
                    assert!(faults::is_dead(), "seed {}: {error}", self.scenario.seed);
                    self.fall(directory);
                }
            }
        }
    }

    /// Determines when the next run is asked to end. Returns its scenario and world.
    fn begin_run(&mut self) -> (Scenario, Rc<RefCell<World>>) {
        (self.is_over, self.stop_ns) = (false, u64::MAX);
        if self.has_faults() {
            self.stop_ns = self.now_ns() + self.rng.random_range(0..2_000 * SECOND);
        } else {
            self.world.borrow_mut().fault = 0.0;
        }
        self.world.borrow_mut().open = 0;
        (self.scenario.clone(), Rc::clone(&self.world))
    }

    /// Handles the death of the relay; the system may crash with it.
    fn fall(&mut self, directory: &Path) {
        self.counts.kills += 1;
        self.was_killed = true;
        self.forget_holds();
        if self.has_crashes && self.rng.random() {
            self.counts.crashes += 1;
            self.note_recorded(self.now_ns());
            faults::crash(directory);
            self.forget_recent();
        }
    }

    /// Runs relays until no work is left, and checks their results.
    fn run(seed: u64) -> Counts {
        let shared_memory = Path::new("/dev/shm");
        // No data needs to survive the test.
        let room = if shared_memory.is_dir() { tempfile::tempdir_in(shared_memory) } else { tempfile::tempdir() };
        let room = room.unwrap();
        let (directory, lost) = (room.path().join("queue"), room.path().join("lost"));
        std::fs::create_dir(&lost).unwrap();
        let _disk = faults::begin(seed, &lost);
        let case = Rc::new(RefCell::new(Self::of_seed(seed, room.path())));
        loop {
            let found = case.borrow_mut().open(&directory);
            let is_empty = seen(&found).is_empty();
            let mut borrowed = case.borrow_mut();
            let now = &mut *borrowed;
            if is_empty && now.come == now.letters.len() {
                let copies = now.world.borrow().accepted.iter().map(|count| count.saturating_sub(1)).sum();
                return Counts { copies, ..now.counts };
            }
            now.counts.runs += 1;
            assert!(now.counts.runs < MOST_RUNS, "seed {seed}: not finished after {MOST_RUNS} runs");
            drop(borrowed);
            let was_killed = run_once(&case, found);
            if was_killed {
                case.borrow_mut().fall(&directory);
            }
        }
    }
}

/// Runs a relay until it ends or is killed. Returns whether it was killed.
fn run_once(case: &Rc<RefCell<Case>>, found: Found) -> bool {
    let relay = Relay::new(case, found);
    let (scenario, world) = case.borrow_mut().begin_run();
    let mut plan = scenario.plan();
    (plan.batch, plan.keeps_double_bounces) = (1, case.borrow().postmaster.is_none());
    let limits = Limits { attempts: 1, ..scenario.limits() };
    let site_backoff = limits.backoff;
    let schedule = Schedule::new(limits).with_suspension(site_backoff);
    let mut engine = Engine::new(Virtual::new(world), relay, scenario.routes(), plan, schedule);
    let (stop, end_ns) = (Rc::clone(case), Cell::new(None));
    let outcome = engine.run(&mut Silent, &|| {
        let case = stop.borrow();
        let is_end = end_ns.get().is_some() || case.is_over || case.now_ns() >= case.stop_ns;
        end_ns.set(end_ns.get().or(is_end.then(|| case.now_ns())));
        is_end
    });
    if let Err(error) = &outcome {
        // At its end a relay waits for disk space, but only for a limited time.
        let has_waited = end_ns.get().is_some_and(|end_ns| case.borrow().now_ns() >= end_ns + 30 * SECOND);
        let is_full = matches!(error, Error::Unrecorded { error, .. } if faults::was_full(error));
        let is_expected = faults::is_dead() || (has_waited && is_full);
        assert!(is_expected, "seed {}: {error}, at its end: {:?}", scenario.seed, end_ns.get());
    }
    outcome.is_err()
}

/// Both sides of a relay.
struct Relay {
    case: Rc<RefCell<Case>>,
    feed: Feed,
    shared: Arc<Shared>,
    writer: Writer,
    notices: Sender<Notice>,
    published: Arc<Mutex<Published>>,
    /// The pending requests of the user, with the letters concerned.
    asked: Vec<(Action, BTreeSet<u64>, Receiver<Answer>)>,
    /// The recipients that the next write records.
    settled: Vec<Place>,
}

impl Relay {
    fn new(case: &Rc<RefCell<Case>>, found: Found) -> Self {
        let now = case.borrow();
        let shared = Arc::clone(&found.shared);
        let (notices, receiver) = channel();
        let writer = Writer::new(Arc::clone(&shared), now.sync);
        let journal = Journal::open(&now.records.path).unwrap();
        let feed = Feed::new(found, receiver, now.handling(), Some(journal), now.now_ns());
        let (published, has_faults) = (feed.published(), now.has_faults());
        drop(now);
        let (asked, settled) = (Vec::new(), Vec::new());
        let mut relay = Self { case: Rc::clone(case), feed, shared, writer, notices, published, asked, settled };
        if !has_faults {
            relay.ask(Action::Release, HashSet::new());
        }
        relay
    }

    /// Sends a request about some messages, or about all.
    fn ask(&mut self, action: Action, ids: HashSet<u64>) {
        let case = &mut *self.case.borrow_mut();
        let chosen: BTreeSet<u64> =
            if ids.is_empty() { case.ids.keys().copied().collect() } else { ids.iter().copied().collect() };
        if action == Action::Release {
            case.release(&chosen);
        }
        let (answer, answers) = channel();
        self.notices.send(Notice::Asked(control::Request::new(action, ids), answer)).unwrap();
        self.asked.push((action, chosen, answers));
    }

    /// Records the answers to the user.
    fn hear(&mut self) {
        let case = &mut *self.case.borrow_mut();
        self.asked.retain(|(action, chosen, answers)| {
            let Ok(answer) = answers.try_recv() else { return true };
            if let (Action::Hold, Answer::Done { .. }) = (action, answer) {
                // The queue may contain others that were not acknowledged.
                let is_acknowledged = |id: &&u64| case.letters[case.ids[*id] as usize].reply == Some(Reply::Accepted);
                case.held.extend(chosen.iter().filter(is_acknowledged));
            }
            false
        });
    }

    /// Sometimes sends a request of a user.
    fn trouble(&mut self) {
        let mut borrowed = self.case.borrow_mut();
        let case = &mut *borrowed;
        let asking = case.asking;
        if case.ids.is_empty() || !case.has_faults() || case.rng.random::<f64>() >= asking {
            return;
        }
        let actions = [Action::List, Action::Hold, Action::Release, Action::Delete, Action::Flush];
        let action = actions[case.rng.random_range(0..actions.len())];
        let at = case.rng.random_range(0..case.ids.len());
        let (id, letter) = case.ids.iter().nth(at).map(|(&id, &letter)| (id, letter)).unwrap();
        let is_all = action != Action::Delete && case.rng.random::<f64>() < 0.3;
        if action == Action::Delete {
            case.letters[letter as usize].is_deleted = true;
        }
        drop(borrowed);
        self.ask(action, if is_all { HashSet::new() } else { [id].into() });
    }

    /// Receives the letters that have arrived.
    fn receive(&mut self, now_ns: u64) -> Result<()> {
        faults::set_ms(now_ns / 1_000_000);
        let mut batch = Vec::new();
        while let Some(letter) = self.take_letter(now_ns) {
            batch.push(letter);
            if self.case.borrow_mut().rng.random::<f64>() < 0.3 {
                self.commit_letters(&mut batch, now_ns);
            }
        }
        self.commit_letters(&mut batch, now_ns);
        self.trouble();
        alive()
    }

    /// Adds the next letter to the batch. Returns its number if there is space for it.
    fn take_letter(&mut self, now_ns: u64) -> Option<usize> {
        let case = &mut *self.case.borrow_mut();
        loop {
            let number = case.come;
            let posted = case.letters.get(number).filter(|posted| posted.at_ns <= now_ns)?;
            case.come += 1;
            if !self.shared.has_room(posted.bytes as u64 + 1_000) {
                continue;
            }
            let (id, from) = (self.shared.next_id(), format!("s{number}@d{}.test", number % 5));
            let to = posted.recipients.clone().map(|number| format!("r{number}@d{}.test", number % 5).into()).collect();
            let mut meta = Meta::new(id, now_ns / 1_000_000, if posted.has_sender { &from } else { "" }, to);
            meta.requests = posted.notify.iter().map(|&notify| Request { notify, orcpt: None }).collect();
            let content = format!("Letter: {number}\r\n\r\n..b{}\r\n.\r\n", "x".repeat(posted.bytes));
            self.writer.add(&meta, &[content.as_bytes()]).unwrap();
            case.letters[number].id = Some(id);
            let known = case.ids.insert(id, number as u32);
            assert_eq!(known, None, "seed {}: the identifier {id:X} is used again", case.scenario.seed);
            return Some(number);
        }
    }

    /// Writes the batch, and acknowledges its letters.
    fn commit_letters(&mut self, batch: &mut Vec<usize>, now_ns: u64) {
        if batch.is_empty() && !self.writer.is_dirty() {
            self.case.borrow_mut().note_written(now_ns, true);
            return;
        }
        let (committed, letters) = (self.writer.commit(now_ns), std::mem::take(batch));
        let reply = if committed.is_ok() { Reply::Accepted } else { Reply::Refused };
        let is_acknowledged = committed.is_ok() && !faults::is_dead();
        let Commit { entries, closed } =
            committed.unwrap_or_else(|_| Commit { entries: Vec::new(), closed: self.writer.take_closed() });
        for entry in entries {
            self.notices.send(Notice::Accepted(entry)).unwrap();
        }
        for segment in closed {
            self.notices.send(Notice::Closed(segment)).unwrap();
        }
        let case = &mut *self.case.borrow_mut();
        for letter in letters {
            case.letters[letter].reply = (!faults::is_dead()).then_some(reply);
            case.recent_letters.push((now_ns, letter));
        }
        if is_acknowledged {
            case.note_written(now_ns, true);
        }
    }

    /// Records a recipient that the next write records: one without a report.
    fn note_settled(&mut self, report: &Report<'_>) {
        let case = self.case.borrow();
        let number = report.address.strip_prefix('r').and_then(|rest| rest.split('@').next()?.parse().ok());
        let of_number = |number: &u32| case.letters.iter().find(|letter| letter.recipients.contains(number));
        let Some((number, letter)) = number.and_then(|number| Some((number, of_number(&number)?))) else { return };
        let index = number - letter.recipients.start;
        let is_told = case.is_told(letter.notify[index as usize], letter.has_sender);
        if report.state == State::Done || (report.state == State::Failed && !is_told) {
            self.settled.extend(letter.id.map(|id| (id, index)));
        }
    }

    /// Checks the written data after a successful commit.
    fn check_written(&mut self, now_ns: u64) {
        let case = &mut *self.case.borrow_mut();
        case.note_recorded(now_ns);
        // On a full disk the states are not written yet.
        if self.shared.has_room(0) {
            for (id, index) in self.settled.drain(..) {
                let is_recorded = case.records.finals.contains_key(&(id, index));
                assert!(is_recorded, "seed {}: the ledger lacks {index} of {id:X}", case.scenario.seed);
            }
            case.note_written(now_ns, false);
        }
    }

    /// Checks the sum of the states, and whether any work is left.
    fn look(&self) {
        let case = &mut *self.case.borrow_mut();
        let Published { tally, found, announced, reports, deleted, .. } = *self.published.lock().unwrap();
        let known = found + announced + reports;
        assert_eq!(tally.sum() + deleted, known, "seed {}: {tally:?}, {deleted} deleted", case.scenario.seed);
        case.counts.deferred = case.counts.deferred.max(tally.deferred);
        case.is_over = case.come == case.letters.len() && tally.left + tally.deferred == 0;
    }
}

/// Returns an error if the relay was killed: it does nothing more.
fn alive() -> Result<()> {
    if faults::is_dead() { Err(Error::Queue(std::io::Error::other("killed"))) } else { Ok(()) }
}

impl Input for Relay {
    const RETRIES: bool = true;

    fn next(&mut self, record: &mut Record, now_ns: u64, is_crowded: IsCrowded<'_>) -> Result<Next> {
        self.receive(now_ns)?;
        let next = self.feed.next(record, now_ns, is_crowded);
        alive()?;
        let case = self.case.borrow();
        let arrival_ns = case.letters.get(case.come).map_or(u64::MAX, |letter| letter.at_ns);
        Ok(match next? {
            Next::Later(at_ns) => Next::Later(at_ns.min(arrival_ns)),
            other => other,
        })
    }

    fn record(&mut self, report: &Report<'_>, now_ms: impl FnOnce() -> u64) {
        self.note_settled(report);
        self.feed.record(report, now_ms);
    }

    fn release(&mut self, number: u64, now_ns: u64) {
        self.feed.release(number, now_ns);
    }

    fn admit(&mut self, number: u64, site: u32) -> bool {
        self.feed.admit(number, site)
    }

    fn postpone(&mut self, number: u64, site: u32, now_ns: u64) {
        self.feed.postpone(number, site, now_ns);
    }

    fn suspend(&mut self, number: u64, until_ns: u64) {
        self.feed.suspend(number, until_ns);
    }

    fn note_sites(&mut self, counts: SiteCounts) {
        self.feed.note_sites(counts);
    }

    fn take_flush(&mut self) -> bool {
        self.feed.take_flush()
    }

    fn commit(&mut self, now_ns: u64) -> Result<()> {
        self.receive(now_ns)?;
        let committed = self.feed.commit(now_ns);
        alive()?;
        self.look();
        self.hear();
        committed?;
        self.check_written(now_ns);
        Ok(())
    }

    fn finish(&mut self, now_ns: u64) -> Result<()> {
        let finished = self.feed.finish(now_ns);
        alive()?;
        self.look();
        finished?;
        self.check_written(now_ns);
        Ok(())
    }
}

/// Prints the seed after a panic in the engine, which does not know the seed.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the schedule of seed {}", self.0);
        }
    }
}

/// `LANDAU_MAIL_SEEDS=FIRST:COUNT` chooses other schedules, as for the ledger of a list.
#[test]
fn no_recipient_is_lost_from_a_queue_and_none_is_sent_to_after_it_is_recorded() {
    let (first, count) = super::chosen_seeds(500);
    let mut all = Counts::default();
    for seed in first..first + count {
        let _case = Named(seed);
        let Counts { runs, kills, crashes, copies, moves, failed, deferred } = Case::run(seed);
        all.runs += runs;
        all.kills += kills;
        all.crashes += crashes;
        all.copies += copies;
        all.moves += moves;
        all.failed += failed;
        all.deferred += deferred;
    }
    println!("{count} schedules: {all:?}");
    // The schedules must reach the events that they are meant for.
    let Counts { kills, crashes, copies, moves, failed, deferred, .. } = all;
    let least = [kills, crashes, copies, moves, failed, deferred as u32].into_iter().min().unwrap();
    assert!(count < 100 || least > 0, "{all:?}");
}
