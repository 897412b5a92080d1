//! A line of the access log, in three formats.
//!
//! All text from clients is escaped, so that it can neither end the line nor close its quotes.

use landau_wire::http::{Field, Reject, Request, Status, date};
use std::io::Write;
use std::net::IpAddr;
use std::str::FromStr;

/// The format of the access log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// The Common Log Format of NCSA's server.
    #[default]
    Common,
    /// The common format, followed by the referrer and the user agent.
    Combined,
    /// A JSON object in each line.
    Json,
}

impl LogFormat {
    /// All formats, by name.
    pub const ALL: &[(&str, Self)] = &[("common", Self::Common), ("combined", Self::Combined), ("json", Self::Json)];
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, one)| *one).ok_or_else(|| "expected common, combined or json".to_owned())
    }
}

/// The time in the formats of the log, formatted once a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// `21/Nov/2026:19:50:36 +0000`
    common: [u8; 26],
    /// `2026-11-21T19:50:36Z`
    iso: [u8; 20],
}

impl Stamp {
    pub(crate) fn new(now_s: u64) -> Self {
        // `Sat, 21 Nov 2026 19:50:36 GMT`
        let date = date::format(now_s);
        let mut stamp = Self { common: *b"00/xxx/0000:00:00:00 +0000", iso: *b"0000-00-00T00:00:00Z" };
        stamp.common[..2].copy_from_slice(&date[5..7]);
        stamp.common[3..6].copy_from_slice(&date[8..11]);
        stamp.common[7..11].copy_from_slice(&date[12..16]);
        stamp.common[12..20].copy_from_slice(&date[17..25]);
        let months = b"JanFebMarAprMayJunJulAugSepOctNovDec";
        let month = months.chunks(3).position(|name| name == &date[8..11]).map_or(0, |place| place as u8 + 1);
        stamp.iso[..4].copy_from_slice(&date[12..16]);
        (stamp.iso[5], stamp.iso[6]) = (b'0' + month / 10, b'0' + month % 10);
        stamp.iso[8..10].copy_from_slice(&date[5..7]);
        stamp.iso[11..19].copy_from_slice(&date[17..25]);
        stamp
    }
}

/// The request, as far as it could be parsed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Asked<'a> {
    Request(&'a Request<'a>),
    Refused(Reject),
}

/// The content of a line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line<'a> {
    pub(crate) stamp: &'a Stamp,
    pub(crate) peer: Option<IpAddr>,
    /// The user who is logged in.
    pub(crate) user: Option<&'a str>,
    pub(crate) asked: Asked<'a>,
    pub(crate) status: Status,
    /// The content length in bytes, as announced to the client.
    pub(crate) bytes: u64,
}

/// Writing to a vector cannot fail.
macro_rules! put {
    ($out:expr, $($text:tt)*) => {{
        let _ = write!($out, $($text)*);
    }};
}

impl Line<'_> {
    /// Writes the line with its newline.
    pub(crate) fn write(&self, format: LogFormat, out: &mut Vec<u8>) {
        match format {
            LogFormat::Common => self.common(out),
            LogFormat::Combined => {
                self.common(out);
                for field in [Field::Referer, Field::UserAgent] {
                    out.extend_from_slice(b" \"");
                    quote(self.field(field).unwrap_or(b"-"), out);
                    out.push(b'"');
                }
            }
            LogFormat::Json => self.json(out),
        }
        out.push(b'\n');
    }

    fn field(&self, field: Field) -> Option<&[u8]> {
        match self.asked {
            Asked::Request(request) => request.field(field),
            Asked::Refused(_) => None,
        }
    }

    fn common(&self, out: &mut Vec<u8>) {
        match self.peer {
            Some(peer) => put!(out, "{peer}"),
            None => out.extend_from_slice(b"unix:"),
        }
        out.extend_from_slice(b" - ");
        match self.user {
            Some(user) => quote_word(user.as_bytes(), out),
            None => out.push(b'-'),
        }
        out.extend_from_slice(b" [");
        out.extend_from_slice(&self.stamp.common);
        out.extend_from_slice(b"] \"");
        match self.asked {
            Asked::Request(request) => {
                quote(request.method_name(), out);
                out.push(b' ');
                quote(request.target(), out);
                out.push(b' ');
                out.extend_from_slice(request.version_text());
            }
            Asked::Refused(_) => out.push(b'-'),
        }
        put!(out, "\" {} ", self.status.0);
        if self.bytes == 0 {
            out.push(b'-');
        } else {
            put!(out, "{}", self.bytes);
        }
    }

    fn json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"time\":\"");
        out.extend_from_slice(&self.stamp.iso);
        out.push(b'"');
        if let Some(peer) = self.peer {
            put!(out, ",\"address\":\"{peer}\"");
        }
        if let Some(user) = self.user {
            member("user", user.as_bytes(), out);
        }
        match self.asked {
            Asked::Request(request) => {
                member("method", request.method_name(), out);
                member("target", request.target(), out);
                member("version", request.version_text(), out);
                let (referer, agent) = (request.field(Field::Referer), request.field(Field::UserAgent));
                for (name, value) in [("host", request.host()), ("referer", referer), ("agent", agent)] {
                    if let Some(value) = value {
                        member(name, value, out);
                    }
                }
            }
            Asked::Refused(reject) => member("refused", reject.reason.as_bytes(), out),
        }
        put!(out, ",\"status\":{},\"bytes\":{}}}", self.status.0, self.bytes);
    }
}

