//! The variation of a curve between runs on one machine, by benchmark.
//!
//! The passes of one run share a state that the next run may not share: which huge pages are free, where the scheduler
//! places a woken process, how full the slabs are. The variation depends on the benchmark: a system call without
//! contention differs by 2 to 7%, a call that includes a wake-up on another processor by up to half. `cargo xtask bench
//! aa` measures these values and prints them in this form.
//!
//! A value that is too large does more than hide a difference of its own curve: whether the machine was in another
//! state is judged from the curves that are precise enough ([`Shift`](crate::Shift)).

/// Standard deviations (log scale) between runs of the level and of the growth, rounded up: benchmark, phase, level,
/// growth. The levels are the largest of four sets of quick studies of one virtual machine, and at least 2%: nine
/// studies of 22 November 2026, six of them run while builds used both processors, and three times ten of 28 and 29
/// November. Those of `fork` and of `mmap touch` are from the last three: memory is supplied before each pass since.
/// Levels include the variation that is visible between the passes of one run; only that of `mail` does not. The
/// growths are from ten calm studies of 23 November, without the variation between passes, and are at least 2%; that
/// of `mail` is from ten studies of 28 November, and that of `download` is a guess. `spawn` is from ten runs of three
/// passes among 15,000 sleepers, whose law is O(n) with one slope or with two.
const COMPONENTS: [(&str, &str, f64, f64); 56] = [
    ("bind", "bind", 0.07, 0.07),
    ("bind", "close", 0.05, 0.03),
    ("bind", "socket", 0.05, 0.03),
    ("connect", "accept", 0.50, 0.05),
    ("connect", "first_byte", 0.50, 0.02),
    ("connect", "handshake", 0.07, 0.02),
    ("connect", "last_byte", 0.50, 0.02),
    ("download", "mebibyte", 0.50, 0.10),
    ("dup", "close", 0.03, 0.02),
    ("dup", "dup", 0.05, 0.02),
    ("epoll_ctl", "add", 0.03, 0.02),
    ("epoll_ctl", "delete", 0.07, 0.02),
    ("event_loop", "dispatch", 0.07, 0.02),
    ("event_loop", "wait", 0.03, 0.02),
    ("event_wait", "wait", 0.03, 0.03),
    ("eventfd", "close", 0.07, 0.02),
    ("eventfd", "eventfd", 0.07, 0.02),
    ("fd_reuse", "close", 0.05, 0.03),
    ("fd_reuse", "dup", 0.05, 0.05),
    ("fork", "byte", 0.03, 0.02),
    ("fork", "kill", 0.07, 0.02),
    ("fork", "reap", 0.03, 0.02),
    ("fork", "return", 0.03, 0.02),
    ("fork", "run", 0.03, 0.02),
    ("mail", "processor", 0.10, 0.10),
    ("mail", "recipient", 0.10, 0.10),
    ("map_files", "close", 0.05, 0.02),
    ("map_files", "mmap", 0.03, 0.02),
    ("map_files", "munmap", 0.05, 0.02),
    ("map_files", "open", 0.03, 0.02),
    ("map_files", "touch", 0.07, 0.07),
    ("mmap", "mmap", 0.03, 0.02),
    ("mmap", "munmap", 0.05, 0.02),
    ("mmap", "touch", 0.02, 0.02),
    ("nop", "nop", 0.02, 0.02),
    ("open", "close", 0.07, 0.02),
    ("open", "open", 0.05, 0.02),
    ("pipe", "close", 0.03, 0.05),
    ("pipe", "pipe", 0.03, 0.02),
    ("request", "first_byte", 0.30, 0.05),
    ("request", "last_byte", 0.30, 0.05),
    ("socket", "close", 0.03, 0.02),
    ("socket", "socket", 0.03, 0.03),
    ("spawn", "cycle", 0.15, 0.50),
    ("spawn", "end", 0.10, 0.50),
    ("spawn", "return", 0.10, 0.15),
    ("syscall", "getppid", 0.07, 0.02),
    ("thread", "byte", 0.07, 0.02),
    ("thread", "join", 0.15, 0.05),
    ("thread", "return", 0.15, 0.02),
    ("thread", "run", 0.05, 0.02),
    ("timerfd", "arm", 0.05, 0.05),
    ("timerfd", "close", 0.05, 0.02),
    ("timerfd", "create", 0.03, 0.02),
    ("waitpid", "reap", 0.10, 0.03),
    ("waitpid", "wnohang", 0.30, 0.02),
];

/// The level and the growth of a phase that is not in the list.
const DEFAULT: (f64, f64) = (0.05, 0.02);

/// Returns the standard deviation (log scale) of the level of a phase from run to run.
pub(crate) fn of(benchmark: &str, phase: &str) -> f64 {
    find(benchmark, phase).0
}

/// Returns the standard deviation (log scale) of the growth of a phase from run to run.
pub(crate) fn of_growth(benchmark: &str, phase: &str) -> f64 {
    find(benchmark, phase).1
}

fn find(benchmark: &str, phase: &str) -> (f64, f64) {
    let listed = COMPONENTS.iter().find(|row| (row.0, row.1) == (benchmark, phase));
    listed.map_or(DEFAULT, |row| (row.2, row.3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_benchmarks_differ() {
        assert!(of("connect", "accept") > 5.0 * of("dup", "dup"));
        assert!((of("unknown", "call") - DEFAULT.0).abs() < 1e-12);
        assert!(COMPONENTS.is_sorted(), "sorted by name, so that a new list can be compared");
    }
}
