//! Opens a queue: reads its files, skips records that the device has damaged, and cuts off records that a crash left
//! incomplete. Both are copied to other files, which count as part of the queue.
//!
//! The files found are synced before their contents are used, unless the user leaves syncs to the system: a killed
//! relay may have written them without a sync. Otherwise a system crash could lose a copy whose original was deleted
//! since, or a report whose failures were recorded.

use super::record::{self, About, Final};
use super::scan::{self, Source, States};
use super::{Entry, Shared, control, disk};
use crate::error::{Error, Result};
use crate::ledger::Sync;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The file that a relay locks.
pub(crate) const LOCK: &str = "lock";

/// How often a relay checks whether the queue is free, and the time between two checks.
const LOCK_LOOKS: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// The data set aside takes at most the queue's limit divided by this number.
const ASIDE_SHARE: u64 = 8;

/// A remaining message and its remaining recipients.
#[derive(Debug)]
pub(super) struct Left {
    pub(super) entry: Entry,
    pub(super) recipients: Vec<u32>,
}

/// The contents of an opened queue.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) shared: Arc<Shared>,
    pub(super) left: Vec<Left>,
    /// The recipients whose state may be missing in the states file of their segment.
    pub(super) unrecorded: Vec<(Entry, u32)>,
    /// Pairs of a segment and another one with copies of its messages. The copies are used.
    pub(super) moved: BTreeSet<(u32, u32)>,
    /// The lengths of the segments' files.
    pub(super) segments: BTreeMap<u32, u64>,
    /// The segments that are not deleted, because the device cannot read parts of them.
    pub(super) kept: BTreeSet<u32>,
    /// Notes for the user.
    pub(crate) notes: Vec<String>,
    /// The bytes of messages that are damaged, and of the ends that a crash cut off.
    pub(crate) damaged_bytes: u64,
    /// The messages that wait until the user releases them.
    pub(super) held: BTreeSet<u64>,
    /// The lock file: two relays with one queue would send everything twice.
    pub(super) lock: File,
}

impl Found {
    /// Leaves the segments unchanged, so that they need not be synced.
    pub(crate) fn only_read(&mut self) {
        self.kept = self.segments.keys().copied().collect();
        self.unrecorded.clear();
    }
}

/// Opens the queue in a directory, which is created if it does not exist. The files take at most `limit` bytes.
pub(crate) fn open(directory: &Path, limit: u64, sync: Sync) -> Result<Found> {
    // `landau queue` may hold the lock for a moment.
    for _ in 0..LOCK_LOOKS {
        if let Some(found) = try_open(directory, limit, sync)? {
            return Ok(found);
        }
        std::thread::sleep(LOCK_PAUSE);
    }
    let reason = "another relay is using this queue; specify another directory".to_owned();
    Err(Error::file(&directory.join(LOCK), reason))
}

/// Whether a process uses a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InUse {
    Yes,
    No,
    /// This user lacks the permission to check.
    Unknown,
}

/// Returns whether a process uses the queue in a directory.
pub(crate) fn in_use(directory: &Path) -> InUse {
    // A relay that starts at this moment retries the lock.
    match File::open(directory.join(LOCK)).map(|lock| lock.try_lock_shared()) {
        Ok(Ok(())) => InUse::No,
        Ok(Err(TryLockError::WouldBlock)) => InUse::Yes,
        Ok(Err(TryLockError::Error(_))) | Err(_) => InUse::Unknown,
    }
}

