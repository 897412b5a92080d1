//! A session: bytes in, replies out, no I/O.

use super::policy::{Triplet, Verdict};
use super::profile::{Host, Latencies};
use super::texts::TOO_MANY_RECIPIENTS;
use super::transaction::{Transaction, address};
use super::{Counters, Smtp};
use crate::sink::chunks::{Chunk, End};
use crate::sink::conduct::Latency;
use crate::sink::protocol::{MOST_EXCESS, Origin, Step, Then};
use landau_wire::smtp::data::{Decoder, Shape};
use landau_wire::smtp::line::{self, Scan};
use landau_wire::smtp::{Capabilities, Command, Extension, Extensions, Mail, Rcpt, Recovery, Reject, command};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// The meaning of the next bytes.
#[derive(Debug)]
enum Stage {
    /// A command line.
    Command,
    /// Content after DATA.
    Content(Decoder),
    /// A chunk after BDAT.
    Chunk(Chunk),
}

/// The kind of a command, by which its latency is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Hello,
    Mail,
    Rcpt,
    Data,
    Message,
    Other,
}

/// The effect of a reply on the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// The command succeeded.
    Done,
    /// The command succeeded but has no effect.
    Junk,
    /// The command failed.
    Failed,
    /// The command named a recipient over the limit, which is not an error of the client.
    Excess,
    /// The session ends at the client's request.
    Quit,
    /// The TLS handshake follows.
    Secure,
    /// The session ends.
    Fatal,
}

/// A session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(super) host: usize,
    number: u64,
    peer: IpAddr,
    pub(super) local: IpAddr,
    scan: Scan,
    stage: Stage,
    is_greeted: bool,
    is_encrypted: bool,
    offered: Extensions,
    transaction: Transaction,
    /// The number of commands so far, which is the index of latency draws.
    commands: u64,
    messages: u32,
    errors: u32,
    /// The number of recipients over the limit since the last message.
    excess: u32,
    junk: u32,
}

impl Session {
    pub(super) fn new(host: usize, origin: &Origin) -> Self {
        Self {
            host,
            number: origin.number,
            peer: origin.peer,
            local: origin.local,
            scan: Scan::default(),
            stage: Stage::Command,
            is_greeted: false,
            is_encrypted: false,
            offered: Extensions::NONE,
            transaction: Transaction::default(),
            commands: 0,
            messages: 0,
            errors: 0,
            excess: 0,
            junk: 0,
        }
    }

    /// Starts the encrypted part of the connection: all earlier state is discarded (RFC 3207 section 4.2).
    pub(super) fn secured(&mut self) {
        self.transaction.clear();
        (self.is_greeted, self.is_encrypted, self.offered) = (false, true, Extensions::NONE);
    }

    /// Takes a step.
    #[inline]
    pub(super) fn step(&mut self, sink: &mut Smtp, input: &[u8], now_ms: u32, out: &mut Vec<u8>) -> Step {
        match &mut self.stage {
            Stage::Command => self.take_line(sink, input, now_ms, out),
            Stage::Content(decoder) => {
                let (content, is_stored) = (&mut self.transaction.content, sink.mailboxes.is_some());
                let limit = sink.profiles.host(self.host).size_limit;
                // Content beyond the limit is enough to know that the message is too large.
                let (consumed, is_end) = decoder.decode(input, |run| {
                    if is_stored && content.len() as u64 <= limit {
                        content.extend_from_slice(run);
                    }
                });
                if !is_end {
                    return Step::receive(consumed);
                }
                let shape = decoder.shape();
                self.stage = Stage::Command;
                let outcome = self.finish(sink, &shape, out);
                self.settle(sink, consumed, Kind::Message, outcome, out)
            }
            Stage::Chunk(_) => self.take_chunk(sink, input, out),
        }
    }

    /// Takes a command line.
    #[inline]
    fn take_line(&mut self, sink: &mut Smtp, input: &[u8], now_ms: u32, out: &mut Vec<u8>) -> Step {
        let (line, consumed) = match self.scan.next(input) {
            line::Step::Line { line, consumed } => (line, consumed),
            line::Step::Incomplete => return Step::receive(0),
            line::Step::Skip { consumed } => return Step { then: Then::Continue, ..Step::receive(consumed) },
            line::Step::Reject { reject, consumed } => {
                if reject.is_bare_line_end() {
                    sink.counters.bare_line_ends.add(1);
                }
                let outcome = refuse(&reject, out);
                return self.settle(sink, consumed, Kind::Other, outcome, out);
            }
        };
        sink.counters.commands.add(1);
        let (kind, outcome) = match command::parse(line, self.offered) {
            Ok(command) => self.run(sink, &command, now_ms, out),
            Err(reject) => (Kind::Other, refuse(&reject, out)),
        };
        self.settle(sink, consumed, kind, outcome, out)
    }

