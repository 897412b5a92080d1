//! Reply codes (RFC 5321 section 4.2) and enhanced status codes (RFC 3463).

use crate::decimal::{decimal, write_decimal};
use core::fmt;

/// A reply code, from 200 to 599.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(u16);

/// The first digit of a reply code, which alone determines what a client does (RFC 5321 section 4.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// 2yz: the command succeeded.
    Success,
    /// 3yz: the server expects more, such as the text after DATA.
    Intermediate,
    /// 4yz: the command failed; it may succeed later.
    Transient,
    /// 5yz: the command failed permanently.
    Permanent,
}

impl Code {
    /// Returns the code with that number; `None` if the number is not from 200 to 599.
    pub const fn new(number: u16) -> Option<Code> {
        if matches!(number, 200..=599) { Some(Code(number)) } else { None }
    }

    /// Returns the number.
    pub const fn number(self) -> u16 {
        self.0
    }

    /// Returns the class.
    pub const fn class(self) -> Class {
        match self.0 {
            ..300 => Class::Success,
            300..400 => Class::Intermediate,
            400..500 => Class::Transient,
            500.. => Class::Permanent,
        }
    }

    /// Returns the three digits.
    #[inline]
    pub(crate) const fn digits(self) -> [u8; 3] {
        [b'0' + (self.0 / 100) as u8, b'0' + (self.0 / 10 % 10) as u8, b'0' + (self.0 % 10) as u8]
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Defines the named codes, each with its meaning.
macro_rules! codes {
    ($($name:ident $code:literal $meaning:literal)*) => {
        impl Code {
            $(#[doc = concat!($code, ": ", $meaning)] pub const $name: Code = Code($code);)*
        }
    };
}

codes! {
    HELP 214 "help text."
    READY 220 "the greeting, and the answer to STARTTLS."
    CLOSING 221 "the answer to QUIT."
    OK 250 "the command succeeded."
    WILL_FORWARD 251 "the user is not local; the server forwards."
    CANNOT_VERIFY 252 "the answer to VRFY of a server that accepts mail without checking."
    START_DATA 354 "the text of the message is awaited."
    UNAVAILABLE 421 "the service is not available; the server closes the connection."
    MAILBOX_BUSY 450 "the mailbox is unavailable for now."
    LOCAL_ERROR 451 "an error in the server."
    NO_STORAGE 452 "too little storage, or too many recipients."
    TLS_UNAVAILABLE 454 "TLS is not available for now (RFC 3207)."
    UNKNOWN_COMMAND 500 "the command is unknown, or its line is too long or malformed."
    BAD_ARGUMENT 501 "the arguments are malformed."
    NOT_IMPLEMENTED 502 "the command is not implemented."
    BAD_SEQUENCE 503 "the command is out of order."
    BAD_PARAMETER 504 "the value of a parameter is not implemented."
    TLS_REQUIRED 530 "STARTTLS must come first (RFC 3207)."
    MAILBOX_UNAVAILABLE 550 "the mailbox is unavailable, or the message is refused."
    NOT_LOCAL 551 "the user is not local."
    TOO_LARGE 552 "the message is larger than the server accepts."
    BAD_MAILBOX 553 "the mailbox name is not allowed."
    FAILED 554 "the transaction failed; as a greeting: no SMTP service here."
    UNKNOWN_PARAMETER 555 "a parameter of MAIL or RCPT is unknown."
    NO_MAIL 556 "the domain does not accept mail (RFC 7504, RFC 7505)."
}

/// An enhanced status code (RFC 3463 section 2): `class.subject.detail`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Enhanced {
    class: u8,
    subject: u16,
    detail: u16,
}

impl Enhanced {
    /// The maximum length of a code in bytes: `5.999.999`.
    pub const BYTES: usize = 9;

    /// Returns the code; `None` unless the class is 2, 4 or 5 and the other parts are at most 999.
    pub const fn new(class: u8, subject: u16, detail: u16) -> Option<Enhanced> {
        if matches!(class, 2 | 4 | 5) && subject < 1000 && detail < 1000 {
            Some(Enhanced { class, subject, detail })
        } else {
            None
        }
    }

    /// Returns a code without checking its validity.
    pub(crate) const fn fixed(class: u8, subject: u16, detail: u16) -> Enhanced {
        Enhanced { class, subject, detail }
    }

    /// Returns class, subject and detail.
    pub const fn parts(self) -> (u8, u16, u16) {
        (self.class, self.subject, self.detail)
    }

    /// Parses the code at the start of a reply's text. Returns it and the text after it and its space. A number with a
    /// leading zero is invalid (RFC 3463 section 2).
    pub fn parse(text: &[u8]) -> Option<(Enhanced, &[u8])> {
        let [class @ (b'2' | b'4' | b'5'), b'.', rest @ ..] = text else { return None };
        let dot = rest.iter().take(4).position(|&b| b == b'.')?;
        let (subject, rest) = (number(&rest[..dot])?, &rest[dot + 1..]);
        let end = rest.iter().take(4).position(|&b| b == b' ').unwrap_or(rest.len());
        let detail = number(&rest[..end])?;
        let rest = rest.get(end + 1..).unwrap_or_default();
        Some((Enhanced { class: class - b'0', subject, detail }, rest))
    }

    /// Appends the code, without a space.
    pub fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[b'0' + self.class, b'.']);
        write_decimal(u64::from(self.subject), out);
        out.push(b'.');
        write_decimal(u64::from(self.detail), out);
    }
}

