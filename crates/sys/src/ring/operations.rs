//! Whole operations through a ring: accept, receive, send, close.
//!
//! What the kernel may still read or write is kept here until it says that it is done with it. A ring that is dropped
//! takes back what is under way and waits for that; if it does not come, the memory is never freed.

use super::buffers::{BufferRing, GROUP, Place, ProvidedBuffer};
use super::{Completion, NOBODY, Ring};
use crate::descriptor::own;
use crate::error::{Error, Result};
use io_uring::squeue::{Entry, Flags};
use io_uring::types::Fd;
use io_uring::{Probe, opcode};
use std::mem::ManuallyDrop;
use std::os::fd::{IntoRawFd, OwnedFd, RawFd};
use std::sync::Arc;

/// Of a wish's number, the bit that marks those that are kept account of; it is never set in a number of the user's.
const KEPT: u64 = 1 << 31;

/// How much one operation sends at most.
const SEND_BYTES: usize = 1 << 30;

/// How long a ring that is dropped waits for what it has taken back: so often in vain, so many milliseconds each.
const LAST_WAITS: usize = 20;
const LAST_WAIT_MS: i32 = 50;

/// Bytes to be sent.
#[derive(Debug, Clone)]
pub enum Bytes {
    /// That live as long as the program.
    Static(&'static [u8]),
    /// That belong to the operation.
    Owned(Box<[u8]>),
    /// That others read as well.
    Shared(Arc<[u8]>),
}

impl Bytes {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Static(bytes) => bytes,
            Self::Owned(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}

/// A wish that can be taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wish(u64);

/// What became of a wish; `user` is the number that was given with it.
#[derive(Debug)]
pub enum Done {
    /// Something happened to a descriptor that is watched: what may be done, as `epoll` has it.
    Watched {
        /// Whose.
        user: u64,
        /// What may be done.
        result: Result<u32>,
    },
    /// A connection was accepted, or none could be.
    Accepted {
        /// Whose.
        user: u64,
        /// The connection, which does not block.
        result: Result<OwnedFd>,
        /// Whether more follow without another wish.
        has_more: bool,
    },
    /// Something has arrived; an empty piece is the end of the stream.
    Received {
        /// Whose.
        user: u64,
        /// What.
        result: Result<ProvidedBuffer>,
        /// Whether more follows without another wish.
        has_more: bool,
    },
    /// Something was sent, all or a part.
    Sent {
        /// Whose.
        user: u64,
        /// How many bytes of `bytes` from `from` on.
        result: Result<usize>,
        /// The buffer comes back.
        bytes: Bytes,
        /// Where in it the operation began.
        from: usize,
    },
    /// A descriptor was closed.
    Closed {
        /// Whose.
        user: u64,
        /// How it went.
        result: Result<()>,
    },
}

/// A buffer that the kernel may write to: nothing refers to it meanwhile. One that is not taken back is never freed.
#[derive(Debug)]
struct Lent(*mut [u8]);

impl Lent {
    fn new(bytes: Box<[u8]>) -> Self {
        Self(Box::into_raw(bytes))
    }

    fn cancel(self) -> Box<[u8]> {
        // SAFETY: the pointer came out of a box, and this consumes the only one. The kernel is done with the memory:
        // the wish has completed, or was never handed over (both callers').
        unsafe { Box::from_raw(self.0) }
    }
}

#[derive(Debug)]
enum Kind {
    Accept,
    Receive,
    /// Into a buffer of its own.
    ReceiveInto(Lent),
    Send(Bytes, usize),
    Close,
}

#[derive(Debug)]
struct Kept {
    user: u64,
    generation: u32,
    kind: Option<Kind>,
}

/// How much of what the kernel has is made use of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Level {
    /// All that there is.
    #[default]
    Best,
    /// One wish for each operation and a buffer for each wait, as before Linux 5.19.
    Plain,
}

/// How a ring for operations is made.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How many wishes one call hands over at most.
    pub wishes: u32,
    /// How many completions there is room for.
    pub completions: u32,
    /// How many buffers there are for what arrives: a power of two.
    pub buffer_count: u16,
    /// How large each is.
    pub buffer_bytes: u32,
    /// How much of what the kernel has is made use of.
    pub level: Level,
}

