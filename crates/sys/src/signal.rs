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

/// Returns the name of the signal that was caught, if one was.
pub fn interrupted() -> Option<&'static str> {
    match CAUGHT.load(Ordering::Relaxed) {
        0 => None,
        libc::SIGINT => Some("SIGINT"),
        libc::SIGHUP => Some("SIGHUP"),
        _ => Some("SIGTERM"),
    }
}

/// A signal that controls a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceSignal {
    /// Terminate: SIGTERM or SIGINT.
    Terminate,
    /// Reload the configuration: SIGHUP.
    Reload,
}

fn service_signals() -> libc::sigset_t {
    // SAFETY: `sigset_t` is plain data for which all zeroes is a value.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set may be written.
    unsafe { libc::sigemptyset(&raw mut set) };
    for number in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        // SAFETY: the set is initialised and the number is a signal's.
        unsafe { libc::sigaddset(&raw mut set, number) };
    }
    set
}

/// Blocks these signals in this thread and those that it starts, so that [`wait_for_service_signal`] receives them.
pub fn block_service_signals() {
    let set = service_signals();
    // SAFETY: the set is initialised, and null says that the old mask is not wanted.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
}

/// Waits for the next of these signals.
pub fn wait_for_service_signal() -> ServiceSignal {
    let set = service_signals();
    loop {
        let mut number = 0;
        // SAFETY: the set is initialised and the number is writable.
        let failed = unsafe { libc::sigwait(&raw const set, &raw mut number) };
        match number {
            libc::SIGHUP if failed == 0 => return ServiceSignal::Reload,
            libc::SIGTERM | libc::SIGINT if failed == 0 => return ServiceSignal::Terminate,
            _ => {}
        }
    }
}
