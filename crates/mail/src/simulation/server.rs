//! The simulated server of a connection: strict, with varying reply texts, and with faults.

use super::{SECOND, World, names, senders};
use crate::envelope::Mode;
use landau_wire::smtp::bdat::Chunks;
use landau_wire::smtp::command::{Command, Mail, parse};
use landau_wire::smtp::{Capabilities, Extension, Extensions, Rcpt};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

/// Bytes in transit to the engine.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) at_ns: u64,
    /// Empty at the end of the stream.
    pub(super) bytes: Vec<u8>,
    pub(super) is_reset: bool,
    /// The subjects of the final reply that ends with the last byte.
    pub(super) finals: Finals,
}

/// The subjects of a final reply.
#[derive(Debug, Clone, Default)]
pub(super) struct Finals {
    pub(super) recipients: Vec<u32>,
    /// The identifier of the report that was sent, if it was one.
    pub(super) report: Option<u64>,
}

/// What the server expects to read.
#[derive(Debug)]
enum Reading {
    Commands,
    Content,
    Chunk(Chunks, Vec<u8>),
    /// Input from the client is received and ignored.
    Nothing,
}

/// The state of the server.
#[derive(Debug)]
pub(super) struct Peer {
    address: SocketAddr,
    /// The code of its reply to MAIL, regardless of the seed.
    refuses_mail: Option<u16>,
    capabilities: Capabilities,
    received: Vec<u8>,
    reading: Reading,
    has_sender: bool,
    /// The number of the letter, if the sender's address contains it.
    letter: Option<u32>,
    recipients: Vec<u32>,
    /// When the last reply arrives.
    last_ns: u64,
    /// The number of bytes until the connection is reset: from the client, and to it.
    left: [u64; 2],
    /// Whether the connection is half-closed towards the client instead of reset.
    is_half_close: bool,
    /// The number of commands and contents until the server falls silent.
    silence: u64,
    /// Whether the server receives nothing more: input from the client is answered with a reset.
    pub(super) is_gone: bool,
}

impl Peer {
    /// Returns the server of a connection, which greets the client.
    pub(super) fn new(address: SocketAddr, world: &mut World, at_ns: u64, arriving: &mut VecDeque<Piece>) -> Self {
        let mut extensions = Extensions::of(&[Extension::EightBitMime]);
        for extension in [Extension::Pipelining, Extension::Size, Extension::Chunking, Extension::Dsn] {
            if world.below(4) > 0 {
                extensions = extensions.with(extension);
            }
        }
        let limit = |world: &mut World, most| if world.chance(0.3) { world.below(most) } else { u64::MAX };
        let mut left = [limit(world, 3_000), limit(world, 800)];
        let useless = world.useless.filter(|(host, _)| IpAddr::from([127, 0, 0, *host]) == address.ip());
        if useless.is_some_and(|(_, code)| code.is_none()) {
            // The reset occurs within MAIL.
            left[0] = "EHLO localhost\r\nMAIL".len() as u64;
        }
        let is_half_close = world.below(2) == 0;
        let silence = world.silence.unwrap_or_else(|| limit(world, 30));
        let mut peer = Self {
            address,
            refuses_mail: useless.and_then(|(_, code)| code),
            capabilities: Capabilities { extensions, size_limit: None },
            received: Vec::new(),
            reading: Reading::Commands,
            has_sender: false,
            letter: None,
            recipients: Vec::new(),
            last_ns: at_ns,
            left,
            is_half_close,
            silence,
            is_gone: false,
        };
        let greeting = if world.chance(0.1) {
            ["421 4.3.2 too busy\r\n", "554 5.3.2 go away\r\n"][world.below(2) as usize]
        } else {
            "220-welcome\r\n220 server\r\n"
        };
        peer.say(greeting.as_bytes(), &Finals::default(), world, arriving);
        peer
    }

    /// Takes bytes from the client.
    pub(super) fn receive(&mut self, bytes: &[u8], world: &mut World, arriving: &mut VecDeque<Piece>) {
        let count = bytes.len().min(usize::try_from(self.left[0]).unwrap_or(usize::MAX));
        self.left[0] -= count as u64;
        self.received.extend_from_slice(&bytes[..count]);
        while !self.is_gone && self.step(world, arriving) {}
        if count < bytes.len() {
            self.end(true, arriving);
            self.is_gone = true;
        }
    }

