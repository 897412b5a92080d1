//! Caddy, without its administration endpoint.

use crate::program::{installed, require, version};
use crate::server::{IDLE_TIMEOUT_S, Start, WebServer};
use landau_engine::{Settings, Stop, Support};
use std::process::Command;

pub(super) struct Caddy;

impl WebServer for Caddy {
    fn support(&self, _: &Settings) -> Support {
        installed("caddy", "caddy")
    }

    fn configure(&self, start: &Start) -> Result<Command, Stop> {
        let (root, port) = (start.root.display(), start.port);
        let path = start.write(&format!(
            "{{\n\tadmin off\n\tservers {{\n\t\ttimeouts {{\n\
             \t\t\tidle {IDLE_TIMEOUT_S}s\n\t\t\tread_header {IDLE_TIMEOUT_S}s\n\t\t}}\n\t}}\n}}\n\
             http://:{port} {{\n\tbind 127.0.0.1\n\troot * {root}\n\tfile_server\n}}\n"
        ))?;
        let mut command = Command::new(require("caddy")?);
        command.args(["run", "--adapter", "caddyfile", "--config"]).arg(path);
        // Caddy stores its state below the home directory.
        command.env("HOME", start.directory);
        Ok(command)
    }

    fn version(&self) -> Option<String> {
        version("caddy", "version")
    }
}
