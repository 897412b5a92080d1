//! A session of the relay's receiver: bytes in, replies out, no I/O. A message is acknowledged after it is in the
//! queue.

use super::receiver::{EXTENSIONS, Receiver};
use super::trace::{MOST_HOPS, Trace, hops};
use crate::domain::to_ascii;
use crate::envelope::Request;
use crate::queue::{self, Meta};
use crate::sink::chunks::{Chunk, End, Received};
use crate::sink::protocol::{MOST_EXCESS, Step, Then};
use landau_wire::smtp::data::{Decoder, Shape};
use landau_wire::smtp::line::{self, Scan};
use landau_wire::smtp::parameter::Ret;
use landau_wire::smtp::{Capabilities, Command, Extension, Extensions, Host, Mail, Rcpt, Recovery, Reject, command};
use std::borrow::Cow;
use std::net::IpAddr;
use std::time::Duration;

/// Maximum number of errors without a message between them; then the session ends.
const MOST_ERRORS: u32 = 20;

/// Maximum size of a message in the queue without its content and recipients, in bytes: sender, parameters of MAIL,
/// `Received:`, head of the record.
const RECORD_BYTES: u64 = 4096;

/// Maximum size of a recipient in the queue without its text, in bytes: quotes, commas, and its requests.
const RECIPIENT_BYTES: usize = 64;

/// The meaning of the next bytes.
#[derive(Debug)]
enum Stage {
    /// A command line.
    Command,
    /// Content after DATA.
    Content(Box<Decoder>),
    /// A chunk after BDAT.
    Chunk(Chunk),
    /// None, until the message with this identifier is in the queue.
    Committing(u64),
}

/// The outcome of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is in the queue.
    Done,
    /// There is no space for it.
    Full,
    /// The queue could not be written.
    Broken,
}

impl Outcome {
    pub(super) fn of_error(error: &std::io::Error) -> Self {
        if queue::is_full(error) { Self::Full } else { Self::Broken }
    }
}

/// The effect of a reply on the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// Nothing is counted.
    Succeeded,
    Failed,
    /// The command was refused because of a limit or for lack of space, which is not an error of the client.
    Excess,
    Commit,
    Quit,
    /// The TLS handshake follows.
    Secure,
    Fatal,
}

/// A message that is being received.
#[derive(Debug, Default)]
struct Transaction {
    is_open: bool,
    /// The reply to MAIL, if there was no space for the message. The commands after it get the same reply, so that a
    /// client that pipelined them (RFC 2920) retries its recipients.
    refusal: Option<&'static [u8]>,
    /// The number of commands that got this reply.
    consequences: u32,
    is_utf8: bool,
    sender: String,
    recipients: Vec<String>,
    ret: Option<Ret>,
    envid: Option<String>,
    /// The requests of the sender for each recipient.
    requests: Vec<Request>,
    content: Vec<u8>,
    chunks: Option<Received>,
    /// Maximum size of its recipients in the queue, in bytes.
    recipient_bytes: u64,
    /// The bytes that its addresses and content take from the memory for messages.
    held: u64,
    /// Whether the content did not fit in the memory for messages, and was dropped.
    is_dropped: bool,
}

/// A session.
#[derive(Debug)]
pub(super) struct Session {
    peer: IpAddr,
    scan: Scan,
    stage: Stage,
    /// The name in EHLO or HELO; empty before that.
    hello: String,
    offered: Extensions,
    is_extended: bool,
    is_encrypted: bool,
    transaction: Transaction,
    errors: u32,
    /// The number of commands refused because of a limit or for lack of space since the last message.
    excess: u32,
}

impl Session {
    pub(super) fn new(peer: IpAddr) -> Self {
        Self {
            peer,
            scan: Scan::default(),
            stage: Stage::Command,
            hello: String::new(),
            offered: Extensions::NONE,
            is_extended: false,
            is_encrypted: false,
            transaction: Transaction::default(),
            errors: 0,
            excess: 0,
        }
    }

    /// Drops the transaction. Returns the number of bytes it held.
    pub(super) fn take_held(&mut self) -> u64 {
        std::mem::take(&mut self.transaction).held
    }

    /// Returns the message that waits for the queue.
    pub(super) fn committing(&self) -> Option<u64> {
        if let Stage::Committing(id) = self.stage { Some(id) } else { None }
    }

