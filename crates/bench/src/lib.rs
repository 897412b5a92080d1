//! Every benchmark of Landau, one file each in `list/`.
//!
//! A benchmark reads like the description of an experiment; how it is planned, driven and recorded is the engine's
//! business. The registry below is generated from the folder by `cargo xtask registry` and checked by CI.

mod backend;
mod extents;
mod files;
pub mod idle_poll;
pub mod list;
mod pool;
mod program;
mod server;
mod volume;

pub use list::REGISTRY;