/// Parses a number of one to three digits without leading zeros.
fn number(digits: &[u8]) -> Option<u16> {
    let is_canonical = digits.len() <= 3 && (digits.len() == 1 || digits.first() != Some(&b'0'));
    if is_canonical { decimal(digits).map(|value| value as u16) } else { None }
}

impl fmt::Display for Enhanced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.class, self.subject, self.detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_from_200_to_599() {
        assert_eq!([199, 600, 0, 999].map(Code::new), [None; 4]);
        for number in 200..600 {
            let code = Code::new(number).unwrap();
            assert_eq!(code.digits().as_slice(), number.to_string().as_bytes());
            assert_eq!(code.number(), number);
        }
        let classes = [299, 300, 421, 500].map(|number| Code::new(number).unwrap().class());
        assert_eq!(classes, [Class::Success, Class::Intermediate, Class::Transient, Class::Permanent]);
    }

    #[test]
    fn enhanced_codes_follow_rfc_3463_section_2() {
        for (text, code, rest) in [
            (&b"2.1.5 Ok"[..], (2, 1, 5), &b"Ok"[..]),
            (b"5.7.1", (5, 7, 1), b""),
            (b"4.999.999  x", (4, 999, 999), b" x"),
            (b"2.0.0 ", (2, 0, 0), b""),
        ] {
            let (enhanced, after) = Enhanced::parse(text).unwrap();
            assert_eq!((enhanced.parts(), after), (code, rest), "{}", text.escape_ascii());
            let mut out = Vec::new();
            enhanced.write(&mut out);
            assert_eq!(out, enhanced.to_string().as_bytes());
            assert!(text.starts_with(&out) && out.len() <= Enhanced::BYTES);
        }
        for text in [
            &b""[..],
            b"2",
            b"2.",
            b"2.1",
            b"2.1.",
            b"2.1. x",
            b"3.1.1 x",
            b"1.1.1",
            b"6.0.0",
            b"2.1.5x",
            b"2.1.5.1",
            b"2..5",
            b"2.1000.1",
            b"2.1.1000",
            b"2.01.5",
            b"2.1.05",
            b"2,1,5",
            b"22.1.5",
            b"2.-1.5",
            b" 2.1.5",
            b"2.1.5\t",
        ] {
            assert_eq!(Enhanced::parse(text), None, "{}", text.escape_ascii());
        }
        assert_eq!(Enhanced::new(3, 0, 0), None);
        assert_eq!(Enhanced::new(5, 1000, 0), None);
    }
}
