//! One connection to a server: greeting, EHLO, transactions, QUIT.
//!
//! If the server offers PIPELINING (RFC 2920), the commands of a transaction are sent in one write and their replies
//! are matched in order. The content is then sent with the commands of the next transaction, so that a message costs
//! one receive and one send. Without PIPELINING, each command waits for the reply to the previous one.

use super::{Content, Outgoing};
use crate::envelope::{Envelope, Mode};
use crate::stats::Phases;
use landau_wire::smtp::data::Transfer;
use landau_wire::smtp::parameter::OriginalRecipient;
use landau_wire::smtp::reply::{Malformed, Parsed, Scan};
use landau_wire::smtp::{Capabilities, Class, Code, Command, Extension, Host, Mail, Mailbox, Rcpt, ReversePath};
use std::collections::VecDeque;

/// The command or step that a reply answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The connection.
    Greeting,
    /// EHLO.
    Ehlo,
    /// HELO, after EHLO was refused.
    Helo,
    /// STARTTLS.
    StartTls,
    /// MAIL.
    Mail,
    /// RCPT.
    Rcpt,
    /// DATA.
    Data,
    /// The end of the content after DATA.
    Content,
    /// BDAT with its chunk.
    Chunk,
    /// RSET at the end of a transaction in mode `rset`.
    Reset,
    /// RSET that clears a transaction that failed.
    Clear,
    /// QUIT.
    Quit,
}

/// What a reply means for a recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It succeeded.
    Success,
    /// It failed, and may succeed later.
    Transient,
    /// It failed permanently.
    Permanent,
}

/// An event of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// STARTTLS was answered: the client begins the TLS handshake. [`Session::secured`] follows.
    Secure,
    /// EHLO was answered: the server is willing to take mail.
    Greeted,
    /// The session has no transaction and accepts one, or QUIT.
    Ready,
    /// The server awaits the content of the message: call [`Session::send_content`].
    ContentWanted,
    /// A recipient has an outcome; [`Session::reply`] is the reason.
    Resolved(u32, Verdict),
    /// The server refused the connection, by its greeting or in answer to EHLO or HELO.
    Refused,
    /// The server closes the connection (421).
    Closing,
    /// QUIT was answered.
    Done,
}

/// Why a connection cannot continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Broken {
    /// A reply that cannot be understood.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// A reply that answers no command.
    #[error("the server sent an unsolicited reply")]
    Unsolicited,
    /// A reply that the protocol does not allow.
    #[error("the server answered {0} to {1:?}")]
    Unexpected(Code, Stage),
    /// Bytes after the answer to STARTTLS, which an attacker on the path to the server may have injected
    /// (CVE-2011-0411).
    #[error("the server sent unencrypted bytes after its reply to STARTTLS")]
    Injected,
    /// TLS is required but not offered.
    #[error("the server does not offer STARTTLS, and TLS is required")]
    NoTls,
    /// TLS is required but was refused.
    #[error("the server refused STARTTLS with {0}, and TLS is required")]
    TlsRefused(Code),
}

/// The encryption of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Security {
    /// The connection is not encrypted.
    Plain,
    /// The connection is encrypted if the server supports it.
    Opportunistic,
    /// The connection is encrypted, or no mail is sent.
    Required,
    /// The TLS handshake is done.
    Encrypted,
}

/// The properties of a message that its transaction depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Needs {
    /// The length of the content in bytes, if it is the same for all recipients.
    pub(crate) size: Option<u64>,
    /// Whether the content has non-ASCII bytes.
    pub(crate) is_8bit: bool,
    /// Whether the header or an address has non-ASCII characters.
    pub(crate) is_utf8: bool,
    /// The content sent after BDAT, and its length.
    pub(crate) chunk: (Content, usize),
}

/// The state of a recipient in a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// RCPT was not answered yet.
    Open,
    /// RCPT was accepted, but the message was not yet.
    Accepted,
    /// The outcome was reported.
    Resolved,
}

