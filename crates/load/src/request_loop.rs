//! Closed loops, where a request follows the previous response, and open loops, where requests follow a schedule.
//!
//! The connections are opened first. Load begins at the common start, and the measured time after the warm-up. Every
//! request that was due before the end is sent, late if necessary, and its response is awaited: a server that stalls at
//! the end is charged for it.

use crate::backlog::Backlog;
use crate::clock::Clock;
use crate::connections::{Connections, Event};
use crate::error::{Error, Result};
use crate::failure::Failure;
use crate::idle_set::IdleSet;
use crate::link::Link;
use crate::message::{Command, Progress, Report};
use crate::metrics::Metrics;
use crate::pace::Pace;
use crate::plan::{Load, Plan};
use crate::schedule::Schedule;
use landau_sys::process::ProcessorTime;
use std::collections::VecDeque;
use std::time::Duration;

/// Time until a failed connection is retried.
const RETRY_NS: u64 = 100_000_000;

/// Time between two progress reports.
const PROGRESS_NS: u64 = 250_000_000;

/// The longest wait, so that timeouts and retries are checked in time.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// The length of the intervals in which the worker's CPU time is measured.
const SECOND_NS: u64 = 1_000_000_000;

/// A shorter interval, at the end of a run, counts only if it is the only one: its CPU share would be mostly chance.
const LEAST_NS: u64 = 200_000_000;

/// Maximum number of due requests that are handled before other events. If more requests fall due than can be sent,
/// some are always due, and responses and commands must not starve.
const DUE_PER_TURN: u32 = 256;

/// Maximum number of connections that are started between two waits for events. Thousands of attempts time out together
/// and are retried together; an established connection must not wait for all of them before its request is sent.
pub(crate) const OPENED_PER_WAIT: u32 = 64;

/// The stage of a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Connections are being opened.
    Connecting,
    /// The connections are open; the loop waits for the start.
    Ready,
    /// Requests are sent.
    Running,
    /// No more requests are sent; responses are awaited.
    Draining,
}

/// The times at which a running loop changes its behaviour, in nanoseconds of the clock.
#[derive(Debug)]
#[expect(clippy::struct_field_names, reason = "the unit comes last")]
struct Times {
    start_ns: u64,
    /// End of the warm-up.
    measure_ns: u64,
    half_ns: u64,
    end_ns: u64,
}

impl Times {
    const NEVER: Self = Self { start_ns: u64::MAX, measure_ns: u64::MAX, half_ns: u64::MAX, end_ns: u64::MAX };

    /// Derives the other times from the start. A time beyond the clock's range never comes.
    fn set(&mut self, plan: &Plan) {
        self.measure_ns = self.start_ns.saturating_add(plan.warm_up_ns);
        self.half_ns = plan.duration_ns.map_or(u64::MAX, |ns| self.measure_ns.saturating_add(ns / 2));
        self.end_ns = plan.duration_ns.map_or(u64::MAX, |ns| self.measure_ns.saturating_add(ns));
    }
}

/// The connections that are still to be opened.
#[derive(Debug)]
struct Openings {
    /// Connections to open as soon as the window and the connect rate permit.
    missing: u32,
    /// How many more may be started before the next wait for events.
    allowed: u32,
    /// The times at which failed connections are retried.
    retries: VecDeque<u64>,
    pace: Pace,
    /// The largest number of connections that were open at a time, and when it was reached.
    most_open: u32,
    opened_ns: u64,
    /// The time at which a connection was last established.
    established_ns: u64,
}

/// CPU time at two instants of the measured time.
#[derive(Debug)]
struct Usage {
    /// At its start.
    start: ProcessorTime,
    /// At the start of the current second.
    second: ProcessorTime,
    second_ns: u64,
}

/// A closed or an open loop.
pub(crate) struct RequestLoop<'a, C> {
    plan: &'a Plan,
    connections: Connections<C>,
    link: &'a mut Link,
    stage: Stage,
    times: Times,
    openings: Openings,
    idle: IdleSet,
    schedule: Option<Schedule>,
    /// Due requests that wait for a connection.
    backlog: Backlog,
    /// Metrics of the loop itself: requests due and pending, schedule lag, and the wait for a connection.
    metrics: Metrics,
    began_ns: u64,
    /// Measured requests that may still be sent.
    left: u64,
    is_past_half: bool,
    is_stopped: bool,
    /// CPU time, from the start of the measured time on.
    usage: Option<Usage>,
    next_progress_ns: u64,
}

