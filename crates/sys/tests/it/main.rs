//! Tests that need a process of their own: its memory is counted.
#![cfg(target_os = "linux")]

mod memory;
