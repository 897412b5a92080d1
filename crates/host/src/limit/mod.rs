//! The rules: one file for each subject, each of which returns the rows of its limits.

mod descriptors;
mod files;
mod mappings;
mod memory;
mod ports;
mod queues;
mod tasks;

use crate::context::Context;
use crate::row::Row;

pub(crate) use descriptors::processes;
pub use descriptors::{NR_OPEN, NR_OPEN_OF_SYSTEMD};
pub(crate) use ports::PortsInUse;
pub(crate) use queues::of_listeners;

/// Returns every visible limit of this host.
pub(crate) fn rows(context: &Context) -> Vec<Row> {
    let rules = [descriptors::rows, ports::rows, queues::rows, memory::rows, mappings::rows, tasks::rows, files::rows];
    rules.iter().flat_map(|rule| rule(context)).collect()
}