/// Writes a line with the number of lines lost before it.
pub(crate) fn write_lost(format: LogFormat, stamp: &Stamp, lost: u64, out: &mut Vec<u8>) {
    match format {
        LogFormat::Json => {
            put!(out, "{{\"time\":\"{}\",\"lost\":{lost}}}\n", String::from_utf8_lossy(&stamp.iso));
        }
        LogFormat::Common | LogFormat::Combined => {
            let time = String::from_utf8_lossy(&stamp.common);
            put!(
                out,
                "# [{time}] {lost} lines were lost before this one: the log was too slow or could not be written\n"
            );
        }
    }
}

/// Writes text between quotes. Quotes, backslashes and everything that is not printable ASCII become `\xHH`, as in
/// nginx's log.
fn quote(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        if matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\' {
            out.push(byte);
        } else {
            put!(out, "\\x{byte:02X}");
        }
    }
}

/// Writes text as a field without quotes; spaces are escaped, because they would end the field.
fn quote_word(text: &[u8], out: &mut Vec<u8>) {
    for (at, word) in text.split(|&byte| byte == b' ').enumerate() {
        if at > 0 {
            out.extend_from_slice(b"\\x20");
        }
        quote(word, out);
    }
}

/// Writes a member of a JSON object whose value is text. Invalid UTF-8 becomes the replacement character; unprintable
/// characters are escaped.
fn member(name: &str, value: &[u8], out: &mut Vec<u8>) {
    put!(out, ",\"{name}\":\"");
    if value.iter().all(|&byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\') {
        // The usual case.
        out.extend_from_slice(value);
        return out.push(b'"');
    }
    for one in String::from_utf8_lossy(value).chars() {
        match one {
            '"' | '\\' => put!(out, "\\{one}"),
            // Line and paragraph separators end a line for some readers; direction marks change what is displayed.
            '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                put!(out, "\\u{:04x}", one as u32);
            }
            _ if one.is_control() => put!(out, "\\u{:04x}", one as u32),
            _ => put!(out, "{one}"),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use landau_wire::http::{Limits, Parsed, Scan};

    fn line(head: &[u8], format: LogFormat) -> String {
        line_of(head, format, None)
    }

    fn line_of(head: &[u8], format: LogFormat, user: Option<&str>) -> String {
        let Ok(Parsed::Complete { request, .. }) = Scan::default().parse(head, &Limits::default()) else {
            panic!("no request: {}", String::from_utf8_lossy(head));
        };
        let stamp = Stamp::new(1_795_290_636);
        let asked = Asked::Request(&request);
        let peer = "10.0.0.1".parse().ok();
        let line = Line { stamp: &stamp, peer, user, asked, status: Status::OK, bytes: 7 };
        let mut out = Vec::new();
        line.write(format, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lines_have_the_standard_formats() {
        let head = b"GET /a?b HTTP/1.1\r\nHost: x\r\nReferer: http://y/\r\nUser-Agent: me\r\n\r\n";
        let common = "10.0.0.1 - - [21/Nov/2026:19:50:36 +0000] \"GET /a?b HTTP/1.1\" 200 7";
        assert_eq!(line(head, LogFormat::Common), format!("{common}\n"));
        assert_eq!(line(head, LogFormat::Combined), format!("{common} \"http://y/\" \"me\"\n"));
        let json = "{\"time\":\"2026-11-21T19:50:36Z\",\"address\":\"10.0.0.1\",\"method\":\"GET\",\"target\":\"/a?b\",\
                    \"version\":\"HTTP/1.1\",\"host\":\"x\",\"referer\":\"http://y/\",\"agent\":\"me\",\
                    \"status\":200,\"bytes\":7}\n";
        assert_eq!(line(head, LogFormat::Json), json);
    }

    #[test]
    fn users_are_in_the_line() {
        let head = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
        for (user, common, json) in [
            ("ann", "ann", "ann"),
            ("a b", "a\\x20b", "a b"),
            ("a\" [\n\u{e9}", "a\\x22\\x20[\\x0A\\xC3\\xA9", "a\\\" [\\u000a\u{e9}"),
        ] {
            let got = line_of(head, LogFormat::Common, Some(user));
            assert!(got.starts_with(&format!("10.0.0.1 - {common} [21/Nov/")), "{got}");
            let got = line_of(head, LogFormat::Json, Some(user));
            assert!(got.contains(&format!(",\"address\":\"10.0.0.1\",\"user\":\"{json}\",\"method\":")), "{got}");
        }
    }

    /// HTTP/1.2 is answered as HTTP/1.1, and was once logged as HTTP/1.1.
    #[test]
    fn the_version_is_the_clients() {
        for version in ["HTTP/1.0", "HTTP/1.1", "HTTP/1.2", "HTTP/1.9"] {
            let head = format!("GET http://x/a {version}\r\nHost: x\r\n\r\n");
            let common = line(head.as_bytes(), LogFormat::Common);
            assert!(common.contains(&format!("\"GET http://x/a {version}\" 200 ")), "{common}");
            let json = line(head.as_bytes(), LogFormat::Json);
            assert!(json.contains(&format!("\"version\":\"{version}\"")), "{json}");
        }
    }

    /// Quotes, terminal escapes and newlines in a client's text must not get into the log.
    #[test]
    fn clients_cannot_inject_into_the_log() {
        let head = b"GET /\" HTTP/1.1\r\nHost: x\r\nUser-Agent: a\"b\\c\t\xff\xc2\x85\xe2\x80\xa8\r\n\r\n";
        let combined = line(head, LogFormat::Combined);
        assert!(combined.ends_with("\"-\" \"a\\x22b\\x5Cc\\x09\\xFF\\xC2\\x85\\xE2\\x80\\xA8\"\n"), "{combined}");
        assert!(combined.contains("\"GET /\\x22 HTTP/1.1\""), "{combined}");
        assert_eq!(combined.matches('"').count(), 6);
        let json = line(head, LogFormat::Json);
        assert!(json.contains("\"agent\":\"a\\\"b\\\\c\\u0009\u{fffd}\\u0085\\u2028\""), "{json}");
        assert_eq!((json.lines().count(), combined.lines().count()), (1, 1));
    }

    #[test]
    fn malformed_requests_are_logged() {
        let stamp = Stamp::new(0);
        let reject = Reject { status: Status::BAD_REQUEST, reason: "bare LF" };
        let asked = Asked::Refused(reject);
        let line = Line { stamp: &stamp, peer: None, user: None, asked, status: reject.status, bytes: 0 };
        let mut out = Vec::new();
        line.write(LogFormat::Common, &mut out);
        line.write(LogFormat::Json, &mut out);
        write_lost(LogFormat::Json, &stamp, 5, &mut out);
        write_lost(LogFormat::Common, &stamp, 5, &mut out);
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "unix: - - [01/Jan/1970:00:00:00 +0000] \"-\" 400 -");
        assert_eq!(lines[1], r#"{"time":"1970-01-01T00:00:00Z","refused":"bare LF","status":400,"bytes":0}"#);
        assert_eq!(lines[2], r#"{"time":"1970-01-01T00:00:00Z","lost":5}"#);
        assert!(lines[3].starts_with("# [01/Jan/1970:00:00:00 +0000] 5 lines were lost"), "{text}");
    }
}