    /// Starts the encrypted part of the connection: all earlier state is discarded (RFC 3207 section 4.2).
    pub(super) fn secured(&mut self, relay: &mut Receiver) {
        self.clear(relay);
        self.hello.clear();
        (self.offered, self.is_extended, self.is_encrypted) = (Extensions::NONE, false, true);
    }

    /// Takes a step.
    #[inline]
    pub(super) fn step(&mut self, relay: &mut Receiver, input: &[u8], out: &mut Vec<u8>) -> Step {
        match &mut self.stage {
            Stage::Command => self.take_line(relay, input, out),
            Stage::Content(decoder) => {
                let transaction = &mut self.transaction;
                let (consumed, is_end) = decoder.decode(input, |run| transaction.keep(relay, run));
                if !is_end {
                    return Step::receive(consumed);
                }
                let shape = decoder.shape();
                self.stage = Stage::Command;
                let effect = self.finish(relay, &shape, out);
                self.settle(relay, consumed, effect, out)
            }
            Stage::Chunk(_) => self.take_chunk(relay, input, out),
            Stage::Committing(id) => {
                let id = *id;
                self.stage = Stage::Command;
                let effect = match relay.take_outcome(id) {
                    Outcome::Done => {
                        (self.errors, self.excess) = (0, 0);
                        out.extend_from_slice(format!("250 2.0.0 Ok: queued as {id:X}\r\n").as_bytes());
                        Effect::Succeeded
                    }
                    Outcome::Full => say(out, b"452 4.3.1 insufficient storage\r\n", Effect::Excess),
                    Outcome::Broken => say(out, b"451 4.3.0 the queue cannot be written\r\n", Effect::Failed),
                };
                self.settle(relay, 0, effect, out)
            }
        }
    }

    /// Takes a command line.
    fn take_line(&mut self, relay: &mut Receiver, input: &[u8], out: &mut Vec<u8>) -> Step {
        let (line, consumed) = match self.scan.next(input) {
            line::Step::Line { line, consumed } => (line, consumed),
            line::Step::Incomplete => return Step::receive(0),
            line::Step::Skip { consumed } => return Step { then: Then::Continue, ..Step::receive(consumed) },
            line::Step::Reject { reject, consumed } => {
                if reject.is_bare_line_end() {
                    relay.counters.bare_line_ends.add(1);
                }
                let effect = refuse(&reject, out);
                return self.settle(relay, consumed, effect, out);
            }
        };
        relay.counters.commands.add(1);
        let effect = match command::parse(line, self.offered) {
            Ok(command) => self.run(relay, &command, out),
            Err(reject) => refuse(&reject, out),
        };
        self.settle(relay, consumed, effect, out)
    }

    fn run(&mut self, relay: &mut Receiver, command: &Command<'_>, out: &mut Vec<u8>) -> Effect {
        match command {
            Command::Mail(mail) => self.mail(relay, mail, out),
            Command::Rcpt(rcpt) => self.rcpt(relay, rcpt, out),
            Command::Data => self.data(out),
            Command::Bdat { size, is_last } => self.bdat(relay, *size, *is_last),
            Command::Rset => {
                self.clear(relay);
                say(out, b"250 2.0.0 Ok\r\n", Effect::Succeeded)
            }
            Command::Ehlo(host) => {
                let limit = Some(relay.limits.size_limit);
                let offers_tls = relay.tls.is_some() && !self.is_encrypted;
                let extensions = if offers_tls { EXTENSIONS.with(Extension::StartTls) } else { EXTENSIONS };
                Capabilities { extensions, size_limit: limit }.write(&relay.limits.name, "", out);
                self.greet(relay, host, extensions, true)
            }
            Command::Helo(host) => {
                out.extend_from_slice(format!("250 {}\r\n", relay.limits.name).as_bytes());
                self.greet(relay, host, Extensions::NONE, false)
            }
            Command::Quit => say(out, b"221 2.0.0 Bye\r\n", Effect::Quit),
            Command::Noop(_) => say(out, b"250 2.0.0 Ok\r\n", Effect::Succeeded),
            Command::Help(_) => say(out, b"214 2.0.0 See RFC 5321\r\n", Effect::Succeeded),
            Command::Vrfy(_) => say(out, b"252 2.5.0 Send some mail\r\n", Effect::Succeeded),
            Command::Expn(_) => say(out, b"502 5.5.1 Not implemented\r\n", Effect::Failed),
            // The parser refuses it if it is not offered.
            Command::StartTls => say(out, b"220 2.0.0 Ready to start TLS\r\n", Effect::Secure),
            // LMTP is another protocol.
            Command::Lhlo(_) => refuse(&Reject::UNKNOWN_COMMAND, out),
        }
    }

