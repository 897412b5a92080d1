//! A mail server that consists only of this crate: it answers commands and accepts messages, without sockets.

use crate::smuggling::Answer;
use landau_wire::smtp::bdat::Chunks;
use landau_wire::smtp::data::{Decoder, Inspector};
use landau_wire::smtp::line::{Scan, Step};
use landau_wire::smtp::{Code, Command, Extension, Extensions, Recovery, Reject, command};

/// The extensions that it offers.
const OFFERED: Extensions = Extensions::of(&[Extension::Pipelining, Extension::EightBitMime, Extension::Chunking]);

/// The kind of the next bytes.
enum Expected {
    Command,
    Content(Decoder),
    /// A chunk, which may have to be discarded.
    Chunk,
}

/// The server's side of a session.
pub(crate) struct Server {
    /// The bytes that were received but not consumed.
    buffer: Vec<u8>,
    expected: Expected,
    scan: Scan,
    has_sender: bool,
    has_recipient: bool,
    /// The chunks of the message and their properties, after the first chunk.
    chunks: Option<(Chunks, Inspector)>,
    /// The reply to the current chunk.
    chunk_reply: Code,
    is_over: bool,
    answer: Answer,
}

impl Server {
    /// Returns the server's response to these bytes if they arrive in pieces of this size.
    pub(crate) fn answer(bytes: &[u8], size: usize) -> Answer {
        let mut server = Server {
            buffer: Vec::new(),
            expected: Expected::Command,
            scan: Scan::default(),
            has_sender: false,
            has_recipient: false,
            chunks: None,
            chunk_reply: Code::OK,
            is_over: false,
            answer: Answer::default(),
        };
        for piece in bytes.chunks(size) {
            server.buffer.extend_from_slice(piece);
            while server.step() {}
        }
        server.answer
    }

    /// Performs one step with the bytes received. Returns false if it needs more bytes, or the session is over.
    fn step(&mut self) -> bool {
        if self.is_over {
            return false;
        }
        let buffer = std::mem::take(&mut self.buffer);
        let (consumed, goes_on) = match &mut self.expected {
            Expected::Command => self.command(&buffer),
            Expected::Content(decoder) => {
                let (consumed, is_end) = decoder.decode(&buffer, |_| {});
                let refusal = decoder.shape().refusal();
                if is_end {
                    self.expected = Expected::Command;
                    self.end(refusal);
                }
                (consumed, is_end)
            }
            Expected::Chunk => self.chunk(&buffer),
        };
        self.buffer = buffer[consumed..].to_vec();
        goes_on
    }

    fn command(&mut self, buffer: &[u8]) -> (usize, bool) {
        match self.scan.next(buffer) {
            Step::Incomplete => (0, false),
            Step::Skip { consumed } => (consumed, true),
            Step::Reject { reject, consumed } => {
                self.refuse(reject);
                (consumed, true)
            }
            Step::Line { line, consumed } => {
                match command::parse(line, OFFERED) {
                    Ok(command) => self.obey(command),
                    Err(reject) => self.refuse(reject),
                }
                (consumed, true)
            }
        }
    }

    fn obey(&mut self, command: Command<'_>) {
        let is_ordered = match command {
            Command::Mail(_) => !self.has_sender && self.chunks.is_none(),
            Command::Rcpt(_) => self.has_sender && self.chunks.is_none(),
            Command::Data => self.has_recipient && self.chunks.is_none(),
            _ => true,
        };
        if !is_ordered {
            return self.refuse(Reject::BAD_SEQUENCE);
        }
        match command {
            Command::Mail(_) => self.has_sender = true,
            Command::Rcpt(_) => self.has_recipient = true,
            Command::Rset => self.reset(),
            Command::Data => {
                self.expected = Expected::Content(Decoder::new());
                return self.reply(Code::START_DATA);
            }
            Command::Bdat { size, is_last } => {
                let (chunks, _) = self.chunks.get_or_insert_default();
                let begun = chunks.begin(size, is_last);
                self.chunk_reply = if begun.is_ok() && self.has_recipient { Code::OK } else { Code::BAD_SEQUENCE };
                self.expected = Expected::Chunk;
                return;
            }
            Command::Quit => {
                self.is_over = true;
                return self.reply(Code::CLOSING);
            }
            _ => {}
        }
        self.reply(Code::OK);
    }

    fn chunk(&mut self, buffer: &[u8]) -> (usize, bool) {
        let (chunks, inspector) = self.chunks.get_or_insert_default();
        let content = chunks.take(buffer);
        inspector.push(content);
        let (is_end, is_message, refusal) = (chunks.left() == 0, chunks.is_end(), inspector.shape().refusal());
        if is_end {
            self.expected = Expected::Command;
            match self.chunk_reply {
                Code::OK if is_message => self.end(refusal),
                Code::OK => self.reply(Code::OK),
                code => {
                    self.chunks = None;
                    self.reply(code);
                }
            }
        }
        (content.len(), is_end)
    }

    /// Ends a message that has been read completely.
    fn end(&mut self, refusal: Option<Reject>) {
        self.answer.messages += usize::from(refusal.is_none());
        self.reset();
        self.reply(refusal.map_or(Code::OK, |reject| reject.code));
    }

    fn reset(&mut self) {
        self.has_sender = false;
        self.has_recipient = false;
        self.chunks = None;
    }

    fn refuse(&mut self, reject: Reject) {
        self.is_over = reject.recovery == Recovery::Close;
        self.answer.closes |= self.is_over;
        self.reply(reject.code);
    }

    fn reply(&mut self, code: Code) {
        self.answer.codes.push(code.number());
    }
}
