//! Tasks of the first process of a system (mount, configure the serial line, reboot), and network namespaces. Linux
//! only.

use crate::error::{Error, Result, check};
use crate::socket::{Family, Transport};
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Mounts a file system that has no device: `proc`, `sysfs`, `devtmpfs`, `tmpfs`.
pub fn mount(kind: &str, target: &str) -> Result<()> {
    let text = |word: &str| CString::new(word).map_err(|_| Error { call: "mount", errno: libc::EINVAL });
    let (kind, target) = (text(kind)?, text(target)?);
    // SAFETY: both are C strings that live as long as the call; these file systems take no data.
    let mounted = unsafe { libc::mount(kind.as_ptr(), target.as_ptr(), kind.as_ptr(), 0, std::ptr::null()) };
    check("mount", mounted).map(drop)
}

/// Sets a serial line to raw mode at 115200 baud, the highest rate that every line supports.
pub fn make_raw(line: BorrowedFd<'_>) -> Result<()> {
    // SAFETY: `termios` is plain data for which all zeroes is a value.
    let mut settings: libc::termios = unsafe { std::mem::zeroed() };
    // SAFETY: `settings` is writable.
    check("tcgetattr", unsafe { libc::tcgetattr(line.as_raw_fd(), &raw mut settings) })?;
    // SAFETY: `tcgetattr` has filled in `settings`, which is writable.
    unsafe { libc::cfmakeraw(&raw mut settings) };
    settings.c_cflag |= libc::CLOCAL;
    // SAFETY: `settings` is initialised and writable.
    check("cfsetspeed", unsafe { libc::cfsetspeed(&raw mut settings, libc::B115200) })?;
    // SAFETY: `settings` is initialised and only read.
    check("tcsetattr", unsafe { libc::tcsetattr(line.as_raw_fd(), libc::TCSANOW, &raw const settings) }).map(drop)
}

/// Brings up the loopback interface.
pub fn bring_up_loopback() -> Result<()> {
    let socket = crate::socket::socket(Family::V4, Transport::Udp)?;
    // SAFETY: `ifreq` is plain data for which all zeroes is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: `request` has a name and flags, which is what this request reads.
    let set = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw const request) };
    check("ioctl", set).map(drop)
}

/// Reboots the machine at once, without flushing file systems. Returns only if that fails.
pub fn reboot() -> Error {
    // SAFETY: the call takes an integer; data that is not flushed is meant to be lost.
    unsafe { libc::reboot(libc::RB_AUTOBOOT) };
    Error::last("reboot")
}

/// Raises the soft and the hard limit of open descriptors, which needs privileges.
pub fn raise_descriptor_limit(count: u64) -> Result<()> {
    let limit = libc::rlimit { rlim_cur: count as libc::rlim_t, rlim_max: count as libc::rlim_t };
    // SAFETY: `limit` is readable for the length of the call.
    check("setrlimit", unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }).map(drop)
}

/// Moves this process, and the processes it starts from then on, to a new network namespace, which has only a loopback
/// interface that is down. An unprivileged user also gets a new user namespace in which they are the superuser. The
/// namespaces end with the last process in them.
///
/// The process must have a single thread.
pub fn unshare_network() -> Result<()> {
    Namespace::new(libc::CLONE_NEWNET).enter()
}

/// Runs `work` in a thread that has entered the network namespace of a process; the calling thread stays in its own.
///
/// # Errors
///
/// Fails without `CAP_SYS_ADMIN`, and if there is no such process.
pub fn in_network_of<T: Send>(pid: u32, work: impl FnOnce() -> T + Send) -> std::io::Result<T> {
    let namespace = std::fs::File::open(format!("/proc/{pid}/ns/net"))?;
    let entered = || {
        // SAFETY: the call takes an open descriptor and an integer, and affects only the calling thread.
        check("setns", unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) })
            .map_err(|error| std::io::Error::from_raw_os_error(error.errno))?;
        Ok(work())
    };
    std::thread::scope(|scope| scope.spawn(entered).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// A namespace that a process may create for itself; an unprivileged process also gets a user namespace around it.
#[derive(Debug)]
pub(crate) struct Namespace {
    kind: libc::c_int,
    user_map: String,
    group_map: String,
}

impl Namespace {
    /// Prepares a namespace of that kind, such as `CLONE_NEWPID`.
    pub(crate) fn new(kind: libc::c_int) -> Self {
        let (user, group) = (crate::process::effective_user(), effective_group());
        Self { kind, user_map: format!("0 {user} 1"), group_map: format!("0 {group} 1") }
    }

    /// Creates the namespace. Async-signal-safe: it makes system calls and allocates nothing.
    pub(crate) fn enter(&self) -> Result<()> {
        match unshare(self.kind) {
            Err(error) if error.is_not_permitted() => {}
            done => return done,
        }
        unshare(libc::CLONE_NEWUSER | self.kind)?;
        let write = |path: &str, text: &str| {
            std::fs::write(path, text)
                .map_err(|error| Error { call: "write", errno: error.raw_os_error().unwrap_or(libc::EIO) })
        };
        write("/proc/self/setgroups", "deny")?;
        write("/proc/self/uid_map", &self.user_map)?;
        write("/proc/self/gid_map", &self.group_map)
    }
}

fn unshare(what: libc::c_int) -> Result<()> {
    // SAFETY: the call takes an integer; these namespaces affect neither memory nor open descriptors.
    check("unshare", unsafe { libc::unshare(what) }).map(drop)
}

fn effective_group() -> u32 {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { libc::getegid() }
}
