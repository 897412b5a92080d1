//! A TOML document, read key by key. Each value knows its line, and a table knows which keys were requested.

use std::collections::BTreeMap;
use std::fmt::{Display, Formatter};
use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// An error at one place in a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The line, counted from 1.
    pub line: usize,
    /// The key, with those of the enclosing tables; empty if the text is not TOML.
    pub key: String,
    /// The reason.
    pub reason: String,
}

impl Display for Problem {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let colon = if self.key.is_empty() { "" } else { ": " };
        write!(f, "{}: {}{colon}{}", self.line, self.key, self.reason)
    }
}

/// A value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Item<'a> {
    text: &'a str,
    value: &'a DeValue<'a>,
    pub(super) line: usize,
}

/// A value with its full key, for messages.
#[derive(Debug, Clone)]
pub(super) struct Entry<'a> {
    pub(super) key: String,
    pub(super) item: Item<'a>,
}

/// A table, whose entries are taken out one by one.
#[derive(Debug)]
pub(super) struct Table<'a> {
    key: String,
    pub(super) line: usize,
    entries: BTreeMap<&'a str, Entry<'a>>,
    known: Vec<&'static str>,
}

/// Parses a document and passes its top-level table to `read`. Returns the syntax errors, if there are any.
pub(super) fn read<T>(text: &str, read: impl FnOnce(Table<'_>) -> T) -> Result<T, Vec<Problem>> {
    let (document, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let problem = |error: toml::de::Error| Problem {
            line: line_of(text, error.span()),
            key: String::new(),
            reason: error.message().to_owned(),
        };
        return Err(errors.into_iter().map(problem).collect());
    }
    Ok(read(Table::new(text, String::new(), 1, document.get_ref())))
}

fn line_of(text: &str, span: Option<Range<usize>>) -> usize {
    let start = span.map_or(0, |span| span.start.min(text.len()));
    1 + text[..start].matches('\n').count()
}

impl<'a> Table<'a> {
    fn new(text: &'a str, key: String, line: usize, table: &'a DeTable<'a>) -> Self {
        let mut entries = BTreeMap::new();
        for (name, value) in table {
            let whole = if key.is_empty() { name.get_ref().to_string() } else { format!("{key}.{}", name.get_ref()) };
            let item = Item { text, value: value.get_ref(), line: line_of(text, Some(name.span())) };
            entries.insert(name.get_ref().as_ref(), Entry { key: whole, item });
        }
        Self { key, line, entries, known: Vec::new() }
    }

    /// Takes the entry with this key.
    pub(super) fn take(&mut self, key: &'static str) -> Option<Entry<'a>> {
        self.known.push(key);
        self.entries.remove(key)
    }

    /// Takes the entry with this key and reads it; records an error in `problems`.
    pub(super) fn read<T>(
        &mut self,
        key: &'static str,
        problems: &mut Vec<Problem>,
        read: impl FnOnce(&Entry<'a>) -> Result<T, Problem>,
    ) -> Option<T> {
        let entry = self.take(key)?;
        read(&entry).map_err(|problem| problems.push(problem)).ok()
    }

    /// Returns the entries that were not taken, by key.
    pub(super) fn rest(self) -> impl Iterator<Item = (&'a str, Entry<'a>)> {
        self.entries.into_iter()
    }

    /// Records an error for each key that was not requested.
    pub(super) fn finish(self, problems: &mut Vec<Problem>) {
        self.finish_in_rule(&[], problems);
    }

    /// Like `finish`, for a rule. `above` are the keys that belong above the first rule.
    pub(super) fn finish_in_rule(self, above: &[&str], problems: &mut Vec<Problem>) {
        let Self { entries, known, .. } = self;
        problems.extend(entries.into_iter().map(|(name, entry)| {
            if above.contains(&name) {
                entry.problem(
                    "this key belongs above the first [[rule]], because keys below a [[rule]] belong to that rule",
                )
            } else {
                entry.unknown(name, &known)
            }
        }));
    }

    pub(super) fn problem(&self, reason: impl Into<String>) -> Problem {
        Problem { line: self.line, key: self.key.clone(), reason: reason.into() }
    }
}

impl<'a> Entry<'a> {
    pub(super) fn problem(&self, reason: impl Into<String>) -> Problem {
        Problem { line: self.item.line, key: self.key.clone(), reason: reason.into() }
    }

    /// Returns the error of an unknown key, with the most similar known key.
    pub(super) fn unknown(&self, name: &str, known: &[&str]) -> Problem {
        let nearest = known
            .iter()
            .map(|word| (strsim::jaro_winkler(name, word), word))
            .filter(|(likeness, _)| *likeness > 0.75)
            .max_by(|one, other| one.0.total_cmp(&other.0));
        self.problem(match nearest {
            Some((_, word)) => format!("unknown key; did you mean {word}?"),
            None => format!("unknown key; expected one of {}", known.join(", ")),
        })
    }

    fn expected<T>(&self, what: &str) -> Result<T, Problem> {
        Err(self.problem(format!("expected {what}, got {}", self.item.kind())))
    }

    pub(super) fn text(&self) -> Result<&'a str, Problem> {
        match self.item.value {
            DeValue::String(text) => Ok(text),
            _ => self.expected("a string"),
        }
    }

    pub(super) fn flag(&self) -> Result<bool, Problem> {
        match self.item.value {
            DeValue::Boolean(is_set) => Ok(*is_set),
            _ => self.expected("true or false"),
        }
    }

    /// Reads a number in the range.
    pub(super) fn number(&self, range: std::ops::RangeInclusive<u64>) -> Result<u64, Problem> {
        let DeValue::Integer(number) = self.item.value else { return self.expected("a number") };
        let digits = number.as_str().replace('_', "");
        let number = u64::from_str_radix(&digits, number.radix()).ok();
        let beyond = || self.problem(format!("expected a number from {} to {}", range.start(), range.end()));
        number.filter(|number| range.contains(number)).ok_or_else(beyond)
    }

    /// Reads a string with the given parser.
    pub(super) fn parse<T, E: Display>(&self, parse: impl FnOnce(&str) -> Result<T, E>) -> Result<T, Problem> {
        let text = self.text()?;
        parse(text).map_err(|error| self.problem(format!("{text:?}: {error}")))
    }

    /// Returns the elements of an array, or the value itself if it is not an array: a list of one needs no brackets.
    pub(super) fn elements(&self) -> Vec<Self> {
        let DeValue::Array(array) = self.item.value else { return vec![self.clone()] };
        let text = self.item.text;
        let element = |value: &'a toml::Spanned<DeValue<'a>>| {
            let item = Item { text, value: value.get_ref(), line: line_of(text, Some(value.span())) };
            Self { key: self.key.clone(), item }
        };
        array.iter().map(element).collect()
    }

    /// Reads each string of a list with the given parser.
    pub(super) fn parse_each<T, E: Display>(
        &self,
        mut parse: impl FnMut(&str) -> Result<T, E>,
    ) -> Result<Vec<T>, Problem> {
        self.elements().iter().map(|element| element.parse(&mut parse)).collect()
    }

    pub(super) fn table(&self) -> Result<Table<'a>, Problem> {
        match self.item.value {
            DeValue::Table(table) => Ok(Table::new(self.item.text, self.key.clone(), self.item.line, table)),
            _ => self.expected("a table"),
        }
    }

    /// Returns the value in the form of command-line flags: the words of each occurrence. `true` is one occurrence
    /// without words, and `false` is none. An array of arrays is several occurrences with several words each.
    pub(super) fn occurrences(&self) -> Result<Vec<Vec<String>>, Problem> {
        match self.item.value {
            DeValue::Boolean(true) => Ok(vec![Vec::new()]),
            DeValue::Boolean(false) => Ok(Vec::new()),
            _ => self.elements().iter().map(|one| one.elements().iter().map(Self::word).collect()).collect(),
        }
    }

    fn word(&self) -> Result<String, Problem> {
        match self.item.value {
            DeValue::String(text) => Ok(text.to_string()),
            DeValue::Integer(_) => self.number(0..=u64::MAX).map(|number| number.to_string()),
            _ => self.expected("a string or a number"),
        }
    }
}

impl Item<'_> {
    fn kind(self) -> &'static str {
        match self.value {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) | DeValue::Float(_) => "a number",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        }
    }
}
