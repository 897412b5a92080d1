//! On which processors this worker, and what it starts, may run.
//!
//! The worker itself is pinned to one; its parent, the controller, has the affinity that the user gave.

use landau_sys::system;

/// Returns the processors on which the user allows this program to run; none if the system does not tell.
fn allowed() -> Vec<u32> {
    system::processors_of(landau_sys::process::parent_id().unsigned_abs()).unwrap_or_default()
}

/// Runs `call` with this process pinned to these processors instead of `own`; returns whether it was.
fn pinned_to<T>(processors: &[u32], own: u32, call: impl FnOnce() -> T) -> (T, bool) {
    let moved = !processors.is_empty() && system::pin(processors).is_ok();
    let value = call();
    // This process was allowed on that processor before, so the call does not fail.
    let _ = system::pin(&[own]);
    (value, moved)
}

/// Runs `call` with this process pinned to all processors but `own`, so that a process which it starts inherits that;
/// returns the processors; none if there is no choice.
pub(crate) fn on_other_processors<T>(own: Option<u32>, call: impl FnOnce() -> T) -> (T, Vec<u32>) {
    let Some(own) = own else { return (call(), Vec::new()) };
    let others: Vec<u32> = allowed().into_iter().filter(|&processor| processor != own).collect();
    let (value, moved) = pinned_to(&others, own, call);
    (value, if moved { others } else { vec![own] })
}

/// Lets this process run on every processor that the user allows; on all where the system does not tell them.
pub(crate) fn pin_to_all() -> landau_sys::Result<()> {
    let processors = allowed();
    if processors.is_empty() { system::pin(&(0..1024).collect::<Vec<u32>>()) } else { system::pin(&processors) }
}

/// Runs `call` with this process pinned to a different processor than `own`, so that a process which it starts inherits
/// that; returns the processor.
pub(crate) fn on_other_processor<T>(own: Option<u32>, call: impl FnOnce() -> T) -> (T, Option<u32>) {
    let Some(own) = own else { return (call(), None) };
    let other = allowed().into_iter().find(|&processor| processor != own).unwrap_or(own);
    let (value, moved) = pinned_to(&[other], own, call);
    (value, moved.then_some(other))
}
