//! The requests of `Http11Probe`, read from its sources and sent unchanged.
//!
//! Its cases are C# code with an identifier, a request as text, and the permitted answers: a status, or a sentence that
//! contains statuses. A case whose request is built by code is counted and left out. The comparison uses only the
//! status of a response and, if the case demands it, whether the connection is then closed. It ignores headers and
//! body.

use super::{PORT, Score, said};
use anyhow::{Context, Result, ensure};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

const SUITES: [&str; 4] = ["Compliance", "Smuggling", "MalformedInput", "Normalization"];

/// How long to wait for a response; there may be none.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Follows a status if the server closed the connection after the response.
const AND_CLOSE: &str = " + close";

/// Cases that the server deliberately answers differently: the case, the answer, the reason. A difference that is not
/// listed is a failure, and so is a listed one that no longer occurs.
const DIFFERENT: [(&str, &str, &str); 2] = [
    ("COMP-DATE-FORMAT", "200", "the case checks the format of Date, which only landau-wire's tests compare"),
    ("MAL-POST-CL-HUGE-NO-BODY", "413", "the server refuses a body by its length, before the body arrives"),
];

/// A case that can be sent.
struct Probe {
    id: String,
    request: Vec<u8>,
    expected: String,
}

/// The relation of a response to the suite's expectation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Agreement {
    /// The suite expects this answer.
    Agrees,
    /// The suite expects the request's body to be accepted, but the server supports no method with a body (it answers
    /// 405).
    TakesNoBody,
    /// The suite expects a different answer.
    Differs,
}

fn compare(probe: &Probe, answer: &str) -> Agreement {
    // If the suite permits no success, the server must reject the request for its fault, not merely for its method.
    let is_refused = answer == "405" && probe.request.starts_with(b"POST ");
    if is_allowed(&probe.expected, answer) {
        Agreement::Agrees
    } else if is_refused && (200..300).any(|status| is_allowed(&probe.expected, &format!("{status}{AND_CLOSE}"))) {
        Agreement::TakesNoBody
    } else {
        Agreement::Differs
    }
}

/// Reads the cases for the server at a port, and the names of those that are built by code.
fn read(folder: &Path, port: u16) -> Result<(Vec<Probe>, Vec<String>)> {
    let (mut probes, mut by_code) = (Vec::new(), Vec::new());
    for suite in SUITES {
        let path = folder.join(format!("src/Http11Probe/TestCases/Suites/{suite}Suite.cs"));
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        for block in text.split("yield return new TestCase").skip(1) {
            let id = between(block, "Id = \"", "\"").context("a case without a name")?;
            match probe(id, block, port) {
                Some(probe) => probes.push(probe),
                None => by_code.push(id.to_owned()),
            }
        }
    }
    ensure!(probes.len() > 100, "only {} cases could be read: is this another version of the suite?", probes.len());
    Ok((probes, by_code))
}

/// Sends every case to a file server, which need not accept bodies. Returns how many responses match the suite's
/// expectation.
pub(super) fn score(folder: &Path, port: u16) -> Result<Score> {
    let probes = read(folder, port)?.0;
    let mut failed = Vec::new();
    for probe in &probes {
        let answer = ask(probe, port)?;
        if compare(probe, &answer) == Agreement::Differs {
            failed.push(format!("{}: {answer}", probe.id));
        }
    }
    Ok(Score { passed: probes.len() - failed.len(), failed })
}

/// Sends every case. Returns whether each answer is expected by the suite or listed here.
pub(super) fn check(folder: &Path) -> Result<bool> {
    let (asked, by_code) = read(folder, PORT)?;
    let (mut agreed, mut no_body_taken, mut failures) = (0, 0, Vec::new());
    let mut stale = DIFFERENT.to_vec();
    for probe in &asked {
        let answer = ask(probe, PORT)?;
        let different = stale.iter().position(|(id, status, _)| probe.id == *id && answer == *status);
        match compare(probe, &answer) {
            Agreement::Agrees => agreed += 1,
            Agreement::TakesNoBody => no_body_taken += 1,
            Agreement::Differs => match different {
                Some(place) => println!("     {}: {answer}; {}", probe.id, stale.remove(place).2),
                None => failures.push(format!("{}: {answer}, expected: {}", probe.id, probe.expected)),
            },
        }
    }
    failures.extend(
        stale.iter().map(|(id, status, _)| format!("{id}: the answer is no longer {status}; remove it from the list")),
    );
    println!("     {} cases were sent; {agreed} answers are those that the suite expects", asked.len());
    println!("     {no_body_taken} expect a body to be accepted and were answered 405: this server only serves files");
    println!("     {} are built by code and were not sent: {}", by_code.len(), by_code.join(" "));
    for failure in &failures {
        println!("     {failure}");
    }
    Ok(said(&format!("Http11Probe: {} unexpected answers", failures.len()), failures.is_empty()))
}

