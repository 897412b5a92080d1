//! The list of recipients: a file, standard input, or a synthetic list. Read one record at a time, so that the memory
//! use does not grow with the list.
//!
//! Two forms of text are read. Without a header, each line is an address; empty lines and lines that start with `#` are
//! skipped. With a header, which is a first line without `@`, it is CSV (RFC 4180): the address is in the column
//! `email`, `address` or `to`, or otherwise in the first one, and the other columns are fields of the message.

use crate::error::{Error, Result};
use crate::synthetic::Synthetic;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// The names of a column that holds the address.
const ADDRESS_COLUMNS: [&str; 3] = ["email", "address", "to"];

/// A record of the list. The text of all fields is one string, whose memory is reused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    text: String,
    /// Where each field ends; empty if the record is only an address.
    ends: Vec<u32>,
    /// The index of the field that holds the address.
    address: u32,
}

impl Record {
    /// Returns the address, without blanks around it.
    pub fn address(&self) -> &str {
        if self.ends.is_empty() { &self.text } else { self.field(self.address as usize).trim() }
    }

    /// Returns the field at `index`; empty if there is none.
    pub fn field(&self, index: usize) -> &str {
        let start = if index == 0 { 0 } else { self.ends.get(index - 1).map_or(0, |&end| end as usize) };
        self.ends.get(index).and_then(|&end| self.text.get(start..end as usize)).unwrap_or_default()
    }

    /// Returns whether all fields are ASCII.
    pub(crate) fn is_ascii(&self) -> bool {
        self.text.is_ascii()
    }

    /// Returns whether a field has a control character, which could end a line of the header.
    pub(crate) fn has_control(&self) -> bool {
        self.text.bytes().any(|byte| byte.is_ascii_control())
    }

    /// Replaces the record by one that is only an address.
    pub(crate) fn set_address(&mut self, address: &str) {
        self.text.clear();
        self.text.push_str(address);
        self.ends.clear();
    }

    /// Returns the text of a record that is only an address.
    pub(crate) fn text_mut(&mut self) -> &mut String {
        &mut self.text
    }

    /// Replaces the record by one with these fields.
    pub(crate) fn set<'a>(&mut self, fields: impl IntoIterator<Item = &'a str>) {
        self.text.clear();
        self.ends.clear();
        for field in fields {
            self.text.push_str(field);
            self.ends.push(self.text.len() as u32);
        }
    }
}

/// A source of records.
enum Source {
    /// One address per line.
    Lines(Box<dyn BufRead>),
    /// A table with a header.
    Table(Box<csv::Reader<Box<dyn BufRead>>>, csv::StringRecord),
    /// Generated records.
    Synthetic(Box<Synthetic>),
}

/// A list of recipients, as a stream of records.
pub struct List {
    source: Source,
    columns: Vec<String>,
    address: u32,
    /// The number of the last line that was read, from 1.
    line: u64,
    buffer: String,
}

impl std::fmt::Debug for List {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "List(columns {:?}, line {})", self.columns, self.line)
    }
}

impl List {
    /// Opens a file; `-` is standard input.
    pub fn open(path: &Path) -> Result<Self> {
        if path == Path::new("-") {
            return Self::read(std::io::stdin());
        }
        let file = std::fs::File::open(path).map_err(|error| Error::file(path, error.to_string()))?;
        Self::read(file)
    }

