//! Stream sockets: listening, accepting, connecting, sending and receiving, and their options.

use crate::descriptor::own;
use crate::direct;
use crate::error::{Error, Result, check};
use crate::socket::{Address, Family};
use std::io::IoSlice;
use std::mem::size_of;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// Returns a length, or the error in `errno` if it is -1.
#[inline]
fn length(call: &'static str, value: libc::ssize_t) -> Result<usize> {
    if value < 0 { Err(Error::last(call)) } else { Ok(value as usize) }
}

/// `MSG_NOSIGNAL`. Systems without it have a socket option, which `no_sigpipe` sets.
#[cfg(not(any(target_os = "macos", target_os = "ios")))]
pub(crate) const NO_SIGNAL: libc::c_int = libc::MSG_NOSIGNAL;
#[cfg(any(target_os = "macos", target_os = "ios"))]
pub(crate) const NO_SIGNAL: libc::c_int = 0;

/// `MSG_MORE`, on systems that have it: more data follows at once, so that a header and a file leave in one segment.
#[cfg(target_os = "linux")]
const MORE: libc::c_int = libc::MSG_MORE;
#[cfg(not(target_os = "linux"))]
const MORE: libc::c_int = 0;

#[inline]
fn flags(more: bool) -> libc::c_int {
    NO_SIGNAL | if more { MORE } else { 0 }
}

/// Receives available data; 0 is the end of the stream.
#[inline]
pub fn receive(socket: &impl AsFd, buffer: &mut [u8]) -> Result<usize> {
    let (first, room) = (buffer.as_mut_ptr().cast(), buffer.len());
    // SAFETY: the buffer is writable for `room` bytes.
    length("recv", unsafe { direct::recv(socket.as_fd().as_raw_fd(), first, room, 0) })
}

/// Returns whether a connected socket has no unread data, and has neither ended nor failed. Consumes no data, and does
/// not wait.
pub fn is_silent(socket: &impl AsFd) -> bool {
    let mut byte = [0_u8];
    let (first, flags) = (byte.as_mut_ptr().cast(), libc::MSG_PEEK | libc::MSG_DONTWAIT);
    // SAFETY: the buffer is writable for one byte.
    let got = length("recv", unsafe { direct::recv(socket.as_fd().as_raw_fd(), first, 1, flags) });
    got.is_err_and(Error::is_would_block)
}

/// Receives and discards up to `count` bytes of a stream socket, without copying them. Waits like [`receive`]; 0 is the
/// end of the stream.
#[cfg(target_os = "linux")]
pub fn discard(socket: &impl AsFd, count: usize) -> Result<usize> {
    // SAFETY: with MSG_TRUNC nothing is written to the buffer of a stream socket (tcp(7)), so it may be null.
    let got = unsafe { direct::recv(socket.as_fd().as_raw_fd(), std::ptr::null_mut(), count, libc::MSG_TRUNC) };
    length("recv", got)
}

/// Receives and discards up to `count` bytes of a stream socket.
#[cfg(not(target_os = "linux"))]
pub fn discard(socket: &impl AsFd, count: usize) -> Result<usize> {
    let mut scratch = [0; 16 << 10];
    let len = count.min(scratch.len());
    receive(socket, &mut scratch[..len])
}

/// Sends as much as fits into the send buffer. `more` announces that more data follows at once.
#[inline]
pub fn send(socket: &impl AsFd, bytes: &[u8], more: bool) -> Result<usize> {
    // SAFETY: the slice is readable for its whole length.
    let sent = unsafe { direct::send(socket.as_fd().as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags(more)) };
    length("send", sent)
}

