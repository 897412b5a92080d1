//! Listening sockets.

use crate::config::{Accepting, Config, Listen};
use crate::error::Error;
use landau_sys::socket::{Address, Family, bind, local_port};
use landau_sys::stream;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// A bound address.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) place: Place,
    /// The bound socket. If each worker has its own, this one only reserves the port, so that all workers use the same
    /// port.
    socket: OwnedFd,
    /// Whether each worker has its own listening socket.
    is_own: bool,
    backlog: u32,
}

/// The file of a Unix socket; dropping this removes it.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    /// The file's device and inode, because another server may have replaced the file.
    identity: (u64, u64),
}

impl SocketFile {
    /// Returns the file at a path.
    fn at(path: &Path) -> Option<Self> {
        let identity = Self::identity(path)?;
        Some(Self { path: path.to_owned(), identity })
    }

    fn identity(path: &Path) -> Option<(u64, u64)> {
        std::fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if Self::identity(&self.path) == Some(self.identity) {
            // The user that the server switched to may not be permitted to remove it; the next server then replaces it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// An address at which a server listens.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) listen: Listen,
    pub(crate) is_tls: bool,
    /// The file of a Unix socket that this server made.
    _file: Option<SocketFile>,
}

/// A listening socket of a worker.
#[derive(Debug)]
pub(crate) struct ListenSocket {
    pub(crate) fd: OwnedFd,
    pub(crate) is_tls: bool,
    /// Whether other workers may also accept from the socket.
    pub(crate) is_shared: bool,
}

impl Place {
    /// Returns the address in the form of [`Config::listen`], with the port that the system chose.
    pub(crate) fn address(&self) -> Listen {
        if self.is_tls { Listen::Tls(Box::new(self.listen.clone())) } else { self.listen.clone() }
    }
}

fn failed(listen: &Listen, cause: landau_sys::Error) -> Error {
    let place = listen.address().0;
    let hint = match (cause.kind(), place) {
        (ErrorKind::PermissionDenied, Listen::Tcp(_)) => {
            "; only root can bind ports below 1024: try --listen 127.0.0.1:8080"
        }
        (ErrorKind::PermissionDenied, _) => "; the directory must be writable by the user that starts the server",
        (ErrorKind::AddrInUse, Listen::Unix(_)) => "; another program listens there: run `ss -lxp` to see which",
        (ErrorKind::AddrInUse, _) => "; another program listens there: run `ss -ltnp` to see which",
        (ErrorKind::AddrNotAvailable, _) => "; this machine has no such address",
        (ErrorKind::NotFound, _) => "; the socket's directory does not exist",
        (_, Listen::Inherited(_)) => "; the inherited descriptor is not a listening stream socket",
        _ => "",
    };
    Error::Listen { address: listen.to_string(), cause, hint }
}

fn tcp(address: SocketAddr, is_own: bool) -> landau_sys::Result<OwnedFd> {
    let family = if address.is_ipv4() { Family::V4 } else { Family::V6 };
    let socket = stream::stream(family)?;
    stream::set_reuse_address(&socket)?;
    if is_own {
        stream::set_reuse_port(&socket)?;
    }
    if let SocketAddr::V6(address) = address {
        // `[::]` accepts IPv4 as well; other addresses do not.
        stream::set_v6_only(&socket, !address.ip().is_unspecified())?;
    }
    bind(&socket, &Address::from(address))?;
    Ok(socket)
}

impl Bound {
    /// Binds an address.
    pub(crate) fn new(config: &Config, listen: &Listen) -> Result<Self, Error> {
        let is_own = !matches!(config.accepting, Accepting::Shared | Accepting::Handed);
        Self::bind(listen, config.backlog, is_own)
    }

    /// Binds an address for a single thread.
    pub(crate) fn single(listen: &Listen) -> Result<Self, Error> {
        Self::bind(listen, 128, false)
    }

    /// Binds an address whose socket other processes inherit, and starts to listen.
    pub(crate) fn held(config: &Config, listen: &Listen) -> Result<Self, Error> {
        Self::bind(listen, config.backlog, false)
    }

    /// Returns the address by which a forked process knows the socket.
    pub(crate) fn as_inherited(&self) -> Listen {
        let listen = Listen::Inherited(self.socket.as_raw_fd());
        if self.place.is_tls { Listen::Tls(Box::new(listen)) } else { listen }
    }

    /// Closes the socket. The file of a Unix socket exists until the returned place is dropped.
    pub(crate) fn close(self) -> Place {
        self.place
    }

    fn bind(listen: &Listen, backlog: u32, is_own: bool) -> Result<Self, Error> {
        let error = |cause| failed(listen, cause);
        let (listen, is_tls) = listen.address();
        let is_own = is_own && matches!(listen, Listen::Tcp(_));
        let (socket, listen) = match listen {
            Listen::Tcp(address) => {
                if is_own && address.port() != 0 {
                    // With SO_REUSEPORT, the sockets would share the port with another server of the same user. This
                    // socket is bound without it, which fails in that case, and is then closed again.
                    drop(tcp(*address, false).map_err(error)?);
                }
                let socket = tcp(*address, is_own).map_err(error)?;
                // Keeps the scope of the address, which a worker's own socket needs too.
                let mut address = *address;
                address.set_port(local_port(&socket).map_err(error)?);
                (socket, Listen::Tcp(address))
            }
            Listen::Unix(path) => {
                let listener = unix(listen, path)?;
                stream::set_blocking(&listener, false)?;
                (listener, listen.clone())
            }
            Listen::Inherited(number) => inherited(*number).map_err(error)?,
            // Unreachable: `Listen::address` removes this variant.
            Listen::Tls(_) => return Err(Error::Address { text: listen.to_string() }),
        };
        if !is_own {
            stream::listen(&socket, backlog).map_err(error)?;
        }
        let file = if let Listen::Unix(path) = &listen { SocketFile::at(path) } else { None };
        Ok(Self { place: Place { listen, is_tls, _file: file }, socket, is_own, backlog })
    }

    /// Returns a worker's listening socket, with the options that its connections inherit.
    fn listener(&self, config: &Config) -> Result<ListenSocket, Error> {
        let fd = self.socket()?;
        if matches!(self.place.listen, Listen::Tcp(_)) {
            // Accepted connections inherit this option, which saves a call for each.
            stream::set_no_delay(&fd)?;
            if let Some(seconds) = config.defer_accept_s {
                stream::set_defer_accept(&fd, seconds)?;
            }
            #[cfg(target_os = "linux")]
            if config.accepting == Accepting::Steered && self.is_own {
                stream::steer_by_processor(&fd, config.workers as u32)?;
            }
        }
        Ok(ListenSocket { fd, is_tls: self.place.is_tls, is_shared: !self.is_own })
    }

    /// Returns the listening sockets of each worker, one for each address. They begin to listen in the order of the
    /// workers, because the kernel numbers them in that order, and `steered` selects by this number.
    pub(crate) fn listeners(all: &[Self], config: &Config) -> Result<Vec<Vec<ListenSocket>>, Error> {
        let listens = |number: usize| config.accepting != Accepting::Handed || number == 0;
        let of = |number: usize| if listens(number) { all } else { &[] };
        let workers = 0..config.workers.max(1);
        workers.map(|number| of(number).iter().map(|bound| bound.listener(config)).collect()).collect()
    }

    /// Returns a listening socket at this address.
    pub(crate) fn socket(&self) -> Result<OwnedFd, Error> {
        let error = |cause| failed(&self.place.listen, cause);
        match &self.place.listen {
            Listen::Tcp(address) if self.is_own => {
                let socket = tcp(*address, true).map_err(error)?;
                stream::listen(&socket, self.backlog).map_err(error)?;
                Ok(socket)
            }
            _ => landau_sys::descriptor::dup(&self.socket).map_err(error),
        }
    }
}

/// Returns whether an error of `accept4` concerns only one connection, so that others may still be pending.
pub(crate) fn concerns_one_connection(error: landau_sys::Error) -> bool {
    let kind = error.kind();
    matches!(kind, ErrorKind::ConnectionAborted | ErrorKind::Interrupted)
}

/// Accepts the pending connections of a listening socket, at most as many as its accept queue holds.
pub(crate) fn accept_all_pending(listener: &OwnedFd, backlog: u32) -> impl Iterator<Item = (OwnedFd, Option<IpAddr>)> {
    let next = move |_| match stream::accept_from(listener) {
        Ok((fd, peer)) => Some(Some((fd, peer.map(|peer| peer.ip())))),
        Err(error) => concerns_one_connection(error).then_some(None),
    };
    (0..=backlog).map_while(next).flatten()
}

/// Takes over an inherited socket; returns it with its address. Only the later call of `listen` shows whether it can
/// listen.
fn inherited(number: RawFd) -> landau_sys::Result<(OwnedFd, Listen)> {
    let socket = landau_sys::descriptor::inherited(number)?;
    landau_sys::descriptor::set_close_on_exec(&socket)?;
    stream::set_blocking(&socket, false)?;
    if !landau_sys::socket::is_stream(&socket)? {
        // A datagram socket cannot listen.
        return Err(landau_sys::Error::not_supported("listen"));
    }
    // The file of an inherited Unix socket is not ours to remove.
    let address = TcpListener::from(socket.try_clone().map_err(|error| landau_sys::Error::from_io("dup", &error))?);
    let listen = address.local_addr().map_or(Listen::Inherited(number), Listen::Tcp);
    Ok((socket, listen))
}

/// Binds a Unix socket. Only a stale socket file is replaced.
fn unix(listen: &Listen, path: &Path) -> Result<OwnedFd, Error> {
    let error = |source: &std::io::Error| failed(listen, landau_sys::Error::from_io("bind", source));
    let taken = match UnixListener::bind(path) {
        Err(taken) if taken.kind() == ErrorKind::AddrInUse => taken,
        made => return made.map(OwnedFd::from).map_err(|source| error(&source)),
    };
    // Connecting to a file, a FIFO or a link fails with the same error as connecting to a stale socket.
    if !std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        let cause = landau_sys::Error::from_io("bind", &taken);
        let hint = "; the path exists and is not a socket: pass another path, or move the file away";
        return Err(Error::Listen { address: listen.to_string(), cause, hint });
    }
    let is_stale = UnixStream::connect(path).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused);
    if !is_stale {
        return Err(error(&taken));
    }
    std::fs::remove_file(path).and_then(|()| UnixListener::bind(path)).map(OwnedFd::from).map_err(|cause| error(&cause))
}
