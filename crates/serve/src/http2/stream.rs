//! Streams that are kept: those whose request has not ended, that wait for another thread or an upstream server, or
//! that have content to be sent. They take turns of one frame each, in the order of their numbers.

use super::relay::{Early, Relay};
use super::{MOST_STREAMS, TURN_BYTES};
use crate::fetch::Fetcher;
use crate::site::Steps;
use landau_reactor::Batch;
use landau_reactor::batch::Buffer;
use landau_wire::http2::INITIAL_WINDOW;

/// A request whose body has not ended. The body is read only to find its end, as in HTTP/1.1.
#[derive(Debug)]
pub(super) struct Upload {
    pub(super) head: Vec<u8>,
    /// The length announced in the head.
    pub(super) promised: Option<u64>,
    pub(super) got: u64,
    /// The number of bytes that the client may still send.
    pub(super) window: u32,
    pub(super) began_ms: u32,
}

impl Upload {
    pub(super) fn new(head: Vec<u8>, promised: Option<u64>, began_ms: u32) -> Self {
        Self { head, promised, got: 0, window: INITIAL_WINDOW, began_ms }
    }
}

/// A request that waits for another thread.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) head: Vec<u8>,
    /// The serial number of the wait.
    pub(super) serial: u32,
    /// What has been done for the request.
    pub(super) steps: Steps,
    /// Content that has arrived, if the request may be forwarded.
    pub(super) early: Option<Early>,
}

/// The content of a response.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) batch: Batch,
    /// The number of bytes of a file that may be read before the next check that they are in memory.
    warm_bytes: u64,
}

impl Content {
    /// Returns the rest of a response: `bytes`, then `rest`.
    pub(super) fn new(bytes: &[u8], rest: &mut Batch) -> Self {
        let mut batch = Batch::new();
        if !bytes.is_empty() {
            batch.push(Buffer::Owned(bytes.into()));
        }
        batch.append(rest);
        Self { batch, warm_bytes: 0 }
    }

    /// Returns empty content, to replace content that is moved.
    pub(super) fn none() -> Self {
        Self { batch: Batch::new(), warm_bytes: 0 }
    }

    /// Records that `count` bytes were read.
    pub(super) fn has_read(&mut self, count: usize) {
        self.warm_bytes = self.warm_bytes.saturating_sub(count as u64);
    }

    /// Records that the next part is in memory, or is not to be waited for again.
    pub(super) fn is_there(&mut self) {
        self.warm_bytes = TURN_BYTES as u64;
    }
}

/// The phase of a stream.
#[derive(Debug)]
pub(super) enum Phase {
    /// The request has not ended.
    Receiving(Box<Upload>),
    /// The request waits for the lookup by another thread.
    LookingUp(Box<Waiting>),
    /// The request was forwarded to an upstream server.
    Relaying(Box<Relay>),
    /// Content of the response is to be sent.
    Sending(Content),
    /// The next part of a file is being read from the device, under this serial number.
    Fetching(Content, u32),
}

/// A stream.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: u32,
    pub(super) phase: Phase,
    /// The number of bytes that the stream's window permits; negative after the client has reduced it.
    pub(super) window: i64,
    /// Whether the client has ended its side of the stream.
    pub(super) has_ended: bool,
}

impl Stream {
    fn is_sendable(&self) -> bool {
        let has_content = match &self.phase {
            Phase::Sending(_) => true,
            Phase::Relaying(relay) => relay.pending_bytes() > 0,
            _ => false,
        };
        has_content && self.window > 0
    }

    fn memory_bytes(&self) -> usize {
        match &self.phase {
            Phase::Receiving(upload) => size_of::<Upload>() + upload.head.capacity(),
            Phase::LookingUp(waiting) => {
                let early = waiting.early.as_ref().map_or(0, Early::memory_bytes);
                size_of::<Waiting>() + waiting.head.capacity() + early
            }
            Phase::Relaying(relay) => relay.memory_bytes(),
            Phase::Sending(content) | Phase::Fetching(content, _) => content.batch.memory_bytes(),
        }
    }
}

/// The kept streams of a connection, by number.
#[derive(Debug, Default)]
pub(super) struct Streams {
    all: Vec<Stream>,
    /// The index of the stream whose turn is next.
    turn: usize,
}

impl Streams {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.all.len() >= MOST_STREAMS
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.all.iter_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Stream> {
        self.all.iter()
    }

    fn place(&self, id: u32) -> Result<usize, usize> {
        self.all.binary_search_by_key(&id, |stream| stream.id)
    }

