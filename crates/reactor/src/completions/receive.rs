//! Accepting and receiving, parking and pausing.

use super::slot::Reading;
use super::{Completion, ProvidedBuffer, Ring};
use crate::backend::Key;
use crate::error::Result;
use crate::interest::Token;
use landau_sys::Result as SystemResult;
use landau_sys::epoll::{PEER_CLOSED, READ};
use std::os::fd::{AsFd, OwnedFd};

/// The number of buffers after which a receive is submitted again. After 32 buffers in a row, Linux (6.18 at least)
/// stops looking for the end of a Unix socket: if the peer has closed it by then, the receive waits for ever. A new
/// receive finds the end.
const FRESH_AFTER: u8 = 32;

impl Ring {
    /// Accepts the connections of a listener until it is closed.
    pub fn accept(&mut self, listener: &impl AsFd, token: Token) -> Result<()> {
        let key = self.register(listener, token)?;
        let started = self.submit_accept(key);
        self.registered(key, started)
    }

    /// Stops accepting. Later waits still return connections that were accepted before the cancellation took effect;
    /// closing the listener at once would drop them.
    pub fn stop_accepting(&mut self, listener: &impl AsFd) -> Result<()> {
        let key = self.key(listener)?;
        self.cancel(key)?;
        self.slots[key.fd() as usize].reading = Reading::Stopping;
        Ok(())
    }

    fn submit_accept(&mut self, key: Key) -> Result<()> {
        #[cfg(test)]
        if let Some(left) = self.refused_accepts.checked_sub(1) {
            self.refused_accepts = left;
            return Err(landau_sys::Error::unsupported("io_uring_enter").into());
        }
        let id = self.operations.accept(key.fd(), key.0)?;
        self.slots[key.fd() as usize].reading = Reading::Accepting(Some(id));
        Ok(())
    }

    /// Accepts again, after a pause if the accept cannot be submitted now: the listener must not stay without an
    /// accept.
    fn accept_again(&mut self, key: Key) {
        if self.submit_accept(key).is_err() {
            self.pause_listener(key);
        }
    }

    fn pause_listener(&mut self, key: Key) {
        self.paused_listeners.push((self.clock.now_ms().wrapping_add(super::ACCEPT_PAUSE_MS), key));
    }

    /// Resumes listeners whose pause is over.
    pub(super) fn resume_listeners(&mut self) {
        let now_ms = self.clock.now_ms();
        let mut at = 0;
        while let Some(&(until, key)) = self.paused_listeners.get(at) {
            if now_ms.wrapping_sub(until) > u32::MAX / 2 {
                at += 1;
                continue;
            }
            self.paused_listeners.swap_remove(at);
            if self.slot(key).is_some_and(|slot| slot.reading == Reading::Accepting(None)) {
                // A pause that begins now does not end within this loop.
                self.accept_again(key);
            }
        }
    }

    /// Receives the data of a connection until the stream ends or the connection is closed.
    pub fn receive(&mut self, connection: &impl AsFd, token: Token) -> Result<()> {
        let key = self.register(connection, token)?;
        let started = self.submit_receive(key);
        self.registered(key, started)
    }

    /// Receives once; later data waits until [`Ring::resume`], as if the connection were paused. Closing the connection
    /// after that needs no cancellation, which suits connections that end after their first response.
    pub fn receive_once(&mut self, connection: &impl AsFd, token: Token) -> Result<()> {
        let key = self.register(connection, token)?;
        let started = self.submit_receive_once(key);
        self.registered(key, started)
    }

    pub(super) fn submit_receive(&mut self, key: Key) -> Result<()> {
        let id = self.operations.receive(key.fd(), key.0)?;
        let slot = &mut self.slots[key.fd() as usize];
        (slot.reading, slot.filled) = (Reading::Receiving(Some(id)), 0);
        Ok(())
    }

    fn submit_receive_once(&mut self, key: Key) -> Result<()> {
        let id = self.operations.receive_once(key.fd(), key.0)?;
        self.slots[key.fd() as usize].reading = Reading::ReceivingOnce(Some(id));
        Ok(())
    }

