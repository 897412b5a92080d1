//! How much a curve differs between runs of one machine, by benchmark.
//!
//! The passes of one run share a state that the next run may not: which huge pages are free, how the scheduler places a
//! process that is woken, how full the slabs are. Kinds of benchmarks differ: a system call without contention differs
//! by 2%, a call that includes a wake-up on another processor by up to half, and `kill` on one processor takes 3 µs or
//! 55 µs. `cargo xtask bench aa` measures these values and prints them in this form.

/// Standard deviation (log scale) of the level between runs, rounded up: benchmark, phase, value. From nine quick
/// studies of one virtual machine on 22 November 2026, six of them beside builds that used both processors.
const COMPONENTS: [(&str, &str, f64); 51] = [
    ("bind", "bind", 0.05),
    ("bind", "close", 0.05),
    ("bind", "socket", 0.03),
    ("connect", "accept", 0.50),
    ("connect", "first_byte", 0.50),
    ("connect", "handshake", 0.07),
    ("connect", "last_byte", 0.50),
    ("download", "mebibyte", 0.50),
    ("dup", "close", 0.02),
    ("dup", "dup", 0.02),
    ("epoll_ctl", "add", 0.02),
    ("epoll_ctl", "delete", 0.07),
    ("event_loop", "dispatch", 0.07),
    ("event_loop", "wait", 0.02),
    ("event_wait", "wait", 0.02),
    ("eventfd", "close", 0.05),
    ("eventfd", "eventfd", 0.03),
    ("fd_reuse", "close", 0.02),
    ("fd_reuse", "dup", 0.02),
    ("fork", "byte", 0.15),
    ("fork", "kill", 1.00),
    ("fork", "reap", 0.10),
    ("fork", "return", 0.15),
    ("fork", "run", 0.03),
    ("map_files", "close", 0.05),
    ("map_files", "mmap", 0.02),
    ("map_files", "munmap", 0.03),
    ("map_files", "open", 0.03),
    ("map_files", "touch", 0.07),
    ("mmap", "mmap", 0.03),
    ("mmap", "munmap", 0.03),
    ("mmap", "touch", 0.15),
    ("nop", "nop", 0.02),
    ("open", "close", 0.05),
    ("open", "open", 0.02),
    ("pipe", "close", 0.03),
    ("pipe", "pipe", 0.02),
    ("request", "first_byte", 0.30),
    ("request", "last_byte", 0.30),
    ("socket", "close", 0.03),
    ("socket", "socket", 0.02),
    ("syscall", "getppid", 0.02),
    ("thread", "byte", 0.07),
    ("thread", "join", 0.15),
    ("thread", "return", 0.15),
    ("thread", "run", 0.05),
    ("timerfd", "arm", 0.05),
    ("timerfd", "close", 0.05),
    ("timerfd", "create", 0.03),
    ("waitpid", "reap", 0.10),
    ("waitpid", "wnohang", 0.30),
];

/// The value of a phase that is not in the list.
const DEFAULT: f64 = 0.05;

/// Returns the standard deviation (log scale) of the level of a phase from run to run.
pub(crate) fn of(benchmark: &str, phase: &str) -> f64 {
    let listed = COMPONENTS.iter().find(|row| (row.0, row.1) == (benchmark, phase));
    listed.map_or(DEFAULT, |row| row.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_benchmarks_differ() {
        assert!(of("fork", "kill") > 10.0 * of("dup", "dup"));
        assert!((of("unknown", "call") - DEFAULT).abs() < 1e-12);
        assert!(COMPONENTS.is_sorted(), "sorted by name, so that a new list can be compared");
    }
}
