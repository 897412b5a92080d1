//! The clock of deadlines: the system's, or one that a test advances.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The maximum duration of a wait with a [`ManualClock`], in milliseconds: advancing the clock does not wake the wait.
const MANUAL_WAIT_MS: u32 = 5;

/// A clock that stands still until it is advanced. Tests of deadlines that use it do not depend on the speed of the
/// machine. Copies show the same time.
#[derive(Debug, Clone, Default)]
pub struct ManualClock(Arc<AtomicU32>);

impl ManualClock {
    /// Advances the clock. Waits notice it within a few milliseconds.
    pub fn advance(&self, time: Duration) {
        // The clock wraps around, as the system's does after 49 days.
        self.0.fetch_add(time.as_millis() as u32, Ordering::SeqCst);
    }
}

/// The clock of a reactor or a ring.
#[derive(Debug)]
pub(crate) enum Clock {
    System(Instant),
    Manual(ManualClock),
}

impl Clock {
    /// Returns the system's clock, starting now.
    pub(crate) fn system() -> Self {
        Self::System(Instant::now())
    }

    /// Returns the milliseconds since the clock's start, modulo 2³².
    #[inline]
    pub(crate) fn now_ms(&self) -> u32 {
        match self {
            Self::System(start) => start.elapsed().as_millis() as u32,
            Self::Manual(clock) => clock.0.load(Ordering::SeqCst),
        }
    }

    /// Returns the maximum duration of a wait in milliseconds, if the clock limits it.
    pub(crate) fn longest_wait_ms(&self) -> Option<u32> {
        match self {
            Self::System(_) => None,
            Self::Manual(_) => Some(MANUAL_WAIT_MS),
        }
    }
}