/// Sends as much of several buffers as fits.
pub fn send_vectored(socket: &impl AsFd, buffers: &[IoSlice<'_>], more: bool) -> Result<usize> {
    // SAFETY: `msghdr` is plain data for which all zeroes is a value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    // `IoSlice` is documented to have the layout of `iovec`, and the call only reads.
    message.msg_iov = buffers.as_ptr().cast_mut().cast();
    message.msg_iovlen = buffers.len() as _;
    // SAFETY: the header points to `msg_iovlen` valid buffers.
    length("sendmsg", unsafe { direct::sendmsg(socket.as_fd().as_raw_fd(), &raw const message, flags(more)) })
}

/// Writes as much of several buffers as fits to any descriptor: a pipe, a file.
pub fn write_vectored(fd: &impl AsFd, buffers: &[IoSlice<'_>]) -> Result<usize> {
    // SAFETY: `IoSlice` is documented to have the layout of `iovec`, and the call gets their number.
    let sent = unsafe { libc::writev(fd.as_fd().as_raw_fd(), buffers.as_ptr().cast(), buffers.len() as libc::c_int) };
    length("writev", sent)
}

/// Sends as much as fits of `count` bytes of a file from `offset`, with `sendfile`; 0 is the end of the file.
#[cfg(target_os = "linux")]
pub fn send_file(socket: &impl AsFd, file: &impl AsFd, offset: u64, count: usize) -> Result<usize> {
    let mut offset = offset as libc::off_t;
    let (to, from) = (socket.as_fd().as_raw_fd(), file.as_fd().as_raw_fd());
    // SAFETY: `offset` is writable.
    length("sendfile", unsafe { libc::sendfile(to, from, &raw mut offset, count) })
}

/// Sends as much as fits of `count` bytes of a file from `offset`, by reading and sending; 0 is the end of the file.
#[cfg(not(target_os = "linux"))]
pub fn send_file(socket: &impl AsFd, file: &impl AsFd, offset: u64, count: usize) -> Result<usize> {
    let mut buffer = [0_u8; 64 << 10];
    let got = read_at(file, &mut buffer[..count.min(64 << 10)], offset)?;
    if got == 0 { Ok(0) } else { send(socket, &buffer[..got], false) }
}

/// Reads a file at an offset; 0 is the end of the file.
pub fn read_at(file: &impl AsFd, buffer: &mut [u8], offset: u64) -> Result<usize> {
    let (first, room) = (buffer.as_mut_ptr().cast(), buffer.len());
    // SAFETY: the buffer is writable for `room` bytes.
    length("pread", unsafe { libc::pread(file.as_fd().as_raw_fd(), first, room, offset as libc::off_t) })
}

/// Creates a TCP socket, nonblocking and close-on-exec.
pub fn stream(family: Family) -> Result<OwnedFd> {
    let domain = match family {
        Family::V4 => libc::AF_INET,
        Family::V6 => libc::AF_INET6,
    };
    new_socket(domain)
}

/// Creates a Unix stream socket, nonblocking and close-on-exec.
pub fn unix_stream() -> Result<OwnedFd> {
    new_socket(libc::AF_UNIX)
}

#[cfg(not(any(target_os = "macos", target_os = "ios")))]
fn new_socket(domain: libc::c_int) -> Result<OwnedFd> {
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: the call takes three integers.
    check("socket", unsafe { libc::socket(domain, kind, 0) }).map(own)
}

#[cfg(any(target_os = "macos", target_os = "ios"))]
fn new_socket(domain: libc::c_int) -> Result<OwnedFd> {
    // SAFETY: the call takes three integers.
    let socket = check("socket", unsafe { libc::socket(domain, libc::SOCK_STREAM, 0) }).map(own)?;
    set_close_on_exec(&socket)?;
    set_blocking(&socket, false)?;
    no_sigpipe(&socket)?;
    Ok(socket)
}

/// Makes a descriptor close-on-exec.
#[cfg(any(target_os = "macos", target_os = "ios"))]
fn set_close_on_exec(fd: &OwnedFd) -> Result<()> {
    // SAFETY: the call takes integers.
    check("fcntl", unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) }).map(drop)
}

/// Makes sending to a closed connection an error instead of SIGPIPE.
#[cfg(any(target_os = "macos", target_os = "ios"))]
fn no_sigpipe(socket: &OwnedFd) -> Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_NOSIGPIPE, 1)
}

/// Listens for connections, with room for `backlog` of them in the accept queue.
pub fn listen(socket: &impl AsFd, backlog: u32) -> Result<()> {
    let backlog = backlog.min(i32::MAX as u32) as libc::c_int;
    // SAFETY: the call takes two integers.
    check("listen", unsafe { libc::listen(socket.as_fd().as_raw_fd(), backlog) }).map(drop)
}

/// Accepts a connection, nonblocking and close-on-exec.
#[cfg(not(any(target_os = "macos", target_os = "ios")))]
pub fn accept(listener: &impl AsFd) -> Result<OwnedFd> {
    let null = std::ptr::null_mut();
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: null says that the peer's address is not wanted.
    check("accept4", unsafe { direct::accept4(listener.as_fd().as_raw_fd(), null, null.cast(), flags) }).map(own)
}

