//! Operations through a ring: accept, receive, send, close.
//!
//! Memory that the kernel may still read or write is kept here until the operation has completed. Dropping a ring
//! cancels all operations and waits for them to complete; if they do not, their memory is leaked.

use super::buffers::{BufferRing, GROUP, Place, ProvidedBuffer};
use super::{IGNORED, Ring};
use crate::bytes::Buffer;
use crate::descriptor::own;
use crate::error::{Error, Result};
use io_uring::squeue::{self, Flags};
use io_uring::types::Fd;
use io_uring::{Probe, opcode};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};

/// The bit of `user_data` that marks operations that are tracked here; it is never set in the caller's numbers.
const TRACKED: u64 = 1 << 31;

/// The maximum number of bytes that one operation sends.
const SEND_BYTES: usize = 1 << 30;

/// The limit on waiting for cancelled operations when a ring is dropped: this many waits without progress, of this many
/// milliseconds each.
const LAST_WAITS: usize = 20;
const LAST_WAIT_MS: i32 = 50;

/// Identifies an operation in flight, to cancel it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperationId(u64);

/// A completed operation. `user_data` is the number that was given with it.
#[derive(Debug)]
pub enum Completion {
    /// A poll request has found events.
    Polled {
        /// The caller's number.
        user_data: u64,
        /// The events, in the bits of `epoll`.
        result: Result<u32>,
    },
    /// A connection was accepted, or accepting failed.
    Accepted {
        /// The caller's number.
        user_data: u64,
        /// The connection, nonblocking and close-on-exec.
        result: Result<OwnedFd>,
        /// Whether the operation continues.
        has_more: bool,
    },
    /// Data has arrived. An empty buffer is the end of the stream.
    Received {
        /// The caller's number.
        user_data: u64,
        /// The data.
        result: Result<ProvidedBuffer>,
        /// Whether the operation continues.
        has_more: bool,
    },
    /// A buffer was sent, in whole or in part.
    Sent {
        /// The caller's number.
        user_data: u64,
        /// The number of bytes sent, counted from `from`.
        result: Result<usize>,
        /// The buffer.
        buffer: Buffer,
        /// The offset in the buffer at which the operation started.
        from: usize,
    },
    /// A descriptor was closed.
    Closed {
        /// The caller's number.
        user_data: u64,
        /// The result of `close`.
        result: Result<()>,
    },
}

/// A buffer that the kernel may write to, without any reference to it meanwhile. Unless it is reclaimed, it is leaked.
#[derive(Debug)]
struct KernelBuffer(*mut [u8]);

impl KernelBuffer {
    fn new(bytes: Box<[u8]>) -> Self {
        Self(Box::into_raw(bytes))
    }

    fn reclaim(self) -> Box<[u8]> {
        // SAFETY: the pointer came out of a box, and this consumes the only copy. The kernel no longer uses the memory:
        // the operation has completed or was never submitted, as both callers ensure.
        unsafe { Box::from_raw(self.0) }
    }
}

#[derive(Debug)]
enum Operation {
    Accept,
    Receive,
    /// Into a separate buffer.
    ReceiveInto(KernelBuffer),
    Send(Buffer, usize),
    Close,
}

/// An entry in the table of operations in flight.
#[derive(Debug)]
struct InFlight {
    user_data: u64,
    generation: u32,
    operation: Option<Operation>,
}

/// The kernel features that are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Features {
    /// All that the kernel has.
    #[default]
    All,
    /// One request for each operation and a buffer for each receive, as before Linux 5.19.
    Basic,
}

/// The configuration of a ring.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The size of the submission queue.
    pub submissions: u32,
    /// The size of the completion queue.
    pub completions: u32,
    /// The number of provided buffers, a power of two.
    pub buffer_count: u16,
    /// The size of each buffer in bytes.
    pub buffer_bytes: u32,
    /// The kernel features that are used.
    pub features: Features,
}