    fn greet(&mut self, relay: &mut Receiver, host: &Host<'_>, offered: Extensions, is_extended: bool) -> Effect {
        self.clear(relay);
        host.as_str().clone_into(&mut self.hello);
        (self.offered, self.is_extended) = (offered, is_extended);
        Effect::Succeeded
    }

    /// Ends the transaction, if there is one.
    fn clear(&mut self, relay: &mut Receiver) {
        relay.held -= std::mem::take(&mut self.transaction).held;
    }

    fn mail(&mut self, relay: &mut Receiver, mail: &Mail<'_>, out: &mut Vec<u8>) -> Effect {
        if self.hello.is_empty() || self.transaction.is_open {
            return refuse(&Reject::BAD_SEQUENCE, out);
        }
        self.transaction.refusal = None;
        if mail.size.is_some_and(|size| size > relay.limits.size_limit) {
            return refuse(&Reject::TOO_LARGE, out);
        }
        if !relay.shared.has_room(mail.size.unwrap_or(0).saturating_add(RECORD_BYTES)) {
            relay.counters.queue_full.add(1);
            let reply: &[u8] = b"452 4.3.1 the queue is full\r\n";
            self.transaction = Transaction { refusal: Some(reply), ..Transaction::default() };
            return say(out, reply, Effect::Excess);
        }
        let sender = mail.from.mailbox().map_or(String::new(), |mailbox| mailbox.as_str().to_owned());
        let envid = mail.envid.map(|envid| envid.as_str().to_owned());
        let (is_utf8, ret) = (mail.is_utf8, mail.ret);
        self.transaction = Transaction { is_open: true, is_utf8, sender, ret, envid, ..Transaction::default() };
        say(out, b"250 2.1.0 Ok\r\n", Effect::Succeeded)
    }

    /// Refuses a command out of sequence: with the reply to MAIL, if that was refused because there was no space for
    /// the message.
    fn refuse_sequence(&mut self, out: &mut Vec<u8>) -> Effect {
        let Some(reply) = self.transaction.refusal else { return refuse(&Reject::BAD_SEQUENCE, out) };
        self.transaction.consequences += 1;
        // A client sends all recipients of a message at once, but not an endless number.
        let is_error = self.transaction.consequences > MOST_EXCESS;
        // The refusal of MAIL has already been counted.
        say(out, reply, if is_error { Effect::Failed } else { Effect::Succeeded })
    }

    fn rcpt(&mut self, relay: &mut Receiver, rcpt: &Rcpt<'_>, out: &mut Vec<u8>) -> Effect {
        if !self.transaction.is_open || self.transaction.chunks.is_some() {
            return self.refuse_sequence(out);
        }
        if self.transaction.recipients.len() >= relay.limits.recipients {
            return say(out, b"452 4.5.3 too many recipients\r\n", Effect::Excess);
        }
        let needs_utf8 = rcpt.to.needs_utf8() || rcpt.orcpt.is_some_and(|orcpt| orcpt.needs_utf8());
        if needs_utf8 && !self.transaction.is_utf8 {
            return refuse(&Reject::RECIPIENT_NEEDS_UTF8, out);
        }
        let address = rcpt
            .to
            .mailbox()
            .map_or_else(|| format!("postmaster@{}", relay.limits.name), |mailbox| mailbox.as_str().to_owned());
        let orcpt_bytes = rcpt.orcpt.map_or(0, |orcpt| orcpt.as_str().len());
        let bytes = size_of::<String>() + size_of::<Request>() + address.len() + orcpt_bytes;
        if !self.transaction.hold(relay, bytes as u64) {
            relay.counters.queue_full.add(1);
            return say(out, b"452 4.3.1 insufficient storage\r\n", Effect::Excess);
        }
        // A quotation mark or a backslash takes two bytes in the queue.
        self.transaction.recipient_bytes += (RECIPIENT_BYTES + 2 * (address.len() + orcpt_bytes)) as u64;
        self.transaction.recipients.push(address);
        self.transaction.requests.push(Request::of(rcpt));
        say(out, b"250 2.1.5 Ok\r\n", Effect::Succeeded)
    }

