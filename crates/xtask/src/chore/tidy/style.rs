//! Rules of style that no lint of rustc or Clippy checks.
//!
//! Clippy checks the length of functions, `unwrap` and printing, and rustc denies `unsafe`. These lints apply only to
//! crates that inherit them, which is checked here.

use super::source::line_of;
use super::{File, Findings};

/// The maximum number of columns, including comments, which rustfmt does not wrap.
const COLUMNS: usize = 120;

/// Crates with separate lint settings, with reasons.
const OWN_LINTS: &[(&str, &str)] = &[
    ("crates/sys/Cargo.toml", "it is the crate for `unsafe`"),
    ("crates/mail/fuzz/Cargo.toml", "it is a separate workspace, built by cargo-fuzz"),
    ("crates/wire/fuzz/Cargo.toml", "it is a separate workspace, built by cargo-fuzz"),
];

/// Words that mark unfinished work, split so that this file does not contain them.
const UNFINISHED: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];

pub(crate) fn check(files: &[File]) -> Findings {
    files.iter().filter(|file| is_ours(file)).flat_map(of_file).collect()
}

/// Returns whether a file is written here: not vendored and not generated.
fn is_ours(file: &File) -> bool {
    !file.path.contains("/vendor/") && !file.is_a("lock") && !file.path.ends_with("package-lock.json")
}

fn of_file(file: &File) -> Findings {
    let mut findings = unfinished(file);
    if file.is_a("rs") {
        findings.extend(of_source(file));
    }
    if file.path.starts_with("crates/") && file.path.ends_with("/Cargo.toml") {
        findings.extend(of_manifest(file));
    }
    findings
}

fn unfinished(File { path, text }: &File) -> Findings {
    let is_boundary = |c: Option<char>| !c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let is_word = |at: usize, word: &str| {
        is_boundary(text[..at].chars().next_back()) && is_boundary(text[at + word.len()..].chars().next())
    };
    let places = UNFINISHED.iter().flat_map(|word| text.match_indices(word)).filter(|(at, word)| is_word(*at, word));
    places.map(|(at, word)| format!("{path}:{}: {word}", line_of(text, at))).collect()
}

fn of_source(File { path, text }: &File) -> Findings {
    let mut findings = Findings::new();
    if !text.starts_with("//!") {
        findings.push(format!("{path}:1: does not begin with `//!`: state what the file is and why it exists"));
    }
    for (index, line) in text.lines().enumerate().filter(|(_, line)| line.chars().count() > COLUMNS) {
        findings.push(format!("{path}:{}: {} columns; the limit is {COLUMNS}", index + 1, line.chars().count()));
    }
    findings
}

fn of_manifest(File { path, text }: &File) -> Findings {
    let is_excepted = OWN_LINTS.iter().any(|(known, _)| known == path);
    if is_excepted || text.contains("[lints]\nworkspace = true\n") {
        return Findings::new();
    }
    vec![format!("{path}: does not inherit the lints of the workspace: add `[lints]` with `workspace = true`")]
}

#[cfg(test)]
mod unit {
    use super::*;

    fn findings(path: &str, text: &str) -> Findings {
        check(&[File { path: path.to_owned(), text: text.to_owned() }])
    }

    #[test]
    fn a_good_file_has_no_findings() {
        assert_eq!(findings("crates/engine/src/a.rs", "//! What.\nfn a() {}\n"), Findings::new());
        assert_eq!(findings("crates/engine/Cargo.toml", "[lints]\nworkspace = true\n"), Findings::new());
        assert_eq!(findings("crates/sys/Cargo.toml", "[lints.rust]\n"), Findings::new());
    }

    #[test]
    fn each_violation_is_named() {
        for (path, text, word) in [
            ("crates/engine/src/a.rs", "fn a() {}".to_owned(), "begin with"),
            ("crates/engine/src/a.rs", format!("//! x\n// {} later", UNFINISHED[0]), UNFINISHED[0]),
            ("crates/engine/src/a.rs", format!("//! x\n//{}", "-".repeat(COLUMNS)), "columns"),
            ("crates/engine/Cargo.toml", "[lints.rust]\n".to_owned(), "does not inherit"),
        ] {
            let found = findings(path, &text);
            assert!(found.len() == 1 && found[0].contains(word), "{word}: {found:?}");
        }
    }
}
