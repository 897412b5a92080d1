//! User requests to a queue: to list, hold, release, delete or flush messages.

use super::disk::{self, unix_ms};
use super::feed::Feed;
use super::loaded::{Left, Loaded, Waiting};
use super::record::{self, Meta};
use super::{Entry, Shared};
use crate::ledger::{Journal, State};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;

/// The action of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// The messages are listed.
    List,
    /// The messages are not tried until they are released, even after a restart.
    Hold,
    /// Held messages are tried again.
    Release,
    /// The messages are deleted without a report to their senders.
    Delete,
    /// The messages are tried now.
    Flush,
    /// The messages do not change; the ledger is reopened, because it was renamed.
    Reopen,
}

/// Maximum number of messages of a list that the engine describes at a time: it does nothing else meanwhile.
pub(super) const PAGE: usize = 50_000;

/// The number of pages per scan of all messages.
const PAGES: usize = 20;

/// A request of the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The action.
    pub action: Action,
    /// The identifiers of the messages concerned; all messages if empty.
    pub ids: HashSet<u64>,
    /// The identifier after which a list begins.
    #[serde(skip)]
    pub(crate) after: u64,
    /// The places of its messages, as last seen.
    #[serde(skip)]
    pub(crate) known: Arc<Known>,
}

impl Request {
    /// Returns a request about some messages, or about all if there are no identifiers.
    pub fn new(action: Action, ids: HashSet<u64>) -> Self {
        Self { action, ids, after: 0, known: Arc::default() }
    }
}

/// The condition of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// The message was not tried in this run.
    New,
    /// The message is being sent.
    Active,
    /// The message waits for its next attempt.
    Deferred,
    /// The message waits until the user releases it.
    Held,
}

/// A message of the queue.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) entry: Entry,
    pub(crate) condition: Condition,
    /// The indices of the remaining recipients.
    pub(crate) left: Vec<u32>,
    /// The milliseconds until its next attempt, if it waits for one.
    pub(crate) due_in_ms: Option<u64>,
    /// The reason of the last deferral of a recipient.
    pub(crate) reason: Option<Box<str>>,
}

/// Where a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The engine holds recipients of the message.
    Active(usize),
    /// The message was not tried. The number counts the messages handed out before it.
    Fresh(u64),
    /// The message waits.
    Parked(usize),
}

/// The places of the next messages of a list, by identifier, as of the engine's last scan of all messages.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    places: Vec<(u64, Place)>,
    /// Whether there are no further ones.
    is_all: bool,
}

/// Returns the remaining recipients and the condition of a message that the engine does not hold.
fn outside(waiting: &Waiting) -> (Vec<u32>, Condition) {
    let condition = match waiting {
        Waiting { is_held: true, .. } => Condition::Held,
        Waiting { is_again: false, failed_reads: 0, .. } => Condition::New,
        _ => Condition::Deferred,
    };
    (waiting.left().iter().map(|one| one.index).collect(), condition)
}

/// The answer to a request.
#[derive(Debug)]
pub(crate) enum Answer {
    /// Messages in the order of their identifiers, up to `up_to`, and whether they are the last ones.
    Items { items: Vec<Item>, up_to: u64, known: Arc<Known>, is_last: bool },
    /// The numbers of messages that were found and that changed.
    Done { found: u64, changed: u64 },
    /// The request failed.
    Failed(String),
}

impl Request {
    fn chooses(&self, id: u64) -> bool {
        self.ids.is_empty() || self.ids.contains(&id)
    }
}

