//! Opens a queue: reads what is there, and cuts off what a crash has left unfinished.

use super::record::{self, Final, STATE_BYTES};
use super::{Entry, Shared};
use crate::error::{Error, Result};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A message that is left, and the recipients that are.
#[derive(Debug)]
pub(super) struct Left {
    pub(super) entry: Entry,
    pub(super) recipients: Vec<u32>,
}

/// What was found.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) shared: Arc<Shared>,
    pub(super) left: Vec<Left>,
    /// The lengths of the segments' files.
    pub(super) segments: BTreeMap<u32, u64>,
    /// What the user should know.
    pub(crate) notes: Vec<String>,
    /// Locked, because two relays with one queue would send everything twice.
    pub(super) lock: File,
}

/// Opens the queue in a directory, which is made if it does not exist. The files take at most `limit` bytes.
pub(crate) fn open(directory: &Path, limit: u64) -> Result<Found> {
    let wrong = |path: &Path, error: std::io::Error| Error::file(path, error.to_string());
    std::fs::create_dir_all(directory).map_err(|error| wrong(directory, error))?;
    let lock = lock(directory)?;
    let mut notes = Vec::new();
    let (mut mails, mut states) = (BTreeMap::new(), BTreeMap::new());
    for name in std::fs::read_dir(directory).map_err(|error| wrong(directory, error))? {
        let path = name.map_err(|error| wrong(directory, error))?.path();
        let number = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse::<u32>().ok());
        match (number, path.extension().and_then(|extension| extension.to_str())) {
            (Some(number), Some("mail")) => drop(mails.insert(number, path)),
            (Some(number), Some("states")) => drop(states.insert(number, path)),
            _ => {}
        }
    }
    let mut finals: HashMap<u64, HashSet<u32>> = HashMap::new();
    let mut segments: BTreeMap<u32, u64> = mails.keys().map(|&number| (number, 0)).collect();
    for (number, path) in &states {
        let Some(bytes) = segments.get_mut(number) else {
            // Its segment was deleted.
            std::fs::remove_file(path).map_err(|error| wrong(path, error))?;
            continue;
        };
        *bytes += read_states(path, &mut finals).map_err(|error| wrong(path, error))?;
    }
    let (mut entries, mut next_id) = (BTreeMap::new(), 1);
    for (&number, path) in &mails {
        let bytes = read_mail(number, path, &mut notes, |entry| {
            next_id = next_id.max(entry.id + 1);
            // A message that was moved may still be in the segment it came from; the later one is complete.
            entries.insert(entry.id, entry);
        });
        *segments.entry(number).or_default() += bytes.map_err(|error| wrong(path, error))?;
    }
    let left = entries.into_values().filter_map(|entry: Entry| {
        let done = finals.get(&entry.id);
        let is_left = |recipient: &u32| !done.is_some_and(|done| done.contains(recipient));
        let recipients: Vec<u32> = (0..entry.recipients).filter(is_left).collect();
        (!recipients.is_empty()).then_some(Left { entry, recipients })
    });
    let left = left.collect();
    // Identifiers of messages that are gone are not used again within a second.
    let next_id = next_id.max(first_id());
    let next_segment = segments.last_key_value().map_or(1, |(&last, _)| last + 1);
    let shared = Shared::new(directory, limit, next_id, next_segment);
    shared.grow(segments.values().sum());
    Ok(Found { shared: Arc::new(shared), left, segments, notes, lock })
}

/// Returns the first identifier of a run: one that grows with time, so that no log has the same twice.
fn first_id() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(1, |since| since.as_secs() << 24)
}

fn lock(directory: &Path) -> Result<File> {
    let path = directory.join("lock");
    let wrong = |reason: String| Error::file(&path, reason);
    let mut options = OpenOptions::new();
    let file =
        options.write(true).create(true).truncate(false).open(&path).map_err(|error| wrong(error.to_string()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(wrong("another relay uses this queue; name another directory".to_owned())),
        Err(TryLockError::Error(error)) => Err(wrong(error.to_string())),
    }
}

/// Reads states, and cuts off one that is not whole. Returns the length of the file.
fn read_states(path: &Path, finals: &mut HashMap<u64, HashSet<u32>>) -> std::io::Result<u64> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let mut input = BufReader::with_capacity(64 << 10, &file);
    let (mut bytes, mut record) = (0, [0; STATE_BYTES]);
    loop {
        match input.read_exact(&mut record) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(error),
        }
        // One that is damaged says nothing: its recipient is sent to again rather than forgotten.
        let Some(state) = Final::parse(&record) else { break };
        finals.entry(state.id).or_default().insert(state.recipient);
        bytes += STATE_BYTES as u64;
    }
    file.set_len(bytes)?;
    Ok(bytes)
}

/// Reads the messages of a segment, and cuts off what follows the last whole one. Returns the length of the file.
fn read_mail(
    number: u32,
    path: &PathBuf,
    notes: &mut Vec<String>,
    mut found: impl FnMut(Entry),
) -> std::io::Result<u64> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    let length = file.metadata()?.len();
    let mut input = BufReader::with_capacity(256 << 10, &file);
    let (mut offset, mut bytes) = (0, Vec::new());
    while record::read(&mut input, &mut bytes)? {
        let Some(message) = record::parse(&bytes) else { break };
        let (id, at_ms, recipients) = (message.meta.id, message.meta.at_ms, message.meta.to.len() as u32);
        found(Entry { id, segment: number, offset, bytes: bytes.len() as u64, recipients, at_ms });
        offset += bytes.len() as u64;
    }
    drop(input);
    if offset < length {
        let aside = path.with_extension("cut");
        notes.push(format!(
            "{}: the last {} bytes are not a whole message; they were moved to {}",
            path.display(),
            length - offset,
            aside.display()
        ));
        file.seek(SeekFrom::Start(offset))?;
        std::io::copy(&mut file, &mut File::create(&aside)?)?;
        file.set_len(offset)?;
    }
    Ok(offset)
}
