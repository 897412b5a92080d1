//! Parameters of MAIL and RCPT (RFC 5321 section 4.1.2), and free-text arguments.

use super::bytes::{self, ALNUM, ATOM, LDH, VALUE, XTEXT};
use super::reject::Reject;
use core::fmt::Write;
use core::str;
use memchr::memchr;

/// The maximum length of an envelope identifier in bytes (RFC 3461 section 4.4).
pub const ENVID_BYTES: usize = 100;

/// The maximum length of an original recipient in bytes, including its type (RFC 3461 section 4.2).
pub const ORCPT_BYTES: usize = 500;

/// The permitted content of a message: `BODY=`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Body {
    /// `7BIT`: lines of ASCII.
    SevenBit,
    /// `8BITMIME`: lines of any bytes (RFC 6152).
    EightBitMime,
    /// `BINARYMIME`: any bytes, sent with BDAT (RFC 3030 section 3).
    BinaryMime,
}

impl Body {
    /// Returns the value in its protocol format.
    pub const fn as_str(self) -> &'static str {
        match self {
            Body::SevenBit => "7BIT",
            Body::EightBitMime => "8BITMIME",
            Body::BinaryMime => "BINARYMIME",
        }
    }
}

/// How much of the message a delivery status notification returns: `RET=` (RFC 3461 section 4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ret {
    /// The whole message.
    Full,
    /// The header only.
    Headers,
}

impl Ret {
    /// Returns the value in its protocol format.
    pub const fn as_str(self) -> &'static str {
        match self {
            Ret::Full => "FULL",
            Ret::Headers => "HDRS",
        }
    }

    /// Parses a value.
    pub fn parse(value: &str) -> Option<Ret> {
        [Ret::Full, Ret::Headers].into_iter().find(|ret| value.eq_ignore_ascii_case(ret.as_str()))
    }
}

/// The events for which the sender wants a delivery status notification: `NOTIFY=` (RFC 3461 section 4.1). All false
/// means never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Notify {
    /// On delivery.
    pub success: bool,
    /// On failure.
    pub failure: bool,
    /// On delay.
    pub delay: bool,
}

impl Notify {
    /// `NEVER`.
    pub const NEVER: Notify = Notify { success: false, failure: false, delay: false };

    /// Parses a value: `NEVER`, or a list without repetitions.
    pub fn parse(value: &[u8]) -> Option<Notify> {
        let mut notify = Notify::NEVER;
        if value.eq_ignore_ascii_case(b"NEVER") {
            return Some(notify);
        }
        for item in value.split(|&b| b == b',') {
            let flag = match item.len() {
                5 if item.eq_ignore_ascii_case(b"DELAY") => &mut notify.delay,
                7 if item.eq_ignore_ascii_case(b"SUCCESS") => &mut notify.success,
                7 if item.eq_ignore_ascii_case(b"FAILURE") => &mut notify.failure,
                _ => return None,
            };
            if core::mem::replace(flag, true) {
                return None;
            }
        }
        Some(notify)
    }

    /// Appends the value.
    pub fn write(self, out: &mut Vec<u8>) {
        let items = [(self.success, "SUCCESS"), (self.failure, "FAILURE"), (self.delay, "DELAY")];
        let start = out.len();
        for (_, name) in items.iter().filter(|(is_set, _)| *is_set) {
            if out.len() > start {
                out.push(b',');
            }
            out.extend_from_slice(name.as_bytes());
        }
        if out.len() == start {
            out.extend_from_slice(b"NEVER");
        }
    }
}

/// Text encoded as xtext (RFC 3461 section 4): visible ASCII, with `+` and two upper-case hexadecimal digits for any
/// other byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Xtext<'a>(&'a str);

impl<'a> Xtext<'a> {
    /// Returns the encoded text; `None` if it is not xtext.
    pub fn new(text: &'a str) -> Option<Xtext<'a>> {
        let mut rest = text.as_bytes();
        while let [first, after @ ..] = rest {
            rest = match (first, after) {
                (b'+', [high, low, after @ ..]) if is_digit(*high) && is_digit(*low) => after,
                (byte, after) if bytes::is(*byte, XTEXT) => after,
                _ => return None,
            };
        }
        Some(Xtext(text))
    }

    /// Returns the text in its encoded form.
    pub const fn as_str(&self) -> &'a str {
        self.0
    }

