//! A script for a console: text to wait for, and the answer to type.
//!
//! The other end may be a boot loader, a login or a shell. Its prompts have no line feed and arrive in pieces, so the
//! end of all output so far is compared each time.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The number of bytes of the output that are compared.
const COMPARED_BYTES: usize = 4 << 10;

/// After this long without output an empty line is typed, to get the prompt again.
const QUIET: Duration = Duration::from_secs(10);

/// One step of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The output must end with any of these, ignoring trailing white space.
    pub wait_for: Vec<String>,
    /// The line to type then.
    pub answer: String,
}

/// A script and its state.
#[derive(Debug)]
pub struct Script {
    steps: VecDeque<Step>,
    output: Vec<u8>,
    last_output: Instant,
}

impl Script {
    /// Returns a script of these steps.
    pub fn new(steps: Vec<Step>) -> Self {
        Self { steps: steps.into(), output: Vec::new(), last_output: Instant::now() }
    }

    /// Adds output of the console; returns what to type now, if anything.
    pub fn receive(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        self.last_output = Instant::now();
        self.output.extend_from_slice(bytes);
        let surplus = self.output.len().saturating_sub(COMPARED_BYTES);
        self.output.drain(..surplus);
        let text = String::from_utf8_lossy(&self.output);
        let shown = without_escapes(&text);
        let shown = shown.trim_end();
        let is_there = |word: &String| shown.ends_with(word.trim_end());
        if !self.steps.front()?.wait_for.iter().any(is_there) {
            return None;
        }
        let step = self.steps.pop_front()?;
        // Output from before an answer cannot be a reaction to it.
        self.output.clear();
        Some(format!("{}\r", step.answer).into_bytes())
    }

    /// Returns what to type after a long silence: a message may have followed the prompt.
    pub fn idle(&mut self) -> Option<Vec<u8>> {
        if self.steps.is_empty() || self.last_output.elapsed() < QUIET {
            return None;
        }
        self.last_output = Instant::now();
        Some(b"\r".to_vec())
    }

    /// Returns what it waits for, as text for the user.
    pub fn expects(&self) -> String {
        match self.steps.front() {
            Some(step) => step.wait_for.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" or "),
            None => "the guest's first message".to_owned(),
        }
    }
}

/// Returns a terminal's text without escape sequences: ESC, `[`, parameters, a letter.
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
    fn it_answers_however_the_output_is_split() {
        let shown = b"Debian 12 box ttyS0\r\n\r\nbox login: root\r\nWelcome\r\n\x1b[1mroot@box\x1b[0m:~# ";
        for size in [1, 3, shown.len()] {
            let mut script = script();
            let mut typed = Vec::new();
            for bytes in shown.chunks(size) {
                typed.extend(script.receive(bytes).unwrap_or_default());
            }
            // If everything arrives at once, the output ends with the shell's prompt, not with the login.
            let expected: &[u8] = if size == shown.len() { b"" } else { b"root\rls\r" };
            assert_eq!(typed, expected, "chunks of {size}");
        }
    }

    #[test]
    fn a_prompt_inside_a_message_is_ignored() {
        let mut script = script();
        assert_eq!(script.receive(b"last login: yesterday\r\n"), None);
        assert_eq!(script.expects(), "`login:`");
        assert_eq!(script.receive(b"\r\nlogin: "), Some(b"root\r".to_vec()));
        assert_eq!(script.expects(), "`# ` or `$ `");
        assert_eq!(script.idle(), None);
    }
}
