//! The current mail transaction of a session.

use crate::sink::chunks::Received;
use landau_wire::smtp::parameter::Body;
use landau_wire::smtp::{Mail, Recipient};

/// A mail transaction: from MAIL to the end of the content, or to RSET.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    pub(super) is_open: bool,
    /// Whether MAIL had SMTPUTF8.
    pub(super) is_utf8: bool,
    /// Whether MAIL had BODY=BINARYMIME: the content has no lines, and is sent with BDAT (RFC 3030 section 3).
    pub(super) is_binary: bool,
    /// The sender; empty for the null path.
    pub(super) sender: String,
    /// The accepted recipients; empty unless messages are stored.
    pub(super) recipients: Vec<String>,
    pub(super) recipient_count: u32,
    /// The content so far; empty unless messages are stored.
    pub(super) content: Vec<u8>,
    /// The chunks, if the content is sent with BDAT.
    pub(super) chunks: Option<Received>,
}

impl Transaction {
    /// Begins a transaction.
    pub(super) fn begin(&mut self, mail: &Mail<'_>) {
        self.clear();
        (self.is_open, self.is_utf8) = (true, mail.is_utf8);
        self.is_binary = mail.body == Some(Body::BinaryMime);
        if let Some(mailbox) = mail.from.mailbox() {
            self.sender.push_str(mailbox.as_str());
        }
    }

    /// Ends the transaction. Its buffers are kept for the next one.
    pub(super) fn clear(&mut self) {
        (self.is_open, self.is_utf8, self.is_binary) = (false, false, false);
        self.sender.clear();
        self.recipients.clear();
        self.recipient_count = 0;
        self.content.clear();
        self.chunks = None;
    }

    /// Adds an accepted recipient; its address is kept if messages are stored.
    pub(super) fn add(&mut self, to: &Recipient<'_>, is_stored: bool) {
        self.recipient_count += 1;
        if is_stored {
            self.recipients.push(address(to).to_owned());
        }
    }
}

/// Returns the address of a recipient. A postmaster without a domain is that of the sink.
pub(super) fn address<'a>(to: &Recipient<'a>) -> &'a str {
    to.mailbox().map_or("postmaster", |mailbox| mailbox.as_str())
}
