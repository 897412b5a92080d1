//! A worker's part of a crowd: connections that pile up and stay idle, and samples among them.
//!
//! Each connection makes one request when it is made, so that it is known to have been accepted and served; it is
//! watched from then on, so that one that the server closes is known to be gone. At most a window of connections is on
//! its way to its first answer, which keeps the server's queues from overflowing by our own doing.

use crate::engine::{Engine, Happening};
use crate::error::Result;
use crate::idle::Idle;
use crate::link::{Link, Order, Report};
use crate::plan::Plan;
use crate::worker::lost;
use landau_reactor::Interest;
use landau_sys::process::thread_time;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How long nothing new is tried after a connection could not be made.
const RETRY_NS: u64 = 100_000_000;

/// The longest wait: something always comes to be looked at.
const LONGEST_WAIT: Duration = Duration::from_millis(20);

/// Samples to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Samples {
    /// Requests on connections that stood idle.
    pub(crate) old: u32,
    /// New connections, with a request on each.
    pub(crate) fresh: u32,
    /// Requests before them that are not told: a process that slept is cold.
    pub(crate) discarded: u32,
}

/// Samples that were taken, in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// Of a request on a connection that stood idle: until the first and until the last byte of its answer.
    pub(crate) old: Vec<[u64; 2]>,
    /// Of a new connection: the handshake; from its request until the first and until the last byte.
    pub(crate) fresh: Vec<[u64; 3]>,
    /// Processor time of the worker, and how long it took.
    pub(crate) processor_ns: u64,
    /// How long it took.
    pub(crate) elapsed_ns: u64,
}

/// A sample that is being taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    /// None.
    Nobody,
    /// On that connection, which stood idle; whether it is told.
    Old { id: u32, is_told: bool },
    /// On a new connection.
    Fresh,
}

/// A worker's part of a crowd.
pub(crate) struct Crowd<'a> {
    plan: &'a Plan,
    engine: Engine,
    link: &'a mut Link,
    idle: Idle,
    /// How many are to stand, while they are made.
    to: Option<u32>,
    /// Connections that wait for their first answer.
    greeted: u32,
    next_connect_ns: u64,
    last_progress_ns: u64,
    samples: Option<Samples>,
    subject: Subject,
    measured: Measured,
    /// Whether the controller waits to be told how many connections stand.
    is_counting: bool,
    begun_ns: u64,
    usage_ns: u64,
    whole_usage: landau_sys::process::ProcessorTime,
    is_done: bool,
}

impl<'a> Crowd<'a> {
    pub(crate) fn new(plan: &'a Plan, engine: Engine, link: &'a mut Link) -> Self {
        Self {
            plan,
            engine,
            link,
            idle: Idle::new(plan.seed ^ u64::from(plan.share.0)),
            to: None,
            greeted: 0,
            next_connect_ns: 0,
            last_progress_ns: 0,
            samples: None,
            subject: Subject::Nobody,
            measured: Measured::default(),
            is_counting: false,
            begun_ns: 0,
            usage_ns: 0,
            whole_usage: thread_time(),
            is_done: false,
        }
    }

    pub(crate) fn run(mut self) -> Result<()> {
        let started_ns = self.engine.tick();
        self.link.send(&Report::Ready { open: 0 }).map_err(|error| lost(&error))?;
        while !self.is_done {
            let was_counting = self.is_counting;
            self.engine.wait(if was_counting { Duration::ZERO } else { LONGEST_WAIT })?;
            self.engine.tick();
            let mut is_quiet = true;
            while let Some(event) = self.engine.reactor.next_event() {
                is_quiet = false;
                let happening = self.engine.handle(event);
                self.heed(happening)?;
            }
            if was_counting && is_quiet {
                self.count()?;
            }
            let now_ns = self.engine.tick();
            for happening in self.engine.give_up(now_ns) {
                self.heed(happening)?;
            }
            self.grow()?;
        }
        self.engine.close_all();
        let usage = thread_time().since(self.whole_usage);
        let mut tally = self.engine.take_tally();
        tally.processor_ns = [usage.user_ns, usage.system_ns];
        tally.elapsed_ns = self.engine.tick() - started_ns;
        self.link.send(&Report::Done(Box::new(tally))).map_err(|error| lost(&error))
    }

    /// Makes connections until as many stand as were asked for, or none could be made for a while.
    fn grow(&mut self) -> Result<()> {
        let Some(to) = self.to else { return Ok(()) };
        let standing = self.idle.len() as u32;
        let now_ns = self.engine.now_ns;
        let is_stuck = now_ns.saturating_sub(self.last_progress_ns) > self.plan.timeout_ns.saturating_mul(2);
        let is_stuck = is_stuck || self.engine.finds_nobody(self.last_progress_ns);
        let on_their_way = self.engine.opening + self.greeted;
        if (standing >= to && on_their_way == 0) || is_stuck {
            self.to = None;
            return self.link.send(&Report::Grown { open: standing }).map_err(|error| lost(&error));
        }
        let mut missing = to.saturating_sub(standing + on_their_way);
        let mut room = self.plan.window.saturating_sub(on_their_way);
        while missing > 0 && room > 0 && self.engine.now_ns >= self.next_connect_ns {
            (missing, room) = (missing - 1, room - 1);
            self.next_connect_ns =
                self.engine.now_ns.max(self.next_connect_ns).saturating_add(self.plan.connect_gap_ns);
            if let Happening::Gone { .. } = self.engine.connect() {
                self.next_connect_ns = self.engine.now_ns + RETRY_NS;
            }
        }
        Ok(())
    }

