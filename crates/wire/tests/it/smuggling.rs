//! The table of smuggling attempts, for messages and commands. Uses only the standard library and [`crate::escape`], so
//! that the tests of other crates can include both by their paths.

use crate::escape::unescaped;

/// The bytes that a client sends, and the required response of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attempt {
    /// The name.
    pub(crate) name: &'static str,
    /// The required behaviour of the server.
    pub(crate) answer: Answer,
    /// The bytes that the client sends after [`PROLOGUE`].
    pub(crate) bytes: Vec<u8>,
}

/// The behaviour of a server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Answer {
    /// The codes of its replies, after those to [`PROLOGUE`].
    pub(crate) codes: Vec<u16>,
    /// Whether it closed the connection because of an error.
    pub(crate) closes: bool,
    /// The number of messages that it accepted.
    pub(crate) messages: usize,
}

/// The bytes that the client sends first. The answer to each command is 250.
pub(crate) const PROLOGUE: &[u8] = b"EHLO c\r\nMAIL FROM:<a@x>\r\nRCPT TO:<b@y>\r\n";

/// The message that the attacker wants to be delivered, in the notation of the table.
const EVIL: &str = r"MAIL FROM:<e@x>\r\nRCPT TO:<v@y>\r\nDATA\r\nevil\r\n.\r\nQUIT\r\n";

/// Returns all attempts in the table.
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