impl Default for Options {
    /// Suits a server: 256 provided buffers of 4 KiB.
    fn default() -> Self {
        Self { submissions: 256, completions: 4096, buffer_count: 256, buffer_bytes: 4096, features: Features::All }
    }
}

/// A ring with operations that refer to memory.
#[derive(Debug)]
pub struct Operations {
    ring: Ring,
    in_flight: Vec<InFlight>,
    free: Vec<u32>,
    /// The number of operations in flight.
    count: usize,
    has_multishot_accept: bool,
    buffers: ManuallyDrop<Option<BufferRing>>,
    buffer_bytes: u32,
}

impl Operations {
    /// Creates a ring. Fails as [`Ring::new`] does, and with EINVAL if the sizes of the buffers are invalid.
    pub fn new(options: Options) -> Result<Self> {
        if !options.buffer_count.is_power_of_two() || options.buffer_bytes == 0 {
            return Err(Error::invalid("io_uring_register"));
        }
        let ring = Ring::new(options.submissions, options.completions)?;
        let mut probe = Probe::new();
        let is_known = ring.inner.submitter().register_probe(&mut probe).is_ok() && options.features == Features::All;
        // Multishot accept came with the opcode SOCKET (5.19), multishot receive with SEND_ZC (6.0).
        let has_multishot_accept = is_known && probe.is_supported(opcode::Socket::CODE);
        let has_multishot_receive = is_known && probe.is_supported(opcode::SendZc::CODE);
        let buffers = if has_multishot_receive {
            BufferRing::new(&ring.inner.submitter(), options.buffer_count, options.buffer_bytes).ok()
        } else {
            None
        };
        Ok(Self {
            ring,
            in_flight: Vec::new(),
            free: Vec::new(),
            count: 0,
            has_multishot_accept,
            buffers: ManuallyDrop::new(buffers),
            buffer_bytes: options.buffer_bytes,
        })
    }

    /// Returns a description of the features in use.
    pub fn setup(&self) -> String {
        let accept = if self.has_multishot_accept { "multishot" } else { "single-shot" };
        let receive = if self.buffers.is_some() { "multishot" } else { "single-shot" };
        format!("{accept} accept, {receive} receive; ring: {}", self.ring.setup())
    }

    /// Returns the number of operations in flight, polls not included.
    pub fn operation_count(&self) -> usize {
        self.count
    }

    fn track(&mut self, user_data: u64, operation: Operation) -> OperationId {
        debug_assert!(user_data & TRACKED == 0, "the bit is reserved");
        self.count += 1;
        let index = self.free.pop().unwrap_or_else(|| {
            self.in_flight.push(InFlight { user_data: 0, generation: 0, operation: None });
            (self.in_flight.len() - 1) as u32
        });
        let place = &mut self.in_flight[index as usize];
        place.generation = place.generation.wrapping_add(1) & (TRACKED - 1) as u32;
        (place.user_data, place.operation) = (user_data, Some(operation));
        OperationId(u64::from(index) << 32 | TRACKED | u64::from(place.generation))
    }

    /// Queues a tracked operation, whose memory is kept until it has completed.
    fn push(&mut self, id: OperationId, entry: squeue::Entry) -> Result<OperationId> {
        match self.ring.push(entry.user_data(id.0)) {
            Ok(()) => Ok(id),
            Err(error) => {
                self.forget(id.0);
                Err(error)
            }
        }
    }

    /// Forgets an operation that was never submitted, so the kernel does not know its memory.
    fn forget(&mut self, id: u64) {
        if let Some(Operation::ReceiveInto(buffer)) = self.untrack(id) {
            drop(buffer.reclaim());
        }
    }

    /// Forgets all operations that were never submitted, except closing. Their descriptors may be closed by now, and
    /// the numbers may belong to other files; a descriptor that is to be closed belongs to its operation.
    fn forget_queued(&mut self) {
        let mut queued = std::mem::take(&mut self.ring.queued);
        queued.retain(|entry| {
            let closes = entry.get_opcode() == u32::from(opcode::Close::CODE);
            if !closes && entry.get_user_data() & TRACKED != 0 {
                self.forget(entry.get_user_data());
            }
            closes
        });
        self.ring.queued = queued;
    }

