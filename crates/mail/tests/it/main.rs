//! Tests over real sockets: the sinks, and the engine that delivers to them.
#![allow(clippy::unwrap_used, reason = "a test ends where its premise fails")]

mod addresses;
mod bounces;
mod conduct;
mod encryption;
#[path = "../../../wire/tests/it/escape.rs"]
mod escape;
mod hostile;
mod relay;
mod route;
mod rules;
mod run;
mod smtp;
#[path = "../../../wire/tests/it/smuggling.rs"]
mod smuggling;
mod starttls;
mod support;