    /// Reads the first line, which decides the form.
    pub fn read(input: impl Read + 'static) -> Result<Self> {
        let mut input: Box<dyn BufRead> = Box::new(BufReader::with_capacity(64 << 10, input));
        let mut first = Vec::new();
        input.read_until(b'\n', &mut first).map_err(|error| unreadable(1, &error))?;
        let text = first.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&first).to_vec();
        let is_header = !text.contains(&b'@') && !text.starts_with(b"#") && !text.trim_ascii().is_empty();
        let whole: Box<dyn BufRead> = Box::new(BufReader::new(std::io::Cursor::new(text).chain(input)));
        let empty = Self {
            source: Source::Lines(Box::new(std::io::empty())),
            columns: Vec::new(),
            address: 0,
            line: 0,
            buffer: String::new(),
        };
        if !is_header {
            return Ok(Self { source: Source::Lines(whole), ..empty });
        }
        let mut table = csv::ReaderBuilder::new().flexible(false).from_reader(whole);
        let header = table.headers().map_err(|error| malformed(1, &error))?;
        let columns: Vec<String> = header.iter().map(|name| name.trim().to_owned()).collect();
        let is_address = |name: &&String| ADDRESS_COLUMNS.iter().any(|one| name.eq_ignore_ascii_case(one));
        let address = columns.iter().position(|name| is_address(&name)).unwrap_or(0) as u32;
        let source = Source::Table(Box::new(table), csv::StringRecord::new());
        Ok(Self { source, columns, address, line: 1, ..empty })
    }

    /// Returns a synthetic list.
    pub fn synthetic(synthetic: Synthetic) -> Self {
        Self {
            source: Source::Synthetic(Box::new(synthetic)),
            columns: Vec::new(),
            address: 0,
            line: 0,
            buffer: String::new(),
        }
    }

    /// Distributes the following recipients of a synthetic list over `count` domains; other lists do not change.
    pub(crate) fn use_domains(&mut self, count: u32) {
        if let Source::Synthetic(synthetic) = &mut self.source {
            synthetic.use_domains(count);
        }
    }

    /// Returns the names of the columns; none for a list of addresses.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Reads the next record. Returns whether there was one.
    ///
    /// # Errors
    ///
    /// The list cannot be read, is not UTF-8, or a line of a table does not have as many fields as the header.
    pub fn next(&mut self, record: &mut Record) -> Result<bool> {
        match &mut self.source {
            Source::Lines(input) => loop {
                self.line += 1;
                self.buffer.clear();
                let count = input.read_line(&mut self.buffer).map_err(|error| unreadable(self.line, &error))?;
                let text = self.buffer.trim();
                if count == 0 {
                    return Ok(false);
                }
                if !text.is_empty() && !text.starts_with('#') {
                    record.set_address(text);
                    return Ok(true);
                }
            },
            Source::Table(table, row) => {
                let has_row = table.read_record(row).map_err(|error| malformed(self.line + 1, &error))?;
                self.line = row.position().map_or(self.line, csv::Position::line);
                record.set(row.iter());
                record.address = self.address;
                Ok(has_row)
            }
            Source::Synthetic(synthetic) => Ok(synthetic.next(record)),
        }
    }
}

fn unreadable(line: u64, error: &std::io::Error) -> Error {
    let is_text = error.kind() == std::io::ErrorKind::InvalidData;
    let reason = if is_text { "not UTF-8; convert the list with iconv".to_owned() } else { error.to_string() };
    Error::List { line, reason }
}

fn malformed(line: u64, error: &csv::Error) -> Error {
    Error::List { line, reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(text: &'static str) -> Vec<String> {
        let mut list = List::read(text.as_bytes()).unwrap();
        let (mut record, mut found) = (Record::default(), Vec::new());
        while list.next(&mut record).unwrap() {
            found.push(record.address().to_owned());
        }
        found
    }

    #[test]
    fn lines_are_addresses_and_comments_are_skipped() {
        assert_eq!(addresses("a@b\n\n# c@d\n e@f \r\n\"x,y\"@z"), ["a@b", "e@f", "\"x,y\"@z"]);
        assert_eq!(addresses(""), Vec::<String>::new());
        assert_eq!(addresses("\u{feff}a@b\n"), ["a@b"]);
    }

    #[test]
    fn a_header_makes_it_a_table() {
        let mut list = List::read(&b"name,Email\n\"Doe, J\",j@x.org\nA,a@x.org\n"[..]).unwrap();
        assert_eq!(list.columns(), ["name", "Email"]);
        let mut record = Record::default();
        assert!(list.next(&mut record).unwrap());
        assert_eq!((record.address(), record.field(0), record.field(2)), ("j@x.org", "Doe, J", ""));
        assert!(list.next(&mut record).unwrap() && !list.next(&mut record).unwrap());
        let mut list = List::read(&b"name, email\nJane, jane@x.test \n"[..]).unwrap();
        assert!(list.next(&mut record).unwrap());
        assert_eq!((record.address(), record.field(1)), ("jane@x.test", " jane@x.test "));
        let mut list = List::read(&b"email,name\na@b,x,y\n"[..]).unwrap();
        let error = list.next(&mut record).unwrap_err().to_string();
        assert!(error.starts_with("line 2 of the list: "), "{error}");
    }

    #[test]
    fn a_list_that_is_not_utf8_is_an_error() {
        let mut list = List::read(&b"a@b\n\xff@c\n"[..]).unwrap();
        let mut record = Record::default();
        assert!(list.next(&mut record).unwrap());
        assert!(list.next(&mut record).unwrap_err().to_string().contains("line 2 of the list: not UTF-8"));
    }
}