    /// Handles one command or content. Returns whether a complete one had arrived.
    fn step(&mut self, world: &mut World, arriving: &mut VecDeque<Piece>) -> bool {
        match &mut self.reading {
            Reading::Nothing => return false,
            Reading::Commands => {
                let Some(end) = self.received.windows(2).position(|two| two == b"\r\n") else { return false };
                let line: Vec<u8> = self.received.drain(..end + 2).collect();
                self.command(&line[..end], world, arriving);
            }
            Reading::Content => {
                let text = [&b"\r\n"[..], &self.received].concat();
                let Some(end) = text.windows(5).position(|five| five == b"\r\n.\r\n") else { return false };
                let content: Vec<u8> = self.received.drain(..end + 3).collect();
                self.reading = Reading::Commands;
                let is_empty = content == b".\r\n";
                self.message(&content, is_empty, world, arriving);
            }
            Reading::Chunk(chunks, content) => {
                let taken = chunks.take(&self.received).len();
                content.extend(self.received.drain(..taken));
                if !chunks.is_end() {
                    return false;
                }
                let content = std::mem::take(content);
                self.reading = Reading::Commands;
                self.message(&content, false, world, arriving);
            }
        }
        true
    }

    fn command(&mut self, line: &[u8], world: &mut World, arriving: &mut VecDeque<Piece>) {
        let text = line.escape_ascii().to_string();
        let command = parse(line, self.capabilities.extensions).unwrap_or_else(|error| panic!("{text}: {error:?}"));
        if self.falls_silent() {
            return;
        }
        let code = match &command {
            Command::Ehlo(_) if fails(world, 0.1) => 502,
            Command::Ehlo(_) => {
                let mut out = Vec::new();
                self.capabilities.write("server", "", &mut out);
                return self.say(&out, &Finals::default(), world, arriving);
            }
            Command::Helo(_) => {
                self.capabilities = Capabilities::default();
                250
            }
            Command::Mail(_) if self.has_sender => panic!("MAIL within a transaction"),
            Command::Mail(_) if self.refuses_mail.is_some() => self.refuses_mail.unwrap_or_default(),
            Command::Mail(mail) if fails(world, 0.1) => self.refuse_sender(mail, world),
            Command::Mail(mail) => {
                self.has_sender = true;
                self.letter = senders::letter(mail);
                250
            }
            Command::Rcpt(_) if !self.has_sender => 503,
            Command::Rcpt(rcpt) => self.rcpt(local(rcpt), domain(rcpt), world),
            Command::Data if self.recipients.is_empty() => [503, 354][world.below(2) as usize],
            Command::Data if fails(world, 0.1) => {
                let code = failure(world);
                world.senders.note_refused(&self.recipients, code);
                code
            }
            Command::Data => 354,
            Command::Bdat { size, is_last } => {
                let mut chunks = Chunks::new();
                chunks.begin(*size, *is_last).expect("one chunk a message");
                self.reading = Reading::Chunk(chunks, Vec::new());
                return;
            }
            Command::Rset => {
                self.forget();
                250
            }
            Command::Quit => 221,
            other => panic!("{other:?}"),
        };
        if code == 354 {
            self.reading = Reading::Content;
        }
        // A reply to MAIL is final too, but this server does not know for which recipients.
        let is_final = code >= 500 || (code == 250 && world.mode == Mode::Rset);
        let recipients = match &command {
            Command::Rcpt(rcpt) if is_final && self.has_sender => vec![world.number(local(rcpt))],
            _ => Vec::new(),
        };
        self.answer(code, &Finals { recipients, report: None }, world, arriving);
    }

    /// Refuses MAIL. The null sender identifies no letter: it is refused permanently only if the next command has also
    /// arrived and names the recipient.
    fn refuse_sender(&self, mail: &Mail<'_>, world: &mut World) -> u16 {
        let code = failure(world);
        if world.senders.letters == 0 {
            return code;
        }
        if let Some(letter) = senders::letter(mail) {
            world.senders.note_refused_sender(letter, code);
            return code;
        }
        let end = self.received.windows(2).position(|two| two == b"\r\n");
        match end.map(|end| parse(&self.received[..end], self.capabilities.extensions)) {
            Some(Ok(Command::Rcpt(rcpt))) => {
                let recipient = world.number(local(&rcpt));
                world.senders.note_refused(&[recipient], code);
                code
            }
            _ => code.min(451),
        }
    }

    fn rcpt(&mut self, local: &str, domain: &str, world: &mut World) -> u16 {
        let recipient = world.number(local);
        assert!(world.may_get(recipient), "{local} is sent to after its final reply");
        assert!(!world.senders.held.contains(&recipient), "{local} is held and is sent to");
        if world.is_by_domain {
            let IpAddr::V4(host) = self.address.ip() else { panic!("{}", self.address) };
            assert!(names::takes(host, domain), "{local}@{domain} came to {host}");
        }
        if fails(world, 0.1) {
            let code = failure(world);
            world.senders.note_refused(&[recipient], code);
            return code;
        }
        if world.mode == Mode::Rset {
            world.accepted[recipient as usize] += 1;
        }
        self.recipients.push(recipient);
        250
    }

