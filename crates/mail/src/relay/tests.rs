//! Tests of the receiver's sessions.