/// Accepts a connection, nonblocking and close-on-exec.
#[cfg(any(target_os = "macos", target_os = "ios"))]
pub fn accept(listener: &impl AsFd) -> Result<OwnedFd> {
    let null = std::ptr::null_mut();
    // SAFETY: null says that the peer's address is not wanted.
    let fd = check("accept", unsafe { libc::accept(listener.as_fd().as_raw_fd(), null, null.cast()) }).map(own)?;
    set_close_on_exec(&fd)?;
    set_blocking(&fd, false)?;
    no_sigpipe(&fd)?;
    Ok(fd)
}

/// Accepts a connection, nonblocking and close-on-exec, and returns its address as [`peer`] does.
#[cfg(not(any(target_os = "macos", target_os = "ios")))]
#[inline]
pub fn accept_from(listener: &impl AsFd) -> Result<(OwnedFd, Option<SocketAddr>)> {
    // SAFETY: `sockaddr_storage` is plain data for which all zeroes is a value.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let mut len = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    let pointer = (&raw mut storage).cast();
    // SAFETY: `pointer` and `len` describe a buffer large enough for any address.
    let fd = unsafe { direct::accept4(listener.as_fd().as_raw_fd(), pointer, &raw mut len, flags) };
    Ok((own(check("accept4", fd)?), peer_of(&storage)))
}

/// Accepts a connection, nonblocking and close-on-exec, and returns its address as [`peer`] does.
#[cfg(any(target_os = "macos", target_os = "ios"))]
pub fn accept_from(listener: &impl AsFd) -> Result<(OwnedFd, Option<SocketAddr>)> {
    let fd = accept(listener)?;
    let peer = peer(&fd)?;
    Ok((fd, peer))
}

/// Returns the peer's address, or `None` for a Unix socket. An IPv4 client has its IPv4 address, even at a listener for
/// both families.
pub fn peer(socket: &impl AsFd) -> Result<Option<SocketAddr>> {
    // SAFETY: `sockaddr_storage` is plain data for which all zeroes is a value.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let mut len = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    let pointer = (&raw mut storage).cast();
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: `pointer` and `len` describe a buffer large enough for any address.
    check("getpeername", unsafe { libc::getpeername(fd, pointer, &raw mut len) })?;
    Ok(peer_of(&storage))
}

/// Converts an address that a system call wrote.
fn peer_of(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match libc::c_int::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family is AF_INET, and the storage is larger and as strictly aligned.
            let address = unsafe { (&raw const *storage).cast::<libc::sockaddr_in>().read() };
            let ip = Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr));
            Some(SocketAddr::from((ip, u16::from_be(address.sin_port))))
        }
        libc::AF_INET6 => {
            // SAFETY: the family is AF_INET6, and the storage is larger and as strictly aligned.
            let address = unsafe { (&raw const *storage).cast::<libc::sockaddr_in6>().read() };
            let ip = Ipv6Addr::from(address.sin6_addr.s6_addr).to_canonical();
            Some(SocketAddr::from((ip, u16::from_be(address.sin6_port))))
        }
        _ => None,
    }
}

/// Connects a socket. On a nonblocking socket, EINPROGRESS means that the connection is being established.
pub fn connect(socket: &impl AsFd, address: &Address) -> Result<()> {
    let (pointer, len) = address.raw();
    // SAFETY: `pointer` is to `len` bytes of a socket address.
    check("connect", unsafe { libc::connect(socket.as_fd().as_raw_fd(), pointer, len) }).map(drop)
}

/// Returns and clears the pending error of a socket (`SO_ERROR`): the result of connecting.
pub fn take_error(socket: &impl AsFd) -> Result<()> {
    let mut errno: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    let value = (&raw mut errno).cast();
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: `value` is to `len` writable bytes.
    check("getsockopt", unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_ERROR, value, &raw mut len) })?;
    if errno == 0 { Ok(()) } else { Err(Error { call: "connect", errno }) }
}

/// Shuts down the writing half.
pub fn shutdown_write(socket: &impl AsFd) -> Result<()> {
    // SAFETY: the call takes two integers.
    check("shutdown", unsafe { libc::shutdown(socket.as_fd().as_raw_fd(), libc::SHUT_WR) }).map(drop)
}

