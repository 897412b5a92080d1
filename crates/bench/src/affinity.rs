//! The processors on which this worker, and the processes that it starts, may run.
//!
//! The worker itself is pinned to one; its parent, the controller, runs on the others that the user allows.

use landau_sys::system;

/// Returns the processors of the controller; none if the system does not report them.
fn of_controller() -> Vec<u32> {
    system::processors_of(landau_sys::process::parent_id().unsigned_abs()).unwrap_or_default()
}

/// Returns the processors on which the user allows this program to run: those of the controller and `own`, that of this
/// worker; none if the system does not report them.
fn allowed(own: Option<u32>) -> Vec<u32> {
    let mut all = of_controller();
    if let Some(own) = own.filter(|own| !all.is_empty() && !all.contains(own)) {
        all.push(own);
        all.sort_unstable();
    }
    all
}

/// Runs `call` with this process pinned to these processors instead of `own`. Also returns whether the pinning
/// succeeded.
fn pinned_to<T>(processors: &[u32], own: u32, call: impl FnOnce() -> T) -> (T, bool) {
    let moved = !processors.is_empty() && system::pin(processors).is_ok();
    let value = call();
    // This process was allowed on that processor before, so the call does not fail.
    let _ = system::pin(&[own]);
    (value, moved)
}

/// Runs `call` with this process pinned to all processors except `own`, so that a process that it starts inherits the
/// mask. Also returns the processors; none if this process is not pinned.
pub(crate) fn on_other_processors<T>(own: Option<u32>, call: impl FnOnce() -> T) -> (T, Vec<u32>) {
    let Some(own) = own else { return (call(), Vec::new()) };
    let others: Vec<u32> = of_controller().into_iter().filter(|&processor| processor != own).collect();
    let (value, moved) = pinned_to(&others, own, call);
    (value, if moved { others } else { vec![own] })
}

/// Runs `call` with this process allowed on every processor that the user allows, so that a process that it starts
/// inherits the mask. Also returns the processors; none if this process is not pinned.
pub(crate) fn on_all_processors<T>(own: Option<u32>, call: impl FnOnce() -> T) -> (T, Vec<u32>) {
    let Some(own) = own else { return (call(), Vec::new()) };
    let all = allowed(Some(own));
    let (value, moved) = pinned_to(&all, own, call);
    (value, if moved { all } else { vec![own] })
}

/// Lets this process, which is pinned to `own`, run on every processor that the user allows; on all processors if the
/// system does not report the allowed ones.
pub(crate) fn pin_to_all(own: Option<u32>) -> landau_sys::Result<()> {
    let processors = allowed(own);
    if processors.is_empty() { system::pin(&(0..1024).collect::<Vec<u32>>()) } else { system::pin(&processors) }
}

/// Runs `call` with this process pinned to a processor other than `own`, so that a process that it starts inherits the
/// mask. Also returns the processor.
pub(crate) fn on_other_processor<T>(own: Option<u32>, call: impl FnOnce() -> T) -> (T, Option<u32>) {
    let Some(own) = own else { return (call(), None) };
    let other = of_controller().into_iter().find(|&processor| processor != own).unwrap_or(own);
    let (value, moved) = pinned_to(&[other], own, call);
    (value, moved.then_some(other))
}
