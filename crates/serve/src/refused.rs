//! Refused connections. They stay open for a moment after their response, because a client may send its request only
//! then. If the connection were closed, the kernel would answer with a reset, which most clients report instead of the
//! response.

use landau_sys::stream;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// How long a refused connection stays open.
const STAY_MS: u32 = 1000;

/// More bytes than a refused request has, but few enough not to delay other clients.
const DISCARD_BYTES: usize = 64 << 10;

/// The refused connections of a worker, in the order in which they were refused.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    open: VecDeque<(OwnedFd, u32)>,
}

impl Refused {
    /// Keeps a connection that was refused at `now_ms`. Call [`Refused::limit`] afterwards.
    pub(crate) fn keep(&mut self, fd: OwnedFd, now_ms: u32) {
        self.open.push_back((fd, now_ms));
    }

    /// Closes the oldest connections if there are more than `most`.
    #[inline]
    pub(crate) fn limit(&mut self, most: usize) {
        while self.open.len() > most {
            self.end_first();
        }
    }

    /// Closes connections that have been open for `STAY_MS`.
    #[inline]
    pub(crate) fn tick(&mut self, now_ms: u32) {
        while self.open.front().is_some_and(|(_, since_ms)| now_ms.wrapping_sub(*since_ms) >= STAY_MS) {
            self.end_first();
        }
    }

    /// Returns how long the worker may wait before it checks again; `None` if no connection is open.
    #[inline]
    pub(crate) fn max_wait(&self, now_ms: u32) -> Option<Duration> {
        let (_, since_ms) = self.open.front()?;
        Some(Duration::from_millis(u64::from(STAY_MS.saturating_sub(now_ms.wrapping_sub(*since_ms)))))
    }

    /// Closes the oldest connection. Unread bytes from the client are discarded first, because they would cause a
    /// reset.
    fn end_first(&mut self) {
        if let Some((fd, _)) = self.open.pop_front() {
            let _ = stream::discard(&fd, DISCARD_BYTES);
        }
    }
}

impl Drop for Refused {
    fn drop(&mut self) {
        self.limit(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    const FEW: usize = 16;

    #[test]
    fn the_oldest_end_first_and_all_end_in_time() {
        let (mut refused, mut clients) = (Refused::default(), Vec::new());
        for number in 0..FEW as u32 + 2 {
            let (client, server) = UnixStream::pair().unwrap();
            server.set_nonblocking(true).unwrap();
            client.set_nonblocking(true).unwrap();
            clients.push(client);
            refused.keep(server.into(), 100 + number);
        }
        refused.limit(FEW);
        let open = |clients: &mut Vec<UnixStream>| {
            let is_open = |client: &mut UnixStream| client.read(&mut [0]).is_err();
            clients.iter_mut().map(is_open).collect::<Vec<_>>()
        };
        let expected = |ended: usize| (0..FEW + 2).map(|number| number >= ended).collect::<Vec<_>>();
        assert_eq!((open(&mut clients), refused.max_wait(102)), (expected(2), Some(Duration::from_secs(1))));
        refused.tick(102 + STAY_MS);
        assert_eq!(open(&mut clients), expected(3));
        refused.tick(u32::MAX);
        assert_eq!((open(&mut clients), refused.max_wait(0)), (expected(FEW + 2), None));
    }
}
