//! Signals: interrupts as a flag that loops check, and the signals that control a server.

use std::sync::atomic::{AtomicI32, Ordering};

static CAUGHT: AtomicI32 = AtomicI32::new(0);

extern "C" fn remember(number: libc::c_int) {
    CAUGHT.store(number, Ordering::Relaxed);
}

/// Catches SIGINT, SIGTERM and SIGHUP from now on: they set a flag ([`interrupted`]) instead of ending the process.
/// Signals that are ignored already (`nohup`, a job in the background) stay ignored.
pub fn catch_interrupts() {
    for number in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler has the expected signature and only stores to an atomic, which is async-signal-safe.
        let before = unsafe { libc::signal(number, remember as *const () as libc::sighandler_t) };
        if before == libc::SIG_IGN {
            // SAFETY: SIG_IGN is a valid disposition.
            unsafe { libc::signal(number, libc::SIG_IGN) };
        }
    }
}

/// Ensures that ended children can be waited for: the process that started this one may have ignored SIGCHLD, and then
/// children leave neither a status nor their processor time.
pub fn keep_children() {
    // SAFETY: SIG_DFL is a valid disposition.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// Makes a write beyond the file size limit (`ulimit -f`) fail with EFBIG. By default SIGXFSZ ends the process before
/// it sees that error. Processes that this one starts ignore the signal too.
pub fn ignore_file_size() {
    // SAFETY: SIG_IGN is a valid disposition.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Ignores the signals with which a terminal stops this process (SIGTSTP, SIGTTIN, SIGTTOU). A process that traces
/// another one must not be stopped: the other one would stay stopped. Processes that this one starts ignore them too.
pub fn ignore_terminal_stops() {
    for number in [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU] {
        // SAFETY: SIG_IGN is a valid disposition.
        unsafe { libc::signal(number, libc::SIG_IGN) };
    }
}

/// Returns the name of the signal that was caught, if one was.
pub fn interrupted() -> Option<&'static str> {
    match CAUGHT.load(Ordering::Relaxed) {
        0 => None,
        libc::SIGINT => Some("SIGINT"),
        libc::SIGHUP => Some("SIGHUP"),
        _ => Some("SIGTERM"),
    }
}

/// Returns the name of a signal that may end a process, such as `SIGKILL`; `None` for unusual ones.
pub fn name(number: i32) -> Option<&'static str> {
    Some(match number {
        libc::SIGABRT => "SIGABRT",
        libc::SIGALRM => "SIGALRM",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGHUP => "SIGHUP",
        libc::SIGILL => "SIGILL",
        libc::SIGINT => "SIGINT",
        libc::SIGKILL => "SIGKILL",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGSYS => "SIGSYS",
        libc::SIGTERM => "SIGTERM",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGUSR2 => "SIGUSR2",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        _ => return None,
    })
}

extern "C" fn ignore(_: libc::c_int) {}

/// Makes it possible to wait for the end of a child as a signal. Not every system keeps a signal that a process ignores
/// by default, such as this one.
pub fn report_children() {
    // SAFETY: the handler has the expected signature and does nothing.
    unsafe { libc::signal(libc::SIGCHLD, ignore as *const () as libc::sighandler_t) };
}

/// Sends SIGALRM to this process once, after a time; a time of zero cancels it.
pub fn set_alarm(after: std::time::Duration) {
    let microseconds = libc::suseconds_t::from(after.subsec_micros().cast_signed());
    let value = libc::timeval { tv_sec: after.as_secs() as libc::time_t, tv_usec: microseconds };
    let timer = libc::itimerval { it_interval: libc::timeval { tv_sec: 0, tv_usec: 0 }, it_value: value };
    // SAFETY: the timer is readable, and null says that the previous one is not wanted. The call fails only for an
    // invalid time.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()) };
}

/// A signal that controls a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceSignal {
    /// Terminate: SIGTERM or SIGINT.
    Terminate,
    /// Reload the configuration: SIGHUP.
    Reload,
    /// Report the counts so far: SIGUSR1, with a server that has no log.
    Report,
    /// Reopen the log: SIGUSR1, with a server that has one.
    ReopenLog,
    /// End when the last connection has ended: SIGQUIT.
    Finish,
    /// Replace the program in place: SIGUSR2, as with nginx.
    Upgrade,
    /// A child has ended: SIGCHLD, with a process that has called [`report_children`].
    ChildEnded,
    /// The time of [`set_alarm`] has passed: SIGALRM.
    Alarm,
}

impl ServiceSignal {
    const fn numbers(self) -> &'static [libc::c_int] {
        match self {
            Self::Terminate => &[libc::SIGTERM, libc::SIGINT],
            Self::Reload => &[libc::SIGHUP],
            Self::Report | Self::ReopenLog => &[libc::SIGUSR1],
            Self::Finish => &[libc::SIGQUIT],
            Self::Upgrade => &[libc::SIGUSR2],
            Self::ChildEnded => &[libc::SIGCHLD],
            Self::Alarm => &[libc::SIGALRM],
        }
    }
}

/// The signals that a server waits for.
#[derive(Clone, Copy)]
pub struct ServiceSignals {
    all: &'static [ServiceSignal],
    set: libc::sigset_t,
}

impl std::fmt::Debug for ServiceSignals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.all.fmt(f)
    }
}

impl ServiceSignals {
    /// Blocks these signals in this thread and those that it starts, so that [`wait`](Self::wait) receives them.
    pub fn block(all: &'static [ServiceSignal]) -> Self {
        // SAFETY: `sigset_t` is plain data for which all zeroes is a value.
        let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: the set may be written.
        unsafe { libc::sigemptyset(&raw mut set) };
        for &number in all.iter().flat_map(|signal| signal.numbers()) {
            // SAFETY: the set is initialised and the number is a signal's.
            unsafe { libc::sigaddset(&raw mut set, number) };
        }
        // SAFETY: the set is initialised, and null says that the old mask is not wanted.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
        Self { all, set }
    }

    /// Waits for the next of these signals.
    pub fn wait(&self) -> ServiceSignal {
        loop {
            let mut number = 0;
            // SAFETY: the set is initialised and the number is writable.
            let failed = unsafe { libc::sigwait(&raw const self.set, &raw mut number) };
            let found = self.all.iter().find(|signal| failed == 0 && signal.numbers().contains(&number));
            if let Some(&signal) = found {
                return signal;
            }
        }
    }
}
