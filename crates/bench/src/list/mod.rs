//! The benchmarks, one file each. The lines between the markers are generated: `cargo xtask registry`.

use landau_engine::{Entry, Stop};
use std::os::fd::{AsRawFd, OwnedFd};

// registry:begin
pub mod architecture;
pub mod bind;
pub mod connect;
pub mod download;
pub mod dup;
pub mod epoll_ctl;
pub mod event_loop;
pub mod event_wait;
pub mod eventfd;
pub mod fd_reuse;
pub mod files;
pub mod fork;
pub mod mail;
pub mod map_files;
pub mod mmap;
pub mod nop;
pub mod open;
pub mod pids;
pub mod pipe;
pub mod request;
pub mod socket;
pub mod spawn;
pub mod syscall;
pub mod tcp;
pub mod thread;
pub mod timerfd;
pub mod waitpid;

/// Every benchmark, by name.
pub static REGISTRY: &[Entry] = &[
    Entry::of::<architecture::Architecture>(),
    Entry::of::<bind::Bind>(),
    Entry::of::<connect::Connect>(),
    Entry::of::<download::Download>(),
    Entry::of::<dup::Dup>(),
    Entry::of::<epoll_ctl::EpollCtl>(),
    Entry::of::<event_loop::EventLoop>(),
    Entry::of::<event_wait::EventWait>(),
    Entry::of::<eventfd::Eventfd>(),
    Entry::of::<fd_reuse::FdReuse>(),
    Entry::of::<files::Files>(),
    Entry::of::<fork::Fork>(),
    Entry::of::<mail::Mail>(),
    Entry::of::<map_files::MapFiles>(),
    Entry::of::<mmap::Mmap>(),
    Entry::of::<nop::Nop>(),
    Entry::of::<open::Open>(),
    Entry::of::<pids::Pids>(),
    Entry::of::<pipe::Pipe>(),
    Entry::of::<request::Request>(),
    Entry::of::<socket::Socket>(),
    Entry::of::<spawn::Spawn>(),
    Entry::of::<syscall::Syscall>(),
    Entry::of::<tcp::Tcp>(),
    Entry::of::<thread::Thread>(),
    Entry::of::<timerfd::Timerfd>(),
    Entry::of::<waitpid::Waitpid>(),
];
// registry:end

/// Checks that `expected` descriptors are open and distinct.
pub(crate) fn check_open<'a>(descriptors: impl IntoIterator<Item = &'a OwnedFd>, expected: u64) -> Result<(), Stop> {
    let mut numbers: Vec<i32> = descriptors.into_iter().map(AsRawFd::as_raw_fd).collect();
    if let Some(closed) = numbers.iter().find(|&&number| !landau_sys::descriptor::is_open(number)) {
        return Err(Stop::Wrong(format!("descriptor {closed} is not open")));
    }
    numbers.sort_unstable();
    numbers.dedup();
    let count = numbers.len() as u64;
    Stop::unless(count == expected, || {
        format!("{expected} descriptors were opened, but {count} distinct ones are open")
    })
}
