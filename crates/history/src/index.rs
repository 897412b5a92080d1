//! The index: an `SQLite` database with what [`crate::digest`] stores of each record.
//!
//! All its contents follow from the records, so it is never repaired, only rebuilt. `SQLite`'s own locks serialize
//! concurrent programs. A damaged file is emptied in place: if it were deleted and created again while another program
//! had it open, the new file would be used with that program's journal.
//!
//! A directory of records may come from elsewhere. So a file with the name of the index is written only if it is a
//! regular file that is marked as an index, or that is empty. A symbolic link is refused.

use crate::Error;
use crate::digest;
use crate::entry::{Curve, Entry};
use crate::files::{Identity, Seen};
use crate::filter::Filter;
use landau_report::METHOD;
use landau_report::quantity::Unit;
use landau_stats::Estimate;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, Row, Statement, Transaction, TransactionBehavior, params};
use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The version of the tables, `user_version` of the database. An index of another version is rebuilt.
const VERSION: i64 = 2;
/// Marks a database as an index: the letters L, n, H, i. Its offset in the file is part of `SQLite`'s format.
const APPLICATION: i32 = 0x4c6e_4869;
const APPLICATION_AT: usize = 68;
/// The first bytes of every `SQLite` file.
const MAGIC: &[u8] = b"SQLite format 3\0";
const SCHEMA: &str = include_str!("schema.sql");

/// The name of the index in the directory of the collection.
const NAME: &str = ".landau-history.sqlite";
/// How long to wait for another program's changes.
const PATIENCE: Duration = Duration::from_secs(60);
/// Records per commit. If the program is interrupted, the records committed so far stay indexed.
const BATCH: usize = 256;

/// The location of the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In the directory of the collection.
    Folder(PathBuf),
    /// In the user's cache directory, because the collection's directory is not writable.
    Cache(PathBuf),
    /// At a path that the user chose.
    Chosen(PathBuf),
    /// In memory, because neither is writable: the next command reads every record again.
    Memory,
}

impl Place {
    fn path(&self) -> &Path {
        match self {
            Self::Folder(path) | Self::Cache(path) | Self::Chosen(path) => path,
            Self::Memory => Path::new(":memory:"),
        }
    }

    /// Returns whether the path is an index, empty or absent. Only a path that the user chose may be a symbolic link.
    fn is_ours(&self) -> bool {
        let metadata = match self {
            Self::Folder(path) | Self::Cache(path) => std::fs::symlink_metadata(path),
            Self::Chosen(path) => std::fs::metadata(path),
            Self::Memory => return true,
        };
        // Opening a named pipe would block until it has a writer.
        metadata.map_or(true, |metadata| metadata.is_file() && is_index(self.path()))
    }

    fn connect(&self) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let (Self::Folder(path) | Self::Cache(path)) = self else {
            return Connection::open_with_flags(self.path(), flags);
        };
        // SQLite refuses symbolic links anywhere in the path, but the path of the directory may have some.
        let parent = path.parent().and_then(|parent| parent.canonicalize().ok());
        let real = parent.zip(path.file_name()).map(|(parent, name)| parent.join(name));
        Connection::open_with_flags(real.as_ref().unwrap_or(path), flags | OpenFlags::SQLITE_OPEN_NOFOLLOW)
    }
}

/// An open index.
#[derive(Debug)]
pub(crate) struct Index {
    db: Connection,
    pub(crate) place: Place,
}

/// The result of reading an index in one transaction.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) entries: Vec<Entry>,
    pub(crate) curves: Vec<Curve>,
}

/// Selects the curves to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum With {
    /// None.
    Records,
    /// Those that match the filter, without their points.
    Curves,
    /// Those with their points.
    Points,
}