/// Opens the queue in a directory as [`open`] does; `None` if another process uses it.
pub(crate) fn try_open(directory: &Path, limit: u64, sync: Sync) -> Result<Option<Found>> {
    let wrong = |path: &Path, error: io::Error| Error::file(path, error.to_string());
    // Mail is private: other users must not read it.
    let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|error| wrong(directory, error))?;
    let lock = lock(directory).map_err(|error| wrong(&directory.join(LOCK), error))?;
    let Some(lock) = lock else { return Ok(None) };
    let mut review = Review::new(sync, limit / ASIDE_SHARE);
    let (mut mails, mut states) = (BTreeMap::new(), BTreeMap::new());
    for name in std::fs::read_dir(directory).map_err(|error| wrong(directory, error))? {
        let path = name.map_err(|error| wrong(directory, error))?.path();
        let number = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse::<u32>().ok());
        match (number, path.extension().and_then(|extension| extension.to_str())) {
            (Some(number), Some("mail")) => drop(mails.insert(number, path)),
            (Some(number), Some("states")) => drop(states.insert(number, path)),
            (Some(_), Some(extension)) if extension.starts_with("cut") => {
                review.aside_bytes += std::fs::metadata(&path).map_err(|error| wrong(&path, error))?.len();
            }
            _ => {}
        }
    }
    let mut finals: HashMap<u64, HashSet<u32>> = HashMap::new();
    let mut segments: BTreeMap<u32, u64> = mails.keys().map(|&number| (number, 0)).collect();
    for (number, path) in &states {
        let Some(bytes) = segments.get_mut(number) else {
            // Its segment was deleted.
            disk::remove(path).map_err(|error| wrong(path, error))?;
            continue;
        };
        *bytes += review.read_states(path, &mut finals).map_err(|error| wrong(path, error))?;
    }
    let (mut entries, mut reported, mut next_id) = (BTreeMap::<u64, Entry>::new(), Vec::new(), 1);
    let (mut copies, mut kept) = (Vec::new(), BTreeSet::new());
    for (&number, path) in &mails {
        let bytes = review.read_mail(path, |offset, bytes, message| {
            let record::Message { meta, .. } = message;
            // A report about a deleted message must not apply to another one with its identifier.
            next_id = next_id.max(meta.id + 1).max(meta.about.as_ref().map_or(0, |about| about.id + 1));
            reported.extend(meta.about);
            let (bytes, recipients) = (bytes.len() as u64, meta.to.len() as u32);
            let entry = Entry { id: meta.id, segment: number, offset, bytes, recipients, at_ms: meta.at_ms };
            // A moved message may still be in its old segment; the later copy is complete.
            let (id, to) = (entry.id, entry.segment);
            copies.extend(entries.insert(id, entry).map(|old| (id, old.segment, to)));
        });
        let (bytes, is_kept) = bytes.map_err(|error| wrong(path, error))?;
        *segments.entry(number).or_default() += bytes;
        kept.extend(is_kept.then_some(number));
    }
    review.sync_names(directory).map_err(|error| wrong(directory, error))?;
    let mut unrecorded = record_reported(reported, &entries, &mut finals);
    for (id, ..) in &copies {
        // The states may be in the segment of the unused copy.
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
    let left: Vec<Left> = left.collect();
    let ids: HashSet<u64> = left.iter().map(|one| one.entry.id).collect();
    // The identifiers of deleted messages are not reused.
    let next_id = next_id.max(first_id());
    let next_segment = segments.last_key_value().map_or(1, |(&last, _)| last + 1);
    let shared = Shared::new(directory, limit, next_id, next_segment);
    let Review { notes, damaged_bytes, aside_bytes, .. } = review;
    shared.grow(segments.values().sum::<u64>() + aside_bytes);
    let mut held = control::read_held(&shared).map_err(|error| wrong(&shared.held(), error))?;
    held.retain(|id| ids.contains(id));
    let shared = Arc::new(shared);
    Ok(Some(Found { shared, left, unrecorded, moved, segments, kept, notes, damaged_bytes, held, lock }))
}

/// Returns a warning for the user if others can access the directory of a queue.
pub(crate) fn exposure(directory: &Path) -> Option<String> {
    let (mode, path) = (std::fs::metadata(directory).ok()?.permissions().mode() & 0o777, directory.display());
    (mode & 0o077 != 0)
        .then(|| format!("{path}: other users can access the directory (mode {mode:o}); run chmod 700 {path}"))
}

/// Adds the reported failures to the states. Returns the recipients without a recorded state: a crash occurred between
/// the report and the state.
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

/// Returns the first identifier of a run. It grows with time faster than messages can arrive, so that identifiers in
/// logs are unique.
fn first_id() -> u64 {
    disk::unix_ms().max(1) << 20
}

/// Locks the queue in a directory; `None` if another process holds the lock.
fn lock(directory: &Path) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).mode(0o600).open(directory.join(LOCK))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// The result of the review of a segment.
#[derive(Debug)]
struct Segment {
    length: u64,
    /// The offset at which its end is cut off.
    cut_at: Option<u64>,
    /// Whether it is not deleted in this run.
    is_kept: bool,
}

/// A review of the files: notes and counts of damage, and the space for data set aside.
#[derive(Debug)]
struct Review {
    /// Whether the files found are synced.
    is_synced: bool,
    notes: Vec<String>,
    /// The bytes of messages that are damaged, and of the ends that a crash cut off.
    damaged_bytes: u64,
    /// The bytes of the files that were set aside, at this start or an earlier one.
    aside_bytes: u64,
    /// Maximum size of these files in bytes.
    aside_limit: u64,
}

impl Review {
    fn new(sync: Sync, aside_limit: u64) -> Self {
        Self { is_synced: sync != Sync::Never, notes: Vec::new(), damaged_bytes: 0, aside_bytes: 0, aside_limit }
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        if self.is_synced { disk::sync(file) } else { Ok(()) }
    }

    fn sync_names(&self, directory: &Path) -> io::Result<()> {
        if self.is_synced { disk::sync_names(directory) } else { Ok(()) }
    }

