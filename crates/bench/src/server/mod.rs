//! The web server that `connect`, `request` and `download` measure.
//!
//! The server is a separate process, and runs on a different processor from the worker's if there is one. It is never
//! linked into the worker, because the worker's processor time and memory would then include the server's. To add a
//! server, write one file in `list/` that implements [`WebServer`], and run `cargo xtask registry`.

mod command;
mod list;
mod process;
pub mod rival;
mod usage;

use crate::backend;
use crate::files::write_in_parts;
use landau_engine::{Context, Host, Settings, Stop, Support, Unit};
use landau_reactor::Backend;
use landau_sys::{socket, stream};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) use process::Server;
pub(crate) use usage::Usage;

/// The time for which a server keeps an idle connection, in seconds: longer than any pass, so that no connection is
/// closed while n grows. lighttpd stores it in 15 bits.
const IDLE_TIMEOUT_S: u32 = 30_000;

/// The error that ends a curve when the server has no descriptor left for another connection.
pub(crate) const FULL: landau_sys::Error = landau_sys::Error { call: "accept", errno: libc::EMFILE };

/// The name of the file that is requested.
pub(crate) const FILE: &str = "file";

/// The names of all servers, as values of a parameter.
pub(crate) const NAMES: &[&str] = &names();

const fn names() -> [&'static str; list::SERVERS.len()] {
    let mut names = [""; list::SERVERS.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = list::SERVERS[index].0;
        index += 1;
    }
    names
}

/// A web server that Landau can start.
///
/// It must be a single process in the foreground, because only the process that Landau starts is killed with the
/// worker. It should log no requests and accept more connections than the case opens; everything else stays at the
/// server's own defaults.
pub(crate) trait WebServer: Sync {
    /// Returns whether the server can run here.
    fn support(&self, settings: &Settings) -> Support;

    /// Writes the configuration, if the server needs one, and returns the command that starts the server.
    fn configure(&self, start: &Start) -> Result<Command, Stop>;

    /// Returns how Landau can tell that the server is ready for connections.
    fn readiness(&self) -> Readiness {
        Readiness::AcceptsConnection
    }

    /// Returns the number of open descriptors at which the server stops accepting connections, and the error to record
    /// then. `descriptors` is `RLIMIT_NOFILE` of the server's process.
    fn capacity(&self, _settings: &Settings, descriptors: u64) -> (u64, landau_sys::Error) {
        (descriptors, FULL)
    }

    /// Returns whether the server can accept a connection before its first request.
    fn accepts_at_once(&self) -> bool {
        true
    }

    /// Returns whether the server can be configured to speak a protocol.
    fn speaks(&self, protocol: Protocol<'_>) -> bool {
        matches!(protocol, Protocol::Http1)
    }

    /// Returns the server's version.
    fn version(&self) -> Option<String>;

    /// Returns whether `configure` passes the parameter `backend` on to the server. Only `landau` does.
    fn has_backends(&self) -> bool {
        false
    }
}

/// The options with which a server is started.
pub(crate) struct Start<'a> {
    /// The settings of the case.
    pub(crate) settings: &'a Settings,
    /// The document root.
    pub(crate) root: &'a Path,
    /// A directory for the server's own files.
    pub(crate) directory: &'a Path,
    /// The port on 127.0.0.1 to listen on; 0 for a server that reports its address.
    pub(crate) port: u16,
    /// The number of descriptors for servers whose configuration needs one: more than four times n, but at most
    /// `RLIMIT_NOFILE` and 2^20.
    pub(crate) descriptors: u64,
    /// The tuning of a [rival]; `None` in a benchmark.
    pub(crate) tuning: Option<Tuning<'a>>,
}

/// The settings of an operator who wants throughput.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tuning<'a> {
    /// Whether connections are accepted with their first request.
    pub(crate) defers_accept: bool,
    /// The protocol of the server.
    pub(crate) protocol: Protocol<'a>,
}

/// The protocol of a server at its port.
#[derive(Debug, Clone, Copy)]
pub enum Protocol<'a> {
    /// HTTP/1.1 without TLS.
    Http1,
    /// HTTP/2 without TLS, for clients with prior knowledge.
    Http2,
    /// HTTP/2 and HTTP/1.1 over TLS, as negotiated by ALPN.
    Tls {
        /// The certificate.
        certificate: &'a Path,
        /// Its key.
        key: &'a Path,
    },
}

impl Start<'_> {
    /// Returns whether connections are accepted with their first request.
    pub(crate) fn defers_accept(&self) -> bool {
        self.tuning.is_some_and(|tuning| tuning.defers_accept)
    }

    /// Returns the protocol that the server must speak.
    pub(crate) fn protocol(&self) -> Protocol<'_> {
        self.tuning.map_or(Protocol::Http1, |tuning| tuning.protocol)
    }

    /// Writes the server's configuration and returns its path.
    pub(crate) fn write(&self, text: &str) -> Result<PathBuf, Stop> {
        let path = self.directory.join("conf");
        fs::write(&path, text).map_err(|error| Stop::io("write", &error))?;
        Ok(path)
    }
}

