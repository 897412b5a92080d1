//! The access log's writer: fetches the workers' lines and writes them to a file or a pipe.
//!
//! The writer sleeps until a worker has lines. It then fetches lines in turns of a few milliseconds, so that a busy
//! server needs one call for each turn instead of one for each line. The writer has its own descriptor table, so that
//! no worker keeps a rotated log open.

use super::line::{Stamp, write_lost};
use super::{AccessLog, LogTarget};
use crate::counters::Counters;
use crate::error::Error;
use crate::privilege::Sandbox;
use landau_sys::privilege::Identity;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::thread::Thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long lines are collected before they are written.
const TURN: Duration = Duration::from_millis(20);

/// How long the server waits for the log when it stops. A pipe that is not read must not block it.
const PATIENCE: Duration = Duration::from_secs(2);

/// The state that the workers and the writer share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// For each worker, the lines that the writer has not fetched.
    pub(super) buffers: Vec<Mutex<Vec<u8>>>,
    is_asleep: AtomicBool,
    must_reopen: AtomicBool,
    must_end: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Shared {
    pub(crate) fn new(workers: usize) -> Self {
        let buffers = (0..workers).map(|_| Mutex::default()).collect();
        let (is_asleep, must_reopen, must_end) = Default::default();
        Self { buffers, is_asleep, must_reopen, must_end, thread: OnceLock::new() }
    }

    /// Wakes the writer if it sleeps, or if `hurry` is set.
    pub(super) fn wake_writer(&self, hurry: bool) {
        // The lock of the buffer provides the ordering: a writer that found the buffer empty had already announced that
        // it sleeps.
        if hurry || self.is_asleep.load(Ordering::Relaxed) {
            self.unpark();
        }
    }

    fn unpark(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    fn fetch(&self, number: usize, into: &mut Vec<u8>) {
        let mut buffer = self.buffers[number].lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut *buffer, into);
    }

    fn is_empty(&self) -> bool {
        self.buffers.iter().all(|buffer| buffer.lock().unwrap_or_else(PoisonError::into_inner).is_empty())
    }
}

/// A handle to request that the writer reopen its file.
#[derive(Debug, Clone)]
pub(crate) struct Remote(Arc<Shared>);

impl Remote {
    pub(crate) fn reopen(&self) {
        self.0.must_reopen.store(true, Ordering::Release);
        self.0.unpark();
    }
}

/// Further inputs of the writer's thread.
#[derive(Debug)]
pub(crate) struct Beside {
    /// The sandbox, which the thread enters after the file is open.
    pub(crate) sandbox: Arc<Sandbox>,
    /// Receives messages for the operator.
    pub(crate) report: fn(&str),
    /// The owner of a new file.
    pub(crate) owner: Option<Identity>,
    /// The number of lost lines that an earlier log has already reported.
    pub(crate) lost_before: u64,
}

/// The writer's thread.
#[derive(Debug)]
pub(crate) struct Writer {
    shared: Arc<Shared>,
    ended: mpsc::Receiver<()>,
}

impl Writer {
    /// Opens the log and starts the thread. `workers` count the lines that were lost before they reached the writer,
    /// `counters` those that could not be written.
    pub(crate) fn start(
        log: &AccessLog,
        shared: Arc<Shared>,
        workers: Vec<Counters>,
        counters: Counters,
        Beside { sandbox, report, owner, lost_before }: Beside,
    ) -> Result<Self, Error> {
        let (opened, has_opened) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let mut work = Work {
            log: log.clone(),
            file: None,
            shared: shared.clone(),
            own: counters,
            all: workers,
            told_lost: lost_before,
            is_torn: false,
            has_failed: None,
            report,
        };
        work.all.push(counters);
        let life = move || {
            // On systems other than Linux the table is shared.
            let _ = landau_sys::descriptor::unshare_descriptors(&sandbox.descriptors());
            let result = open(&work.log.target, owner).map_err(failed(&work.log.target));
            let result = result.and_then(|file| sandbox.enter().map(|()| file));
            let has_failed = result.is_err();
            let _ = opened.send(result.map(|file| work.file = Some(file)));
            if !has_failed {
                work.run();
            }
            let _ = end.send(());
        };
        let thread = std::thread::Builder::new().name("log".to_owned()).spawn(life);
        let thread = thread.map_err(|cause| Error::Helper { name: "log thread", cause })?;
        // Cannot fail: it is set only once.
        let _ = shared.thread.set(thread.thread().clone());
        has_opened.recv().map_err(|_| failed(&log.target)(std::io::ErrorKind::Other.into()))??;
        Ok(Self { shared, ended })
    }

