//! The state of a connection while a request arrives in parts or a response leaves in parts. No descriptor is involved,
//! as in [`crate::exchange`].

use crate::config::{Config, SLOWEST_BYTES};
use crate::exchange::{After, Remainder, Unwanted, answer, answer_head};
use crate::http2;
use crate::memory::{Memory, Share};
use crate::proxy::Exchange;
use crate::send_buffers::SendBuffers;
use crate::site::{Site, Steps};
use landau_reactor::Batch;
use landau_wire::http::{Reject, Scan, Status};

/// The state of a connection while something is under way.
#[derive(Debug, Default)]
pub(crate) struct Active {
    /// The received bytes that are not answered yet.
    pub(crate) input: Vec<u8>,
    /// The progress of the scan for the end of the head in `input`.
    scan: Scan,
    /// The bytes and files still to be sent.
    pub(crate) batch: Batch,
    /// Whether the connection ends after they are sent.
    pub(crate) close: bool,
    /// A request body that has not ended; `input` then holds the head of that request.
    body: Option<Unwanted>,
    /// What has been done for the request at the start of `input`.
    steps: Steps,
    /// A request that was forwarded to an upstream server; `input` holds what follows that request.
    exchange: Option<Box<Exchange>>,
    /// The ticket of the fetch or lookup that the connection waits for. For a lingering connection, the time at which
    /// it ended, in milliseconds of the transport's clock.
    pub(crate) ticket: u32,
    /// The state of HTTP/2. If it is set, only the fields below it are used.
    pub(crate) http2: Option<Box<http2::Session>>,
    /// The bytes passed to the kernel since the send deadline was set.
    pub(crate) sent: u64,
    /// The bytes that the client had acknowledged when that deadline last passed.
    acknowledged: Option<u64>,
    /// The memory that this state is charged for.
    share: Share,
}

impl Active {
    /// Returns the state of a connection that ended at `now_ms`, whose client may still be sending.
    pub(crate) fn lingering(now_ms: u32, memory: &Memory) -> Self {
        Self { ticket: now_ms, share: Share::new(memory, size_of::<Self>()), ..Self::default() }
    }

    /// Answers a request that arrives in parts, given the bytes that arrived now. Returns `None` if they only continue
    /// its body.
    pub(crate) fn go_on(
        &mut self,
        mut new: &[u8],
        site: &mut Site,
        config: &Config,
        send_buffers: &mut SendBuffers,
    ) -> Option<Remainder> {
        if let Some(unwanted) = &mut self.body {
            match unwanted.skip(new) {
                Err(reject) => {
                    site.reject_head(reject, &self.input, send_buffers);
                    return Some(Remainder::end());
                }
                Ok((_, false)) => return None,
                Ok((used, true)) => new = &new[used..],
            }
            let unwanted = *unwanted;
            self.body = None;
            site.steps = std::mem::take(&mut self.steps);
            let mut head = std::mem::take(&mut self.input);
            let behind = unwanted.split(&mut head);
            if !answer_head(site, &config.limits, &head, send_buffers) {
                if site.forward.take().is_some() {
                    // The rules were replaced after the request began, and the bytes after its body belong to the next
                    // request.
                    let reason = "the rules changed: the request must now be forwarded, but its body was discarded";
                    site.reject_head(Reject { status: Status::SERVICE_UNAVAILABLE, reason }, &head, send_buffers);
                    return Some(Remainder::end());
                }
                let input = [&head, &behind, new].concat();
                return Some(Remainder::new(input, Scan::default(), After::look_up(site, Some(unwanted))));
            }
            self.input = behind;
        }
        self.input.extend_from_slice(new);
        site.steps = std::mem::take(&mut self.steps);
        let mut scan = self.scan;
        let mut input = std::mem::take(&mut self.input);
        let (used, after) = answer(site, config, &input, &mut scan, send_buffers);
        input.drain(..used);
        Some(Remainder::new(input, scan, after))
    }

    /// Keeps the part of a request that has arrived.
    pub(crate) fn wait(&mut self, rest: Remainder, memory: &Memory) {
        self.body = match rest.after {
            After::Body(unwanted) | After::LookUp { body: Some(unwanted), .. } => Some(unwanted),
            _ => None,
        };
        self.steps = match rest.after {
            After::LookUp { steps, .. } | After::Forward { steps } => steps,
            _ => Steps::default(),
        };
        (self.input, self.scan) = (rest.input, rest.scan);
        self.share = Share::new(memory, self.bytes());
    }