impl<'a, C: Clock> RequestLoop<'a, C> {
    pub(crate) fn new(plan: &'a Plan, mut connections: Connections<C>, link: &'a mut Link) -> Self {
        let schedule = match plan.load {
            Load::Open { per_second, arrivals } => Some(Schedule::new(arrivals, per_second, plan.seed, plan.share)),
            _ => None,
        };
        let missing = if plan.connects_per_request() { 0 } else { plan.connections };
        let began_ns = connections.tick();
        Self {
            plan,
            connections,
            link,
            stage: Stage::Connecting,
            times: Times::NEVER,
            openings: Openings {
                missing,
                allowed: OPENED_PER_WAIT,
                retries: VecDeque::new(),
                pace: Pace::new(plan.connect_gap_ns),
                most_open: 0,
                opened_ns: began_ns,
                established_ns: 0,
            },
            idle: IdleSet::new(plan.seed ^ u64::from(plan.share.0)),
            schedule,
            backlog: Backlog::default(),
            metrics: Metrics::default(),
            began_ns,
            left: plan.request_count.unwrap_or(u64::MAX),
            is_past_half: false,
            is_stopped: false,
            usage: None,
            next_progress_ns: 0,
        }
    }

    pub(crate) fn run(mut self) -> Result<()> {
        while !self.turn()? {
            let until_ns = self.next_ns();
            self.connections.wait(until_ns, LONGEST_WAIT)?;
            self.openings.allowed = OPENED_PER_WAIT;
            // Handling a batch of events takes time: a request that falls due in the meantime must not wait for the end
            // of the batch.
            self.connections.tick();
            while let Some(event) = self.connections.next_event() {
                self.on_event(event)?;
                if self.schedule.is_some() {
                    self.send_due();
                }
            }
        }
        self.finish()
    }

    /// Does the work that depends on the time, whether events occurred or not. Returns whether the loop is over.
    fn turn(&mut self) -> Result<bool> {
        let now_ns = self.connections.tick();
        self.open_connections(now_ns);
        for event in self.connections.expire(now_ns) {
            self.on_event(event)?;
        }
        match self.stage {
            Stage::Connecting => self.report_ready(now_ns)?,
            Stage::Ready if now_ns >= self.times.start_ns => self.start(),
            Stage::Running => {
                if now_ns >= self.times.measure_ns && self.usage.is_none() {
                    self.measure();
                }
                self.send_due();
                self.note_half(now_ns);
                self.note_cpu(now_ns, SECOND_NS);
                let is_past_end = now_ns >= self.times.end_ns && self.next_due_ns() >= self.times.end_ns;
                if is_past_end || self.left == 0 || self.is_gone(now_ns) {
                    self.stage = Stage::Draining;
                    if self.schedule.is_none() {
                        self.connections.sent_last();
                    }
                    self.times.end_ns = self.times.end_ns.min(now_ns);
                    self.metrics.pending_at_end = self.pending();
                    let is_only = self.metrics.cpu_percents.is_empty();
                    self.note_cpu(now_ns, if is_only { 0 } else { LEAST_NS });
                }
            }
            _ => {}
        }
        if self.stage == Stage::Running && now_ns >= self.next_progress_ns {
            self.next_progress_ns = now_ns + PROGRESS_NS;
            self.report_progress()?;
        }
        let is_drained = self.connections.in_flight_count() == 0 && self.backlog.is_empty();
        let deadline_ns = self.times.end_ns.saturating_add(self.plan.timeout_ns.saturating_mul(2));
        Ok(self.stage == Stage::Draining && (is_drained || self.is_stopped || now_ns >= deadline_ns))
    }

    /// Returns whether a closed loop without a duration has lost its server: no connection is open, and for longer than
    /// any request or attempt to connect may take, no response arrived and no connection was established. Without this
    /// check the loop would never end. If connections are established but lose their requests, the loop ends as well,
    /// because each lost request counts.
    fn is_gone(&self, now_ns: u64) -> bool {
        let heard_ns = self.connections.last_response_ns().max(self.times.start_ns).max(self.openings.established_ns);
        let limit_ns = self.patience_ns().saturating_add(self.plan.timeout_ns);
        self.schedule.is_none()
            && self.times.end_ns == u64::MAX
            && self.connections.open_count() == 0
            && now_ns.saturating_sub(heard_ns) > limit_ns
    }

