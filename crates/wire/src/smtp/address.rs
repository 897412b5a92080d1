//! Addresses (RFC 5321 section 4.1.2, RFC 6531 section 3.3): mailboxes and the paths of MAIL and RCPT.
//!
//! An address is kept as received. Local parts are compared by value and case-sensitively, because only the domain's
//! own server may know better; domains are compared without case (RFC 5321 section 2.4). A domain with characters
//! beyond ASCII is not converted: a lookup needs its A-labels (RFC 5891).

use super::bytes::{self, ALNUM, ATOM, LDH, is_or_high};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str;

/// The maximum length of a local part in bytes (RFC 5321 section 4.5.3.1.1).
pub const LOCAL_BYTES: usize = 64;

/// The maximum length of a domain or address literal in bytes (RFC 5321 section 4.5.3.1.2).
pub const DOMAIN_BYTES: usize = 255;

/// The maximum length of a path in bytes, with its angle brackets and source route (RFC 5321 section 4.5.3.1.3).
pub const PATH_BYTES: usize = 256;

/// The maximum length of an ASCII label in bytes (RFC 1035 section 2.3.4).
const LABEL_BYTES: usize = 63;

/// The reason why an address was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed address: {0}")]
pub struct Malformed(pub &'static str);

/// A domain or an address literal in brackets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Host<'a>(&'a str);

/// The kind of a [`Host`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HostKind<'a> {
    /// A domain.
    Domain(&'a str),
    /// An address: `[192.0.2.1]` or `[IPv6:2001:db8::1]`.
    Address(IpAddr),
    /// A literal of another kind, without its brackets: `tag:content`.
    Other(&'a str),
}

impl<'a> Host<'a> {
    /// Parses a domain or an address literal.
    pub fn parse(text: &'a [u8]) -> Result<Host<'a>, Malformed> {
        whole(text, host_end(text, 0)?).map(Host)
    }

    /// Parses the argument of EHLO, HELO and LHLO. In addition to [`Host::parse`], it accepts underscores: many host
    /// names contain them, and a server must not refuse mail for that reason (RFC 5321 section 4.1.4).
    pub(super) fn parse_client(text: &'a [u8]) -> Result<Host<'a>, Malformed> {
        match text {
            [b'[', ..] => Host::parse(text),
            _ => whole(text, domain_end(text, 0, b'_')?).map(Host),
        }
    }

    /// Returns the text as received, with the brackets of a literal.
    pub const fn as_str(&self) -> &'a str {
        self.0
    }

    /// Returns its kind.
    pub fn kind(&self) -> HostKind<'a> {
        let Some(literal) = self.0.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) else {
            return HostKind::Domain(self.0);
        };
        address_of(literal).map_or(HostKind::Other(literal), HostKind::Address)
    }

    /// Returns the domain; `None` for an address literal.
    pub fn domain(&self) -> Option<&'a str> {
        (!self.0.starts_with('[')).then_some(self.0)
    }

    /// Returns whether both are equal: domains without regard to case, literals by their address.
    pub fn is_same(&self, other: &Host<'_>) -> bool {
        match (self.kind(), other.kind()) {
            (HostKind::Address(own), HostKind::Address(other)) => own == other,
            _ => self.0.eq_ignore_ascii_case(other.0),
        }
    }
}

/// A mailbox: `local@domain`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mailbox<'a> {
    text: &'a str,
    /// The offset of the host, after the `@`.
    host: usize,
}

impl<'a> Mailbox<'a> {
    /// Parses a mailbox without angle brackets.
    pub fn parse(text: &'a [u8]) -> Result<Mailbox<'a>, Malformed> {
        let (host, end) = mailbox_end(text, 0)?;
        let text = whole(text, end)?;
        if text.len() > PATH_BYTES - 2 {
            return Err(Malformed("path longer than 256 bytes"));
        }
        Ok(Mailbox { text, host })
    }

    /// Returns the text as received.
    pub const fn as_str(&self) -> &'a str {
        self.text
    }

