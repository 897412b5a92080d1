//! The `Received:` field, which records the origin of a message, and the detection of loops by such fields (RFC 5321
//! sections 4.4 and 6.3).

use std::net::IpAddr;

/// A message with more `Received:` fields than this is in a loop. RFC 5321 requires a limit of at least 100.
pub(super) const MOST_HOPS: usize = 100;

/// The contents of the field.
#[derive(Debug)]
pub(super) struct Trace<'a> {
    /// The name in EHLO, in ASCII.
    pub(super) hello: &'a str,
    pub(super) peer: IpAddr,
    /// This host's name.
    pub(super) by: &'a str,
    /// The protocol: `ESMTP` and its variants (RFC 3848, RFC 6531).
    pub(super) with: &'static str,
    pub(super) id: u64,
    /// The date of RFC 5322.
    pub(super) date: &'a str,
}

impl Trace<'_> {
    /// Returns the field. It does not name recipients, because a message may have recipients that others must not see.
    pub(super) fn field(&self) -> String {
        let Self { hello, peer, by, with, id, date } = self;
        let prefix = if peer.is_ipv6() { "IPv6:" } else { "" };
        format!("Received: from {hello} ([{prefix}{peer}])\r\n\tby {by} with {with} id {id:X};\r\n\t{date}\r\n")
    }
}

/// Returns the number of `Received:` fields in the header of a message.
pub(super) fn hops(content: &[u8]) -> usize {
    const NAME: &[u8] = b"received:";
    let lines = content.split(|&byte| byte == b'\n');
    let header = lines.take_while(|line| !matches!(line, [] | [b'\r']));
    header.filter(|line| line.get(..NAME.len()).is_some_and(|start| start.eq_ignore_ascii_case(NAME))).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_is_as_in_rfc_5321_section_4_4() {
        let trace = Trace {
            hello: "client.example",
            peer: IpAddr::from([127, 0, 0, 1]),
            by: "relay.example",
            with: "ESMTPS",
            id: 0x1F,
            date: "Sun, 22 Nov 2026 18:00:00 +0000",
        };
        let expected = "Received: from client.example ([127.0.0.1])\r\n\tby relay.example with ESMTPS id 1F;\r\n\
                        \tSun, 22 Nov 2026 18:00:00 +0000\r\n";
        assert_eq!(trace.field(), expected);
        let field = Trace { peer: "::1".parse().unwrap(), ..trace }.field();
        assert!(field.contains("([IPv6:::1])"), "{field}");
    }

    #[test]
    fn hops_are_counted_in_the_header_only() {
        assert_eq!(hops(b"Received: a\r\nRECEIVED: b\r\n\tfolded\r\nX: c\r\n\r\nReceived: in the body\r\n"), 2);
        assert_eq!(hops(b"\r\nReceived: a\r\n"), 0);
        assert_eq!(hops(b"Received : obsolete\r\nReceive"), 0);
    }
}
