//! Opens a queue: reads what is there, skips what the device has damaged, and cuts off what a crash left unfinished.

use super::record::{self, About, Final, STATE_BYTES};
use super::{Entry, Shared};
use crate::error::{Error, Result};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
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
    /// The recipients whose state the file of their message's segment may lack.
    pub(super) unrecorded: Vec<(Entry, u32)>,
    /// Pairs of a segment and one that has copies of its messages, which are used.
    pub(super) moved: BTreeSet<(u32, u32)>,
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
        *bytes += read_states(path, &mut notes, &mut finals).map_err(|error| wrong(path, error))?;
    }
    let (mut entries, mut reported, mut next_id) = (BTreeMap::<u64, Entry>::new(), Vec::new(), 1);
    let mut copies = Vec::new();
    for (&number, path) in &mails {
        let bytes = read_mail(path, &mut notes, |offset, bytes, message| {
            let record::Message { meta, .. } = message;
            reported.extend(meta.about);
            next_id = next_id.max(meta.id + 1);
            let (bytes, recipients) = (bytes.len() as u64, meta.to.len() as u32);
            let entry = Entry { id: meta.id, segment: number, offset, bytes, recipients, at_ms: meta.at_ms };
            // A message that was moved may still be in the segment it came from; the later one is complete.
            let (id, to) = (entry.id, entry.segment);
            copies.extend(entries.insert(id, entry).map(|old| (id, old.segment, to)));
        });
        *segments.entry(number).or_default() += bytes.map_err(|error| wrong(path, error))?;
    }
    let mut unrecorded = record_reported(reported, &entries, &mut finals);
    for (id, ..) in &copies {
        // The states may be beside the copy that is not used.
        let (Some(entry), Some(known)) = (entries.get(id), finals.get(id)) else { continue };
        unrecorded.extend(known.iter().map(|&recipient| (entry.clone(), recipient)));
    }
    let moved = copies.into_iter().filter(|(_, from, to)| from != to).map(|(_, from, to)| (from, to)).collect();
    let left = entries.into_values().filter_map(|entry| {
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
    Ok(Found { shared: Arc::new(shared), left, unrecorded, moved, segments, notes, lock })
}

/// Adds what reports say to the states. Returns the recipients whose state no file of states has: a crash came between
/// the two.
fn record_reported(
    reported: Vec<About>,
    entries: &BTreeMap<u64, Entry>,
    finals: &mut HashMap<u64, HashSet<u32>>,
) -> Vec<(Entry, u32)> {
    let mut unrecorded = Vec::new();
    for About { id, recipients } in reported {
        let Some(entry) = entries.get(&id) else { continue };
        let known = finals.entry(id).or_default();
        unrecorded.extend(recipients.into_iter().filter(|index| known.insert(*index)).map(|at| (entry.clone(), at)));
    }
    unrecorded
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
fn read_states(path: &Path, notes: &mut Vec<String>, finals: &mut HashMap<u64, HashSet<u32>>) -> std::io::Result<u64> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let mut input = BufReader::with_capacity(64 << 10, &file);
    let (mut bytes, mut damaged, mut record) = (0, 0, [0; STATE_BYTES]);
    loop {
        match input.read_exact(&mut record) {
            Ok(()) => bytes += STATE_BYTES as u64,
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(error),
        }
        match Final::parse(&record) {
            Some(state) => drop(finals.entry(state.id).or_default().insert(state.recipient)),
            // It says nothing: its recipient is sent to again rather than forgotten.
            None => damaged += 1,
        }
    }
    if damaged > 0 {
        notes.push(format!("{}: {damaged} records are damaged; their recipients may be sent to again", path.display()));
    }
    file.set_len(bytes)?;
    Ok(bytes)
}

/// Reads the messages of a segment. A damaged record is skipped; what follows the last whole one is moved to another
/// file. Returns the length of the segment.
fn read_mail(
    path: &Path,
    notes: &mut Vec<String>,
    mut found: impl FnMut(u64, &[u8], record::Message<'_>),
) -> std::io::Result<u64> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let length = file.metadata()?.len();
    let (mut offset, mut bytes) = (0, Vec::new());
    let mut input = BufReader::with_capacity(256 << 10, &file);
    while offset < length {
        if record::read(&mut input, &mut bytes)?
            && let Some(message) = record::parse(&bytes)
        {
            found(offset, &bytes, message);
            offset += bytes.len() as u64;
            continue;
        }
        let Some(next) = next_record(&file, offset, length)? else { break };
        notes.push(format!(
            "{}: {} bytes from byte {offset} on are damaged; they are not delivered, and the messages after them are",
            path.display(),
            next - offset
        ));
        offset = next;
        input.seek(SeekFrom::Start(offset))?;
    }
    drop(input);
    if offset < length {
        let aside = set_aside(&file, path, offset)?;
        file.set_len(offset)?;
        file.sync_all()?;
        notes.push(format!(
            "{}: the last {} bytes are not a whole message; they were moved to {}",
            path.display(),
            length - offset,
            aside.display()
        ));
    }
    Ok(offset)
}

/// Returns where the first whole record after a damaged one begins.
///
/// Its head is searched for byte by byte, because the length in the head of the damaged record may be what is damaged.
/// No message can pretend to be a record: heads have NUL bytes, and the relay accepts no message that has one.
fn next_record(file: &File, damaged: u64, length: u64) -> std::io::Result<Option<u64>> {
    let rest = usize::try_from(length - damaged).map_err(|_| std::io::Error::other("a segment beyond memory"))?;
    let mut bytes = vec![0; rest];
    file.read_exact_at(&mut bytes, damaged)?;
    let next = (1..rest).find(|&at| record::is_head(&bytes[at..]) && record::parse(&bytes[at..]).is_some());
    Ok(next.map(|at| damaged + at as u64))
}

/// Copies the end of a segment to a file of its own, and syncs it. Returns its path.
fn set_aside(mut file: &File, path: &Path, offset: u64) -> std::io::Result<PathBuf> {
    let mut number = 0;
    let (aside, mut copy) = loop {
        let extension = if number == 0 { "cut".to_owned() } else { format!("cut{number}") };
        let aside = path.with_extension(extension);
        match OpenOptions::new().write(true).create_new(true).open(&aside) {
            Ok(copy) => break (aside, copy),
            // An earlier crash has left one.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error),
        }
    };
    file.seek(SeekFrom::Start(offset))?;
    std::io::copy(&mut file, &mut copy)?;
    copy.sync_all()?;
    if let Some(directory) = path.parent() {
        File::open(directory)?.sync_all()?;
    }
    Ok(aside)
}