/// The state machine of a connection.
#[derive(Debug)]
pub(crate) struct Session {
    mode: Mode,
    security: Security,
    /// When STARTTLS was sent.
    secure_ns: u64,
    capabilities: Capabilities,
    is_pipelined: bool,
    is_chunked: bool,
    /// The stages that await replies, in order, and when each began.
    awaited: VecDeque<(Stage, u64)>,
    /// The content that follows a planned BDAT, and its length.
    chunk: (Content, usize),
    /// Commands of a transaction that wait for the replies to earlier ones.
    script: Vec<u8>,
    /// The stages of the commands in `script`.
    planned: VecDeque<Stage>,
    /// The recipients of all transactions that have begun, in order.
    recipients: VecDeque<(u32, Standing)>,
    /// The number of recipients of each transaction that has begun.
    sizes: VecDeque<u32>,
    /// The index in `recipients` of the next RCPT to be answered.
    next_rcpt: usize,
    /// The number of accepted recipients of the first transaction.
    accepted_count: u32,
    /// The stage that the last reply answered; none if it was unsolicited.
    answered: Option<Stage>,
    /// The number of accepted MAIL commands.
    senders: u64,
    /// Whether the server may still hold a transaction that failed.
    needs_clear: bool,
    /// The number of transactions that have ended. One that a 421 ended counts only if the 421 answered its RSET.
    ended: u64,
    /// Recipients with an outcome that was not reported yet.
    resolved: VecDeque<(u32, Verdict)>,
    /// An event that follows those of `resolved`.
    pending: Option<Event>,
    scan: Scan,
    /// The beginning of an incomplete reply.
    partial: Vec<u8>,
    /// The text of the last reply, without its end.
    reply: Vec<u8>,
    code: Option<Code>,
    pub(crate) outgoing: Outgoing,
    /// The content for one recipient, if the message is a template.
    pub(crate) own_content: Vec<u8>,
}

impl Session {
    /// Returns the session of a connection that is being established at `now_ns`.
    pub(crate) fn new(mode: Mode, security: Security, now_ns: u64) -> Self {
        Self {
            mode,
            security,
            secure_ns: 0,
            capabilities: Capabilities::default(),
            is_pipelined: false,
            is_chunked: false,
            awaited: VecDeque::from([(Stage::Greeting, now_ns)]),
            chunk: (Content::Shared(Transfer::Bdat), 0),
            script: Vec::new(),
            planned: VecDeque::new(),
            recipients: VecDeque::new(),
            sizes: VecDeque::new(),
            next_rcpt: 0,
            accepted_count: 0,
            answered: None,
            senders: 0,
            needs_clear: false,
            ended: 0,
            resolved: VecDeque::new(),
            pending: None,
            scan: Scan::default(),
            partial: Vec::new(),
            reply: Vec::new(),
            code: None,
            outgoing: Outgoing::default(),
            own_content: Vec::new(),
        }
    }

    /// Records that the connection was established; the wait for the greeting begins.
    pub(crate) fn connected(&mut self, now_ns: u64) {
        if let Some((Stage::Greeting, since_ns)) = self.awaited.front_mut() {
            *since_ns = now_ns;
        }
    }

    /// Records the end of the TLS handshake and sends EHLO again: earlier capabilities of the server must be discarded
    /// (RFC 3207 section 4.2). Returns the time since STARTTLS was sent.
    pub(crate) fn secured(&mut self, envelope: &Envelope, now_ns: u64) -> u64 {
        self.security = Security::Encrypted;
        self.capabilities = Capabilities::default();
        self.hello(Stage::Ehlo, envelope, now_ns);
        now_ns.saturating_sub(self.secure_ns)
    }

    /// Returns the capabilities of the server.
    pub(crate) fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// Returns the code of the last reply.
    pub(crate) fn code(&self) -> Option<Code> {
        self.code
    }

    /// Returns the text of the last reply as one line, without the code.
    pub(crate) fn reply(&self) -> &[u8] {
        &self.reply
    }

    /// Returns the stage that the next reply answers.
    pub(crate) fn stage(&self) -> Option<Stage> {
        self.awaited.front().map(|(stage, _)| *stage)
    }

    /// Returns the stage that the last reply answered; none if it was unsolicited.
    pub(crate) fn answered_stage(&self) -> Option<Stage> {
        self.answered
    }

