//! The capabilities of a server: the response to EHLO (RFC 5321 section 4.1.1.1), parsed by a client, written by a
//! server.

use super::code::Code;
use super::reply::{self, Reply};
use crate::decimal::{decimal, write_decimal};

/// Defines the named extensions, each with its keyword and source.
macro_rules! extensions {
    ($($name:ident $keyword:literal $source:literal)*) => {
        /// An SMTP extension.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Extension {
            $(#[doc = concat!("`", $keyword, "` (", $source, ")")] $name,)*
        }

        impl Extension {
            /// All extensions, in the order in which a server lists them.
            pub const ALL: &[Extension] = &[$(Extension::$name,)*];

            /// Returns the keyword.
            pub const fn keyword(self) -> &'static str {
                match self {
                    $(Extension::$name => $keyword,)*
                }
            }
        }
    };
}

extensions! {
    Pipelining "PIPELINING" "RFC 2920"
    Size "SIZE" "RFC 1870"
    Vrfy "VRFY" "RFC 5321 section 3.5.2"
    Expn "EXPN" "RFC 5321 section 3.5.2"
    Etrn "ETRN" "RFC 1985"
    StartTls "STARTTLS" "RFC 3207"
    Auth "AUTH" "RFC 4954"
    EnhancedStatusCodes "ENHANCEDSTATUSCODES" "RFC 2034"
    EightBitMime "8BITMIME" "RFC 6152"
    Dsn "DSN" "RFC 3461"
    SmtpUtf8 "SMTPUTF8" "RFC 6531"
    Chunking "CHUNKING" "RFC 3030"
    BinaryMime "BINARYMIME" "RFC 3030"
    Help "HELP" "RFC 5321 section 4.1.1.8"
}

impl Extension {
    /// Returns the extension with a keyword; the comparison ignores case.
    pub fn of(keyword: &[u8]) -> Option<Extension> {
        Extension::ALL.iter().copied().find(|one| keyword.eq_ignore_ascii_case(one.keyword().as_bytes()))
    }
}

/// A set of extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Extensions(u16);

impl Extensions {
    /// The empty set, which applies after HELO.
    pub const NONE: Extensions = Extensions(0);

    /// Returns a set of some extensions.
    pub const fn of(extensions: &[Extension]) -> Extensions {
        let (mut set, mut at) = (Extensions::NONE, 0);
        while at < extensions.len() {
            set = set.with(extensions[at]);
            at += 1;
        }
        set
    }

    /// Returns whether an extension is in the set.
    #[inline]
    pub const fn has(self, extension: Extension) -> bool {
        self.0 & 1 << extension as u8 != 0
    }

    /// Returns the set with an extension.
    #[must_use]
    pub const fn with(self, extension: Extension) -> Extensions {
        Extensions(self.0 | 1 << extension as u8)
    }

    /// Returns the set without an extension.
    #[must_use]
    pub const fn without(self, extension: Extension) -> Extensions {
        Extensions(self.0 & !(1 << extension as u8))
    }

    /// Returns the extensions in the order of [`Extension::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Extension> {
        Extension::ALL.iter().copied().filter(move |one| self.has(*one))
    }
}

/// The capabilities of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Capabilities {
    /// The extensions.
    pub extensions: Extensions,
    /// The maximum message size that the server accepts in bytes, if `SIZE` specifies one. Zero means no limit (RFC
    /// 1870 section 4), and is read as `None`.
    pub size_limit: Option<u64>,
}

impl Capabilities {
    /// Parses a successful response to EHLO or LHLO. The first line is a greeting; unknown keywords are ignored.
    pub fn of_reply(reply: &Reply<'_>) -> Capabilities {
        let mut capabilities = Capabilities::default();
        for (extension, value) in keywords(reply).filter_map(|(name, value)| Some((Extension::of(name)?, value))) {
            capabilities.extensions = capabilities.extensions.with(extension);
            if extension == Extension::Size {
                capabilities.size_limit = decimal(value).filter(|limit| *limit > 0);
            }
        }
        capabilities
    }