    /// Reads states, and cuts off an incomplete one. Returns the length of the file.
    fn read_states(&mut self, path: &Path, finals: &mut HashMap<u64, HashSet<u32>>) -> io::Result<u64> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let States { whole, damaged, end } = scan::states(&file)?;
        for Final { id, recipient } in whole {
            finals.entry(id).or_default().insert(recipient);
        }
        if damaged > 0 {
            self.notes.push(format!(
                "{}: {damaged} records are damaged; their recipients may get the mail again",
                path.display()
            ));
        }
        if file.metadata()?.len() > end {
            disk::cut(&file, end)?;
        }
        self.sync(&file)?;
        Ok(end)
    }

    /// Reads the messages of a segment. Damaged data is copied to another file; data after the last complete record is
    /// moved there. Returns the length of the segment, and whether it must be kept.
    fn read_mail(
        &mut self,
        path: &Path,
        found: impl FnMut(u64, &[u8], record::Message<'_>),
    ) -> io::Result<(u64, bool)> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let Segment { length, cut_at, is_kept } = self.review(path, &file, found)?;
        if let Some(cut_at) = cut_at {
            disk::cut(&file, cut_at)?;
        }
        self.sync(&file)?;
        Ok((cut_at.unwrap_or(length), is_kept))
    }

    /// Reads the messages of a segment, copies damaged data, and returns how to proceed with the segment.
    fn review(
        &mut self,
        path: &Path,
        source: &impl Source,
        found: impl FnMut(u64, &[u8], record::Message<'_>),
    ) -> io::Result<Segment> {
        let mut segment = Segment { length: source.length()?, cut_at: None, is_kept: false };
        for range in scan::messages(source, found)? {
            let ((bytes, is_readable), is_end) = (scan::range(source, range.clone())?, range.end == segment.length);
            self.damaged_bytes += bytes.len() as u64;
            let (count, start) = (bytes.len(), range.start);
            let what = if is_end {
                format!("the last {count} bytes are not a complete message")
            } else {
                format!("{count} bytes from byte {start} on are damaged (the messages after them are intact)")
            };
            let kept = if is_readable {
                match self.set_aside(path, &bytes) {
                    Ok(aside) if is_end => {
                        segment.cut_at = Some(range.start);
                        format!("they were moved to {}", aside.display())
                    }
                    Ok(aside) => format!("they are not delivered; a copy is in {}", aside.display()),
                    // The relay must also start on a full disk. Nothing is appended to an existing segment.
                    Err(error) => format!(
                        "they are not delivered, could not be copied to another file ({error}), and are deleted with \
                         the segment when its other messages are delivered"
                    ),
                }
            } else {
                // Unreadable data may be readable later, or by other programs.
                segment.is_kept = true;
                "the device cannot read all of them: they are not delivered, and the segment is not deleted".to_owned()
            };
            self.notes.push(format!("{}: {what}; {kept}", path.display()));
        }
        Ok(segment)
    }

    /// Copies bytes of a segment to another file, and syncs it. Returns its path.
    fn set_aside(&mut self, path: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
        for number in 0_u32.. {
            let aside = path.with_extension(if number == 0 { "cut".to_owned() } else { format!("cut{number}") });
            let copy = match disk::create(&aside) {
                Ok(copy) => copy,
                // An earlier start may have copied the same damage, or other bytes.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => match std::fs::read(&aside) {
                    Ok(known) if known == bytes => return Ok(aside),
                    _ => continue,
                },
                Err(error) => return Err(error),
            };
            let written = self.fill(&copy, path, bytes);
            if let Err(error) = written {
                // If this fails too, a partial copy remains, which does no harm.
                let _ = disk::remove(&aside);
                return Err(error);
            }
            self.aside_bytes += bytes.len() as u64;
            return Ok(aside);
        }
        Err(io::Error::other("all file names for a copy are in use"))
    }

    fn fill(&self, copy: &File, path: &Path, bytes: &[u8]) -> io::Result<()> {
        if self.aside_bytes + bytes.len() as u64 > self.aside_limit {
            let reason = "files with the extension cut would exceed an eighth of --queue-limit; move them elsewhere";
            return Err(io::Error::new(ErrorKind::QuotaExceeded, reason));
        }
        disk::write_at(copy, bytes, 0)?;
        disk::sync(copy)?;
        path.parent().map_or(Ok(()), disk::sync_names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::record::Meta;
    use crate::queue::scan::tests::Failing;

    /// An unreadable end of a segment is not an end that a crash cut off: it must be kept.
    #[test]
    fn what_cannot_be_read_is_neither_cut_off_nor_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("00000001.mail");
        let mut bytes = Vec::new();
        for id in 0..2 {
            record::append(&mut bytes, &Meta::new(id, 1, "s@x", vec!["r@d".into()]), &[&[b'x'; 6000]]).unwrap();
        }
        for (block, left) in [(0, 1), (2, 1), (9, 2)] {
            let mut review = Review::new(Sync::Always, u64::MAX);
            let (source, mut found) = (Failing { bytes: bytes.clone(), block }, 0);
            let segment = review.review(&path, &source, |_, _, _| found += 1).unwrap();
            assert_eq!((found, segment.cut_at, segment.is_kept), (left, None, left == 1), "{block}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "zeros are no copy");
    }
}