    fn untrack(&mut self, id: u64) -> Option<Operation> {
        let index = (id >> 32) as u32;
        let operation = self.in_flight.get_mut(index as usize)?.operation.take();
        if operation.is_some() {
            self.count -= 1;
            self.free.push(index);
        }
        operation
    }

    /// Polls a descriptor for events, given in the bits of `epoll`; completes once.
    pub fn poll_add(&mut self, fd: RawFd, events: u32, user_data: u64) -> Result<()> {
        debug_assert!(user_data & TRACKED == 0, "the bit is reserved");
        self.ring.poll_add(fd, events, user_data, false)
    }

    /// Removes a poll request.
    pub fn poll_remove(&mut self, user_data: u64) -> Result<()> {
        self.ring.poll_remove(user_data)
    }

    /// Accepts connections: many if the kernel has multishot accept, otherwise one. They are nonblocking and
    /// close-on-exec.
    pub fn accept(&mut self, listener: RawFd, user_data: u64) -> Result<OperationId> {
        let id = self.track(user_data, Operation::Accept);
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        let null = std::ptr::null_mut();
        let entry = if self.has_multishot_accept {
            opcode::AcceptMulti::new(Fd(listener)).flags(flags).build()
        } else {
            opcode::Accept::new(Fd(listener), null, null.cast()).flags(flags).build()
        };
        self.push(id, entry)
    }

    /// Receives data: all that arrives, if the kernel has multishot receive, otherwise once. Completes with ENOBUFS
    /// when no provided buffer is free.
    pub fn receive(&mut self, socket: RawFd, user_data: u64) -> Result<OperationId> {
        if self.buffers.is_some() {
            let id = self.track(user_data, Operation::Receive);
            return self.push(id, opcode::RecvMulti::new(Fd(socket), GROUP).build());
        }
        self.receive_into_own(socket, user_data)
    }

    /// Receives data once, into a provided buffer if the kernel has them. Completes with ENOBUFS when none is free.
    pub fn receive_once(&mut self, socket: RawFd, user_data: u64) -> Result<OperationId> {
        if self.buffers.is_none() {
            return self.receive_into_own(socket, user_data);
        }
        let id = self.track(user_data, Operation::Receive);
        // Length 0: the size of the provided buffer applies.
        let entry = opcode::Recv::new(Fd(socket), std::ptr::null_mut(), 0).buf_group(GROUP).build();
        self.push(id, entry.flags(Flags::BUFFER_SELECT))
    }

    /// Receives data once, into the operation's own buffer.
    fn receive_into_own(&mut self, socket: RawFd, user_data: u64) -> Result<OperationId> {
        let buffer = KernelBuffer::new(vec![0; self.buffer_bytes as usize].into_boxed_slice());
        let first = buffer.0.cast::<u8>();
        let id = self.track(user_data, Operation::ReceiveInto(buffer));
        self.push(id, opcode::Recv::new(Fd(socket), first, self.buffer_bytes).build())
    }

    /// Returns how many of the buffers, from the first on, can be sent in order as one chain. `lengths` are the numbers
    /// of bytes to send of each. A chain is no longer than the submission queue, because a link does not extend beyond
    /// one submission. A buffer that needs more than one operation is the last of its chain: its first operation
    /// succeeds, which does not end a chain.
    pub fn chain_length(&self, lengths: impl Iterator<Item = usize>) -> usize {
        let mut is_last = false;
        let in_chain = lengths.take(self.ring.capacity()).take_while(|&length| {
            let is_behind = is_last;
            is_last = length > SEND_BYTES;
            !is_behind
        });
        in_chain.count()
    }

