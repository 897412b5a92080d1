//! A connection of the engine, and why it ended.

use super::hold::Work;
use crate::client::{Broken, Session, Stage};
use crate::input::Letter;
use crate::route::Candidate;
use crate::tls::TlsSession;
use landau_wire::smtp::Code;
use std::net::SocketAddr;
use std::rc::Rc;

/// The progress of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// The TCP handshake is in progress.
    Connecting,
    /// The greeting or the answer to EHLO is awaited.
    Established,
    /// The server is willing to take mail.
    Greeted,
    /// QUIT was sent.
    Quitting,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) site: u32,
    /// The epoch of the site when the connection was opened.
    pub(super) epoch: u32,
    /// The addresses to try; the last one is in use.
    pub(super) candidates: Vec<Candidate>,
    pub(super) session: Session,
    /// The TLS session, if the connection is encrypted.
    pub(super) tls: Option<Box<TlsSession>>,
    /// Why TLS failed.
    tls_failure: String,
    /// The letter whose content is being sent.
    pub(super) letter: Option<Rc<Letter>>,
    /// When `connect` was called.
    pub(super) start_ns: u64,
    pub(super) phase: Phase,
    /// The number of transactions that have begun.
    pub(super) begun: u64,
    pub(super) work: Work,
    /// Whether the network reports when more can be sent.
    pub(super) watches_writing: bool,
}

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// QUIT was answered.
    Quit,
    /// The server refused it, with the last reply.
    Refused,
    /// The server closes it (421), with the last reply.
    Closing,
    /// The stream ended without a reply.
    Closed,
    /// A system call failed.
    Failed(landau_sys::Error),
    /// The server violated the protocol.
    Broken(Broken),
    /// The server did not answer in time.
    TimedOut,
    /// TLS failed.
    Tls,
    /// The message could not be signed; the server awaits it.
    Unrendered,
}

impl Connection {
    /// Returns a connection that tries these addresses in order.
    pub(super) fn new(
        (site, epoch): (u32, u32),
        mut candidates: Vec<Candidate>,
        session: Session,
        now_ns: u64,
    ) -> Self {
        candidates.reverse();
        Self {
            site,
            epoch,
            candidates,
            session,
            tls: None,
            tls_failure: String::new(),
            letter: None,
            start_ns: now_ns,
            phase: Phase::Connecting,
            begun: 0,
            work: Work::default(),
            watches_writing: false,
        }
    }

    /// Returns the address that is in use.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.candidates.last().map(|candidate| candidate.address)
    }

    /// Records why TLS failed. Returns the end of the connection.
    pub(super) fn fail_tls(&mut self, reason: String) -> End {
        self.tls_failure = reason;
        End::Tls
    }

    /// Returns whether the TLS handshake is in progress.
    pub(super) fn is_in_handshake(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// Restarts with another session.
    pub(super) fn restart(&mut self, session: Session, now_ns: u64) {
        (self.phase, self.start_ns, self.watches_writing) = (Phase::Connecting, now_ns, false);
        (self.session, self.tls) = (session, None);
    }

    /// Describes the end of the connection.
    pub(super) fn describe(&self, end: End) -> String {
        let stage = self.session.stage();
        let during = match stage {
            _ if self.phase == Phase::Connecting => "while connecting".to_owned(),
            Some(stage) => format!("while waiting for {}", awaited(stage)),
            None if self.is_in_handshake() => "in the TLS handshake".to_owned(),
            None => "while idle".to_owned(),
        };
        let reply = || {
            let code = self.session.code().map(Code::number).unwrap_or_default();
            format!("{code} {}", String::from_utf8_lossy(self.session.reply()))
        };
        match end {
            End::Quit => "closed".to_owned(),
            End::Refused => format!("the server refused the connection: {}", reply()),
            End::Closing => format!("the server closed the connection: {}", reply()),
            End::Closed => format!("the server closed the connection {during}"),
            End::Failed(error) => format!("{error} {during}"),
            End::Broken(broken) => format!("{broken} {during}"),
            End::TimedOut => format!("timeout {during}"),
            End::Tls => format!("TLS failed: {}", self.tls_failure),
            End::Unrendered => "the message could not be signed".to_owned(),
        }
    }

    /// Returns whether the server greeted the client, and the connection then ended before any transaction did.
    pub(super) fn was_useless(&self, end: End) -> bool {
        let is_lost = matches!(end, End::Closing | End::Closed | End::Failed(_) | End::Broken(_) | End::TimedOut);
        is_lost && self.phase == Phase::Greeted && self.begun > 0 && self.session.ended() == 0
    }

    /// Returns whether the transaction in progress was refused together with the connection, before the server had seen
    /// its recipient. Servers end connections in this way after many messages.
    pub(super) fn is_worn_out(&self) -> bool {
        self.session.ended() > 0 && !self.session.has_sender()
    }
}

/// Returns what the client waits for in a stage.
fn awaited(stage: Stage) -> &'static str {
    match stage {
        Stage::Greeting => "the greeting",
        Stage::Ehlo => "the reply to EHLO",
        Stage::Helo => "the reply to HELO",
        Stage::StartTls => "the reply to STARTTLS",
        Stage::Mail => "the reply to MAIL",
        Stage::Rcpt => "the reply to RCPT",
        Stage::Data => "the reply to DATA",
        Stage::Content => "the reply to the end of the message",
        Stage::Chunk => "the reply to BDAT",
        Stage::Reset | Stage::Clear => "the reply to RSET",
        Stage::Quit => "the reply to QUIT",
    }
}