    /// Returns the local part as received, with its quotes.
    pub fn local(&self) -> &'a str {
        &self.text[..self.host - 1]
    }

    /// Returns the bytes of the local part's value, without quotes and without the backslashes of quoted pairs.
    pub fn local_value(&self) -> impl Iterator<Item = u8> + use<'a> {
        let local = self.local();
        let inner = local.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(local);
        let mut bytes = inner.bytes();
        core::iter::from_fn(move || match bytes.next()? {
            b'\\' => bytes.next(),
            byte => Some(byte),
        })
    }

    /// Returns the domain or address literal.
    pub fn host(&self) -> Host<'a> {
        Host(&self.text[self.host..])
    }

    /// Returns whether the address requires SMTPUTF8: it has characters beyond ASCII.
    pub fn needs_utf8(&self) -> bool {
        !self.text.is_ascii()
    }

    /// Returns whether the local part is `postmaster`, ignoring case (RFC 5321 section 4.5.1).
    pub fn is_postmaster(&self) -> bool {
        self.local_value().map(|b| b.to_ascii_lowercase()).eq(*b"postmaster")
    }

    /// Returns whether both are the same mailbox: `"a"@X.org` is `a@x.org`, `A@x.org` is not.
    pub fn is_same(&self, other: &Mailbox<'_>) -> bool {
        self.host().is_same(&other.host()) && self.local_value().eq(other.local_value())
    }
}

/// The path of MAIL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReversePath<'a> {
    /// `<>`: the path of bounces, which must not bounce themselves (RFC 5321 section 4.5.5).
    Null,
    /// A mailbox.
    Mailbox(Mailbox<'a>),
}

impl<'a> ReversePath<'a> {
    /// Returns the mailbox; `None` for the null path.
    pub const fn mailbox(&self) -> Option<&Mailbox<'a>> {
        match self {
            ReversePath::Null => None,
            ReversePath::Mailbox(mailbox) => Some(mailbox),
        }
    }

    /// Returns whether the path requires SMTPUTF8.
    pub fn needs_utf8(&self) -> bool {
        self.mailbox().is_some_and(Mailbox::needs_utf8)
    }

    /// Parses a path in angle brackets at the start of a text. Returns it and its length. A source route is ignored
    /// (RFC 5321 appendix C).
    pub fn parse(text: &'a [u8]) -> Result<(ReversePath<'a>, usize), Malformed> {
        if text.starts_with(b"<>") {
            return Ok((ReversePath::Null, 2));
        }
        path(text).map(|(mailbox, len)| (ReversePath::Mailbox(mailbox), len))
    }

    /// Appends the path with its angle brackets.
    pub fn write(&self, out: &mut Vec<u8>) {
        write_path(self.mailbox().map_or("", Mailbox::as_str), out);
    }
}

/// The path of RCPT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Recipient<'a> {
    /// `<Postmaster>` without a domain, ignoring case (RFC 5321 section 4.1.1.3).
    Postmaster,
    /// A mailbox.
    Mailbox(Mailbox<'a>),
}

impl<'a> Recipient<'a> {
    /// Returns the mailbox; `None` for a postmaster without a domain.
    pub const fn mailbox(&self) -> Option<&Mailbox<'a>> {
        match self {
            Recipient::Postmaster => None,
            Recipient::Mailbox(mailbox) => Some(mailbox),
        }
    }

    /// Returns whether the path requires SMTPUTF8.
    pub fn needs_utf8(&self) -> bool {
        self.mailbox().is_some_and(Mailbox::needs_utf8)
    }

    /// Parses a path in angle brackets at the start of a text. Returns it and its length. A source route is ignored
    /// (RFC 5321 appendix C).
    pub fn parse(text: &'a [u8]) -> Result<(Recipient<'a>, usize), Malformed> {
        if bytes::strip_prefix_ignoring_case(text, b"<postmaster>").is_some() {
            return Ok((Recipient::Postmaster, b"<postmaster>".len()));
        }
        path(text).map(|(mailbox, len)| (Recipient::Mailbox(mailbox), len))
    }

    /// Appends the path with its angle brackets.
    pub fn write(&self, out: &mut Vec<u8>) {
        write_path(self.mailbox().map_or("Postmaster", Mailbox::as_str), out);
    }
}

fn write_path(text: &str, out: &mut Vec<u8>) {
    out.push(b'<');
    out.extend_from_slice(text.as_bytes());
    out.push(b'>');
}

/// Parses a non-empty path. Returns its mailbox and its length.
fn path(text: &[u8]) -> Result<(Mailbox<'_>, usize), Malformed> {
    let Some(b'<') = text.first() else { return Err(Malformed("no < before the address")) };
    let start = if text.get(1) == Some(&b'@') { route_end(text, 1)? } else { 1 };
    let (host, end) = mailbox_end(text, start)?;
    let Some(b'>') = text.get(end) else { return Err(Malformed("no > after the address")) };
    if end + 1 > PATH_BYTES {
        return Err(Malformed("path longer than 256 bytes"));
    }
    Ok((Mailbox { text: utf8(&text[start..end])?, host: host - start }, end + 1))
}

