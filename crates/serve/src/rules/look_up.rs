//! Looks up the names of upstream servers when the configuration is read, and again when it is reloaded.
//!
//! A reload follows a name to its new addresses. It must not lose an upstream server because the name server does not
//! answer at that moment. It must not wait for long either, because signals wait meanwhile. Instead, the known
//! addresses stay in use, and the operator gets a message.

use super::Upstream;
use landau_sys::child::{self, Forker};
use landau_sys::descriptor::wait_readable_over_signals;
use landau_sys::process;
use std::cell::RefCell;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// How long a reload waits for the addresses of all names together, provided that each gets [`LEAST_PATIENCE`].
const PATIENCE: Duration = Duration::from_secs(5);

/// How long it waits for each name after that. A name server that answers must not be missed because another one, for
/// an earlier name, does not.
const LEAST_PATIENCE: Duration = Duration::from_millis(500);

/// How long it waits in total after [`PATIENCE`], however many names there are.
const LAST_PATIENCE: Duration = Duration::from_secs(5);

/// The files that configure the lookup of names. A sandbox permits reading them if an upstream server has a name.
pub(crate) const FILES: [&str; 5] =
    ["/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/host.conf", "/etc/gai.conf"];

/// Finds the addresses of a host, with a port; fails with the reason.
pub(super) type LookUp = fn(&str, u16) -> Result<Vec<SocketAddr>, String>;

/// Looks a name up with the system's resolver.
pub(super) fn ask_system(host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    (host, port).to_socket_addrs().map(Iterator::collect).map_err(|error| error.to_string())
}

/// Finds the addresses of a configuration's upstream servers; each place is looked up once.
#[derive(Debug)]
pub(super) struct Resolver<'a> {
    look_up: LookUp,
    /// The upstream servers of the rules in force, if these are to be replaced.
    before: Option<&'a [Arc<Upstream>]>,
    is_sandboxed: bool,
    /// Whether another process looks names up during a reload, because this process forks and must not have threads.
    forks: bool,
    /// The end of the time for all names, during a reload.
    until: Instant,
    /// The minimum time for each name, during a reload.
    least_patience: Duration,
    found: RefCell<Vec<Arc<Upstream>>>,
    /// The upstream servers that keep their previous addresses, with the reasons.
    kept: RefCell<Vec<String>>,
}

impl<'a> Resolver<'a> {
    /// Returns a resolver for a start, which waits as long as the system does.
    pub(super) fn new(look_up: LookUp) -> Self {
        Self {
            look_up,
            before: None,
            is_sandboxed: false,
            forks: false,
            until: Instant::now() + PATIENCE,
            least_patience: LEAST_PATIENCE,
            found: RefCell::default(),
            kept: RefCell::default(),
        }
    }

    /// Returns a resolver for a reload.
    pub(super) fn again(look_up: LookUp, before: &'a [Arc<Upstream>], is_sandboxed: bool) -> Self {
        Self { before: Some(before), is_sandboxed, ..Self::new(look_up) }
    }

    /// Sets whether another process, instead of a thread, looks names up during a reload.
    pub(super) fn forking(self, forks: bool) -> Self {
        Self { forks, ..self }
    }

    /// Finds the addresses of an upstream server. Fails with the reason if none are known.
    pub(super) fn resolve(&self, upstream: &Arc<Upstream>) -> Result<(), String> {
        let mut found = self.found.borrow_mut();
        if let Some(same) = found.iter().find(|found| *found == upstream) {
            upstream.take_addresses_of(same);
            return Ok(());
        }
        if let Err(reason) = self.find(upstream) {
            let before = self.before.unwrap_or_default().iter().find(|before| *before == upstream);
            let Some(before) = before else { return Err(format!("{}: {reason}", upstream.text)) };
            upstream.take_addresses_of(before);
            self.kept.borrow_mut().push(format!("{}: {reason}", upstream.text));
        }
        found.push(upstream.clone());
        Ok(())
    }

    fn find(&self, upstream: &Arc<Upstream>) -> Result<(), String> {
        if self.before.is_none() || !upstream.has_name() {
            return upstream.find_addresses(self.look_up);
        }
        if self.is_sandboxed {
            must_read_files()?;
        }
        let now = Instant::now();
        let last = (self.until + LAST_PATIENCE).saturating_duration_since(now);
        let patience = self.until.saturating_duration_since(now).max(self.least_patience.min(last));
        if self.forks {
            return upstream.find_addresses(|host, port| ask_in_process(self.look_up, (host, port), patience));
        }
        let (tell, told) = mpsc::channel();
        let (look_up, asked) = (self.look_up, upstream.clone());
        // The thread ends when the system gives up; the receiver may be gone by then.
        let ask = move || drop(tell.send(asked.find_addresses(look_up)));
        std::thread::Builder::new().name("look-up".to_owned()).spawn(ask).map_err(|error| error.to_string())?;
        told.recv_timeout(patience).map_err(|_| no_answer(patience))?
    }