impl Feed {
    /// Executes a request of the user.
    pub(crate) fn control(&mut self, request: &Request, now_ns: u64) -> Answer {
        match request.action {
            Action::List => self.list(request, now_ns),
            Action::Hold | Action::Release => {
                let is_held = request.action == Action::Hold;
                let (found, changed) = self.hold(request, is_held, now_ns);
                match write_held(&self.shared, &self.held) {
                    Ok(()) => Answer::Done { found, changed },
                    Err(error) => Answer::Failed(format!(
                        "cannot write {}: {error}; {changed} messages are changed only until the relay ends",
                        self.shared.held().display()
                    )),
                }
            }
            Action::Delete => {
                let count = self.delete(request, now_ns);
                Answer::Done { found: count, changed: count }
            }
            Action::Flush => {
                let (found, changed) = self.flush(request);
                Answer::Done { found, changed }
            }
            Action::Reopen => match self.journal.as_mut().map_or(Ok(()), Journal::reopen) {
                Ok(()) => Answer::Done { found: 0, changed: 0 },
                Err(error) => Answer::Failed(format!("{error}; the old file stays in use")),
            },
        }
    }

    /// Returns the next page of a list. A scan of all messages for each page would take time quadratic in their number.
    fn list(&self, request: &Request, now_ns: u64) -> Answer {
        let is_before = |(id, _): &(u64, Place)| *id <= request.after;
        let (mut known, mut at) = (Arc::clone(&request.known), request.known.places.partition_point(is_before));
        if at == known.places.len() {
            (known, at) = (Arc::new(self.look(request)), 0);
        }
        let end = known.places.len().min(at + self.page);
        let page = &known.places[at..end];
        let is_there = |&(id, place): &(u64, Place)| self.message(place).is_some_and(|one| one.entry.id == id);
        let gone: HashSet<u64> = page.iter().filter(|one| !is_there(one)).map(|(id, _)| *id).collect();
        let moved: HashMap<u64, Place> =
            if gone.is_empty() { HashMap::new() } else { self.places().filter(|(id, _)| gone.contains(id)).collect() };
        let place =
            |&(id, place): &(u64, Place)| if gone.contains(&id) { moved.get(&id).copied() } else { Some(place) };
        let items = page.iter().filter_map(|one| self.item(place(one)?, now_ns)).collect();
        let (up_to, is_last) =
            (page.last().map_or(request.after, |(id, _)| *id), known.is_all && end == known.places.len());
        Answer::Items { items, up_to, known, is_last }
    }

    /// Returns every message and its place.
    fn places(&self) -> impl Iterator<Item = (u64, Place)> {
        let active =
            self.slots.iter().enumerate().filter_map(|(at, one)| Some((&one.as_ref()?.waiting, Place::Active(at))));
        let fresh = (self.fresh_taken..).zip(&self.fresh).map(|(at, one)| (one, Place::Fresh(at)));
        let parked = self.parked.iter().enumerate().filter_map(|(at, one)| Some((one.as_ref()?, Place::Parked(at))));
        active.chain(fresh).chain(parked).map(|(waiting, place)| (waiting.entry.id, place))
    }

    /// Finds the places of the next messages of a list.
    fn look(&self, request: &Request) -> Known {
        let is_next = |(id, _): &(u64, Place)| *id > request.after && request.chooses(*id);
        let (mut places, most): (Vec<_>, usize) = (self.places().filter(is_next).collect(), PAGES * self.page);
        let is_all = places.len() <= most;
        if !is_all {
            places.select_nth_unstable_by_key(most, |(id, _)| *id);
            places.truncate(most);
        }
        places.sort_unstable_by_key(|(id, _)| *id);
        Known { places, is_all }
    }

    /// Returns the message at a place; `None` if there is none.
    fn message(&self, place: Place) -> Option<&Waiting> {
        match place {
            Place::Active(at) => Some(&self.slots.get(at)?.as_ref()?.waiting),
            Place::Fresh(at) => self.fresh.get(at.checked_sub(self.fresh_taken)? as usize),
            Place::Parked(at) => self.parked.get(at)?.as_ref(),
        }
    }

