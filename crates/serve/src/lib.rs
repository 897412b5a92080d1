//! The web server of files: small enough to be read, quick enough to be measured against, and hard to bring down.
//!
//! Each worker is a thread with an event loop, listening sockets, connections and a cache of its own, and on Linux with
//! a table of descriptors of its own; workers share nothing but counters, and the number of connections where that is
//! bounded. A connection at rest owns no buffer: it is a line in a table, and whatever it needs while a request is
//! under way it borrows from its worker or, if the client is slow, gets for that time.

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
mod limiter;
mod listener;
mod log;
mod metrics;
mod privilege;
mod send_buffers;
mod server;
mod site;
pub mod systemd;
mod tls;
mod transport;
mod worker;

pub use config::{Accepting, Config, Listen, SLOWEST_BYTES, Timeouts};
pub use counters::{Counters, Totals};
pub use error::Error;
pub use log::{AccessLog, LogFormat, LogTarget};
pub use privilege::{SandboxMode, User};
pub use server::{Remote, Server};
pub use tls::TlsFiles;