    /// Returns whether the server has answered MAIL of the transaction in progress.
    pub(crate) fn has_sender(&self) -> bool {
        let stages = self.awaited.iter().map(|(stage, _)| stage).chain(&self.planned);
        stages.filter(|stage| **stage == Stage::Mail).count() < self.sizes.len()
    }

    /// Returns whether the server has accepted any MAIL.
    pub(crate) fn takes_mail(&self) -> bool {
        self.senders > 0
    }

    /// Returns the number of transactions that have ended. One that a 421 ended counts only if the 421 answered its
    /// RSET.
    pub(crate) fn ended(&self) -> u64 {
        self.ended
    }

    /// Returns whether messages are sent with BDAT.
    pub(crate) fn is_chunked(&self) -> bool {
        self.is_chunked
    }

    /// Returns whether commands may follow a content at once.
    pub(crate) fn is_pipelined(&self) -> bool {
        self.is_pipelined
    }

    /// Takes the next complete reply from `input` and returns the event that results; `None` if no event is left.
    /// `input` holds the received bytes that were not taken yet.
    #[inline]
    pub(crate) fn next(
        &mut self,
        input: &mut &[u8],
        envelope: &Envelope,
        now_ns: u64,
        phases: &mut Phases,
    ) -> Result<Option<Event>, Broken> {
        loop {
            if let Some((recipient, verdict)) = self.resolved.pop_front() {
                return Ok(Some(Event::Resolved(recipient, verdict)));
            }
            if let Some(event) = self.pending.take() {
                return Ok(Some(event));
            }
            if input.is_empty() || !self.read_reply(input)? {
                return Ok(None);
            }
            let awaited = self.awaited.pop_front();
            self.answered = awaited.map(|(stage, _)| stage);
            let Some((stage, since_ns)) = awaited else {
                // A server that shuts down sends 421 without a command.
                return if self.code == Some(Code::UNAVAILABLE) {
                    Ok(Some(Event::Closing))
                } else {
                    Err(Broken::Unsolicited)
                };
            };
            phases.replied(stage, now_ns.saturating_sub(since_ns));
            self.answered(stage, envelope, now_ns)?;
            if self.pending == Some(Event::Secure) && !input.is_empty() {
                return Err(Broken::Injected);
            }
        }
    }

    /// Reads a reply from the received bytes. Returns whether it is complete.
    fn read_reply(&mut self, input: &mut &[u8]) -> Result<bool, Broken> {
        let is_whole = self.partial.is_empty();
        if !is_whole {
            self.partial.extend_from_slice(input);
        }
        let before = self.partial.len() - if is_whole { 0 } else { input.len() };
        let bytes: &[u8] = if is_whole { input } else { &self.partial };
        match self.scan.parse(bytes)? {
            Parsed::Incomplete => {
                if is_whole {
                    self.partial.extend_from_slice(input);
                }
                *input = &[];
                Ok(false)
            }
            Parsed::Complete { reply, consumed } => {
                self.code = Some(reply.code());
                self.reply.clear();
                for text in reply.lines() {
                    if !self.reply.is_empty() {
                        self.reply.push(b' ');
                    }
                    self.reply.extend_from_slice(text);
                }
                if matches!(self.awaited.front(), Some((Stage::Ehlo, _))) && reply.code().class() == Class::Success {
                    self.capabilities = Capabilities::of_reply(&reply);
                }
                *input = &input[consumed - before..];
                self.partial.clear();
                self.scan = Scan::default();
                Ok(true)
            }
        }
    }

