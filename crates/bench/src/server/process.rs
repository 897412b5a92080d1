//! A server process: started, awaited, watched and killed.
//!
//! It belongs to the worker's process group, and the kernel kills it when the worker ends for any reason.

use crate::affinity::on_other_processor;
use crate::backend;
use crate::server::usage::Usage;
use crate::server::{FILE, Readiness, Selection, Start, document_root, loopback_or_private_address, select};
use landau_engine::{Context, Facts, Stop};
use landau_sys::clock::monotonic_ns;
use landau_sys::limits::{Resource, get};
use landau_sys::process::OwnedChild;
use landau_sys::{stream, system};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// Timeout for a server to accept connections.
const START_NS: u64 = 20_000_000_000;

/// Descriptors that a server may keep for purposes other than connections.
const SPARE: u64 = 16;

/// A running server, started by Landau or by the user.
#[derive(Debug)]
pub(crate) struct Server {
    child: Option<OwnedChild>,
    /// The number of open descriptors at which it stops accepting connections, and the error to record then.
    capacity: (u64, landau_sys::Error),
    /// The name, command or URL that selected it.
    name: String,
    backend: Option<&'static str>,
    version: Option<String>,
    processor: Option<u32>,
    /// The address that it listens on.
    pub(crate) address: SocketAddr,
    /// The complete HTTP request for its file.
    pub(crate) request: Vec<u8>,
    baseline: Usage,
}

impl Server {
    /// Starts the server that the settings select, with a small file to serve, and returns when it accepts connections.
    /// Does not connect to an external server.
    pub(crate) fn selected(context: &Context) -> Result<Self, Stop> {
        match select(context.settings) {
            Selection::External(url) => Self::external(url),
            Selection::Launched(..) => Self::start(context, &document_root(context)?),
        }
    }

    /// Starts the server that the settings select with a document root.
    pub(crate) fn start(context: &Context, root: &Path) -> Result<Self, Stop> {
        let settings = context.settings;
        let Selection::Launched(name, kind) = select(settings) else { return Self::external(settings.text("url")) };
        let directory = context.scratch.join("server");
        fs::create_dir_all(&directory).map_err(|error| Stop::io("mkdir", &error))?;
        let limit = get(Resource::Descriptors)?.0;
        let readiness = kind.readiness();
        let reports_address = matches!(readiness, Readiness::ReportsAddress(_));
        let port = if reports_address { 0 } else { free_port()? };
        // Some servers allocate memory for each connection that their limit allows.
        let descriptors = limit.min(1 << 20).min(4 * context.n + 4_096);
        let start = Start { settings, root, directory: &directory, port, descriptors, tuning: None };
        let mut command = kind.configure(&start)?;
        let log = directory.join("stderr.log");
        command.stdin(Stdio::null()).stderr(File::create(&log).map_err(|error| Stop::io("open", &error))?);
        command.stdout(if reports_address { Stdio::piped() } else { Stdio::null() });
        let (spawned, processor) =
            on_other_processor(context.host.pinned_processor, || OwnedChild::spawn(&mut command));
        let child = spawned.map_err(|error| Stop::Wrong(format!("cannot start {name}: {error}")))?;
        let mut server = Self {
            child: Some(child),
            capacity: kind.capacity(settings, limit),
            name: name.to_owned(),
            backend: kind.has_backends().then(|| backend::named(settings, "backend").name()),
            version: kind.version(),
            processor,
            address: (Ipv4Addr::LOCALHOST, port).into(),
            request: request("localhost", &format!("/{FILE}")),
            baseline: Usage::default(),
        };
        let ready = match readiness {
            Readiness::AcceptsConnection => server.wait_for_connection(),
            Readiness::ReportsAddress(find) => server.wait_for_address(find),
        };
        ready.map_err(|reason| {
            let errors = fs::read_to_string(&log).unwrap_or_default();
            let last = errors.lines().last().unwrap_or("it wrote no error message");
            Stop::Wrong(format!("{name} did not start serving: {reason}; {last}"))
        })?;
        Ok(server)
    }

