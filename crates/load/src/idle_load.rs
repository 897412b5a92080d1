//! A worker's part of an idle load: connections that are opened step by step and stay idle, and samples among them.
//!
//! Each connection makes one request when it is opened, which proves that the server accepted and served it. From then
//! on it is watched, so that the worker notices if the server closes it. In each worker the number of connections that
//! wait for their first response is limited, and so is the number of workers that open connections at the same time, so
//! that the generator does not overflow the server's queues. The controller decides when it is a worker's turn.

use crate::clock::Clock;
use crate::connections::{Connections, Event};
use crate::error::{Error, Result};
use crate::idle_set::IdleSet;
use crate::link::Link;
use crate::message::{Command, Report, SampleCounts, SampleTimes};
use crate::pace::Pace;
use crate::plan::Plan;
use crate::request_loop::OPENED_PER_WAIT;
use std::time::Duration;

/// Time until the next attempt after a connection failed.
const RETRY_NS: u64 = 100_000_000;

/// The longest wait, so that timeouts are checked in time.
const LONGEST_WAIT: Duration = Duration::from_millis(20);

/// The longest wait of a worker that only holds idle connections: it must not disturb the samples of other workers.
/// Commands and closed connections wake it.
const LONGEST_REST: Duration = Duration::from_secs(1);

/// The sample in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    /// None.
    None,
    /// A request on an idle connection.
    Idle { id: u32, is_reported: bool },
    /// A new connection.
    New { id: u32 },
}

/// Opening of idle connections up to a number.
#[derive(Debug)]
struct Opening {
    /// The number to reach; `None` when nothing is to be opened.
    to: Option<u32>,
    /// Connections that wait for their first response.
    first_requests: u32,
    pace: Pace,
    /// Connections that may still be started before the next wait.
    allowed: u32,
    last_progress_ns: u64,
}

/// Sampling among the idle connections.
#[derive(Debug)]
struct Sampling {
    /// Samples left to take; `None` if none were requested.
    left: Option<SampleCounts>,
    subject: Subject,
    times: SampleTimes,
    began_ns: u64,
    usage_ns: u64,
}

/// A worker's part of an idle load.
pub(crate) struct IdleLoad<'a, C> {
    plan: &'a Plan,
    connections: Connections<C>,
    link: &'a mut Link,
    idle: IdleSet,
    opening: Opening,
    sampling: Sampling,
    /// Whether the controller waits for the number of open connections.
    is_counting: bool,
    is_done: bool,
}

impl<'a, C: Clock> IdleLoad<'a, C> {
    pub(crate) fn new(plan: &'a Plan, connections: Connections<C>, link: &'a mut Link) -> Self {
        Self {
            plan,
            connections,
            link,
            idle: IdleSet::new(plan.seed ^ u64::from(plan.share.0)),
            opening: Opening {
                to: None,
                first_requests: 0,
                pace: Pace::new(plan.connect_gap_ns),
                allowed: OPENED_PER_WAIT,
                last_progress_ns: 0,
            },
            sampling: Sampling {
                left: None,
                subject: Subject::None,
                times: SampleTimes::default(),
                began_ns: 0,
                usage_ns: 0,
            },
            is_counting: false,
            is_done: false,
        }
    }

    pub(crate) fn run(mut self) -> Result<()> {
        let (began_ns, usage) = (self.connections.tick(), self.connections.cpu_time());
        self.link.send(&Report::Ready { open: 0 })?;
        while !self.is_done {
            let was_counting = self.is_counting;
            self.connections.wait(self.next_connect_ns(), self.longest_wait())?;
            self.opening.allowed = OPENED_PER_WAIT;
            self.connections.tick();
            let mut is_quiet = true;
            while let Some(event) = self.connections.next_event() {
                is_quiet = false;
                self.on_event(event)?;
            }
            if was_counting && is_quiet {
                self.report_count()?;
            }
            let now_ns = self.connections.tick();
            for event in self.connections.expire(now_ns) {
                self.on_event(event)?;
            }
            self.open()?;
        }
        self.connections.close_all();
        let usage = self.connections.cpu_time().since(usage);
        let mut metrics = self.connections.take_metrics();
        metrics.cpu_ns = [usage.user_ns, usage.system_ns];
        metrics.elapsed_ns = self.connections.tick() - began_ns;
        Ok(self.link.send(&Report::Done(Box::new(metrics)))?)
    }

