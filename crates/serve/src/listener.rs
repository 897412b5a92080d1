//! Listening sockets.

use crate::config::{Accepting, Config, Listen};
use crate::error::Error;
use landau_sys::socket::{Address, Family, bind, local_port};
use landau_sys::stream;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// An address with its listening sockets.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) place: Place,
    /// Where each worker listens by itself, this only holds the port, so that all get the same.
    socket: OwnedFd,
    /// Whether workers listen by themselves.
    is_own: bool,
    backlog: u32,
}

/// The file of a Unix socket, which goes with it.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    /// The device and the number of the file: another server may have put its own in this place.
    identity: (u64, u64),
}

impl SocketFile {
    /// The one that lies there.
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
            // Whom the server became may be forbidden to: then the next one replaces it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Where a server listens.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) listen: Listen,
    pub(crate) is_tls: bool,
    /// The file of a Unix socket of ours.
    _file: Option<SocketFile>,
}

/// A listening socket of a worker.
#[derive(Debug)]
pub(crate) struct Listening {
    pub(crate) fd: OwnedFd,
    pub(crate) is_tls: bool,
}

impl Place {
    /// The address as it would be asked for.
    pub(crate) fn address(&self) -> Listen {
        if self.is_tls { Listen::Tls(Box::new(self.listen.clone())) } else { self.listen.clone() }
    }
}

