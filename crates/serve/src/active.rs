//! What a connection has while something is under way: a request that comes in pieces, or an answer that leaves in
//! pieces. Without descriptors, as [`crate::exchange`] is: how the bytes come and go is the workers' affair.

use crate::config::{Config, SLOWEST_BYTES};
use crate::exchange::{After, Rest, Unwanted, answer, answer_head};
use crate::send_buffers::SendBuffers;
use crate::site::Site;
use landau_reactor::Batch;
use landau_wire::http::Scan;

/// What a connection has while something is under way.
#[derive(Debug, Default)]
pub(crate) struct Active {
    /// What came and is not answered yet.
    pub(crate) input: Vec<u8>,
    /// How far the request's head in it was read.
    scan: Scan,
    /// What is still to be sent.
    pub(crate) batch: Batch,
    /// Whether the connection ends then.
    pub(crate) close: bool,
    /// A body that nobody wants and that has not ended; its request's head is the input.
    body: Option<Unwanted>,
    /// Of a part of a file that is being fetched, or a list that is being made: which wait it is.
    pub(crate) ticket: u32,
    /// What was given to the kernel since the deadline for sending was set.
    pub(crate) sent: u64,
    /// What the client had acknowledged when that deadline passed last.
    acknowledged: Option<u64>,
}

impl Active {
    /// Answers a request that has begun, as far as it has come now; none if that only brought its body further.
    pub(crate) fn go_on(
        &mut self,
        mut new: &[u8],
        site: &mut Site,
        config: &Config,
        send_buffers: &mut SendBuffers,
    ) -> Option<Rest> {
        if let Some(unwanted) = &mut self.body {
            match unwanted.skip(new) {
                Err(reject) => {
                    site.reject(reject, send_buffers);
                    return Some(Rest::end());
                }
                Ok((_, false)) => return None,
                Ok((used, true)) => new = &new[used..],
            }
            let unwanted = *unwanted;
            self.body = None;
            let mut head = std::mem::take(&mut self.input);
            let behind = unwanted.split(&mut head);
            if !answer_head(site, &config.limits, &head, send_buffers) {
                let input = [&head, &behind, new].concat();
                return Some(Rest::new(input, Scan::default(), After::List(Some(unwanted))));
            }
            self.input = behind;
        }
        self.input.extend_from_slice(new);
        let mut scan = self.scan;
        let mut input = std::mem::take(&mut self.input);
        let (used, after) = answer(site, config, &input, &mut scan, send_buffers);
        input.drain(..used);
        Some(Rest::new(input, scan, after))
    }

    /// Notes what of a request has come, and the body that goes on, if it has one.
    pub(crate) fn wait(&mut self, rest: Rest) {
        self.body = match rest.after {
            After::Body(unwanted) | After::List(Some(unwanted)) => Some(unwanted),
            _ => None,
        };
        (self.input, self.scan) = (rest.input, rest.scan);
    }

    /// Notes what is still to be sent, and what then.
    pub(crate) fn keep(&mut self, batch: &mut Batch, rest: Rest) {
        self.batch.clear();
        self.batch.append(batch);
        (self.close, self.sent, self.acknowledged) = (matches!(rest.after, After::Close(_)), 0, None);
        self.wait(rest);
    }

    /// When the deadline for sending has passed: whether the client has taken enough to be given as much time again.
    /// What it has acknowledged tells; without a call in each turn that is known from the first such moment on. The
    /// kernel's buffer holds megabytes: what that took since lies in it, and that it takes no more tells nothing about
    /// a client that is slow.
    pub(crate) fn is_taken(&mut self, acknowledged: Option<u64>) -> bool {
        let sent = std::mem::take(&mut self.sent);
        match (std::mem::replace(&mut self.acknowledged, acknowledged), acknowledged) {
            (Some(before), Some(now)) => now.saturating_sub(before) >= SLOWEST_BYTES,
            (None, Some(_)) => true,
            (_, None) => sent >= SLOWEST_BYTES,
        }
    }

    /// What was noted, when all that was kept has left.
    pub(crate) fn rest(&mut self) -> Rest {
        let (close, body) = (self.close, self.body.take());
        let (input, scan) = (std::mem::take(&mut self.input), self.scan);
        let after = match body {
            _ if close => After::Close(true),
            Some(unwanted) => After::Body(unwanted),
            None if input.is_empty() => After::Idle,
            None => After::More,
        };
        Rest { input, scan, after }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A head that was begun behind the answer is read again, and an end stays one.
    #[test]
    fn what_was_noted_comes_back_when_all_has_left() {
        let cases = [
            (&b""[..], After::Idle, After::Idle),
            (b"GET /", After::Head, After::More),
            (b"GET / HTTP/1.1\r\n\r\n", After::More, After::More),
            (b"", After::Close(false), After::Close(true)),
            (b"GET /", After::Close(true), After::Close(true)),
        ];
        for (input, after, expected) in cases {
            let (mut active, mut batch) = (Active { sent: 7, ..Active::default() }, Batch::default());
            active.keep(&mut batch, Rest::new(input.to_vec(), Scan::default(), after));
            assert_eq!(active.sent, 0);
            let rest = active.rest();
            assert_eq!((&rest.input[..], rest.after), (input, expected));
        }
    }

    /// Without an account of what the client has, what the kernel has must do.
    #[test]
    fn a_client_is_slow_by_what_it_acknowledges() {
        let mut active = Active { sent: 9 << 20, ..Active::default() };
        assert!(active.is_taken(Some(7)), "there is nothing to compare with yet");
        active.sent = 9 << 20;
        assert!(!active.is_taken(Some(7 + SLOWEST_BYTES - 1)));
        assert!(active.is_taken(Some(7 + 2 * SLOWEST_BYTES)));
        let mut active = Active { sent: SLOWEST_BYTES, ..Active::default() };
        assert!(active.is_taken(None) && !active.is_taken(None));
    }
}