    /// Sends buffers, each from an offset on, as a chain of linked requests: each is sent only after the previous one
    /// was sent completely. Each completes separately; those behind one that was sent in part complete with ECANCELED.
    /// The order holds for as many buffers as [`chain_length`](Self::chain_length) returns.
    pub fn send(
        &mut self,
        socket: RawFd,
        user_data: u64,
        chain: impl ExactSizeIterator<Item = (Buffer, usize)>,
    ) -> Result<()> {
        // Submitting only a part of a chain would break it.
        let mut left = chain.len();
        self.ring.reserve(left)?;
        for (buffer, from) in chain {
            left -= 1;
            let rest = &buffer.bytes()[from.min(buffer.bytes().len())..];
            let (first, length) = (rest.as_ptr(), rest.len().min(SEND_BYTES) as u32);
            let more = if left > 0 { libc::MSG_MORE } else { 0 };
            let id = self.track(user_data, Operation::Send(buffer, from));
            let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL | more;
            let entry = opcode::Send::new(Fd(socket), first, length).flags(flags).build();
            let linked = if left > 0 { Flags::IO_LINK } else { Flags::empty() };
            self.push(id, entry.flags(linked))?;
        }
        Ok(())
    }

    /// Closes a descriptor.
    pub fn close(&mut self, fd: OwnedFd, user_data: u64) -> Result<OperationId> {
        let id = self.track(user_data, Operation::Close);
        self.push(id, opcode::Close::new(Fd(fd.as_raw_fd())).build())?;
        // The kernel owns the descriptor now. If the request was not queued, dropping the descriptor closes it.
        let _ = fd.into_raw_fd();
        Ok(id)
    }

    /// Cancels an operation, which completes with ECANCELED unless it has completed already.
    pub fn cancel(&mut self, id: OperationId) -> Result<()> {
        self.ring.push(opcode::AsyncCancel::new(id.0).build().user_data(IGNORED))
    }

    /// Returns whether an operation has a completion that [`Operations::next_completion`] has not returned yet.
    pub fn has_completed(&mut self, id: OperationId) -> bool {
        self.ring.has_completion(id.0)
    }

    /// Submits the queued operations and waits for a completion, for at most `timeout_ms` milliseconds; -1 waits for
    /// ever.
    pub fn wait(&mut self, timeout_ms: i32) -> Result<()> {
        self.ring.wait(timeout_ms)
    }

    /// Returns the next completion, if there is one.
    pub fn next_completion(&mut self) -> Option<Completion> {
        loop {
            let entry = self.ring.next_completion()?;
            if entry.user_data == IGNORED {
                continue;
            }
            if entry.user_data & TRACKED == 0 {
                let result = result("poll", entry.result).map(|events| events as u32);
                return Some(Completion::Polled { user_data: entry.user_data, result });
            }
            if let Some(completion) = self.complete(entry) {
                return Some(completion);
            }
        }
    }

    fn complete(&mut self, entry: super::Entry) -> Option<Completion> {
        let index = (entry.user_data >> 32) as usize;
        let user_data = self.in_flight.get(index)?.user_data;
        let has_more = entry.has_more();
        let operation = if has_more {
            // The operation continues; only these two complete many times.
            match self.in_flight[index].operation {
                Some(Operation::Accept) => Operation::Accept,
                _ => Operation::Receive,
            }
        } else {
            self.untrack(entry.user_data)?
        };
        Some(match operation {
            Operation::Accept => {
                let result = result("accept", entry.result).map(|fd| own(fd as RawFd));
                Completion::Accepted { user_data, result, has_more }
            }
            Operation::Receive => Completion::Received { user_data, result: self.received(entry), has_more },
            Operation::ReceiveInto(buffer) => {
                let bytes = buffer.reclaim();
                let of = |length| ProvidedBuffer(Place::Own { bytes, length: length as u32 });
                Completion::Received { user_data, result: result("recv", entry.result).map(of), has_more }
            }
            Operation::Send(buffer, from) => {
                Completion::Sent { user_data, result: result("send", entry.result), buffer, from }
            }
            Operation::Close => Completion::Closed { user_data, result: result("close", entry.result).map(drop) },
        })
    }

