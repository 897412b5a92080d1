//! A relay: takes messages by SMTP, keeps them in a queue on the disk, and delivers them with the engine.
//!
//! One thread receives, another delivers. A message is acknowledged after the queue has it; all messages that arrive
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

/// The counters of a sink that a relay does not have, because no profile says how it treats connections.
const OF_PROFILES: [&str; 3] = ["resets", "half_closes", "silent"];

/// What the user asks for.
#[derive(Debug, Clone)]
pub struct Relay {
    /// Where it listens.
    pub listen: Vec<Listen>,
    /// Limits of what it receives.
    pub reception: Reception,
    /// The directory of the queue.
    pub queue: PathBuf,
    /// The most bytes of the queue.
    pub queue_limit: u64,
    /// A file to which a line is appended for each thing that happens to a recipient.
    pub ledger: Option<PathBuf>,
    /// The age at which an undelivered message is given up.
    pub lifetime: Duration,
    /// How long a site is not tried that could not be reached.
    pub site_backoff: Backoff,
    /// Who gets a report about mail from the null sender that fails; without anybody, a report waits as long as any
    /// message for a server that takes its recipient's address.
    pub postmaster: Option<String>,
    /// How messages are delivered. The list, the message and the ledger of it are not used.
    pub delivery: Delivery,
}

/// A relay that listens and does not answer yet.
pub struct Listening {
    sink: Sink,
    engine: Engine<Sockets, Feed>,
    /// What the user should know.
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

/// Sees a relay from any thread.
#[derive(Debug, Clone)]
pub struct Monitor {
    remote: Remote,
    tally: Arc<Mutex<Published>>,
    desk: Desk,
}

impl Monitor {
    /// Opens the ledger again, after it was renamed.
    ///
    /// # Errors
    ///
    /// The relay is ending, or the file cannot be opened; the old one is used.
    pub fn reopen_ledger(&self) -> std::result::Result<(), String> {
        let asked = self.desk.ask(Request::new(Action::Reopen, HashSet::new()));
        match asked.map_err(|error| error.to_string())? {
            Answer::Failed(reason) => Err(reason),
            Answer::Done { .. } | Answer::Items { .. } => Ok(()),
        }
    }

    /// Returns all counters, as of one moment: the recipients that were found and accepted, and those of reports, are
    /// those that were sent, failed, deferred, deleted, or are left.
    pub fn totals(&self) -> Vec<Reading> {
        let published = *self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        // Read after what the engine knows: recipients that it was not told of yet were accepted since, and are left.
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
                "recipients who failed, and whose mail had no sender to report to",
                double_bounces,
            ),
            reading("reads_failed", "attempts to read a message of the queue that failed", unreadable),
            reading("damaged_bytes", "bytes of the queue that were damaged or cut off at the start", damaged_bytes),
            gauge("messages_held", "messages that wait until they are released", held),
            gauge(
                "sites_suspended",
                "sites that are not tried for now, because they could not be reached",
                sites.suspended,
            ),
            reading("suspensions", "times that a site could not be reached and began to wait", sites.suspensions),
            reading("probes", "connections to find out whether a site can be reached again", sites.probes),
            reading(
                "recipients_suspended",
                "recipients deferred without a try, because their site was not tried",
                sites.recipients,
            ),
        ]);
        all
    }
}

impl Relay {
    /// Opens the queue and listens. Clients can connect from here on; they are answered by [`Listening::run`].
    pub fn bind(self) -> Result<Listening> {
        if self.delivery.envelope.mode != Mode::Data {
            return Err(Error::Spec("a relay delivers messages; leave out --mode".to_owned()));
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
        // The queue knows when a message is tried again; the engine has a recipient for one attempt.
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

    /// Receives and delivers until `should_stop`. Then the transactions in progress end.
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
        // While the queue is locked: the next relay makes a socket by the same name.
        drop(control);
        let outcome = engine.into_outcome();
        Ok(Outcome { elapsed_ns: monotonic_ns() - begin_ns, cpu: thread_time().since(cpu), ..outcome })
    }
}
