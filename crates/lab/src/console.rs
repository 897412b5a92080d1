//! Typing on a console: what is waited for, and what is typed then.
//!
//! Whoever sits at the other end may be a boot loader, a login or a shell, and what they write may come in any pieces
//! and without a line's end. So the end of all that was seen so far is looked at each time.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How much of what was seen is looked at.
const SEEN_BYTES: usize = 4 << 10;

/// A console that has shown nothing for so long is asked for its prompt again, by an empty line.
const QUIET: Duration = Duration::from_secs(10);

/// One step of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Any of these must stand at the end of what is shown, but for blanks.
    pub wait_for: Vec<String>,
    /// What is typed then, with a line's end.
    pub answer: String,
}

/// A conversation with a console.
#[derive(Debug)]
pub struct Script {
    steps: VecDeque<Step>,
    seen: Vec<u8>,
    heard: Instant,
}

impl Script {
    /// A conversation of these steps.
    pub fn new(steps: Vec<Step>) -> Self {
        Self { steps: steps.into(), seen: Vec::new(), heard: Instant::now() }
    }

    /// Takes what the console shows; what is to be typed now, if anything is.
    pub fn receive(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        self.heard = Instant::now();
        self.seen.extend_from_slice(bytes);
        let surplus = self.seen.len().saturating_sub(SEEN_BYTES);
        self.seen.drain(..surplus);
        let text = String::from_utf8_lossy(&self.seen);
        let shown = without_escapes(&text);
        let shown = shown.trim_end();
        let is_there = |word: &String| shown.ends_with(word.trim_end());
        if !self.steps.front()?.wait_for.iter().any(is_there) {
            return None;
        }
        let step = self.steps.pop_front()?;
        // What was seen before an answer is no answer to it.
        self.seen.clear();
        Some(format!("{}\r", step.answer).into_bytes())
    }

    /// What is to be typed because nothing was shown for long: a prompt may have been written over by a message.
    pub fn idle(&mut self) -> Option<Vec<u8>> {
        if self.steps.is_empty() || self.heard.elapsed() < QUIET {
            return None;
        }
        self.heard = Instant::now();
        Some(b"\r".to_vec())
    }

    /// What it waits for, in words.
    pub fn expects(&self) -> String {
        match self.steps.front() {
            Some(step) => step.wait_for.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" or "),
            None => "the guest's first word".to_owned(),
        }
    }
}

/// A terminal's text without colours and movements of the cursor: ESC, `[`, parameters, a letter.
fn without_escapes(text: &str) -> String {
    let (mut out, mut letters) = (String::new(), text.chars());
    while let Some(letter) = letters.next() {
        if letter != '\x1b' {
            out.push(letter);
        } else if letters.next() == Some('[') {
            letters.by_ref().find(|letter| ('@'..='~').contains(letter));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script() -> Script {
        let step = |words: &[&str], answer: &str| Step {
            wait_for: words.iter().map(|word| (*word).to_owned()).collect(),
            answer: answer.to_owned(),
        };
        Script::new(vec![step(&["login:"], "root"), step(&["# ", "$ "], "ls")])
    }

    #[test]
    fn it_answers_however_the_bytes_are_cut() {
        let shown = b"Debian 12 box ttyS0\r\n\r\nbox login: root\r\nWelcome\r\n\x1b[1mroot@box\x1b[0m:~# ";
        for piece in [1, 3, shown.len()] {
            let mut script = script();
            let mut typed = Vec::new();
            for bytes in shown.chunks(piece) {
                typed.extend(script.receive(bytes).unwrap_or_default());
            }
            // All at once, the end is a shell's prompt; nobody was asked for a name yet.
            let expected: &[u8] = if piece == shown.len() { b"" } else { b"root\rls\r" };
            assert_eq!(typed, expected, "pieces of {piece}");
        }
    }

    #[test]
    fn a_word_in_the_middle_of_a_message_is_no_prompt() {
        let mut script = script();
        assert_eq!(script.receive(b"last login: yesterday\r\n"), None);
        assert_eq!(script.expects(), "`login:`");
        assert_eq!(script.receive(b"\r\nlogin: "), Some(b"root\r".to_vec()));
        assert_eq!(script.expects(), "`# ` or `$ `");
        assert_eq!(script.idle(), None);
    }
}
