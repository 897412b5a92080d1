//! Rust source with its comments, and its literals if wanted, blanked out; and the functions and tests in it.
//!
//! Enough of the language to tell code from prose, line by line. It is no parser: what rustfmt has formatted is
//! assumed to be balanced.

use std::ops::Range;

/// What is left of a source text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Code alone.
    Code,
    /// Code and the insides of strings.
    CodeAndStrings,
}

/// The text with everything else turned into blanks; lines and columns stay where they are.
pub(crate) fn masked(text: &str, keep: Keep) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let rest = &chars[at..];
        let (len, is_kept) = match rest {
            ['/', '/', ..] => (rest.iter().position(|&c| c == '\n').unwrap_or(rest.len()), false),
            ['/', '*', ..] => (comment(rest), false),
            ['"', ..] => (string(rest), keep == Keep::CodeAndStrings),
            ['r', '"' | '#', ..] if !is_word_before(&chars, at) => match raw_string(rest) {
                Some(len) => (len, keep == Keep::CodeAndStrings),
                None => (1, true),
            },
            ['\'', ..] => match character(rest) {
                Some(len) => (len, false),
                None => (1, true),
            },
            _ => (1, true),
        };
        for &c in &rest[..len] {
            out.push(if is_kept || c == '\n' { c } else { ' ' });
        }
        at += len;
    }
    out
}

fn is_word_before(chars: &[char], at: usize) -> bool {
    // `br"…"` is a raw string too: its `b` does not make the `r` part of a name.
    at > 0 && is_word(chars[at - 1]) && !(chars[at - 1] == 'b' && (at < 2 || !is_word(chars[at - 2])))
}

/// Whether a character can be part of a name.
pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The length of a block comment, nested ones included.
fn comment(rest: &[char]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match rest[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn string(rest: &[char]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

fn raw_string(rest: &[char]) -> Option<usize> {
    let hashes = rest[1..].iter().take_while(|&&c| c == '#').count();
    if rest.get(1 + hashes) != Some(&'"') {
        return None;
    }
    let closing: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
    let body = &rest[2 + hashes..];
    let end = body.windows(closing.len()).position(|window| window == closing)?;
    Some(2 + hashes + end + closing.len())
}

/// The length of a character literal; none where the quote begins a lifetime.
fn character(rest: &[char]) -> Option<usize> {
    match rest {
        // The character behind the backslash may be a quote itself.
        ['\'', '\\', _, tail @ ..] => tail.iter().position(|&c| c == '\'').map(|end| end + 4),
        ['\'', _, '\'', ..] => Some(3),
        _ => None,
    }
}

/// A function: its name and the lines it spans, counted from 1.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) first: usize,
    pub(crate) last: usize,
}

/// Every function with a body in masked code.
pub(crate) fn functions(code: &str) -> Vec<Function> {
    let mut found = Vec::new();
    for at in words(code, "fn") {
        let name: String = code[at + 2..].trim_start().chars().take_while(|&c| is_word(c)).collect();
        // Without a name it is the type of a pointer; without a body it is a promise.
        if name.is_empty() {
            continue;
        }
        if let Some(body) = block(code, at) {
            found.push(Function { name, first: line_of(code, at), last: line_of(code, body.end - 1) });
        }
    }
    found
}

/// The block `{ … }` that follows a place in masked code; none where a `;` comes first.
fn block(code: &str, from: usize) -> Option<Range<usize>> {
    let (mut nested, mut depth, mut start) = (0_i32, 0_i32, None);
    for (offset, c) in code[from..].char_indices() {
        match c {
            '(' | '[' if start.is_none() => nested += 1,
            ')' | ']' if start.is_none() => nested -= 1,
            ';' if start.is_none() && nested == 0 => return None,
            '{' => {
                start.get_or_insert(from + offset);
                depth += 1;
            }
            '}' => {
                depth -= 1;
                if depth == 0 {
                    return start.map(|start| start..from + offset + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// Where a word stands on its own.
pub(crate) fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let before = code[..at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

/// The line of a place, counted from 1.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// The parts of masked code that are tests.
pub(crate) fn tests(code: &str) -> Vec<Range<usize>> {
    code.match_indices("#[cfg(test)]").filter_map(|(at, mark)| block(code, at + mark.len())).collect()
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn prose_and_literals_are_blanked() {
        let text =
            "let a = \"unsafe\"; // unsafe\nlet b = 'u'; /* unsafe /* x */ */ let c: &'static str = r#\"un\"safe\"#;";
        let code = masked(text, Keep::Code);
        assert_eq!(code.len(), text.len());
        assert!(!code.contains("unsafe") && code.contains("'static str"), "{code}");
        assert!(masked(text, Keep::CodeAndStrings).contains("\"unsafe\";"));
    }

    #[test]
    fn quotes_in_characters_do_not_open_strings() {
        let code = masked("match c { '\"' => 1, '\\'' => 2, b'\\\\' => 3 } unsafe", Keep::Code);
        assert!(code.ends_with("unsafe") && code.contains("=> 3"), "{code}");
    }

    #[test]
    fn functions_are_measured_from_their_name_to_their_brace() {
        let code = "trait T {\n fn promise(a: [u8; 2]);\n fn one(&self) {\n  { }\n }\n}\nstatic F: fn() = x;\n";
        assert_eq!(functions(code), [Function { name: "one".to_owned(), first: 3, last: 5 }]);
    }

    #[test]
    fn tests_are_found() {
        let code = "fn a() {}\n#[cfg(test)]\nmod tests {\n x.unwrap()\n}\nfn b() {}";
        let range = &tests(code)[0];
        assert!(code[range.clone()].contains("unwrap") && !code[range.clone()].contains("fn b"));
    }
}
