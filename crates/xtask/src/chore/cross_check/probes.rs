//! The requests of `Http11Probe`, read from its sources and sent as they stand there.
//!
//! Its cases are C# that names an identifier, a request as text, and what may be answered: a status, or a sentence
//! with statuses in it. A case whose request is built by code is counted and left out.

use super::{PORT, said};
use anyhow::{Context, Result, ensure};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

const SUITES: [&str; 4] = ["Compliance", "Smuggling", "MalformedInput", "Normalization"];

/// How long an answer is waited for that may not come at all.
const PATIENCE: Duration = Duration::from_secs(1);

/// Where we differ, and why. A case that differs otherwise is a failure, and so is one that differs no more.
const DIFFERENT: [(&str, &str, &str); 3] = [
    ("COMP-DATE-FORMAT", "200", "it looks at the form of Date, which the tests of landau-wire do"),
    ("MAL-POST-CL-HUGE-NO-BODY", "413", "a body is refused by its length, before it comes"),
    ("NORM-", "400", "such a field is refused, which the suite calls a pass in words"),
];

/// A case that can be asked.
struct Probe {
    id: String,
    request: Vec<u8>,
    expected: String,
}

/// Whether all are answered as the suite wants, or as is listed here.
pub(super) fn check(folder: &Path) -> Result<bool> {
    let (mut asked, mut by_code) = (Vec::new(), Vec::new());
    for suite in SUITES {
        let path = folder.join(format!("src/Http11Probe/TestCases/Suites/{suite}Suite.cs"));
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        for block in text.split("yield return new TestCase").skip(1) {
            let id = between(block, "Id = \"", "\"").context("a case without a name")?;
            match probe(id, block) {
                Some(probe) => asked.push(probe),
                None => by_code.push(id.to_owned()),
            }
        }
    }
    ensure!(asked.len() > 100, "only {} cases were understood: is it another version?", asked.len());
    let (mut agreed, mut no_body_taken, mut failures) = (0, 0, Vec::new());
    for probe in &asked {
        let answer = ask(&probe.request)?;
        let different = DIFFERENT.iter().find(|(id, status, _)| probe.id.starts_with(id) && answer == *status);
        if is_allowed(&probe.expected, &answer) {
            agreed += 1;
        } else if answer == "405" && probe.request.starts_with(b"POST ") {
            no_body_taken += 1;
        } else if let Some((_, _, why)) = different {
            println!("     {}: {answer}; {why}", probe.id);
        } else {
            failures.push(format!("{}: {answer}, wanted: {}", probe.id, probe.expected));
        }
    }
    println!("     {} cases were asked, {agreed} answered as the suite wants", asked.len());
    println!("     {no_body_taken} have a body taken and sent back, and are answered 405: this server serves files");
    println!("     {} are built by code and were not asked: {}", by_code.len(), by_code.join(" "));
    for failure in &failures {
        println!("     {failure}");
    }
    Ok(said(&format!("Http11Probe: {} differ otherwise", failures.len()), failures.is_empty()))
}

fn between<'a>(text: &'a str, from: &str, to: &str) -> Option<&'a str> {
    let rest = text.split_once(from)?.1;
    Some(rest.split_once(to)?.0)
}

/// Reads a case; none where its request is no text.
fn probe(id: &str, block: &str) -> Option<Probe> {
    let payload = between(block, "PayloadFactory = ctx => MakeRequest(", "\n")
        .and_then(|_| block.split_once("PayloadFactory = ctx => MakeRequest("))?
        .1;
    let text = literals(payload)?;
    let text = text.replace("{ctx.HostHeader}", &format!("127.0.0.1:{PORT}")).replace("{ctx.Host}", "127.0.0.1");
    let text = text.replace("{ctx.Port}", &PORT.to_string()).replace("{{", "{").replace("}}", "}");
    let request = text.chars().map(|letter| u8::try_from(u32::from(letter)).ok()).collect::<Option<Vec<u8>>>()?;
    let expected = block.split_once("Expected = new ExpectedBehavior")?.1;
    let expected = between(expected, "Description = \"", "\"")
        .filter(|_| expected.find("Description").is_some_and(|at| expected[..at].lines().count() < 4))
        .or_else(|| between(expected, "StatusCodeRange.", "\n"))?;
    Some(Probe { id: id.to_owned(), request, expected: expected.trim_end_matches(',').to_owned() })
}

/// String literals joined by `+` up to the closing bracket; none where there is anything else.
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

/// Sends a request; the status of the first answer, `close` or `timeout`.
fn ask(request: &[u8]) -> Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", PORT))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    // A server that refuses early may have closed before all was sent.
    let _ = stream.write_all(request);
    let mut buffer = [0; 64];
    Ok(match stream.read(&mut buffer) {
        Ok(got @ 12..) if buffer[..got].starts_with(b"HTTP/1.1 ") => {
            String::from_utf8_lossy(&buffer[9..12]).into_owned()
        }
        Ok(0) => "close".to_owned(),
        Ok(got) => format!("no answer of HTTP: {}", buffer[..got].escape_ascii()),
        Err(error) if error.kind() == ErrorKind::ConnectionReset => "close".to_owned(),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => "timeout".to_owned(),
        Err(error) => return Err(error.into()),
    })
}

/// Whether words like `Exact(400)`, `400/505 or close`, `2xx + close` or `!101` name the answer.
fn is_allowed(expected: &str, answer: &str) -> bool {
    let is_success = answer.starts_with('2') && (expected.contains("2xx") || expected.contains("200 or"));
    let is_named = expected.contains(answer) && !expected.contains(&format!("!{answer}"));
    let is_anything_but = (expected.contains("!101") || expected.contains("non-101")) && answer != "101";
    is_success || is_named || is_anything_but
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
        let probe = probe("COMP-X", block).unwrap();
        assert_eq!(probe.request, b"POST / HTTP/1.1\r\nHost: 127.0.0.1:18095\r\n\r\nhe\"llo");
        assert_eq!(probe.expected, "400/501 or close");
        assert!(super::probe("COMP-X", &block.replace("\"POST", "Encoding + \"POST")).is_none());
    }

    #[test]
    fn words_name_answers() {
        for (expected, answer, is_right) in [
            ("Exact(400)", "400", true),
            ("Exact(400)", "200", false),
            ("400/close/timeout", "timeout", true),
            ("2xx + close", "204", true),
            ("!101", "200", true),
            ("!101", "101", false),
            ("Range2xx", "405", false),
        ] {
            assert_eq!(is_allowed(expected, answer), is_right, "{expected} {answer}");
        }
    }
}
