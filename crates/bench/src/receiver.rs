//! The receiver of mail that `mail` measures against: `landau sink smtp`, a process of its own on another processor
//! than the worker's if there is one.
//!
//! It belongs to the worker's process group, and the kernel kills it when the worker ends for any reason.

use crate::server::{Usage, on_other_processor};
use landau_engine::{Context, Facts, Stop};
use landau_sys::process::{OwnedChild, terminate, this_program};
use landau_sys::system;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{ChildStdout, Command, Stdio};

/// Descriptors that a sink may keep for other things than connections.
const SPARE: u64 = 16;

/// A sink.
#[derive(Debug)]
pub(crate) struct Receiver {
    child: OwnedChild,
    output: BufReader<ChildStdout>,
    log: PathBuf,
    /// The number of connections that it can hold.
    capacity: u64,
    processor: Option<u32>,
    /// The address that it listens on.
    pub(crate) address: SocketAddr,
    baseline: Usage,
}

impl Receiver {
    /// Starts a sink that accepts all mail at once, and discards it. Returns when it listens.
    pub(crate) fn start(context: &Context) -> Result<Self, Stop> {
        let directory = context.scratch.join("sink");
        fs::create_dir_all(&directory).map_err(|error| Stop::io("mkdir", &error))?;
        let log = directory.join("stderr.log");
        let mut command = Command::new(this_program()?);
        command.args(["sink", "smtp", "--listen", "127.0.0.1:0", "--json"]).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(File::create(&log).map_err(|error| Stop::io("open", &error))?);
        let (spawned, processor) =
            on_other_processor(context.host.pinned_processor, || OwnedChild::spawn(&mut command));
        let mut child = spawned.map_err(|error| Stop::Wrong(format!("cannot start the sink: {error}")))?;
        let output = child.stdout.take().ok_or_else(|| Stop::Wrong("the sink has no standard output".to_owned()))?;
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let output = BufReader::new(output);
        let mut receiver = Self { child, output, log, capacity: 0, processor, address, baseline: Usage::default() };
        let ready = receiver.line()?;
        let address = ready["listening"][0]["address"].as_str().and_then(|text| text.parse().ok());
        receiver.address = address.ok_or_else(|| Stop::Wrong(format!("the sink printed no address: {ready}")))?;
        receiver.capacity = ready["capacity"].as_u64().unwrap_or(u64::MAX);
        Ok(receiver)
    }

    /// Reads a line of JSON.
    fn line(&mut self) -> Result<serde_json::Value, Stop> {
        let mut line = String::new();
        let read = self.output.read_line(&mut line).map_err(|error| error.to_string());
        let value = read.and_then(|_| serde_json::from_str(&line).map_err(|error| error.to_string()));
        value.map_err(|reason| {
            let errors = fs::read_to_string(&self.log).unwrap_or_default();
            Stop::Wrong(format!("the sink does not report: {reason}; {}", errors.lines().last().unwrap_or("no error")))
        })
    }

    /// Begins to count processor time and dropped connections.
    pub(crate) fn begin(&mut self) {
        self.baseline = Usage::now(Some(self.child.id()));
    }

    /// Returns the processes of the sink.
    pub(crate) fn processes(&self) -> Vec<u32> {
        system::process_tree(self.child.id())
    }

    /// Returns the processor on which the sink was started.
    pub(crate) fn processor(&self) -> Option<u32> {
        self.processor
    }

    /// Returns whether the sink cannot accept another connection.
    pub(crate) fn is_full(&self) -> bool {
        system::descriptor_count(self.child.id()).is_some_and(|open| open + SPARE >= self.capacity)
    }

    /// Adds what was used since [`Receiver::begin`], for so many recipients, to the facts.
    pub(crate) fn report(&self, client: Option<u32>, recipients: u64, facts: &mut Facts) {
        let number = |processor: Option<u32>| processor.map_or("any".to_owned(), |number| number.to_string());
        facts.text("server_processor", number(self.processor));
        facts.text("client_processor", number(client));
        self.baseline.report(Usage::now(Some(self.child.id())), (recipients, "recipient"), facts);
    }

    /// Ends the sink and returns its counters.
    pub(crate) fn end(mut self) -> Result<serde_json::Value, Stop> {
        terminate(self.child.id())?;
        self.line()
    }
}
