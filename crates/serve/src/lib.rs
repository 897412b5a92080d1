//! A web server for static files: small enough to read, fast enough to compare others with, and robust.
//!
//! Each worker is a thread with its own event loop, listening sockets, connections and cache, and on Linux its own
//! descriptor table. Workers share only counters and, if it is limited, the number of connections. An idle connection
//! owns no buffer: it is a line in a table, and borrows its worker's buffers while a request is served. Only a slow
//! client gets its own buffers, for as long as it needs them.

mod active;
mod admission;
mod answer;
mod config;
mod connection;
mod control;
mod counters;
mod error;
mod exchange;
mod fetch;
mod http2;
mod limiter;
mod listener;
mod log;
mod memory;
mod metrics;
mod privilege;
mod proxy;
mod reader;
mod refused;
mod rules;
mod send_buffers;
mod server;
mod site;
pub mod supervisor;
pub mod systemd;
mod tls;
mod transport;
mod warm;
mod worker;

pub use config::{Accepting, Config, ConfigFile, Listen, Problem, SLOWEST_BYTES, Setting, Timeouts};
pub use counters::{Counters, Totals};
pub use error::Error;
pub use log::{AccessLog, LogFormat, LogTarget};
pub use privilege::{SandboxMode, User};
pub use reader::Reader;
pub use rules::{LiveRules, Networks, Rules, Survey};
pub use server::{Remote, Server};
pub use tls::TlsFiles;
