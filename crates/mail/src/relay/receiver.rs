//! The state shared by the sessions of a relay: its limits, the clients it accepts, and the queue they write to.

use super::session::{Outcome, Session};
use crate::queue::{Commit, Entry, Meta, Notice, Shared, Writer};
use crate::sink::Prefix;
use crate::sink::conduct::Plan;
use crate::sink::counters::{Counted, counters};
use crate::sink::protocol::{Opened, Origin, Protocol, Step, Then};
use crate::tls::{Certificate, ServerTls};
use landau_reactor::Waker;
use landau_sys::clock::monotonic_ns;
use landau_sys::socket::is_loopback_or_private;
use landau_wire::smtp::{Extension, Extensions};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// How long a client may be idle (RFC 5321 section 4.5.3.2.7).
const IDLE: Duration = Duration::from_secs(300);

/// Maximum delay of a sync that need not happen at once.
const SYNC: Duration = Duration::from_secs(1);

/// The extensions that the relay offers.
pub(super) const EXTENSIONS: Extensions = Extensions::of(&[
    Extension::Pipelining,
    Extension::Size,
    Extension::EnhancedStatusCodes,
    Extension::EightBitMime,
    Extension::SmtpUtf8,
    Extension::Chunking,
    Extension::Dsn,
]);

counters! {
    /// What a relay's receiver counts.
    Counters {
        commands "command lines",
        messages_accepted "messages accepted",
        recipients_accepted "recipients of messages accepted",
        message_bytes "bytes of messages accepted",
        messages_refused "messages refused after their content",
        commits "writes of accepted messages to the queue, each with one sync or none",
        errors "commands answered with 4yz or 5yz, except those after a MAIL answered with 452",
        bare_line_ends "messages and command lines refused for a bare CR or LF",
        loops "messages refused because they had passed too many hosts",
        refused_clients "connections refused because of the client's address",
        busy "connections answered with 421, over the limit of sessions",
        queue_full "messages answered with 452, because the queue or the memory was full",
        queue_errors "messages answered with 452 or 451, because the queue could not be written",
    }
}

/// The limits of a relay's receiver.
#[derive(Debug, Clone)]
pub struct Reception {
    /// The name of this host, in the greeting and in `Received:`.
    pub name: String,
    /// Maximum size of a message in bytes.
    pub size_limit: u64,
    /// Maximum number of recipients of a message.
    pub recipients: usize,
    /// Maximum number of simultaneous sessions.
    pub sessions: u32,
    /// Maximum memory for messages being received, including the addresses of recipients, in bytes.
    pub memory: u64,
    /// Clients that may send, in addition to this host and private networks.
    pub accept_from: Vec<Prefix>,
    /// The certificate for STARTTLS; none if it is not offered.
    pub certificate: Option<Certificate>,
}

/// The receiver of a relay.
#[derive(Debug)]
pub(super) struct Receiver {
    pub(super) limits: Reception,
    pub(super) counters: Arc<Counters>,
    pub(super) shared: Arc<Shared>,
    pub(super) tls: Option<ServerTls>,
    writer: Writer,
    notices: Sender<Notice>,
    /// Wakes the engine.
    waker: Waker,
    pub(super) open: u32,
    /// The memory of messages being received, including the addresses of recipients, in bytes.
    pub(super) held: u64,
    /// The messages of the batch.
    batch: Vec<u64>,
    /// Messages that could not be written, until their clients get a reply.
    lost: HashMap<u64, Outcome>,
}

impl Receiver {
    pub(super) fn new(
        limits: Reception,
        tls: Option<ServerTls>,
        shared: Arc<Shared>,
        writer: Writer,
        notices: Sender<Notice>,
        waker: Waker,
    ) -> Self {
        Self {
            limits,
            counters: Arc::default(),
            shared,
            tls,
            writer,
            notices,
            waker,
            open: 0,
            held: 0,
            batch: Vec::new(),
            lost: HashMap::new(),
        }
    }

    /// Adds a message to the batch. Its content is the concatenation of `parts`.
    pub(super) fn add(&mut self, meta: &Meta<'_>, parts: &[&[u8]]) -> std::io::Result<()> {
        self.writer.add(meta, parts)?;
        self.batch.push(meta.id);
        Ok(())
    }