fn failed(listen: &Listen, cause: landau_sys::Error) -> Error {
    let place = listen.address().0;
    let hint = match (cause.kind(), place) {
        (ErrorKind::PermissionDenied, Listen::Tcp(_)) => "; ports below 1024 are root's: try --listen 127.0.0.1:8080",
        (ErrorKind::PermissionDenied, _) => "; the folder must be writable for who starts the server",
        (ErrorKind::AddrInUse, Listen::Unix(_)) => "; another program listens there: `ss -lxp` names it",
        (ErrorKind::AddrInUse, _) => "; another program listens there: `ss -ltnp` names it",
        (ErrorKind::AddrNotAvailable, _) => "; this machine has no such address",
        (ErrorKind::NotFound, _) => "; the folder of the socket is not there",
        (_, Listen::Inherited(_)) => "; no listening socket of streams was passed on under this number",
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
        // `[::]` is for both families; any other address is for what it says.
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

    /// Binds an address at which one thread listens.
    pub(crate) fn single(listen: &Listen) -> Result<Self, Error> {
        Self::bind(listen, 128, false)
    }

    fn bind(listen: &Listen, backlog: u32, is_own: bool) -> Result<Self, Error> {
        let error = |cause| failed(listen, cause);
        let (listen, is_tls) = listen.address();
        let is_own = is_own && matches!(listen, Listen::Tcp(_));
        let (socket, listen) = match listen {
            Listen::Tcp(address) => {
                if is_own && address.port() != 0 {
                    // Sockets that share a port would share it with another server of the same user as well: a socket
                    // that shares nothing finds out, and is closed again.
                    drop(tcp(*address, false).map_err(error)?);
                }
                let socket = tcp(*address, is_own).map_err(error)?;
                let port = local_port(&socket).map_err(error)?;
                (socket, Listen::Tcp(SocketAddr::new(address.ip(), port)))
            }
            Listen::Unix(path) => {
                let listener = unix(listen, path)?;
                stream::set_blocking(&listener, false)?;
                (listener, listen.clone())
            }
            Listen::Inherited(number) => inherited(*number).map_err(error)?,
            // A place is none of these.
            Listen::Tls(_) => return Err(Error::Address { text: listen.to_string() }),
        };
        if !is_own {
            stream::listen(&socket, backlog).map_err(error)?;
        }
        let file = if let Listen::Unix(path) = &listen { SocketFile::at(path) } else { None };
        Ok(Self { place: Place { listen, is_tls, _file: file }, socket, is_own, backlog })
    }

    /// A worker's listening socket at this address, set as its connections are to be.
    fn listener(&self, config: &Config) -> Result<Listening, Error> {
        let fd = self.socket()?;
        if matches!(self.place.listen, Listen::Tcp(_)) {
            // Inherited by what is accepted, which saves a call for each connection.
            stream::set_no_delay(&fd)?;
            if let Some(seconds) = config.defer_accept_s {
                stream::set_defer_accept(&fd, seconds)?;
            }
            #[cfg(target_os = "linux")]
            if config.accepting == Accepting::Steered && self.is_own {
                stream::steer_by_processor(&fd, config.workers as u32)?;
            }
        }
        Ok(Listening { fd, is_tls: self.place.is_tls })
    }

    /// The listening sockets of each worker, one at each address. Made in the order of the workers, for the kernel
    /// counts them in the order in which they began to listen, and gives each worker its processor's connections by
    /// that.
    pub(crate) fn listeners(all: &[Self], config: &Config) -> Result<Vec<Vec<Listening>>, Error> {
        let listens = |number: usize| config.accepting != Accepting::Handed || number == 0;
        let of = |number: usize| if listens(number) { all } else { &[] };
        let workers = 0..config.workers.max(1);
        workers.map(|number| of(number).iter().map(|bound| bound.listener(config)).collect()).collect()
    }

    /// A listening socket at this address.
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

/// Whether an error of accepting means that the client has gone already, or that a signal came: there may be others.
pub(crate) fn is_about_one(error: landau_sys::Error) -> bool {
    let kind = error.kind();
    matches!(kind, ErrorKind::ConnectionAborted | ErrorKind::Interrupted)
}

/// Accepts those who have connected already, and not more than can have waited: others may come all the time.
pub(crate) fn waiting_at(listener: &OwnedFd, backlog: u32) -> impl Iterator<Item = (OwnedFd, Option<IpAddr>)> {
    let next = move |_| match stream::accept_from(listener) {
        Ok((fd, peer)) => Some(Some((fd, peer.map(|peer| peer.ip())))),
        Err(error) => is_about_one(error).then_some(None),
    };
    (0..=backlog).map_while(next).flatten()
}

/// A socket that somebody else made, and where it listens. Whether it listens at all is found by listening.
fn inherited(number: RawFd) -> landau_sys::Result<(OwnedFd, Listen)> {
    let socket = landau_sys::descriptor::inherited(number)?;
    landau_sys::descriptor::set_close_on_exec(&socket)?;
    stream::set_blocking(&socket, false)?;
    if !landau_sys::socket::is_stream(&socket)? {
        // What listens takes streams; datagrams are none.
        return Err(landau_sys::Error { call: "listen", errno: NO_STREAM });
    }
    // The address of a Unix socket stays the manager's: its file is not ours to remove.
    let address = TcpListener::from(socket.try_clone().map_err(|error| landau_sys::Error::from_io("dup", &error))?);
    let listen = address.local_addr().map_or(Listen::Inherited(number), Listen::Tcp);
    Ok((socket, listen))
}

/// "Socket operation not supported": `EOPNOTSUPP` of this system, by the standard library's name for it.
const NO_STREAM: i32 = 95;

/// A Unix socket; one that a server left behind that is no more is replaced, and nothing else is.
fn unix(listen: &Listen, path: &Path) -> Result<OwnedFd, Error> {
    let error = |source: &std::io::Error| failed(listen, landau_sys::Error::from_io("bind", source));
    let taken = match UnixListener::bind(path) {
        Err(taken) if taken.kind() == ErrorKind::AddrInUse => taken,
        made => return made.map(OwnedFd::from).map_err(|source| error(&source)),
    };
    // A file, a FIFO or a link refuses to be connected to just as a socket does that nobody listens at.
    if !std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        let cause = landau_sys::Error::from_io("bind", &taken);
        let hint = "; what lies there is no socket and is left alone: name another path, or move it away";
        return Err(Error::Listen { address: listen.to_string(), cause, hint });
    }
    let is_left_behind = UnixStream::connect(path).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused);
    if !is_left_behind {
        return Err(error(&taken));
    }
    std::fs::remove_file(path).and_then(|()| UnixListener::bind(path)).map(OwnedFd::from).map_err(|cause| error(&cause))
}
