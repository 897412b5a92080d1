//! The reason why a server rejects a client's input, and the reply.

use super::code::{Code, Enhanced};
use super::reply;

/// Whether a connection can continue after an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Recovery {
    /// The next line is the next command.
    NextLine,
    /// The start of the next command is unknown, or the client speaks another protocol: answer and close.
    Close,
}

/// The reason why a line was rejected, and the reply to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Reject {
    /// The code.
    pub code: Code,
    /// The enhanced status code.
    pub enhanced: Enhanced,
    /// The reason: the text of the reply.
    pub reason: &'static str,
    /// Whether the connection can continue.
    pub recovery: Recovery,
}

impl Reject {
    /// A bare LF in a command line.
    pub const BARE_FEED: Reject = Reject::syntax("bare line feed; lines end with CR LF").closing();
    /// A bare CR in a command line.
    pub const BARE_RETURN: Reject = Reject::syntax("bare carriage return; lines end with CR LF").closing();
    /// A command line longer than [`super::line::LINE_BYTES`].
    pub const LINE_TOO_LONG: Reject = Reject::syntax("line too long");
    /// A command out of order; only the server can check this.
    pub const BAD_SEQUENCE: Reject = Reject::new(Code::BAD_SEQUENCE, (5, 5, 1), "command out of order");
    /// A message larger than the server's limit; only the server can check this (RFC 1870 section 6.1).
    pub const TOO_LARGE: Reject = Reject::new(Code::TOO_LARGE, (5, 3, 4), "message too large");
    /// A sender with characters beyond ASCII without SMTPUTF8 (RFC 6531 section 3.5).
    pub const SENDER_NEEDS_UTF8: Reject =
        Reject::new(Code::MAILBOX_UNAVAILABLE, (5, 6, 7), "sender with characters beyond ASCII without SMTPUTF8");
    /// A recipient with characters beyond ASCII after a MAIL without SMTPUTF8 (RFC 6531 section 3.5).
    pub const RECIPIENT_NEEDS_UTF8: Reject =
        Reject::new(Code::BAD_MAILBOX, (5, 6, 7), "recipient with characters beyond ASCII without SMTPUTF8");
    /// A command that the server does not recognise or does not offer.
    pub const UNKNOWN_COMMAND: Reject = Reject::new(Code::UNKNOWN_COMMAND, (5, 5, 1), "unknown command");

    /// A command of an extension that the server does not offer.
    pub(super) const NOT_OFFERED: Reject = Reject::new(Code::NOT_IMPLEMENTED, (5, 5, 1), "command not offered");
    /// A parameter that the server does not recognise or does not offer.
    pub(super) const UNKNOWN_PARAMETER: Reject =
        Reject::new(Code::UNKNOWN_PARAMETER, (5, 5, 4), "parameter unknown or not offered");

    pub(super) const fn new(code: Code, enhanced: (u8, u16, u16), reason: &'static str) -> Reject {
        let enhanced = Enhanced::fixed(enhanced.0, enhanced.1, enhanced.2);
        Reject { code, enhanced, reason, recovery: Recovery::NextLine }
    }

    pub(super) const fn syntax(reason: &'static str) -> Reject {
        Reject::new(Code::UNKNOWN_COMMAND, (5, 5, 2), reason)
    }

    pub(super) const fn argument(reason: &'static str) -> Reject {
        Reject::new(Code::BAD_ARGUMENT, (5, 5, 4), reason)
    }

    pub(super) const fn closing(mut self) -> Reject {
        self.recovery = Recovery::Close;
        self
    }

    /// Returns whether the reason is a bare CR or LF.
    pub fn is_bare_line_end(&self) -> bool {
        matches!(*self, Reject::BARE_FEED | Reject::BARE_RETURN)
    }

    /// Appends the reply.
    pub fn write(&self, out: &mut Vec<u8>) {
        reply::write(out, self.code, Some(self.enhanced), [self.reason]);
    }
}