    /// Takes the batch without writing it.
    pub(super) fn take_batch(&mut self) -> (Vec<Entry>, Vec<u8>) {
        self.batch.clear();
        self.writer.take_batch()
    }

    /// Returns the outcome of a message after the commit of its batch.
    pub(super) fn take_outcome(&mut self, id: u64) -> Outcome {
        self.lost.remove(&id).unwrap_or(Outcome::Done)
    }

    fn accepts(&self, client: IpAddr) -> bool {
        let client = client.to_canonical();
        is_loopback_or_private(client) || self.limits.accept_from.iter().any(|network| network.contains(client))
    }

    /// Notifies the engine of accepted messages.
    fn tell(&mut self, Commit { entries, closed }: Commit) {
        let is_news = !entries.is_empty() || !closed.is_empty();
        for entry in entries {
            self.counters.messages_accepted.add(1);
            self.counters.recipients_accepted.add(u64::from(entry.recipients));
            self.counters.message_bytes.add(entry.bytes);
            // If the engine has ended, the next run finds the message in the queue.
            let _ = self.notices.send(Notice::Accepted(entry));
        }
        for segment in closed {
            let _ = self.notices.send(Notice::Closed(segment));
        }
        if is_news {
            let _ = self.waker.wake();
        }
    }
}

impl Protocol for Receiver {
    type Session = Session;

    fn open(&mut self, origin: &Origin, _: u32, out: &mut Vec<u8>) -> Opened<Session> {
        self.open += 1;
        let name = &self.limits.name;
        let (text, then) = if !self.accepts(origin.peer) {
            self.counters.refused_clients.add(1);
            (format!("554 5.7.1 {name} does not relay for {}\r\n", origin.peer.to_canonical()), Then::HangUp)
        } else if self.open > self.limits.sessions {
            self.counters.busy.add(1);
            (format!("421 4.3.2 {name} too many sessions\r\n"), Then::HangUp)
        } else {
            (format!("220 {name} ESMTP Landau\r\n"), Then::Receive)
        };
        out.extend_from_slice(text.as_bytes());
        let step = Step { consumed: 0, delay: Duration::ZERO, then };
        Opened { session: Session::new(origin.peer.to_canonical()), plan: Plan::default(), step }
    }

    #[inline]
    fn step(&mut self, session: &mut Session, input: &[u8], _: u32, out: &mut Vec<u8>) -> Step {
        session.step(self, input, out)
    }

    fn commit(&mut self) {
        if self.batch.is_empty() && !self.writer.is_dirty() {
            return;
        }
        self.counters.commits.add(u64::from(!self.batch.is_empty()));
        match self.writer.commit(monotonic_ns()) {
            Ok(commit) => {
                self.tell(commit);
                self.batch.clear();
            }
            Err(error) => {
                self.counters.queue_errors.add(self.batch.len() as u64);
                let outcome = Outcome::of_error(&error);
                self.lost.extend(self.batch.drain(..).map(|id| (id, outcome)));
                let closed = self.writer.take_closed();
                self.tell(Commit { entries: Vec::new(), closed });
            }
        }
    }

    fn commit_within(&self) -> Option<Duration> {
        self.writer.is_dirty().then_some(SYNC)
    }

    fn tls(&self) -> Option<ServerTls> {
        self.tls.clone()
    }

    fn secured(&mut self, session: &mut Session) {
        session.secured(self);
    }

    fn expire(&mut self, _: &mut Session, out: &mut Vec<u8>) {
        out.extend_from_slice(format!("421 4.4.2 {} timeout\r\n", self.limits.name).as_bytes());
    }

    fn close(&mut self, session: &mut Session) {
        self.open -= 1;
        self.held -= session.take_held();
        if let Some(id) = session.committing() {
            self.lost.remove(&id);
        }
    }

    fn idle_timeout(&self, _: &Session) -> Duration {
        IDLE
    }

    fn counters(&self) -> Arc<dyn Counted> {
        self.counters.clone()
    }
}
