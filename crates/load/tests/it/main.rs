//! Loads against small servers in the same process, by workers that are threads.
#![allow(clippy::unwrap_used, reason = "a failed assumption fails the test")]

mod http2;
mod idle;
mod loops;
mod refusals;
mod server;
mod tls;
