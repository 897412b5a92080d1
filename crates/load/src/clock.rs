//! The clock of a load, and waiting for events until a time on this clock.
//!
//! The connections are generic over their clock, so that tests can run them in virtual time, where nothing waits and
//! every latency is exact. For the system's clock the compiler generates a specialized copy, which reads the clock by a
//! direct call.

use crate::error::Result;
use landau_reactor::{Event, Interest, Reactor, Token};
use landau_sys::clock::monotonic_ns;
use landau_sys::process::{ProcessorTime, thread_time};
use landau_sys::timerfd::TimerFd;
use std::time::Duration;

/// The token of the timer's events.
const TIMER: Token = Token(u32::MAX - 2);

/// A clock and the wait for events.
pub(crate) trait Clock {
    /// Returns the time in nanoseconds.
    fn now_ns(&self) -> u64;

    /// Returns the CPU time that the load has used.
    fn cpu_time(&self) -> ProcessorTime;

    /// Waits for events until `until_ns`, `longest` after `now_ns`, or the first event, whichever comes first.
    fn wait(&mut self, reactor: &mut Reactor, now_ns: u64, until_ns: u64, longest: Duration) -> Result<()>;

    /// Consumes an event if it belongs to the clock. Returns whether it does.
    fn consume(&mut self, reactor: &mut Reactor, event: Event) -> bool;
}

/// `CLOCK_MONOTONIC`.
#[derive(Debug)]
pub(crate) struct SystemClock {
    /// Whether a wait must not end late, even by a millisecond.
    is_precise: bool,
    timer: Option<TimerFd>,
    /// The time that the timer is set to.
    timer_ns: u64,
}

impl SystemClock {
    /// Returns a clock whose waits may end up to a millisecond late.
    pub(crate) fn coarse() -> Self {
        Self { is_precise: false, timer: None, timer_ns: 0 }
    }

    /// Returns a clock whose waits end on time: with a timer if the system has one, otherwise by polling during the
    /// last millisecond.
    pub(crate) fn precise(reactor: &mut Reactor) -> Result<Self> {
        let timer = TimerFd::new().ok();
        if let Some(timer) = &timer {
            reactor.register_nonblocking(timer, TIMER, Interest::READABLE)?;
        }
        Ok(Self { is_precise: true, timer, timer_ns: 0 })
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now_ns(&self) -> u64 {
        monotonic_ns()
    }

    fn cpu_time(&self) -> ProcessorTime {
        thread_time()
    }

    fn wait(&mut self, reactor: &mut Reactor, now_ns: u64, until_ns: u64, longest: Duration) -> Result<()> {
        let left = Duration::from_nanos(until_ns.saturating_sub(now_ns)).min(longest);
        let limit = match &self.timer {
            _ if left.is_zero() => left,
            Some(timer) => {
                let at_ns = if until_ns == u64::MAX { 0 } else { until_ns };
                if self.timer_ns != at_ns && timer.set(at_ns).is_ok() {
                    self.timer_ns = at_ns;
                }
                longest
            }
            // Waits are rounded up to whole milliseconds, so the last millisecond is spent polling.
            None if self.is_precise => Duration::from_millis(left.as_millis() as u64),
            None => left,
        };
        Ok(reactor.wait(Some(limit))?)
    }

    #[inline]
    fn consume(&mut self, reactor: &mut Reactor, event: Event) -> bool {
        if event.token != TIMER {
            return false;
        }
        if let Some(timer) = &self.timer {
            reactor.clear_readiness(timer, Interest::READABLE);
        }
        true
    }
}

/// Returns a duration in nanoseconds, saturated at `u64::MAX` (584 years).
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
