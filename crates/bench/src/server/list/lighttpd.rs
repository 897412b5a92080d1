//! lighttpd in the foreground.

use crate::program::{installed, require, version};
use crate::server::{FULL, IDLE_TIMEOUT_S, Protocol, Start, WebServer};
use landau_engine::{Settings, Stop, Support};
use std::process::Command;

pub(super) struct Lighttpd;

impl WebServer for Lighttpd {
    fn support(&self, _: &Settings) -> Support {
        installed("lighttpd", "lighttpd")
    }

    fn configure(&self, start: &Start) -> Result<Command, Stop> {
        let (root, own, port) = (start.root.display(), start.directory.display(), start.port);
        let descriptors = start.descriptors;
        let tuning = start.tuning.map_or(String::new(), |tuning| {
            let defer = u8::from(tuning.defers_accept);
            format!("server.max-keep-alive-requests = 1000000000\nserver.defer-accept = {defer}\n")
        });
        let path = start.write(&format!(
            "server.document-root = \"{root}\"\nserver.bind = \"127.0.0.1\"\nserver.port = {port}\n\
             server.errorlog = \"{own}/error.log\"\nserver.max-fds = {descriptors}\n\
             server.max-connections = {descriptors}\nserver.max-keep-alive-idle = {IDLE_TIMEOUT_S}\n\
             server.max-read-idle = {IDLE_TIMEOUT_S}\n\
             server.listen-backlog = 4096\n{tuning}"
        ))?;
        let mut command = Command::new(require("lighttpd")?);
        command.arg("-D").arg("-f").arg(path);
        Ok(command)
    }

    /// lighttpd accepts connections up to half of its descriptors, whatever its configuration says.
    fn capacity(&self, _: &Settings, descriptors: u64) -> (u64, landau_sys::Error) {
        (descriptors / 2, FULL)
    }

    /// For TLS it needs a module from a separate package.
    fn speaks(&self, protocol: Protocol<'_>) -> bool {
        !matches!(protocol, Protocol::Tls { .. })
    }

    fn version(&self) -> Option<String> {
        version("lighttpd", "-v")
    }
}
