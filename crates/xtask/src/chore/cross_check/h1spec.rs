//! The requests of `h1spec`, read from its source and sent unchanged.
//!
//! Its cases are TypeScript objects. Each contains a request, the expected ranges of statuses or the expectation that
//! the server waits, and the body if the status is 200. As in the suite, the first bytes that arrive within half a
//! second are judged.

use super::Score;
use anyhow::{Context, Result, ensure};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

/// How long the suite waits for a response.
const WAIT: Duration = Duration::from_millis(500);

/// A case of the suite.
#[derive(Debug, PartialEq, Eq)]
struct Case {
    name: String,
    request: String,
    /// The expected statuses; none if the server is expected to wait.
    statuses: Vec<(u16, u16)>,
    body: Option<String>,
}

/// Sends every case. Returns how many responses match the suite's expectation.
pub(super) fn score(folder: &Path, port: u16) -> Result<Score> {
    let path = folder.join("http_test.ts");
    let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let cases = cases(&text).with_context(|| format!("{}: is this another version of the suite?", path.display()))?;
    let mut failed = Vec::new();
    for case in &cases {
        let answer = ask(port, &case.request)?;
        if !case.permits(answer.as_deref()) {
            let line = answer.as_deref().map_or("no answer", |text| text.lines().next().unwrap_or("closed"));
            failed.push(format!("{}: {line}", case.name));
        }
    }
    Ok(Score { passed: cases.len() - failed.len(), failed })
}

/// Parses the cases, between `testCases` and the end of that array.
fn cases(text: &str) -> Result<Vec<Case>> {
    let list =
        text.split_once("const testCases").and_then(|(_, rest)| rest.split_once("\n];")).context("found no cases")?.0;
    let cases: Vec<Case> = list.split("request: ").skip(1).map(case).collect::<Option<_>>().context("parse a case")?;
    ensure!(cases.len() > 30, "only {} cases", cases.len());
    Ok(cases)
}

/// Parses a case, starting at its request.
fn case(text: &str) -> Option<Case> {
    let string = |text: &str| -> Option<String> {
        serde_json::from_str(&text[..end_of_string(text)?].replace("\\x", "\\u00")).ok()
    };
    let field = |name: &str| text.split_once(name).map(|(_, rest)| rest.trim_start());
    let request = string(text)?;
    let name = string(field("description:")?)?;
    let waits = field("expectedTimeout: true").is_some();
    let list = field("expectedStatus:")?.split_once("]]")?.0.trim_start_matches('[');
    let range = |range: &str| {
        let (from, to) = range.trim_matches(['[', ']', ' ', ',']).split_once(", ")?;
        Some((from.parse().ok()?, to.parse().ok()?))
    };
    let statuses = if waits { Vec::new() } else { list.split("],").map(range).collect::<Option<_>>()? };
    let body = field("expectedBody:").map(string);
    let body = if let Some(body) = body { Some(body?) } else { None };
    Some(Case { name, request, statuses, body })
}

/// Returns the length of the string literal at the beginning of a text.
fn end_of_string(text: &str) -> Option<usize> {
    let mut bytes = text.bytes().enumerate().skip(1);
    if !text.starts_with('"') {
        return None;
    }
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'\\' => {
                bytes.next();
            }
            b'"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

impl Case {
    /// Returns whether the suite expects a response; `None` means that nothing arrived in time.
    fn permits(&self, answer: Option<&str>) -> bool {
        let Some(answer) = answer else { return self.statuses.is_empty() };
        let status = answer.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)?.parse().ok()).unwrap_or(0);
        let body = answer.split_once("\r\n\r\n").map(|(_, body)| body);
        let is_body = status != 200 || self.body.is_none() || body == self.body.as_deref();
        is_body && self.statuses.iter().any(|&(from, to)| (from..=to).contains(&status))
    }
}

/// Sends a request. Returns the first bytes received, which are empty if the server closes the connection.
fn ask(port: u16, request: &str) -> Result<Option<String>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(WAIT))?;
    // A server may close the connection before it has read everything; its response arrives first.
    let _ = stream.write_all(request.as_bytes());
    let mut buffer = [0; 1024];
    match stream.read(&mut buffer) {
        Ok(count) => Ok(Some(String::from_utf8_lossy(&buffer[..count]).into_owned())),
        Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(Some(String::new())),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_read_from_its_source() {
        let text = r#""POST / HTTP/1.1\r\nX: \x07\"\r\n\r\nhello",
            description: "With a body",
            expectedStatus: [[200, 299], [404, 404]],
            expectedBody: "hello"
        },"#;
        let read = case(text).unwrap();
        assert_eq!(read.request, "POST / HTTP/1.1\r\nX: \x07\"\r\n\r\nhello");
        assert_eq!(read.statuses, [(200, 299), (404, 404)]);
        assert!(read.permits(Some("HTTP/1.1 404 Not Found\r\n\r\nno")));
        assert!(read.permits(Some("HTTP/1.1 200 OK\r\n\r\nhello")));
        assert!(!read.permits(Some("HTTP/1.1 200 OK\r\n\r\n")) && !read.permits(Some("")) && !read.permits(None));
        let waits = case("\"G\",\ndescription: \"W\",\nexpectedStatus: [[-1, -1]],\nexpectedTimeout: true\n}").unwrap();
        assert!(waits.permits(None) && !waits.permits(Some("HTTP/1.1 400 Bad Request\r\n\r\n")));
    }
}
