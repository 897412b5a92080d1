//! Other kernels: the same benchmarks, from the same binary, under a kernel that is booted for it.
//!
//! A kernel comes from a file, a package or a disk image, is booted by a platform, and leaves a record as a run on the
//! host does.

pub mod bisect;
pub mod choice;
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
pub mod machine;
pub mod matrix;
pub mod metric;
pub mod pack;
mod packing;
pub mod platform;
mod progress;
pub mod session;
pub mod sysctl;
pub mod watch;

pub use error::Error;
