//! An SMTP receiver (RFC 5321) whose behaviour is set by its [profile].
//!
//! It accepts mail for every address, stores nothing unless it has [mailboxes](crate::sink::mailbox), and never sends
//! mail. Command lines and content end with CR LF alone; a bare CR or LF is refused, so that no second message can be
//! smuggled in (CVE-2023-51764 and similar).

pub(crate) mod hostile;
mod policy;
pub mod profile;
mod session;
#[cfg(test)]
mod tests;
mod texts;
mod transaction;

use crate::sink::conduct::Plan;
use crate::sink::counters::{Counted, counters};
use crate::sink::draw::Draws;
use crate::sink::error::Error;
use crate::sink::mailbox::Mailboxes;
use crate::sink::protocol::{Opened, Origin, Protocol, Step, Then};
use crate::tls::{Certificate, ServerTls};
use policy::Policy;
use profile::Profiles;
use session::Session;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

counters! {
    /// The counters of an SMTP sink.
    Counters {
        commands "command lines",
        messages "messages accepted",
        message_bytes "bytes of content accepted",
        messages_refused "messages refused after their content",
        recipients "recipients accepted",
        recipients_greylisted "recipients refused by greylisting",
        recipients_deferred "recipients refused temporarily",
        recipients_refused "recipients refused permanently",
        recipients_excess "recipients refused because the message had too many",
        resets_of_transactions "RSET commands",
        junk "commands between messages that do nothing: RSET, NOOP, HELP, VRFY and repeated EHLO",
        errors "commands answered with 4yz or 5yz",
        bare_line_ends "messages and command lines refused for a bare CR or LF",
        busy "connections answered with 421, over the limit of connections",
        message_limit "connections closed with 421, over the limit of messages",
        error_limit "connections closed with 421, over the limit of errors",
        mailbox_errors "messages refused because a mailbox could not be written",
    }
}

/// An SMTP sink.
#[derive(Debug)]
pub struct Smtp {
    name: String,
    profiles: Profiles,
    draws: Draws,
    policy: Policy,
    mailboxes: Option<Mailboxes>,
    tls: Option<ServerTls>,
    counters: Arc<Counters>,
    /// The number of open connections of each host with a limit.
    open: HashMap<IpAddr, u32>,
    /// The number of accepted messages, which provides their queue identifiers.
    accepted: u64,
}

impl Smtp {
    /// Returns a sink that greets with `name`. All its random draws depend on the seed.
    pub fn new(name: &str, profiles: Profiles, seed: u64) -> Self {
        let draws = Draws::new(seed);
        Self {
            name: name.to_owned(),
            profiles,
            draws,
            policy: Policy::new(draws),
            mailboxes: None,
            tls: None,
            counters: Arc::default(),
            open: HashMap::new(),
            accepted: 0,
        }
    }

    /// Stores accepted messages in mailboxes.
    #[must_use]
    pub fn with_mailboxes(mut self, mailboxes: Mailboxes) -> Self {
        self.mailboxes = Some(mailboxes);
        self
    }

    /// Offers STARTTLS.
    ///
    /// # Errors
    ///
    /// A certificate that cannot be used.
    pub fn with_tls(mut self, certificate: &Certificate) -> Result<Self, Error> {
        self.tls = Some(ServerTls::new(certificate, &self.name).map_err(|reason| Error::Tls { reason })?);
        Ok(self)
    }

    /// Counts a connection to a host; returns whether it is over the host's limit.
    fn is_busy(&mut self, local: IpAddr, limit: Option<u32>) -> bool {
        let Some(limit) = limit else { return false };
        let open = self.open.entry(local).or_insert(0);
        *open += 1;
        *open > limit
    }
}

impl Protocol for Smtp {
    type Session = Session;

    fn open(&mut self, origin: &Origin, _now_ms: u32, out: &mut Vec<u8>) -> Opened<Session> {
        let host = self.profiles.find(origin.local);
        let profile = self.profiles.host(host);
        let (limit, greeting) = (profile.connections, profile.latencies.greeting);
        let plan: Plan = profile.conduct.plan(self.draws, origin.number);
        let delay = greeting.draw(self.draws, origin.number, 0);
        let session = Session::new(host, origin);
        let then = if self.is_busy(origin.local, limit) {
            self.counters.busy.add(1);
            out.extend_from_slice(format!("421 4.7.0 {} too many connections\r\n", self.name).as_bytes());
            Then::HangUp
        } else {
            out.extend_from_slice(format!("220 {} ESMTP Landau\r\n", self.name).as_bytes());
            Then::Receive
        };
        Opened { session, plan, step: Step { consumed: 0, delay, then } }
    }

    #[inline]
    fn step(&mut self, session: &mut Session, input: &[u8], now_ms: u32, out: &mut Vec<u8>) -> Step {
        session.step(self, input, now_ms, out)
    }

    fn tls(&self) -> Option<ServerTls> {
        self.tls.clone()
    }

    fn secured(&mut self, session: &mut Session) {
        session.secured();
    }

    fn expire(&mut self, _session: &mut Session, out: &mut Vec<u8>) {
        out.extend_from_slice(format!("421 4.4.2 {} Error: timeout exceeded\r\n", self.name).as_bytes());
    }

    fn close(&mut self, session: &mut Session) {
        if let Some(open) = self.open.get_mut(&session.local) {
            *open -= 1;
            // A host without connections needs no entry, so the table is not larger than that of the connections.
            if *open == 0 {
                self.open.remove(&session.local);
            }
        }
    }

    #[inline]
    fn idle_timeout(&self, session: &Session) -> Duration {
        self.profiles.host(session.host).idle
    }

    fn counters(&self) -> Arc<dyn Counted> {
        self.counters.clone()
    }
}
