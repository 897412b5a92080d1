//! The architectures, one file each. The lines between the markers are generated: `cargo xtask registry`.

use crate::{Architecture, Listeners, Result, Start, Workload};

// registry:begin
mod event_loop;
mod event_loops;
mod exec;
mod fork;
mod io_uring;
mod prefork;
mod thread;
mod thread_pool;

/// Every architecture, by name.
pub const ALL: &[&Architecture] = &[
    &event_loop::ARCHITECTURE,
    &event_loops::ARCHITECTURE,
    &exec::ARCHITECTURE,
    &fork::ARCHITECTURE,
    &io_uring::ARCHITECTURE,
    &prefork::ARCHITECTURE,
    &thread::ARCHITECTURE,
    &thread_pool::ARCHITECTURE,
];
// registry:end

/// The names of all architectures.
pub const NAMES: &[&str] = &names();

const fn names() -> [&'static str; ALL.len()] {
    let mut names = [""; ALL.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = ALL[index].name;
        index += 1;
    }
    names
}