    pub(crate) fn remote(&self) -> Remote {
        Remote(self.shared.clone())
    }

    /// Writes the remaining lines and ends the thread.
    pub(crate) fn finish(&self) {
        self.shared.must_end.store(true, Ordering::Release);
        self.shared.unpark();
        // A log that cannot be written in this time is abandoned.
        let _ = self.ended.recv_timeout(PATIENCE);
    }
}

fn failed(target: &LogTarget) -> impl Fn(std::io::Error) -> Error {
    move |cause| Error::Log { target: target.to_string(), cause }
}

fn open(target: &LogTarget, owner: Option<Identity>) -> std::io::Result<File> {
    match target {
        LogTarget::File(path) => {
            use std::os::unix::fs::OpenOptionsExt;
            // The addresses of visitors are private.
            match std::fs::OpenOptions::new().append(true).mode(0o640).create_new(true).open(path) {
                Ok(file) => {
                    if let Some(Identity { user, group }) = owner {
                        std::os::unix::fs::fchown(&file, Some(user), Some(group))?;
                    }
                    Ok(file)
                }
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                    landau_sys::path::open_to_append(path)
                }
                Err(error) => Err(error),
            }
        }
        LogTarget::Output => Ok(File::from(std::io::stdout().as_fd().try_clone_to_owned()?)),
    }
}

/// The state of the thread.
#[derive(Debug)]
struct Work {
    log: AccessLog,
    file: Option<File>,
    shared: Arc<Shared>,
    own: Counters,
    /// All counters of lost lines.
    all: Vec<Counters>,
    /// The number of lost lines that the log has reported.
    told_lost: u64,
    /// Whether the file ends with a partial line.
    is_torn: bool,
    /// The error with which the log currently cannot be written.
    has_failed: Option<std::io::ErrorKind>,
    report: fn(&str),
}

impl Work {
    fn run(&mut self) {
        let mut bytes = Vec::new();
        loop {
            // Checked before fetching, so that everything passed on before the end is written.
            let is_end = self.shared.must_end.load(Ordering::Acquire);
            if self.shared.must_reopen.swap(false, Ordering::AcqRel) {
                self.reopen();
            }
            let mut is_idle = true;
            for number in 0..self.shared.buffers.len() {
                self.shared.fetch(number, &mut bytes);
                is_idle &= bytes.is_empty();
                if let Some(lost) = self.write(&bytes) {
                    self.own.log_lost().add(lost);
                }
                bytes.clear();
            }
            self.tell_lost();
            if is_end {
                return;
            }
            if is_idle {
                self.sleep();
            } else {
                std::thread::park_timeout(TURN);
            }
        }
    }

    fn sleep(&self) {
        let shared = &self.shared;
        shared.is_asleep.store(true, Ordering::SeqCst);
        let is_told = shared.must_end.load(Ordering::Acquire) || shared.must_reopen.load(Ordering::Acquire);
        if !is_told && shared.is_empty() {
            std::thread::park();
        }
        shared.is_asleep.store(false, Ordering::Relaxed);
    }

    fn reopen(&mut self) {
        if self.log.target == LogTarget::Output {
            return;
        }
        match open(&self.log.target, None) {
            Ok(file) => {
                (self.file, self.is_torn) = (Some(file), false);
                (self.report)(&format!("log {}: reopened", self.log.target));
            }
            Err(error) => (self.report)(&format!(
                "log {}: cannot reopen: {error}; still writing to the old file. \
                 The log's directory must be writable by the user that the server runs as",
                self.log.target
            )),
        }
    }