impl Default for Options {
    /// For a server's load: 256 common buffers of 4 KB.
    fn default() -> Self {
        Self { wishes: 256, completions: 4096, buffer_count: 256, buffer_bytes: 4096, level: Level::Best }
    }
}

/// A ring for operations.
#[derive(Debug)]
pub struct Operations {
    ring: Ring,
    kept: Vec<Kept>,
    free: Vec<u32>,
    /// Those under way.
    count: usize,
    has_multishot_accept: bool,
    buffers: ManuallyDrop<Option<BufferRing>>,
    buffer_bytes: u32,
}

impl Operations {
    /// A ring. Errors are those of [`Ring::new`], and EINVAL for buffers that cannot be.
    pub fn new(options: Options) -> Result<Self> {
        if !options.buffer_count.is_power_of_two() || options.buffer_bytes == 0 {
            return Err(Error::invalid("io_uring_register"));
        }
        let ring = Ring::new(options.wishes, options.completions)?;
        let mut probe = Probe::new();
        let is_known = ring.rings.submitter().register_probe(&mut probe).is_ok() && options.level == Level::Best;
        // Multishot accept came with the opcode for sockets (5.19), multishot receive with that for sending without a
        // copy (6.0).
        let has_multishot_accept = is_known && probe.is_supported(opcode::Socket::CODE);
        let has_multishot_receive = is_known && probe.is_supported(opcode::SendZc::CODE);
        let buffers = if has_multishot_receive {
            BufferRing::new(&ring.rings.submitter(), options.buffer_count, options.buffer_bytes).ok()
        } else {
            None
        };
        Ok(Self {
            ring,
            kept: Vec::new(),
            free: Vec::new(),
            count: 0,
            has_multishot_accept,
            buffers: ManuallyDrop::new(buffers),
            buffer_bytes: options.buffer_bytes,
        })
    }

    /// What it makes use of.
    pub fn setup(&self) -> String {
        let accept = if self.has_multishot_accept { "an accept" } else { "no accept" };
        let receive = if self.buffers.is_some() { "a receive" } else { "no receive" };
        format!("{accept} and {receive} that completes many times; ring: {}", self.ring.setup())
    }

    /// How many operations are under way, watches not counted.
    pub fn operation_count(&self) -> usize {
        self.count
    }

    fn keep(&mut self, user: u64, kind: Kind) -> Wish {
        debug_assert!(user & KEPT == 0, "the bit is the ring's");
        self.count += 1;
        let index = self.free.pop().unwrap_or_else(|| {
            self.kept.push(Kept { user: 0, generation: 0, kind: None });
            (self.kept.len() - 1) as u32
        });
        let kept = &mut self.kept[index as usize];
        kept.generation = kept.generation.wrapping_add(1) & (KEPT - 1) as u32;
        (kept.user, kept.kind) = (user, Some(kind));
        Wish(u64::from(index) << 32 | KEPT | u64::from(kept.generation))
    }

    /// Hands a wish over that leads to memory which is kept until its completion.
    fn push(&mut self, wish: Wish, entry: Entry) -> Result<Wish> {
        match self.ring.push(&entry.user_data(wish.0)) {
            Ok(()) => Ok(wish),
            Err(error) => {
                // It was never handed over: nobody but us knows of its memory.
                if let Some(Kind::ReceiveInto(lent)) = self.forget(wish.0) {
                    drop(lent.cancel());
                }
                Err(error)
            }
        }
    }

    fn forget(&mut self, wish: u64) -> Option<Kind> {
        let index = (wish >> 32) as u32;
        let kind = self.kept.get_mut(index as usize)?.kind.take();
        if kind.is_some() {
            self.count -= 1;
            self.free.push(index);
        }
        kind
    }

    /// Watches a descriptor once. Its wish is taken back by [`Operations::unwatch`].
    pub fn watch(&mut self, fd: RawFd, bits: u32, user: u64) -> Result<()> {
        debug_assert!(user & KEPT == 0, "the bit is the ring's");
        self.ring.watch(fd, bits, user, false)
    }

    /// Takes a watch back.
    pub fn unwatch(&mut self, user: u64) -> Result<()> {
        self.ring.unwatch(user)
    }

