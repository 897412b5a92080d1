//! What controller and worker say to each other: a length of four bytes (least significant first) and so many bytes of
//! JSON, over any stream. The first message of a worker names the protocol's version, so that workers on other machines
//! can be told from what they are not.

use crate::crowd::{Measured, Samples};
use crate::plan::Plan;
use crate::tally::Tally;
use landau_sys::descriptor::wait_readable;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// The longest message: histograms of a long run are far below it, garbage is far above.
const LONGEST_BYTES: usize = 256 << 20;

/// What a controller says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// What is to be done; connections are made now.
    Plan(Box<Plan>),
    /// Load is made from that moment on, by `CLOCK_MONOTONIC`.
    Start {
        /// The moment in nanoseconds.
        at_ns: u64,
    },
    /// Of a crowd: so many connections are to stand.
    Grow {
        /// How many.
        to: u32,
    },
    /// Of a crowd: samples are to be taken.
    Measure(Samples),
    /// Of a crowd: how many connections stand is to be told.
    Count,
    /// That is enough: what was found is to be told.
    Stop,
}

/// What a worker says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    /// It is there.
    Hello {
        /// [`crate::plan::PROTOCOL`].
        version: u32,
        /// Its process.
        process: u32,
    },
    /// Connections stand, as many as could be made.
    Ready {
        /// How many.
        open: u32,
    },
    /// How far it is.
    Progress(Progress),
    /// Of a crowd: connections stand, or cannot be made.
    Grown {
        /// How many stand.
        open: u32,
    },
    /// Of a crowd: samples.
    Measured(Box<Measured>),
    /// Of a crowd: how many connections stand, all that has happened to them considered.
    Standing {
        /// How many.
        open: u32,
    },
    /// What was found in all.
    Done(Box<Tally>),
    /// Why nothing was found.
    Failed {
        /// A sentence.
        reason: String,
    },
}

/// How far a worker is.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Progress {
    /// Answers so far.
    pub answers: u64,
    /// Failures so far.
    pub failures: u64,
    /// Connections that stand.
    pub open: u32,
    /// Requests that are due and wait for a connection.
    pub waiting: u64,
}

/// One end of a link.
#[derive(Debug)]
pub(crate) struct Link {
    stream: UnixStream,
    inbox: Vec<u8>,
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Link {
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self { stream, inbox: Vec::new() }
    }

    /// Says something.
    pub(crate) fn send<T: Serialize>(&mut self, message: &T) -> io::Result<()> {
        let text = serde_json::to_vec(message)?;
        let mut bytes = (text.len() as u32).to_le_bytes().to_vec();
        bytes.extend_from_slice(&text);
        self.stream.write_all(&bytes)
    }

    /// Waits for the next message; none if the other end is gone.
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

    /// Takes in all that has come and does not wait for more; false if the other end is gone.
    pub(crate) fn fill(&mut self) -> io::Result<bool> {
        while wait_readable(&self.stream, 0)? {
            if !self.fill_once()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits for something to come, and takes it in.
    fn fill_once(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 8 << 10];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(count) => {
                    self.inbox.extend_from_slice(&buffer[..count]);
                    return Ok(count > 0);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The next whole message of what was taken in.
    pub(crate) fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let Some(head) = self.inbox.first_chunk::<4>() else { return Ok(None) };
        let len = u32::from_le_bytes(*head) as usize;
        if len > LONGEST_BYTES {
            return Err(io::Error::new(ErrorKind::InvalidData, format!("a message of {len} bytes is none of ours")));
        }
        if self.inbox.len() < 4 + len {
            return Ok(None);
        }
        let rest = self.inbox.split_off(4 + len);
        let message = std::mem::replace(&mut self.inbox, rest);
        Ok(Some(serde_json::from_slice(&message[4..])?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_travel_whole_and_garbage_is_told() {
        let (one, other) = UnixStream::pair().unwrap();
        let (mut one, mut other) = (Link::new(one), Link::new(other));
        one.send(&Order::Grow { to: 5 }).unwrap();
        one.send(&Order::Stop).unwrap();
        assert!(matches!(other.receive().unwrap(), Some(Order::Grow { to: 5 })));
        assert!(matches!(other.receive().unwrap(), Some(Order::Stop)));
        other.send(&"nonsense").unwrap();
        assert!(one.receive::<Report>().is_err());
        drop(other);
        let (end, mut rest) = UnixStream::pair().unwrap();
        rest.write_all(&[255; 4]).unwrap();
        assert!(Link::new(end).receive::<Report>().is_err());
        assert!(one.receive::<Report>().unwrap().is_none());
    }
}
