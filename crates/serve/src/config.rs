//! What a server is told.

use crate::Error;
use crate::log::AccessLog;
use crate::privilege::SandboxMode;
use crate::tls::TlsFiles;
use landau_reactor::Backend;
use landau_sys::path::Links;
use landau_sys::privilege::Identity;
use landau_wire::http::Limits;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// An address and port of IPv4 or IPv6.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
    /// A listening socket that was passed on under this number, by a service manager.
    Inherited(RawFd),
    /// One of the others, where TLS is spoken.
    Tls(Box<Listen>),
}

impl Listen {
    /// Where it listens, and whether TLS is spoken there.
    pub fn address(&self) -> (&Self, bool) {
        match self {
            Self::Tls(inner) => (inner.address().0, true),
            other => (other, false),
        }
    }
}

impl FromStr for Listen {
    type Err = Error;

    /// `127.0.0.1:8080`, `[::1]:8080`, `:8080` (all addresses of both families), `8080` (the same), `unix:PATH` or
    /// `fd:NUMBER`; each with `tls:` before it where TLS is spoken.
    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || Error::Address { text: text.to_owned() };
        if let Some(place) = text.strip_prefix("tls:") {
            let inner: Self = place.parse()?;
            return if inner.address().1 { Err(wrong()) } else { Ok(Self::Tls(Box::new(inner))) };
        }
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() { Err(wrong()) } else { Ok(Self::Unix(PathBuf::from(path))) };
        }
        if let Some(number) = text.strip_prefix("fd:") {
            return number.parse().ok().filter(|&number| number > 2).map(Self::Inherited).ok_or_else(wrong);
        }
        if let Ok(port) = text.strip_prefix(':').unwrap_or(text).parse::<u16>() {
            return Ok(Self::Tcp((IpAddr::from(Ipv6Addr::UNSPECIFIED), port).into()));
        }
        let text = text.strip_prefix("localhost:").map_or(text.to_owned(), |port| format!("127.0.0.1:{port}"));
        text.parse().map(Self::Tcp).map_err(|_| wrong())
    }
}

impl std::fmt::Display for Listen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Inherited(number) => write!(f, "fd:{number}"),
            Self::Tls(inner) => write!(f, "tls:{inner}"),
        }
    }
}

/// How connections come to workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Accepting {
    /// Each worker listens by itself at the same address (`SO_REUSEPORT`); the kernel spreads by the connection's hash.
    #[default]
    Own,
    /// The same, and the kernel gives a connection to the worker of the processor that it arrived on.
    Steered,
    /// All wait at one listening socket.
    Shared,
    /// The first worker accepts for all and hands over in turn.
    Handed,
    /// Each worker listens by itself, and the kernel does whole operations for it: it accepts, receives and sends
    /// through a ring (`io_uring`).
    Multishot,
}

impl Accepting {
    /// All, by name.
    pub const ALL: &[(&str, Self)] = &[
        ("own", Self::Own),
        ("steered", Self::Steered),
        ("shared", Self::Shared),
        ("handed", Self::Handed),
        ("multishot", Self::Multishot),
    ];
}

/// How long a server waits for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For a whole request head from its first byte on, and for the first byte of a new connection.
    pub head: Duration,
    /// For the next request of a connection.
    pub idle: Duration,
    /// For a client that does not read what it asked for: it must take at least [`SLOWEST_BYTES`] in this time, which
    /// counts from the first look at what it has: one that takes nothing is dropped after twice this.
    pub send: Duration,
    /// For connections that are still busy when the server is told to end.
    pub drain: Duration,
}

/// What a reader must take within [`Timeouts::send`].
pub const SLOWEST_BYTES: u64 = 4096;

impl Default for Timeouts {
    fn default() -> Self {
        let s = Duration::from_secs;
        Self { head: s(10), idle: s(60), send: s(20), drain: s(10) }
    }
}

