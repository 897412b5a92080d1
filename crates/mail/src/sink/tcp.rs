//! A TCP receiver that discards received bytes or echoes them.

use super::conduct::{Conduct, Latency};
use super::counters::{Counted, counters};
use super::draw::Draws;
use super::protocol::{Opened, Origin, Protocol, Step, Then};
use std::sync::Arc;
use std::time::Duration;

counters! {
    /// A TCP sink has no counters except those of its connections.
    Counters {}
}

/// The treatment of received bytes by a TCP sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Discards them.
    #[default]
    Discard,
    /// Sends them back.
    Echo,
}

/// A TCP sink.
#[derive(Debug)]
pub struct Tcp {
    mode: Mode,
    latency: Latency,
    conduct: Conduct,
    idle: Duration,
    draws: Draws,
}

/// A connection: its number, and the number of receives.
#[derive(Debug)]
pub(crate) struct Session {
    number: u64,
    receives: u64,
}

impl Tcp {
    /// Returns a sink. With a latency, the reply to each receive is delayed by it, and nothing is received meanwhile.
    pub fn new(mode: Mode, latency: Latency, conduct: Conduct, idle: Duration, seed: u64) -> Self {
        Self { mode, latency, conduct, idle, draws: Draws::new(seed) }
    }
}

impl Protocol for Tcp {
    type Session = Session;

    fn open(&mut self, origin: &Origin, _now_ms: u32, _out: &mut Vec<u8>) -> Opened<Session> {
        let plan = self.conduct.plan(self.draws, origin.number);
        Opened { session: Session { number: origin.number, receives: 0 }, plan, step: Step::receive(0) }
    }

    fn step(&mut self, session: &mut Session, input: &[u8], _now_ms: u32, out: &mut Vec<u8>) -> Step {
        if input.is_empty() {
            return Step::receive(0);
        }
        if self.mode == Mode::Echo {
            out.extend_from_slice(input);
        }
        session.receives += 1;
        let delay = self.latency.draw(self.draws, session.number, session.receives);
        Step { consumed: input.len(), delay, then: Then::Receive }
    }

    fn expire(&mut self, _session: &mut Session, _out: &mut Vec<u8>) {}

    fn close(&mut self, _session: &mut Session) {}

    fn idle_timeout(&self, _session: &Session) -> Duration {
        self.idle
    }

    fn counters(&self) -> Arc<dyn Counted> {
        Arc::new(Counters::default())
    }
}