/// Returns the end of a source route: `@one,@two:` (RFC 5321 section 4.1.2, A-d-l).
fn route_end(text: &[u8], mut at: usize) -> Result<usize, Malformed> {
    loop {
        let Some(b'@') = text.get(at) else { return Err(Malformed("source route")) };
        at = domain_end(text, at + 1, b'-')?;
        match text.get(at) {
            Some(b',') => at += 1,
            Some(b':') => return Ok(at + 1),
            _ => return Err(Malformed("source route")),
        }
    }
}

/// Returns the start and the end of the host of a mailbox.
fn mailbox_end(text: &[u8], start: usize) -> Result<(usize, usize), Malformed> {
    let at = match text.get(start) {
        Some(b'"') => quoted_end(text, start)?,
        _ => dot_string_end(text, start)?,
    };
    if at - start > LOCAL_BYTES {
        return Err(Malformed("local part longer than 64 bytes"));
    }
    let Some(b'@') = text.get(at) else { return Err(Malformed("no @ after the local part")) };
    Ok((at + 1, host_end(text, at + 1)?))
}

/// Returns the end of a Dot-string: atoms separated by dots.
fn dot_string_end(text: &[u8], mut at: usize) -> Result<usize, Malformed> {
    loop {
        let atom = at;
        while text.get(at).is_some_and(|&b| is_or_high(b, ATOM)) {
            at += 1;
        }
        if at == atom {
            return Err(Malformed("empty atom, or invalid byte, in the local part"));
        }
        match text.get(at) {
            Some(b'.') => at += 1,
            _ => return Ok(at),
        }
    }
}

/// Returns the end of a Quoted-string.
fn quoted_end(text: &[u8], start: usize) -> Result<usize, Malformed> {
    let mut at = start + 1;
    loop {
        match text.get(at..).unwrap_or_default() {
            [b'"', ..] => return Ok(at + 1),
            [b'\\', b' '..=b'~', ..] => at += 2,
            [b' '..=b'[' | b']'..=b'~' | 0x80.., ..] => at += 1,
            _ => return Err(Malformed("unclosed quote, or invalid byte in it, in the local part")),
        }
    }
}

/// Returns the end of a domain or address literal.
fn host_end(text: &[u8], start: usize) -> Result<usize, Malformed> {
    let Some(b'[') = text.get(start) else { return domain_end(text, start, b'-') };
    let is_content = |b: &u8| matches!(b, b'!'..=b'Z' | b'^'..=b'~');
    let rest = &text[start + 1..];
    let len = rest.iter().position(|b| !is_content(b)).unwrap_or(rest.len());
    let Some(b']') = rest.get(len) else { return Err(Malformed("unclosed address literal")) };
    if len + 2 > DOMAIN_BYTES {
        return Err(Malformed("domain longer than 255 bytes"));
    }
    let literal = utf8(&rest[..len])?;
    match literal.split_once(':') {
        _ if address_of(literal).is_some() => {}
        Some((tag, content)) if !content.is_empty() && !tag.eq_ignore_ascii_case("ipv6") && is_tag(tag) => {}
        _ => return Err(Malformed("address literal")),
    }
    Ok(start + len + 2)
}

/// Returns the address of a literal without its brackets.
fn address_of(literal: &str) -> Option<IpAddr> {
    match bytes::strip_prefix_ignoring_case(literal.as_bytes(), b"IPv6:") {
        Some(_) => literal["IPv6:".len()..].parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => literal.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
    }
}

/// Returns whether a text is a Standardized-tag: letters, digits and hyphens, without a trailing hyphen.
fn is_tag(tag: &str) -> bool {
    let tag = tag.as_bytes();
    tag.iter().all(|&b| bytes::is(b, LDH)) && tag.last().is_some_and(|&b| bytes::is(b, ALNUM))
}

