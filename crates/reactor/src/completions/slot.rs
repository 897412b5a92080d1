//! The state of a descriptor in a ring.

use landau_sys::Error as SystemError;
use landau_sys::bytes::Buffer;
use landau_sys::ring::OperationId;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;

/// What a descriptor waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Reading {
    /// Nothing: the stream has ended, or nothing was requested.
    #[default]
    Idle,
    /// Connections. Without an operation, the listener is paused.
    Accepting(Option<OperationId>),
    /// No more connections: the accept is being cancelled, and those it has accepted by then are still returned.
    Stopping,
    /// Data. Without an operation, the connection is starved of buffers.
    Receiving(Option<OperationId>),
    /// Data, once; then it is paused. Without an operation, the connection is starved of buffers.
    ReceivingOnce(Option<OperationId>),
    /// Data: the receive is being cancelled, and a poll will take its place.
    Parking(OperationId),
    /// Data, by a poll.
    Parked,
    /// To be resumed: the receive is being cancelled.
    Pausing(OperationId),
    /// To be resumed.
    Paused,
}

/// Buffers that are queued or being sent.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    pub(super) queue: VecDeque<(Buffer, usize)>,
    /// The number of buffers in flight.
    pub(super) in_flight: usize,
    /// Buffers of the last chain that must be sent again: the one that was sent in part, and those behind it.
    pub(super) again: VecDeque<(Buffer, usize)>,
    pub(super) byte_count: u64,
    /// The number of bytes that are not sent yet.
    pub(super) left: u64,
    /// The error that ended the sending; returned once nothing is in flight.
    pub(super) failed: Option<SystemError>,
    /// The descriptor, to be closed after everything was sent.
    pub(super) closing: Option<OwnedFd>,
}

#[derive(Debug, Default)]
pub(super) struct Slot {
    pub(super) token: u32,
    pub(super) generation: u32,
    pub(super) is_registered: bool,
    /// Whether a poll for writing is in flight.
    pub(super) is_polled_writable: bool,
    /// The number of buffers that the receive in flight has filled since it was submitted.
    pub(super) filled: u8,
    pub(super) reading: Reading,
    pub(super) outgoing: Option<Box<Outgoing>>,
}

impl Slot {
    pub(super) fn is_closing(&self) -> bool {
        self.outgoing.as_ref().is_some_and(|outgoing| outgoing.closing.is_some())
    }
}
