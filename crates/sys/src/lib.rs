//! One safe function for each system call that Landau measures or needs.
//!
//! The crate decides nothing: it calls, it checks the result, and it says which call failed with which error number.
//! Calls that are measured go through `libc`, so that what is timed is what a C program would see. This is the only
//! crate that may hold `unsafe`; each block carries the fact that makes it sound.
//!
//! What differs between operating systems is confined to [`system`]: `linux.rs` and its portable twin `other.rs`
//! have the same functions, and whatever a system lacks is answered with `None` or an error, never with a guess.

#[cfg(target_os = "linux")]
pub mod boot;
pub mod bytes;
pub mod child;
pub mod clock;
pub mod descriptor;
pub mod disk;
#[cfg(target_os = "linux")]
pub mod epoll;
mod error;
pub mod event;
pub mod fork_helper;
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
#[cfg(target_os = "linux")]
pub mod ring;
pub mod select;
pub mod shared;
#[cfg(target_os = "linux")]
pub mod sigio;
pub mod signal;
pub mod socket;
pub mod stream;
pub mod system;
pub mod thread;
pub mod timerfd;
pub mod wait;

pub use error::{Error, Result, errno_name};
