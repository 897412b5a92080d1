//! What STYLE promises of every source file: it says what it is, fits the screen, and leaves nothing half done.

use super::source::{Keep, functions, line_of, masked, tests, words};
use super::{File, Findings};

/// Lines of the longest function.
const FUNCTION_LINES: usize = 70;

/// Columns of the longest line.
const COLUMNS: usize = 120;

/// Functions that may be longer: file, name, reason.
const LONG: &[(&str, &str, &str)] = &[];

/// Where `unsafe` may stand, and why.
const UNSAFE: &[(&str, &str)] = &[
    ("crates/sys/", "it is what the crate is for"),
    ("crates/lab/plugin/", "a library that qemu loads: a crate root of its own that cannot lean on `sys`"),
];

/// Words that mean "not done", put together so that this file does not hold them.
const UNDONE: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];

pub(crate) fn check(files: &[File]) -> Findings {
    files
        .iter()
        .filter(|file| is_ours(file))
        .flat_map(|file| {
            let mut findings = undone(file);
            if file.is_a("rs") {
                findings.extend(of_source(file));
            }
            findings
        })
        .collect()
}

/// Vendored files follow their own house's rules.
fn is_ours(file: &File) -> bool {
    !file.path.contains("/vendor/") && !file.is_a("lock") && !file.path.ends_with("package-lock.json")
}

fn undone(file: &File) -> Findings {
    let places = UNDONE.iter().flat_map(|word| words(&file.text, word).map(move |at| (at, word)));
    places.map(|(at, word)| format!("{}:{}: {word}", file.path, line_of(&file.text, at))).collect()
}

fn of_source(file: &File) -> Findings {
    let File { path, text } = file;
    let code = masked(text, Keep::Code);
    let mut findings = Findings::new();
    if !text.starts_with("//!") {
        findings.push(format!("{path}:1: it does not open with `//!`, what it is and why it exists"));
    }
    for (index, line) in text.lines().enumerate().filter(|(_, line)| line.chars().count() > COLUMNS) {
        findings.push(format!("{path}:{}: {} columns, {COLUMNS} fit", index + 1, line.chars().count()));
    }
    for function in functions(&code) {
        let lines = function.last - function.first + 1;
        let is_excepted = LONG.iter().any(|(file, name, _)| file == path && *name == function.name);
        if lines > FUNCTION_LINES && !is_excepted {
            findings.push(format!(
                "{path}:{}: function `{}` takes {lines} lines, {FUNCTION_LINES} fit a screen",
                function.first, function.name
            ));
        }
    }
    if !UNSAFE.iter().any(|(folder, _)| path.starts_with(folder)) {
        let places = words(&code, "unsafe").map(|at| line_of(&code, at));
        findings.extend(places.map(|line| format!("{path}:{line}: `unsafe` lives in crates/sys")));
    }
    findings.extend(unwraps(path, &code));
    findings
}

fn unwraps(path: &str, code: &str) -> Findings {
    let is_test_file = path.contains("/tests/") || path.ends_with("/tests.rs");
    let tests = tests(code);
    let is_test = |at: &usize| is_test_file || tests.iter().any(|range| range.contains(at));
    let places = code.match_indices(".unwrap()").map(|(at, _)| at).filter(|at| !is_test(at));
    places.map(|at| format!("{path}:{}: unwrap() outside a test", line_of(code, at))).collect()
}

#[cfg(test)]
mod unit {
    use super::*;

    fn findings(path: &str, text: &str) -> Findings {
        check(&[File { path: path.to_owned(), text: text.to_owned() }])
    }

    #[test]
    fn a_good_file_is_left_alone() {
        let text = "//! What.\nfn a() { /* unsafe */ }\n#[cfg(test)]\nmod tests { fn b() { c.unwrap() } }\n";
        assert_eq!(findings("crates/engine/src/a.rs", text), Findings::new());
    }

    #[test]
    fn each_offence_is_named() {
        let long = format!("fn long() {{\n{}}}\n", "    x();\n".repeat(FUNCTION_LINES));
        for (text, word) in [
            ("fn a() {}".to_owned(), "open with"),
            ("//! x\nfn a() { b.unwrap() }".to_owned(), "unwrap"),
            ("//! x\nfn a() { unsafe { b() } }".to_owned(), "unsafe"),
            (format!("//! x\n// {} later", UNDONE[0]), UNDONE[0]),
            (format!("//! x\n//{}", "-".repeat(COLUMNS)), "columns"),
            (format!("//! x\n{long}"), "`long` takes 72 lines"),
        ] {
            let found = findings("crates/engine/src/a.rs", &text);
            assert!(found.len() == 1 && found[0].contains(word), "{word}: {found:?}");
        }
        assert!(findings("crates/sys/src/a.rs", "//! x\nfn a() { unsafe { b() } }").is_empty());
    }
}