/// Shuts down both halves, which ends calls and operations in progress on the socket.
pub fn shutdown(socket: &impl AsFd) -> Result<()> {
    // SAFETY: the call takes two integers.
    check("shutdown", unsafe { libc::shutdown(socket.as_fd().as_raw_fd(), libc::SHUT_RDWR) }).map(drop)
}

/// Makes a descriptor blocking or nonblocking. This always asks the kernel: state that is kept by descriptor number
/// outlives the descriptor, which made the server of the 2003 study block in `sendfile`.
pub fn set_blocking(fd: &impl AsFd, blocking: bool) -> Result<()> {
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: the call takes integers.
    let old = check("fcntl", unsafe { libc::fcntl(fd, libc::F_GETFL) })?;
    let new = if blocking { old & !libc::O_NONBLOCK } else { old | libc::O_NONBLOCK };
    if new == old {
        return Ok(());
    }
    // SAFETY: the call takes integers.
    check("fcntl", unsafe { libc::fcntl(fd, libc::F_SETFL, new) }).map(drop)
}

/// Returns whether a descriptor is blocking.
pub fn is_blocking(fd: &impl AsFd) -> Result<bool> {
    // SAFETY: the call takes integers.
    let flags = check("fcntl", unsafe { libc::fcntl(fd.as_fd().as_raw_fd(), libc::F_GETFL) })?;
    Ok(flags & libc::O_NONBLOCK == 0)
}

/// Sets a socket option.
pub(crate) fn set_option<T: Copy>(socket: &impl AsFd, level: libc::c_int, name: libc::c_int, value: T) -> Result<()> {
    let pointer = (&raw const value).cast();
    let len = size_of::<T>() as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: `pointer` is to `len` readable bytes.
    check("setsockopt", unsafe { libc::setsockopt(fd, level, name, pointer, len) }).map(drop)
}

/// Sends small segments without delay (`TCP_NODELAY`).
pub fn set_no_delay(socket: &impl AsFd) -> Result<()> {
    set_option(socket, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1 as libc::c_int)
}

/// Corks or uncorks a socket (`TCP_CORK`). A corked socket holds back partial segments, for at most 200 ms; uncorking
/// sends them at once. For data that is sent by several calls, each of which would otherwise end in a small segment.
#[cfg(target_os = "linux")]
pub fn set_cork(socket: &impl AsFd, is_corked: bool) -> Result<()> {
    set_option(socket, libc::IPPROTO_TCP, libc::TCP_CORK, libc::c_int::from(is_corked))
}

/// Corks or uncorks a socket: not supported here, since removing `TCP_NOPUSH` on other systems does not send the data
/// that was held back.
#[cfg(not(target_os = "linux"))]
pub fn set_cork(_: &impl AsFd, _: bool) -> Result<()> {
    Err(Error { call: "setsockopt", errno: libc::ENOTSUP })
}

/// Returns whether the congestion control of a TCP socket is a version of BBR (`TCP_CONGESTION`), which paces what it
/// sends. `false` for other sockets.
#[cfg(target_os = "linux")]
pub fn is_paced_by_bbr(socket: &impl AsFd) -> bool {
    // `TCP_CA_NAME_MAX` bytes, which end with a zero byte.
    let mut name = [0_u8; 16];
    let mut len = name.len() as libc::socklen_t;
    let (fd, pointer) = (socket.as_fd().as_raw_fd(), name.as_mut_ptr().cast());
    // SAFETY: `pointer` is to `len` writable bytes.
    let got = unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, pointer, &raw mut len) };
    got == 0 && name.starts_with(b"bbr")
}

/// Returns whether the congestion control is a version of BBR: not known here.
#[cfg(not(target_os = "linux"))]
pub fn is_paced_by_bbr(_: &impl AsFd) -> bool {
    false
}

/// Chooses the congestion control of a TCP socket by its name (`TCP_CONGESTION`). Fails with ENOENT if the kernel does
/// not have it, and with EPERM if this user may not choose it. Every kernel has `reno`; every user may choose it unless
/// `net.ipv4.tcp_allowed_congestion_control` leaves it out.
#[cfg(target_os = "linux")]
pub fn set_congestion_control(socket: &impl AsFd, name: &str) -> Result<()> {
    let (fd, len) = (socket.as_fd().as_raw_fd(), name.len() as libc::socklen_t);
    // SAFETY: the pointer is to `len` readable bytes.
    let set = unsafe { libc::setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, name.as_ptr().cast(), len) };
    check("setsockopt", set).map(drop)
}

