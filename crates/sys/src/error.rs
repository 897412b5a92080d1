//! The error of a failed system call: which call, and the error number.
//!
//! [`Error`] has a predicate for every kind of error that callers distinguish, so that no other crate compares error
//! numbers, whose values differ between systems.

use std::io;

/// A failed system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{call}: {} ({})", description(*.errno), errno_name(*.errno))]
pub struct Error {
    /// The call, by the name of its manual page.
    pub call: &'static str,
    /// The error number.
    pub errno: i32,
}

/// Returns the standard library's text without its " (os error N)": the error's name follows it.
fn description(errno: i32) -> String {
    let text = io::Error::from_raw_os_error(errno).to_string();
    text.split_once(" (os error").map_or(text.clone(), |(words, _)| words.to_owned())
}

/// The result of a system call.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Returns the error that the thread's `errno` holds after `call` failed.
    #[cold]
    pub fn last(call: &'static str) -> Self {
        let errno = io::Error::last_os_error().raw_os_error().unwrap_or(0);
        Self { call, errno }
    }

    /// Returns the error of a system call that the standard library made; EIO if it carries no error number.
    pub fn from_io(call: &'static str, error: &io::Error) -> Self {
        Self { call, errno: error.raw_os_error().unwrap_or(libc::EIO) }
    }

    /// Returns the error of a call that this system does not have (ENOSYS).
    pub const fn unsupported(call: &'static str) -> Self {
        Self { call, errno: libc::ENOSYS }
    }

    /// Returns the error of a call that a file, a socket or the system does not support (EOPNOTSUPP).
    pub const fn not_supported(call: &'static str) -> Self {
        Self { call, errno: libc::EOPNOTSUPP }
    }

    /// Returns the error of an argument that `call` would reject (EINVAL).
    pub const fn invalid(call: &'static str) -> Self {
        Self { call, errno: libc::EINVAL }
    }

    /// Returns the error of a destination to which `call` found no route (ENETUNREACH).
    pub const fn no_route(call: &'static str) -> Self {
        Self { call, errno: libc::ENETUNREACH }
    }

    /// Returns the standard library's kind of this error, which is the same on every system.
    #[inline]
    pub fn kind(self) -> io::ErrorKind {
        io::Error::from(self).kind()
    }

    /// Returns whether the call would have blocked (EAGAIN, EWOULDBLOCK).
    #[inline]
    pub const fn is_would_block(self) -> bool {
        self.errno == libc::EAGAIN || self.errno == libc::EWOULDBLOCK
    }

    /// Returns whether a signal interrupted the call before it did anything (EINTR).
    #[inline]
    pub const fn is_interrupted(self) -> bool {
        self.errno == libc::EINTR
    }

    /// Returns whether the operation was started and continues in the background, as a nonblocking `connect` does
    /// (EINPROGRESS).
    #[inline]
    pub const fn is_in_progress(self) -> bool {
        self.errno == libc::EINPROGRESS
    }

    /// Returns the error of an open file whose name was removed meanwhile (ESTALE).
    pub const fn stale(call: &'static str) -> Self {
        Self { call, errno: libc::ESTALE }
    }

    /// Returns whether a file was replaced while it was looked up (ESTALE).
    #[inline]
    pub const fn is_stale(self) -> bool {
        self.errno == libc::ESTALE
    }

    /// Returns whether the operation was cancelled before it completed (ECANCELED).
    #[inline]
    pub const fn is_canceled(self) -> bool {
        self.errno == libc::ECANCELED
    }

    /// Returns whether the process, or the system, has no free descriptor (EMFILE, ENFILE).
    pub const fn is_out_of_descriptors(self) -> bool {
        self.errno == libc::EMFILE || self.errno == libc::ENFILE
    }

    /// Returns whether no buffer was available (ENOBUFS).
    #[inline]
    pub const fn is_out_of_buffers(self) -> bool {
        self.errno == libc::ENOBUFS
    }

    /// Returns whether the number names no open descriptor (EBADF).
    pub const fn is_bad_descriptor(self) -> bool {
        self.errno == libc::EBADF
    }

    /// Returns whether the operation is not permitted (EPERM).
    pub const fn is_not_permitted(self) -> bool {
        self.errno == libc::EPERM
    }

    /// Returns whether something that should be new exists already (EEXIST).
    pub const fn is_existing(self) -> bool {
        self.errno == libc::EEXIST
    }

    /// Returns whether opening a path for reading failed because there is nothing to open: the path does not exist,
    /// leads out of the directory or through too many links, has a name that no file could have, or leads to a socket
    /// or a missing device (ENOENT, ENOTDIR, EXDEV, ELOOP, ENAMETOOLONG, EINVAL, EILSEQ, ENXIO). No other error
    /// indicates whether a file exists.
    pub const fn is_absent(self) -> bool {
        // Other systems refuse sockets with these errors, and FreeBSD and NetBSD a link with `O_NOFOLLOW`.
        #[cfg(not(target_os = "linux"))]
        if matches!(self.errno, libc::EOPNOTSUPP | libc::EMLINK) {
            return true;
        }
        #[cfg(target_os = "netbsd")]
        if self.errno == libc::EFTYPE {
            return true;
        }
        matches!(
            self.errno,
            libc::ENOENT
                | libc::ENOTDIR
                | libc::EXDEV
                | libc::ELOOP
                | libc::ENAMETOOLONG
                | libc::EINVAL
                | libc::EILSEQ
                | libc::ENXIO
        )
    }

    /// Returns whether a table has no room left (E2BIG).
    pub const fn is_too_big(self) -> bool {
        self.errno == libc::E2BIG
    }

    /// Returns whether there is no such process or thread (ESRCH).
    pub const fn is_no_process(self) -> bool {
        self.errno == libc::ESRCH
    }

    /// Returns whether the system does not have the call (ENOSYS).
    pub const fn is_unsupported(self) -> bool {
        self.errno == libc::ENOSYS
    }

    /// Returns whether the connection no longer exists: it was reset or aborted, timed out, or its reader is gone
    /// (ECONNRESET, ECONNABORTED, ETIMEDOUT, EPIPE).
    pub const fn is_connection_gone(self) -> bool {
        matches!(self.errno, libc::ECONNRESET | libc::ECONNABORTED | libc::ETIMEDOUT | libc::EPIPE)
    }

    /// Returns whether this system cannot reach a destination: it has no route there, or no address or no support of
    /// its family (ENETUNREACH, EHOSTUNREACH, EADDRNOTAVAIL, EAFNOSUPPORT). TCP also reports EADDRNOTAVAIL if all ports
    /// are in use.
    pub const fn is_unreachable(self) -> bool {
        matches!(self.errno, libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EADDRNOTAVAIL | libc::EAFNOSUPPORT)
    }

    /// Returns whether an error of `accept` concerns a single connection and not the listener, so that the next call
    /// may succeed.
    pub const fn is_transient_in_accept(self) -> bool {
        self.is_connection_gone() || self.is_interrupted() || self.is_would_block()
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        Self::from_raw_os_error(error.errno)
    }
}

