//! Tests that need a separate process, because its memory is counted.
#![cfg(target_os = "linux")]

mod memory;
