//! A relay: receives messages over SMTP, stores them in a queue on disk, and delivers them with the engine.
//!
//! One thread receives, another delivers. A message is acknowledged after it is in the queue; all messages that arrive
//! while the disk is busy are written together.

mod ask;
mod control;
pub(crate) mod hostile;
mod receiver;
mod session;
#[cfg(test)]
mod tests;
mod trace;

pub use crate::queue::control::{Action, Condition, Request};
pub use ask::ask;
pub use control::Queued;
pub use receiver::Reception;

use crate::delivery::{self, Delivery, Outcome};
use crate::engine::{Engine, Observer, Plan};
use crate::envelope::Mode;
use crate::error::{Error, Result};
use crate::ledger::Journal;
use crate::network::Sockets;
use crate::queue::control::Answer;
use crate::queue::{self, Feed, Handling, Patience, Published, Writer};
use crate::schedule::{Backoff, Limits, Schedule};
use crate::sink::counters::Reading;
use crate::sink::{Config, Listen, Remote, Sink};
use crate::tls::ServerTls;
use control::{Control, Desk};
use landau_reactor::Backend;
use landau_sys::clock::monotonic_ns;
use landau_sys::process::thread_time;
use landau_wire::smtp::Mailbox;
use receiver::Receiver;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

/// The counters of a sink that a relay lacks, because no profile determines how it treats connections.
const OF_PROFILES: [&str; 3] = ["resets", "half_closes", "silent"];

/// The settings of a relay.
#[derive(Debug, Clone)]
pub struct Relay {
    /// Where it listens.
    pub listen: Vec<Listen>,
    /// The limits on received mail.
    pub reception: Reception,
    /// The directory of the queue.
    pub queue: PathBuf,
    /// Maximum size of the queue in bytes.
    pub queue_limit: u64,
    /// A file to which a line is appended for each event of a recipient.
    pub ledger: Option<PathBuf>,
    /// The age at which an undelivered message is given up.
    pub lifetime: Duration,
    /// How long a site that could not be reached is not tried.
    pub site_backoff: Backoff,
    /// The address that receives reports about failed mail from the null sender. Without it, a report waits as long as
    /// any message for a server that accepts its recipient's address.
    pub postmaster: Option<String>,
    /// How messages are delivered. Its list, message and ledger are not used.
    pub delivery: Delivery,
}

/// A relay that listens but does not answer yet.
pub struct Listening {
    sink: Sink,
    engine: Engine<Sockets, Feed>,
    /// Notes for the user.
    pub notes: Vec<String>,
    tally: Arc<Mutex<Published>>,
    desk: Desk,
    _control: Control,
}

impl std::fmt::Debug for Listening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listening").field("sink", &self.sink).finish_non_exhaustive()
    }
}

/// A handle for observing a relay from any thread.
#[derive(Debug, Clone)]
pub struct Monitor {
    remote: Remote,
    tally: Arc<Mutex<Published>>,
    desk: Desk,
}

impl Monitor {
    /// Reopens the ledger after it was renamed.
    ///
    /// # Errors
    ///
    /// The relay is ending, or the file cannot be opened; the old one stays in use.
    pub fn reopen_ledger(&self) -> std::result::Result<(), String> {
        let asked = self.desk.ask(Request::new(Action::Reopen, HashSet::new()));
        match asked.map_err(|error| error.to_string())? {
            Answer::Failed(reason) => Err(reason),
            Answer::Done { .. } | Answer::Items { .. } => Ok(()),
        }
    }

    /// Returns a consistent snapshot of all counters: the recipients found and accepted, and those of reports, add up
    /// to those sent, failed, deferred, deleted and left.
    pub fn totals(&self) -> Vec<Reading> {
        let published = *self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        // Read after the engine's counts: recipients that were not announced to it yet were accepted since, and are
        // left.
        let mut all = self.remote.totals();
        all.retain(|one| !OF_PROFILES.contains(&one.name));
        let accepted = all.iter().find(|one| one.name == "recipients_accepted").map_or(0, |one| one.value);
        let Published { tally, found, deleted, announced, reports, held, .. } = published;
        let Published { unreadable, double_bounces, damaged_bytes, sites, .. } = published;
        let left = tally.left + accepted.saturating_sub(announced);
        let reading = |name, about, value| Reading { name, about, value, is_gauge: false };
        let gauge = |name, about, value| Reading { is_gauge: true, ..reading(name, about, value) };
        all.extend([
            reading("recipients_found", "recipients that were in the queue at the start", found),
            reading("recipients_sent", "recipients to whom mail was delivered", tally.done),
            reading("recipients_failed", "recipients to whom mail could not be delivered", tally.failed),
            gauge("recipients_deferred", "recipients who are tried again later", tally.deferred),
            reading("recipients_deleted", "recipients whose message the user has deleted", deleted),
            gauge("recipients_left", "recipients who have not been tried", left),
            reading("reports", "reports to senders about recipients that failed, added to the queue", reports),
            reading(
                "double_bounces",
                "recipients that failed, of messages that had no sender to report to",
                double_bounces,
            ),
            reading("reads_failed", "failed attempts to read a message of the queue", unreadable),
            reading("damaged_bytes", "bytes of the queue that were damaged or cut off at the start", damaged_bytes),
            gauge("messages_held", "messages held until they are released", held),
            gauge("sites_suspended", "sites currently suspended, because they could not be reached", sites.suspended),
            reading(
                "suspensions",
                "times that a site was suspended, because it could not be reached",
                sites.suspensions,
            ),
            reading("probes", "connections that probed whether a suspended site can be reached again", sites.probes),
            reading(
                "recipients_suspended",
                "recipients deferred without an attempt, because their site was suspended",
                sites.recipients,
            ),
        ]);
        all
    }
}

