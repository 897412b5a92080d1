//! The suite that every backend passes, by subject.

mod changes;
mod closing;
mod deadlines;
#[cfg(target_os = "linux")]
mod exclusive;
mod kinds;
mod limits;
mod many;
mod model;
mod readiness;
mod waker;