    /// Replies to the end of a message.
    fn message(&mut self, content: &[u8], is_empty: bool, world: &mut World, arriving: &mut VecDeque<Piece>) {
        if self.falls_silent() {
            return;
        }
        let recipients = std::mem::take(&mut self.recipients);
        self.has_sender = false;
        let report = recipients.first().and_then(|&recipient| world.senders.report(recipient, content));
        let code = match recipients.is_empty() {
            true => 554,
            false if fails(world, 0.1) => failure(world),
            false => 250,
        };
        world.senders.note_refused(&recipients, code);
        assert!(!is_empty || recipients.is_empty(), "an empty message for a recipient");
        if code == 250 {
            for &recipient in &recipients {
                if let Some(letter) = world.letters.get(recipient as usize) {
                    let field = format!("Letter: {letter}\r\n");
                    assert!(content.starts_with(field.as_bytes()), "{recipient} got another letter");
                    assert!(self.letter.is_none_or(|sender| sender == *letter), "{recipient} got another sender");
                }
                assert!(world.may_get(recipient), "{recipient} is sent to after its final reply");
                world.accepted[recipient as usize] += 1;
            }
            if let Some(told) = &report {
                world.senders.note_report(told);
            }
        }
        let is_final = code == 250 || code >= 500;
        let finals = is_final.then(|| Finals { recipients, report: report.map(|told| told.id) });
        self.answer(code, &finals.unwrap_or_default(), world, arriving);
    }

    /// Returns whether the server stops answering from here on.
    fn falls_silent(&mut self) -> bool {
        self.silence = self.silence.saturating_sub(1);
        let is_silent = self.silence == 0;
        if is_silent {
            self.reading = Reading::Nothing;
        }
        is_silent
    }

    fn forget(&mut self) {
        self.has_sender = false;
        self.recipients.clear();
    }

    fn answer(&mut self, code: u16, finals: &Finals, world: &mut World, arriving: &mut VecDeque<Piece>) {
        let text = match world.below(3) {
            0 => format!("{code}\r\n"),
            1 => format!("{code}-two\r\n{code} lines\r\n"),
            _ => format!("{code} text\r\n"),
        };
        self.say(text.as_bytes(), finals, world, arriving);
        if code == 221 || code == 421 {
            self.end(false, arriving);
            self.is_gone = true;
        }
    }

    /// Sends a reply, whole or in pieces.
    fn say(&mut self, bytes: &[u8], finals: &Finals, world: &mut World, arriving: &mut VecDeque<Piece>) {
        if has_ended(arriving) {
            return;
        }
        let count = bytes.len().min(usize::try_from(self.left[1]).unwrap_or(usize::MAX));
        self.left[1] -= count as u64;
        let mut rest = &bytes[..count];
        while !rest.is_empty() {
            let len = if world.chance(0.3) { 1 + world.below(rest.len() as u64) as usize } else { rest.len() };
            self.last_ns = self.last_ns.max(world.now_ns) + world.below(SECOND / 100);
            let is_end = len == rest.len() && count == bytes.len();
            let finals = if is_end { finals.clone() } else { Finals::default() };
            arriving.push_back(Piece { at_ns: self.last_ns, bytes: rest[..len].to_vec(), is_reset: false, finals });
            rest = &rest[len..];
        }
        if count < bytes.len() {
            self.end(!self.is_half_close, arriving);
            self.is_gone |= !self.is_half_close;
        }
    }

    /// Ends the stream to the client.
    fn end(&mut self, is_reset: bool, arriving: &mut VecDeque<Piece>) {
        if !has_ended(arriving) {
            arriving.push_back(Piece {
                at_ns: self.last_ns + 1,
                bytes: Vec::new(),
                is_reset,
                finals: Finals::default(),
            });
        }
    }
}

/// Returns whether the end of the stream to the client is already queued.
fn has_ended(arriving: &VecDeque<Piece>) -> bool {
    arriving.back().is_some_and(|piece| piece.bytes.is_empty())
}

/// Returns the local part of a recipient.
fn local<'a>(rcpt: &Rcpt<'a>) -> &'a str {
    rcpt.to.mailbox().expect("a mailbox").local()
}

/// Returns the domain of a recipient.
fn domain<'a>(rcpt: &Rcpt<'a>) -> &'a str {
    rcpt.to.mailbox().and_then(|mailbox| mailbox.host().domain()).expect("a domain")
}

fn fails(world: &mut World, share: f64) -> bool {
    world.chance(share)
}

/// Returns the code of a failure: mostly temporary.
fn failure(world: &mut World) -> u16 {
    [450, 451, 450, 421, 550][world.below(5) as usize]
}