/// Chooses the congestion control of a TCP socket: not supported here.
#[cfg(not(target_os = "linux"))]
pub fn set_congestion_control(_: &impl AsFd, _: &str) -> Result<()> {
    Err(Error::unsupported("setsockopt"))
}

/// Limits the rate at which the kernel sends the data of a TCP socket, in bytes per second (`SO_MAX_PACING_RATE`), at
/// most 4 GiB.
#[cfg(target_os = "linux")]
pub fn set_pacing(socket: &impl AsFd, bytes_per_second: u64) -> Result<()> {
    // The largest number means no limit.
    let rate = u32::try_from(bytes_per_second).unwrap_or(u32::MAX).min(u32::MAX - 1);
    set_option(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, rate)
}

/// Limits the rate at which the kernel sends: not supported here.
#[cfg(not(target_os = "linux"))]
pub fn set_pacing(_: &impl AsFd, _: u64) -> Result<()> {
    Err(Error { call: "setsockopt", errno: libc::ENOTSUP })
}

/// Sets the size of the send buffer in bytes (`SO_SNDBUF`), within the limits of the system.
pub fn set_send_buffer(socket: &impl AsFd, bytes: u32) -> Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_SNDBUF, bytes.min(i32::MAX as u32) as libc::c_int)
}

/// Sets the size of the receive buffer in bytes (`SO_RCVBUF`), within the limits of the system.
pub fn set_receive_buffer(socket: &impl AsFd, bytes: u32) -> Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, bytes.min(i32::MAX as u32) as libc::c_int)
}

/// Allows binding an address that has connections in `TIME_WAIT` (`SO_REUSEADDR`).
pub fn set_reuse_address(socket: &impl AsFd) -> Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1 as libc::c_int)
}

/// Allows several sockets to listen at one address, each with its own accept queue (`SO_REUSEPORT`).
#[cfg(not(any(target_os = "solaris", target_os = "illumos")))]
pub fn set_reuse_port(socket: &impl AsFd) -> Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1 as libc::c_int)
}

/// Allows several sockets to listen at one address: not supported here.
#[cfg(any(target_os = "solaris", target_os = "illumos"))]
pub fn set_reuse_port(_: &impl AsFd) -> Result<()> {
    Err(Error { call: "setsockopt", errno: libc::ENOTSUP })
}

/// Sets whether an IPv6 socket is restricted to IPv6 (`IPV6_V6ONLY`).
pub fn set_v6_only(socket: &impl AsFd, only: bool) -> Result<()> {
    set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, libc::c_int::from(only))
}

/// Makes `close` reset the connection, which leaves no `TIME_WAIT` behind (`SO_LINGER` with zero seconds).
pub fn set_reset_on_close(socket: &impl AsFd) -> Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_LINGER, libc::linger { l_onoff: 1, l_linger: 0 })
}

/// Defers the choice of the port from `bind` to `connect`, so that connections to different destinations can share a
/// port (`IP_BIND_ADDRESS_NO_PORT`).
#[cfg(target_os = "linux")]
pub fn set_bind_address_no_port(socket: &impl AsFd) -> Result<()> {
    set_option(socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1 as libc::c_int)
}

/// Defers the choice of the port to `connect`: not supported here.
#[cfg(not(target_os = "linux"))]
pub fn set_bind_address_no_port(_: &impl AsFd) -> Result<()> {
    Err(Error { call: "setsockopt", errno: libc::ENOTSUP })
}

/// Makes a listener report a connection only after data has arrived, or after about `seconds` seconds
/// (`TCP_DEFER_ACCEPT`).
#[cfg(target_os = "linux")]
pub fn set_defer_accept(socket: &impl AsFd, seconds: u32) -> Result<()> {
    set_option(socket, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, seconds as libc::c_int)
}

/// Makes a listener report a connection only after data has arrived: not supported here.
#[cfg(not(target_os = "linux"))]
pub fn set_defer_accept(_: &impl AsFd, _: u32) -> Result<()> {
    Err(Error { call: "setsockopt", errno: libc::ENOTSUP })
}

