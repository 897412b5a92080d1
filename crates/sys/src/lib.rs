//! A safe function for each system call that Landau measures or needs.
//!
//! The functions make the call, check the result, and report which call failed with which error number; they make no
//! decisions. Measured calls go through `libc`, so that the timed call is the one that a C program would make; those on
//! stream sockets, and the wait for events of the event library, leave out its cancellation points (`direct.rs`). This
//! is the only crate with `unsafe` code (the plugin that the lab compiles for QEMU is the exception); each block states
//! why it is sound.
//!
//! Differences between operating systems are confined to [`system`]: `linux.rs` and its portable counterpart `other.rs`
//! have the same functions. A feature that a system lacks is `None` or an error, never a guess.

#[cfg(target_os = "linux")]
pub mod boot;
pub mod bpf;
pub mod bytes;
pub mod child;
pub mod clock;
pub mod descriptor;
mod direct;
pub mod disk;
#[cfg(target_os = "linux")]
pub mod epoll;
mod error;
pub mod event;
pub mod file;
pub mod fork_helper;
pub mod kernel_text;
#[cfg(any(
    target_os = "freebsd",
    target_os = "netbsd",
    target_os = "openbsd",
    target_os = "dragonfly",
    target_vendor = "apple"
))]
pub mod kqueue;
pub mod limits;
pub mod marker;
pub mod memory;
pub mod path;
pub mod poll;
pub mod privilege;
pub mod process;
pub mod ptrace;
#[cfg(target_os = "linux")]
pub mod ring;
pub mod select;
pub mod shared;
#[cfg(target_os = "linux")]
pub mod sigio;
pub mod signal;
pub mod sleepers;
pub mod socket;
pub mod stream;
pub mod syscalls;
pub mod system;
pub mod thread;
pub mod timerfd;
pub mod wait;
pub mod watched;

pub use error::{Error, Result, errno_name};