impl Relay {
    /// Opens the queue and listens. Clients can connect from then on; [`Listening::run`] answers them.
    pub fn bind(self) -> Result<Listening> {
        if self.delivery.envelope.mode != Mode::Data {
            return Err(Error::Spec("a relay delivers messages; omit --mode".to_owned()));
        }
        if let Some(address) = &self.postmaster {
            Mailbox::parse(address.as_bytes())
                .map_err(|error| Error::Spec(format!("--postmaster {address}: {error}")))?;
        }
        let Delivery { limits, sync, .. } = self.delivery.clone();
        let keeps_double_bounces = self.postmaster.is_none();
        let (routes, plan) = (self.delivery.routes()?, Plan { keeps_double_bounces, ..self.delivery.plan()? });
        let mut found = queue::open(&self.queue, self.queue_limit, sync)?;
        let mut notes = std::mem::take(&mut found.notes);
        notes.extend(queue::exposure(&self.queue));
        let others = self.reception.sessions.saturating_add(queue::DESCRIPTORS);
        let limits = delivery::limits(limits, others, &mut notes);
        let journal = self.ledger.as_deref().map(Journal::open).transpose()?;
        let mut network = Sockets::new(Backend::default())?;
        let (sender, notices) = mpsc::channel();
        let writer = Writer::new(Arc::clone(&found.shared), sync);
        let tls = self.reception.certificate.as_ref().map(|one| ServerTls::new(one, &self.reception.name));
        let tls = tls.transpose().map_err(|reason| Error::Spec(format!("cannot offer STARTTLS: {reason}")))?;
        let desk = Desk { notices: sender.clone(), waker: network.waker()?, is_ending: Arc::default() };
        let control = Control::start(&self.queue, Arc::clone(&found.shared), desk.clone());
        let control = control.map_err(|error| Error::file(&self.queue.join("control"), error.to_string()))?;
        let waker = desk.waker.clone();
        let receiver = Receiver::new(self.reception, tls, Arc::clone(&found.shared), writer, sender, waker);
        let sink = Sink::bind(receiver, Config::new(self.listen))?;
        let patience = Patience { backoff: limits.backoff, lifetime: self.lifetime };
        let envelope = plan.envelope.clone();
        let postmaster = self.postmaster.map(String::into_boxed_str);
        let handling = Handling { sync, envelope, signer: self.delivery.signer.clone(), postmaster, patience };
        let feed = Feed::new(found, notices, handling, journal, monotonic_ns());
        let tally = feed.published();
        // The queue decides when a message is tried again; the engine holds a recipient for one attempt.
        let schedule = Schedule::new(Limits { attempts: 1, ..limits }).with_suspension(self.site_backoff);
        let engine = Engine::new(network, feed, routes, plan, schedule);
        Ok(Listening { sink, engine, notes, tally, desk, _control: control })
    }
}

impl Listening {
    /// Returns the addresses, with the port that the system chose for port 0.
    pub fn addresses(&self) -> Vec<Listen> {
        self.sink.addresses()
    }

    /// Returns a handle for other threads.
    pub fn monitor(&self) -> Monitor {
        Monitor { remote: self.sink.remote(), tally: Arc::clone(&self.tally), desk: self.desk.clone() }
    }

    /// Receives and delivers until `should_stop` returns true. Then waits for the transactions in progress.
    pub fn run(self, observer: &mut dyn Observer, should_stop: &dyn Fn() -> bool) -> Result<Outcome> {
        let Self { sink, mut engine, _control: control, .. } = self;
        let remote = sink.remote();
        let receiving = std::thread::Builder::new().name("receiver".to_owned()).spawn(move || sink.run());
        let receiving = receiving.map_err(Error::Queue)?;
        let (begin_ns, cpu) = (monotonic_ns(), thread_time());
        let outcome = engine.run(observer, &|| {
            let is_end = should_stop() || receiving.is_finished();
            if is_end {
                remote.end();
            }
            is_end
        });
        remote.end();
        let received = receiving.join();
        outcome?;
        match received {
            Ok(result) => result?,
            Err(panic) => std::panic::resume_unwind(panic),
        }
        // Dropped while the queue is locked: the next relay creates a socket with the same name.
        drop(control);
        let outcome = engine.into_outcome();
        Ok(Outcome { elapsed_ns: monotonic_ns() - begin_ns, cpu: thread_time().since(cpu), ..outcome })
    }
}
