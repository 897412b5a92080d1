//! The benchmarks, one file each. What stands between the markers is generated: `cargo xtask registry`.

use landau_engine::{Entry, Stop};
use std::os::fd::{AsRawFd, OwnedFd};

// registry:begin
pub mod bind;
pub mod connect;
pub mod dispatch;
pub mod download;
pub mod dup;
pub mod epoll_ctl;
pub mod eventfd;
pub mod fork;
pub mod manymap;
pub mod mmap;
pub mod nop;
pub mod open;
pub mod pipe;
pub mod refill;
pub mod request;
pub mod socket;
pub mod syscall;
pub mod thread;
pub mod wait;
pub mod wait_any;

/// Every benchmark, by name.
pub static REGISTRY: &[Entry] = &[
    Entry::of::<bind::Bind>(),
    Entry::of::<connect::Connect>(),
    Entry::of::<dispatch::Dispatch>(),
    Entry::of::<download::Download>(),
    Entry::of::<dup::Dup>(),
    Entry::of::<epoll_ctl::EpollCtl>(),
    Entry::of::<eventfd::Eventfd>(),
    Entry::of::<fork::Fork>(),
    Entry::of::<manymap::Manymap>(),
    Entry::of::<mmap::Mmap>(),
    Entry::of::<nop::Nop>(),
    Entry::of::<open::Open>(),
    Entry::of::<pipe::Pipe>(),
    Entry::of::<refill::Refill>(),
    Entry::of::<request::Request>(),
    Entry::of::<socket::Socket>(),
    Entry::of::<syscall::Syscall>(),
    Entry::of::<thread::Thread>(),
    Entry::of::<wait::Wait>(),
    Entry::of::<wait_any::WaitAny>(),
];
// registry:end

/// Sees that so many descriptors are there, open and different from each other.
pub(crate) fn check_open<'a>(descriptors: impl IntoIterator<Item = &'a OwnedFd>, expected: u64) -> Result<(), Stop> {
    let mut numbers: Vec<i32> = descriptors.into_iter().map(AsRawFd::as_raw_fd).collect();
    if let Some(closed) = numbers.iter().find(|&&number| !landau_sys::descriptor::is_open(number)) {
        return Err(Stop::Wrong(format!("descriptor {closed} is not open")));
    }
    numbers.sort_unstable();
    numbers.dedup();
    let count = numbers.len() as u64;
    Stop::unless(count == expected, || format!("{expected} descriptors were opened, but {count} different ones are"))
}