    /// Accepts connections, many if the kernel can: they do not block and are not inherited.
    pub fn accept(&mut self, listener: RawFd, user: u64) -> Result<Wish> {
        let wish = self.keep(user, Kind::Accept);
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        let null = std::ptr::null_mut();
        let entry = if self.has_multishot_accept {
            opcode::AcceptMulti::new(Fd(listener)).flags(flags).build()
        } else {
            opcode::Accept::new(Fd(listener), null, null.cast()).flags(flags).build()
        };
        self.push(wish, entry)
    }

    /// Receives: what arrives, as it arrives, if the kernel can; else once. ENOBUFS says that all buffers are out.
    pub fn receive(&mut self, socket: RawFd, user: u64) -> Result<Wish> {
        if self.buffers.is_some() {
            let wish = self.keep(user, Kind::Receive);
            return self.push(wish, opcode::RecvMulti::new(Fd(socket), GROUP).build());
        }
        self.receive_into(socket, user)
    }

    /// Receives once, into a common buffer if the kernel can. ENOBUFS says that all buffers are out.
    pub fn receive_once(&mut self, socket: RawFd, user: u64) -> Result<Wish> {
        if self.buffers.is_none() {
            return self.receive_into(socket, user);
        }
        let wish = self.keep(user, Kind::Receive);
        // The buffer's own length holds.
        let entry = opcode::Recv::new(Fd(socket), std::ptr::null_mut(), 0).buf_group(GROUP).build();
        self.push(wish, entry.flags(Flags::BUFFER_SELECT))
    }

    /// Receives once, into a buffer of the operation's own.
    fn receive_into(&mut self, socket: RawFd, user: u64) -> Result<Wish> {
        let lent = Lent::new(vec![0; self.buffer_bytes as usize].into_boxed_slice());
        let first = lent.0.cast::<u8>();
        let wish = self.keep(user, Kind::ReceiveInto(lent));
        self.push(wish, opcode::Recv::new(Fd(socket), first, self.buffer_bytes).build())
    }

    /// Sends buffers one after the other: the next only if the one before left whole. Each has its completion; those
    /// behind one that did not leave whole complete with ECANCELED.
    pub fn send(&mut self, socket: RawFd, user: u64, all: impl ExactSizeIterator<Item = (Bytes, usize)>) -> Result<()> {
        // A chain must not be cut by handing over a part of it.
        let mut left = all.len();
        self.ring.make_place(left)?;
        for (bytes, from) in all {
            left -= 1;
            let rest = &bytes.bytes()[from.min(bytes.bytes().len())..];
            let (first, length) = (rest.as_ptr(), rest.len().min(SEND_BYTES) as u32);
            let more = if left > 0 { libc::MSG_MORE } else { 0 };
            let wish = self.keep(user, Kind::Send(bytes, from));
            let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL | more;
            let entry = opcode::Send::new(Fd(socket), first, length).flags(flags).build();
            let linked = if left > 0 { Flags::IO_LINK } else { Flags::empty() };
            self.push(wish, entry.flags(linked))?;
        }
        Ok(())
    }

    /// Closes a descriptor.
    pub fn close(&mut self, fd: OwnedFd, user: u64) -> Result<Wish> {
        let wish = self.keep(user, Kind::Close);
        self.push(wish, opcode::Close::new(Fd(fd.into_raw_fd())).build())
    }

    /// Takes a wish back; it completes with ECANCELED, unless it has completed already.
    pub fn cancel(&mut self, wish: Wish) -> Result<()> {
        self.ring.push(&opcode::AsyncCancel::new(wish.0).build().user_data(NOBODY))
    }

    /// Hands over what was wished and waits for a completion, at most so many milliseconds; -1 is forever.
    pub fn wait(&mut self, timeout_ms: i32) -> Result<()> {
        self.ring.wait(timeout_ms)
    }

    /// The next completion that is there.
    pub fn next_done(&mut self) -> Option<Done> {
        loop {
            let completion = self.ring.next_completion()?;
            if completion.user == NOBODY {
                continue;
            }
            if completion.user & KEPT == 0 {
                let result = outcome("poll", completion.result).map(|bits| bits as u32);
                return Some(Done::Watched { user: completion.user, result });
            }
            if let Some(done) = self.done(completion) {
                return Some(done);
            }
        }
    }