    /// Returns how long the next connection may take to be started and then established.
    fn patience_ns(&self) -> u64 {
        self.plan.timeout_ns.saturating_add(self.plan.connect_gap_ns)
    }

    /// Records the number of pending requests once, in the middle of the schedule.
    fn note_half(&mut self, now_ns: u64) {
        let half = self.plan.request_count.unwrap_or(0) / 2;
        if !self.is_past_half && (now_ns >= self.times.half_ns || self.left <= half) {
            self.is_past_half = true;
            self.metrics.pending_at_half = self.pending();
        }
    }

    /// Records the CPU time of the current interval, if it has lasted at least `least_ns`, and begins the next one.
    fn note_cpu(&mut self, now_ns: u64, least_ns: u64) {
        let Some(usage) = self.usage.as_mut().filter(|usage| now_ns.saturating_sub(usage.second_ns) >= least_ns) else {
            return;
        };
        let second = self.connections.cpu_time();
        let cpu_ns = second.since(std::mem::replace(&mut usage.second, second)).total_ns();
        self.metrics.count_cpu(cpu_ns, now_ns - std::mem::replace(&mut usage.second_ns, now_ns));
    }

    /// Returns the number of requests of a schedule that are due and neither answered nor lost.
    fn pending(&self) -> u64 {
        if self.schedule.is_some() { self.connections.in_flight_count() + self.backlog.len() } else { 0 }
    }

    /// Returns when the loop must act next without an event.
    fn next_ns(&self) -> u64 {
        let now_ns = self.connections.now_ns();
        let stage_ns = match self.stage {
            Stage::Ready => self.times.start_ns,
            Stage::Running => {
                let Times { measure_ns, end_ns, .. } = self.times;
                let stage_ns = if now_ns < measure_ns { measure_ns } else { end_ns };
                stage_ns.min(self.next_due_ns())
            }
            Stage::Connecting | Stage::Draining => u64::MAX,
        };
        stage_ns.min(self.next_connect_ns())
    }

    /// Returns when a missing connection may be started; `u64::MAX` if none is missing or the window is full.
    #[inline]
    fn next_connect_ns(&self) -> u64 {
        if self.can_open() { self.openings.pace.next_ns() } else { u64::MAX }
    }

    /// Returns whether a connection is missing and fits into the window.
    #[inline]
    fn can_open(&self) -> bool {
        self.openings.missing > 0 && self.connections.opening_count() < self.plan.window
    }

    /// Returns when the next request of the schedule is due; `u64::MAX` without a schedule.
    #[inline]
    fn next_due_ns(&self) -> u64 {
        self.schedule.as_ref().map_or(u64::MAX, |schedule| self.times.start_ns.saturating_add(schedule.due_ns()))
    }

    /// Starts missing connections, as the window and the connect rate permit, up to [`OPENED_PER_WAIT`].
    fn open_connections(&mut self, now_ns: u64) {
        let openings = &mut self.openings;
        while openings.retries.front().is_some_and(|&at_ns| at_ns <= now_ns) {
            openings.retries.pop_front();
            openings.missing += 1;
        }
        while self.openings.allowed > 0 && self.can_open() && self.openings.pace.is_due(now_ns) {
            self.openings.allowed -= 1;
            self.openings.missing -= 1;
            self.openings.pace.advance(now_ns);
            if self.connections.connect().is_none() {
                self.openings.retries.push_back(now_ns + RETRY_NS);
            }
        }
    }

    /// Reports that the connections are open, or that no further one has opened for too long. The time limit starts
    /// again with each further connection, because many connections at a low rate take longer.
    fn report_ready(&mut self, now_ns: u64) -> Result<()> {
        let Openings { missing, retries, opened_ns, .. } = &self.openings;
        let is_complete = *missing == 0 && retries.is_empty() && self.connections.opening_count() == 0;
        let is_refused = self.connections.is_refused(self.began_ns);
        if is_complete || is_refused || now_ns >= opened_ns.saturating_add(self.patience_ns()) {
            self.stage = Stage::Ready;
            self.link.send(&Report::Ready { open: self.connections.open_count() })?;
        }
        Ok(())
    }