    fn data(&mut self, out: &mut Vec<u8>) -> Effect {
        if !self.transaction.is_open || self.transaction.chunks.is_some() {
            return self.refuse_sequence(out);
        }
        if self.transaction.recipients.is_empty() {
            return say(out, b"554 5.5.1 no valid recipients\r\n", Effect::Failed);
        }
        self.stage = Stage::Content(Box::default());
        say(out, b"354 End data with <CR><LF>.<CR><LF>\r\n", Effect::Succeeded)
    }

    /// Begins a chunk; the reply follows the chunk.
    fn bdat(&mut self, relay: &Receiver, size: u64, is_last: bool) -> Effect {
        let has_recipients = self.transaction.is_open && !self.transaction.recipients.is_empty();
        let (received, limit) = (&mut self.transaction.chunks, relay.limits.size_limit);
        self.stage = Stage::Chunk(Chunk::begin(received, size, is_last, has_recipients, limit));
        Effect::Succeeded
    }

    /// Takes content of a chunk.
    fn take_chunk(&mut self, relay: &mut Receiver, input: &[u8], out: &mut Vec<u8>) -> Step {
        let Stage::Chunk(chunk) = &mut self.stage else { return Step::receive(0) };
        let (content, is_kept, end) = chunk.take(&mut self.transaction.chunks, input);
        if is_kept {
            self.transaction.keep(relay, content);
        }
        let Some(end) = end else { return Step::receive(content.len()) };
        self.stage = Stage::Command;
        let effect = match end {
            End::Refused(_) if self.transaction.refusal.is_some() => self.refuse_sequence(out),
            End::Refused(reject) => {
                self.clear(relay);
                refuse(&reject, out)
            }
            End::Message(shape) => self.finish(relay, &shape, out),
            End::Chunk => say(out, b"250 2.0.0 Ok: chunk received\r\n", Effect::Succeeded),
        };
        self.settle(relay, content.len(), effect, out)
    }

    /// Passes a complete message to the queue, or refuses it.
    fn finish(&mut self, relay: &mut Receiver, shape: &Shape, out: &mut Vec<u8>) -> Effect {
        let effect = match self.refusal(relay, shape) {
            Some((reply, effect)) => say(out, &reply, effect),
            None => self.queue(relay, out),
        };
        if matches!(effect, Effect::Failed | Effect::Excess) {
            relay.counters.messages_refused.add(1);
        }
        self.clear(relay);
        effect
    }

    /// Returns the reply to a message that the relay does not accept, and its effect on the session.
    fn refusal(&self, relay: &Receiver, shape: &Shape) -> Option<(Vec<u8>, Effect)> {
        let reply = |reject: &Reject| {
            let mut out = Vec::new();
            reject.write(&mut out);
            Some((out, Effect::Failed))
        };
        if let Some(reject) = shape.refusal() {
            relay.counters.bare_line_ends.add(1);
            return reply(&reject);
        }
        if shape.nuls > 0 {
            return Some((b"550 5.6.0 message has a NUL byte\r\n".to_vec(), Effect::Failed));
        }
        if shape.bytes > relay.limits.size_limit {
            return reply(&Reject::TOO_LARGE);
        }
        let needed = shape.bytes.saturating_add(self.transaction.recipient_bytes + RECORD_BYTES);
        let is_full = !relay.shared.has_room(needed);
        if self.transaction.is_dropped || is_full {
            relay.counters.queue_full.add(1);
            return Some((b"452 4.3.1 insufficient storage\r\n".to_vec(), Effect::Excess));
        }
        if hops(&self.transaction.content) > MOST_HOPS {
            relay.counters.loops.add(1);
            return Some((b"554 5.4.6 mail loop: too many hops\r\n".to_vec(), Effect::Failed));
        }
        None
    }

