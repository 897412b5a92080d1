//! Sending: chains of buffers, and their resubmission.

use super::{Completion, Ring, WRITABLE};
use crate::backend::Key;
use crate::error::Result;
use crate::interest::Token;
use landau_sys::Result as SystemResult;
use landau_sys::bytes::Buffer;
use landau_sys::epoll::WRITE;
use std::os::fd::{AsFd, AsRawFd};

/// The maximum number of buffers of a connection that are in flight together.
const CHAIN: usize = 16;

impl Ring {
    /// Returns the number of bytes that are queued and not sent yet, according to the completions so far.
    #[inline]
    pub fn unsent(&self, connection: &impl AsFd) -> u64 {
        let slot = self.slots.get(connection.as_fd().as_raw_fd() as usize);
        slot.and_then(|slot| slot.outgoing.as_ref()).map_or(0, |outgoing| outgoing.left)
    }

    /// Queues a buffer to be sent. [`Completion::Sent`] is returned after everything that is queued was sent.
    pub fn send(&mut self, connection: &impl AsFd, buffer: Buffer) -> Result<()> {
        self.send_all(connection, [buffer])
    }

    /// Queues several buffers to be sent in order.
    pub fn send_all(&mut self, connection: &impl AsFd, buffers: impl IntoIterator<Item = Buffer>) -> Result<()> {
        let key = self.key(connection)?;
        let outgoing = self.slots[key.fd() as usize].outgoing.get_or_insert_default();
        for buffer in buffers {
            outgoing.left += buffer.bytes().len() as u64;
            outgoing.queue.push_back((buffer, 0));
        }
        self.submit_send(key)
    }

    fn submit_send(&mut self, key: Key) -> Result<()> {
        let slot = &mut self.slots[key.fd() as usize];
        let Some(outgoing) = slot.outgoing.as_mut().filter(|outgoing| outgoing.in_flight == 0) else { return Ok(()) };
        // Buffers to be sent again go before those that were queued since.
        while let Some(last) = outgoing.again.pop_back() {
            outgoing.queue.push_front(last);
        }
        let lengths = outgoing.queue.iter().take(CHAIN).map(|(buffer, from)| buffer.bytes().len() - from);
        let count = self.operations.chain_length(lengths);
        outgoing.in_flight = count;
        if count > 0 { Ok(self.operations.send(key.fd(), key.0, outgoing.queue.drain(..count))?) } else { Ok(()) }
    }

    /// Polls a connection until it is writable, for callers that do the sending themselves. [`Completion::Writable`] is
    /// returned once. Does nothing if the connection is polled already.
    pub fn watch_writable(&mut self, connection: &impl AsFd) -> Result<()> {
        let key = self.key(connection)?;
        if !std::mem::replace(&mut self.slots[key.fd() as usize].is_polled_writable, true) {
            self.operations.poll_add(key.fd(), WRITE, key.0 | WRITABLE)?;
        }
        Ok(())
    }

    pub(super) fn stop_watching_writable(&mut self, key: Key) -> Result<()> {
        if std::mem::take(&mut self.slots[key.fd() as usize].is_polled_writable) {
            self.operations.poll_remove(key.0 | WRITABLE)?;
        }
        Ok(())
    }

    pub(super) fn on_writable(&mut self, key: Key) -> Option<Completion> {
        let slot = self.slot(key)?;
        let was_polled = std::mem::take(&mut slot.is_polled_writable);
        was_polled.then_some(Completion::Writable { token: Token(slot.token) })
    }

    pub(super) fn on_sent(
        &mut self,
        key: Key,
        result: SystemResult<usize>,
        buffer: Buffer,
        from: usize,
    ) -> Result<Option<Completion>> {
        let Some(slot) = self.slot(key) else { return Ok(None) };
        let token = Token(slot.token);
        let Some(outgoing) = slot.outgoing.as_mut() else { return Ok(None) };
        outgoing.in_flight -= 1;
        match result {
            Ok(count) => {
                outgoing.byte_count += count as u64;
                outgoing.left -= count as u64;
                if from + count < buffer.bytes().len() {
                    outgoing.again.push_back((buffer, from + count));
                }
            }
            // It was behind a buffer that was sent only in part.
            Err(error) if error.is_canceled() => outgoing.again.push_back((buffer, from)),
            Err(error) => outgoing.failed = outgoing.failed.or(Some(error)),
        }
        if outgoing.in_flight > 0 {
            return Ok(None);
        }
        if outgoing.failed.is_none() && !(outgoing.again.is_empty() && outgoing.queue.is_empty()) {
            self.submit_send(key)?;
            return Ok(None);
        }
        let Some(outgoing) = slot.outgoing.take() else { return Ok(None) };
        if let Some(fd) = outgoing.closing {
            self.forget(key);
            self.operations.close(fd, key.0)?;
            return Ok(None);
        }
        Ok(Some(match outgoing.failed {
            Some(error) => Completion::Failed { token, error },
            None => Completion::Sent { token, byte_count: outgoing.byte_count },
        }))
    }
}
