//! Ctrl-C and its kin as a flag that loops look at.

use std::sync::atomic::{AtomicI32, Ordering};

static CAUGHT: AtomicI32 = AtomicI32::new(0);

extern "C" fn remember(number: libc::c_int) {
    CAUGHT.store(number, Ordering::Relaxed);
}

/// From now on SIGINT, SIGTERM and SIGHUP are remembered instead of ending the process; those that are ignored already
/// (`nohup`, a job in the background) stay ignored.
pub fn catch_interrupts() {
    for number in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler only stores to an atomic, which is allowed in a signal handler.
        let before = unsafe { libc::signal(number, remember as *const () as libc::sighandler_t) };
        if before == libc::SIG_IGN {
            // SAFETY: SIG_IGN is a valid disposition.
            unsafe { libc::signal(number, libc::SIG_IGN) };
        }
    }
}

/// The name of the interrupt that was caught, if one was.
pub fn interrupted() -> Option<&'static str> {
    match CAUGHT.load(Ordering::Relaxed) {
        0 => None,
        libc::SIGINT => Some("SIGINT"),
        libc::SIGHUP => Some("SIGHUP"),
        _ => Some("SIGTERM"),
    }
}

/// Gives SIGPIPE its default back, so that a closed pipe ends a program that prints, as it does every other.
pub fn default_sigpipe() {
    // SAFETY: SIG_DFL is a valid disposition.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}
