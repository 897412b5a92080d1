//! The server over real sockets.
#![allow(clippy::unwrap_used, reason = "a test ends where its premise fails")]
#![allow(clippy::print_stderr, reason = "a test that is skipped or fails says why")]

mod compress;
mod deploy;
#[path = "../../../wire/tests/it/escape.rs"]
mod escape;
mod files;
mod hostile;
mod http2;
mod http2_hostile;
mod http2_upstream;
mod log;
mod many;
mod memory;
mod operator;
mod pressure;
mod proxy;
mod rules;
mod rules_access;
mod slow;
#[cfg(target_os = "linux")]
mod slow_disk;
mod support;
#[path = "../../../wire/tests/it/table.rs"]
mod table;
mod tls;
mod upstream;
