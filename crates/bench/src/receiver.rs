//! The receivers that `mail` measures against: `landau sink smtp` and, if domains are looked up, `landau sink dns`,
//! separate processes on a processor other than the worker's, if there is one.
//!
//! They belong to the worker's process group, and the kernel kills them when the worker ends for any reason.

use crate::affinity::on_other_processor;
use crate::server::Usage;
use landau_engine::{Context, Facts, Stop};
use landau_sys::process::{OwnedChild, terminate, this_program};
use landau_sys::system;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{ChildStdout, Command, Stdio};

/// Descriptors that a sink may keep for purposes other than connections.
const SPARE: u64 = 16;

/// A process of `landau sink`.
#[derive(Debug)]
struct Sink {
    child: OwnedChild,
    output: BufReader<ChildStdout>,
    log: PathBuf,
    /// The port on which it listens.
    port: u16,
    /// The number of connections that it can hold.
    capacity: u64,
    /// The processor on which it was started.
    processor: Option<u32>,
}

impl Sink {
    /// Starts a sink with these arguments, of which the first names the protocol. Returns when it listens.
    fn start(context: &Context, words: &[&str]) -> Result<Self, Stop> {
        let directory = context.scratch.join("sink");
        fs::create_dir_all(&directory).map_err(|error| Stop::io("mkdir", &error))?;
        let log = directory.join(format!("{}.log", words.first().copied().unwrap_or_default()));
        let mut command = Command::new(this_program()?);
        command.arg("sink").args(words).arg("--json").stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(File::create(&log).map_err(|error| Stop::io("open", &error))?);
        let (spawned, processor) =
            on_other_processor(context.host.pinned_processor, || OwnedChild::spawn(&mut command));
        let mut child = spawned.map_err(|error| Stop::Wrong(format!("cannot start a sink: {error}")))?;
        let output = child.stdout.take().ok_or_else(|| Stop::Wrong("the sink has no standard output".to_owned()))?;
        let mut sink = Self { child, output: BufReader::new(output), log, port: 0, capacity: 0, processor };
        let ready = sink.line()?;
        let address = ready["listening"][0]["address"].as_str().unwrap_or_default();
        let port = address.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        sink.port = port.ok_or_else(|| Stop::Wrong(format!("the sink printed no address: {ready}")))?;
        sink.capacity = ready["capacity"].as_u64().unwrap_or(u64::MAX);
        Ok(sink)
    }

    /// Reads a line of JSON.
    fn line(&mut self) -> Result<Value, Stop> {
        let mut line = String::new();
        let read = self.output.read_line(&mut line).map_err(|error| error.to_string());
        let value = read.and_then(|_| serde_json::from_str(&line).map_err(|error| error.to_string()));
        value.map_err(|reason| {
            let errors = fs::read_to_string(&self.log).unwrap_or_default();
            Stop::Wrong(format!(
                "the sink sent no valid report: {reason}; {}",
                errors.lines().last().unwrap_or("no error")
            ))
        })
    }
}

/// A receiver of mail, and optionally a name server.
#[derive(Debug)]
pub(crate) struct Receiver {
    smtp: Sink,
    names: Option<Sink>,
    baseline: Usage,
}

impl Receiver {
    /// Starts a sink that accepts all mail at once, and discards it. With `domains` it listens on the addresses of all
    /// their hosts, and a name server resolves the domains.
    pub(crate) fn start(context: &Context, domains: Option<u64>) -> Result<Self, Stop> {
        let addresses = if domains.is_some() { "127.0.0.0/8:0" } else { "127.0.0.1:0" };
        let smtp = Sink::start(context, &["smtp", "--listen", addresses])?;
        let names = match domains {
            Some(count) => {
                Some(Sink::start(context, &["dns", "--listen", "127.0.0.1:0", "--domains", &count.to_string()])?)
            }
            None => None,
        };
        Ok(Self { smtp, names, baseline: Usage::default() })
    }

    /// Returns the address of the receiver of mail.
    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.smtp.port))
    }

    /// Returns the address of the name server, if there is one.
    pub(crate) fn name_server(&self) -> Option<SocketAddr> {
        self.names.as_ref().map(|names| SocketAddr::from(([127, 0, 0, 1], names.port)))
    }

    /// Starts counting processor time and dropped connections.
    pub(crate) fn begin(&mut self) {
        self.baseline = Usage::now(Some(self.smtp.child.id()));
    }

    /// Returns the processes of the sinks.
    pub(crate) fn processes(&self) -> Vec<u32> {
        [Some(&self.smtp), self.names.as_ref()]
            .into_iter()
            .flatten()
            .flat_map(|sink| system::process_tree(sink.child.id()))
            .collect()
    }

    /// Returns the processor on which the receiver of mail was started.
    pub(crate) fn processor(&self) -> Option<u32> {
        self.smtp.processor
    }

    /// Returns whether the sink cannot accept another connection.
    pub(crate) fn is_full(&self) -> bool {
        system::descriptor_count(self.smtp.child.id()).is_some_and(|open| open + SPARE >= self.smtp.capacity)
    }

    /// Adds the usage since [`Receiver::begin`], for this number of recipients, to the facts.
    pub(crate) fn report(&self, client: Option<u32>, recipients: u64, facts: &mut Facts) {
        let number = |processor: Option<u32>| processor.map_or("any".to_owned(), |number| number.to_string());
        facts.text("server_processor", number(self.smtp.processor));
        facts.text("client_processor", number(client));
        self.baseline.report(Usage::now(Some(self.smtp.child.id())), (recipients, "recipient"), facts);
    }

    /// Ends the receiver of mail and returns its counters.
    pub(crate) fn end(mut self) -> Result<Value, Stop> {
        terminate(self.smtp.child.id())?;
        self.smtp.line()
    }
}