    /// Resumes starved connections, unless the caller holds all buffers: the receives would fail at once and end the
    /// wait.
    pub(super) fn resume_starved(&mut self) -> Result<()> {
        if self.starved.is_empty() || !self.operations.has_buffers() {
            return Ok(());
        }
        for key in std::mem::take(&mut self.starved) {
            match self.slot(key).map(|slot| slot.reading) {
                Some(Reading::Receiving(None)) => self.submit_receive(key)?,
                Some(Reading::ReceivingOnce(None)) => self.submit_receive_once(key)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn submit_poll(&mut self, key: Key) -> Result<()> {
        self.operations.poll_add(key.fd(), READ | PEER_CLOSED, key.0)?;
        self.slots[key.fd() as usize].reading = Reading::Parked;
        Ok(())
    }

    /// Parks a connection: it uses less memory, and receives again automatically when data arrives. Data that arrived
    /// before completes as usual. Does nothing if the connection is parked, paused or has ended.
    pub fn park(&mut self, connection: &impl AsFd) -> Result<()> {
        let key = self.key(connection)?;
        match self.slots[key.fd() as usize].reading {
            Reading::Receiving(Some(id)) => {
                self.operations.cancel(id)?;
                self.slots[key.fd() as usize].reading = Reading::Parking(id);
                Ok(())
            }
            // It waits for a buffer, and the data that has arrived is received first.
            Reading::Receiving(None)
            // It is paused or parked, has ended, or receives only once.
            | Reading::ReceivingOnce(_)
            | Reading::Idle
            | Reading::Parking(_)
            | Reading::Parked
            | Reading::Pausing(_)
            | Reading::Paused
            | Reading::Stopping
            | Reading::Accepting(_) => Ok(()),
        }
    }

    /// Receives nothing more until [`Ring::resume`]. Data that was received before completes as usual. Does nothing if
    /// the connection is parked or has ended.
    pub fn pause(&mut self, connection: &impl AsFd) -> Result<()> {
        let key = self.key(connection)?;
        let reading = match self.slots[key.fd() as usize].reading {
            Reading::Receiving(Some(id)) => {
                self.operations.cancel(id)?;
                Reading::Pausing(id)
            }
            // A connection that receives once pauses anyway.
            Reading::Parking(id) => Reading::Pausing(id),
            Reading::Receiving(None) => Reading::Paused,
            other => other,
        };
        self.slots[key.fd() as usize].reading = reading;
        Ok(())
    }

    /// Receives again if the connection was paused.
    #[inline]
    pub fn resume(&mut self, connection: &impl AsFd) -> Result<()> {
        let key = self.key(connection)?;
        match self.slots[key.fd() as usize].reading {
            Reading::Paused => self.submit_receive(key)?,
            // The receive is submitted again when it has completed.
            Reading::Pausing(id) => self.slots[key.fd() as usize].reading = Reading::Receiving(Some(id)),
            Reading::ReceivingOnce(id) => self.slots[key.fd() as usize].reading = Reading::Receiving(id),
            _ => {}
        }
        Ok(())
    }

    /// Returns whether data or the end of the stream has arrived on a connection that [`Ring::next_completion`] has not
    /// returned yet. Data that is still in the socket does not count.
    pub fn has_arrived(&mut self, connection: &impl AsFd) -> bool {
        let Ok(key) = self.key(connection) else { return true };
        match self.slots[key.fd() as usize].reading {
            // The stream has ended.
            Reading::Idle => true,
            Reading::Receiving(Some(id))
            | Reading::ReceivingOnce(Some(id))
            | Reading::Parking(id)
            | Reading::Pausing(id) => self.operations.has_completed(id),
            // Nothing is being received.
            Reading::Receiving(None)
            | Reading::ReceivingOnce(None)
            | Reading::Parked
            | Reading::Paused
            | Reading::Stopping
            | Reading::Accepting(_) => false,
        }
    }

    /// Returns the data in a buffer.
    pub fn bytes<'a>(&'a self, buffer: &'a ProvidedBuffer) -> &'a [u8] {
        self.operations.bytes(buffer)
    }

    /// Returns a buffer to the kernel, for data that arrives next.
    pub fn recycle(&mut self, buffer: ProvidedBuffer) {
        self.operations.recycle(buffer);
    }

    pub(super) fn on_polled(&mut self, key: Key, result: SystemResult<u32>) -> Result<Option<Completion>> {
        let Some(slot) = self.slot(key).filter(|slot| slot.reading == Reading::Parked) else { return Ok(None) };
        let token = Token(slot.token);
        match result {
            Ok(_) => self.submit_receive(key)?,
            Err(error) => {
                slot.reading = Reading::Idle;
                return Ok(Some(Completion::Failed { token, error }));
            }
        }
        Ok(None)
    }

    pub(super) fn on_accepted(
        &mut self,
        key: Key,
        result: SystemResult<OwnedFd>,
        has_more: bool,
    ) -> Option<Completion> {
        // A connection is closed here if its listener was closed.
        let is_wanted = |reading| matches!(reading, Reading::Accepting(_) | Reading::Stopping);
        let slot = self.slot(key).filter(|slot| is_wanted(slot.reading))?;
        let token = Token(slot.token);
        if slot.reading == Reading::Stopping {
            return result.ok().map(|connection| Completion::Accepted { token, connection });
        }
        if !has_more {
            slot.reading = Reading::Accepting(None);
        }
        match result {
            Ok(connection) => {
                if !has_more {
                    self.accept_again(key);
                }
                Some(Completion::Accepted { token, connection })
            }
            // That connection was gone before it was accepted; there may be another.
            Err(error) if error.is_transient_in_accept() => {
                self.accept_again(key);
                None
            }
            // No descriptor is free, or accept passes on an error of the network: both may be temporary.
            Err(error) => {
                self.pause_listener(key);
                Some(Completion::Failed { token, error })
            }
        }
    }

    pub(super) fn on_received(
        &mut self,
        key: Key,
        result: SystemResult<ProvidedBuffer>,
        has_more: bool,
    ) -> Result<Option<Completion>> {
        let Some(slot) = self.slot(key) else {
            if let Ok(buffer) = result {
                self.operations.recycle(buffer);
            }
            return Ok(None);
        };
        let (token, reading, is_closing) = (Token(slot.token), slot.reading, slot.is_closing());
        match result {
            Ok(buffer) if is_closing => self.operations.recycle(buffer),
            Ok(buffer) if buffer.is_empty() => {
                slot.reading = Reading::Idle;
                self.operations.recycle(buffer);
                return Ok(Some(Completion::Ended { token }));
            }
            Ok(buffer) => {
                if !has_more {
                    self.renew(key, reading)?;
                } else if let Reading::Receiving(Some(id)) = reading {
                    slot.filled = slot.filled.saturating_add(1);
                    if slot.filled == FRESH_AFTER {
                        // It is submitted again when it has completed.
                        self.operations.cancel(id)?;
                    }
                }
                return Ok(Some(Completion::Received { token, buffer }));
            }
            Err(_) if is_closing => {}
            Err(error) if error.is_out_of_buffers() || error.is_canceled() => {
                slot.reading = match reading {
                    Reading::Receiving(_) if error.is_out_of_buffers() => Reading::Receiving(None),
                    Reading::ReceivingOnce(_) if error.is_out_of_buffers() => Reading::ReceivingOnce(None),
                    _ => {
                        self.renew(key, reading)?;
                        return Ok(None);
                    }
                };
                self.starved.push(key);
            }
            Err(error) => {
                slot.reading = Reading::Idle;
                return Ok(Some(Completion::Failed { token, error }));
            }
        }
        Ok(None)
    }

    /// Continues after a receive has ended but the stream has not.
    fn renew(&mut self, key: Key, reading: Reading) -> Result<()> {
        match reading {
            Reading::Pausing(_) | Reading::ReceivingOnce(_) => {
                self.slots[key.fd() as usize].reading = Reading::Paused;
                Ok(())
            }
            Reading::Parking(_) => self.submit_poll(key),
            Reading::Receiving(_) => self.submit_receive(key),
            Reading::Idle | Reading::Parked | Reading::Paused | Reading::Stopping | Reading::Accepting(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::completions::{Features, Options};
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    fn accepted(ring: &mut Ring) -> OwnedFd {
        for _ in 0..200 {
            ring.wait(Some(Duration::from_millis(100))).unwrap();
            while let Some(completion) = ring.next_completion().unwrap() {
                if let Completion::Accepted { connection, .. } = completion {
                    return connection;
                }
            }
        }
        panic!("nothing is accepted");
    }

    /// Before the fix, the connection that had just been accepted was closed, and the listener accepted no other.
    #[test]
    fn a_listener_accepts_again_after_a_failed_submission() {
        // With an accept for each connection.
        let options = Options { features: Features::Basic, ..Options::default() };
        let Ok(mut ring) = Ring::with_options(options) else { return println!("skipped: io_uring is not available") };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        ring.accept(&listener, Token(1)).unwrap();
        // The accept that follows at once fails, and the one after the first pause.
        ring.refused_accepts = 2;
        for _ in 0..2 {
            let client = TcpStream::connect(address).unwrap();
            let connection = TcpStream::from(accepted(&mut ring));
            assert_eq!(connection.peer_addr().unwrap(), client.local_addr().unwrap());
        }
        assert_eq!(ring.refused_accepts, 0);
        ring.close(listener.into()).unwrap();
    }
}
