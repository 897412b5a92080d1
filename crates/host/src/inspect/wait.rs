//! The state in which a thread waits: from its system call in `/proc/PID/task/TID/syscall`, or the kernel function in
//! `wchan`.

/// The state in which a thread waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wait {
    /// It runs, or waits for a processor.
    Running,
    /// `accept`, `accept4`.
    Accept,
    /// A call that reads one descriptor: `read`, `recvfrom`.
    Read,
    /// `poll` of one descriptor.
    PollOne,
    /// A call that writes one descriptor.
    Write,
    /// `poll` or `ppoll` of several descriptors.
    Poll,
    /// `select` or `pselect6`.
    Select,
    /// `epoll_wait` and its variants.
    Epoll,
    /// `io_uring_enter`.
    Ring,
    /// `futex`: a lock, a condition variable, an idle member of a pool.
    Futex,
    /// A call that waits for a timer, a signal or a child.
    Other,
    /// Neither file is readable, or the function is unknown.
    Unseen,
}

impl Wait {
    /// Returns whether an event loop waits in this way.
    pub(super) fn is_event(self) -> bool {
        matches!(self, Self::Poll | Self::Select | Self::Epoll | Self::Ring)
    }
}

/// Numbers of the system calls that are distinguished, for `x86_64` and for every newer architecture.
struct Numbers {
    accept: &'static [u64],
    read: &'static [u64],
    write: &'static [u64],
    poll: &'static [u64],
    select: &'static [u64],
    epoll: &'static [u64],
    futex: &'static [u64],
}

/// `io_uring_enter` and `futex_waitv` have the same number everywhere.
const IO_URING_ENTER: u64 = 426;

#[cfg(target_arch = "x86_64")]
const NUMBERS: Numbers = Numbers {
    accept: &[43, 288],
    read: &[0, 19, 45, 47, 299],
    write: &[1, 20, 40, 44, 46],
    poll: &[7, 271],
    select: &[23, 270],
    epoll: &[232, 281, 441],
    futex: &[202, 449],
};

#[cfg(not(target_arch = "x86_64"))]
const NUMBERS: Numbers = Numbers {
    accept: &[202, 242],
    read: &[63, 65, 207, 212, 243],
    write: &[64, 66, 71, 206, 211],
    poll: &[73],
    select: &[72],
    epoll: &[22, 441],
    futex: &[98, 449],
};

/// Parses the text of `syscall`. Returns the state, and the descriptor if the call has one.
pub(super) fn of_call(text: &str) -> Option<(Wait, Option<u32>)> {
    let mut words = text.split_ascii_whitespace();
    let first = words.next()?;
    if first == "running" {
        return Some((Wait::Running, None));
    }
    // -1: the thread is blocked outside a system call, for example by a page fault.
    let Ok(number) = first.parse::<u64>() else { return Some((Wait::Other, None)) };
    let mut argument = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    let (first, second) = (argument()?, argument()?);
    let descriptor = u32::try_from(first).ok();
    let is = |numbers: &[u64]| numbers.contains(&number);
    Some(match number {
        IO_URING_ENTER => (Wait::Ring, descriptor),
        _ if is(NUMBERS.accept) => (Wait::Accept, descriptor),
        _ if is(NUMBERS.read) => (Wait::Read, descriptor),
        _ if is(NUMBERS.write) => (Wait::Write, descriptor),
        // The number of the single descriptor is in the program's memory. `poll` and `select` of no descriptors sleep.
        _ if is(NUMBERS.poll) => match second {
            0 => (Wait::Other, None),
            1 => (Wait::PollOne, None),
            _ => (Wait::Poll, None),
        },
        _ if is(NUMBERS.select) => (if first == 0 { Wait::Other } else { Wait::Select }, None),
        _ if is(NUMBERS.epoll) => (Wait::Epoll, descriptor),
        _ if is(NUMBERS.futex) => (Wait::Futex, None),
        _ => (Wait::Other, None),
    })
}

/// Returns the state for a kernel function. A poll of one descriptor and of several look the same, so neither is
/// claimed.
pub(super) fn of_function(name: &str) -> Wait {
    match name {
        "inet_csk_accept" | "inet_csk_wait_for_connect" => Wait::Accept,
        "sk_wait_data" | "wait_woken" | "tcp_recvmsg_locked" => Wait::Read,
        "sk_stream_wait_memory" => Wait::Write,
        "ep_poll" | "do_epoll_wait" => Wait::Epoll,
        "do_select" => Wait::Select,
        "io_cqring_wait" => Wait::Ring,
        "futex_wait_queue" | "futex_wait_queue_me" | "futex_do_wait" => Wait::Futex,
        "do_wait" | "hrtimer_nanosleep" | "sigsuspend" | "do_sigtimedwait" => Wait::Other,
        _ => Wait::Unseen,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn calls_are_told_apart() {
        let call = |text: &str| of_call(&format!("{text} 0x0 0x0 0x0 0x0 0x7ffc 0x7f94"));
        assert_eq!(call("0 0x5 0x7f00"), Some((Wait::Read, Some(5))));
        assert_eq!(call("288 0x3 0x0"), Some((Wait::Accept, Some(3))));
        assert_eq!(call("7 0x7f00 0x1"), Some((Wait::PollOne, None)));
        assert_eq!(call("7 0x7f00 0x40"), Some((Wait::Poll, None)));
        assert_eq!(call("7 0x0 0x0"), Some((Wait::Other, None)), "a sleep");
        assert_eq!(call("23 0x0 0x0"), Some((Wait::Other, None)));
        assert_eq!(call("23 0x9 0x7f00"), Some((Wait::Select, None)));
        assert_eq!(of_call("running"), Some((Wait::Running, None)));
        assert_eq!(of_call("-1 0x7ffc 0x7f94"), Some((Wait::Other, None)));
        assert_eq!(of_function("poll_schedule_timeout.constprop.0"), Wait::Unseen);
    }
}