    /// Acts on a reply.
    fn answered(&mut self, stage: Stage, envelope: &Envelope, now_ns: u64) -> Result<(), Broken> {
        let Some(code) = self.code else { return Ok(()) };
        let is_closing = code == Code::UNAVAILABLE;
        let class = code.class();
        if class == Class::Intermediate && stage != Stage::Data {
            return Err(Broken::Unexpected(code, stage));
        }
        let begun = self.sizes.len();
        match stage {
            Stage::Greeting if class == Class::Success => {
                self.hello(Stage::Ehlo, envelope, now_ns);
                return Ok(());
            }
            Stage::Ehlo if class == Class::Permanent => {
                self.hello(Stage::Helo, envelope, now_ns);
                return Ok(());
            }
            Stage::Ehlo if class == Class::Success && self.begin_tls(now_ns) => return Ok(()),
            Stage::StartTls if class == Class::Success => {
                self.pending = Some(Event::Secure);
                return Ok(());
            }
            Stage::StartTls if self.security == Security::Required => return Err(Broken::TlsRefused(code)),
            Stage::StartTls if is_closing => {
                self.pending = Some(Event::Refused);
                return Ok(());
            }
            Stage::Ehlo | Stage::Helo if class == Class::Success && self.security == Security::Required => {
                return Err(Broken::NoTls);
            }
            Stage::StartTls => {
                self.greeted(envelope, Class::Success);
                return Ok(());
            }
            Stage::Greeting | Stage::Ehlo | Stage::Helo => {
                self.greeted(envelope, class);
                return Ok(());
            }
            Stage::Quit => {
                self.pending = Some(Event::Done);
                return Ok(());
            }
            Stage::Mail => self.mail_answered(class),
            Stage::Rcpt => self.rcpt_answered(code, class),
            Stage::Data => self.data_answered(code, class, now_ns)?,
            Stage::Content | Stage::Chunk => {
                self.needs_clear |= stage == Stage::Chunk && class != Class::Success;
                self.resolve_front(class);
                self.end_transaction();
            }
            Stage::Reset => self.end_transaction(),
            Stage::Clear => {}
        }
        // A transaction that ends with the connection (421) does not show that the server takes mail. At RSET, however,
        // its recipients have been answered.
        let has_ended = self.sizes.len() < begun;
        self.ended += u64::from(has_ended && (stage == Stage::Reset || !is_closing));
        if is_closing {
            self.pending = Some(Event::Closing);
        } else if matches!(stage, Stage::Reset | Stage::Clear) && class != Class::Success {
            return Err(Broken::Unexpected(code, stage));
        } else {
            self.issue(now_ns);
        }
        Ok(())
    }

    /// Ends the introductions: selects the extensions to use and reports the event.
    fn greeted(&mut self, envelope: &Envelope, class: Class) {
        self.is_pipelined = envelope.pipelining && self.capabilities.extensions.has(Extension::Pipelining);
        self.is_chunked = envelope.chunking && self.capabilities.extensions.has(Extension::Chunking);
        self.pending = Some(if class == Class::Success { Event::Greeted } else { Event::Refused });
    }

    /// Sends STARTTLS if encryption is wanted and the server offers it. Returns whether it was sent.
    fn begin_tls(&mut self, now_ns: u64) -> bool {
        let is_wanted = matches!(self.security, Security::Opportunistic | Security::Required);
        let begins = is_wanted && self.capabilities.extensions.has(Extension::StartTls);
        if begins {
            Command::StartTls.write(self.outgoing.commands());
            self.awaited.push_back((Stage::StartTls, now_ns));
            self.secure_ns = now_ns;
        }
        begins
    }

    fn hello(&mut self, stage: Stage, envelope: &Envelope, now_ns: u64) {
        // The name was checked when the run began.
        let Ok(host) = Host::parse(envelope.helo.as_bytes()) else { return };
        let command = if stage == Stage::Ehlo { Command::Ehlo(host) } else { Command::Helo(host) };
        command.write(self.outgoing.commands());
        self.awaited.push_back((stage, now_ns));
    }

    /// Handles the reply to MAIL: if it was refused, so are the recipients.
    fn mail_answered(&mut self, class: Class) {
        self.senders += u64::from(class == Class::Success);
        if class != Class::Success {
            self.resolve_front(class);
            if !self.is_pipelined {
                self.skip_rest();
            }
        }
    }

