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
use crate::text::limited;

pub(crate) use descriptors::processes;
pub use descriptors::{NR_OPEN, NR_OPEN_OF_SYSTEMD};
pub(crate) use ports::PortsInUse;
pub(crate) use queues::of_listeners;

/// Returns every visible limit of this host.
pub(crate) fn rows(context: &Context) -> Vec<Row> {
    let rules = [descriptors::rows, ports::rows, queues::rows, memory::rows, mappings::rows, tasks::rows, files::rows];
    rules.iter().flat_map(|rule| rule(context)).collect()
}

/// Returns how to raise a resource limit (`nofile`, `nproc`) permanently to `target`, for a service and for the
/// sessions of `who`. A higher hard limit stays.
fn for_good(context: &Context, item: &str, who: &str, target: u64, hard: u64) -> String {
    let (kind, value) = if target < hard {
        ("soft", format!("{target}:{}", limited(hard, "infinity", |hard| hard.to_string())))
    } else {
        ("-", target.to_string())
    };
    format!(
        "service: {}; login: \"{who} {kind} {item} {target}\" in /etc/security/limits.d/90-landau.conf",
        context.limit_service(&format!("Limit{}={value}", item.to_uppercase()))
    )
}
