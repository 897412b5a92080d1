//! The configuration of a server, and the file that it can be read from.

mod document;
mod file;
mod proxy;
mod rule;

pub use document::Problem;
pub use file::{ConfigFile, Setting};

use crate::Error;
use crate::log::AccessLog;
use crate::privilege::SandboxMode;
use crate::reader::Reader;
use crate::rules::{LiveRules, Networks, Upstream};
use crate::tls::TlsFiles;
use landau_reactor::{Backend, ManualClock};
use landau_sys::path::Links;
use landau_sys::privilege::Identity;
use landau_wire::http::Limits;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// An address at which a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// An address and port of IPv4 or IPv6.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
    /// A listening socket inherited under this descriptor number, from a service manager.
    Inherited(RawFd),
    /// One of the other kinds, with TLS.
    Tls(Box<Listen>),
}

impl Listen {
    /// Returns the address without `tls:`, and whether it uses TLS.
    pub fn address(&self) -> (&Self, bool) {
        match self {
            Self::Tls(inner) => (inner.address().0, true),
            other => (other, false),
        }
    }
}

impl FromStr for Listen {
    type Err = Error;

    /// Parses `127.0.0.1:8080`, `[::1]:8080`, `:8080` (all addresses of both families), `8080` (the same), `unix:PATH`
    /// or `fd:NUMBER`. A prefix `tls:` adds TLS.
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

/// How connections are distributed to workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Accepting {
    /// Each worker has a listening socket at the same address (`SO_REUSEPORT`); the kernel chooses one by the hash of
    /// the connection.
    #[default]
    Own,
    /// Like `Own`, but the kernel chooses the worker by the processor on which a connection arrives.
    Steered,
    /// All workers share one listening socket.
    Shared,
    /// The first worker accepts all connections and passes them to the workers in turn.
    Handed,
    /// Each worker has a listening socket and a ring (`io_uring`) that accepts and receives.
    Multishot,
}

impl Accepting {
    /// All variants, by name.
    pub const ALL: &[(&str, Self)] = &[
        ("own", Self::Own),
        ("steered", Self::Steered),
        ("shared", Self::Shared),
        ("handed", Self::Handed),
        ("multishot", Self::Multishot),
    ];
}

/// The timeouts of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// The time for a whole request head, from its first byte on; for the first byte of a new connection; and for a TLS
    /// handshake.
    pub head: Duration,
    /// The time until the next request on a connection.
    pub idle: Duration,
    /// The time in which a client must read at least [`SLOWEST_BYTES`] of its response. The first check only records
    /// what the client has acknowledged, so a client that reads nothing is dropped after twice this time.
    pub send: Duration,
    /// The time that busy connections get when the server is asked to stop.
    pub drain: Duration,
}

/// The number of bytes that a client must read within [`Timeouts::send`].
pub const SLOWEST_BYTES: u64 = 4096;

impl Default for Timeouts {
    fn default() -> Self {
        let s = Duration::from_secs;
        Self { head: s(10), idle: s(60), send: s(20), drain: s(10) }
    }
}