    fn done(&mut self, completion: Completion) -> Option<Done> {
        let user = self.kept.get((completion.user >> 32) as usize)?.user;
        let has_more = completion.has_more();
        let kind = if has_more {
            // The wish stands; only these two complete many times.
            match self.kept[(completion.user >> 32) as usize].kind {
                Some(Kind::Accept) => Kind::Accept,
                _ => Kind::Receive,
            }
        } else {
            self.forget(completion.user)?
        };
        let result = completion.result;
        Some(match kind {
            Kind::Accept => {
                Done::Accepted { user, result: outcome("accept", result).map(|fd| own(fd as RawFd)), has_more }
            }
            Kind::Receive => Done::Received { user, result: self.received(completion), has_more },
            Kind::ReceiveInto(lent) => {
                let bytes = lent.cancel();
                let piece = |length| ProvidedBuffer(Place::Own { bytes, length: length as u32 });
                Done::Received { user, result: outcome("recv", result).map(piece), has_more }
            }
            Kind::Send(bytes, from) => Done::Sent { user, result: outcome("send", result), bytes, from },
            Kind::Close => Done::Closed { user, result: outcome("close", result).map(drop) },
        })
    }

    fn received(&mut self, completion: Completion) -> Result<ProvidedBuffer> {
        let length = outcome("recv", completion.result)?;
        match (io_uring::cqueue::buffer_select(completion.flags), self.buffers.as_ref()) {
            (Some(id), Some(buffers)) => Ok(buffers.buffer(id, length as u32)),
            // The end of the stream needs no buffer.
            _ => Ok(ProvidedBuffer(Place::Own { bytes: Box::default(), length: 0 })),
        }
    }

    /// The bytes of a piece; none if another ring gave it.
    pub fn bytes<'a>(&'a self, buffer: &'a ProvidedBuffer) -> &'a [u8] {
        match &buffer.0 {
            Place::Own { bytes, length } => &bytes[..*length as usize],
            Place::Provided { set, id, length } => {
                self.buffers.as_ref().map_or(&[], |buffers| buffers.bytes(*set, *id, *length))
            }
        }
    }

    /// Gives a piece's buffer back to the kernel.
    pub fn recycle(&mut self, buffer: ProvidedBuffer) {
        if let (Place::Provided { set, id, length }, Some(buffers)) = (buffer.0, self.buffers.as_mut()) {
            buffers.recycle(set, id, length);
        }
    }

    /// Takes back all that is under way and waits until it is; whether that came to its end.
    fn end(&mut self) -> bool {
        let wishes = self.kept.iter().enumerate().filter(|(_, kept)| kept.kind.is_some());
        let wishes: Vec<_> = wishes
            // What is being closed is to be closed.
            .filter(|(_, kept)| !matches!(kept.kind, Some(Kind::Close)))
            .map(|(index, kept)| Wish((index as u64) << 32 | KEPT | u64::from(kept.generation)))
            .collect();
        for wish in wishes {
            if self.cancel(wish).is_err() {
                return false;
            }
        }
        let mut idle_count = 0;
        while self.count > 0 && idle_count < LAST_WAITS {
            let before = self.count;
            if self.wait(LAST_WAIT_MS).is_err() {
                return false;
            }
            // What was accepted and nobody took is closed here.
            while self.next_done().is_some() {}
            idle_count += usize::from(self.count == before);
        }
        self.count == 0
    }
}

impl Drop for Operations {
    fn drop(&mut self) {
        // Wishes not yet handed over count as well: what is to be closed must not stay open.
        if self.end() {
            if self.buffers.is_some() {
                BufferRing::unregister(&self.ring.rings.submitter());
            }
            // SAFETY: dropped here and nowhere else, and not used again.
            unsafe { ManuallyDrop::drop(&mut self.buffers) };
        } else {
            // The kernel may still use what is kept: it must outlive the process's interest in it.
            std::mem::forget(std::mem::take(&mut self.kept));
        }
    }
}

fn outcome(call: &'static str, result: i32) -> Result<usize> {
    usize::try_from(result).map_err(|_| Error { call, errno: -result })
}
