//! Command lines as a server receives them.
//!
//! A line ends with CR LF only (RFC 5321 section 2.3.8). A bare CR or a bare LF is an immediate error, and the
//! connection must be closed: the client, or a program in front of it, may treat that byte as the end of the line, and
//! the bytes after it as a command.
//!
//! A line that is too long is discarded as it arrives, up to its end, and then rejected as a whole: its contents are
//! never read as commands (RFC 5321 section 4.5.3.1.9). If it may have been BDAT, the connection must be closed: a
//! chunk may follow.

use super::command::may_become_bdat;
use super::reject::{Recovery, Reject};
use memchr::memchr2;

/// The maximum length of a command line in bytes, including its end: 512 (RFC 5321 section 4.5.3.1.4), plus the largest
/// addition by an extension, 500 for RCPT (RFC 3461 section 4). MAIL needs less: SIZE adds 26 bytes, BODY 17, SMTPUTF8
/// 10, RET and ENVID 116.
pub const LINE_BYTES: usize = 512 + 500;

/// The result for the bytes received so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'a> {
    /// A line.
    Line {
        /// The line without its end, for [`super::command::parse`].
        line: &'a [u8],
        /// The length including its end; the next line follows, or the data that the command announces.
        consumed: usize,
    },
    /// A part of a line that is too long. Discard these bytes; the response follows at the end of the line.
    Skip {
        /// The number of bytes, at least 1.
        consumed: usize,
    },
    /// A line that is not a command line.
    Reject {
        /// The response, and whether the connection can continue.
        reject: Reject,
        /// The number of bytes consumed.
        consumed: usize,
    },
    /// The line is valid so far, but incomplete.
    Incomplete,
}

/// The search for the end of a line. One value is used for a whole connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scan {
    /// The number of bytes of the line searched.
    searched: usize,
    /// If the line is too long and its start was discarded, its rejection.
    skipped: Option<Reject>,
}

impl Scan {
    /// Returns the next step for these bytes, which must start after the last byte consumed. The split of the bytes
    /// affects only the number of [`Step::Skip`].
    #[inline]
    pub fn next<'a>(&mut self, bytes: &'a [u8]) -> Step<'a> {
        let start = self.searched.min(bytes.len());
        let Some(at) = memchr2(b'\r', b'\n', &bytes[start..]).map(|len| start + len) else {
            return self.unfinished(bytes);
        };
        match (bytes[at], bytes.get(at + 1)) {
            (b'\r', Some(b'\n')) => self.end(&bytes[..at], at + 2),
            (b'\r', None) => self.unfinished(&bytes[..at]),
            (b'\r', Some(_)) => self.bare(Reject::BARE_RETURN, at + 1),
            _ => self.bare(Reject::BARE_FEED, at + 1),
        }
    }

    #[inline]
    fn end<'a>(&mut self, line: &'a [u8], consumed: usize) -> Step<'a> {
        let Scan { skipped, .. } = std::mem::take(self);
        match skipped.or_else(|| (consumed > LINE_BYTES).then(|| too_long(line))) {
            Some(reject) => Step::Reject { reject, consumed },
            None => Step::Line { line, consumed },
        }
    }

    /// Handles a line without a line end in these bytes.
    #[cold]
    fn unfinished<'a>(&mut self, line: &[u8]) -> Step<'a> {
        let searched = line.len();
        if self.skipped.is_none() && searched > LINE_BYTES - 2 {
            self.skipped = Some(too_long(line));
        }
        if self.skipped.is_some() && searched > 0 {
            self.searched = 0;
            return Step::Skip { consumed: searched };
        }
        self.searched = searched;
        Step::Incomplete
    }

    #[cold]
    fn bare<'a>(&mut self, reject: Reject, consumed: usize) -> Step<'a> {
        debug_assert_eq!(reject.recovery, Recovery::Close, "the next line's start is unknown");
        *self = Scan::default();
        Step::Reject { reject, consumed }
    }
}

