//! A position in a line, for parsing: consumes expected text, or reports the text that was found instead.

use crate::ParseError;

/// A position in the text of one line.
pub(crate) struct Cursor<'t> {
    rest: &'t str,
    text: &'t str,
    line: usize,
}

/// Maximum number of characters of a quoted text in an error.
const FOUND_MAX: usize = 24;

impl<'t> Cursor<'t> {
    /// Returns a cursor at the start of a line.
    pub(crate) fn new(text: &'t str, line: usize) -> Self {
        let mut cursor = Self { rest: text, text, line };
        cursor.skip_spaces();
        cursor
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    fn skip_spaces(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// Returns the error at this position.
    pub(crate) fn error(&self, expected: &str) -> ParseError {
        let found = match self.rest.split_whitespace().next() {
            None => "the end of the claim".to_owned(),
            Some(word) => {
                let mut quoted: String =
                    word.chars().take(FOUND_MAX).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
                if word.chars().count() > FOUND_MAX {
                    quoted.push('…');
                }
                format!("`{quoted}`")
            }
        };
        let before = &self.text[..self.text.len() - self.rest.len()];
        ParseError { line: self.line, column: before.chars().count() + 1, expected: expected.to_owned(), found }
    }

    /// Consumes a sign and the spaces after it, if it is here.
    pub(crate) fn takes(&mut self, sign: &str) -> bool {
        let Some(rest) = self.rest.strip_prefix(sign) else { return false };
        self.rest = rest;
        self.skip_spaces();
        true
    }

    /// Consumes a sign, but no spaces after it, if it is here.
    pub(crate) fn joins(&mut self, sign: &str) -> bool {
        let rest = self.rest.strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Consumes a word, if it is here and no letter, digit or `_` follows it.
    pub(crate) fn takes_word(&mut self, word: &str) -> bool {
        let rest = self.rest.strip_prefix(word);
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_')) && self.takes(word)
    }

    /// Consumes a word, or fails.
    pub(crate) fn word(&mut self, word: &str) -> Result<(), ParseError> {
        if self.takes_word(word) { Ok(()) } else { Err(self.error(&format!("`{word}`"))) }
    }

    /// Consumes and returns the longest run of characters that `is_part` accepts, without the spaces after it.
    pub(crate) fn run(&mut self, is_part: impl Fn(char) -> bool) -> &'t str {
        let end = self.rest.find(|c: char| !is_part(c)).unwrap_or(self.rest.len());
        let (run, rest) = self.rest.split_at(end);
        self.rest = rest;
        run
    }

    /// Consumes the spaces before the next word.
    pub(crate) fn end_word(&mut self) {
        self.skip_spaces();
    }

    /// Consumes a decimal number and the spaces after it. `_` and `,` separate groups of three digits. A comma
    /// elsewhere may be intended as a decimal point, so it is an error.
    pub(crate) fn number(&mut self, expected: &str) -> Result<f64, ParseError> {
        let before = self.rest;
        let is_digit = |c: char| c.is_ascii_digit() || c == '_' || c == ',';
        let written = self.run(is_digit);
        let is_grouped = written.split(['_', ',']).skip(1).all(|group| group.len() == 3);
        let mut text: String = written.chars().filter(char::is_ascii_digit).collect();
        let has_fraction =
            self.rest.strip_prefix('.').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        if has_fraction {
            self.rest = &self.rest[1..];
            text.push('.');
            text.push_str(self.run(|c| c.is_ascii_digit()));
        }
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() && is_grouped && before.starts_with(|c: char| c.is_ascii_digit()) => {
                self.skip_spaces();
                Ok(number)
            }
            _ => {
                self.rest = before;
                Err(self.error(expected))
            }
        }
    }

    /// Consumes a number of objects.
    pub(crate) fn n(&mut self) -> Result<u64, ParseError> {
        const EXPECTED: &str = "a number of objects from 1 to 4,294,967,295";
        let before = self.rest;
        let number = self.number(EXPECTED)?;
        if number.fract() == 0.0 && (1.0..=f64::from(u32::MAX)).contains(&number) {
            return Ok(number as u64);
        }
        self.rest = before;
        Err(self.error(EXPECTED))
    }

    /// Returns the position, for `go_back`.
    pub(crate) fn place(&self) -> &'t str {
        self.rest
    }

    /// Goes back to a position.
    pub(crate) fn go_back(&mut self, place: &'t str) {
        self.rest = place;
    }
}
