//! Reads the table of hostile requests. Uses only the standard library and [`crate::escape`], so that the tests of
//! other crates can include both by their paths.

use crate::escape::unescaped;

/// A request and the required response of the server.
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
    /// No response until more bytes arrive.
    Wait,
}

/// Returns all cases in the table.
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