    fn received(&mut self, entry: super::Entry) -> Result<ProvidedBuffer> {
        let length = result("recv", entry.result)?;
        match (io_uring::cqueue::buffer_select(entry.flags), self.buffers.as_mut()) {
            (Some(id), Some(buffers)) => Ok(buffers.buffer(id, length as u32)),
            // The end of the stream needs no buffer.
            _ => Ok(ProvidedBuffer(Place::Own { bytes: Box::default(), length: 0 })),
        }
    }

    /// Returns the bytes of a buffer; an empty slice if it belongs to another ring.
    pub fn bytes<'a>(&'a self, buffer: &'a ProvidedBuffer) -> &'a [u8] {
        match &buffer.0 {
            Place::Own { bytes, length } => &bytes[..*length as usize],
            Place::Provided { ring, id, length } => {
                self.buffers.as_ref().map_or(&[], |buffers| buffers.bytes(*ring, *id, *length))
            }
        }
    }

    /// Returns a buffer to the kernel.
    pub fn recycle(&mut self, buffer: ProvidedBuffer) {
        if let (Place::Provided { ring, id, length }, Some(buffers)) = (buffer.0, self.buffers.as_mut()) {
            buffers.recycle(ring, id, length);
        }
    }

    /// Returns whether a receive can find a provided buffer: false if the caller holds them all.
    pub fn has_buffers(&self) -> bool {
        self.buffers.as_ref().is_none_or(BufferRing::has_any)
    }

    /// Cancels all operations and waits until none is in flight. Returns whether that succeeded.
    fn cancel_all(&mut self) -> bool {
        self.forget_queued();
        let all = self.in_flight.iter().enumerate().filter(|(_, place)| place.operation.is_some());
        let ids: Vec<_> = all
            // A descriptor that is being closed must be closed.
            .filter(|(_, place)| !matches!(place.operation, Some(Operation::Close)))
            .map(|(index, place)| OperationId((index as u64) << 32 | TRACKED | u64::from(place.generation)))
            .collect();
        for id in ids {
            if self.cancel(id).is_err() {
                return false;
            }
        }
        let mut idle_count = 0;
        while self.count > 0 && idle_count < LAST_WAITS {
            let before = self.count;
            if self.wait(LAST_WAIT_MS).is_err() {
                return false;
            }
            // Connections that were accepted meanwhile are closed here.
            while self.next_completion().is_some() {}
            idle_count += usize::from(self.count == before);
        }
        self.count == 0
    }
}

impl Drop for Operations {
    fn drop(&mut self) {
        if self.cancel_all() {
            if self.buffers.is_some() {
                BufferRing::unregister(&self.ring.inner.submitter());
            }
            // SAFETY: the buffers are dropped here and nowhere else, and not used again.
            unsafe { ManuallyDrop::drop(&mut self.buffers) };
        } else {
            // The kernel may still use the memory of the operations, so it is leaked.
            std::mem::forget(std::mem::take(&mut self.in_flight));
        }
    }
}

fn result(call: &'static str, result: i32) -> Result<usize> {
    usize::try_from(result).map_err(|_| Error { call, errno: -result })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_ends_behind_a_buffer_of_many_operations_and_at_the_size_of_the_queue() {
        // A system may forbid rings.
        let Ok(operations) = Operations::new(Options { submissions: 4, ..Options::default() }) else { return };
        let length = |lengths: &[usize]| operations.chain_length(lengths.iter().copied());
        assert_eq!((length(&[]), length(&[1, 0, SEND_BYTES]), length(&[1; 9])), (0, 3, 4));
        assert_eq!((length(&[SEND_BYTES + 1]), length(&[1, SEND_BYTES + 1, 1])), (1, 2));
    }
}
