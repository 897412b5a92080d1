//! The server that `architecture` measures: one of `landau-architectures`, a separate process on processors other than
//! the worker's.
//!
//! It belongs to the worker's process group, and the kernel kills it when the worker ends for any reason; everything
//! that it has started ends with it.

mod client;
mod meter;
mod pace;

use crate::affinity::{on_all_processors, on_other_processors};
use crate::backend;
use crate::server::Usage;
use landau_architectures::{Architecture, Arguments, Workload};
use landau_engine::{Context, Facts, Settings, Stop};
use landau_sys::clock::monotonic_ns;
use landau_sys::process::{OwnedChild, time_of_ns};
use landau_sys::shared::Number;
use landau_sys::system;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

pub use client::{Client, Round};
pub(crate) use meter::Meter;

/// The longest wait for a pool of processes.
const POOL_NS: u64 = 20_000_000_000;

/// The default number of members of a pool that answers and closes.
const POOL: u64 = 16;

/// A server.
#[derive(Debug)]
pub(crate) struct Server {
    child: OwnedChild,
    /// The address that it listens on.
    pub(crate) address: SocketAddr,
    /// The processors on which it may run.
    pub(crate) processors: Vec<u32>,
    baseline: Usage,
    /// Its private memory before the first connection, in bytes.
    memory_before: Option<u64>,
    /// The processor time of the children that it has reaped.
    reaped: Number,
    architecture: &'static Architecture,
    log: PathBuf,
}

/// Returns the architecture that the settings name.
pub(crate) fn of(settings: &Settings) -> Result<&'static Architecture, Stop> {
    let name = settings.text("architecture");
    landau_architectures::named(name).ok_or_else(|| Stop::Wrong(format!("there is no architecture `{name}`")))
}

/// Returns the workload that the settings name.
pub(crate) fn workload(settings: &Settings) -> Workload {
    Workload::named(settings.text("workload")).unwrap_or(Workload::Busy)
}

/// Returns the number of members of a pool. If the settings do not give it, `workload=work` has as many members as
/// connections, because each member keeps one.
pub(crate) fn pool(settings: &Settings, n: u64) -> u64 {
    match (settings.count("pool"), workload(settings)) {
        (0, Workload::Work) => n,
        (0, Workload::Busy) => POOL,
        (count, _) => count,
    }
}

impl Server {
    /// Starts the server that the settings select. Returns when it listens.
    pub(crate) fn start(context: &Context) -> Result<Self, Stop> {
        let (settings, own) = (context.settings, context.host.pinned_processor);
        let arguments = Arguments {
            architecture: of(settings)?,
            workload: workload(settings),
            pool: u32::try_from(pool(settings, context.n)).unwrap_or(u32::MAX),
            // A thread or process may still be ending when its connection is replaced.
            most: u32::try_from(2 * context.n + 16).unwrap_or(u32::MAX),
            backend: backend::named(settings, "backend"),
        };
        let failed = |reason: String| Stop::Wrong(format!("cannot start the server: {reason}"));
        let log = context.scratch.join("architecture.log");
        let mut command = landau_architectures::command(&arguments).map_err(|error| failed(error.to_string()))?;
        let reaped = Number::create()?;
        command.stdin(Stdio::from(reaped.descriptor()?)).stdout(Stdio::piped());
        command.stderr(File::create(&log).map_err(|error| Stop::io("open", &error))?);
        let spawn = || OwnedChild::spawn(&mut command);
        let (spawned, processors) = if settings.is("processors", "all") {
            on_all_processors(own, spawn)
        } else {
            on_other_processors(own, spawn)
        };
        let mut child = spawned.map_err(|error| failed(error.to_string()))?;
        let output = child.stdout.take().ok_or_else(|| failed("no standard output".to_owned()))?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).map_err(|error| failed(error.to_string()))?;
        let port = line.trim().parse::<u16>().map_err(|_| {
            let errors = fs::read_to_string(&log).unwrap_or_default();
            failed(errors.lines().last().unwrap_or("it printed no port").to_owned())
        })?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if arguments.architecture.name == "prefork" {
            wait_for_pool(child.id(), arguments.pool).map_err(failed)?;
        }
        Ok(Self {
            child,
            address,
            processors,
            baseline: Usage::default(),
            memory_before: None,
            reaped,
            architecture: arguments.architecture,
            log,
        })
    }

    /// Starts counting processor time, memory and dropped connections.
    pub(crate) fn begin(&mut self) {
        self.memory_before = system::private_bytes(self.child.id());
        self.baseline = Usage::with_server(self.time_ns());
    }

    /// Returns the processor time of the server, its threads and its children, including those that have ended.
    pub(crate) fn time_ns(&self) -> Option<u64> {
        let pid = self.child.id();
        let own_ns = time_of_ns(pid)?;
        if !self.architecture.has_children {
            return Some(own_ns);
        }
        // In this order, a child that is reaped in between is counted by the next reading, and never twice.
        let reaped_ns = self.reaped.get().ok()?;
        let living_ns: u64 = system::children(pid).into_iter().filter_map(time_of_ns).sum();
        Some(own_ns + reaped_ns + living_ns)
    }

    /// Returns the private memory of the server and its children per connection, in bytes, less the memory before the
    /// first connection. The members of a pool exist before that, and count in full.
    pub(crate) fn memory_each(&self, connections: u64) -> Option<u64> {
        let before = if self.architecture.has_pool { 0 } else { self.memory_before? };
        let now = system::private_bytes(self.child.id())?;
        Some(now.saturating_sub(before) / connections.max(1))
    }

    /// Returns why a pass ended: because the server has ended, if it has, otherwise `stop`.
    pub(crate) fn explain(&mut self, stop: Stop) -> Stop {
        let Ok(Some(status)) = self.child.try_wait() else { return stop };
        let errors = fs::read_to_string(&self.log).unwrap_or_default();
        Stop::Wrong(format!("the server ended ({status}): {}", errors.lines().last().unwrap_or("it wrote no error")))
    }

    /// Returns the processes of the server.
    pub(crate) fn processes(&self) -> Vec<u32> {
        vec![self.child.id()]
    }

    /// Adds the usage since [`Server::begin`], for this number of replies, to the facts. Returns the processor time per
    /// reply, in nanoseconds.
    pub(crate) fn report(&self, client: Option<u32>, replies: u64, facts: &mut Facts) -> Option<u64> {
        let time_ns = self.time_ns();
        let end = Usage::with_server(time_ns);
        let numbers: Vec<String> = self.processors.iter().map(u32::to_string).collect();
        facts.text("server_processor", if numbers.is_empty() { "any".to_owned() } else { numbers.join(", ") });
        facts.text("client_processor", client.map_or("any".to_owned(), |number| number.to_string()));
        self.baseline.report(end, (replies, "reply"), facts);
        facts.count("server_processes", system::process_tree(self.child.id()).len() as u64);
        Some(time_ns?.saturating_sub(self.baseline.server_ns()?) / replies.max(1))
    }
}

/// Waits until a server has forked its pool, if the system lists processes.
fn wait_for_pool(pid: u32, count: u32) -> Result<(), String> {
    let deadline_ns = monotonic_ns() + POOL_NS;
    while (system::children(pid).len() as u32) < count && cfg!(target_os = "linux") {
        if monotonic_ns() > deadline_ns {
            return Err(format!("it has not forked {count} processes within {} s", POOL_NS / 1_000_000_000));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