/// What a server is told.
#[derive(Debug, Clone)]
pub struct Config {
    /// The folder whose files are served.
    pub root: PathBuf,
    /// Where to listen.
    pub listen: Vec<Listen>,
    /// How many workers.
    pub workers: usize,
    /// Processors that the workers are pinned to, in turn; none means wherever the kernel likes.
    pub processors: Vec<u32>,
    /// The mechanism of the event loops.
    pub backend: Backend,
    /// How connections come to workers.
    pub accepting: Accepting,
    /// Connections that may wait to be accepted.
    pub backlog: u32,
    /// Whether a connection is accepted only when its first request has come, or after so many seconds: it saves the
    /// worker a wake-up, and hides from it who says nothing. None means at once.
    pub defer_accept_s: Option<u32>,
    /// The most connections in all; none means as many as the limit of descriptors allows.
    pub connections: Option<usize>,
    /// The most connections from one address; none means no bound.
    pub connections_per_address: Option<u32>,
    /// How long to wait.
    pub timeouts: Timeouts,
    /// How large a request's head may be.
    pub limits: Limits,
    /// Which symbolic links are followed.
    pub links: Links,
    /// What a folder is answered with, if it is there.
    pub index: Vec<String>,
    /// Whether folders without it are listed.
    pub listings: bool,
    /// Whether each folder below the root is a host.
    pub virtual_hosts: bool,
    /// What the cache may hold in each worker, in bytes.
    pub cache_bytes: usize,
    /// For how long a worker believes its cache before it asks the file system again.
    pub cache_for: Duration,
    /// Where each answer is written down; none means nowhere.
    pub log: Option<AccessLog>,
    /// To whom a new log belongs: whom the server becomes, so that it can open the log again.
    pub log_owner: Option<Identity>,
    /// Certificates with their keys, for addresses where TLS is spoken; the first is for clients that name no other's
    /// host.
    pub tls: Vec<TlsFiles>,
    /// Where Prometheus finds what is counted; none means nowhere.
    pub metrics: Option<Listen>,
    /// Whether workers see to it that no program they might execute gets more rights than they have.
    pub sets_no_new_privileges: bool,
    /// Whether workers go behind a fence within which only the folder and the log can be opened.
    pub sandbox: SandboxMode,
    /// Who hears what the operator should know while the server runs.
    pub say: fn(&str),
}

impl Config {
    /// The defaults, for a folder.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            listen: vec![Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], 8080)))],
            workers: 1,
            processors: Vec::new(),
            backend: Backend::default(),
            accepting: Accepting::default(),
            backlog: 4096,
            defer_accept_s: None,
            connections: None,
            connections_per_address: None,
            timeouts: Timeouts::default(),
            limits: Limits::default(),
            links: Links::default(),
            index: vec!["index.html".to_owned()],
            listings: true,
            virtual_hosts: false,
            cache_bytes: 64 << 20,
            cache_for: Duration::from_millis(500),
            log: None,
            log_owner: None,
            tls: Vec::new(),
            metrics: None,
            sets_no_new_privileges: false,
            sandbox: SandboxMode::default(),
            say: |_| {},
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_people_write_them() {
        let tcp = |text: &str| Listen::Tcp(text.parse().unwrap());
        assert_eq!("127.0.0.1:80".parse::<Listen>().unwrap(), tcp("127.0.0.1:80"));
        assert_eq!("[::1]:80".parse::<Listen>().unwrap(), tcp("[::1]:80"));
        assert_eq!(":80".parse::<Listen>().unwrap(), tcp("[::]:80"));
        assert_eq!("80".parse::<Listen>().unwrap(), tcp("[::]:80"));
        assert_eq!("localhost:80".parse::<Listen>().unwrap(), tcp("127.0.0.1:80"));
        assert_eq!("tls::443".parse::<Listen>().unwrap(), Listen::Tls(Box::new(tcp("[::]:443"))));
        assert_eq!("fd:3".parse::<Listen>().unwrap(), Listen::Inherited(3));
        assert_eq!("unix:/a b".parse::<Listen>().unwrap(), Listen::Unix("/a b".into()));
        for wrong in ["", "x", "1.2.3.4", "unix:", "fd:1", "fd:x", "tls:", "tls:tls:80", "1.2.3.4:99999", "http://x/"] {
            assert!(wrong.parse::<Listen>().unwrap_err().to_string().contains("try 127.0.0.1:8080"), "{wrong}");
        }
    }
}
