//! The requests of `Http11Probe`, read from its sources and sent as they stand there.
//!
//! Its cases are C# that names an identifier, a request as text, and what may be answered: a status, or a sentence
//! with statuses in it. A case whose request is built by code is counted and left out. Of an answer its status is
//! looked at and, where that is asked for, whether the connection ends with it; not its fields, nor its body.

use super::{PORT, said};
use anyhow::{Context, Result, ensure};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

const SUITES: [&str; 4] = ["Compliance", "Smuggling", "MalformedInput", "Normalization"];

/// How long an answer is waited for that may not come at all.
const PATIENCE: Duration = Duration::from_secs(1);

/// Behind a status: the connection ended with the answer.
const AND_CLOSE: &str = " + close";

/// Where we differ, and why. A case that differs otherwise is a failure, and so is one that differs no more.
const DIFFERENT: [(&str, &str, &str); 2] = [
    ("COMP-DATE-FORMAT", "200", "it looks at the form of Date, which the tests of landau-wire do"),
    ("MAL-POST-CL-HUGE-NO-BODY", "413", "a body is refused by its length, before it comes"),
];

/// A case that can be asked.
struct Probe {
    id: String,
    request: Vec<u8>,
    expected: String,
}

/// What is to be thought of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// It is what the suite wants.
    Agreed,
    /// The suite would have the body taken, and no method that brings one is served.
    TakesNoBody,
    /// It is something else.
    Differs,
}

fn verdict(probe: &Probe, answer: &str) -> Verdict {
    // Where no success is allowed, the refusal must be for what is wrong with the request, and not for its method.
    let is_refused = answer == "405" && probe.request.starts_with(b"POST ");
    if is_allowed(&probe.expected, answer) {
        Verdict::Agreed
    } else if is_refused && (200..300).any(|status| is_allowed(&probe.expected, &format!("{status}{AND_CLOSE}"))) {
        Verdict::TakesNoBody
    } else {
        Verdict::Differs
    }
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
    let mut stale = DIFFERENT.to_vec();
    for probe in &asked {
        let answer = ask(probe)?;
        let different = stale.iter().position(|(id, status, _)| probe.id == *id && answer == *status);
        match verdict(probe, &answer) {
            Verdict::Agreed => agreed += 1,
            Verdict::TakesNoBody => no_body_taken += 1,
            Verdict::Differs => match different {
                Some(place) => println!("     {}: {answer}; {}", probe.id, stale.remove(place).2),
                None => failures.push(format!("{}: {answer}, wanted: {}", probe.id, probe.expected)),
            },
        }
    }
    failures.extend(stale.iter().map(|(id, status, _)| format!("{id} is listed as answered {status}, and is not")));
    println!("     {} cases were asked, {agreed} answered as the suite wants", asked.len());
    println!("     {no_body_taken} may have a body taken, and are answered 405: this server serves files");
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

/// Sends a request; the status of the first answer, with what became of the connection where that is asked for, or
/// `close` or `timeout`.
fn ask(probe: &Probe) -> Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", PORT))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    // A server that refuses early may have closed before all was sent.
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
        Ok(got) => format!("no answer of HTTP: {}", buffer[..got].escape_ascii()),
        Err(error) if error.kind() == ErrorKind::ConnectionReset => "close".to_owned(),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => "timeout".to_owned(),
        Err(error) => return Err(error.into()),
    })
}

/// Whether the server closes the connection.
fn ends(stream: &mut TcpStream) -> bool {
    match stream.read_to_end(&mut Vec::new()) {
        Ok(_) => true,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

/// Whether words like `Exact(400)`, `400/505 or close`, `2xx + close` or `!101` name the answer.
fn is_allowed(expected: &str, answer: &str) -> bool {
    let words = expected.replace(" or ", "/");
    words.split(['/', ',', ';']).any(|word| names(word.trim(), answer))
}

/// Whether one alternative names the answer.
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
        // In words for what the suite's code says of the forms of names: any refusal.
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

    /// Any request by POST that was answered 405 was taken for one with a body that the suite would have taken.
    #[test]
    fn a_method_refused_is_no_smuggling_refused() {
        let post = |expected: &str| Probe {
            id: String::new(),
            request: b"POST / HTTP/1.1\r\n".to_vec(),
            expected: expected.to_owned(),
        };
        assert_eq!(verdict(&post("400 or 2xx"), "405"), Verdict::TakesNoBody);
        assert_eq!(verdict(&post("2xx + echo"), "405"), Verdict::TakesNoBody);
        assert_eq!(verdict(&post("Exact(400)"), "405"), Verdict::Differs);
        assert_eq!(verdict(&post("400/501 or close"), "405"), Verdict::Differs);
        assert_eq!(
            verdict(&Probe { request: b"GET / HTTP/1.1\r\n".to_vec(), ..post("Range2xx") }, "405"),
            Verdict::Differs
        );
    }
}
