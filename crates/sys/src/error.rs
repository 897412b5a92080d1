//! A failed call: which one, and the system's error number.

/// A failed system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{call}: {} ({})", std::io::Error::from_raw_os_error(*.errno), errno_name(*.errno))]
pub struct Error {
    /// The call, as its manual page is titled.
    pub call: &'static str,
    /// The error number.
    pub errno: i32,
}

/// The result of a system call.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The error that the thread's `errno` holds after `call` failed.
    #[cold]
    pub fn last(call: &'static str) -> Self {
        let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
        Self { call, errno }
    }

    /// The error of a library call of ours, where the standard library made the system call.
    pub fn from_io(call: &'static str, error: &std::io::Error) -> Self {
        Self { call, errno: error.raw_os_error().unwrap_or(libc::EIO) }
    }

    /// What kind of error it is, the same on every system.
    #[inline]
    pub fn kind(self) -> std::io::ErrorKind {
        std::io::Error::from_raw_os_error(self.errno).kind()
    }

    /// Whether the call would have blocked.
    #[inline]
    pub fn is_would_block(self) -> bool {
        self.errno == libc::EAGAIN || self.errno == libc::EWOULDBLOCK
    }

    /// Whether what the call began goes on by itself: a connection.
    #[inline]
    pub fn is_in_progress(self) -> bool {
        self.errno == libc::EINPROGRESS
    }

    /// Whether the process, or the system, has no descriptor left.
    pub fn is_no_descriptor(self) -> bool {
        self.errno == libc::EMFILE || self.errno == libc::ENFILE
    }
}

/// `value` unless it is the -1 by which C reports failure.
#[inline(always)]
pub(crate) fn check(call: &'static str, value: libc::c_int) -> Result<libc::c_int> {
    if value < 0 { Err(Error::last(call)) } else { Ok(value) }
}

/// The symbolic name of an error number; `errno 123` where it has none here.
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
        E2BIG EACCES EADDRINUSE EADDRNOTAVAIL EAFNOSUPPORT EAGAIN EBADF EBUSY ECHILD ECONNREFUSED ECONNRESET EEXIST
        EFAULT EFBIG EINTR EINVAL EIO EISDIR EMFILE EMLINK ENFILE ENODEV ENOENT ENOEXEC ENOMEM ENOSPC ENOSYS ENOTDIR
        ENOTSUP ENXIO EPERM EPIPE EPROTONOSUPPORT EROFS ESRCH ETIMEDOUT ETXTBSY ENOBUFS EDQUOT ENAMETOOLONG
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
}
