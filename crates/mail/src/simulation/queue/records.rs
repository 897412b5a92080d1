//! The ledger of a relay, which shows the states recorded in the queue: each line is written after the state it
//! describes.

use serde::Deserialize;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A recipient, by the identifier of its message and its index there.
pub(super) type Place = (u64, u32);

/// The final outcome of a recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Sent,
    Failed,
    Deleted,
}

/// A line about the final outcome of a recipient.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) place: Place,
    pub(super) local: String,
    pub(super) outcome: Outcome,
}

#[derive(Deserialize)]
struct Line<'a> {
    message: &'a str,
    recipient: u32,
    #[serde(borrow)]
    to: Cow<'a, str>,
    state: &'a str,
}

/// The part of the ledger that was read so far.
#[derive(Debug)]
pub(super) struct Records {
    pub(super) path: PathBuf,
    file: File,
    bytes: u64,
    /// The recipients that are recorded.
    pub(super) finals: BTreeMap<Place, Outcome>,
    /// The recipients of failed reports, by their numbers.
    pub(super) failed_reports: BTreeSet<u32>,
}

impl Records {
    /// Begins a ledger.
    pub(super) fn new(path: &Path) -> Self {
        let file = File::options().read(true).write(true).create_new(true).open(path).unwrap();
        let (finals, failed_reports) = (BTreeMap::new(), BTreeSet::new());
        Self { path: path.to_owned(), file, bytes: 0, finals, failed_reports }
    }

    /// Reads the new lines about recipients that the relay has finished.
    pub(super) fn read(&mut self) -> Vec<Recorded> {
        let length = self.file.metadata().unwrap().len();
        let mut text = vec![0; (length - self.bytes) as usize];
        self.file.read_exact_at(&mut text, self.bytes).unwrap();
        self.bytes = length;
        std::str::from_utf8(&text).unwrap().lines().filter_map(recorded).collect()
    }
}

fn recorded(line: &str) -> Option<Recorded> {
    let Line { message, recipient, to, state } = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
    let outcome = match state {
        "sent" => Outcome::Sent,
        "failed" => Outcome::Failed,
        "deleted" => Outcome::Deleted,
        "deferred" => return None,
        other => panic!("{other} in {line}"),
    };
    let place = (u64::from_str_radix(message, 16).unwrap(), recipient);
    Some(Recorded { place, local: to.split('@').next().unwrap_or_default().to_owned(), outcome })
}
