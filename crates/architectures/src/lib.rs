//! Small servers that do the same work, each with a different architecture: a process, a thread or an entry in a table
//! for each connection.
//!
//! The work is that of the architecture test of 2001: a server that answers each connection with "450 too busy" and
//! closes it. With [`Workload::Work`] it keeps the connection instead, and does a millisecond of work for each request.
//! An architecture is one file in [`list`] that defines an [`Architecture`]; `cargo xtask registry` generates the list.
//!
//! A server is a separate process: `landau`, started again with an argument for this crate ([`main`]). It listens on a
//! port of 127.0.0.1 and ends when it is killed. Everything that it has started ends with it: threads end with their
//! process, the kernel kills the children of a pool (`PR_SET_PDEATHSIG`), and children that serve one connection end
//! with that connection.

pub mod list;
mod room;
mod service;

use landau_reactor::Backend;
use landau_sys::shared::Number;
use landau_sys::socket::{Address, Family, bind};
use landau_sys::stream;
use std::cell::RefCell;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::Command;

pub use list::ALL;
pub use service::{REPLY, WORK, Workload};

/// The first argument of a server. Not for users.
const ARGUMENT: &str = "__architecture";

/// The backlog of a listener; the kernel allows at most `net.core.somaxconn`.
const BACKLOG: u32 = 65_535;

/// Why a server ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel refused a call.
    #[error(transparent)]
    System(#[from] landau_sys::Error),
    /// The event library failed.
    #[error(transparent)]
    Reactor(#[from] landau_reactor::Error),
    /// The server was started with arguments that [`command`] does not produce, or cannot work on this system.
    #[error("{0}")]
    Unsupported(String),
}

/// The result of a server, which serves until it fails.
pub type Result<T> = std::result::Result<T, Error>;

/// An architecture.
#[derive(Debug, Clone, Copy)]
pub struct Architecture {
    /// The name by which users choose it.
    pub name: &'static str,
    /// What handles a connection, in one line.
    pub about: &'static str,
    /// Whether it serves at most as many connections at a time as its pool has members.
    pub has_pool: bool,
    /// Whether child processes do its work.
    pub has_children: bool,
    /// Whether its event loop has a choice of backends.
    pub has_backends: bool,
    /// Its listeners.
    pub listeners: Listeners,
    /// Serves the connections of the listener until something fails.
    serve: fn(&Start) -> Result<()>,
}

/// The listeners of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listeners {
    /// One.
    One,
    /// One for each processor that the server may run on, all at the same address (`SO_REUSEPORT`).
    PerProcessor,
}

/// The listeners and options with which a server starts.
#[derive(Debug)]
pub struct Start {
    /// The first listener: nonblocking, and bound with `SO_REUSEPORT`.
    listener: OwnedFd,
    /// The listeners of the other processors, each with its processor, if there is one for each; empty after they are
    /// taken.
    others: RefCell<Vec<(OwnedFd, u32)>>,
    workload: Workload,
    /// Members of a pool.
    pool: u32,
    /// Processes or threads that may exist at a time.
    most: u32,
    backend: Backend,
    /// Receives the processor time of the children that have been reaped, in nanoseconds.
    reaped: Number,
}

impl Start {
    /// Returns the listener for a server that blocks in `accept`.
    fn blocking_listener(&self) -> Result<TcpListener> {
        stream::set_blocking(&self.listener, true)?;
        let copy = self.listener.try_clone().map_err(|error| landau_sys::Error::from_io("dup", &error))?;
        Ok(TcpListener::from(copy))
    }
}

/// The arguments of a server.
#[derive(Debug, Clone, Copy)]
pub struct Arguments {
    /// The architecture.
    pub architecture: &'static Architecture,
    /// What it does for a connection.
    pub workload: Workload,
    /// Members of a pool.
    pub pool: u32,
    /// Processes or threads that may exist at a time. At this number, a server accepts no further connection until one
    /// of them has ended.
    pub most: u32,
    /// The backend of an event loop.
    pub backend: Backend,
}

/// Returns the architecture of that name.
pub fn named(name: &str) -> Option<&'static Architecture> {
    ALL.iter().copied().find(|one| one.name == name)
}

