//! What a load finds at servers that do what servers do: answer, stall, close, lie, die.
#![allow(clippy::unwrap_used, reason = "a test ends at the first thing that is not as it should be")]

mod crowd;
mod loops;
mod misuse;
mod server;
mod tls;