    /// Tells how many connections stand, when nothing is left to be heard of any.
    fn count(&mut self) -> Result<()> {
        self.is_counting = false;
        let open = self.idle.len() as u32;
        self.link.send(&Report::Standing { open }).map_err(|error| lost(&error))
    }

    fn heed(&mut self, happening: Happening) -> Result<()> {
        match happening {
            Happening::Nothing | Happening::Alarm => Ok(()),
            Happening::Control => self.listen(),
            Happening::Open(id) => {
                if self.samples.is_none() {
                    self.greeted += 1;
                }
                self.ask(id)
            }
            Happening::Room(id) => self.answered(id),
            Happening::Gone { id, is_unmade } => self.gone(id, is_unmade),
        }
    }

    fn ask(&mut self, id: u32) -> Result<()> {
        let now_ns = self.engine.tick();
        match self.engine.request(id, now_ns, 1) {
            Ok(_) => Ok(()),
            Err(happening) => self.heed(happening),
        }
    }

    /// A connection was answered: its first request while the crowd grows, or a sample.
    fn answered(&mut self, id: u32) -> Result<()> {
        let last = self.engine.last;
        match self.subject {
            Subject::Old { id: own, is_told } if own == id => {
                if is_told {
                    self.measured.old.push([last.first_byte_ns, last.last_byte_ns]);
                }
                self.idle.add(id);
                self.next_sample()
            }
            Subject::Fresh => {
                self.measured.fresh.push([last.handshake_ns, last.first_byte_ns, last.last_byte_ns]);
                self.engine.discard(id, true);
                self.next_sample()
            }
            _ => {
                self.greeted = self.greeted.saturating_sub(1);
                self.last_progress_ns = self.engine.now_ns;
                self.idle.add(id);
                self.grow()
            }
        }
    }

    fn gone(&mut self, id: u32, is_unmade: bool) -> Result<()> {
        let before = self.idle.len();
        self.idle.remove(id);
        match self.subject {
            Subject::Old { id: own, .. } if own == id => self.next_sample(),
            Subject::Fresh if before == self.idle.len() => self.next_sample(),
            Subject::Nobody if is_unmade => {
                self.next_connect_ns = self.engine.now_ns + RETRY_NS;
                Ok(())
            }
            Subject::Nobody if before == self.idle.len() => {
                self.greeted = self.greeted.saturating_sub(1);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn listen(&mut self) -> Result<()> {
        if !self.link.fill().map_err(|error| lost(&error))? {
            return Err(crate::Error::Plan("the controller is gone".to_owned()));
        }
        self.engine.reactor.clear_readiness(self.link, Interest::READABLE);
        while let Some(order) = self.link.next::<Order>().map_err(|error| lost(&error))? {
            match order {
                Order::Grow { to } => {
                    self.to = Some(to);
                    self.last_progress_ns = self.engine.tick();
                    self.grow()?;
                }
                Order::Measure(samples) => {
                    self.samples = Some(samples);
                    self.measured = Measured::default();
                    self.begun_ns = self.engine.tick();
                    self.usage_ns = thread_time().total_ns();
                    self.next_sample()?;
                }
                Order::Count => self.is_counting = true,
                Order::Stop => self.is_done = true,
                Order::Plan(_) | Order::Start { .. } => {}
            }
        }
        Ok(())
    }

    /// Takes the next sample: one on an old connection and one on a new one in turn, so that both meet the same moment.
    fn next_sample(&mut self) -> Result<()> {
        self.subject = Subject::Nobody;
        loop {
            let Some(samples) = &mut self.samples else { return Ok(()) };
            let takes_old = samples.old > 0 && (samples.old >= samples.fresh || samples.fresh == 0);
            if samples.discarded > 0 || takes_old {
                let is_told = samples.discarded == 0;
                let counter = if is_told { &mut samples.old } else { &mut samples.discarded };
                *counter -= 1;
                let Some(id) = self.idle.take_any() else { continue };
                self.subject = Subject::Old { id, is_told };
                return self.ask(id);
            }
            if samples.fresh == 0 {
                break;
            }
            samples.fresh -= 1;
            self.subject = Subject::Fresh;
            if let Happening::Gone { .. } = self.engine.connect() {
                self.subject = Subject::Nobody;
                continue;
            }
            return Ok(());
        }
        self.samples = None;
        self.measured.processor_ns = thread_time().total_ns() - self.usage_ns;
        self.measured.elapsed_ns = self.engine.tick() - self.begun_ns;
        let measured = std::mem::take(&mut self.measured);
        self.link.send(&Report::Measured(Box::new(measured))).map_err(|error| lost(&error))
    }
}
