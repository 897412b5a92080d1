//! Translation of the kernel's completions into those of the caller.

use super::{Completion, Ring, WAKER, WRITABLE};
use crate::backend::Key;
use crate::error::Result;
use crate::interest::Token;
use landau_sys::epoll::READ;
use landau_sys::ring;
use std::os::fd::{AsFd, AsRawFd};

impl Ring {
    /// Returns the next completion, if there is one. Fails if an operation that follows from it cannot be submitted.
    pub fn next_completion(&mut self) -> Result<Option<Completion>> {
        while let Some(key) = self.due.pop_front() {
            // The deadline may have been set or cleared since it was found.
            if self.slot(key).is_none() || !self.timers.take_passed(key.fd() as u32) {
                continue;
            }
            let Some(slot) = self.slot(key) else { continue };
            let token = Token(slot.token);
            if let Some(fd) = slot.outgoing.as_mut().and_then(|outgoing| outgoing.closing.take()) {
                self.abort(fd)?;
                continue;
            }
            return Ok(Some(Completion::Deadline { token }));
        }
        while let Some(completion) = self.operations.next_completion() {
            if let Some(completion) = self.dispatch(completion)? {
                return Ok(Some(completion));
            }
        }
        Ok(None)
    }

    fn dispatch(&mut self, completion: ring::Completion) -> Result<Option<Completion>> {
        use ring::Completion as Of;
        match completion {
            Of::Polled { user_data: WAKER, .. } => self.on_wake(),
            Of::Polled { user_data, .. } if user_data & WRITABLE != 0 => {
                Ok(self.on_writable(Key(user_data & !WRITABLE)))
            }
            Of::Polled { user_data, result } => self.on_polled(Key(user_data), result),
            Of::Accepted { user_data, result, has_more } => Ok(self.on_accepted(Key(user_data), result, has_more)),
            Of::Received { user_data, result, has_more } => self.on_received(Key(user_data), result, has_more),
            Of::Sent { user_data, result, buffer, from } => self.on_sent(Key(user_data), result, buffer, from),
            Of::Closed { .. } => Ok(None),
        }
    }

    fn on_wake(&mut self) -> Result<Option<Completion>> {
        if let Some(receiver) = &self.waker {
            receiver.clear();
            self.operations.poll_add(receiver.as_fd().as_raw_fd(), READ, WAKER)?;
        }
        Ok(None)
    }
}
