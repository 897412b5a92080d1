//! Handing descriptors over to another process, with a few bytes that say what they are for.
//!
//! A message is whole or not at all: it goes through a socket that keeps messages apart ([`line()`]), and descriptors
//! for which there was no room are an error, not fewer descriptors. Whoever hands over a descriptor that is
//! registered gives it back to its loop first ([`Reactor::deregister`](crate::Reactor::deregister)): what arrives is
//! the same open file, and a watch that was left behind would go on telling of it.

use crate::error::Result;
use landau_sys::{passing, socket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// How many descriptors one message takes at most.
pub const MOST: usize = passing::MOST;

/// What was handed over.
#[derive(Debug)]
pub struct Received {
    /// How many bytes came with it.
    pub byte_count: usize,
    /// The descriptors, in the order in which they were given; the receiver's from now on, and not inherited.
    pub descriptors: Vec<OwnedFd>,
}

/// A line whose two ends are for two processes; messages stay apart on it. Both ends block until they are told not to,
/// and neither is inherited unless it is passed on as one of a program's standard descriptors.
pub fn line() -> Result<(OwnedFd, OwnedFd)> {
    Ok(socket::message_pair()?)
}

/// Hands descriptors over, with bytes, one at least. They stay open here.
pub fn give(line: &impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<()> {
    passing::send(line, bytes, descriptors)?;
    Ok(())
}

/// Takes over what the other end gave; none if it is gone. `bytes` must have room for the longest message, and what
/// exceeds `most` descriptors is an error, which closes those that came.
pub fn take(line: &impl AsFd, bytes: &mut [u8], most: usize) -> Result<Option<Received>> {
    let (byte_count, descriptors) = passing::receive(line, bytes, most)?;
    Ok((byte_count > 0).then_some(Received { byte_count, descriptors }))
}