    /// Returns the memory in use, in bytes.
    fn bytes(&self) -> usize {
        let exchange = self.exchange.as_ref().map_or(0, |exchange| exchange.bytes());
        size_of::<Self>() + self.input.capacity() + self.batch.memory_bytes() + exchange
    }

    /// Returns the forwarded request.
    pub(crate) fn exchange(&self) -> Option<&Exchange> {
        self.exchange.as_deref()
    }

    /// Takes the forwarded request, to continue it.
    pub(crate) fn take_exchange(&mut self) -> Option<Box<Exchange>> {
        self.exchange.take()
    }

    /// Puts the forwarded request back.
    pub(crate) fn put_exchange(&mut self, exchange: Box<Exchange>) {
        self.exchange = Some(exchange);
        self.share.resize(self.bytes());
    }

    /// Returns the memory, in bytes, at the time when something was last kept.
    pub(crate) fn held_bytes(&self) -> usize {
        self.share.bytes() + self.http2.as_ref().map_or(0, |session| session.held_bytes())
    }

    /// Keeps what is still to be sent, and what to do after it is sent.
    pub(crate) fn keep(&mut self, batch: &mut Batch, rest: Remainder, memory: &Memory) {
        self.batch.clear();
        self.batch.append(batch);
        (self.close, self.sent, self.acknowledged) = (matches!(rest.after, After::Close(_)), 0, None);
        self.wait(rest, memory);
    }

    /// Returns whether the client has read enough since the send deadline last passed to be given the same time again.
    /// The acknowledged bytes decide. To save a system call in each turn, they are known only from the first such
    /// deadline on. The bytes that the kernel accepted say nothing about a slow client, because the send buffer holds
    /// megabytes.
    pub(crate) fn made_progress(&mut self, acknowledged: Option<u64>) -> bool {
        let sent = std::mem::take(&mut self.sent);
        match (std::mem::replace(&mut self.acknowledged, acknowledged), acknowledged) {
            (Some(before), Some(now)) => now.saturating_sub(before) >= SLOWEST_BYTES,
            (None, Some(_)) => true,
            (_, None) => sent >= SLOWEST_BYTES,
        }
    }

    /// Returns the remainder that was kept, after everything has been sent.
    pub(crate) fn take_remainder(&mut self) -> Remainder {
        let (close, body) = (self.close, self.body.take());
        let (input, scan) = (std::mem::take(&mut self.input), self.scan);
        let after = match body {
            _ if close => After::Close(true),
            Some(unwanted) => After::Body(unwanted),
            None if self.exchange.is_some() => After::Relay,
            None if input.is_empty() => After::Idle,
            None => After::More,
        };
        Remainder { input, scan, after }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A partial head after the response is scanned again, and `Close` stays `Close`.
    #[test]
    fn the_rest_is_restored_after_sending() {
        let cases = [
            (&b""[..], After::Idle, After::Idle),
            (b"GET /", After::Head, After::More),
            (b"GET / HTTP/1.1\r\n\r\n", After::More, After::More),
            (b"", After::Close(false), After::Close(true)),
            (b"GET /", After::Close(true), After::Close(true)),
        ];
        for (input, after, expected) in cases {
            let (mut active, mut batch) = (Active { sent: 7, ..Active::default() }, Batch::default());
            let memory = Memory::new(usize::MAX);
            active.keep(&mut batch, Remainder::new(input.to_vec(), Scan::default(), after), &memory);
            assert!(memory.used_bytes() >= input.len());
            assert_eq!(active.sent, 0);
            let rest = active.take_remainder();
            assert_eq!((&rest.input[..], rest.after), (input, expected));
        }
    }

    /// If the number of acknowledged bytes is unknown, the number that the kernel accepted decides.
    #[test]
    fn acknowledged_bytes_decide_whether_a_client_is_slow() {
        let mut active = Active { sent: 9 << 20, ..Active::default() };
        assert!(active.made_progress(Some(7)), "there is nothing to compare with yet");
        active.sent = 9 << 20;
        assert!(!active.made_progress(Some(7 + SLOWEST_BYTES - 1)));
        assert!(active.made_progress(Some(7 + 2 * SLOWEST_BYTES)));
        let mut active = Active { sent: SLOWEST_BYTES, ..Active::default() };
        assert!(active.made_progress(None) && !active.made_progress(None));
    }
}
