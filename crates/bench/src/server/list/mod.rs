//! The servers that Landau can start by name, one file each. The file's name is the server's. The lines between the
//! markers are generated: `cargo xtask registry`.

use crate::server::WebServer;

// registry:begin
mod caddy;
mod h2o;
mod landau;
mod lighttpd;
mod nginx;

/// Every server by name, in the order of the file names.
pub(super) const SERVERS: &[(&str, &dyn WebServer)] = &[
    ("caddy", &caddy::Caddy),
    ("h2o", &h2o::H2o),
    ("landau", &landau::Landau),
    ("lighttpd", &lighttpd::Lighttpd),
    ("nginx", &nginx::Nginx),
];
// registry:end