    /// Returns the server at a URL, which Landau does not start.
    fn external(url: &str) -> Result<Self, Stop> {
        let (address, host, path) = loopback_or_private_address(url).map_err(Stop::Wrong)?;
        Ok(Self {
            child: None,
            capacity: (u64::MAX, crate::server::FULL),
            name: url.to_owned(),
            backend: None,
            version: None,
            processor: None,
            address,
            request: request(host, &format!("/{path}")),
            baseline: Usage::default(),
        })
    }

    /// Reads the address from the first line that the server prints.
    fn wait_for_address(&mut self, find: fn(&str) -> Option<SocketAddr>) -> Result<(), String> {
        let out = self.child.as_mut().and_then(|child| child.stdout.as_mut()).ok_or("it has no standard output")?;
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line).map_err(|error| error.to_string())?;
        self.address = find(&line).ok_or_else(|| format!("it printed no address: {line:?}"))?;
        Ok(())
    }

    /// Connects until a connection succeeds.
    fn wait_for_connection(&mut self) -> Result<(), String> {
        let deadline = monotonic_ns() + START_NS;
        loop {
            let refused = match TcpStream::connect(self.address) {
                Ok(client) => return stream::set_reset_on_close(&client).map_err(|error| error.to_string()),
                Err(error) => error,
            };
            if let Some(Ok(Some(status))) = self.child.as_mut().map(|child| child.try_wait()) {
                return Err(format!("it exited ({status})"));
            }
            if monotonic_ns() > deadline {
                return Err(refused.to_string());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Starts counting processor time and dropped connections.
    pub(crate) fn begin(&mut self) {
        self.baseline = self.usage();
    }

    fn usage(&self) -> Usage {
        Usage::now(self.child.as_ref().map(|child| child.id()))
    }

    /// Returns the highest number of open descriptors among the server's processes, if the system reports it.
    pub(crate) fn descriptors(&self) -> Option<u64> {
        let pid = self.child.as_ref()?.id();
        system::process_tree(pid).into_iter().filter_map(system::descriptor_count).max()
    }

    /// Returns the server's processes; none if Landau did not start it.
    pub(crate) fn processes(&self) -> Vec<u32> {
        self.child.as_ref().map(|child| system::process_tree(child.id())).unwrap_or_default()
    }

    /// Returns the processor on which the server was started.
    pub(crate) fn processor(&self) -> Option<u32> {
        self.processor
    }

    /// Returns whether Landau started the server.
    pub(crate) fn is_started(&self) -> bool {
        self.child.is_some()
    }

    /// Returns the limit that keeps the server from accepting another connection, if it has reached one.
    pub(crate) fn limit(&self) -> Option<landau_sys::Error> {
        let (capacity, error) = self.capacity;
        (self.descriptors()? + SPARE >= capacity).then_some(error)
    }

    /// Adds the server's identity and the usage since [`Server::begin`], over `steps` steps, to the facts.
    pub(crate) fn report(&self, client: Option<u32>, steps: u64, facts: &mut Facts) {
        let number = |processor: Option<u32>| processor.map_or("any".to_owned(), |number| number.to_string());
        facts.text("server", self.name.clone());
        if let Some(backend) = self.backend {
            facts.text("server_backend", backend);
        }
        if let Some(version) = &self.version {
            facts.text("server_version", version.clone());
        }
        if self.is_started() {
            facts.text("server_processor", number(self.processor));
        }
        facts.text("client_processor", number(client));
        self.baseline.report(self.usage(), (steps, "step"), facts);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The pid of a child that was reaped may belong to an unrelated process.
        if let Some(child) = &mut self.child
            && matches!(child.try_wait(), Ok(None))
        {
            let tree = system::process_tree(child.id());
            let _ = child.kill();
            for &pid in &tree[1..] {
                let _ = landau_sys::process::kill(pid);
            }
        }
    }
}

fn request(host: &str, path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: landau\r\n\r\n").into_bytes()
}

/// Returns a port of 127.0.0.1 on which nothing listens at this moment.
fn free_port() -> Result<u16, Stop> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|error| Stop::io("bind", &error))?;
    Ok(listener.local_addr().map_err(|error| Stop::io("getsockname", &error))?.port())
}
