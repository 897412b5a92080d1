//! Hosts: what may stand in a `Host` field or an absolute target, and the folder that a virtual host is served from.

use super::bytes::{self, HOST};
use core::net::Ipv6Addr;

/// Whether this is a host, with or without a port (RFC 3986 section 3.2, without user information: RFC 9110 section
/// 4.2.4). An empty host names nothing (RFC 9110 section 4.2.1).
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

/// Whether this is nothing, or a colon and a port. RFC 3986 allows an empty one.
#[inline]
fn is_port(text: &[u8]) -> bool {
    match text {
        [] | [b':'] => true,
        [b':', digits @ ..] => bytes::decimal(digits).is_some_and(|port| u16::try_from(port).is_ok()),
        _ => false,
    }
}

/// Whether this is an IPv6 address as it stands between brackets.
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
