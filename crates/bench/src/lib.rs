//! Every benchmark of Landau, one file each in `list/`.
//!
//! A benchmark reads like the description of an experiment; how it is planned, driven and recorded is the engine's
//! business. The registry below is generated from the folder by `cargo xtask registry` and checked by CI.

pub mod awake;
mod backend;
mod crowd;
mod files;
mod fragments;
pub mod list;
mod program;
mod server;
mod volume;

pub use list::REGISTRY;
