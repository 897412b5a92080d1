//! Numbers of system calls on this processor, by the names of their manual pages.

/// The calls of a network server: name and number, sorted by name. Other calls have numbers, too, but no name here.
#[cfg(target_os = "linux")]
pub const NAMED: &[(&str, u32)] = &table::NAMED;

/// Empty: other systems have no call numbers that programs could use.
#[cfg(not(target_os = "linux"))]
pub const NAMED: &[(&str, u32)] = &[];

/// Returns the number of a call; `None` if this processor does not have it.
pub fn number_of(name: &str) -> Option<u32> {
    NAMED.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
}

/// Returns the name of a call; `None` if it is not in the table.
pub fn name_of(number: u32) -> Option<&'static str> {
    NAMED.iter().find(|(_, known)| *known == number).map(|(name, _)| *name)
}

#[cfg(target_os = "linux")]
mod table {
    macro_rules! numbers {
        ($($name:literal $number:ident,)*) => { [$(($name, libc::$number as u32)),*] };
    }

    // Newer processors lack the calls that a newer call replaces, such as `poll`, which `ppoll` replaces.
    #[cfg(target_arch = "x86_64")]
    pub(super) const NAMED: [(&str, u32); 66] = numbers! {
        "accept" SYS_accept, "accept4" SYS_accept4, "brk" SYS_brk, "clock_gettime" SYS_clock_gettime,
        "clock_nanosleep" SYS_clock_nanosleep, "clone" SYS_clone, "clone3" SYS_clone3, "close" SYS_close,
        "connect" SYS_connect, "dup" SYS_dup, "dup2" SYS_dup2, "dup3" SYS_dup3,
        "epoll_ctl" SYS_epoll_ctl, "epoll_pwait" SYS_epoll_pwait,
        "epoll_pwait2" SYS_epoll_pwait2, "epoll_wait" SYS_epoll_wait, "execve" SYS_execve, "exit" SYS_exit,
        "exit_group" SYS_exit_group, "fcntl" SYS_fcntl, "fork" SYS_fork, "fstat" SYS_fstat, "fsync" SYS_fsync,
        "futex" SYS_futex, "getdents64" SYS_getdents64, "getpeername" SYS_getpeername, "getpid" SYS_getpid,
        "getsockname" SYS_getsockname, "getsockopt" SYS_getsockopt, "io_getevents" SYS_io_getevents,
        "io_submit" SYS_io_submit, "io_uring_enter" SYS_io_uring_enter, "ioctl" SYS_ioctl, "lseek" SYS_lseek,
        "madvise" SYS_madvise, "mmap" SYS_mmap, "mprotect" SYS_mprotect, "munmap" SYS_munmap,
        "newfstatat" SYS_newfstatat, "open" SYS_open, "openat" SYS_openat, "poll" SYS_poll, "ppoll" SYS_ppoll,
        "pread64" SYS_pread64, "pselect6" SYS_pselect6, "read" SYS_read, "readv" SYS_readv, "recvfrom" SYS_recvfrom,
        "recvmmsg" SYS_recvmmsg, "recvmsg" SYS_recvmsg, "restart_syscall" SYS_restart_syscall,
        "rt_sigtimedwait" SYS_rt_sigtimedwait,
        "sched_yield" SYS_sched_yield, "select" SYS_select, "sendfile" SYS_sendfile, "sendmmsg" SYS_sendmmsg,
        "sendmsg" SYS_sendmsg, "sendto" SYS_sendto, "setsockopt" SYS_setsockopt, "shutdown" SYS_shutdown,
        "splice" SYS_splice, "stat" SYS_stat, "statx" SYS_statx, "wait4" SYS_wait4, "write" SYS_write,
        "writev" SYS_writev,
    };

    #[cfg(not(target_arch = "x86_64"))]
    pub(super) const NAMED: [(&str, u32); 56] = numbers! {
        "accept" SYS_accept, "accept4" SYS_accept4, "brk" SYS_brk, "clock_gettime" SYS_clock_gettime,
        "clock_nanosleep" SYS_clock_nanosleep, "clone" SYS_clone, "clone3" SYS_clone3, "close" SYS_close,
        "connect" SYS_connect, "dup" SYS_dup, "dup3" SYS_dup3,
        "epoll_ctl" SYS_epoll_ctl, "epoll_pwait" SYS_epoll_pwait,
        "epoll_pwait2" SYS_epoll_pwait2, "execve" SYS_execve, "exit" SYS_exit, "exit_group" SYS_exit_group,
        "fcntl" SYS_fcntl, "fsync" SYS_fsync, "futex" SYS_futex, "getdents64" SYS_getdents64,
        "getpeername" SYS_getpeername, "getpid" SYS_getpid, "getsockname" SYS_getsockname,
        "getsockopt" SYS_getsockopt, "io_getevents" SYS_io_getevents, "io_submit" SYS_io_submit,
        "io_uring_enter" SYS_io_uring_enter, "ioctl" SYS_ioctl, "lseek" SYS_lseek, "madvise" SYS_madvise,
        "mmap" SYS_mmap, "mprotect" SYS_mprotect, "munmap" SYS_munmap, "openat" SYS_openat, "ppoll" SYS_ppoll,
        "pread64" SYS_pread64, "pselect6" SYS_pselect6, "read" SYS_read, "readv" SYS_readv, "recvfrom" SYS_recvfrom,
        "recvmmsg" SYS_recvmmsg, "recvmsg" SYS_recvmsg, "restart_syscall" SYS_restart_syscall,
        "rt_sigtimedwait" SYS_rt_sigtimedwait,
        "sched_yield" SYS_sched_yield, "sendfile" SYS_sendfile, "sendmmsg" SYS_sendmmsg, "sendmsg" SYS_sendmsg,
        "sendto" SYS_sendto, "setsockopt" SYS_setsockopt, "shutdown" SYS_shutdown, "splice" SYS_splice,
        "wait4" SYS_wait4, "write" SYS_write, "writev" SYS_writev,
    };
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_numbers_are_found() {
        assert!(NAMED.is_sorted());
        assert_eq!(number_of("close").and_then(name_of), Some("close"));
        assert_eq!((number_of("no_such_call"), name_of(100_000)), (None, None));
    }
}