/// The configuration of a server.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is independent of the others")]
pub struct Config {
    /// The directory whose files are served.
    pub root: PathBuf,
    /// The addresses at which the server listens.
    pub listen: Vec<Listen>,
    /// The number of workers.
    pub workers: usize,
    /// The processors that the workers are pinned to, in turn; empty for no pinning.
    pub processors: Vec<u32>,
    /// The backend of the event loops; unused with [`Accepting::Multishot`].
    pub backend: Backend,
    /// How connections are distributed to workers.
    pub accepting: Accepting,
    /// The maximum number of connections in the accept queue (the backlog).
    pub backlog: u32,
    /// The maximum time, in seconds, for which the kernel holds a connection back until its first request arrives. This
    /// saves the worker a wake-up, but silent connections are neither seen nor counted for that long. `None` means that
    /// connections are accepted at once.
    pub defer_accept_s: Option<u32>,
    /// The maximum number of connections in total; `None` for as many as the descriptor limit allows.
    pub connections: Option<usize>,
    /// The maximum number of connections from one address; `None` for no limit.
    pub connections_per_address: Option<u32>,
    /// The timeouts.
    pub timeouts: Timeouts,
    /// The limits of a request's head.
    pub limits: Limits,
    /// Whether HTTP/2 is accepted from clients that begin with it, and offered over TLS.
    pub http2: bool,
    /// Which symbolic links are followed.
    pub links: Links,
    /// Index files of a directory; the first that exists is served.
    pub index: Vec<String>,
    /// Whether directories without an index file are listed.
    pub listings: bool,
    /// The rules by path, if there is a configuration file.
    pub rules: Option<Arc<LiveRules>>,
    /// The proxies whose connections begin with a header of the PROXY protocol.
    pub proxies: Option<Networks>,
    /// The proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` are trusted.
    pub forwarded_from: Option<Networks>,
    /// Whether each directory in the root is a host.
    pub virtual_hosts: bool,
    /// The size of each worker's cache, in bytes; less if memory is short ([`crate::Server::start`]).
    pub cache_bytes: usize,
    /// The maximum number of bytes that all connections may hold, for partial requests, partial responses and TLS.
    /// `None` for half of what the process can still allocate.
    pub memory_bytes: Option<usize>,
    /// How long a worker trusts its cache before it checks the file again.
    pub cache_for: Duration,
    /// The access log, if any.
    pub log: Option<AccessLog>,
    /// The owner of a new log file: the user that the server switches to, so that it can reopen the log.
    pub log_owner: Option<Identity>,
    /// The certificates and keys for TLS addresses; the first is for clients that send no known host name.
    pub tls: Vec<TlsFiles>,
    /// The reader of the certificates and of the files of the rules when they are reloaded.
    pub reader: Reader,
    /// The address at which metrics for Prometheus are served, if any.
    pub metrics: Option<Listen>,
    /// Whether threads set `PR_SET_NO_NEW_PRIVS`.
    pub sets_no_new_privileges: bool,
    /// Whether threads enter a sandbox. There they can open only the served directory, directories that may replace it,
    /// and those of the log and the certificates.
    pub sandbox: SandboxMode,
    /// More directories that may be opened in the sandbox, so that the server can follow a replaced root to them.
    pub sandbox_read: Vec<PathBuf>,
    /// Receives messages for the operator while the server runs.
    pub report: fn(&str),
    /// The clock for connection timeouts and the cache, for tests; `None` for the system's clock.
    pub clock: Option<ManualClock>,
}

impl Config {
    /// Returns the default configuration for a directory.
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
            http2: true,
            links: Links::default(),
            index: vec!["index.html".to_owned()],
            listings: true,
            rules: None,
            proxies: None,
            forwarded_from: None,
            virtual_hosts: false,
            cache_bytes: 64 << 20,
            memory_bytes: None,
            cache_for: Duration::from_millis(500),
            log: None,
            log_owner: None,
            tls: Vec::new(),
            reader: Reader::default(),
            metrics: None,
            sets_no_new_privileges: false,
            sandbox: SandboxMode::default(),
            sandbox_read: Vec::new(),
            report: |_| {},
            clock: None,
        }
    }

    /// Returns the files that are reloaded while the server runs.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        let of_tls = self.tls.iter().flat_map(|files| [&*files.certificate, &*files.key]);
        of_tls.chain(self.rules.iter().flat_map(|rules| rules.files()))
    }

    /// Returns the upstream servers of the rules.
    pub(crate) fn upstreams(&self) -> Vec<Arc<Upstream>> {
        let rules = self.rules.as_ref().map(|rules| rules.current());
        rules.iter().flat_map(|rules| rules.proxies()).map(|proxy| proxy.upstream.clone()).collect()
    }

    /// Returns whether the address of a client is needed.
    pub(crate) fn must_know_peers(&self) -> bool {
        self.connections_per_address.is_some()
            || self.log.is_some()
            || self.rules.is_some()
            || self.forwarded_from.is_some()
            || self.proxies.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed() {
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