fn between<'a>(text: &'a str, from: &str, to: &str) -> Option<&'a str> {
    let rest = text.split_once(from)?.1;
    Some(rest.split_once(to)?.0)
}

/// Reads a case; `None` if code builds its request instead of a string literal.
fn probe(id: &str, block: &str, port: u16) -> Option<Probe> {
    let payload = between(block, "PayloadFactory = ctx => MakeRequest(", "\n")
        .and_then(|_| block.split_once("PayloadFactory = ctx => MakeRequest("))?
        .1;
    let text = literals(payload)?;
    let text = text.replace("{ctx.HostHeader}", &format!("127.0.0.1:{port}")).replace("{ctx.Host}", "127.0.0.1");
    let text = text.replace("{ctx.Port}", &port.to_string()).replace("{{", "{").replace("}}", "}");
    let request = text.chars().map(|letter| u8::try_from(u32::from(letter)).ok()).collect::<Option<Vec<u8>>>()?;
    let expected = block.split_once("Expected = new ExpectedBehavior")?.1;
    let expected = between(expected, "Description = \"", "\"")
        .filter(|_| expected.find("Description").is_some_and(|at| expected[..at].lines().count() < 4))
        .or_else(|| between(expected, "StatusCodeRange.", "\n"))?;
    Some(Probe { id: id.to_owned(), request, expected: expected.trim_end_matches(',').to_owned() })
}

/// Joins string literals with `+` between them up to the closing bracket; `None` if there is anything else.
fn literals(text: &str) -> Option<String> {
    let mut rest = text.trim_start();
    let mut all = String::new();
    loop {
        rest = rest.strip_prefix('$').unwrap_or(rest).strip_prefix('"')?;
        let mut letters = rest.char_indices();
        let end = loop {
            match letters.next()? {
                (at, '"') => break at,
                (_, '\\') => match letters.next()?.1 {
                    'r' => all.push('\r'),
                    'n' => all.push('\n'),
                    't' => all.push('\t'),
                    '0' => all.push('\0'),
                    'x' | 'u' => return None,
                    other => all.push(other),
                },
                (_, other) => all.push(other),
            }
        };
        rest = rest[end + 1..].trim_start();
        match rest.strip_prefix('+') {
            Some(more) => rest = more.trim_start(),
            None => return rest.starts_with(')').then_some(all),
        }
    }
}

/// Sends a request. Returns the status of the first response, with `+ close` if the case asks for that and the server
/// closed the connection; or `close` or `timeout`.
fn ask(probe: &Probe, port: u16) -> Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(RESPONSE_TIMEOUT))?;
    // A server that refuses early may have closed the connection before the whole request was sent.
    let _ = stream.write_all(&probe.request);
    let mut buffer = [0; 64];
    Ok(match stream.read(&mut buffer) {
        Ok(got @ 12..) if buffer[..got].starts_with(b"HTTP/1.1 ") => {
            let status = String::from_utf8_lossy(&buffer[9..12]);
            let is_asked = probe.expected.replace(' ', "").contains("+close");
            let closes = if is_asked && ends(&mut stream) { AND_CLOSE } else { "" };
            format!("{status}{closes}")
        }
        Ok(0) => "close".to_owned(),
        Ok(got) => format!("not an HTTP response: {}", buffer[..got].escape_ascii()),
        Err(error) if error.kind() == ErrorKind::ConnectionReset => "close".to_owned(),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => "timeout".to_owned(),
        Err(error) => return Err(error.into()),
    })
}

