//! The parent process of the `fork` benchmark, small enough that the measurement covers the system and not Landau.
//!
//! This is the root of a program without the Rust standard library. `build.rs` compiles it once and links it against
//! each C library that the build host has, so that dynamic and static linkage are compared with the same code. Its
//! parts are in `helper.rs`, `sleepers.rs`, `beside.rs` and `protocol.rs`, which the crate `sys` includes as well:
//! `protocol.rs` to communicate with it, the others in tests, so that its lints cover those files.
#![no_std]
#![no_main]

#[cfg(target_os = "linux")]
mod beside;
mod helper;
#[cfg(target_os = "linux")]
#[path = "../src/marker.rs"]
#[allow(dead_code, reason = "the worker marks passes")]
mod marker;
mod protocol;
#[cfg(target_os = "linux")]
mod sleepers;

use core::ffi::{c_char, c_int};

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    helper::exit(70)
}

#[unsafe(no_mangle)]
extern "C" fn main(argc: c_int, argv: *const *const c_char, env: *const *const c_char) -> c_int {
    helper::main(argc, argv, env)
}
