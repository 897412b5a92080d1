//! An error that prevents an explanation.

use super::plugin;

/// An error that prevents an explanation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no plugin for this emulator.
    #[error(transparent)]
    Plugin(#[from] plugin::Error),
    /// The kernel does not report the addresses of its functions.
    #[error(
        "the kernel has no symbols: /proc/kallsyms contains no addresses; explain needs CONFIG_KALLSYMS, which every \
         distribution's kernel has"
    )]
    NoSymbols,
    /// The guest did not complete its task.
    #[error("the guest could not {task}: {reason}")]
    Guest {
        /// The task.
        task: &'static str,
        /// What happened instead, with the console's last lines.
        reason: String,
    },
    /// The counts do not belong to the samples.
    #[error("the plugin's counts cannot be used: {0}")]
    Counts(String),
    /// No timed call was counted.
    #[error(
        "{0} has no phase that can be explained: its calls are timed in another process, where the plugin cannot see \
         their beginning and end"
    )]
    NotExplainable(String),
    /// The guest cannot be made or measured.
    #[error(transparent)]
    Lab(#[from] crate::Error),
}
