//! Mailboxes: a Maildir for each recipient, so that a sender's ledger can be compared with the mail that arrived.
//!
//! A message is one file for each recipient, with the content exactly as it was sent, including line ends. It is
//! written to `tmp` and renamed to `new` before the message is acknowledged. File names begin with the number of the
//! message in the order of delivery, so that sorting by name gives that order. Nothing is synced: a system crash may
//! lose the contents of the page cache.

use super::error::Error;
use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The mailboxes of a sink.
#[derive(Debug)]
pub struct Mailboxes {
    root: PathBuf,
    /// The mailboxes whose directories exist.
    made: HashSet<String>,
}

impl Mailboxes {
    /// Creates the directory, which must be empty or missing: old messages would be mistaken for messages of this run.
    pub fn create(root: &Path) -> Result<Self, Error> {
        let failed = |cause| Error::Maildir { path: root.to_owned(), cause };
        fs::create_dir_all(root).map_err(failed)?;
        if fs::read_dir(root).map_err(failed)?.next().is_some() {
            return Err(failed(io::Error::new(io::ErrorKind::DirectoryNotEmpty, "it is not empty; specify another")));
        }
        Ok(Self { root: root.to_owned(), made: HashSet::new() })
    }

    /// Delivers message `number` to each recipient.
    pub(crate) fn deliver(&mut self, number: u64, recipients: &[String], content: &[u8]) -> io::Result<()> {
        let mut first: Option<PathBuf> = None;
        for (index, recipient) in recipients.iter().enumerate() {
            let mailbox = self.mailbox(recipient)?;
            let name = format!("{number:012}.R{index}.landau,S={}", content.len());
            let (written, delivered) = (mailbox.join("tmp").join(&name), mailbox.join("new").join(&name));
            match &first {
                // All recipients of a message have the same content.
                Some(first) => fs::hard_link(first, &written)?,
                None => fs::write(&written, content)?,
            }
            fs::rename(&written, &delivered)?;
            first.get_or_insert(delivered);
        }
        Ok(())
    }

    /// Returns the directory of a recipient's mailbox, and creates it if it is new.
    fn mailbox(&mut self, recipient: &str) -> io::Result<PathBuf> {
        let name = directory_name(recipient);
        let path = self.root.join(&name);
        if !self.made.contains(&name) {
            for part in ["tmp", "new", "cur"] {
                fs::create_dir_all(path.join(part))?;
            }
            self.made.insert(name);
        }
        Ok(path)
    }
}

/// Returns the name of a recipient's mailbox: the address, its domain in lower case, and bytes other than letters,
/// digits and `@-_+=.` as `%` with two hexadecimal digits. A leading dot is also encoded, so a name is never `.` or
/// `..`.
pub fn directory_name(recipient: &str) -> String {
    let (local, domain) = recipient.rsplit_once('@').map_or((recipient, None), |(local, domain)| (local, Some(domain)));
    let address = domain.map_or(local.to_owned(), |domain| format!("{local}@{}", domain.to_ascii_lowercase()));
    let mut name = String::with_capacity(address.len());
    for byte in address.bytes() {
        let is_plain = byte.is_ascii_alphanumeric() || b"@-_+=".contains(&byte) || (byte == b'.' && !name.is_empty());
        if is_plain {
            name.push(char::from(byte));
        } else {
            let digit = |value: u8| char::from(b"0123456789ABCDEF"[usize::from(value)]);
            name.extend(['%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_mailboxes_are_names_of_directories() {
        for (recipient, name) in [
            ("a.b+c@X.Example", "a.b+c@x.example"),
            ("A@x.example", "A@x.example"),
            ("\"../a b\"@x.example", "%22..%2Fa%20b%22@x.example"),
            ("\u{e9}@x.example", "%C3%A9@x.example"),
            ("a%@x.example", "a%25@x.example"),
            ("postmaster", "postmaster"),
            ("..", "%2E."),
        ] {
            assert_eq!(directory_name(recipient), name);
        }
    }

    #[test]
    fn each_recipient_has_the_exact_bytes_in_order() {
        let room = tempfile::tempdir().unwrap();
        let root = room.path().join("mail");
        let mut mailboxes = Mailboxes::create(&root).unwrap();
        let [a, b] = ["a@x.example", "b@x.example"].map(str::to_owned);
        mailboxes.deliver(0, &[a.clone(), b.clone(), a.clone()], b"one\r\n\x80\0").unwrap();
        mailboxes.deliver(1, &[b], b"two").unwrap();
        let read = |name: &str| {
            let mut files: Vec<PathBuf> =
                fs::read_dir(root.join(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
            files.sort();
            files.iter().map(|file| fs::read(file).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(read("a@x.example/new"), [b"one\r\n\x80\0", b"one\r\n\x80\0"]);
        assert_eq!(read("b@x.example/new"), [&b"one\r\n\x80\0"[..], b"two"]);
        assert!(read("a@x.example/tmp").is_empty() && read("a@x.example/cur").is_empty());
        assert!(Mailboxes::create(&root).is_err(), "old messages would be taken for this run's");
    }
}