    fn rcpt_answered(&mut self, code: Code, class: Class) {
        let is_asked = self.mode == Mode::Rset;
        // After others were accepted, 552 means that the transaction has too many recipients: it is treated as 452 (RFC
        // 5321 section 4.5.3.1.10).
        let is_excess = code == Code::TOO_LARGE && self.accepted_count > 0;
        let class = if is_excess { Class::Transient } else { class };
        self.accepted_count += u32::from(class == Class::Success);
        if let Some((id, standing)) = self.recipients.get_mut(self.next_rcpt)
            && *standing == Standing::Open
        {
            if class == Class::Success && !is_asked {
                *standing = Standing::Accepted;
            } else {
                *standing = Standing::Resolved;
                self.resolved.push_back((*id, verdict(class)));
            }
        }
        self.next_rcpt += 1;
        let is_last = self.next_rcpt == self.front_size();
        if is_last && !self.is_pipelined && !is_asked && !self.has_accepted() {
            self.needs_clear = true;
            self.skip_rest();
        }
    }

    fn data_answered(&mut self, code: Code, class: Class, now_ns: u64) -> Result<(), Broken> {
        match class {
            Class::Intermediate if self.has_accepted() => self.pending = Some(Event::ContentWanted),
            Class::Intermediate => {
                // All recipients were refused, but the server still waits for a message: it gets an empty one (RFC 2920
                // section 3.1).
                self.outgoing.commands().extend_from_slice(b".\r\n");
                self.awaited.push_back((Stage::Content, now_ns));
            }
            Class::Success => return Err(Broken::Unexpected(code, Stage::Data)),
            Class::Transient | Class::Permanent => {
                self.needs_clear = true;
                self.resolve_front(class);
                self.end_transaction();
            }
        }
        Ok(())
    }

    /// Reports the remaining recipients of the first transaction.
    fn resolve_front(&mut self, class: Class) {
        let size = self.front_size();
        for (id, standing) in self.recipients.iter_mut().take(size) {
            if *standing != Standing::Resolved {
                *standing = Standing::Resolved;
                self.resolved.push_back((*id, verdict(class)));
            }
        }
    }

    /// Ends the first transaction, all of whose recipients were reported.
    fn end_transaction(&mut self) {
        let size = self.front_size();
        self.recipients.drain(..size);
        self.sizes.pop_front();
        self.next_rcpt = self.next_rcpt.saturating_sub(size);
        self.accepted_count = 0;
        if self.sizes.is_empty() {
            self.pending = Some(Event::Ready);
        }
    }

    /// Ends a transaction and drops its unsent commands.
    fn skip_rest(&mut self) {
        self.script.clear();
        self.planned.clear();
        self.end_transaction();
    }

    fn front_size(&self) -> usize {
        self.sizes.front().map_or(0, |&size| size as usize)
    }

    fn has_accepted(&self) -> bool {
        self.recipients.iter().take(self.front_size()).any(|(_, standing)| *standing == Standing::Accepted)
    }

    /// Returns whether a transaction may begin: there is none, or the content of the only one is being sent. A server
    /// may refuse a chunk before it has received all of it; the rest must be sent before another chunk.
    pub(crate) fn accepts_transaction(&self) -> bool {
        if self.is_chunked && self.outgoing.content().is_some() {
            return false;
        }
        let is_content_sent = || matches!(self.awaited.back(), Some((Stage::Content, _)));
        match self.sizes.len() {
            0 => self.planned.is_empty() && self.pending.is_none(),
            1 => self.is_pipelined && !self.is_chunked && is_content_sent(),
            _ => false,
        }
    }