    /// Runs a command.
    #[inline]
    fn run(&mut self, sink: &mut Smtp, command: &Command<'_>, now_ms: u32, out: &mut Vec<u8>) -> (Kind, Outcome) {
        match command {
            Command::Mail(mail) => (Kind::Mail, self.mail(sink, mail, out)),
            Command::Rcpt(rcpt) => (Kind::Rcpt, self.rcpt(sink, rcpt, now_ms, out)),
            Command::Data => (Kind::Data, self.data(out)),
            Command::Bdat { size, is_last } => (Kind::Data, self.bdat(sink, *size, *is_last)),
            Command::Rset => {
                sink.counters.resets_of_transactions.add(1);
                self.transaction.clear();
                (Kind::Other, say(out, b"250 2.0.0 Ok\r\n", Outcome::Junk))
            }
            Command::Ehlo(_) => {
                let capabilities = {
                    let host = sink.profiles.host(self.host);
                    let offers_tls = sink.tls.is_some() && !self.is_encrypted;
                    let hidden =
                        if offers_tls { host.extensions } else { host.extensions.without(Extension::StartTls) };
                    Capabilities { extensions: hidden, size_limit: Some(host.size_limit) }
                };
                capabilities.write(&sink.name, "", out);
                (Kind::Hello, self.greet(capabilities.extensions))
            }
            Command::Helo(_) => {
                out.extend_from_slice(format!("250 {}\r\n", sink.name).as_bytes());
                (Kind::Hello, self.greet(Extensions::NONE))
            }
            Command::Quit => (Kind::Other, say(out, b"221 2.0.0 Bye\r\n", Outcome::Quit)),
            Command::Noop(_) => (Kind::Other, say(out, b"250 2.0.0 Ok\r\n", Outcome::Junk)),
            Command::Help(_) => (Kind::Other, say(out, b"214 2.0.0 See RFC 5321\r\n", Outcome::Junk)),
            Command::Vrfy(_) => (Kind::Other, say(out, b"252 2.0.0 Send some mail\r\n", Outcome::Junk)),
            Command::Expn(_) => (Kind::Other, say(out, b"502 5.5.1 Not implemented\r\n", Outcome::Failed)),
            // The parser refuses it if it is not offered.
            Command::StartTls => (Kind::Other, say(out, b"220 2.0.0 Ready to start TLS\r\n", Outcome::Secure)),
            // LMTP is another protocol.
            Command::Lhlo(_) => (Kind::Other, refuse(&Reject::UNKNOWN_COMMAND, out)),
        }
    }

    fn greet(&mut self, offered: Extensions) -> Outcome {
        self.transaction.clear();
        self.offered = offered;
        if std::mem::replace(&mut self.is_greeted, true) { Outcome::Junk } else { Outcome::Done }
    }

    #[inline]
    fn mail(&mut self, sink: &mut Smtp, mail: &Mail<'_>, out: &mut Vec<u8>) -> Outcome {
        let host = sink.profiles.host(self.host);
        if host.messages.is_some_and(|most| self.messages >= most) {
            sink.counters.message_limit.add(1);
            return say(out, b"421 4.7.0 Error: too many messages in this session\r\n", Outcome::Fatal);
        }
        if !self.is_greeted || self.transaction.is_open {
            return refuse(&Reject::BAD_SEQUENCE, out);
        }
        if mail.size.is_some_and(|size| size > host.size_limit) {
            return refuse(&Reject::TOO_LARGE, out);
        }
        self.transaction.begin(mail);
        say(out, b"250 2.1.0 Ok\r\n", Outcome::Done)
    }

