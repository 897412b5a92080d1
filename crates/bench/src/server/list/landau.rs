//! `landau serve`, the web server in this program.

use crate::backend;
use crate::server::{FULL, IDLE_TIMEOUT_S, Readiness, Start, WebServer};
use landau_engine::{Settings, Stop, Support};
use landau_reactor::Backend;
use landau_sys::wait::SELECT_CAPACITY;
use std::net::SocketAddr;
use std::process::Command;

pub(super) struct Landau;

impl WebServer for Landau {
    fn support(&self, settings: &Settings) -> Support {
        backend::support(backend::named(settings, "backend"))
    }

    fn configure(&self, start: &Start) -> Result<Command, Stop> {
        let backend = backend::named(start.settings, "backend").name();
        let mut command = Command::new(landau_sys::process::this_program()?);
        command.arg("serve").arg(start.root).args(["--listen", "127.0.0.1:0", "--backend", backend, "--json"]);
        let timeout = format!("{IDLE_TIMEOUT_S}s");
        // The head timeout applies to a connection that has never sent anything.
        command.args(["--head-timeout", &timeout, "--idle-timeout", &timeout]);
        if landau_sys::process::effective_user() == 0 {
            // After a process has changed its user, the kernel no longer kills it with its parent.
            command.args(["--user", "root"]);
        }
        Ok(command)
    }

    fn readiness(&self) -> Readiness {
        Readiness::ReportsAddress(reported_address)
    }

    fn capacity(&self, settings: &Settings, descriptors: u64) -> (u64, landau_sys::Error) {
        let select = SELECT_CAPACITY as u64;
        if backend::named(settings, "backend") == Backend::Select && select <= descriptors {
            return (select, landau_sys::Error { call: "select", errno: libc::EINVAL });
        }
        (descriptors, FULL)
    }

    fn version(&self) -> Option<String> {
        Some(env!("CARGO_PKG_VERSION").to_owned())
    }

    fn has_backends(&self) -> bool {
        true
    }
}

/// Returns the first address in the line of JSON that `landau serve --json` prints when it is ready.
fn reported_address(line: &str) -> Option<SocketAddr> {
    let ready: serde_json::Value = serde_json::from_str(line).ok()?;
    ready["listening"][0]["address"].as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_read_from_the_report() {
        let line = r#"{"listening":[{"address":"127.0.0.1:41234","tls":false}],"metrics":null,"pid":7}"#;
        assert_eq!(reported_address(line), Some("127.0.0.1:41234".parse().unwrap()));
        assert_eq!(reported_address("landau: cannot bind"), None);
    }
}
