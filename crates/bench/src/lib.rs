//! The benchmarks of Landau, one file each in [`list`].
//!
//! A benchmark describes an experiment; the engine plans, drives and records it. `cargo xtask registry` generates the
//! list from the directory, and CI checks it.

pub mod architecture;
mod backend;
mod extents;
mod files;
pub mod idle_poll;
pub mod list;
pub mod placement;
mod pool;
mod program;
mod receiver;
mod server;
mod volume;

pub use list::REGISTRY;
pub use server::rival;