    /// Begins a transaction.
    pub(crate) fn begin<'a>(
        &mut self,
        envelope: &Envelope,
        needs: Needs,
        recipients: impl Iterator<Item = (u32, Rcpt<'a>)>,
        now_ns: u64,
    ) {
        let extensions = self.capabilities.extensions;
        if std::mem::take(&mut self.needs_clear) {
            self.plan(&Command::Rset, Stage::Clear);
        }
        let is_utf8 = needs.is_utf8 && extensions.has(Extension::SmtpUtf8);
        let from = envelope.address(is_utf8);
        let mut mail = Mail::new(Mailbox::parse(from.as_bytes()).map_or(ReversePath::Null, ReversePath::Mailbox));
        mail.size = needs.size.filter(|_| extensions.has(Extension::Size));
        mail.body = (needs.is_8bit && extensions.has(Extension::EightBitMime))
            .then_some(landau_wire::smtp::parameter::Body::EightBitMime);
        mail.is_utf8 = is_utf8;
        let has_dsn = extensions.has(Extension::Dsn);
        if has_dsn {
            mail.ret = envelope.ret;
            mail.envid = envelope.envid.as_deref().and_then(landau_wire::smtp::parameter::Xtext::new);
        }
        self.chunk = needs.chunk;
        self.plan(&Command::Mail(mail), Stage::Mail);
        let mut size = 0;
        for (id, mut rcpt) in recipients {
            if !has_dsn {
                (rcpt.notify, rcpt.orcpt) = (None, None);
            }
            let ascii = rcpt.orcpt.filter(|orcpt| orcpt.needs_utf8() && !is_utf8).map(|orcpt| orcpt.to_ascii());
            if let Some(ascii) = &ascii {
                rcpt.orcpt = ascii.as_deref().and_then(OriginalRecipient::new);
            }
            self.plan(&Command::Rcpt(rcpt), Stage::Rcpt);
            self.recipients.push_back((id, Standing::Open));
            size += 1;
        }
        self.sizes.push_back(size);
        match self.mode {
            Mode::Rset => self.plan(&Command::Rset, Stage::Reset),
            Mode::Data if self.is_chunked => {
                self.plan(&Command::Bdat { size: needs.chunk.1 as u64, is_last: true }, Stage::Chunk);
            }
            Mode::Data | Mode::Quit => self.plan(&Command::Data, Stage::Data),
        }
        self.issue(now_ns);
    }

    fn plan(&mut self, command: &Command<'_>, stage: Stage) {
        command.write(&mut self.script);
        self.planned.push_back(stage);
    }

    /// Sends the planned commands: all of them if they are pipelined, otherwise the next one if no reply is awaited.
    fn issue(&mut self, now_ns: u64) {
        if self.is_pipelined {
            self.outgoing.commands().extend_from_slice(&self.script);
            self.script.clear();
        } else if self.awaited.is_empty() && !self.planned.is_empty() {
            let end = self.script.iter().position(|&byte| byte == b'\n').map_or(self.script.len(), |at| at + 1);
            self.outgoing.commands().extend(self.script.drain(..end));
        } else {
            return;
        }
        while let Some(stage) = self.planned.pop_front() {
            self.awaited.push_back((stage, now_ns));
            if stage == Stage::Chunk {
                self.outgoing.insert(self.chunk.0, self.chunk.1);
            }
            if !self.is_pipelined {
                return;
            }
        }
    }

    /// Sends the content that the server awaits.
    pub(crate) fn send_content(&mut self, content: Content, len: usize, now_ns: u64) {
        self.outgoing.insert(content, len);
        self.awaited.push_back((Stage::Content, now_ns));
    }

    /// Ends the session: sends QUIT.
    pub(crate) fn quit(&mut self, now_ns: u64) {
        Command::Quit.write(self.outgoing.commands());
        self.awaited.push_back((Stage::Quit, now_ns));
    }

    /// Returns the first accepted recipient of the transaction in progress.
    pub(crate) fn recipient(&self) -> Option<u32> {
        let mut first = self.recipients.iter().take(self.front_size());
        first.find(|(_, standing)| *standing == Standing::Accepted).map(|(id, _)| *id)
    }

    /// Returns the recipients without an outcome after the connection was lost, and whether each belongs to the
    /// transaction that was in progress. The other transaction received no reply.
    pub(crate) fn unresolved(&mut self) -> impl Iterator<Item = (u32, bool)> + use<'_> {
        let size = self.front_size();
        self.sizes.clear();
        let all = self.recipients.drain(..).enumerate();
        all.filter(|(_, (_, standing))| *standing != Standing::Resolved).map(move |(at, (id, _))| (id, at < size))
    }
}

fn verdict(class: Class) -> Verdict {
    match class {
        Class::Success => Verdict::Success,
        Class::Intermediate | Class::Transient => Verdict::Transient,
        Class::Permanent => Verdict::Permanent,
    }
}

#[cfg(test)]
mod tests;
