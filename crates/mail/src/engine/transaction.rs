//! Transactions: the recipients passed to a session, and the effect of its answers on them.

use super::connection::{Connection, End, Phase};
use super::{Content, Engine, Input, Mailbox, Mode, Network, State, Transfer, Verdict};
use crate::client::{Broken, Needs, Stage};
use crate::domain::address_to_ascii;
use crate::error::Result;
use crate::input::Letter;
use crate::list::Record;
use crate::message::Message;
use landau_wire::smtp::{Code, Extension};
use std::borrow::Cow;
use std::rc::Rc;

/// Why a server cannot take a message.
struct Refusal {
    reason: String,
    /// Whether an address is the reason.
    is_address: bool,
}

impl<N: Network, I: Input> Engine<N, I> {
    /// Records that a server is willing to take mail.
    pub(super) fn greeted(&mut self, connection: &mut Connection) {
        connection.phase = Phase::Greeted;
        self.stats.connections += 1;
        self.schedule.greeted(connection.site);
        if self.plan.envelope.mode == Mode::Quit
            && let Some(id) = self.schedule.next_of(connection.site)
        {
            self.stats.attempts += 1;
            self.settle(id, State::Done, Some(connection), connection.session.code(), connection.session.reply());
            self.succeed(connection.site);
        }
    }

    /// Begins the next transaction of a session that accepts one, or ends the session.
    pub(super) fn next_transaction(&mut self, connection: &mut Connection) {
        if connection.phase == Phase::Quitting || !connection.session.accepts_transaction() {
            return;
        }
        if self.stop_ns.is_none() && !self.hold.permits(&mut connection.work) {
            return;
        }
        let is_old = self.now_ns.saturating_sub(connection.start_ns) > self.plan.reuse_for_ns;
        let is_used_up = connection.begun >= self.plan.per_connection || (is_old && connection.begun > 0);
        self.batch.clear();
        if self.stop_ns.is_none() && !is_used_up && self.plan.envelope.mode != Mode::Quit {
            self.choose(connection);
        }
        let Some(letter) = self.batch.first().map(|&id| self.schedule.recipients.letter(id)) else {
            connection.phase = Phase::Quitting;
            connection.session.quit(self.now_ns);
            return;
        };
        let message = &letter.message;
        connection.begun += 1;
        self.stats.attempts += self.batch.len() as u64;
        let is_template = message.is_template();
        let mut needs = Needs {
            size: message.bytes(),
            is_8bit: message.is_8bit(),
            is_utf8: !letter.envelope.from.is_ascii(),
            chunk: (Content::Shared(Transfer::Bdat), message.encoded(Transfer::Bdat).len()),
        };
        for &id in &self.batch {
            let entry = self.schedule.recipients.get(id);
            self.stats.domains.note_time(entry.domain, self.now_ns);
            let record = &entry.record;
            needs.is_utf8 |= message.needs_utf8(record) || !record.address().is_ascii();
            needs.is_8bit |= is_template && !record.is_ascii();
        }
        if connection.session.is_chunked() {
            if is_template {
                let recipient = self.batch[0];
                if let Err(error) = self.render(connection, Transfer::Bdat, recipient) {
                    self.settle(recipient, State::Failed, None, None, error.to_string().as_bytes());
                    return self.next_transaction(connection);
                }
                needs.chunk = (Content::Own, connection.session.own_content.len());
            }
            connection.letter = Some(Rc::clone(&letter));
        }
        let addresses = self.addresses(connection, needs.is_utf8);
        let commands = addresses.iter().filter_map(|(id, address)| {
            // Addresses are checked when they are read.
            let mailbox = Mailbox::parse(address.as_bytes()).ok()?;
            Some((*id, letter.rcpt(self.schedule.recipients.get(*id).number, mailbox)))
        });
        connection.session.begin(&letter.envelope, needs, commands, self.now_ns);
    }

    /// Returns the addresses of the batch: in ASCII if the server accepts no others. Those that cannot be converted
    /// were refused before.
    fn addresses(&self, connection: &Connection, is_utf8: bool) -> Vec<(u32, Cow<'_, str>)> {
        let must_convert = is_utf8 && !connection.session.capabilities().extensions.has(Extension::SmtpUtf8);
        let address = |&id: &u32| {
            let address = self.schedule.recipients.get(id).record.address();
            let converted = if must_convert { address_to_ascii(address) } else { None };
            (id, converted.unwrap_or(Cow::Borrowed(address)))
        };
        self.batch.iter().map(address).collect()
    }

    /// Chooses the recipients of the next transaction, which share a letter. Recipients whose message this server
    /// cannot take fail, or wait for another server.
    fn choose(&mut self, connection: &Connection) {
        while self.batch.len() < self.plan.batch
            && let Some(id) = self.schedule.next_of(connection.site)
        {
            let recipients = &self.schedule.recipients;
            if self.batch.first().is_some_and(|&first| !recipients.share_letter(first, id)) {
                self.schedule.put_back(id);
                return;
            }
            match self.refusal(connection, id) {
                Some(Refusal { reason, is_address: true })
                    if self.plan.keeps_double_bounces && self.has_no_sender(id) =>
                {
                    self.defer(id, None, None, reason.as_bytes());
                }
                Some(Refusal { reason, .. }) => self.fail(id, None, None, reason.as_bytes()),
                None => self.batch.push(id),
            }
        }
    }

    fn has_no_sender(&self, id: u32) -> bool {
        self.schedule.recipients.letter(id).envelope.from.is_empty()
    }

