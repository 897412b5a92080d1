//! Memory that a virtual machine's host must supply, and memory that displaces the caches.

use landau_sys::memory::{displace_caches, supply};

/// Returns a value of `/proc/self/status` in bytes.
fn status(name: &str) -> usize {
    let text = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("Linux tells it");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
}

/// Guards against pages that are freed before all were allocated: the kernel would hand out the same few again.
#[test]
fn every_page_is_taken_at_the_same_time_and_given_supply() {
    let bytes = 64 << 20;
    assert!(status("VmHWM:") < bytes, "the test needs a process that has not used so much");
    supply(bytes).expect("64 MiB are free");
    assert!(status("VmHWM:") >= bytes, "{} were resident", status("VmHWM:"));
    assert!(status("VmRSS:") < bytes / 2, "{} are still resident", status("VmRSS:"));
    assert_eq!(supply(usize::MAX / 2).expect_err("no such memory").errno, 12);
}

/// Guards against treating a refused advice as an error, and against a length that overflows.
#[test]
fn displacing_needs_no_huge_pages_and_tells_that_memory_is_refused() {
    displace_caches((2 << 20) + 4096).expect("2 MiB are free");
    assert_eq!(displace_caches(usize::MAX / 2).expect_err("no such memory").errno, 12);
    assert_eq!(displace_caches(0).expect_err("no bytes cannot be mapped").errno, 22);
}