/// Returns the end of a domain: labels separated by dots, none of them empty, without a leading or trailing hyphen. A
/// byte `extra` other than the hyphen is accepted anywhere in a label.
fn domain_end(text: &[u8], start: usize, extra: u8) -> Result<usize, Malformed> {
    let is_outer = |b: u8| is_or_high(b, ALNUM) || (b == extra && extra != b'-');
    let mut at = start;
    loop {
        let label = at;
        while text.get(at).is_some_and(|&b| is_or_high(b, LDH) || b == extra) {
            at += 1;
        }
        let ([first, .., last] | [first @ last]) = &text[label..at] else {
            return Err(Malformed("empty label, or invalid byte, in the domain"));
        };
        if !is_outer(*first) || !is_outer(*last) {
            return Err(Malformed("label with a hyphen at its end"));
        }
        // The limit applies to the A-label of a label with characters beyond ASCII, which may be shorter.
        if at - label > LABEL_BYTES && text[label..at].is_ascii() {
            return Err(Malformed("label longer than 63 bytes"));
        }
        match text.get(at) {
            Some(b'.') => at += 1,
            _ if at - start > DOMAIN_BYTES => return Err(Malformed("domain longer than 255 bytes")),
            _ => return Ok(at),
        }
    }
}

/// Returns the text if it ends where the grammar does.
fn whole(text: &[u8], end: usize) -> Result<&str, Malformed> {
    if end == text.len() { utf8(text) } else { Err(Malformed("invalid byte after the address")) }
}