/// Returns whether the peer has acknowledged all data that was sent (`SIOCOUTQ`); for a Unix socket, whether it has
/// read it.
#[cfg(target_os = "linux")]
pub fn is_all_acknowledged(socket: &impl AsFd) -> bool {
    let mut count: libc::c_int = 0;
    // SAFETY: the descriptor is borrowed and therefore open; TIOCOUTQ, which is SIOCOUTQ, writes one integer.
    let asked = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut count) };
    asked == 0 && count == 0
}

/// Returns whether the peer has acknowledged all data that was sent: not reported here.
#[cfg(not(target_os = "linux"))]
pub fn is_all_acknowledged(_: &impl AsFd) -> bool {
    false
}

/// Returns the first `WORDS` 64-bit words of the kernel's `tcp_info` (tcp(7)), which few C libraries declare whole.
/// `None` if it is not a TCP socket, or if the kernel's structure is shorter.
#[cfg(target_os = "linux")]
fn tcp_info<const WORDS: usize>(socket: &impl AsFd) -> Option<[u64; WORDS]> {
    let mut info = [0_u64; WORDS];
    let mut len = size_of_val(&info) as libc::socklen_t;
    let (fd, pointer) = (socket.as_fd().as_raw_fd(), info.as_mut_ptr().cast());
    // SAFETY: `pointer` is to `len` writable bytes.
    let asked = unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, pointer, &raw mut len) };
    (asked == 0 && len as usize == size_of_val(&info)).then_some(info)
}

/// Returns whether a TCP connection is within this host: the peer has a loopback address, and the shortest round trip
/// took less than a millisecond (`tcpi_min_rtt`), so that no delay is emulated. An emulated rate or loss is not
/// noticed. A connection that the kernel defers (`TCP_DEFER_ACCEPT`) has longer round trips until it has sent data.
/// `false` before Linux 4.6.
#[cfg(target_os = "linux")]
pub fn is_within_host(socket: &impl AsFd) -> bool {
    matches!(peer(socket), Ok(Some(peer)) if peer.ip().is_loopback())
        && tcp_info(socket).is_some_and(|info| shortest_round_trip_us(&info) < 1000)
}

/// Returns `tcpi_min_rtt`, bytes 148 to 151 of `tcp_info`; the largest number if none has been measured.
#[cfg(target_os = "linux")]
fn shortest_round_trip_us(info: &[u64; 19]) -> u32 {
    let [.., a, b, c, d] = info[18].to_ne_bytes();
    u32::from_ne_bytes([a, b, c, d])
}

/// Returns whether a connection is within this host: not known here.
#[cfg(not(target_os = "linux"))]
pub fn is_within_host(_: &impl AsFd) -> bool {
    false
}

/// Returns how many bytes the peer has acknowledged since the connection was established (`tcpi_bytes_acked`); sent
/// data may stay in the send buffer for long. `None` if it is not a TCP socket, and before Linux 4.1.
#[cfg(target_os = "linux")]
pub fn acknowledged_bytes(socket: &impl AsFd) -> Option<u64> {
    tcp_info::<16>(socket).map(|info| info[15])
}

/// Returns how many bytes the peer has acknowledged: not reported here.
#[cfg(not(target_os = "linux"))]
pub fn acknowledged_bytes(_: &impl AsFd) -> Option<u64> {
    None
}

