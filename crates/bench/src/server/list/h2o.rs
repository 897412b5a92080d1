//! h2o with one thread.

use crate::program::{installed, require, version};
use crate::server::{IDLE_TIMEOUT_S, Start, WebServer};
use landau_engine::{Settings, Stop, Support};
use std::process::Command;

pub(super) struct H2o;

impl WebServer for H2o {
    fn support(&self, _: &Settings) -> Support {
        installed("h2o", "h2o")
    }

    fn configure(&self, start: &Start) -> Result<Command, Stop> {
        let (root, own, port) = (start.root.display(), start.directory.display(), start.port);
        let descriptors = start.descriptors;
        // Started by root, h2o becomes `nobody`, which cannot read the document root.
        let user = if landau_sys::process::effective_user() == 0 { "user: root\n" } else { "" };
        let path = start.write(&format!(
            "listen:\n  host: 127.0.0.1\n  port: {port}\nnum-threads: 1\nmax-connections: {descriptors}\n\
             http1-request-timeout: {IDLE_TIMEOUT_S}\nerror-log: {own}/error.log\n{user}\
             hosts:\n  default:\n    paths:\n      \"/\":\n        file.dir: {root}\n"
        ))?;
        let mut command = Command::new(require("h2o")?);
        command.arg("-c").arg(path);
        Ok(command)
    }

    /// h2o always sets `TCP_DEFER_ACCEPT`.
    fn accepts_at_once(&self) -> bool {
        false
    }

    fn version(&self) -> Option<String> {
        version("h2o", "-v")
    }
}