/// How Landau learns that a server accepts connections.
pub(crate) enum Readiness {
    /// A connection to the given port succeeds.
    AcceptsConnection,
    /// The first line of the server's standard output contains its address, which this function finds.
    ReportsAddress(fn(&str) -> Option<SocketAddr>),
}

/// The server that the settings select.
enum Selection<'a> {
    /// A server that Landau starts.
    Launched(&'a str, &'static dyn WebServer),
    /// A server that is already running.
    External(&'a str),
}

/// Returns the server that the settings select: the parameters `url` and `command` take precedence over `server`.
fn select(settings: &Settings) -> Selection<'_> {
    if is_set(settings, "url") {
        return Selection::External(settings.text("url"));
    }
    if is_set(settings, "command") {
        return Selection::Launched(settings.text("command"), &command::CustomCommand);
    }
    // The engine accepts only values that are in the list.
    let server = list::SERVERS.iter().find(|(name, _)| settings.is("server", name));
    let &(name, server) = server.unwrap_or(&list::SERVERS[0]);
    Selection::Launched(name, server)
}

/// Returns whether the selected server can be measured here.
pub(crate) fn support(host: &Host, settings: &Settings) -> Support {
    if host.clock.unit != Unit::Ns {
        return Support::No("a server needs real time and a separate processor".to_owned());
    }
    if let Err(error) = loopback_works() {
        return Support::No(format!("cannot connect over the loopback interface ({error})"));
    }
    let is_foreign = is_set(settings, "url") || is_set(settings, "command");
    if is_set(settings, "url") && is_set(settings, "command") {
        return Support::No("url and command both select the server; set only one of them".to_owned());
    }
    if is_foreign && !settings.is("server", "landau") {
        return Support::No("url or command selects the server; omit server".to_owned());
    }
    let (server, name) = match select(settings) {
        Selection::Launched(name, server) => (server, name),
        Selection::External(url) => {
            let result = loopback_or_private_address(url);
            return result.map_or_else(Support::No, |_| backend_is_default(settings, "the server at url"));
        }
    };
    if !server.has_backends()
        && let Support::No(reason) = backend_is_default(settings, name)
    {
        return Support::No(reason);
    }
    server.support(settings)
}

fn backend_is_default(settings: &Settings, name: &str) -> Support {
    Support::when(
        backend::named(settings, "backend") == Backend::default(),
        &format!("backend applies to server=landau only; {name} selects its own"),
    )
}

/// Returns whether a parameter, which a benchmark may lack, has a value.
fn is_set(settings: &Settings, name: &str) -> bool {
    !matches!(settings.text(name), "" | "none")
}

/// Checks that a client can connect to a listener of this process over loopback.
pub(crate) fn loopback_works() -> std::io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    // If the option is refused, one socket stays in TIME_WAIT.
    let _ = stream::set_reset_on_close(&client);
    Ok(())
}

/// Returns the parts of a URL that a request needs: the address, the host and the path. The address must be a loopback
/// or private one, so that a typing error does not load somebody else's server.
fn loopback_or_private_address(url: &str) -> Result<(SocketAddr, &str, &str), String> {
    let rest = url.strip_prefix("http://").unwrap_or(url);
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let authority = if has_port { host.to_owned() } else { format!("{host}:80") };
    let found = authority.to_socket_addrs().ok().and_then(|mut all| all.next());
    let address = found.ok_or_else(|| format!("cannot resolve {authority}"))?;
    if socket::is_loopback_or_private(address.ip()) {
        return Ok((address, host, path));
    }
    Err(format!(
        "{authority} is neither this machine nor in a private network; measure other hosts with `landau load \
         --allow-host {}`",
        address.ip()
    ))
}

/// Returns the name of the directory of [`document_root`].
pub(crate) fn document_root_name(settings: &Settings) -> String {
    format!("www-{}", settings.bytes("file"))
}

/// Creates the document root with a file of the size in the settings, and returns its path.
pub(crate) fn document_root(context: &Context) -> Result<PathBuf, Stop> {
    let io = |error: std::io::Error| Stop::io("write", &error);
    let bytes = context.settings.bytes("file");
    let root = context.scratch.join(document_root_name(context.settings));
    fs::create_dir_all(&root).map_err(io)?;
    let path = root.join(FILE);
    if fs::metadata(&path).map_or(u64::MAX, |meta| meta.len()) != bytes {
        let file = fs::File::create(&path).map_err(io)?;
        write_in_parts(&file, bytes, context.progress, |offset, block| {
            for (at, byte) in (offset..).zip(block) {
                *byte = b"landau\n"[(at % 7) as usize];
            }
        })?;
    }
    Ok(root)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_addresses_are_rejected() {
        for url in ["http://192.0.2.1/", "http://[2001:db8::1]:80/", "http://169.254.169.254/"] {
            let reason = loopback_or_private_address(url).unwrap_err();
            assert!(reason.contains("is neither this machine nor in a private network"), "{reason}");
        }
        for url in ["http://127.0.0.1:1/", "http://10.1.2.3/x", "http://[::1]:8080/"] {
            assert!(loopback_or_private_address(url).is_ok(), "{url}");
        }
    }
}
