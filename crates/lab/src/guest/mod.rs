//! The guest: the process that measures, and sends its record to the host.
//!
//! A guest is either the first process of a system that was booted for it (`init.rs`), or a child of another process,
//! with which it communicates over pipes or a network connection ([`child`]).

pub mod child;
mod connection;
#[cfg(target_os = "linux")]
mod init;
mod measure;

use landau_engine::Entry;

/// Runs as a guest if this process was started as one, and returns the exit status. The first process of a system does
/// not return.
pub fn main(registry: &[Entry]) -> Option<u8> {
    #[cfg(target_os = "linux")]
    init::main(registry);
    child::main(registry)
}