/// Returns the command that starts a server. Once the server listens, it prints its port and a newline. If its standard
/// input is a [`Number`], the server stores the processor time of the children that it has reaped there.
pub fn command(arguments: &Arguments) -> Result<Command> {
    Ok(command_of(&landau_sys::process::this_program()?, arguments))
}

/// Returns the command that starts a server of another build of landau.
pub fn command_of(program: &Path, arguments: &Arguments) -> Command {
    let Arguments { architecture, workload, pool, most, backend } = arguments;
    let mut command = Command::new(program);
    command.args([ARGUMENT, architecture.name, workload.name(), &pool.to_string(), &most.to_string(), backend.name()]);
    command
}

/// Runs a server if the program was started as one, and returns its exit status. It returns only if the server fails.
///
/// Call it before anything else, while the process has one thread and little memory: each fork copies all of it.
pub fn main() -> Option<u8> {
    let mut words = std::env::args().skip(1);
    if words.next().is_none_or(|word| word != ARGUMENT) {
        return None;
    }
    let words: Vec<String> = words.collect();
    let Err(error) = parse(&words).and_then(|arguments| serve(&arguments)) else { return Some(0) };
    // The benchmark shows the last line of standard error.
    let _ = writeln!(std::io::stderr(), "{error}");
    Some(1)
}

fn parse(words: &[String]) -> Result<Arguments> {
    let wrong = || Error::Unsupported(format!("{words:?}: only landau itself starts such a server"));
    let [name, workload, pool, most, backend] = words else { return Err(wrong()) };
    Ok(Arguments {
        architecture: named(name).ok_or_else(wrong)?,
        workload: Workload::named(workload).ok_or_else(wrong)?,
        pool: pool.parse().map_err(|_| wrong())?,
        most: most.parse().map_err(|_| wrong())?,
        backend: backend.parse().map_err(|_| wrong())?,
    })
}

fn serve(arguments: &Arguments) -> Result<()> {
    for resource in [landau_sys::limits::Resource::Descriptors, landau_sys::limits::Resource::Processes] {
        landau_sys::limits::raise(resource)?;
    }
    let listener = listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    let address = landau_sys::socket::local_port(&listener)?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, address));
    let Arguments { architecture, workload, pool, most, backend } = *arguments;
    // All listeners exist before the port is announced: the kernel does not move connections to a later listener.
    let mut others = Vec::new();
    if architecture.listeners == Listeners::PerProcessor {
        for &processor in processors().iter().skip(1) {
            others.push((listen(address)?, processor));
        }
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", address.port())
        .and_then(|()| out.flush())
        .map_err(|error| landau_sys::Error::from_io("write", &error))?;
    drop(out);
    let input = std::io::stdin().as_fd().try_clone_to_owned();
    let reaped = Number::of(input.map_err(|error| landau_sys::Error::from_io("dup", &error))?);
    (architecture.serve)(&Start { listener, others: RefCell::new(others), workload, pool, most, backend, reaped })
}

/// Returns the processors that this process may run on; none if the system does not report them.
fn processors() -> Vec<u32> {
    landau_sys::system::processors_of(std::process::id()).unwrap_or_default()
}

/// Returns a nonblocking listener at an address that it may share with other listeners.
fn listen(address: SocketAddr) -> Result<OwnedFd> {
    let listener = stream::stream(Family::V4)?;
    stream::set_reuse_address(&listener)?;
    stream::set_reuse_port(&listener)?;
    bind(&listener, &Address::from(address))?;
    stream::listen(&listener, BACKLOG)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_started_with_what_it_is_told() {
        for &architecture in ALL {
            let given =
                Arguments { architecture, workload: Workload::Work, pool: 3, most: 99, backend: Backend::default() };
            let words: Vec<String> =
                command(&given).unwrap().get_args().skip(1).map(|word| word.to_str().unwrap().to_owned()).collect();
            let parsed = parse(&words).unwrap();
            assert_eq!((parsed.architecture.name, parsed.workload), (architecture.name, Workload::Work));
            assert_eq!((parsed.pool, parsed.most, parsed.backend), (3, 99, given.backend));
        }
        assert!(parse(&["fork".to_owned()]).is_err());
    }
}