    /// Adds the message to the batch of the queue.
    fn queue(&mut self, relay: &mut Receiver, out: &mut Vec<u8>) -> Effect {
        let id = relay.shared.next_id();
        let now = jiff::Timestamp::now();
        let date = jiff::fmt::rfc2822::to_string(&now.to_zoned(jiff::tz::TimeZone::UTC)).unwrap_or_default();
        let with = match (self.transaction.is_utf8, self.is_extended, self.is_encrypted) {
            (true, _, true) => "UTF8SMTPS",
            (true, _, false) => "UTF8SMTP",
            (false, _, true) => "ESMTPS",
            (false, true, false) => "ESMTP",
            (false, false, false) => "SMTP",
        };
        let Transaction { sender, recipients, content, ret, envid, requests, .. } = &self.transaction;
        // A non-ASCII name in the header would make every message require SMTPUTF8.
        let hello = if self.hello.is_ascii() { Some(Cow::Borrowed(&*self.hello)) } else { to_ascii(&self.hello) };
        let hello = hello.as_deref().unwrap_or("unknown");
        let trace = Trace { hello, peer: self.peer, by: &relay.limits.name, with, id, date: &date };
        let asks_nothing = requests.iter().all(|request| *request == Request::default());
        let at_ms = u64::try_from(now.as_millisecond()).unwrap_or_default();
        let to = recipients.iter().map(|address| Cow::Borrowed(address.as_str())).collect();
        let meta = Meta {
            ret: ret.map(|ret| Cow::Borrowed(ret.as_str())),
            envid: envid.as_deref().map(Cow::Borrowed),
            requests: if asks_nothing { Vec::new() } else { requests.clone() },
            ..Meta::new(id, at_ms, sender, to)
        };
        let end: &[u8] = if content.is_empty() || content.ends_with(b"\r\n") { b"" } else { b"\r\n" };
        if relay.add(&meta, &[trace.field().as_bytes(), content, end]).is_err() {
            relay.counters.queue_errors.add(1);
            return say(out, b"451 4.3.0 the queue cannot be written\r\n", Effect::Failed);
        }
        self.stage = Stage::Committing(id);
        Effect::Commit
    }

    /// Ends a step: counts errors, and returns the next step.
    fn settle(&mut self, relay: &Receiver, consumed: usize, effect: Effect, out: &mut Vec<u8>) -> Step {
        let then = match effect {
            Effect::Succeeded => Then::Continue,
            Effect::Commit => Then::Commit,
            Effect::Quit => Then::Close,
            Effect::Secure => Then::Secure,
            Effect::Fatal => Then::HangUp,
            Effect::Failed | Effect::Excess => {
                relay.counters.errors.add(1);
                self.excess += u32::from(effect == Effect::Excess);
                self.errors += u32::from(effect == Effect::Failed || self.excess > MOST_EXCESS);
                if self.errors < MOST_ERRORS {
                    Then::Continue
                } else {
                    out.extend_from_slice(format!("421 4.7.0 {} too many errors\r\n", relay.limits.name).as_bytes());
                    Then::HangUp
                }
            }
        };
        Step { consumed, delay: Duration::ZERO, then }
    }
}

impl Transaction {
    /// Stores content, as far as the size limit and the memory allow.
    fn keep(&mut self, relay: &mut Receiver, run: &[u8]) {
        // Content beyond the limit is enough to know that the message is too large.
        if self.is_dropped || self.content.len() as u64 > relay.limits.size_limit {
            return;
        }
        if !self.hold(relay, run.len() as u64) {
            let freed = std::mem::take(&mut self.content).len() as u64;
            relay.held -= freed;
            (self.held, self.is_dropped) = (self.held - freed, true);
            return;
        }
        self.content.extend_from_slice(run);
    }

    /// Reserves memory for a message that is being received. Returns whether it was free.
    fn hold(&mut self, relay: &mut Receiver, bytes: u64) -> bool {
        if relay.held + bytes > relay.limits.memory {
            return false;
        }
        relay.held += bytes;
        self.held += bytes;
        true
    }
}

fn say(out: &mut Vec<u8>, reply: &[u8], effect: Effect) -> Effect {
    out.extend_from_slice(reply);
    effect
}

fn refuse(reject: &Reject, out: &mut Vec<u8>) -> Effect {
    reject.write(out);
    if reject.recovery == Recovery::Close { Effect::Fatal } else { Effect::Failed }
}
