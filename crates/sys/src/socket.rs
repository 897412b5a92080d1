//! Sockets and addresses, as benchmarks of sockets and ports need them. [`crate::stream`] has the rest.

use crate::descriptor::{own, wait_readable_over_signals};
use crate::error::{Error, Result, check};
use crate::stream::set_v6_only;
use std::mem::size_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// An address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// A transport protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// TCP, a stream.
    Tcp,
    /// UDP, datagrams.
    Udp,
}

/// Creates a socket, without flags, as the 2003 study did.
#[inline(always)]
pub fn socket(family: Family, transport: Transport) -> Result<OwnedFd> {
    let domain = match family {
        Family::V4 => libc::AF_INET,
        Family::V6 => libc::AF_INET6,
    };
    let kind = match transport {
        Transport::Tcp => libc::SOCK_STREAM,
        Transport::Udp => libc::SOCK_DGRAM,
    };
    // SAFETY: the call takes three integers.
    check("socket", unsafe { libc::socket(domain, kind, 0) }).map(own)
}

/// A socket address in the form that system calls take, created once and used for many sockets.
#[derive(Clone, Copy)]
pub struct Address {
    storage: libc::sockaddr_storage,
    len: libc::socklen_t,
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Address({} bytes)", self.len)
    }
}

impl Address {
    /// Returns the wildcard address of a family with port 0: the system chooses the port.
    pub fn any(family: Family) -> Self {
        match family {
            Family::V4 => SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0).into(),
            Family::V6 => SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0).into(),
        }
    }
}

/// The longest path of a Unix socket in bytes, without the terminating zero.
pub const UNIX_PATH_BYTES: usize =
    size_of::<libc::sockaddr_un>() - std::mem::offset_of!(libc::sockaddr_un, sun_path) - 1;

impl Address {
    /// Returns the address of a Unix socket. On Linux a path that starts with `@` is an abstract name. Fails with
    /// ENAMETOOLONG if the path is too long.
    pub fn unix(path: &std::path::Path) -> Result<Self> {
        use std::os::unix::ffi::OsStrExt;
        // SAFETY: `sockaddr_un` is plain data for which all zeroes is a value.
        let mut raw: libc::sockaddr_un = unsafe { std::mem::zeroed() };
        raw.sun_family = libc::AF_UNIX as libc::sa_family_t;
        let bytes = path.as_os_str().as_bytes();
        if bytes.len() > UNIX_PATH_BYTES {
            return Err(Error { call: "connect", errno: libc::ENAMETOOLONG });
        }
        for (to, from) in raw.sun_path.iter_mut().zip(bytes) {
            *to = *from as libc::c_char;
        }
        let mut address = stored(raw);
        let before_path = size_of::<libc::sockaddr_un>() - raw.sun_path.len();
        if cfg!(target_os = "linux") && bytes.first() == Some(&b'@') {
            raw.sun_path[0] = 0;
            address = stored(raw);
            address.len = (before_path + bytes.len()) as libc::socklen_t;
        }
        Ok(address)
    }

    /// Returns the address in the form that system calls take.
    pub(crate) fn raw(&self) -> (*const libc::sockaddr, libc::socklen_t) {
        ((&raw const self.storage).cast(), self.len)
    }

    /// Returns the address with another port.
    #[must_use]
    pub fn with_port(mut self, port: u16) -> Self {
        // The port has the same offset in the addresses of both families.
        // SAFETY: the storage holds a socket address, which is at least as large as `sockaddr_in`.
        let address = unsafe { &mut *(&raw mut self.storage).cast::<libc::sockaddr_in>() };
        address.sin_port = port.to_be();
        self
    }
}