    /// Returns the decoded bytes.
    pub fn decode(&self) -> impl Iterator<Item = u8> + use<'a> {
        let mut bytes = self.0.bytes();
        let digit = |byte: Option<u8>| char::from(byte.unwrap_or(b'0')).to_digit(16).unwrap_or_default() as u8;
        core::iter::from_fn(move || match bytes.next()? {
            b'+' => Some(digit(bytes.next()) << 4 | digit(bytes.next())),
            byte => Some(byte),
        })
    }

    /// Appends bytes as xtext.
    pub fn encode(bytes: &[u8], out: &mut Vec<u8>) {
        for &byte in bytes {
            if bytes::is(byte, XTEXT) {
                out.push(byte);
            } else {
                let digit = |value: u8| b"0123456789ABCDEF"[usize::from(value)];
                out.extend_from_slice(&[b'+', digit(byte >> 4), digit(byte & 15)]);
            }
        }
    }
}

/// Returns whether a byte is a hexadecimal digit in upper case.
const fn is_digit(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'A'..=b'F')
}

/// The recipient as given by the sender, before any forwarding: `ORCPT=` (RFC 3461 section 4.2). It consists of the
/// address type, a semicolon and the encoded address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OriginalRecipient<'a>(&'a str);

impl<'a> OriginalRecipient<'a> {
    /// Returns an encoded recipient; `None` if it is malformed. The address is xtext; one of type `utf-8` may have
    /// characters beyond ASCII and escapes such as `\x{e9}`, which are not checked (RFC 6533 section 3).
    pub fn new(text: &'a str) -> Option<OriginalRecipient<'a>> {
        let (kind, address) = text.split_once(';')?;
        let is_plain = |b: u8| bytes::is_or_high(b, XTEXT);
        let is_kind = !kind.is_empty() && kind.bytes().all(|b| bytes::is(b, ATOM) && bytes::is(b, XTEXT));
        let is_address = if kind.eq_ignore_ascii_case("utf-8") {
            address.bytes().all(is_plain)
        } else {
            Xtext::new(address).is_some()
        };
        (is_kind && is_address && !address.is_empty() && text.len() <= ORCPT_BYTES).then_some(OriginalRecipient(text))
    }

    /// Returns the text in its encoded form, with its type.
    pub const fn as_str(&self) -> &'a str {
        self.0
    }

    /// Returns whether it has characters beyond ASCII, so that it needs SMTPUTF8.
    pub const fn needs_utf8(&self) -> bool {
        !self.0.is_ascii()
    }

    /// Returns the text for a server without SMTPUTF8: characters beyond ASCII are written as `\x{E9}` (RFC 6533
    /// section 3). `None` if the result is too long.
    pub fn to_ascii(&self) -> Option<String> {
        let mut text = String::with_capacity(self.0.len());
        for one in self.0.chars() {
            if one.is_ascii() {
                text.push(one);
            } else {
                // Writing to a string cannot fail.
                let _ = write!(text, "\\x{{{:02X}}}", u32::from(one));
            }
        }
        (text.len() <= ORCPT_BYTES).then_some(text)
    }

    /// Returns the type of the address, such as `rfc822`.
    pub fn kind(&self) -> &'a str {
        self.0.split_once(';').map_or("", |(kind, _)| kind)
    }

    /// Returns the encoded address.
    pub fn address(&self) -> &'a str {
        self.0.split_once(';').map_or("", |(_, address)| address)
    }
}

/// Free text in a command: without control characters and without leading or trailing blanks, so that it cannot end the
/// line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Text<'a>(&'a str);

impl<'a> Text<'a> {
    /// Returns a text; `None` if it is empty, or has a control character or a leading or trailing blank.
    pub fn new(text: &'a str) -> Option<Text<'a>> {
        let has_blank_ends = text.starts_with(' ') || text.ends_with(' ');
        (!text.is_empty() && !has_blank_ends && !text.bytes().any(|b| b.is_ascii_control())).then_some(Text(text))
    }

    /// Returns the text.
    pub const fn as_str(&self) -> &'a str {
        self.0
    }

    pub(super) fn parse(text: &'a [u8]) -> Result<Text<'a>, Reject> {
        str::from_utf8(text).ok().and_then(Text::new).ok_or(Reject::argument("malformed argument"))
    }
}

/// The parameters after the path of MAIL or RCPT.
#[derive(Debug, Clone)]
pub(super) struct Parameters<'a> {
    rest: &'a [u8],
}