impl Index {
    /// Opens the index of a directory, or the one at `chosen` if given. Creates it if it does not exist. `is_rebuilt`
    /// empties it.
    pub(crate) fn open(folder: &Path, chosen: Option<&Path>, is_rebuilt: bool) -> Result<Self, Error> {
        if let Some(path) = chosen {
            return Self::at(Place::Chosen(path.to_owned()), is_rebuilt);
        }
        let places: [&dyn Fn() -> Option<Place>; 2] =
            [&|| Some(Place::Folder(folder.join(NAME))), &|| cache(folder).map(Place::Cache)];
        for place in places.iter().filter_map(|place| place()) {
            match Self::at(place, is_rebuilt) {
                Err(Error::Index { source, .. }) if is_unwritable(&source) => {}
                opened => return opened,
            }
        }
        Self::at(Place::Memory, false)
    }

    fn at(place: Place, is_rebuilt: bool) -> Result<Self, Error> {
        let failed = |source| Error::Index { path: place.path().display().to_string(), source };
        if !place.is_ours() {
            return Err(Error::NotAnIndex { path: place.path().display().to_string() });
        }
        let mut db = place.connect().map_err(failed)?;
        prepare(&mut db, is_rebuilt).map_err(failed)?;
        Ok(Self { db, place })
    }

    fn failed(&self, source: rusqlite::Error) -> Error {
        Error::Index { path: self.place.path().display().to_string(), source }
    }

    /// Updates the index from the files. With `is_judged_anew`, records without verdicts, or with those of another
    /// method, are judged by this version's method.
    pub(crate) fn update(&mut self, seen: &[Seen], is_judged_anew: bool) -> Result<(), Error> {
        // Another program that rebuilds the index may have emptied it in the meantime.
        let known = self
            .db
            .transaction()
            .and_then(|moment| if is_made(&moment)? { known(&moment) } else { Ok(HashMap::new()) });
        let known = known.map_err(|source| self.failed(source))?;
        let is_stale = |one: &&Seen| match known.get(&one.path) {
            Some(known) => known.identity != one.identity || (is_judged_anew && known.can_be_judged_anew()),
            None => true,
        };
        let stale: Vec<&Seen> = seen.iter().filter(is_stale).collect();
        let paths: std::collections::HashSet<&str> = seen.iter().map(|one| one.path.as_str()).collect();
        let gone: Vec<&str> = known.keys().map(String::as_str).filter(|path| !paths.contains(path)).collect();
        if !gone.is_empty() {
            self.change(|change| gone.iter().try_for_each(|path| remove(change, path)))?;
        }
        for batch in stale.chunks(BATCH) {
            let read = digest_all(batch, is_judged_anew);
            self.change(|change| {
                let mut writer = Writer::new(change)?;
                batch.iter().zip(&read).try_for_each(|(seen, (entry, curves))| writer.insert(seen, entry, curves))
            })?;
        }
        Ok(())
    }

    /// Makes changes in one transaction, which other programs see completely or not at all.
    fn change(&mut self, make: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()>) -> Result<(), Error> {
        let changed = self.db.transaction_with_behavior(TransactionBehavior::Immediate).and_then(|change| {
            make_tables(&change)?;
            make(&change)?;
            change.commit()
        });
        changed.map_err(|source| self.failed(source))
    }

    /// Reads the records and the curves that match the filter in one transaction. `None` if the index no longer matches
    /// these files, because another program has changed it since its update.
    pub(crate) fn load(&mut self, seen: &[Seen], filter: &Filter, with: With) -> Result<Option<Loaded>, Error> {
        let loaded = self.db.transaction().and_then(|moment| {
            if !is_made(&moment)? {
                return Ok(None);
            }
            let known = known(&moment)?;
            let is_known = |one: &Seen| known.get(&one.path).is_some_and(|known| known.identity == one.identity);
            if known.len() != seen.len() || !seen.iter().all(is_known) {
                return Ok(None);
            }
            let entries = entries(&moment)?;
            let curves = if with == With::Records { Vec::new() } else { curves(&moment, filter, with)? };
            Ok(Some(Loaded { entries, curves }))
        });
        loaded.map_err(|source| self.failed(source))
    }
}

