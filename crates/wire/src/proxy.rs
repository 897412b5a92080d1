//! The PROXY protocol, versions 1 and 2: the header that a proxy sends before the bytes of a connection to identify the
//! client.
//!
//! Source: W. Tarreau, "The PROXY protocol, Versions 1 & 2", `doc/proxy-protocol.txt` of `HAProxy`, 2020.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The signature of version 2.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// The first bytes of version 1.
const BEGINNING: &[u8; 6] = b"PROXY ";

/// The maximum length of a line of version 1 in bytes, including its end.
const LINE_BYTES: usize = 107;

/// The maximum length of an accepted version 2 header in bytes: 16 for its fixed part, and 2,048 for addresses and
/// extensions together.
const MOST_BYTES: usize = 16 + 2048;

/// A parsed header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preface {
    /// The client's address, as IPv4 if it is mapped; `None` if the proxy speaks for itself, or for a client without an
    /// address.
    pub client: Option<IpAddr>,
    /// The length of the header.
    pub len: usize,
}

/// The bytes are not the start of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

/// Parses the header at the start of the bytes; `None` if it is incomplete.
pub fn parse(bytes: &[u8]) -> Result<Option<Preface>, Malformed> {
    let is_begun = |whole: &[u8]| bytes.starts_with(whole) || whole.starts_with(bytes);
    match bytes {
        [] => Ok(None),
        _ if is_begun(BEGINNING) => line(bytes),
        _ if is_begun(SIGNATURE) => binary(bytes),
        _ => Err(Malformed),
    }
}

fn line(bytes: &[u8]) -> Result<Option<Preface>, Malformed> {
    let within = &bytes[..bytes.len().min(LINE_BYTES)];
    let Some(end) = within.windows(2).position(|pair| pair == b"\r\n") else {
        return if bytes.len() < LINE_BYTES { Ok(None) } else { Err(Malformed) };
    };
    let len = end + 2;
    let text = std::str::from_utf8(&bytes[BEGINNING.len()..end]).map_err(|_| Malformed)?;
    let mut words = text.split(' ');
    let family = words.next();
    if family == Some("UNKNOWN") {
        return Ok(Some(Preface { client: None, len }));
    }
    let (Some(client), Some(own), Some(from), Some(to), None) =
        (words.next(), words.next(), words.next(), words.next(), words.next())
    else {
        return Err(Malformed);
    };
    let address = |text: &str| match family {
        Some("TCP4") => text.parse().map(IpAddr::V4).map_err(|_| Malformed),
        Some("TCP6") => text.parse().map(IpAddr::V6).map_err(|_| Malformed),
        _ => Err(Malformed),
    };
    let port = |text: &str| {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u16>().ok().filter(|_| is_plain).ok_or(Malformed)
    };
    let client = address(client)?;
    address(own).and(port(from)).and(port(to))?;
    Ok(Some(Preface { client: of_client(client), len }))
}

/// Returns a client's address, or `None` if it is unspecified.
fn of_client(address: IpAddr) -> Option<IpAddr> {
    Some(address.to_canonical()).filter(|address| !address.is_unspecified())
}

