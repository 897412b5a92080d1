//! h2o with one thread.

use crate::program::{installed, require, version};
use crate::server::{IDLE_TIMEOUT_S, Protocol, Start, WebServer};
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
        // If root starts it, h2o switches to `nobody`, which cannot read the document root.
        let user = if landau_sys::process::effective_user() == 0 { "user: root\n" } else { "" };
        // Without TLS, h2o speaks both protocols on one port.
        let tls = match start.protocol() {
            Protocol::Http1 | Protocol::Http2 => String::new(),
            Protocol::Tls { certificate, key } => {
                let (certificate, key) = (certificate.display(), key.display());
                format!("  ssl:\n    certificate-file: {certificate}\n    key-file: {key}\n")
            }
        };
        let path = start.write(&format!(
            "listen:\n  host: 127.0.0.1\n  port: {port}\n{tls}num-threads: 1\nmax-connections: {descriptors}\n\
             http1-request-timeout: {IDLE_TIMEOUT_S}\nhttp2-idle-timeout: {IDLE_TIMEOUT_S}\n\
             error-log: {own}/error.log\n{user}\
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

    fn speaks(&self, _: Protocol<'_>) -> bool {
        true
    }

    fn version(&self) -> Option<String> {
        version("h2o", "-v")
    }
}
