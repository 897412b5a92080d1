//! The configuration file: the keys of the command line's flags, and rules by path.
//!
//! A flag's key is its long name. Only the command line knows what the value means. It reads a value from the file like
//! one of its own arguments, so there is no second parser that could disagree.

use super::document::{self, Entry, Problem, Table};
use super::rule;
use crate::rules::{Rule, Rules};

/// The contents of a configuration file.
#[derive(Debug)]
pub struct ConfigFile {
    /// The keys outside of rules.
    pub settings: Vec<Setting>,
    /// The rules.
    pub rules: Rules,
}

/// A key outside of rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The line, counted from 1.
    pub line: usize,
    /// The key.
    pub key: String,
    /// The words of each occurrence of the flag: no occurrence for `false`, one without words for `true`.
    pub occurrences: Vec<Vec<String>>,
}

impl Setting {
    /// Returns an error of this key.
    pub fn problem(&self, reason: impl Into<String>) -> Problem {
        Problem { line: self.line, key: self.key.clone(), reason: reason.into() }
    }
}

impl ConfigFile {
    /// Parses the text of a file. `known` are the keys outside of rules. Returns all errors, sorted by line.
    pub fn parse(text: &str, known: &[&str]) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let (settings, rules) = match document::read(text, |table| read(table, known, &mut problems)) {
            Ok(read) => read,
            Err(found) => {
                problems = found;
                Default::default()
            }
        };
        if problems.is_empty() {
            let rules =
                Rules::new(rules).map_err(|reason| vec![Problem { line: 1, key: "rule".to_owned(), reason }])?;
            problems = rules.loops();
            if problems.is_empty() {
                return Ok(Self { settings, rules });
            }
        }
        problems.sort_by_key(|problem| problem.line);
        Err(problems)
    }
}

fn read(mut table: Table<'_>, known: &[&str], problems: &mut Vec<Problem>) -> (Vec<Setting>, Vec<Rule>) {
    let rules = table.take("rule").map(|entry| entry.elements()).unwrap_or_default();
    let rules = rules.iter().filter_map(|rule| rule::read(rule, known, problems)).collect();
    let mut names = known.to_vec();
    names.push("rule");
    let mut setting = |(name, entry): (&str, Entry<'_>)| {
        let read = if known.contains(&name) { entry.occurrences() } else { Err(entry.unknown(name, &names)) };
        let occurrences = read.map_err(|problem| problems.push(problem)).ok()?;
        Some(Setting { line: entry.item.line, key: name.to_owned(), occurrences })
    };
    (table.rest().filter_map(&mut setting).collect(), rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[&str] = &["root", "listen", "workers", "no-listings", "tls"];

    fn problems(text: &str) -> Vec<String> {
        ConfigFile::parse(text, KNOWN).unwrap_err().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn settings_are_words_of_the_command_line() {
        let text = "root = '/srv'\nworkers = 2\nlisten = [':80', 'tls::443']\nno-listings = true\n\
            tls = [['a', 'b'], ['c', 'd']]\n";
        let file = ConfigFile::parse(text, KNOWN).unwrap();
        let mut got: Vec<(usize, &str, String)> = file
            .settings
            .iter()
            .map(|one| (one.line, &one.key[..], one.occurrences.iter().map(|words| words.join("+") + ";").collect()))
            .collect();
        got.sort();
        let expected = [
            (1, "root", "/srv;"),
            (2, "workers", "2;"),
            (3, "listen", ":80;tls::443;"),
            (4, "no-listings", ";"),
            (5, "tls", "a+b;c+d;"),
        ];
        assert_eq!(got, expected.map(|(line, key, words)| (line, key, words.to_owned())));
        assert!(ConfigFile::parse("no-listings = false", KNOWN).unwrap().settings[0].occurrences.is_empty());
        for (written, read) in [("0xbb8", "3000"), ("0b101", "5"), ("0o17", "15"), ("+7", "7"), ("1_000", "1000")] {
            let file = ConfigFile::parse(&format!("workers = {written}\n"), KNOWN).unwrap();
            assert_eq!(file.settings[0].occurrences, [[read]], "{written}");
        }
    }

    /// Such a key was once read without effect.
    #[test]
    fn a_part_of_what_a_rule_does_not_set_is_an_error() {
        for (part, whole) in [("burst = 2", "rate = '1/s'"), ("redirect-status = 301", "redirect = 'http://b'")] {
            let rule = format!("[[rule]]\npath = '/'\n{part}\n");
            let key = part.split(' ').next().unwrap();
            let found = problems(&rule);
            assert!(found.len() == 1 && found[0].contains(key), "{found:?}");
            assert!(ConfigFile::parse(&format!("{rule}{whole}\n"), KNOWN).is_ok(), "{whole}");
        }
    }

    #[test]
    fn every_error_is_told_with_its_line_and_key() {
        let text = "worker = 2\nroot = 1979-05-27\n\n[[rule]]\npath = '/a/'\nset-headers = { X-A = \"b\\r\\nc\" }\n\
            set-header = 1\n\n[[rule]]\nset-headers = { 'X A' = 'b' }\n";
        let expected = [
            "1: worker: unknown key; did you mean workers?",
            "2: root: expected a string or a number, got a date",
            "6: rule.set-headers.X-A: a value cannot contain control characters, such as line ends",
            "7: rule.set-header: unknown key; did you mean set-headers?",
            "9: rule: no path; path = \"/\" matches all paths",
            "10: rule.set-headers.X A: not a valid name",
        ];
        assert_eq!(problems(text), expected);
    }

    /// The message was once "Did you mean listings?".
    #[test]
    fn a_key_of_the_file_below_a_rule_is_told_where_it_belongs() {
        let told = problems("[[rule]]\npath = '/a'\nlisten = ':80'\n");
        let why = "this key belongs above the first [[rule]], because keys below a [[rule]] belong to that rule";
        assert_eq!(told, [format!("3: rule.listen: {why}")]);
    }

    /// Only one of the two was once sent.
    #[test]
    fn a_name_in_two_cases_is_an_error() {
        for (key, line) in [
            ("rule.set-headers.x", "set-headers = { X = 'a', x = 'b' }"),
            ("rule.add-headers.x", "add-headers = { X = 'a', x = 'b' }"),
            ("rule.proxy.set-headers.x", "proxy = { to = 'http://a', set-headers = { X = 'a', x = 'b' } }"),
        ] {
            let told = problems(&format!("[[rule]]\npath = '/a/'\n{line}\n"));
            assert_eq!(told, [format!("3: {key}: duplicate field: names are case-insensitive")]);
        }
        for line in ["types = { '.A' = 'a/b', a = 'a/c' }", "error-pages = { 404 = '/a', '0404' = '/b' }"] {
            let told = problems(&format!("[[rule]]\npath = '/a/'\n{line}\n"));
            assert!(told.len() == 1 && told[0].ends_with("duplicate key, in another form"), "{told:?}");
        }
        let fine = "[[rule]]\npath = '/a/'\nset-headers = { X = ['a', 'b'] }\nadd-headers = { x = 'c' }\n";
        assert!(ConfigFile::parse(fine, KNOWN).is_ok());
    }

    #[test]
    fn what_is_no_toml_is_told_with_its_line() {
        let got = problems("root = '/srv'\nworkers = \nlisten = [\n");
        assert!(got[0].starts_with("2: "), "{got:?}");
        assert!(problems("root = 'a'\nroot = 'b'\n")[0].starts_with("2: "));
    }
}