    fn start(&mut self) {
        self.stage = Stage::Running;
        self.times.set(self.plan);
        self.connections.measure_from(self.times.measure_ns);
        if self.plan.warm_up_ns == 0 {
            self.measure();
        }
        if self.schedule.is_none() {
            for id in self.connections.open_ids() {
                self.idle.remove(id);
                self.connections.tick();
                self.feed(id);
            }
            let present = self.connections.open_count() + self.connections.opening_count();
            let absent = self.plan.connections.saturating_sub(present);
            self.openings.missing = absent.saturating_sub(self.openings.retries.len() as u32);
        }
    }

    /// Begins the measured time. Requests that were sent earlier do not count, whenever they are answered.
    fn measure(&mut self) {
        self.connections.restart_bytes();
        let start = self.connections.cpu_time();
        self.usage = Some(Usage { start, second: start, second_ns: self.connections.now_ns() });
    }

    /// Sends due requests, or adds them to the backlog, up to [`DUE_PER_TURN`].
    #[inline]
    fn send_due(&mut self) {
        if self.stage != Stage::Running {
            return;
        }
        for _ in 0..DUE_PER_TURN {
            let (due_ns, now_ns) = (self.next_due_ns(), self.connections.now_ns());
            if due_ns > now_ns || due_ns >= self.times.end_ns || self.left == 0 {
                return;
            }
            // Requests are sent in the order of their due times.
            let connection = if self.backlog.is_empty() { self.take_free() } else { None };
            let Some(schedule) = &mut self.schedule else { return };
            if connection.is_none() {
                self.backlog.push(schedule);
            }
            schedule.advance();
            if due_ns >= self.times.measure_ns {
                self.left -= 1;
                self.metrics.due += 1;
                self.metrics.phases.schedule_lag.record(now_ns - due_ns);
            }
            if let Some(id) = connection {
                self.send(id, due_ns);
                // With HTTP/2 the connection may accept another request.
                if self.plan.http2 && self.connections.has_room(id) {
                    self.idle.add(id);
                }
            }
            self.connect_for_backlog();
            self.connections.tick();
        }
    }

    /// Takes a connection that accepts a request. With HTTP/2, the server may have sent GOAWAY on an idle connection,
    /// or may accept fewer streams. Such a connection becomes available again after its next response or when the
    /// server accepts more streams, or it is replaced.
    #[inline]
    fn take_free(&mut self) -> Option<u32> {
        while let Some(id) = self.idle.take_any() {
            if !self.plan.http2 || self.connections.has_room(id) {
                return Some(id);
            }
        }
        None
    }

    /// Sends one request of the schedule.
    fn send(&mut self, id: u32, due_ns: u64) {
        if due_ns >= self.times.measure_ns {
            let wait_ns = self.connections.now_ns().saturating_sub(due_ns);
            self.metrics.phases.connection_wait.record(wait_ns);
        }
        if let (_, Some(event)) = self.connections.request(id, due_ns, 1) {
            self.on_closed(event);
        }
    }

    /// Opens connections for the backlog, if each request has its own connection.
    fn connect_for_backlog(&mut self) {
        if !self.plan.connects_per_request() {
            return;
        }
        let openings = &mut self.openings;
        let coming = self.connections.opening_count() as usize + openings.missing as usize + openings.retries.len();
        let room = self.plan.connections.saturating_sub(self.connections.open_count() + coming as u32);
        openings.missing += self.backlog.len().saturating_sub(coming as u64).min(room.into()) as u32;
        self.open_connections(self.connections.now_ns());
    }

    /// Sends requests on a connection that has room for them, or keeps it idle.
    #[inline]
    fn feed(&mut self, id: u32) {
        if self.schedule.is_some() {
            if self.plan.http2 && !self.connections.has_room(id) {
                return;
            }
            loop {
                match self.backlog.pop() {
                    Some(due_ns) => self.send(id, self.times.start_ns.saturating_add(due_ns)),
                    None => return self.idle.add(id),
                }
                if !self.plan.http2 || !self.connections.has_room(id) {
                    return;
                }
            }
        } else if self.stage == Stage::Running && self.left > 0 {
            let now_ns = self.connections.now_ns();
            // Requests that are lost with the connection have failed, and are not retried.
            let (sent, closed) = self.connections.request(id, now_ns, self.left);
            if now_ns >= self.times.measure_ns {
                self.left -= sent;
            }
            if self.left == 0 {
                self.connections.sent_last();
            }
            if let Some(event) = closed {
                self.on_closed(event);
            }
        } else {
            self.idle.add(id);
        }
    }