/// Writes `value` to the start of an all-zero `sockaddr_storage`.
fn stored<T: Copy>(value: T) -> Address {
    // SAFETY: `sockaddr_storage` is plain data for which all zeroes is a value.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    // SAFETY: `sockaddr_storage` is at least as large as any socket address and at least as strictly aligned.
    unsafe { (&raw mut storage).cast::<T>().write(value) };
    Address { storage, len: size_of::<T>() as libc::socklen_t }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        match address {
            SocketAddr::V4(address) => {
                // SAFETY: `sockaddr_in` is plain data for which all zeroes is a value.
                let mut raw: libc::sockaddr_in = unsafe { std::mem::zeroed() };
                raw.sin_family = libc::AF_INET as libc::sa_family_t;
                raw.sin_port = address.port().to_be();
                raw.sin_addr.s_addr = u32::from_ne_bytes(address.ip().octets());
                stored(raw)
            }
            SocketAddr::V6(address) => {
                // SAFETY: `sockaddr_in6` is plain data for which all zeroes is a value.
                let mut raw: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
                raw.sin6_family = libc::AF_INET6 as libc::sa_family_t;
                raw.sin6_port = address.port().to_be();
                raw.sin6_flowinfo = address.flowinfo();
                raw.sin6_addr.s6_addr = address.ip().octets();
                raw.sin6_scope_id = address.scope_id();
                stored(raw)
            }
        }
    }
}

/// Binds a socket.
#[inline(always)]
pub fn bind(socket: &OwnedFd, address: &Address) -> Result<()> {
    let pointer = (&raw const address.storage).cast();
    // SAFETY: `pointer` is to `len` bytes of a socket address.
    check("bind", unsafe { libc::bind(socket.as_raw_fd(), pointer, address.len) }).map(drop)
}

/// Returns whether a socket is a stream socket, which can listen.
pub fn is_stream(socket: &OwnedFd) -> Result<bool> {
    option(socket.as_raw_fd(), libc::SO_TYPE).map(|kind| kind == libc::SOCK_STREAM)
}

/// Returns the value of an integer option at the socket level.
pub(crate) fn option(socket: RawFd, name: libc::c_int) -> Result<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    let pointer = (&raw mut value).cast();
    // SAFETY: `pointer` is to `len` writable bytes.
    check("getsockopt", unsafe { libc::getsockopt(socket, libc::SOL_SOCKET, name, pointer, &raw mut len) })?;
    Ok(value)
}

/// Returns the port that a socket is bound to; 0 if it is not bound.
pub fn local_port(socket: &OwnedFd) -> Result<u16> {
    // SAFETY: `sockaddr_storage` is plain data for which all zeroes is a value.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let mut len = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    let pointer = (&raw mut storage).cast();
    // SAFETY: `pointer` and `len` describe a buffer large enough for any address.
    check("getsockname", unsafe { libc::getsockname(socket.as_raw_fd(), pointer, &raw mut len) })?;
    // The port has the same offset in the addresses of both families.
    // SAFETY: the buffer is larger than `sockaddr_in`, initialised, and suitably aligned.
    let address = unsafe { (&raw const storage).cast::<libc::sockaddr_in>().read() };
    Ok(u16::from_be(address.sin_port))
}

/// Restricts the ports that the system may choose for this socket (`IP_LOCAL_PORT_RANGE`, Linux 6.3).
#[cfg(target_os = "linux")]
pub fn set_port_range(socket: &OwnedFd, low: u16, high: u16) -> Result<()> {
    const IP_LOCAL_PORT_RANGE: libc::c_int = 51;
    crate::stream::set_option(socket, libc::IPPROTO_IP, IP_LOCAL_PORT_RANGE, u32::from(high) << 16 | u32::from(low))
}

/// Restricts the ports that the system may choose for this socket: not supported here.
#[cfg(not(target_os = "linux"))]
pub fn set_port_range(_: &OwnedFd, _: u16, _: u16) -> Result<()> {
    Err(Error { call: "setsockopt", errno: libc::ENOTSUP })
}

/// Returns the address from which this system would reach another one. A UDP socket is connected to find out, which
/// sends nothing.
///
/// # Errors
///
/// [`Error::is_unreachable`] if there is no route; others if no socket or port is free.
pub fn source_address(to: IpAddr) -> Result<IpAddr> {
    let family = if to.is_ipv4() { Family::V4 } else { Family::V6 };
    let socket = std::net::UdpSocket::from(socket(family, Transport::Udp)?);
    // The port does not matter, but 0 is not valid.
    socket.connect((to, 9)).map_err(|error| Error::from_io("connect", &error))?;
    Ok(socket.local_addr().map_err(|error| Error::from_io("getsockname", &error))?.ip())
}

/// Returns whether an IPv6 socket with this value of `IPV6_V6ONLY` accepts an IPv4 peer by its mapped address.
pub fn accepts_mapped_peer(v6only: bool) -> Result<bool> {
    let listener = socket(Family::V6, Transport::Tcp)?;
    set_v6_only(&listener, v6only)?;
    bind(&listener, &Address::any(Family::V6))?;
    // SAFETY: the call takes a descriptor and an integer.
    check("listen", unsafe { libc::listen(listener.as_raw_fd(), 1) })?;
    is_reached_by_ipv4(listener)
}