    /// Returns the description of the message at a place; `None` if there is none.
    fn item(&self, place: Place, now_ns: u64) -> Option<Item> {
        let is_left = |state: Option<State>| !matches!(state, Some(State::Done | State::Failed));
        let waiting = self.message(place)?;
        let (left, condition) = match place {
            Place::Active(at) => {
                let left = self.slots[at].as_ref()?.recipients.iter().zip(0..).filter(|(one, _)| is_left(one.state));
                (left.map(|(_, index)| index).collect(), Condition::Active)
            }
            Place::Fresh(_) | Place::Parked(_) => outside(waiting),
        };
        Some(Item {
            entry: waiting.entry.clone(),
            condition,
            left,
            due_in_ms: (condition == Condition::Deferred).then(|| waiting.wake_ns.saturating_sub(now_ns) / 1_000_000),
            reason: waiting.reason.clone(),
        })
    }

    /// Returns the chosen messages from all places.
    fn chosen<'a>(&'a mut self, request: &'a Request) -> impl Iterator<Item = &'a mut Waiting> {
        let active = self.slots.iter_mut().flatten().map(|loaded| &mut loaded.waiting);
        let waiting = self.fresh.iter_mut().chain(self.parked.iter_mut().flatten());
        active.chain(waiting).filter(|waiting| request.chooses(waiting.entry.id))
    }

    fn hold(&mut self, request: &Request, is_held: bool, now_ns: u64) -> (u64, u64) {
        let (mut found, mut ids) = (0, Vec::new());
        let time_ns = u64::try_from(self.handling.patience.for_untried().as_nanos()).unwrap_or(u64::MAX);
        for waiting in self.chosen(request) {
            found += 1;
            if waiting.is_held != is_held {
                waiting.is_held = is_held;
                if !is_held {
                    // The message could not be tried until now.
                    let until_ns = now_ns.saturating_add(time_ns);
                    waiting.expires_ns = waiting.expires_ns.max(until_ns);
                    waiting.untried_expires_ns = waiting.untried_expires_ns.max(until_ns);
                }
                ids.push(waiting.entry.id);
            }
        }
        for id in &ids {
            if is_held {
                self.held.insert(*id)
            } else {
                self.held.remove(id)
            };
        }
        if is_held {
            self.withdraw(request, now_ns);
        }
        self.reorder();
        (found, ids.len() as u64)
    }

    fn flush(&mut self, request: &Request) -> (u64, u64) {
        let active = self.slots.iter().flatten().filter(|loaded| request.chooses(loaded.waiting.entry.id)).count();
        let (mut found, mut changed) = (active as u64, 0);
        for waiting in self.fresh.iter_mut().chain(self.parked.iter_mut().flatten()) {
            if request.chooses(waiting.entry.id) {
                found += 1;
                changed += u64::from(!waiting.is_held);
                waiting.recipients.iter_mut().flatten().for_each(|one| one.due_ns = 0);
                waiting.passed_over = 0;
            }
        }
        self.is_flushed |= changed > 0;
        self.reorder();
        (found, changed)
    }

    /// Stops handing out recipients of active messages. The engine continues with those that it holds.
    fn withdraw(&mut self, request: &Request, now_ns: u64) {
        let mut over = Vec::new();
        for (slot, loaded) in (0..).zip(&mut self.slots) {
            let Some(loaded) = loaded.as_mut().filter(|loaded| request.chooses(loaded.waiting.entry.id)) else {
                continue;
            };
            let Loaded { next, recipients, kept, .. } = loaded;
            kept.extend(next.drain(..).map(|index| Left {
                attempts: recipients[index as usize].attempts,
                is_deferred: recipients[index as usize].state == Some(State::Deferred),
                was_offered: recipients[index as usize].was_offered,
                ..Left::new(index)
            }));
            // The engine may have returned all recipients that it had so far.
            over.extend(loaded.is_over().then_some(slot));
        }
        for slot in over {
            self.end(slot, now_ns);
        }
    }

