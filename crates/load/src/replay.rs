//! A web server's access log, in the common or the combined format, as a list of requests.

use std::collections::HashMap;

/// The requests of a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Replay {
    /// The different requests: method and target.
    pub requests: Vec<(String, String)>,
    /// Their order in the log, as indices.
    pub order: Vec<u32>,
    /// Number of lines that were skipped: methods other than GET and HEAD, escaped bytes, other formats, empty
    /// lines.
    pub skipped_lines: u64,
}

impl Replay {
    /// Parses the lines of a log.
    pub fn parse(text: &str) -> Self {
        let mut replay = Self::default();
        let mut known: HashMap<(String, String), u32> = HashMap::new();
        for line in text.lines() {
            let Some((method, target)) = request_of(line) else {
                replay.skipped_lines += 1;
                continue;
            };
            let pair = (method.to_owned(), target.to_owned());
            let next = known.len() as u32;
            let number = *known.entry(pair.clone()).or_insert(next);
            if number == next {
                replay.requests.push(pair);
            }
            replay.order.push(number);
        }
        replay
    }
}

/// Returns method and target of a line: `host - - [date] "GET /x HTTP/1.1" 200 5 …`.
fn request_of(line: &str) -> Option<(&str, &str)> {
    let (_, rest) = line.split_once("] \"")?;
    // A backslash before the quote means that the request contains escaped bytes, possibly the quote itself. No URL
    // contains such bytes.
    let (request, _) = rest.split_once('"').filter(|(request, _)| !request.contains('\\'))?;
    let mut words = request.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next());
    let is_plain = target.starts_with('/') && target.bytes().all(|byte| (0x21..0x7f).contains(&byte));
    // HTTP/0.9 has no version; its requests can be sent with HTTP/1.1.
    let is_http = version.is_none_or(|version| version.starts_with("HTTP/")) && words.next().is_none();
    (matches!(method, "GET" | "HEAD") && is_plain && is_http).then_some((method, target))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_are_parsed_and_other_lines_are_counted() {
        let log = r#"1.2.3.4 - - [10/Oct/2000:13:55:36 -0700] "GET /a?b HTTP/1.0" 200 2326
1.2.3.4 - bob [10/Oct/2000:13:55:37 -0700] "HEAD /c HTTP/1.1" 200 0 "http://x/\"" "Moz \"x\""
::1 - - [10/Oct/2000:13:55:38 -0700] "GET /a?b HTTP/1.0" 200 2326 "-" "-"
1.2.3.4 - - [10/Oct/2000:13:55:38 -0700] "POST /form HTTP/1.1" 302 0
1.2.3.4 - - [10/Oct/2000:13:55:38 -0700] "\x16\x03\x01" 400 0
1.2.3.4 - - [10/Oct/2000:13:55:38 -0700] "-" 408 0
1.2.3.4 - - [10/Oct/2000:13:55:38 -0700] "GET http://other/ HTTP/1.1" 400 0

garbage"#;
        let replay = Replay::parse(log);
        assert_eq!(replay.requests, [own("GET", "/a?b"), own("HEAD", "/c")]);
        assert_eq!((replay.order.as_slice(), replay.skipped_lines), ([0, 1, 0].as_slice(), 6));
    }

    fn own(method: &str, target: &str) -> (String, String) {
        (method.to_owned(), target.to_owned())
    }

    /// A request with an escaped quote once ended there, and was taken for an HTTP/0.9 request for another target.
    /// Apache escapes quotes and backslashes with a backslash and other bytes as `\xhh`, nginx escapes all of them as
    /// `\xhh`.
    #[test]
    fn requests_with_escaped_bytes_are_skipped() {
        let log = r#"::1 - - [10/Oct/2000:13:55:36 -0700] "GET /a\"b HTTP/1.1" 404 0
::1 - - [10/Oct/2000:13:55:36 -0700] "GET /a\x22b HTTP/1.1" 404 0
::1 - - [10/Oct/2000:13:55:36 -0700] "GET /a\\" 404 0
::1 - - [10/Oct/2000:13:55:36 -0700] "GET /a\" HTTP/1.1
::1 - - [10/Oct/2000:13:55:36 -0700] "GET /a" 200 0 "\"" "-""#;
        let replay = Replay::parse(log);
        assert_eq!((replay.requests, replay.order, replay.skipped_lines), (vec![own("GET", "/a")], vec![0], 4));
    }
}
