//! One suite over every backend of this system.
#![allow(clippy::unwrap_used, reason = "a test ends where its premise fails")]
#![allow(clippy::print_stdout, reason = "the output of a failing test names the backend")]

mod child;
mod common;
#[cfg(target_os = "linux")]
mod completions;
#[cfg(target_os = "linux")]
mod exchange;
mod suite;