/// Creates the tables if they are missing. Empties the database first if it has another version, or if `is_rebuilt` is
/// set.
fn prepare(db: &mut Connection, is_rebuilt: bool) -> rusqlite::Result<()> {
    db.busy_timeout(PATIENCE)?;
    // This is first because a damaged file fails at its first use.
    if is_rebuilt {
        empty(db)?;
    }
    // The journal survives if the program is killed. After a power failure the index may have to be rebuilt.
    db.execute_batch("PRAGMA synchronous = NORMAL")?;
    if ![0, VERSION].contains(&version(db)?) {
        empty(db)?;
    }
    // Even if there is nothing to do, the transaction shows whether the file is writable.
    let change = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    make_tables(&change)?;
    change.commit()
}

fn version(db: &Connection) -> rusqlite::Result<i64> {
    db.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Returns whether the tables exist.
fn is_made(db: &Connection) -> rusqlite::Result<bool> {
    Ok(version(db)? == VERSION)
}

/// Creates the tables if they are missing.
fn make_tables(change: &Transaction<'_>) -> rusqlite::Result<()> {
    if !is_made(change)? {
        change.execute_batch(SCHEMA)?;
        change.pragma_update(None, "user_version", VERSION)?;
        change.pragma_update(None, "application_id", APPLICATION)?;
    }
    Ok(())
}

/// Empties the database in place, whatever the contents of the file.
fn empty(db: &Connection) -> rusqlite::Result<()> {
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_RESET_DATABASE, true)?;
    let emptied = db.execute_batch("VACUUM");
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_RESET_DATABASE, false)?;
    emptied
}

/// Returns whether a file is an index or empty. Empty is a file without a byte, or a database of one page without a
/// table; an index is briefly in this state during a rebuild.
fn is_index(path: &Path) -> bool {
    let mut head = Vec::new();
    // A file that cannot be read cannot be opened as a database either.
    let Ok(file) = std::fs::File::open(path) else { return true };
    let is_read = file.take(105).read_to_end(&mut head).is_ok();
    let is_marked = head.get(APPLICATION_AT..APPLICATION_AT + 4) == Some(&APPLICATION.to_be_bytes());
    let is_one_page = head.get(28..32) == Some(&[0, 0, 0, 1]);
    // Byte 100 is the type of the first page, a leaf. The number of its rows, one for each table, follows at 103.
    let has_no_table = head.get(100) == Some(&13) && head.get(103..105) == Some(&[0, 0]);
    is_read && (head.is_empty() || head.starts_with(MAGIC) && (is_marked || is_one_page && has_no_table))
}

fn is_unwritable(error: &rusqlite::Error) -> bool {
    use ErrorCode::{CannotOpen, PermissionDenied, ReadOnly};
    let code = error.sqlite_error_code();
    code.is_some_and(|code| matches!(code, CannotOpen | PermissionDenied | ReadOnly))
}

/// Returns the path of a directory's index in the user's cache directory.
fn cache(folder: &Path) -> Option<PathBuf> {
    let own = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = own.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))?;
    let folder = folder.canonicalize().ok()?;
    let name = landau_report::page::sha256(folder.as_os_str().as_encoded_bytes());
    let place = caches.join("landau");
    // If this fails, opening the index there fails.
    let _ = std::fs::create_dir_all(&place);
    Some(place.join(format!("history-{}.sqlite", &name[..16])))
}

/// The index entry of a file, as far as an update needs it.
struct Known {
    identity: Identity,
    is_sound: bool,
    method: Option<u32>,
    is_judged_anew: bool,
}

impl Known {
    /// Returns whether judging the samples would give other verdicts: the present ones are of another method, or there
    /// are none yet.
    fn can_be_judged_anew(&self) -> bool {
        self.is_sound && self.method.map_or(!self.is_judged_anew, |method| method != METHOD)
    }
}

fn known(db: &Connection) -> rusqlite::Result<HashMap<String, Known>> {
    let mut query =
        db.prepare("SELECT path, bytes, mtime_ns, ctime_ns, inode, state, method, is_judged_anew FROM record")?;
    let rows = query.query_map([], |row| {
        let identity =
            Identity { bytes: row.get(1)?, mtime_ns: row.get(2)?, ctime_ns: row.get(3)?, inode: row.get(4)? };
        let is_sound = row.get::<_, String>(5)? == SOUND;
        Ok((row.get(0)?, Known { identity, is_sound, method: row.get(6)?, is_judged_anew: row.get(7)? }))
    })?;
    rows.collect()
}