    #[inline]
    fn on_event(&mut self, event: Event) -> Result<()> {
        match event {
            Event::Open(id) => {
                self.note_open();
                self.feed(id);
            }
            Event::Ready(id) => self.feed(id),
            Event::Closed { .. } => self.on_closed(event),
            Event::None => {}
            Event::Command => return self.on_command(),
        }
        Ok(())
    }

    /// Records that a connection was established, and whether more are open than ever before. A connection that
    /// replaces another is not progress, because a server may accept and close all of them.
    fn note_open(&mut self) {
        let open = self.connections.open_count();
        self.openings.established_ns = self.connections.now_ns();
        if open > self.openings.most_open {
            self.openings.most_open = open;
            self.openings.opened_ns = self.connections.now_ns();
        }
    }

    /// Replaces a connection that was closed.
    fn on_closed(&mut self, event: Event) {
        let Event::Closed { id, was_established } = event else { return };
        self.idle.remove(id);
        if self.stage == Stage::Draining && self.backlog.is_empty() {
            return;
        }
        if !was_established {
            self.openings.retries.push_back(self.connections.now_ns() + RETRY_NS);
        } else if self.plan.connects_per_request() {
            self.connect_for_backlog();
        } else {
            self.openings.missing += 1;
            self.open_connections(self.connections.now_ns());
        }
    }

    fn on_command(&mut self) -> Result<()> {
        let is_open = self.link.fill()?;
        self.connections.controller_was_read(self.link);
        while let Some(command) = self.link.next::<Command>()? {
            match command {
                Command::Start { at_ns } => self.times.start_ns = at_ns,
                Command::Stop => {
                    if self.stage == Stage::Ready && self.times.start_ns == u64::MAX {
                        self.connections.fail_opening();
                    }
                    self.stage = Stage::Draining;
                    self.is_stopped = true;
                    self.times.end_ns = self.times.end_ns.min(self.connections.now_ns());
                }
                _ => {}
            }
        }
        if is_open { Ok(()) } else { Err(Error::ControllerExited) }
    }

    fn report_progress(&mut self) -> Result<()> {
        let metrics = self.connections.metrics();
        let progress = Progress {
            responses: metrics.responses,
            failures: metrics.failures.values().sum(),
            open: self.connections.open_count(),
            waiting: self.backlog.len(),
        };
        Ok(self.link.send(&Report::Progress(progress))?)
    }

    /// Counts the measured requests that were never sent. The time since they were due counts as their wait and as
    /// their latency.
    fn fail_unsent(&mut self) {
        let now_ns = self.connections.tick();
        let mut count = 0;
        while let Some(due_ns) = self.backlog.pop() {
            let due_ns = self.times.start_ns.saturating_add(due_ns);
            let Some(measured_ns) = due_ns.checked_sub(self.times.measure_ns) else { continue };
            let waited_ns = now_ns.saturating_sub(due_ns);
            self.metrics.phases.connection_wait.record_censored(waited_ns);
            self.metrics.phases.latency.record_censored(waited_ns);
            self.metrics.latency_series.record(measured_ns, waited_ns);
            count += 1;
        }
        let detail = || "no connection became free before the end of the run".to_owned();
        self.metrics.fail_all(count, Failure::NeverSent, detail);
    }

    /// Counts requests that were never sent or never answered, and reports the metrics.
    fn finish(mut self) -> Result<()> {
        let usage = self.usage.take().map(|usage| self.connections.cpu_time().since(usage.start));
        if !self.is_stopped {
            self.fail_unsent();
            self.connections.fail_in_flight();
        }
        let last_ns = self.connections.last_response_ns();
        self.connections.close_all();
        let mut metrics = self.connections.take_metrics();
        // If the run ended without all responses, the time up to its end counts: the server may have stalled.
        let is_whole = self.plan.request_count.is_some_and(|count| metrics.responses >= count);
        let end_ns = if is_whole { last_ns } else { self.times.end_ns.max(last_ns) };
        self.metrics.not_made = if self.plan.request_count.is_some() { self.left } else { 0 };
        metrics.merge(&self.metrics);
        if let Some(usage) = usage {
            metrics.cpu_ns = [usage.user_ns, usage.system_ns];
            metrics.elapsed_ns = end_ns.saturating_sub(self.times.measure_ns);
        }
        Ok(self.link.send(&Report::Done(Box::new(metrics)))?)
    }
}
