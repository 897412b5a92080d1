//! The server's processor time per reply, while it serves.

use super::Server;
use landau_sys::clock::monotonic_ns;

/// The pause after a reading, as a multiple of the duration of the reading, so that readings take at most 2% of the
/// time. Reading a server with a thousand children takes a millisecond.
const PAUSE: u64 = 50;

/// Reads a server's processor time.
#[derive(Debug)]
pub(crate) struct Meter {
    /// The replies and the processor time at the last reading.
    replies: u64,
    time_ns: u64,
    /// When the last reading ended, and how long it took.
    ended_ns: u64,
    took_ns: u64,
    /// The processor time per reply between the last two readings.
    each_ns: u64,
}

impl Meter {
    /// Returns a meter of a server that has sent no reply yet.
    pub(crate) fn new(server: &Server) -> Self {
        let time_ns = server.time_ns().unwrap_or(0);
        Self { replies: 0, time_ns, ended_ns: monotonic_ns(), took_ns: 0, each_ns: 0 }
    }

    /// Returns the processor time per reply between the last two readings. Reads again if there are further replies and
    /// the pause is over.
    pub(crate) fn each_ns(&mut self, server: &Server, replies: u64) -> u64 {
        let began_ns = monotonic_ns();
        if replies > self.replies
            && began_ns >= self.ended_ns + PAUSE * self.took_ns
            && let Some(time_ns) = server.time_ns()
        {
            self.each_ns = time_ns.saturating_sub(self.time_ns) / (replies - self.replies);
            self.ended_ns = monotonic_ns();
            self.took_ns = self.ended_ns - began_ns;
            (self.replies, self.time_ns) = (replies, time_ns);
        }
        self.each_ns
    }
}