    /// Sets the wake-up times of parked messages again, after the user has changed them.
    fn reorder(&mut self) {
        self.deferred.clear();
        for (waiting, place) in self.parked.iter_mut().zip(0..) {
            let Some(waiting) = waiting else { continue };
            waiting.wake_ns = if waiting.is_held { u64::MAX } else { waiting.due_ns() };
            self.deferred.push(Reverse((waiting.wake_ns, place)));
        }
    }

    /// Deletes messages. Active ones are deleted after the engine has returned their recipients.
    fn delete(&mut self, request: &Request, now_ns: u64) -> u64 {
        let mut count = 0;
        for loaded in self.slots.iter_mut().flatten().filter(|loaded| request.chooses(loaded.waiting.entry.id)) {
            count += u64::from(!std::mem::replace(&mut loaded.waiting.is_deleted, true));
        }
        self.withdraw(request, now_ns);
        let mut deleted = Vec::new();
        let (fresh, parked) = (std::mem::take(&mut self.fresh), &mut self.parked);
        for waiting in fresh {
            if request.chooses(waiting.entry.id) {
                deleted.push(waiting);
            } else {
                self.fresh.push_back(waiting);
            }
        }
        for (place, one) in (0..).zip(parked) {
            if let Some(waiting) = one.take_if(|waiting| request.chooses(waiting.entry.id)) {
                self.postponed -= u64::from(waiting.is_postponed);
                self.free.push(place);
                deleted.push(waiting);
            }
        }
        self.reorder();
        count += deleted.len() as u64;
        for waiting in deleted {
            self.held.remove(&waiting.entry.id);
            let known = addresses(&self.shared, &waiting.entry).map_or(Vec::new(), |(_, to)| to);
            for one in waiting.left().iter() {
                let address = known.get(one.index as usize).map_or("", String::as_str);
                self.settle_deleted(&waiting.entry, *one, address);
            }
            self.segments.remove(&waiting.entry);
        }
        count
    }

    /// Records that the user has deleted a recipient.
    pub(super) fn settle_deleted(&mut self, entry: &Entry, one: Left, address: &str) {
        let before = one.is_deferred.then_some(State::Deferred);
        *self.tally.of(before) -= 1;
        self.deleted += 1;
        self.segments.settle(entry, one.index);
        if let Some(journal) = &mut self.journal {
            journal.add_deleted(entry.id, u64::from(one.index), address, unix_ms());
        }
    }
}

/// Returns the sender and the recipients of a message.
pub(crate) fn addresses(shared: &Shared, entry: &Entry) -> io::Result<(String, Vec<String>)> {
    let file = File::open(shared.mail(entry.segment))?;
    let envelope = record::envelope(&file, entry.offset)?;
    let Meta { from, to, .. } = serde_json::from_slice(&envelope)?;
    Ok((from.into_owned(), to.into_iter().map(Cow::into_owned).collect()))
}

/// Reads the identifiers of the held messages.
pub(super) fn read_held(shared: &Shared) -> io::Result<BTreeSet<u64>> {
    match fs::read_to_string(shared.held()) {
        Ok(text) => text.lines().zip(1..).map(|(line, number)| held_id(line, number)).collect(),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(BTreeSet::new()),
        Err(error) => Err(error),
    }
}

fn held_id(line: &str, number: u32) -> io::Result<u64> {
    u64::from_str_radix(line, 16).map_err(|_| {
        io::Error::other(format!(
            "line {number} is not a message identifier; delete the line, or delete the file to release all messages"
        ))
    })
}

/// Writes the identifiers of the held messages, with an atomic replacement of the file.
fn write_held(shared: &Shared, held: &BTreeSet<u64>) -> io::Result<()> {
    let (path, new) = (shared.held(), shared.held().with_extension("new"));
    let mut options = File::options();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    let text = held.iter().map(|id| format!("{id:X}\n")).collect::<Vec<_>>().concat();
    disk::write_at(&file, text.as_bytes(), 0)?;
    disk::sync(&file)?;
    disk::replace(&new, &path)?;
    disk::sync_names(&shared.directory)
}
