//! The table of attempts to smuggle a message or a command. Uses only the standard library and [`crate::escape`], so
//! that the tests of other crates can include both by their paths.

use crate::escape::unescaped;

/// What a client sends, and what the server must answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attempt {
    /// The name.
    pub(crate) name: &'static str,
    /// What the server must do.
    pub(crate) answer: Answer,
    /// What the client sends after [`PROLOGUE`].
    pub(crate) bytes: Vec<u8>,
}

/// What a server did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Answer {
    /// The codes of its replies, after those to [`PROLOGUE`].
    pub(crate) codes: Vec<u16>,
    /// Whether it closed the connection because of an error.
    pub(crate) closes: bool,
    /// The number of messages that it accepted.
    pub(crate) messages: usize,
}

/// What the client has sent before. The answer to each command is 250.
pub(crate) const PROLOGUE: &[u8] = b"EHLO c\r\nMAIL FROM:<a@x>\r\nRCPT TO:<b@y>\r\n";

/// The message that the attacker would like to be delivered, as it is written in the table.
const EVIL: &str = r"MAIL FROM:<e@x>\r\nRCPT TO:<v@y>\r\nDATA\r\nevil\r\n.\r\nQUIT\r\n";

/// Returns every attempt of the table.
pub(crate) fn attempts() -> Vec<Attempt> {
    let lines = include_str!("../smuggling.txt").lines();
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(attempt).collect()
}

fn attempt(line: &'static str) -> Attempt {
    let mut parts = line.splitn(4, ' ');
    let mut next = || parts.next().unwrap_or_default();
    let (messages, replies, name, text) = (next(), next(), next(), next());
    let closes = replies.split(',').any(|reply| reply == "close");
    let codes = replies.split(',').filter(|reply| *reply != "close" && *reply != "-");
    let codes = codes.map(|code| code.parse().unwrap_or_else(|_| panic!("{name}: {code}"))).collect();
    let messages = messages.parse().unwrap_or_else(|_| panic!("{name}: {messages}"));
    Attempt {
        name,
        answer: Answer { codes, closes, messages },
        bytes: unescaped(text.replace("{evil}", EVIL).as_bytes()),
    }
}
