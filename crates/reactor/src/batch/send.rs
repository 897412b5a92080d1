//! Sending a queue: which call to use, and when to stop.

use super::segment::{File, Segment};
use super::{Error, Progress, Queue};
use landau_sys::descriptor::is_writable;
use landau_sys::{Error as SystemError, stream};
use std::io::IoSlice;
use std::os::fd::AsFd;

/// The maximum number of buffers that one call sends. The kernel copies the list if it has more than 8.
pub(super) const IOV_MAX: usize = 16;

/// The maximum number of bytes that one turn sends. With more, a fast peer would starve the other connections of the
/// loop. With fewer, a large file costs more, both in calls and in the kernel, which then sends it in smaller pieces.
pub const TURN_BYTES: usize = 2 << 20;

/// The number of bytes that are read at once if a file must be read and written.
const READ_BYTES: usize = 16 << 10;

/// The destination of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Socket,
    /// A socket that is shut down immediately afterwards.
    SocketBeforeShutdown,
    Other,
}

impl Queue<'_> {
    /// Sends to a socket until everything is sent, the socket would block, or the turn is over.
    pub fn send(&mut self, socket: &impl AsFd) -> Result<Progress, Error> {
        self.send_to(socket, Target::Socket)
    }

    /// Like [`send`](Self::send), for a caller that shuts the socket down immediately afterwards: the last bytes and
    /// the end of the stream then leave in one segment instead of two. Without the shutdown, the kernel delays those
    /// bytes by 200 ms.
    pub fn send_before_shutdown(&mut self, socket: &impl AsFd) -> Result<Progress, Error> {
        self.send_to(socket, Target::SocketBeforeShutdown)
    }

    /// Writes to a descriptor that is not a socket: a pipe, a terminal, a file.
    pub fn write(&mut self, to: &impl AsFd) -> Result<Progress, Error> {
        self.send_to(to, Target::Other)
    }

    fn send_to(&mut self, to: &impl AsFd, target: Target) -> Result<Progress, Error> {
        let (mut sent, mut of_file, mut has_sent_file) = (0, 0, false);
        loop {
            let step = match self.segments.front() {
                None => return Ok(Progress::Done),
                Some(Segment::Buffer { .. }) => self.send_buffers(to, target),
                Some(Segment::File { .. }) if has_sent_file => return Ok(Progress::Yielded(sent)),
                Some(Segment::File { .. }) => {
                    let count = self.segments.len();
                    let step = self.send_file(to, target, TURN_BYTES - of_file);
                    of_file += step.as_ref().map_or(0, |(count, _)| *count);
                    has_sent_file = self.segments.len() < count;
                    step
                }
            };
            match step {
                Ok((count, is_full)) => {
                    sent += count;
                    if is_full && !self.is_empty() {
                        return Ok(Progress::Blocked(sent));
                    }
                }
                Err(Error::System(error)) if error.is_would_block() => return Ok(Progress::Blocked(sent)),
                Err(Error::System(error)) if error.is_interrupted() => {}
                Err(error) => return Err(error),
            }
            if sent >= TURN_BYTES && !self.is_empty() {
                return Ok(Progress::Yielded(sent));
            }
        }
    }

    /// Sends the buffers at the front. Returns the number of bytes, and whether the socket accepted less than it was
    /// given.
    fn send_buffers(&mut self, to: &impl AsFd, target: Target) -> Result<(usize, bool), Error> {
        let mut slices = [IoSlice::new(&[]); IOV_MAX];
        let (mut count, mut given) = (0, 0);
        for segment in &self.segments {
            let Segment::Buffer { buffer, from } = segment else { break };
            if count == IOV_MAX {
                break;
            }
            slices[count] = IoSlice::new(&buffer.bytes()[*from..]);
            given += slices[count].len();
            count += 1;
        }
        // The data that follows leaves in the same segment of the stream.
        let more = self.segments.len() > count || target == Target::SocketBeforeShutdown;
        count_call();
        let sent = match (&slices[..count], target) {
            (several, Target::Other) => stream::write_vectored(to, several)?,
            ([one], _) => stream::send(to, one, more)?,
            (several, _) => stream::send_vectored(to, several, more)?,
        };
        self.advance(sent);
        Ok((sent, sent < given && target != Target::Other))
    }

    /// Sends at most `most` bytes of the file at the front. Returns the number of bytes, and whether the socket is
    /// full.
    fn send_file(&mut self, to: &impl AsFd, target: Target, most: usize) -> Result<(usize, bool), Error> {
        let Some(Segment::File { file, offset, left, is_corked }) = self.segments.front_mut() else {
            return Ok((0, false));
        };
        let turn = (*left).min(most as u64) as usize;
        if target != Target::Other && !*is_corked && (turn as u64) < *left {
            // Only TCP has segments; other sockets refuse.
            *is_corked = set_cork(to, true).is_ok();
        }
        count_call();
        let sent = match stream::send_file(to, file, *offset, turn) {
            // `sendfile` cannot write to every kind of file: for example, not to one opened for appending.
            Err(error) if target == Target::Other && !error.is_would_block() => copy(to, file, *offset, turn)?,
            other => other?,
        };
        if sent == 0 {
            return Err(Error::Truncated { offset: *offset, missing: *left });
        }
        *offset += sent as u64;
        *left -= sent as u64;
        // Other reasons for a short send are the end of the file, an error of reading, and a signal. The question is
        // much cheaper than another `sendfile`, which takes references to pages before it finds the socket full.
        let is_full = target != Target::Other && sent < turn && !is_writable(to)?;
        if *left == 0 {
            if *is_corked {
                set_cork(to, false)?;
            }
            self.segments.pop_front();
        }
        Ok((sent, is_full))
    }
}

/// Reads a part of a file and writes it. Returns 0 at the end of the file.
fn copy(to: &impl AsFd, file: &File, offset: u64, count: usize) -> Result<usize, SystemError> {
    let mut buffer = [0; READ_BYTES];
    let got = stream::read_at(file, &mut buffer[..count.min(READ_BYTES)], offset)?;
    if got == 0 { Ok(0) } else { stream::write_vectored(to, &[IoSlice::new(&buffer[..got])]) }
}

fn set_cork(socket: &impl AsFd, is_corked: bool) -> Result<(), SystemError> {
    note_cork(is_corked);
    stream::set_cork(socket, is_corked)
}

#[cfg(not(test))]
fn count_call() {}

#[cfg(not(test))]
fn note_cork(_: bool) {}

#[cfg(test)]
use super::tests::{count_call, note_cork};
