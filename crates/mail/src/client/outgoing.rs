//! The unsent output of a connection: commands and, at one position among them, the content of a message, which is not
//! copied.

use landau_wire::smtp::data::Transfer;
use std::io::IoSlice;

/// Where the content of a message is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// In the message, encoded once for all recipients.
    Shared(Transfer),
    /// In the connection, rendered for one recipient.
    Own,
}

/// Bytes to send, with at most one content among them.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    commands: Vec<u8>,
    /// The content, its length, and the place in `commands` before which it is sent.
    content: Option<(Content, usize, usize)>,
    /// The number of bytes sent, of commands and content together.
    sent: usize,
}

impl Outgoing {
    /// Returns the buffer of the commands, for appending.
    pub(crate) fn commands(&mut self) -> &mut Vec<u8> {
        &mut self.commands
    }

    /// Returns whether everything was sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.commands.is_empty() && self.content.is_none()
    }

    /// Returns the content that is not completely sent, if there is one.
    pub(crate) fn content(&self) -> Option<Content> {
        self.content.map(|(content, ..)| content)
    }

    /// Inserts a content after the commands so far. No other content may be unsent.
    pub(crate) fn insert(&mut self, content: Content, len: usize) {
        debug_assert!(self.content.is_none(), "one content at a time");
        self.content = Some((content, len, self.commands.len()));
    }

    /// Returns the slices to send. `bytes` is the content.
    pub(crate) fn slices<'a>(&'a self, bytes: &'a [u8]) -> [IoSlice<'a>; 3] {
        let (len, at) = self.content.map_or((0, self.commands.len()), |(_, len, at)| (len, at));
        let before = &self.commands[self.sent.min(at)..at];
        let inside = &bytes[..len][self.sent.saturating_sub(at).min(len)..];
        let after = &self.commands[at + self.sent.saturating_sub(at + len)..];
        [IoSlice::new(before), IoSlice::new(inside), IoSlice::new(after)]
    }

    /// Records that `count` bytes were sent.
    pub(crate) fn advance(&mut self, count: usize) {
        self.sent += count;
        let len = self.content.map_or(0, |(_, len, _)| len);
        if self.sent == self.commands.len() + len {
            self.commands.clear();
            (self.content, self.sent) = (None, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_split_sends_the_same_bytes() {
        for (before, content, after) in [("A\r\n", "text", "B\r\n"), ("", "text", ""), ("A", "", "B"), ("A", "-", "")] {
            for size in 1..=10 {
                let mut outgoing = Outgoing::default();
                outgoing.commands().extend_from_slice(before.as_bytes());
                outgoing.insert(Content::Own, content.len());
                outgoing.commands().extend_from_slice(after.as_bytes());
                let mut sent = Vec::new();
                while !outgoing.is_empty() {
                    let slices = outgoing.slices(content.as_bytes());
                    let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).take(size).collect();
                    assert!(!bytes.is_empty());
                    sent.extend_from_slice(&bytes);
                    outgoing.advance(bytes.len());
                }
                assert_eq!(sent, [before, content, after].concat().as_bytes(), "{size}");
            }
        }
    }
}
