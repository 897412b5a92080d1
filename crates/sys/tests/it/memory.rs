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
    assert_eq!(supply(0, bytes).expect("64 MiB are free"), None);
    assert!(status("VmHWM:") >= bytes, "{} were resident", status("VmHWM:"));
    assert!(status("VmRSS:") < bytes / 2, "{} are still resident", status("VmRSS:"));
    assert_eq!(supply(0, usize::MAX / 2).expect_err("no such memory").errno, 12);
}

/// Returns how many page faults of this thread needed no disk.
fn faults() -> usize {
    let text = std::fs::read_to_string("/proc/thread-self/stat").expect("Linux has it");
    let fields = text.rsplit_once(')').expect("the name is in parentheses").1;
    fields.split_whitespace().nth(7).and_then(|word| word.parse().ok()).expect("a number")
}

/// Each page table is allocated by a fault.
#[test]
fn memory_of_the_kernel_is_taken_as_page_tables() {
    let page = landau_sys::memory::page_bytes();
    let before = faults();
    assert_eq!(supply(4_096 * page, 0).expect("16 MiB are free"), None);
    let taken = faults() - before;
    assert!((4_096..4_300).contains(&taken), "{taken} faults");
    assert_eq!(supply(usize::MAX / 2, 0).expect_err("no such addresses").errno, 12);
}

/// Guards against treating a refused advice as an error, and against a length that overflows.
#[test]
fn displacing_needs_no_huge_pages_and_tells_that_memory_is_refused() {
    displace_caches((2 << 20) + 4096).expect("2 MiB are free");
    assert_eq!(displace_caches(usize::MAX / 2).expect_err("no such memory").errno, 12);
    assert_eq!(displace_caches(0).expect_err("no bytes cannot be mapped").errno, 22);
}
