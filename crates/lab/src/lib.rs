//! Other kernels: the same benchmarks, from the same binary, under a kernel that is booted for it.
//!
//! A kernel comes from a file, a package or a disk image, is booted by an engine, and leaves a record as a run on the
//! host does.

pub mod cpio;
mod error;
pub mod frame;
#[cfg(target_os = "linux")]
pub mod guest;
pub mod job;
pub mod machine;
pub mod pack;
pub mod qemu;
pub mod session;

pub use error::Error;
