//! Reads the table of hostile requests. Uses only the standard library, so that the tests of other crates can include
//! it by its path.

/// A request and what the server must answer.
pub(crate) struct Case {
    /// The name.
    pub(crate) name: &'static str,
    /// The correct answers.
    pub(crate) answers: Vec<Answer>,
    /// The bytes of the request.
    pub(crate) bytes: Vec<u8>,
}

/// An answer to a hostile request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// This status.
    Status(u16),
    /// The answer to a valid request, whether the file exists or not.
    Ok,
    /// None until more bytes arrive.
    Wait,
}

/// Returns every case of the table.
pub(crate) fn cases() -> Vec<Case> {
    let lines = include_str!("../hostile.txt").lines();
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(case).collect()
}

fn case(line: &'static str) -> Case {
    let mut parts = line.splitn(3, ' ');
    let mut next = || parts.next().unwrap_or_default();
    let (answers, name, text) = (next(), next(), next());
    let answers = answers.split('|').map(|answer| match answer {
        "ok" => Answer::Ok,
        "wait" => Answer::Wait,
        code => Answer::Status(code.parse().unwrap_or_else(|_| panic!("{name}: {code}"))),
    });
    Case { name, answers: answers.collect(), bytes: unescaped(text.as_bytes()) }
}

fn unescaped(text: &[u8]) -> Vec<u8> {
    let (mut out, mut at) = (Vec::new(), 0);
    while at < text.len() {
        let (byte, len) = match text[at..] {
            [b'\\', b'x', high, low, ..] => (
                u8::from_str_radix(str::from_utf8(&[high, low]).expect("a well-formed table"), 16)
                    .expect("a well-formed table"),
                4,
            ),
            [b'\\', b'r', ..] => (b'\r', 2),
            [b'\\', b'n', ..] => (b'\n', 2),
            [b'\\', b't', ..] => (b'\t', 2),
            [b'\\', b'0', ..] => (0, 2),
            [b'\\', b'\\', ..] => (b'\\', 2),
            [b'{', ..] => {
                let len = braces(&text[at..]);
                let inner = str::from_utf8(&text[at + 1..at + len - 1]).expect("a well-formed table");
                let (count, part) = inner.split_once('*').expect("a well-formed table");
                out.extend(unescaped(part.as_bytes()).repeat(count.parse().expect("a well-formed table")));
                at += len;
                continue;
            }
            [byte, ..] => (byte, 1),
            [] => break,
        };
        out.push(byte);
        at += len;
    }
    out
}

/// Returns the length of a group in braces, including nested groups.
fn braces(text: &[u8]) -> usize {
    let mut depth = 0;
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    panic!("unclosed: {}", text.escape_ascii());
}