fn utf8(text: &[u8]) -> Result<&str, Malformed> {
    str::from_utf8(text).map_err(|_| Malformed("not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mailbox(text: &str) -> Result<Mailbox<'_>, Malformed> {
        Mailbox::parse(text.as_bytes())
    }

    #[test]
    fn mailboxes_follow_rfc_5321_section_4_1_2() {
        for text in [
            "a@b",
            "a.b.c@x.example",
            "!#$%&'*+-/=?^_`{|}~@x",
            "\"\"@x",
            "\"a b\"@x",
            "\"a\\\"b\\\\c\\ d\"@x",
            "\"<>@,;:\"@x",
            "a@1.2.3",
            "a@x-y.z--z",
            "a@[127.0.0.1]",
            "a@[IPv6:::1]",
            "a@[ipv6:2001:DB8::1]",
            "a@[IPv6:::ffff:1.2.3.4]",
            "a@[tag:any-thing!]",
            "\u{e9}@x",
            "a@\u{e9}t\u{e9}.example",
            "\"\u{e9} \"@x",
        ] {
            let found = mailbox(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(format!("{}@{}", found.local(), found.host().as_str()), text);
            assert_eq!(found.needs_utf8(), !text.is_ascii());
        }
    }

    #[test]
    fn what_is_no_mailbox_is_refused() {
        for text in [
            "",
            "a",
            "@",
            "a@",
            "@b",
            ".a@b",
            "a.@b",
            "a..b@c",
            "a b@c",
            "a@b c",
            "a@b.",
            "a@.b",
            "a@b..c",
            "a@-b",
            "a@b-",
            "a@b_c",
            "a@b@c",
            "a,b@c",
            "<a@b>",
            "a@b>",
            "a(b)@c",
            "a:b@c",
            "a;b@c",
            "a[b@c",
            "a\\b@c",
            "\"a@b",
            "\"a\"b@c",
            "a\"b\"@c",
            "\"a\"b\"@c",
            "\"\\\u{e9}\"@c",
            "\"\t\"@c",
            "\"\r\n\"@c",
            "\"\0\"@c",
            "a\0@c",
            "a@c\0",
            "a@c\r",
            "a\n@c",
            "a\u{7f}@c",
            "a@[1.2.3]",
            "a@[1.2.3.256]",
            "a@[01.2.3.4]",
            "a@[1.2.3.4",
            "a@1.2.3.4]",
            "a@[1.2.3.4]x",
            "a@[]",
            "a@[IPv6:]",
            "a@[IPv6:1.2.3.4]",
            "a@[IPv6:g::]",
            "a@[::1]",
            "a@[tag:]",
            "a@[:x]",
            "a@[t-:x]",
            "a@[t g:x]",
            "a@[tag:x[y]",
            "a@[tag:\u{e9}]",
        ] {
            assert!(mailbox(text).is_err(), "{text:?}");
        }
        assert_eq!(Mailbox::parse(b"\xff@x"), Err(Malformed("not UTF-8")));
        assert_eq!(Mailbox::parse(b"a@\xc3"), Err(Malformed("not UTF-8")));
    }

    #[test]
    fn lengths_follow_rfc_5321_section_4_5_3_1() {
        let label = "l".repeat(63);
        let domain = |bytes: usize| [&label[..]; 4].join(".")[..bytes].to_owned();
        assert!(mailbox(&format!("{}@x", "a".repeat(64))).is_ok());
        assert!(mailbox(&format!("{}@x", "a".repeat(65))).is_err());
        assert!(mailbox(&format!("\"{}\"@x", "a".repeat(62))).is_ok());
        assert!(mailbox(&format!("\"{}\"@x", "a".repeat(63))).is_err());
        assert!(mailbox(&format!("a@{label}")).is_ok());
        assert!(mailbox(&format!("a@{label}l")).is_err());
        assert!(Host::parse(domain(255).as_bytes()).is_ok());
        assert!(Host::parse(format!("{}.a", domain(254)).as_bytes()).is_err());
        // Two angle brackets and one @ are part of the path's 256 bytes.
        for (local, is_fine) in [(1, true), (2, true), (3, false)] {
            let text = format!("{}@{}", "a".repeat(local), domain(251));
            assert_eq!(mailbox(&text).is_ok(), is_fine, "{local}");
            assert_eq!(ReversePath::parse(format!("<{text}>").as_bytes()).is_ok(), is_fine, "{local}");
        }
        assert!(mailbox(&format!("a@{}", "\u{e9}".repeat(40))).is_ok());
        assert!(mailbox(&format!("a@[tag:{}]", "x".repeat(260))).is_err());
    }

    #[test]
    fn paths_may_be_null_and_routes_are_ignored() {
        let a = Mailbox::parse(b"a@b").unwrap();
        for (text, path, len) in [
            ("<> SIZE=1", ReversePath::Null, 2),
            ("<a@b>", ReversePath::Mailbox(a), 5),
            ("<a@b>x", ReversePath::Mailbox(a), 5),
            ("<@x:a@b>", ReversePath::Mailbox(a), 8),
            ("<@x.y,@z:a@b>", ReversePath::Mailbox(a), 13),
        ] {
            assert_eq!(ReversePath::parse(text.as_bytes()), Ok((path, len)), "{text}");
        }
        for text in [
            "",
            "<",
            "a@b",
            "<a@b",
            "<a@b >",
            "< a@b>",
            "< >",
            "<a@b",
            "<@x>",
            "<@x:>",
            "<@x,:a@b>",
            "<@x,y:a@b>",
            "<@:a@b>",
            "<<a@b>>",
        ] {
            assert!(ReversePath::parse(text.as_bytes()).is_err(), "{text}");
        }
        assert_eq!(Recipient::parse(b"<postMASTER>"), Ok((Recipient::Postmaster, 12)));
        assert_eq!(Recipient::parse(b"<\">\"@b>").map(|(_, len)| len), Ok(7));
        assert!(Recipient::parse(b"<>").is_err());
        assert!(Recipient::parse(b"<postmaster").is_err());
    }

    #[test]
    fn case_counts_in_local_parts_alone() {
        let is_same = |one, other| mailbox(one).unwrap().is_same(&mailbox(other).unwrap());
        assert!(is_same("a@X.org", "a@x.ORG"));
        assert!(is_same("\"a\"@x", "a@x") && is_same("\"\\a\"@x", "a@x"));
        assert!(is_same("a@[IPv6:::1]", "a@[ipv6:0:0:0:0:0:0:0:1]"));
        assert!(!is_same("A@x", "a@x") && !is_same("a@x", "a@y") && !is_same("a@x", "a@x.y"));
        assert!(mailbox("\"PostMaster\"@x").unwrap().is_postmaster());
        assert!(!mailbox("postmaster1@x").unwrap().is_postmaster());
    }

    #[test]
    fn hosts_are_domains_or_literals() {
        let kind = |text: &'static str| Host::parse(text.as_bytes()).unwrap().kind();
        assert_eq!(kind("x.y"), HostKind::Domain("x.y"));
        assert_eq!(kind("[192.0.2.1]"), HostKind::Address("192.0.2.1".parse().unwrap()));
        assert_eq!(kind("[IPv6:2001:db8::1]"), HostKind::Address("2001:db8::1".parse().unwrap()));
        assert_eq!(kind("[x-y:z]"), HostKind::Other("x-y:z"));
        assert!(Host::parse(b"a_b").is_err() && Host::parse_client(b"_a_b_.c").is_ok());
        assert!(Host::parse_client(b"a b").is_err() && Host::parse_client(b"-a").is_err());
    }
}