/// Returns whether the server closes the connection.
fn ends(stream: &mut TcpStream) -> bool {
    match stream.read_to_end(&mut Vec::new()) {
        Ok(_) => true,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

/// Returns whether an expectation like `Exact(400)`, `400/505 or close`, `2xx + close` or `!101` permits the answer.
fn is_allowed(expected: &str, answer: &str) -> bool {
    let words = expected.replace(" or ", "/");
    words.split(['/', ',', ';']).any(|word| names(word.trim(), answer))
}

/// Returns whether one alternative of an expectation permits the answer.
fn names(word: &str, answer: &str) -> bool {
    let word = word.strip_prefix("Exact(").or_else(|| word.strip_prefix("Range")).unwrap_or(word);
    let is_ended = answer.ends_with(AND_CLOSE);
    let status = answer.strip_suffix(AND_CLOSE).unwrap_or(answer);
    let is_status = |class: &str| status.len() == 3 && status.starts_with(class);
    if let Some(excluded) =
        word.strip_prefix('!').or_else(|| word.strip_prefix("non-")).or_else(|| word.strip_prefix("not "))
    {
        return is_status("") && !status.starts_with(excluded.get(..3).unwrap_or(excluded).trim_end_matches('x'));
    }
    let wants_end = word.replace(' ', "").contains("+close");
    match word.get(..3) {
        Some("2xx") => is_status("2") && (is_ended || !wants_end),
        Some(exact) if exact.bytes().all(|byte| byte.is_ascii_digit()) => is_status(exact),
        // The suite describes these cases in prose; accept any refusal (4xx or 5xx).
        _ if word == "Reject" => is_status("4") || is_status("5"),
        _ if word.starts_with("close") || word.starts_with("drop") => answer == "close",
        _ => word == answer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_read_from_its_source() {
        let block = r#"
        {
            Id = "COMP-X",
            PayloadFactory = ctx => MakeRequest(
                $"POST / HTTP/1.1\r\nHost: {ctx.HostHeader}\r\n" + "\r\nhe\"llo"),
            Expected = new ExpectedBehavior
            {
                Description = "400/501 or close",
            }
        };"#;
        let probe = probe("COMP-X", block, 18_095).unwrap();
        assert_eq!(probe.request, b"POST / HTTP/1.1\r\nHost: 127.0.0.1:18095\r\n\r\nhe\"llo");
        assert_eq!(probe.expected, "400/501 or close");
        assert!(super::probe("COMP-X", &block.replace("\"POST", "Encoding + \"POST"), 18_095).is_none());
    }

    #[test]
    fn expectations_permit_answers() {
        for (expected, answer, is_right) in [
            ("Exact(400)", "400", true),
            ("Exact(400)", "200", false),
            ("400/close/timeout", "timeout", true),
            ("400/close/timeout", "413", false),
            ("2xx + close", "204 + close", true),
            ("2xx + close", "204", false),
            ("2xx + close", "close", false),
            ("400/501 or 2xx+close", "close", false),
            ("400/501 or 2xx+close", "501 + close", true),
            ("400, or 2xx + close", "400", true),
            ("400, or close (no extra response)", "close", true),
            ("2xx preferred; 400 warns", "400", true),
            ("405/501, or 200 without Auth", "200", true),
            ("!101", "200", true),
            ("!101", "101", false),
            ("!101", "timeout", false),
            ("non-101 (426 preferred)", "101", false),
            ("non-1xx response", "100", false),
            ("non-1xx response", "405", true),
            ("not 414", "414", false),
            ("Range2xx", "405", false),
            ("Reject/drop (pass), normalize (fail), preserve (warn)", "405", true),
            ("Reject/drop (pass), normalize (fail), preserve (warn)", "200", false),
            ("IMF-fixdate format", "200", false),
        ] {
            assert_eq!(is_allowed(expected, answer), is_right, "{expected} {answer}");
        }
    }

    /// Every POST answered with 405 once counted as a request whose body the suite expects to be accepted.
    #[test]
    fn a_refused_method_does_not_count_as_refused_smuggling() {
        let post = |expected: &str| Probe {
            id: String::new(),
            request: b"POST / HTTP/1.1\r\n".to_vec(),
            expected: expected.to_owned(),
        };
        assert_eq!(compare(&post("400 or 2xx"), "405"), Agreement::TakesNoBody);
        assert_eq!(compare(&post("2xx + echo"), "405"), Agreement::TakesNoBody);
        assert_eq!(compare(&post("Exact(400)"), "405"), Agreement::Differs);
        assert_eq!(compare(&post("400/501 or close"), "405"), Agreement::Differs);
        assert_eq!(
            compare(&Probe { request: b"GET / HTTP/1.1\r\n".to_vec(), ..post("Range2xx") }, "405"),
            Agreement::Differs
        );
    }
}
