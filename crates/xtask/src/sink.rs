//! `landau sink` and `landau mail --relay` as processes, with their counters.

use anyhow::{Context, Result, ensure};
use landau_sys::process::{OwnedChild, terminate};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{ChildStdout, Command, Stdio};

/// A running sink or relay.
pub(crate) struct Sink {
    child: OwnedChild,
    output: BufReader<ChildStdout>,
    /// The port on 127.0.0.1.
    pub(crate) port: u16,
}

impl Sink {
    /// Starts `landau` with these arguments. Returns when it is listening.
    pub(crate) fn start(landau: &mut Command, arguments: &[&str]) -> Result<Self> {
        let command = landau.args(arguments).arg("--json").stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = OwnedChild::spawn(command).context("start landau")?;
        let mut output = BufReader::new(child.stdout.take().context("it has no standard output")?);
        let ready = line(&mut output)?;
        let address = ready["listening"][0]["address"].as_str().unwrap_or_default();
        let port = address.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        Ok(Self { child, output, port: port.with_context(|| format!("the sink printed no address: {ready}"))? })
    }

    /// Returns the process id.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Returns the current value of a counter.
    pub(crate) fn count(&mut self, name: &str) -> Result<u64> {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args(["-USR1", &pid]).status().context("start kill")?;
        ensure!(status.success(), "the sink has ended");
        line(&mut self.output)?[name].as_u64().with_context(|| format!("the sink has no counter {name}"))
    }
}

fn line(output: &mut BufReader<ChildStdout>) -> Result<Value> {
    let mut line = String::new();
    output.read_line(&mut line).context("read from the sink")?;
    serde_json::from_str(&line).with_context(|| format!("the sink printed {line:?}"))
}

impl Drop for Sink {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = terminate(self.child.id());
        let _ = self.child.wait();
    }
}