    /// Returns the upstream servers that keep their previous addresses, with the reasons.
    pub(super) fn kept(self) -> Vec<String> {
        self.kept.into_inner()
    }
}

fn no_answer(patience: Duration) -> String {
    format!("no answer within {:.1} s", patience.as_secs_f64())
}

/// Looks a name up in a separate process, which is killed if it does not answer in time. A thread might still be
/// looking up when this process forks, and the child would inherit a copy of the locks that the thread holds.
fn ask_in_process(look_up: LookUp, (host, port): (&str, u16), patience: Duration) -> Result<Vec<SocketAddr>, String> {
    let failed = |error: std::io::Error| error.to_string();
    let (mut answer, mut tell) = std::io::pipe().map_err(failed)?;
    let forker = Forker::new().map_err(|error| error.to_string())?;
    let parent = std::process::id().cast_signed();
    let asking = forker.fork(|| {
        // The child has copies of pipes whose closing shows others that this process has ended.
        let _ = landau_sys::system::set_parent_death_signal(parent);
        let text = match look_up(host, port) {
            Ok(found) => found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
            Err(reason) => format!("{NO}{reason}"),
        };
        // The text is shorter than the capacity of a pipe. If the reader is gone, the text is not needed.
        let _ = tell.write_all(text.as_bytes());
    });
    let pid = asking.map_err(|error| error.to_string())?;
    drop(tell);
    let milliseconds = u32::try_from(patience.as_millis()).unwrap_or(u32::MAX);
    let is_told = wait_readable_over_signals(&answer, milliseconds).unwrap_or(false);
    let mut text = String::new();
    let read = if is_told { answer.read_to_string(&mut text) } else { Ok(0) };
    let _ = process::kill(pid.cast_unsigned());
    let _ = child::wait(pid);
    match (read, text.strip_prefix(NO)) {
        _ if !is_told => Err(no_answer(patience)),
        (Err(error), _) => Err(failed(error)),
        (_, Some(reason)) => Err(reason.to_owned()),
        (_, None) => Ok(text.lines().filter_map(|line| line.parse().ok()).collect()),
    }
}

/// The prefix of the reason in the answer of a process that found no address.
const NO: char = '!';

/// Fails if one of these files cannot be read, because it may have been replaced since the sandbox was made. Without
/// it, a name could have other addresses than for the rest of the system.
fn must_read_files() -> Result<(), String> {
    let is_denied = |path: &&&str| File::open(path).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied);
    match FILES.iter().find(is_denied) {
        Some(path) => {
            Err(format!("the sandbox does not permit reading {path}; restart the server to look up the name"))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new_address(host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
        if host == "app.example" {
            return Ok(vec![SocketAddr::from(([10, 0, 0, 2], port))]);
        }
        std::thread::sleep(Duration::from_secs(60));
        Err("no such name".to_owned())
    }

    /// After the time for all names had passed, a name after a silent one once got no time at all, and the message
    /// stated the whole time.
    #[test]
    fn each_name_has_some_time_of_its_own() {
        for (name, least_patience, expected) in [
            ("http://app.example", Duration::from_secs(60), None),
            ("http://silent.example", Duration::from_millis(100), Some("no answer within 0.1 s")),
        ] {
            let before = [Arc::new(Upstream::new(name).unwrap())];
            before[0].find_addresses(|_, port| Ok(vec![SocketAddr::from(([10, 0, 0, 1], port))])).unwrap();
            let is_over = Instant::now();
            let again = Resolver::again(new_address, &before, false);
            let resolver = Resolver { until: is_over, least_patience, ..again };
            let upstream = Arc::new(Upstream::new(name).unwrap());
            resolver.resolve(&upstream).unwrap();
            assert_eq!(upstream.is_at_same_place(&before[0]), expected.is_some(), "{name}");
            let expected: Vec<String> = expected.map(|why| format!("{name}: {why}")).into_iter().collect();
            assert_eq!(resolver.kept(), expected);
        }
    }
}