    /// Appends the response to EHLO or LHLO: `250`, the server's name, and a line for each extension. `auth` lists the
    /// mechanisms of AUTH, such as `PLAIN LOGIN`; if it is empty, the keyword has no parameters.
    pub fn write(&self, server: &str, auth: &str, out: &mut Vec<u8>) {
        let start = out.len();
        reply::write(out, Code::OK, None, [server]);
        // A name with line ends, or too long for a line, has been split into several lines.
        let name = out.get(start..out.len() - 2).unwrap_or_default();
        let mut last = memchr::memrchr(b'\n', name).map_or(start, |end| start + end + 1);
        for extension in self.extensions.iter() {
            out[last + 3] = b'-';
            last = out.len();
            out.extend_from_slice(b"250 ");
            out.extend_from_slice(extension.keyword().as_bytes());
            match (extension, self.size_limit) {
                (Extension::Size, Some(limit)) => {
                    out.push(b' ');
                    write_decimal(limit, out);
                }
                (Extension::Auth, _) if !auth.is_empty() => {
                    out.push(b' ');
                    out.extend(auth.bytes().map(|b| if b.is_ascii_control() { b' ' } else { b }));
                }
                _ => {}
            }
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// Returns the keyword and the parameters of each line of an EHLO response, except the first.
pub fn keywords<'a>(reply: &Reply<'a>) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
    reply.lines().skip(1).map(|line| {
        // Old servers wrote `AUTH=LOGIN`.
        let end = line.iter().position(|b| matches!(b, b' ' | b'=')).unwrap_or(line.len());
        (&line[..end], line.get(end + 1..).unwrap_or_default().trim_ascii())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smtp::reply::Parsed;

    fn capabilities(text: &str) -> Capabilities {
        match reply::parse(text.replace('|', "\r\n").as_bytes()) {
            Ok(Parsed::Complete { reply, .. }) => Capabilities::of_reply(&reply),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn answers_to_ehlo_are_read() {
        let found = capabilities(
            "250-SIZE greets you|250-pipelining|250-Size 10240000 |250-X-UNKNOWN a b|250-AUTH=PLAIN|250 8BITMIME|",
        );
        let expected = [Extension::Pipelining, Extension::Size, Extension::Auth, Extension::EightBitMime];
        assert_eq!(found.extensions, Extensions::of(&expected));
        assert_eq!(found.size_limit, Some(10_240_000));
        for (text, limit) in
            [("SIZE", None), ("SIZE 0", None), ("SIZE x", None), ("SIZE 1", Some(1)), ("8BITMIMEX", None)]
        {
            let found = capabilities(&format!("250-x|250 {text}|"));
            assert_eq!(found.size_limit, limit, "{text}");
            assert_eq!(found.extensions.has(Extension::Size), text.starts_with("SIZE"));
            assert!(!found.extensions.has(Extension::EightBitMime));
        }
        assert_eq!(capabilities("250 PIPELINING|"), Capabilities::default());
    }

    #[test]
    fn every_set_is_written_and_read_back() {
        for bits in 0..1u16 << Extension::ALL.len() {
            let extensions = Extensions(bits);
            let size_limit = extensions.has(Extension::Size).then_some(u64::from(bits));
            let written = Capabilities { extensions, size_limit };
            let mut out = Vec::new();
            written.write("mail.example", "PLAIN", &mut out);
            let Ok(Parsed::Complete { reply, consumed }) = reply::parse(&out) else { panic!("{bits}") };
            assert_eq!((consumed, Capabilities::of_reply(&reply)), (out.len(), written));
        }
    }

    #[test]
    fn no_name_or_mechanism_breaks_the_answer() {
        let extensions = Extensions::of(&[Extension::Auth, Extension::Dsn]);
        for server in ["a\r\n250 b", &"a".repeat(2000)] {
            let mut out = Vec::new();
            Capabilities { extensions, size_limit: None }.write(server, "PLAIN\r\n250 x", &mut out);
            let Ok(Parsed::Complete { reply, consumed }) = reply::parse(&out) else { panic!("{server}") };
            assert_eq!((consumed, Capabilities::of_reply(&reply).extensions), (out.len(), extensions));
        }
    }

    #[test]
    fn the_answer_is_as_in_rfc_5321_section_4_1_1_1() {
        let mut out = Vec::new();
        let extensions = Extensions::of(&[Extension::Size, Extension::Dsn, Extension::Auth]);
        Capabilities { extensions, size_limit: None }.write("a.example", "", &mut out);
        assert_eq!(out.escape_ascii().to_string(), r"250-a.example\r\n250-SIZE\r\n250-AUTH\r\n250 DSN\r\n");
    }
}