/// Reads record files on all processors. Each worker takes the next file from a shared counter.
fn digest_all(batch: &[&Seen], is_judged_anew: bool) -> Vec<(Entry, Vec<Curve>)> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(batch.len());
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some((index, seen)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|index| Some((index, *batch.get(index)?)))
        {
            done.push((index, digest_one(seen, is_judged_anew)));
        }
        done
    };
    let mut all: Vec<_> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        handles.into_iter().flat_map(|handle| handle.join().unwrap_or_default()).collect()
    });
    all.sort_by_key(|(index, _)| *index);
    all.into_iter().map(|(_, read)| read).collect()
}

/// Reads a record file. A record that makes the reader panic is left out, so that the others are still read.
fn digest_one(seen: &Seen, is_judged_anew: bool) -> (Entry, Vec<Curve>) {
    std::panic::catch_unwind(|| digest::read(&seen.full, &seen.path, is_judged_anew)).unwrap_or_else(|_| {
        let reason = "landau panicked while reading it; see the message above".to_owned();
        (Entry { path: seen.path.clone(), reason, ..Entry::default() }, Vec::new())
    })
}

/// The states of a record file.
const SOUND: &str = "sound";
const LEFT_OUT: &str = "left_out";

fn remove(change: &Transaction<'_>, path: &str) -> rusqlite::Result<()> {
    const OF_PATH: &str = "(SELECT record FROM record WHERE path = ?1)";
    let points = format!("DELETE FROM point WHERE curve IN (SELECT curve FROM curve WHERE record = {OF_PATH})");
    change.execute(&points, [path])?;
    change.execute(&format!("DELETE FROM curve WHERE record = {OF_PATH}"), [path])?;
    change.execute("DELETE FROM record WHERE path = ?1", [path])?;
    Ok(())
}

const INSERT_RECORD: &str = "INSERT INTO record \
     (path, bytes, mtime_ns, ctime_ns, inode, state, reason, schema, landau, command, \
     started, study, seed, unit, host, system, release, distribution, machine, processor, \
     processor_count, memory_bytes, platform, facts, outcome, line_count, seal, method, is_judged_anew, \
     curve_count, words) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, \
     ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31)";
const INSERT_CURVE: &str = "INSERT INTO curve \
     (record, benchmark, label, phase, direction, axis, settings, n, outcome, law, \
     passes, calls, from_n, to_n, start_cost, end_cost, growth, growth_low, growth_high, exponent, \
     exponent_low, exponent_high, p99_growth, p99_growth_low, p99_growth_high, fixed_cost, \
     fixed_cost_low, fixed_cost_high, slope, slope_low, slope_high, cliff_n, cliff_n_low, cliff_n_high, \
     limit_n, limit_n_low, limit_n_high, cliff_factor, limit_error) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, \
     ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, \
     ?28, ?29, ?30, ?31, ?32, ?33, ?34, ?35, ?36, ?37, ?38, ?39)";
const INSERT_POINT: &str = "INSERT INTO point (curve, n, cost, cost_low, cost_high) VALUES (?1, ?2, ?3, ?4, ?5)";

/// Writes records in a transaction.
struct Writer<'t> {
    change: &'t Transaction<'t>,
    curve: Statement<'t>,
    point: Statement<'t>,
}

impl<'t> Writer<'t> {
    fn new(change: &'t Transaction<'t>) -> rusqlite::Result<Self> {
        Ok(Self { change, curve: change.prepare(INSERT_CURVE)?, point: change.prepare(INSERT_POINT)? })
    }