impl<'a> Parameters<'a> {
    /// Returns the parameters in the text after the path.
    pub(super) const fn new(rest: &'a [u8]) -> Parameters<'a> {
        Parameters { rest }
    }

    /// Consumes one parameter. Returns its keyword and its value, if it has one.
    fn take(&mut self) -> Result<(&'a [u8], Option<&'a str>), Reject> {
        let Some(rest) = self.rest.strip_prefix(b" ") else {
            return Err(Reject::argument("no space before a parameter"));
        };
        let (parameter, rest) = rest.split_at(memchr(b' ', rest).unwrap_or(rest.len()));
        self.rest = rest;
        let (keyword, value) = match memchr(b'=', parameter) {
            Some(at) => (&parameter[..at], Some(&parameter[at + 1..])),
            None => (parameter, None),
        };
        let is_keyword =
            keyword.first().is_some_and(|&b| bytes::is(b, ALNUM)) && keyword.iter().all(|&b| bytes::is(b, LDH));
        let value = match value {
            Some([]) => return Err(Reject::argument("parameter with an empty value")),
            Some(value) if value.iter().all(|&b| bytes::is_or_high(b, VALUE)) => {
                Some(str::from_utf8(value).map_err(|_| Reject::argument("parameter is not UTF-8"))?)
            }
            Some(_) => return Err(Reject::argument("invalid byte in a parameter")),
            None => None,
        };
        if is_keyword { Ok((keyword, value)) } else { Err(Reject::argument("malformed parameter")) }
    }
}

impl<'a> Iterator for Parameters<'a> {
    type Item = Result<(&'a [u8], Option<&'a str>), Reject>;

    fn next(&mut self) -> Option<Self::Item> {
        (!self.rest.is_empty()).then(|| self.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xtext_follows_rfc_3461_section_4() {
        let every: Vec<u8> = (0..=255).collect();
        let mut encoded = Vec::new();
        Xtext::encode(&every, &mut encoded);
        let text = Xtext::new(str::from_utf8(&encoded).unwrap()).unwrap();
        assert_eq!(text.decode().collect::<Vec<_>>(), every);
        assert_eq!(Xtext::new("a+3Db").unwrap().decode().collect::<Vec<_>>(), b"a=b");
        for text in ["+", "+3", "+3d", "+3G", "a=b", "a b", "\u{e9}", "a\0"] {
            assert_eq!(Xtext::new(text), None, "{text}");
        }
    }

    #[test]
    fn notify_is_never_or_a_list() {
        for (text, expected) in [
            ("NEVER", Some(Notify::NEVER)),
            ("success", Some(Notify { success: true, ..Notify::NEVER })),
            ("FAILURE,DELAY", Some(Notify { failure: true, delay: true, success: false })),
            ("NEVER,DELAY", None),
            ("DELAY,DELAY", None),
            ("DELAY,", None),
            ("", None),
            ("ALWAYS", None),
        ] {
            assert_eq!(Notify::parse(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn original_recipients_have_a_type_and_an_address() {
        let one = OriginalRecipient::new("rfc822;a+2Bb@c").unwrap();
        assert_eq!((one.kind(), one.address()), ("rfc822", "a+2Bb@c"));
        assert!(OriginalRecipient::new("utf-8;\u{e9}\\x{e9}@c").is_some());
        for text in
            ["", "rfc822", "rfc822;", ";a@b", "rfc822;\u{e9}@c", "rfc822;a=b@c", "rfc822;a+b@c", "rfc 822;a", "a+b;c"]
        {
            assert_eq!(OriginalRecipient::new(text), None, "{text}");
        }
        assert!(OriginalRecipient::new(&format!("a;{}", "b".repeat(498))).is_some());
        assert!(OriginalRecipient::new(&format!("a;{}", "b".repeat(499))).is_none());
    }

    #[test]
    fn original_recipients_beyond_ascii_have_a_form_in_ascii() {
        let one = OriginalRecipient::new("utf-8;a\\x{2B}\u{e9}\u{4f8b}@c").unwrap();
        let ascii = one.to_ascii().unwrap();
        assert_eq!((one.needs_utf8(), ascii.as_str()), (true, "utf-8;a\\x{2B}\\x{E9}\\x{4F8B}@c"));
        let again = OriginalRecipient::new(&ascii).unwrap();
        assert_eq!((again.needs_utf8(), again.to_ascii().as_ref()), (false, Some(&ascii)));
        let long = format!("utf-8;{}", "\u{e9}".repeat(200));
        assert_eq!(OriginalRecipient::new(&long).unwrap().to_ascii(), None);
    }

    #[test]
    fn text_cannot_end_a_line() {
        assert_eq!(Text::new("a b").map(|text| text.as_str().len()), Some(3));
        for text in ["", " a", "a ", "a\r\nQUIT", "a\nb", "a\rb", "a\0b", "a\tb", "\u{7f}"] {
            assert_eq!(Text::new(text), None, "{text:?}");
        }
    }
}