    /// Returns why a server cannot take the message for a recipient, by its extensions.
    fn refusal(&self, connection: &Connection, id: u32) -> Option<Refusal> {
        let record = &self.schedule.recipients.get(id).record;
        let letter = self.schedule.recipients.letter(id);
        let has_utf8 = connection.session.capabilities().extensions.has(Extension::SmtpUtf8);
        for (whose, address) in [("recipient's", record.address()), ("sender's", &letter.envelope.from)] {
            if !has_utf8 && address_to_ascii(address).is_none() {
                let reason = format!(
                    "5.6.7 the {whose} address contains non-ASCII characters that cannot be converted, and the server \
                     does not offer SMTPUTF8"
                );
                return Some(Refusal { reason, is_address: true });
            }
        }
        let reason = self.refusal_of_content(connection, &letter.message, record)?;
        Some(Refusal { reason, is_address: false })
    }

    /// Returns why a server cannot take a message, by its extensions and size limit.
    fn refusal_of_content(&self, connection: &Connection, message: &Message, record: &Record) -> Option<String> {
        if self.plan.envelope.mode != Mode::Data {
            return None;
        }
        let capabilities = connection.session.capabilities();
        if message.needs_utf8(record) && !capabilities.extensions.has(Extension::SmtpUtf8) {
            let reason = "5.6.9 the header contains non-ASCII bytes, and the server does not offer SMTPUTF8";
            return Some(reason.to_owned());
        }
        let is_8bit = message.is_8bit() || (message.is_template() && !record.is_ascii());
        if is_8bit && !capabilities.extensions.has(Extension::EightBitMime) {
            return Some(
                "5.6.3 the message contains non-ASCII bytes, and the server does not offer 8BITMIME".to_owned(),
            );
        }
        match (message.bytes(), capabilities.size_limit) {
            (Some(bytes), Some(limit)) if bytes > limit => {
                Some(format!("5.3.4 the message has {bytes} bytes, and the server accepts at most {limit}"))
            }
            _ => None,
        }
    }

    /// Sends the content that a server awaits, and with it the commands of the next transaction.
    pub(super) fn send_content(&mut self, connection: &mut Connection) -> std::result::Result<(), End> {
        if connection.session.outgoing.content().is_some() {
            let code = connection.session.code().unwrap_or(Code::START_DATA);
            return Err(End::Broken(Broken::Unexpected(code, Stage::Data)));
        }
        let Some(recipient) = connection.session.recipient() else { return Ok(()) };
        let letter = self.schedule.recipients.letter(recipient);
        let mut content = Content::Shared(Transfer::Data);
        let mut len = letter.message.encoded(Transfer::Data).len();
        if letter.message.is_template() {
            self.render(connection, Transfer::Data, recipient).map_err(|_| End::Unrendered)?;
            (content, len) = (Content::Own, connection.session.own_content.len());
        }
        connection.letter = Some(letter);
        connection.session.send_content(content, len, self.now_ns);
        if connection.session.is_pipelined() {
            self.next_transaction(connection);
        }
        Ok(())
    }

    /// Renders the message for a recipient. The text was checked when it was read, and the fields with the record: only
    /// signing can fail.
    fn render(&self, connection: &mut Connection, transfer: Transfer, recipient: u32) -> Result<()> {
        let record = &self.schedule.recipients.get(recipient).record;
        let letter: Rc<Letter> = self.schedule.recipients.letter(recipient);
        letter.message.render(transfer, record, &mut connection.session.own_content)
    }

    /// Acts on a reply that is about a recipient.
    pub(super) fn resolve(&mut self, connection: &Connection, recipient: u32, verdict: Verdict) {
        let (code, reply) = (connection.session.code(), connection.session.reply());
        let is_of_mail = connection.session.answered_stage() == Some(Stage::Mail);
        if is_of_mail && verdict == Verdict::Transient && !connection.session.takes_mail() {
            self.avoid_useless(connection);
        }
        match verdict {
            Verdict::Success => {
                if let Some(address) = connection.address() {
                    self.routes.hosts_mut(connection.site).prefer_again(address);
                }
                self.stats.transactions += 1;
                self.settle(recipient, State::Done, Some(connection), code, reply);
            }
            Verdict::Permanent => self.fail(recipient, Some(connection), code, reply),
            // The server ends the connection and has not seen the recipient. After MAIL, this recipient or message may
            // be the reason.
            Verdict::Transient if code == Some(Code::UNAVAILABLE) && connection.session.ended() > 0 && is_of_mail => {
                self.put_back(recipient);
            }
            Verdict::Transient => self.defer(recipient, Some(connection), code, reply),
        }
    }

    /// Records that delivery to a recipient failed temporarily.
    pub(super) fn defer(&mut self, recipient: u32, from: Option<&Connection>, code: Option<Code>, text: &[u8]) {
        self.record(recipient, State::Deferred, from, code, text);
        if self.is_left(recipient) || !self.schedule.delay(recipient, self.now_ns) {
            self.forget(recipient);
        }
    }

    /// Queues a recipient again that no server has seen.
    pub(super) fn put_back(&mut self, recipient: u32) {
        if self.is_left(recipient) {
            self.forget(recipient);
        } else if !self.suspend(recipient) {
            self.schedule.put_back(recipient);
        }
    }

    /// Returns whether a recipient is left to a later run, because its site was given up.
    fn is_left(&self, recipient: u32) -> bool {
        self.schedule.is_given_up(self.schedule.recipients.get(recipient).site)
    }
}