    /// Replaces the entry of a file by a record.
    fn insert(&mut self, seen: &Seen, entry: &Entry, curves: &[Curve]) -> rusqlite::Result<()> {
        remove(self.change, &seen.path)?;
        let file = seen.identity;
        let state = if entry.reason.is_empty() { SOUND } else { LEFT_OUT };
        self.change.execute(
            INSERT_RECORD,
            params![
                seen.path,
                file.bytes,
                file.mtime_ns,
                file.ctime_ns,
                file.inode,
                state,
                entry.reason,
                entry.schema,
                entry.landau,
                entry.command,
                entry.started,
                entry.study,
                // A seed may exceed the range of an SQLite integer.
                entry.seed.to_string(),
                unit_name(entry.unit),
                entry.host,
                entry.system,
                entry.release,
                entry.distribution,
                entry.machine,
                entry.processor,
                entry.processor_count,
                entry.memory_bytes.cast_signed(),
                entry.platform,
                entry.facts,
                entry.outcome,
                entry.line_count.cast_signed(),
                entry.seal,
                entry.method,
                entry.is_judged_anew,
                i64::try_from(entry.curve_count).unwrap_or(i64::MAX),
                entry.words,
            ],
        )?;
        let record = self.change.last_insert_rowid();
        curves.iter().try_for_each(|curve| self.insert_curve(record, curve))
    }

    fn insert_curve(&mut self, record: i64, curve: &Curve) -> rusqlite::Result<()> {
        let three = |one: Option<Estimate>| [one.map(|e| e.value), one.map(|e| e.low), one.map(|e| e.high)];
        let estimates = [curve.growth, curve.exponent, curve.p99, curve.fixed, curve.slope, curve.cliff, curve.limit];
        let e = estimates.map(three);
        let settings = serde_json::to_string(&curve.settings).unwrap_or_default();
        self.curve.execute(params![
            record,
            curve.benchmark,
            curve.label,
            curve.phase,
            curve.direction,
            curve.axis,
            settings,
            curve.n.cast_signed(),
            curve.outcome,
            curve.law,
            curve.passes.cast_signed(),
            curve.calls.cast_signed(),
            curve.range.map(|range| range.0),
            curve.range.map(|range| range.1),
            curve.ends.map(|ends| ends.0),
            curve.ends.map(|ends| ends.1),
            e[0][0],
            e[0][1],
            e[0][2],
            e[1][0],
            e[1][1],
            e[1][2],
            e[2][0],
            e[2][1],
            e[2][2],
            e[3][0],
            e[3][1],
            e[3][2],
            e[4][0],
            e[4][1],
            e[4][2],
            e[5][0],
            e[5][1],
            e[5][2],
            e[6][0],
            e[6][1],
            e[6][2],
            curve.cliff_factor,
            curve.limit_error,
        ])?;
        let number = self.change.last_insert_rowid();
        for (n, cost) in &curve.points {
            self.point.execute(params![number, n, cost.value, cost.low, cost.high])?;
        }
        Ok(())
    }
}

fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::Time => "ns",
        Unit::EmulatedTime => "emulated_ns",
        Unit::Instructions => "instructions",
    }
}

fn unit_of(name: &str) -> Unit {
    match name {
        "instructions" => Unit::Instructions,
        "emulated_ns" => Unit::EmulatedTime,
        _ => Unit::Time,
    }
}

fn entries(db: &Connection) -> rusqlite::Result<Vec<Entry>> {
    let mut query = db.prepare("SELECT * FROM record ORDER BY started, path")?;
    let entry = |row: &Row<'_>| {
        Ok(Entry {
            record: row.get("record")?,
            path: row.get("path")?,
            reason: row.get("reason")?,
            schema: row.get("schema")?,
            landau: row.get("landau")?,
            command: row.get("command")?,
            started: row.get("started")?,
            study: row.get("study")?,
            seed: row.get::<_, String>("seed")?.parse().unwrap_or(0),
            unit: unit_of(&row.get::<_, String>("unit")?),
            host: row.get("host")?,
            system: row.get("system")?,
            release: row.get("release")?,
            distribution: row.get("distribution")?,
            machine: row.get("machine")?,
            processor: row.get("processor")?,
            processor_count: row.get("processor_count")?,
            memory_bytes: row.get::<_, i64>("memory_bytes")?.cast_unsigned(),
            platform: row.get("platform")?,
            facts: row.get("facts")?,
            outcome: row.get("outcome")?,
            line_count: row.get::<_, i64>("line_count")?.cast_unsigned(),
            seal: row.get("seal")?,
            method: row.get("method")?,
            is_judged_anew: row.get("is_judged_anew")?,
            curve_count: row.get::<_, i64>("curve_count")?.max(0) as usize,
            words: row.get("words")?,
        })
    };
    query.query_map([], entry)?.collect()
}