/// Returns whether a client of IPv4 reaches this listener, and not another one with the same port.
fn is_reached_by_ipv4(listener: OwnedFd) -> Result<bool> {
    /// In milliseconds. A connection over the loopback interface waits to be accepted at once.
    const LONGEST: u32 = 1_000;
    let port = local_port(&listener)?;
    let own = match std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => return Ok(false),
        Err(error) => return Err(Error::from_io("connect", &error)),
        Ok(stream) => stream,
    };
    // The port of IPv4 may belong to another program's listener, or to the client itself, which is then connected to
    // itself. This listener has nobody to accept then.
    if !wait_readable_over_signals(&listener, LONGEST)? {
        return Ok(false);
    }
    let listener = std::net::TcpListener::from(listener);
    let (_, peer) = listener.accept().map_err(|error| Error::from_io("accept", &error))?;
    let is_own = own.local_addr().is_ok_and(|own| own.port() == peer.port());
    Ok(is_own && matches!(peer, SocketAddr::V6(peer) if peer.ip().to_ipv4_mapped().is_some()))
}

/// Returns whether an address is a loopback, unspecified or private one (RFC 1918, RFC 4193). Link-local addresses do
/// not count: at 169.254.169.254, cloud providers answer their guests.
pub fn is_loopback_or_private(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_private() || v4.is_unspecified(),
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unique_local() || v6.is_unspecified(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loopback_address_is_reached_from_itself() {
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        assert_eq!(source_address(loopback), Ok(loopback));
        // A socket cannot connect to the broadcast address without an option.
        let broadcast = source_address(IpAddr::V4(Ipv4Addr::BROADCAST));
        assert!(broadcast.is_err_and(|error| error.call == "connect"));
    }

    /// The port of a listener that takes no clients of IPv4 may belong to another program there. The benchmark once
    /// waited for ever for a client that this program had accepted.
    #[test]
    fn a_listener_of_ipv4_with_the_same_port_is_another_one() {
        // Somebody else may have the port of IPv4 already.
        let pair = (0..100).find_map(|_| {
            let listener = socket(Family::V6, Transport::Tcp).ok()?;
            set_v6_only(&listener, true).ok()?;
            bind(&listener, &Address::any(Family::V6)).ok()?;
            // SAFETY: the call takes a descriptor and an integer.
            check("listen", unsafe { libc::listen(listener.as_raw_fd(), 1) }).ok()?;
            let other = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, local_port(&listener).ok()?)).ok()?;
            Some((listener, other))
        });
        let Some((listener, _other)) = pair else { return eprintln!("skipped: no IPv6 here") };
        assert_eq!(is_reached_by_ipv4(listener), Ok(false));
    }

    #[test]
    fn only_a_bound_socket_has_a_port() {
        let fd = socket(Family::V4, Transport::Udp).unwrap();
        assert_eq!(local_port(&fd).unwrap(), 0);
        bind(&fd, &Address::any(Family::V4)).unwrap();
        assert_ne!(local_port(&fd).unwrap(), 0);
    }

    /// Without its scope a link-local address cannot be bound.
    #[test]
    fn an_ipv6_address_keeps_its_scope() {
        let address = Address::from("[fe80::1%7]:8080".parse::<SocketAddr>().unwrap());
        // SAFETY: the storage holds the `sockaddr_in6` that was written to it.
        let raw = unsafe { (&raw const address.storage).cast::<libc::sockaddr_in6>().read() };
        assert_eq!((raw.sin6_scope_id, raw.sin6_port), (7, 8080_u16.to_be()));
        assert_eq!(raw.sin6_addr.s6_addr[..2], [0xfe, 0x80]);
    }

    #[test]
    fn the_kernel_returns_the_same_address() {
        let fd = socket(Family::V4, Transport::Udp).unwrap();
        let address: SocketAddr = "127.0.0.1:0".parse().unwrap();
        bind(&fd, &address.into()).unwrap();
        let socket = std::net::UdpSocket::from(fd);
        assert_eq!(socket.local_addr().unwrap().ip(), address.ip());
    }
}