/// Returns `value`, or the error in `errno` if `value` is the -1 by which C reports failure.
#[inline(always)]
pub(crate) fn check(call: &'static str, value: libc::c_int) -> Result<libc::c_int> {
    if value < 0 { Err(Error::last(call)) } else { Ok(value) }
}

/// Returns the symbolic name of an error number, or `errno 123` for one that is not in the list.
pub fn errno_name(errno: i32) -> String {
    macro_rules! names {
        ($($name:ident)*) => {
            match errno {
                $(libc::$name => stringify!($name).to_owned(),)*
                other => format!("errno {other}"),
            }
        };
    }
    names! {
        E2BIG EACCES EADDRINUSE EADDRNOTAVAIL EAFNOSUPPORT EAGAIN EBADF EBUSY ECHILD ECONNABORTED ECONNREFUSED
        ECONNRESET EEXIST EFAULT EFBIG EHOSTUNREACH EINTR EINVAL EIO EISDIR EMFILE EMLINK ENETUNREACH ENFILE ENODEV
        ENOENT ENOEXEC ENOMEM ENOSPC ENOSYS ENOTDIR ENOTSUP ENXIO EPERM EPIPE EPROTONOSUPPORT EROFS ESRCH ETIMEDOUT
        ETXTBSY ENOBUFS EDQUOT ENAMETOOLONG
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_call_number_and_symbol() {
        let text = Error { call: "socket", errno: libc::EMFILE }.to_string();
        assert!(text.starts_with("socket: ") && text.contains("EMFILE"), "{text}");
    }

    #[test]
    fn predicates_agree_with_the_kinds_of_the_standard_library() {
        let of = |errno| Error { call: "recv", errno };
        for errno in 1..134 {
            let (error, kind) = (of(errno), of(errno).kind());
            assert_eq!(error.is_would_block(), kind == io::ErrorKind::WouldBlock, "{error}");
            assert_eq!(error.is_interrupted(), kind == io::ErrorKind::Interrupted, "{error}");
            let is_gone = matches!(
                kind,
                io::ErrorKind::ConnectionReset
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::TimedOut
                    | io::ErrorKind::BrokenPipe
            );
            assert_eq!(error.is_connection_gone(), is_gone, "{error}");
        }
    }
}
