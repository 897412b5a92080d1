//! nginx with one worker and `sendfile`.

use crate::program::{installed, require, version};
use crate::server::{IDLE_TIMEOUT_S, Protocol, Start, WebServer};
use landau_engine::{Settings, Stop, Support};
use std::process::Command;

pub(super) struct Nginx;

impl WebServer for Nginx {
    fn support(&self, _: &Settings) -> Support {
        installed("nginx", "nginx")
    }

    fn configure(&self, start: &Start) -> Result<Command, Stop> {
        let (root, own, port) = (start.root.display(), start.directory.display(), start.port);
        // nginx closes idle connections when a sixteenth of `worker_connections` is left, so it gets twice as many.
        let connections = 2 * start.descriptors;
        let tuning = start.tuning.map_or("", |_| "tcp_nopush on; open_file_cache max=1000;\n");
        let deferred = if start.defers_accept() { " deferred" } else { "" };
        let (speaks, tls) = match start.protocol() {
            Protocol::Http1 => ("", String::new()),
            Protocol::Http2 => (" http2", String::new()),
            Protocol::Tls { certificate, key } => {
                let (certificate, key) = (certificate.display(), key.display());
                (" ssl http2", format!("ssl_certificate {certificate}; ssl_certificate_key {key};"))
            }
        };
        let path = start.write(&format!(
            "daemon off; master_process off; pid {own}/pid;\n\
             events {{ worker_connections {connections}; }}\n\
             http {{ access_log off; sendfile on; keepalive_timeout {IDLE_TIMEOUT_S}s; keepalive_requests 1000000000;\n\
             client_header_timeout {IDLE_TIMEOUT_S}s;\n\
             client_body_temp_path {own}/body; proxy_temp_path {own}/proxy; fastcgi_temp_path {own}/fastcgi;\n\
             uwsgi_temp_path {own}/uwsgi; scgi_temp_path {own}/scgi;\n\
             {tuning}server {{ listen 127.0.0.1:{port} backlog=4096{deferred}{speaks}; {tls} root {root}; }} }}\n"
        ))?;
        let mut command = Command::new(require("nginx")?);
        command.arg("-e").arg(start.directory.join("error.log"));
        command.arg("-p").arg(start.directory).arg("-c").arg(path);
        Ok(command)
    }

    fn speaks(&self, _: Protocol<'_>) -> bool {
        true
    }

    fn version(&self) -> Option<String> {
        version("nginx", "-v")
    }
}
