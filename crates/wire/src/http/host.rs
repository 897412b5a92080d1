//! Hosts: the syntax of a `Host` field or an absolute target, and the directory name of a virtual host.

use super::bytes::{self, HOST};
use crate::decimal::decimal;
use core::net::Ipv6Addr;

/// Returns whether this is a host, with or without a port (RFC 3986 section 3.2, without user information: RFC 9110
/// section 4.2.4). An empty host is invalid (RFC 9110 section 4.2.1).
#[inline]
pub(crate) fn is_authority(text: &[u8]) -> bool {
    let port = if text.first() == Some(&b'[') {
        let Some(close) = text.iter().position(|&b| b == b']') else { return false };
        if !is_address(&text[1..close]) {
            return false;
        }
        &text[close + 1..]
    } else {
        let end = bytes::run_end(text, 0, HOST);
        if end == 0 || !are_escapes_whole(&text[..end]) {
            return false;
        }
        &text[end..]
    };
    is_port(port)
}

/// Returns whether this is empty, or a colon and a port. RFC 3986 allows an empty port.
#[inline]
fn is_port(text: &[u8]) -> bool {
    match text {
        [] | [b':'] => true,
        [b':', digits @ ..] => decimal(digits).is_some_and(|port| u16::try_from(port).is_ok()),
        _ => false,
    }
}

/// Returns whether this is an IPv6 address without brackets.
#[cold]
fn is_address(text: &[u8]) -> bool {
    str::from_utf8(text).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok())
}

fn are_escapes_whole(text: &[u8]) -> bool {
    let mut rest = text;
    while let Some(at) = rest.iter().position(|&b| b == b'%') {
        match &rest[at..] {
            [_, high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => rest = &rest[at + 3..],
            _ => return false,
        }
    }
    true
}

/// The maximum length of a DNS name, which is less than the limit of any file system.
pub const NAME_BYTES: usize = 253;

/// Returns the name of a host as a directory name: in lower case, without port and final dot. The host must be valid
/// ([`super::Request::host`]). Returns `None` if it cannot be a directory name: if it is hidden, leads elsewhere, or
/// has anything but letters, digits, hyphens, dots and underscores. IPv6 addresses keep their brackets.
pub fn folder_name<'a>(host: &[u8], buffer: &'a mut [u8; NAME_BYTES]) -> Option<&'a str> {
    let end = match host.first()? {
        b'[' => host.iter().position(|&b| b == b']')? + 1,
        _ => host.iter().position(|&b| b == b':').unwrap_or(host.len()),
    };
    let name = host.get(..end)?;
    let name = name.strip_suffix(b".").unwrap_or(name);
    let is_name = match name {
        [] | [b'.', ..] => false,
        [b'[', address @ .., b']'] => is_address(address),
        _ => name.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_')),
    };
    if !is_name || name.ends_with(b".") || name.windows(2).any(|pair| pair == b"..") {
        return None;
    }
    let out = buffer.get_mut(..name.len())?;
    out.copy_from_slice(name);
    out.make_ascii_lowercase();
    str::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_hosts_are_rejected() {
        for good in
            ["x", "example.org", "EXAMPLE.org:80", "x:", "127.0.0.1:65535", "[::1]", "[2001:db8::1]:443", "a_b", "%41"]
        {
            assert!(is_authority(good.as_bytes()), "{good}");
        }
        for bad in [
            "",
            ":80",
            "x:a",
            "x:-1",
            "x:65536",
            "x:80:80",
            "x y",
            "x/y",
            "x\\y",
            "u@x",
            "x?",
            "x#",
            "[::1",
            "::1",
            "[::1]x",
            "[x]",
            "[]",
            "x\0",
            "x,y z",
            "%4",
            "%zz",
            "\u{e9}",
            "[fe80::1%25eth0]",
            "[v1.x]",
            "<x>",
            "\"x\"",
        ] {
            assert!(!is_authority(bad.as_bytes()), "{bad}");
        }
    }

    #[test]
    fn folders_are_named_after_hosts() {
        let mut buffer = [0; NAME_BYTES];
        for (host, name) in [
            ("Example.ORG", "example.org"),
            ("x:80", "x"),
            ("x.", "x"),
            ("x.:80", "x"),
            ("[2001:DB8::1]:80", "[2001:db8::1]"),
            ("127.0.0.1", "127.0.0.1"),
            ("a_b-c.d", "a_b-c.d"),
        ] {
            assert_eq!(folder_name(host.as_bytes(), &mut buffer), Some(name), "{host}");
        }
        let long = "a".repeat(254);
        for host in [
            "", ".", "..", ".x", "a..b", "x..", "a/b", "../x", "a\0", "%41", "a b", "a\\b", "[/]", "[..]", ":80", &long,
        ] {
            assert_eq!(folder_name(host.as_bytes(), &mut buffer), None, "{host}");
        }
    }
}