fn binary(bytes: &[u8]) -> Result<Option<Preface>, Malformed> {
    let Some((head, rest)) = bytes.split_first_chunk::<16>() else { return Ok(None) };
    let (command, family) = (head[12], head[13]);
    let length = usize::from(u16::from_be_bytes([head[14], head[15]]));
    let len = head.len() + length;
    if len > MOST_BYTES || !matches!(command, 0x20 | 0x21) {
        return Err(Malformed);
    }
    let Some(content) = rest.get(..length) else { return Ok(None) };
    let client = match (command, family) {
        // A health check by the proxy itself.
        (0x20, _) => None,
        (_, 0x11) => {
            let source = content.first_chunk::<4>().filter(|_| length >= 12).ok_or(Malformed)?;
            of_client(IpAddr::V4(Ipv4Addr::from(*source)))
        }
        (_, 0x21) => {
            let source = content.first_chunk::<16>().filter(|_| length >= 36).ok_or(Malformed)?;
            of_client(IpAddr::V6(Ipv6Addr::from(*source)))
        }
        // Datagrams, Unix sockets and unspecified families.
        _ => None,
    };
    Ok(Some(Preface { client, len }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binary_of(command: u8, family: u8, content: &[u8]) -> Vec<u8> {
        let length = (content.len() as u16).to_be_bytes();
        [&SIGNATURE[..], &[command, family], &length, content].concat()
    }

    /// Checks that the result does not depend on how the bytes are split, and that nothing after the header is
    /// consumed.
    fn check(header: &[u8], client: Option<&str>) {
        for len in 0..header.len() {
            assert_eq!(parse(&header[..len]), Ok(None), "{} of {}", len, header.escape_ascii());
        }
        let expected = Preface { client: client.map(|text| text.parse().unwrap()), len: header.len() };
        for behind in [&b""[..], b"GET / HTTP/1.1\r\n", b"\r\nPROXY "] {
            assert_eq!(parse(&[header, behind].concat()), Ok(Some(expected)), "{}", header.escape_ascii());
        }
    }

    #[test]
    fn both_versions_name_the_client() {
        check(b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n", Some("192.0.2.1"));
        check(b"PROXY TCP6 2001:db8::1 ::1 65535 1\r\n", Some("2001:db8::1"));
        check(b"PROXY TCP6 ::ffff:192.0.2.1 ::1 1 2\r\n", Some("192.0.2.1"));
        check(b"PROXY TCP6 :: :: 1 2\r\n", None);
        check(b"PROXY TCP4 0.0.0.0 0.0.0.0 1 2\r\n", None);
        check(b"PROXY UNKNOWN\r\n", None);
        check(b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", None);
        let v4 = [192, 0, 2, 1, 198, 51, 100, 1, 0xdc, 4, 1, 0xbb];
        check(&binary_of(0x21, 0x11, &v4), Some("192.0.2.1"));
        check(&binary_of(0x21, 0x11, &[&v4[..], &[4; 300]].concat()), Some("192.0.2.1"));
        let v6 = [&"2001:db8::1".parse::<Ipv6Addr>().unwrap().octets()[..], &[0; 20]].concat();
        check(&binary_of(0x21, 0x21, &v6), Some("2001:db8::1"));
        check(&binary_of(0x20, 0, &[]), None);
        check(&binary_of(0x20, 0x11, &v4), None);
        check(&binary_of(0x21, 0x31, &[0; 216]), None);
    }

    #[test]
    fn what_is_no_header_is_refused_at_once() {
        for wrong in [
            &b"GET / HTTP/1.1\r\n"[..],
            b"proxy TCP4 1.2.3.4 1.2.3.4 1 2\r\n",
            b"PROXY\r\n",
            b"PROXY TCP4\r\n",
            b"PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n",
            b"PROXY TCP4 1.2.3.4 1.2.3.4 1 2 3\r\n",
            b"PROXY TCP4 1.2.3.4 1.2.3.4 1 99999\r\n",
            b"PROXY TCP4 1.2.3.4 1.2.3.4 +1 2\r\n",
            b"PROXY TCP4  1.2.3.4 1.2.3.4 1 2\r\n",
            b"PROXY TCP4 ::1 ::1 1 2\r\n",
            b"PROXY TCP6 1.2.3.4 1.2.3.4 1 2\r\n",
            b"PROXY TCP5 1.2.3.4 1.2.3.4 1 2\r\n",
            b"PROXY TCP4 1.2.3.4 \xff 1 2\r\n",
            &[b'P'; 200],
            &[&b"PROXY UNKNOWN "[..], &[b'x'; 200]].concat(),
            &binary_of(0x11, 0x11, &[0; 12]),
            &binary_of(0x22, 0x11, &[0; 12]),
            &binary_of(0x21, 0x11, &[0; 11]),
            &binary_of(0x21, 0x21, &[0; 35]),
            &binary_of(0x21, 0x11, &[0; 4000]),
            b"\x16\x03\x01",
        ] {
            assert_eq!(parse(wrong), Err(Malformed), "{}", wrong.escape_ascii());
        }
    }
}