    #[inline]
    fn rcpt(&mut self, sink: &mut Smtp, rcpt: &Rcpt<'_>, now_ms: u32, out: &mut Vec<u8>) -> Outcome {
        if !self.transaction.is_open || self.transaction.chunks.is_some() {
            return refuse(&Reject::BAD_SEQUENCE, out);
        }
        let needs_utf8 = rcpt.to.needs_utf8() || rcpt.orcpt.is_some_and(|orcpt| orcpt.needs_utf8());
        if needs_utf8 && !self.transaction.is_utf8 {
            return refuse(&Reject::RECIPIENT_NEEDS_UTF8, out);
        }
        let counters = Arc::clone(&sink.counters);
        if sink.profiles.host(self.host).recipients.is_some_and(|most| self.transaction.recipient_count >= most) {
            counters.recipients_excess.add(1);
            TOO_MANY_RECIPIENTS.write("", self.peer, out);
            return Outcome::Excess;
        }
        let (count, refusal) = match self.judge(sink, rcpt, now_ms) {
            Verdict::Accepted => {
                counters.recipients.add(1);
                self.transaction.add(&rcpt.to, sink.mailboxes.is_some());
                return say(out, b"250 2.1.5 Ok\r\n", Outcome::Done);
            }
            Verdict::Greylisted(refusal) => (&counters.recipients_greylisted, refusal),
            Verdict::Temporary(refusal) => (&counters.recipients_deferred, refusal),
            Verdict::Permanent(refusal) => (&counters.recipients_refused, refusal),
        };
        count.add(1);
        refusal.write(address(&rcpt.to), self.peer, out);
        Outcome::Failed
    }

    /// Judges a recipient. Every host must accept mail for its postmaster (RFC 5321 section 4.5.1).
    fn judge(&self, sink: &mut Smtp, rcpt: &Rcpt<'_>, now_ms: u32) -> Verdict {
        let Some(mailbox) = rcpt.to.mailbox() else { return Verdict::Accepted };
        if !sink.profiles.has_rules() {
            return Verdict::Accepted;
        }
        let domain = mailbox.host().as_str().to_ascii_lowercase();
        let rules = sink.profiles.rules(self.host, &domain);
        let sender = self.transaction.sender.as_str();
        let triplet = Triplet { client: self.peer, sender, local: mailbox.local(), domain: &domain };
        sink.policy.judge(&rules, &triplet, now_ms)
    }

    fn data(&mut self, out: &mut Vec<u8>) -> Outcome {
        if !self.transaction.is_open || self.transaction.chunks.is_some() || self.transaction.is_binary {
            return refuse(&Reject::BAD_SEQUENCE, out);
        }
        if self.transaction.recipient_count == 0 {
            return say(out, b"554 5.5.1 Error: no valid recipients\r\n", Outcome::Failed);
        }
        self.stage = Stage::Content(Decoder::new());
        say(out, b"354 End data with <CR><LF>.<CR><LF>\r\n", Outcome::Done)
    }

    /// Begins a chunk; the reply follows the chunk.
    fn bdat(&mut self, sink: &Smtp, size: u64, is_last: bool) -> Outcome {
        let has_recipients = self.transaction.is_open && self.transaction.recipient_count > 0;
        let (received, limit) = (&mut self.transaction.chunks, sink.profiles.host(self.host).size_limit);
        self.stage = Stage::Chunk(Chunk::begin(received, size, is_last, has_recipients, limit));
        Outcome::Done
    }

    /// Takes content of a chunk.
    fn take_chunk(&mut self, sink: &mut Smtp, input: &[u8], out: &mut Vec<u8>) -> Step {
        let Stage::Chunk(chunk) = &mut self.stage else { return Step::receive(0) };
        let (content, is_kept, end) = chunk.take(&mut self.transaction.chunks, input);
        if is_kept && sink.mailboxes.is_some() {
            self.transaction.content.extend_from_slice(content);
        }
        let Some(end) = end else { return Step::receive(content.len()) };
        self.stage = Stage::Command;
        let outcome = match end {
            End::Refused(reject) => {
                self.transaction.clear();
                refuse(&reject, out)
            }
            End::Message(shape) => self.finish(sink, &shape, out),
            End::Chunk => say(out, b"250 2.0.0 Ok: chunk received\r\n", Outcome::Done),
        };
        self.settle(sink, content.len(), Kind::Message, outcome, out)
    }

