//! The link between controller and worker: JSON messages over a stream socket, each preceded by its length in four
//! bytes, little-endian.

use landau_sys::descriptor::wait_readable;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// The longest message: the histograms of a long run are far shorter, and random bytes usually announce a far longer
/// one.
const LONGEST_BYTES: usize = 256 << 20;

/// Returns the length that precedes a message of `len` bytes, or an error if the other end would not accept it.
fn head(len: usize) -> io::Result<[u8; 4]> {
    if len > LONGEST_BYTES {
        let reason = format!(
            "a message to or from a load worker has {len} bytes, but at most {LONGEST_BYTES} are allowed: use fewer or \
             shorter requests (--replay, --header) and fewer URLs"
        );
        return Err(io::Error::new(ErrorKind::InvalidInput, reason));
    }
    Ok((len as u32).to_le_bytes())
}

/// One end of a link.
#[derive(Debug)]
pub(crate) struct Link {
    stream: UnixStream,
    received: Vec<u8>,
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Link {
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self { stream, received: Vec::new() }
    }

    /// Sends a message, unless it is longer than the other end accepts.
    pub(crate) fn send<T: Serialize>(&mut self, message: &T) -> io::Result<()> {
        let text = serde_json::to_vec(message)?;
        let mut bytes = head(text.len())?.to_vec();
        bytes.extend_from_slice(&text);
        self.stream.write_all(&bytes)
    }

    /// Waits for the next message. Returns `None` if the other end was closed.
    pub(crate) fn receive<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        loop {
            if let Some(message) = self.next()? {
                return Ok(Some(message));
            }
            if !self.fill_once()? {
                return Ok(None);
            }
        }
    }

    /// Reads everything that has arrived, without waiting. Returns false if the other end was closed.
    pub(crate) fn fill(&mut self) -> io::Result<bool> {
        while wait_readable(&self.stream, 0)? {
            if !self.fill_once()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits for bytes and reads them. Returns false if the other end was closed, even if it had not read everything
    /// that was sent to it.
    fn fill_once(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 8 << 10];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(count) => {
                    self.received.extend_from_slice(&buffer[..count]);
                    return Ok(count > 0);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the next complete message among the bytes that were read.
    pub(crate) fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let Some(head) = self.received.first_chunk::<4>() else { return Ok(None) };
        let len = u32::from_le_bytes(*head) as usize;
        if len > LONGEST_BYTES {
            let reason = format!(
                "a message has {len} bytes, but at most {LONGEST_BYTES} are allowed: the peer does not speak the \
                 protocol of load workers"
            );
            return Err(io::Error::new(ErrorKind::InvalidData, reason));
        }
        if self.received.len() < 4 + len {
            return Ok(None);
        }
        let rest = self.received.split_off(4 + len);
        let message = std::mem::replace(&mut self.received, rest);
        Ok(Some(serde_json::from_slice(&message[4..])?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Command, Report};

    #[test]
    fn messages_arrive_complete_and_other_bytes_are_an_error() {
        let (one, other) = UnixStream::pair().unwrap();
        let (mut one, mut other) = (Link::new(one), Link::new(other));
        one.send(&Command::Open { to: 5, from_ns: 0 }).unwrap();
        one.send(&Command::Stop).unwrap();
        assert!(matches!(other.receive().unwrap(), Some(Command::Open { to: 5, .. })));
        assert!(matches!(other.receive().unwrap(), Some(Command::Stop)));
        other.send(&"not a report").unwrap();
        assert!(one.receive::<Report>().is_err());
        drop(other);
        assert!(one.receive::<Report>().unwrap().is_none());
        let (end, mut rest) = UnixStream::pair().unwrap();
        rest.write_all(&[255; 4]).unwrap();
        assert!(Link::new(end).receive::<Report>().is_err());
    }

    /// A worker that has finished reads no more commands. Its last report was lost if one was on its way.
    #[test]
    fn the_last_message_of_a_closed_end_arrives() {
        let (one, other) = UnixStream::pair().unwrap();
        let (mut one, mut other) = (Link::new(one), Link::new(other));
        other.send(&Report::Counted { open: 7 }).unwrap();
        one.send(&Command::Stop).unwrap();
        drop(other);
        assert!(!one.fill().unwrap());
        assert!(matches!(one.next().unwrap(), Some(Report::Counted { open: 7 })));
        assert!(one.receive::<Report>().unwrap().is_none());
    }

    /// The receiver once mistook a plan that was too long for bytes of another protocol.
    #[test]
    fn message_that_is_too_long_is_not_sent() {
        assert_eq!(head(LONGEST_BYTES).unwrap(), [0, 0, 0, 16]);
        for len in [LONGEST_BYTES + 1, usize::MAX] {
            let error = head(len).unwrap_err().to_string();
            let expected = format!("has {len} bytes, but at most 268435456 are allowed: use fewer or shorter requests");
            assert!(error.contains(&expected), "{error}");
        }
    }
}