    /// Writes lines. Returns the number of lines that could not be written; they are not retried.
    fn write(&mut self, lines: &[u8]) -> Option<u64> {
        if lines.is_empty() {
            return None;
        }
        let mut rest = lines;
        let result = if self.is_torn { self.write_all(&mut &b"\n"[..]) } else { Ok(()) };
        match result.and_then(|()| self.write_all(&mut rest)) {
            Ok(()) => {
                self.is_torn = false;
                if self.has_failed.take().is_some() {
                    (self.report)(&format!("log {}: writable again", self.log.target));
                }
                None
            }
            Err(error) => {
                self.is_torn |= rest.len() < lines.len() && !lines[..lines.len() - rest.len()].ends_with(b"\n");
                if self.has_failed.replace(error.kind()) != Some(error.kind()) {
                    let target = &self.log.target;
                    (self.report)(&format!(
                        "log {target}: {error}; lines are dropped and counted until the log is writable again"
                    ));
                }
                Some(rest.split(|&byte| byte == b'\n').count() as u64 - 1)
            }
        }
    }

    /// Writes everything; on error, `bytes` is what could not be written.
    fn write_all(&mut self, bytes: &mut &[u8]) -> std::io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        while !bytes.is_empty() {
            match file.write(bytes) {
                Ok(0) => return Err(std::io::ErrorKind::WriteZero.into()),
                Ok(count) => *bytes = &bytes[count..],
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                // Another program has set the terminal or pipe to nonblocking mode.
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => std::thread::sleep(TURN),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes the number of missing lines into the log.
    fn tell_lost(&mut self) {
        let lost: u64 = self.all.iter().map(|counters| counters.log_lost().get()).sum();
        if lost == self.told_lost || self.has_failed.is_some() {
            return;
        }
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let mut line = Vec::new();
        write_lost(self.log.format, &Stamp::new(now_s), lost - self.told_lost, &mut line);
        if self.write(&line).is_none() {
            self.told_lost = lost;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Asked, Feed, LogFormat};
    use super::*;
    use landau_wire::http::{Reject, Status};

    fn beside(report: fn(&str)) -> Beside {
        Beside { sandbox: Arc::default(), report, owner: None, lost_before: 0 }
    }

    fn quiet() -> Beside {
        beside(|_| {})
    }

    struct Bench {
        shared: Arc<Shared>,
        counters: Counters,
        feed: Feed,
    }

    fn bench(format: LogFormat) -> Bench {
        let (shared, counters) = (Arc::new(Shared::new(1)), Counters::default());
        let feed = Feed::new(0, format, shared.clone(), counters);
        Bench { shared, counters, feed }
    }

    fn put(feed: &mut Feed) {
        let reject = Reject { status: Status::BAD_REQUEST, reason: "none" };
        feed.line(Asked::Refused(reject), reject.status, 0);
    }

    #[test]
    fn lines_arrive_in_order_and_an_exchanged_file_is_opened_anew() {
        let room = tempfile::tempdir().unwrap();
        let (path, old) = (room.path().join("log"), room.path().join("log.1"));
        let Bench { shared, counters, mut feed } = bench(LogFormat::Json);
        let log = AccessLog { target: LogTarget::File(path.clone()), format: LogFormat::Json };
        let own = Counters::default();
        let writer = Writer::start(&log, shared, vec![counters], own, quiet()).unwrap();
        put(&mut feed);
        feed.finish();
        while std::fs::read(&path).unwrap().is_empty() {
            std::thread::yield_now();
        }
        std::fs::rename(&path, &old).unwrap();
        writer.remote().reopen();
        while !path.exists() {
            std::thread::yield_now();
        }
        for _ in 0..10_000 {
            put(&mut feed);
        }
        feed.finish();
        writer.finish();
        let lines = |path: &std::path::Path| std::fs::read_to_string(path).unwrap().lines().count();
        assert_eq!((lines(&old), lines(&path)), (1, 10_000));
    }

    /// The writer is not running here: the worker must continue, and count.
    #[test]
    fn dropped_lines_are_counted_and_logged() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("log");
        let Bench { shared, counters, mut feed } = bench(LogFormat::Common);
        let lines = 100_000_u64;
        for _ in 0..lines {
            put(&mut feed);
        }
        feed.flush();
        let lost = counters.log_lost().get();
        assert!(lost > 0 && lost < lines, "{lost}");
        let log = AccessLog { target: LogTarget::File(path.clone()), format: LogFormat::Common };
        let own = Counters::default();
        let writer = Writer::start(&log, shared, vec![counters], own, quiet()).unwrap();
        writer.finish();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().filter(|line| line.starts_with("unix: ")).count() as u64, lines - lost);
        assert!(text.lines().last().unwrap().contains(&format!(" {lost} lines were lost")));
    }

    /// The server once waited for a reader, both at the start and when it reopened the log, and could not be stopped by
    /// a signal meanwhile.
    #[test]
    fn a_fifo_without_a_reader_is_not_waited_for() {
        static SAID: Mutex<String> = Mutex::new(String::new());
        fn report(text: &str) {
            SAID.lock().unwrap().push_str(text);
        }
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("log");
        let make_fifo = || assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let log = AccessLog { target: LogTarget::File(path.clone()), format: LogFormat::Common };
        make_fifo();
        let Bench { shared, counters, .. } = bench(LogFormat::Common);
        let error = Writer::start(&log, shared, vec![counters], Counters::default(), quiet()).unwrap_err().to_string();
        assert!(error.contains("log: no process has this FIFO open for reading"), "{error}");
        std::fs::remove_file(&path).unwrap();
        let Bench { shared, counters, mut feed } = bench(LogFormat::Common);
        let writer = Writer::start(&log, shared, vec![counters], Counters::default(), beside(report)).unwrap();
        let old = room.path().join("log.1");
        std::fs::rename(&path, &old).unwrap();
        make_fifo();
        writer.remote().reopen();
        while !SAID.lock().unwrap().contains("open for reading; still writing to the old file") {
            std::thread::yield_now();
        }
        put(&mut feed);
        feed.finish();
        writer.finish();
        assert_eq!(std::fs::read_to_string(&old).unwrap().lines().count(), 1);
        // A FIFO that is read gets the lines, and writing waits for its reader.
        let reader = std::thread::spawn({
            let path = path.clone();
            move || std::fs::read_to_string(path).unwrap().lines().count()
        });
        let file = loop {
            match open(&log.target, None) {
                Ok(file) => break file,
                Err(_) => std::thread::yield_now(),
            }
        };
        assert!(landau_sys::stream::is_blocking(&file).unwrap());
        (&file).write_all(&b"line\n".repeat(100_000)).unwrap();
        drop(file);
        assert_eq!(reader.join().unwrap(), 100_000);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_full_disk_is_reported_once() {
        use std::sync::atomic::AtomicUsize;
        static SAID: AtomicUsize = AtomicUsize::new(0);
        fn report(text: &str) {
            assert!(text.starts_with("log /dev/full: "), "{text}");
            SAID.fetch_add(1, Ordering::Relaxed);
        }
        let Bench { shared, counters, mut feed } = bench(LogFormat::Common);
        let log = AccessLog { target: LogTarget::File("/dev/full".into()), format: LogFormat::Common };
        let own = Counters::default();
        let writer = Writer::start(&log, shared, vec![counters], own, beside(report)).unwrap();
        for round in 1..=3 {
            put(&mut feed);
            feed.finish();
            while own.log_lost().get() < round {
                std::thread::yield_now();
            }
        }
        writer.finish();
        assert_eq!((own.log_lost().get(), SAID.load(Ordering::Relaxed)), (3, 1));
    }

    #[test]
    fn a_log_that_cannot_be_opened_is_an_error() {
        let Bench { shared, counters, .. } = bench(LogFormat::Common);
        let target = LogTarget::File("/nowhere/at/all".into());
        let log = AccessLog { target, format: LogFormat::Common };
        let error = Writer::start(&log, shared, vec![counters], Counters::default(), quiet()).unwrap_err().to_string();
        assert!(error.starts_with("cannot write the log /nowhere/at/all: "), "{error}");
    }
}
