//! Tests of the sinks over real sockets.
#![allow(clippy::unwrap_used, reason = "a test ends where its premise fails")]

mod conduct;
#[path = "../../../wire/tests/it/escape.rs"]
mod escape;
mod smtp;
#[path = "../../../wire/tests/it/smuggling.rs"]
mod smuggling;
mod support;
