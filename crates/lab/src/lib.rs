//! The lab: the same benchmarks, run by the same binary, under other kernels.
//!
//! A kernel comes from a file, a package, a disk image or another machine ([`obtain`]). A [`platform`] runs it, and the
//! [`guest`] inside sends the lines of an ordinary record ([`session`]).

pub mod bisect;
pub mod choice;
mod compression;
pub mod console;
pub mod cpio;
pub mod deb;
pub mod debian;
mod error;
pub mod explain;
pub mod frame;
pub mod guest;
pub mod image;
pub mod job;
pub mod kernel;
pub mod launch;
pub mod machine;
pub mod matrix;
pub mod observer;
pub mod obtain;
pub mod outcome;
pub mod pack;
pub mod platform;
pub mod probe;
mod progress;
mod qemu;
pub mod session;
mod stanza;
pub mod supervise;
pub mod sysctl;
mod tool;
mod unpacked;

pub use error::Error;