    pub(super) fn get(&mut self, id: u32) -> Option<&mut Stream> {
        if self.all.is_empty() {
            return None;
        }
        let place = self.place(id).ok()?;
        self.all.get_mut(place)
    }

    /// Adds a stream with a new number.
    pub(super) fn put(&mut self, stream: Stream) {
        let place = self.place(stream.id).unwrap_or_else(|place| place);
        if place < self.turn {
            self.turn += 1;
        }
        self.all.insert(place, stream);
    }

    pub(super) fn remove(&mut self, id: u32) -> Option<Stream> {
        let place = self.place(id).ok()?;
        if place < self.turn {
            self.turn -= 1;
        }
        let stream = self.all.remove(place);
        if self.all.is_empty() {
            // An idle connection owns no buffer for streams.
            self.all = Vec::new();
        }
        Some(stream)
    }

    /// Removes all streams.
    pub(super) fn take_all(&mut self) -> Vec<Stream> {
        self.turn = 0;
        std::mem::take(&mut self.all)
    }

    /// Returns the next stream that may send; all others have their turn first.
    pub(super) fn next(&mut self) -> Option<&mut Stream> {
        let count = self.all.len();
        let turns = (0..count).map(|offset| (self.turn + offset) % count);
        let place = turns.into_iter().find(|&place| self.all[place].is_sendable())?;
        self.turn = place + 1;
        self.all.get_mut(place)
    }

    /// Returns whether a stream may send.
    pub(super) fn any_sendable(&self) -> bool {
        self.all.iter().any(Stream::is_sendable)
    }

    /// Returns the stream that waits for a fetch.
    pub(super) fn fetching(&mut self, serial: u32) -> Option<&mut Stream> {
        self.all.iter_mut().find(|stream| matches!(stream.phase, Phase::Fetching(_, own) if own == serial))
    }

    /// Returns the stream that waits for a lookup.
    pub(super) fn looking_up(&self, serial: u32) -> Option<u32> {
        let is_it = |stream: &&Stream| matches!(&stream.phase, Phase::LookingUp(own) if own.serial == serial);
        self.all.iter().find(is_it).map(|stream| stream.id)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.all.capacity() * size_of::<Stream>() + self.all.iter().map(Stream::memory_bytes).sum::<usize>()
    }
}

/// Lets another thread read the next part of a file if it is not in memory; returns whether the stream waits for it.
pub(super) fn must_fetch(stream: &mut Stream, fetcher: &mut Fetcher, number: u32, now_ms: u32) -> bool {
    let Phase::Sending(content) = &mut stream.phase else { return false };
    if content.warm_bytes > 0 {
        return false;
    }
    let Some((file, offset, left)) = content.batch.next_file() else { return false };
    if let Some(from) = fetcher.warm.first_cold(file, (offset, left), TURN_BYTES, now_ms)
        && let Some(ticket) = fetcher.fetch(number, file, from, offset + left - from)
    {
        let content = std::mem::replace(content, Content::none());
        stream.phase = Phase::Fetching(content, ticket.serial);
        return true;
    }
    content.warm_bytes = TURN_BYTES as u64;
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sending(id: u32, window: i64) -> Stream {
        let phase = Phase::Sending(Content::new(b"x", &mut Batch::new()));
        Stream { id, phase, window, has_ended: true }
    }

    #[test]
    fn streams_take_turns() {
        let mut streams = Streams::default();
        for (id, window) in [(1, 1), (3, 0), (5, 1), (7, 1)] {
            streams.put(sending(id, window));
        }
        let next = |streams: &mut Streams| streams.next().map(|stream| stream.id);
        let order: Vec<_> = (0..5).map(|_| next(&mut streams)).collect();
        assert_eq!(order, [Some(1), Some(5), Some(7), Some(1), Some(5)]);
        streams.remove(1);
        streams.put(sending(9, 1));
        assert_eq!([next(&mut streams), next(&mut streams), next(&mut streams)], [Some(7), Some(9), Some(5)]);
        streams.get(3).unwrap().window = 1;
        assert_eq!([next(&mut streams), next(&mut streams), next(&mut streams)], [Some(7), Some(9), Some(3)]);
        for id in [3, 5, 7, 9] {
            assert!(streams.any_sendable());
            assert!(streams.remove(id).is_some() && streams.remove(id).is_none());
        }
        assert!(streams.is_empty() && next(&mut streams).is_none());
        assert_eq!(streams.memory_bytes(), 0);
    }
}
