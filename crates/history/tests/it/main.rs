//! Tests of collections on disk.
#![allow(clippy::unwrap_used, reason = "a test ends where its premise fails")]

mod collection;