    /// Returns the number of connections that were started but have not yet received a response.
    fn coming(&self) -> u32 {
        self.connections.opening_count() + self.opening.first_requests
    }

    /// Returns when a missing connection may be started; `u64::MAX` if none is missing or the window is full.
    fn next_connect_ns(&self) -> u64 {
        let coming = self.coming();
        let is_missing = self.opening.to.is_some_and(|to| self.idle.len() as u32 + coming < to);
        if is_missing && coming < self.plan.window { self.opening.pace.next_ns() } else { u64::MAX }
    }

    fn longest_wait(&self) -> Duration {
        let is_resting = self.opening.to.is_none() && self.sampling.left.is_none() && !self.connections.is_waiting();
        if self.is_counting {
            Duration::ZERO
        } else if is_resting {
            LONGEST_REST
        } else {
            LONGEST_WAIT
        }
    }

    /// Opens connections until the requested number is open, or until none has succeeded for a while.
    fn open(&mut self) -> Result<()> {
        let Some(to) = self.opening.to else { return Ok(()) };
        let open = self.idle.len() as u32;
        let progress_ns = self.opening.last_progress_ns;
        let elapsed_ns = self.connections.now_ns().saturating_sub(progress_ns);
        let limit_ns = self.plan.timeout_ns.saturating_mul(2).saturating_add(self.plan.connect_gap_ns);
        let is_stuck = elapsed_ns > limit_ns || self.connections.is_refused(progress_ns);
        let coming = self.coming();
        if (open >= to && coming == 0) || is_stuck {
            self.opening.to = None;
            let next_connect_ns = self.opening.pace.next_ns();
            return Ok(self.link.send(&Report::Opened { open, next_connect_ns })?);
        }
        let missing = to.saturating_sub(open + coming);
        let room = self.plan.window.saturating_sub(coming);
        for _ in 0..missing.min(room).min(self.opening.allowed) {
            let now_ns = self.connections.now_ns();
            if !self.opening.pace.is_due(now_ns) {
                break;
            }
            self.opening.pace.advance(now_ns);
            self.opening.allowed -= 1;
            if self.connections.connect().is_none() {
                self.opening.pace.delay(self.connections.now_ns() + RETRY_NS);
            }
        }
        Ok(())
    }

    /// Reports the number of open connections, after all events were handled.
    fn report_count(&mut self) -> Result<()> {
        self.is_counting = false;
        Ok(self.link.send(&Report::Counted { open: self.idle.len() as u32 })?)
    }

    fn on_event(&mut self, event: Event) -> Result<()> {
        match event {
            Event::None => Ok(()),
            Event::Command => self.on_command(),
            Event::Open(id) => {
                if self.sampling.subject != (Subject::New { id }) {
                    self.opening.first_requests += 1;
                }
                self.request(id)
            }
            Event::Ready(id) => self.on_response(id),
            Event::Closed { id, was_established } => self.on_closed(id, was_established),
        }
    }

    fn request(&mut self, id: u32) -> Result<()> {
        let now_ns = self.connections.tick();
        match self.connections.request(id, now_ns, 1) {
            (_, None) => Ok(()),
            (_, Some(event)) => self.on_event(event),
        }
    }