/// Distributes connections among `listeners` listeners at one address by the processor that they arrive on: attaches a
/// classic BPF filter of three instructions (load the processor, take it modulo, return it) to any one of them.
#[cfg(target_os = "linux")]
pub fn steer_by_processor(socket: &impl AsFd, listeners: u32) -> Result<()> {
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let modulo = (libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K) as u16;
    let ret = (libc::BPF_RET | libc::BPF_A) as u16;
    let processor = (libc::SKF_AD_OFF + libc::SKF_AD_CPU) as u32;
    let mut filter = [
        libc::sock_filter { code: load, jt: 0, jf: 0, k: processor },
        libc::sock_filter { code: modulo, jt: 0, jf: 0, k: listeners.max(1) },
        libc::sock_filter { code: ret, jt: 0, jf: 0, k: 0 },
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, program)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor::dup_from;
    use crate::socket::{bind, local_port};
    use std::io::{Read, Write};
    use std::net::TcpStream;

    #[test]
    #[cfg(target_os = "linux")]
    fn the_shortest_round_trip_is_read_from_its_place() {
        // Bytes 148 to 151, between `tcpi_notsent_bytes` and `tcpi_data_segs_in`.
        for us in [999, 1000, u32::MAX] {
            let mut bytes = [0_u8; 152];
            bytes[148..].copy_from_slice(&u32::to_ne_bytes(us));
            let words = std::array::from_fn(|at| u64::from_ne_bytes(bytes[8 * at..8 * at + 8].try_into().unwrap()));
            assert_eq!(shortest_round_trip_us(&words), us);
        }
        let (unix, _there) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(!is_within_host(&unix));
        assert_eq!(acknowledged_bytes(&unix), None);
    }

    #[test]
    fn a_silent_socket_has_nothing_and_goes_on() {
        let (here, mut there) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(is_silent(&here));
        there.write_all(b"x").unwrap();
        assert!(!is_silent(&here) && !is_silent(&here), "nothing is taken");
        assert_eq!((&here).read(&mut [0]).unwrap(), 1);
        assert!(is_silent(&here));
        drop(there);
        assert!(!is_silent(&here));
    }

    /// The server of the 2003 study remembered by number which descriptors were nonblocking, and the kernel reuses
    /// numbers.
    #[test]
    fn a_reused_number_is_not_taken_for_nonblocking() {
        const NUMBER: i32 = 600;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || OwnedFd::from(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
        let (one, two) = (connect(), connect());
        // Another test may take the number in between.
        let second = loop {
            let first = dup_from(&one, NUMBER).unwrap();
            set_blocking(&first, false).unwrap();
            let number = first.as_raw_fd();
            drop(first);
            let second = dup_from(&two, NUMBER).unwrap();
            if second.as_raw_fd() == number {
                break second;
            }
        };
        assert!(is_blocking(&second).unwrap());
        set_blocking(&second, false).unwrap();
        assert!(!is_blocking(&second).unwrap());
    }

    #[test]
    fn an_ipv4_client_has_its_ipv4_address_at_a_dual_stack_listener() {
        let Ok(listener) = std::net::TcpListener::bind("[::]:0") else { return };
        let port = listener.local_addr().unwrap().port();
        let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (server, from) = accept_from(&listener).unwrap();
        assert_eq!((from, peer(&server)), (client.local_addr().ok(), Ok(from)));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn only_received_bytes_are_acknowledged() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = accept_from(&listener).unwrap();
        let begin = acknowledged_bytes(&server).unwrap();
        let (mut given, bytes) = (0, vec![0; 64 << 10]);
        while let Ok(sent) = send(&server, &bytes, false) {
            given += sent as u64;
        }
        assert!(acknowledged_bytes(&server).unwrap() - begin < given);
        let mut buffer = vec![0; given as usize];
        client.read_exact(&mut buffer).unwrap();
        while acknowledged_bytes(&server).unwrap() - begin < given {
            std::thread::yield_now();
        }
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(acknowledged_bytes(&one), None);
    }

    #[test]
    fn buffers_and_a_file_arrive_in_order() {
        let listener = stream(Family::V4).unwrap();
        bind(&listener, &"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
        listen(&listener, 4).unwrap();
        let to = SocketAddr::from(([127, 0, 0, 1], local_port(&listener).unwrap()));
        assert_eq!(accept(&listener).map(drop).map_err(|error| error.errno), Err(libc::EAGAIN));
        let mut client = TcpStream::connect(to).unwrap();
        let (server, peer) = accept_from(&listener).unwrap();
        assert_eq!(peer, client.local_addr().ok());
        assert_eq!(super::peer(&server), Ok(client.local_addr().ok()));
        assert!(!is_blocking(&server).unwrap());
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        assert_eq!(send_vectored(&server, &[IoSlice::new(b"a"), IoSlice::new(b"bc")], true), Ok(3));
        assert_eq!(send_file(&server, &file, 2, 5), Ok(5));
        assert_eq!(send_file(&server, &file, 10, 5), Ok(0));
        shutdown_write(&server).unwrap();
        let mut got = String::new();
        client.read_to_string(&mut got).unwrap();
        assert_eq!(got, "abc23456");
    }
}