/// The condition of a filter on curves, as in [`Filter::holds_curve`].
const ASKED_FOR: &str = "\
    (?1 IS NULL OR curve.benchmark = ?1 COLLATE NOCASE OR curve.label = ?1 COLLATE NOCASE) \
    AND (?2 IS NULL OR curve.phase = ?2 COLLATE NOCASE)";

fn curves(db: &Connection, filter: &Filter, with: With) -> rusqlite::Result<Vec<Curve>> {
    let conditions = params![filter.benchmark, filter.phase];
    let mut query = db.prepare(&format!("SELECT * FROM curve WHERE {ASKED_FOR} ORDER BY curve"))?;
    let rows = query.query_map(conditions, |row| Ok((row.get::<_, i64>("curve")?, curve(row)?)))?;
    let (numbers, mut curves): (Vec<i64>, Vec<Curve>) = rows.collect::<rusqlite::Result<Vec<_>>>()?.into_iter().unzip();
    if with == With::Points {
        let places: HashMap<i64, usize> = numbers.iter().enumerate().map(|(index, number)| (*number, index)).collect();
        let mut query = db.prepare(&format!(
            "SELECT point.curve, point.n, cost, cost_low, cost_high FROM point JOIN curve USING (curve) \
             WHERE {ASKED_FOR} ORDER BY point.curve, point.n"
        ))?;
        let mut rows = query.query(conditions)?;
        while let Some(row) = rows.next()? {
            let value = Estimate { value: row.get(2)?, low: row.get(3)?, high: row.get(4)? };
            if let Some(&place) = places.get(&row.get::<_, i64>(0)?) {
                curves[place].points.push((row.get(1)?, value));
            }
        }
    }
    Ok(curves)
}

fn curve(row: &Row<'_>) -> rusqlite::Result<Curve> {
    let estimate = |name: &str| -> rusqlite::Result<Option<Estimate>> {
        let get = |ending: &str| row.get::<_, Option<f64>>(format!("{name}{ending}").as_str());
        let (value, low, high) = (get("")?, get("_low")?, get("_high")?);
        Ok(value.map(|value| Estimate { value, low: low.unwrap_or(value), high: high.unwrap_or(value) }))
    };
    let pair = |a: &str, b: &str| -> rusqlite::Result<Option<(f64, f64)>> {
        Ok(row.get::<_, Option<f64>>(a)?.zip(row.get::<_, Option<f64>>(b)?))
    };
    let count = |name: &str| row.get::<_, i64>(name).map(i64::cast_unsigned);
    let settings: BTreeMap<String, String> =
        serde_json::from_str(&row.get::<_, String>("settings")?).unwrap_or_default();
    Ok(Curve {
        record: row.get("record")?,
        benchmark: row.get("benchmark")?,
        label: row.get("label")?,
        phase: row.get("phase")?,
        direction: row.get("direction")?,
        axis: row.get("axis")?,
        settings,
        n: count("n")?,
        outcome: row.get("outcome")?,
        law: row.get("law")?,
        passes: count("passes")?,
        calls: count("calls")?,
        range: pair("from_n", "to_n")?,
        ends: pair("start_cost", "end_cost")?,
        growth: estimate("growth")?,
        exponent: estimate("exponent")?,
        p99: estimate("p99_growth")?,
        fixed: estimate("fixed_cost")?,
        slope: estimate("slope")?,
        cliff: estimate("cliff_n")?,
        cliff_factor: row.get("cliff_factor")?,
        limit: estimate("limit_n")?,
        limit_error: row.get("limit_error")?,
        points: Vec::new(),
    })
}