/// Returns the rejection of a line that is too long, from its start. It depends only on bytes that are available for
/// any split.
#[cold]
fn too_long(line: &[u8]) -> Reject {
    let reject = Reject::LINE_TOO_LONG;
    if may_become_bdat(&line[..line.len().min(LINE_BYTES - 1)]) { reject.closing() } else { reject }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the lines and rejections in these bytes, each with its end, if the bytes arrive in pieces of this size.
    fn read(bytes: &[u8], size: usize) -> Vec<(Result<Vec<u8>, Reject>, usize)> {
        let (mut scan, mut found, mut start, mut len) = (Scan::default(), Vec::new(), 0, 0);
        loop {
            match scan.next(&bytes[start..len]) {
                Step::Line { line, consumed } => {
                    found.push((Ok(line.to_vec()), start + consumed));
                    start += consumed;
                }
                Step::Reject { reject, consumed } => {
                    found.push((Err(reject), start + consumed));
                    if reject.recovery == Recovery::Close {
                        return found;
                    }
                    start += consumed;
                }
                Step::Skip { consumed } => start += consumed,
                Step::Incomplete if len == bytes.len() => return found,
                Step::Incomplete => len = bytes.len().min(len + size),
            }
            assert!(len - start <= LINE_BYTES + size, "the caller's buffer is bounded");
        }
    }

    #[test]
    fn lines_end_with_cr_lf_alone() {
        for (text, expected) in [
            (&b"NOOP\r\n"[..], vec![(Ok(b"NOOP".to_vec()), 6)]),
            (b"\r\nA\r\nB", vec![(Ok(vec![]), 2), (Ok(b"A".to_vec()), 5)]),
            (b"NOOP\nQUIT\r\n", vec![(Err(Reject::BARE_FEED), 5)]),
            (b"NOOP\rQUIT\r\n", vec![(Err(Reject::BARE_RETURN), 5)]),
            (b"NOOP\r\r\n", vec![(Err(Reject::BARE_RETURN), 5)]),
            (b"NOOP\n\r\n", vec![(Err(Reject::BARE_FEED), 5)]),
            (b"\n", vec![(Err(Reject::BARE_FEED), 1)]),
            (b"NOOP\r", vec![]),
        ] {
            for size in 1..=text.len() {
                assert_eq!(read(text, size), expected, "{} by {size}", text.escape_ascii());
            }
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_refused_once_and_skipped() {
        for (len, is_fine) in [(LINE_BYTES - 2, true), (LINE_BYTES - 1, false), (LINE_BYTES, false), (5000, false)] {
            let text = [&b"a".repeat(len)[..], b"\r\nQUIT\r\n"].concat();
            let first = if is_fine { Ok(b"a".repeat(len)) } else { Err(Reject::LINE_TOO_LONG) };
            let expected = vec![(first, len + 2), (Ok(b"QUIT".to_vec()), len + 8)];
            for size in [1, 2, 3, 511, 1010, 1011, 1012, 1013, text.len()] {
                assert_eq!(read(&text, size), expected, "{len} by {size}");
            }
        }
    }

    /// The chunk that may follow was once read as commands.
    #[test]
    fn after_a_long_line_that_may_be_bdat_the_next_command_is_unknown() {
        let long = |text: &str| [text.as_bytes(), &b" ".repeat(3000)].concat();
        for (start, closes) in [
            (long("BDAT 6"), true),
            (long("\tbdat 6"), true),
            (long(""), true),
            (long("BDA"), true),
            ([long(""), b"BDAT 6".to_vec()].concat(), true),
            (long("BDA x"), false),
            (long("NOOP BDAT 6"), false),
        ] {
            let text = [&start[..], b"\r\nQUIT\r\n"].concat();
            for size in [1, 2, 1009, 1010, 1011, 1012, 1013, text.len()] {
                let found = read(&text, size);
                let rejected = if closes { Reject::LINE_TOO_LONG.closing() } else { Reject::LINE_TOO_LONG };
                assert_eq!(found[0], (Err(rejected), start.len() + 2), "{} by {size}", start.escape_ascii());
                assert_eq!(found.len(), if closes { 1 } else { 2 }, "{} by {size}", start.escape_ascii());
            }
        }
    }

    #[test]
    fn a_bare_line_feed_in_a_long_line_is_no_end() {
        let text = [&b"a".repeat(3000)[..], b"\nMAIL FROM:<>\r\n"].concat();
        for size in [1, 700, text.len()] {
            assert_eq!(read(&text, size), [(Err(Reject::BARE_FEED), 3001)], "{size}");
        }
    }
}