    /// Accepts or refuses a complete message.
    fn finish(&mut self, sink: &mut Smtp, shape: &Shape, out: &mut Vec<u8>) -> Outcome {
        let counters = Arc::clone(&sink.counters);
        // A bare CR or LF in binary content is an ordinary byte.
        let refusal = shape.refusal().filter(|_| !self.transaction.is_binary);
        if refusal.is_some() {
            counters.bare_line_ends.add(1);
        }
        let is_too_large = shape.bytes > sink.profiles.host(self.host).size_limit;
        let outcome = match refusal.or(is_too_large.then_some(Reject::TOO_LARGE)) {
            Some(reject) => refuse(&reject, out),
            None => self.store(sink, shape, out),
        };
        if outcome == Outcome::Failed {
            counters.messages_refused.add(1);
        }
        self.transaction.clear();
        outcome
    }

    fn store(&mut self, sink: &mut Smtp, shape: &Shape, out: &mut Vec<u8>) -> Outcome {
        if let Some(mailboxes) = &mut sink.mailboxes {
            let Transaction { recipients, content, .. } = &self.transaction;
            if mailboxes.deliver(sink.accepted, recipients, content).is_err() {
                sink.counters.mailbox_errors.add(1);
                return say(out, b"451 4.3.0 Error: queue file write error\r\n", Outcome::Failed);
            }
        }
        sink.accepted += 1;
        sink.counters.messages.add(1);
        sink.counters.message_bytes.add(shape.bytes);
        self.messages += 1;
        (self.errors, self.excess, self.junk) = (0, 0, 0);
        out.extend_from_slice(b"250 2.0.0 Ok: queued as ");
        write_hexadecimal(sink.accepted, out);
        say(out, b"\r\n", Outcome::Done)
    }

    /// Ends a step: counts errors, and returns the delay of its reply and the next step.
    #[inline]
    fn settle(&mut self, sink: &Smtp, consumed: usize, kind: Kind, outcome: Outcome, out: &mut Vec<u8>) -> Step {
        let host = sink.profiles.host(self.host);
        let outcome = self.count(host, &sink.counters, outcome, out);
        let index = self.commands + 1;
        self.commands = index;
        let mut delay = Duration::ZERO;
        if host.latencies != Latencies::default() && !matches!(self.stage, Stage::Chunk(_)) {
            delay = latency(&host.latencies, kind).draw(sink.draws, self.number, index);
        }
        if matches!(outcome, Outcome::Failed | Outcome::Excess | Outcome::Fatal) {
            delay += host.tarpit;
        }
        let then = match outcome {
            Outcome::Quit => Then::Close,
            Outcome::Fatal => Then::HangUp,
            Outcome::Secure => Then::Secure,
            _ => Then::Continue,
        };
        Step { consumed, delay, then }
    }

    /// Counts errors and junk. At the limit of errors, appends a final 421 reply.
    #[inline]
    fn count(&mut self, host: &Host, counters: &Counters, outcome: Outcome, out: &mut Vec<u8>) -> Outcome {
        match outcome {
            Outcome::Junk => {
                counters.junk.add(1);
                self.junk += 1;
                self.errors += u32::from(host.junk.is_some_and(|most| self.junk > most));
            }
            Outcome::Failed | Outcome::Excess => {
                counters.errors.add(1);
                self.excess += u32::from(outcome == Outcome::Excess);
                self.errors += u32::from(outcome == Outcome::Failed || self.excess > MOST_EXCESS);
            }
            other => return other,
        }
        if host.errors.is_some_and(|most| self.errors >= most) {
            counters.error_limit.add(1);
            return say(out, b"421 4.7.0 Error: too many errors\r\n", Outcome::Fatal);
        }
        outcome
    }
}

fn latency(latencies: &Latencies, kind: Kind) -> Latency {
    match kind {
        Kind::Hello => latencies.hello,
        Kind::Mail => latencies.mail,
        Kind::Rcpt => latencies.rcpt,
        Kind::Data => latencies.data,
        Kind::Message => latencies.message,
        Kind::Other => latencies.other,
    }
}

fn say(out: &mut Vec<u8>, reply: &[u8], outcome: Outcome) -> Outcome {
    out.extend_from_slice(reply);
    outcome
}

fn refuse(reject: &Reject, out: &mut Vec<u8>) -> Outcome {
    reject.write(out);
    if reject.recovery == Recovery::Close { Outcome::Fatal } else { Outcome::Failed }
}

fn write_hexadecimal(number: u64, out: &mut Vec<u8>) {
    let digits = 16 - (number.max(1).leading_zeros() / 4);
    out.extend((0..digits).rev().map(|place| b"0123456789ABCDEF"[(number >> (4 * place) & 15) as usize]));
}