    /// Handles the first response of a connection, or the response of a sample.
    fn on_response(&mut self, id: u32) -> Result<()> {
        let last = self.connections.last_response();
        let times = &mut self.sampling.times;
        match self.sampling.subject {
            Subject::Idle { id: sampled, is_reported } if sampled == id => {
                if is_reported {
                    times.on_idle_ns.push([last.first_byte_ns, last.last_byte_ns]);
                }
                self.connections.rest(id);
                self.idle.add(id);
                self.next_sample()
            }
            Subject::New { id: sampled } if sampled == id => {
                let handshake_ns = self.connections.handshake_ns(id);
                times.on_new_ns.push([handshake_ns, last.first_byte_ns, last.last_byte_ns]);
                self.connections.close(id, true);
                self.next_sample()
            }
            // The first response of a connection. During a sample, it is a late one: the worker had given up waiting
            // for it.
            _ => {
                self.opening.first_requests = self.opening.first_requests.saturating_sub(1);
                self.opening.last_progress_ns = self.connections.now_ns();
                self.connections.rest(id);
                self.idle.add(id);
                self.open()
            }
        }
    }

    fn on_closed(&mut self, id: u32, was_established: bool) -> Result<()> {
        let was_idle = self.idle.remove(id);
        match self.sampling.subject {
            Subject::Idle { id: sampled, .. } | Subject::New { id: sampled } if sampled == id => self.next_sample(),
            _ if !was_established => {
                self.opening.pace.delay(self.connections.now_ns() + RETRY_NS);
                Ok(())
            }
            _ if !was_idle => {
                self.opening.first_requests = self.opening.first_requests.saturating_sub(1);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn on_command(&mut self) -> Result<()> {
        if !self.link.fill()? {
            return Err(Error::ControllerExited);
        }
        self.connections.controller_was_read(self.link);
        while let Some(command) = self.link.next::<Command>()? {
            match command {
                Command::Open { to, from_ns } => {
                    self.opening.to = Some(to);
                    self.opening.pace.delay(from_ns);
                    self.opening.last_progress_ns = self.connections.tick();
                    self.open()?;
                }
                Command::Sample(counts) => {
                    self.sampling.left = Some(counts);
                    self.sampling.times = SampleTimes::default();
                    self.sampling.began_ns = self.connections.tick();
                    self.sampling.usage_ns = self.connections.cpu_time().total_ns();
                    self.connections.measure_handshakes_from(self.sampling.began_ns);
                    self.next_sample()?;
                }
                Command::Count => self.is_counting = true,
                Command::Stop => self.is_done = true,
                Command::Plan(_) | Command::Start { .. } => {}
            }
        }
        Ok(())
    }

    /// Takes the next sample, alternately on an idle connection and on a new one, so that both see the same conditions.
    fn next_sample(&mut self) -> Result<()> {
        self.sampling.subject = Subject::None;
        loop {
            let Some(left) = &mut self.sampling.left else { return Ok(()) };
            let is_idle_next = left.on_idle > 0 && (left.on_idle >= left.on_new || left.on_new == 0);
            if left.discarded > 0 || is_idle_next {
                let is_reported = left.discarded == 0;
                let counter = if is_reported { &mut left.on_idle } else { &mut left.discarded };
                *counter -= 1;
                let Some(id) = self.idle.take_any() else { continue };
                self.sampling.subject = Subject::Idle { id, is_reported };
                return self.request(id);
            }
            if left.on_new == 0 {
                break;
            }
            left.on_new -= 1;
            if let Some(id) = self.connections.connect() {
                self.sampling.subject = Subject::New { id };
                return Ok(());
            }
            self.connections.fail_backlog();
        }
        self.sampling.left = None;
        // The connections of the next step count as set-up again.
        self.connections.measure_handshakes_from(u64::MAX);
        let mut times = std::mem::take(&mut self.sampling.times);
        times.cpu_ns = self.connections.cpu_time().total_ns() - self.sampling.usage_ns;
        times.elapsed_ns = self.connections.tick() - self.sampling.began_ns;
        Ok(self.link.send(&Report::Sampled(Box::new(times)))?)
    }
}
