//! Loops: closed, where a request follows the last answer, and open, where it follows a schedule.
//!
//! Connections are made first; at the common start load begins, after the warm-up it is measured. Requests that were
//! due before the end are all sent, late if need be, and their answers awaited, so that a server that stalls at the end
//! is charged for it.

use crate::backlog::Backlog;
use crate::engine::{ALARM, Engine, Happening};
use crate::error::Result;
use crate::idle::Idle;
use crate::link::{Link, Order, Progress, Report};
use crate::plan::{Load, Plan};
use crate::schedule::Schedule;
use crate::tally::Failure;
use crate::worker::lost;
use landau_reactor::Interest;
use landau_sys::process::{ProcessorTime, thread_time};
use landau_sys::timerfd::TimerFd;
use std::collections::VecDeque;
use std::time::Duration;

/// How long a connection that could not be made is not tried again.
const RETRY_NS: u64 = 100_000_000;

/// How often the controller is told how far it is.
const PROGRESS_NS: u64 = 250_000_000;

/// The longest wait: something always comes to be looked at.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// Requests that are looked at in one turn when they have fallen due. If there are more, answers and the controller are
/// heard before the others: where more falls due than can be sent, there always are.
const DUE_AT_ONCE: u32 = 256;

/// What the loop is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Connections are made.
    Connecting,
    /// They stand; the start is awaited.
    Ready,
    /// Load is made.
    Running,
    /// No more is sent; answers are awaited.
    Draining,
}

/// A closed or an open loop.
pub(crate) struct Loop<'a> {
    plan: &'a Plan,
    engine: Engine,
    link: &'a mut Link,
    stage: Stage,
    idle: Idle,
    schedule: Option<Schedule>,
    alarm: Option<TimerFd>,
    alarm_at_ns: u64,
    /// Requests that are due and wait for a connection.
    queue: Backlog,
    /// When connections that could not be made are tried again.
    retries: VecDeque<u64>,
    /// Connections that are to be made as soon as the window has room.
    unmade: u32,
    begun_ns: u64,
    next_connect_ns: u64,
    start_ns: u64,
    measure_ns: u64,
    half_ns: u64,
    end_ns: u64,
    /// Requests that may still be sent.
    left: u64,
    is_past_half: bool,
    is_stopped: bool,
    usage: ProcessorTime,
    next_progress_ns: u64,
}

impl<'a> Loop<'a> {
    pub(crate) fn new(plan: &'a Plan, mut engine: Engine, link: &'a mut Link) -> Result<Self> {
        let schedule = match plan.load {
            Load::Open { per_second, arrivals } => Some(Schedule::new(arrivals, per_second, plan.seed, plan.share)),
            _ => None,
        };
        // Where there is no alarm, the last millisecond before a request is due is spent looking at the clock.
        let alarm = schedule.as_ref().and_then(|_| TimerFd::new().ok());
        if let Some(alarm) = &alarm {
            engine.watch(alarm, ALARM)?;
        }
        let begun_ns = engine.tick();
        Ok(Self {
            plan,
            engine,
            link,
            stage: Stage::Connecting,
            idle: Idle::new(plan.seed ^ u64::from(plan.share.0)),
            schedule,
            alarm,
            alarm_at_ns: 0,
            queue: Backlog::default(),
            retries: VecDeque::new(),
            unmade: if plan.is_of_fresh_connections() { 0 } else { plan.connections },
            begun_ns,
            next_connect_ns: 0,
            start_ns: u64::MAX,
            measure_ns: u64::MAX,
            half_ns: u64::MAX,
            end_ns: u64::MAX,
            left: plan.request_count.unwrap_or(u64::MAX),
            is_past_half: false,
            is_stopped: false,
            usage: ProcessorTime::default(),
            next_progress_ns: 0,
        })
    }

    pub(crate) fn run(mut self) -> Result<()> {
        while !self.turn()? {
            let limit = self.limit();
            self.engine.wait(limit)?;
            // Events take their time: what falls due meanwhile must not wait for the last of them.
            self.engine.tick();
            while let Some(event) = self.engine.reactor.next_event() {
                let happening = self.engine.handle(event);
                self.heed(happening)?;
                if self.schedule.is_some() {
                    self.send_due();
                }
            }
        }
        self.finish()
    }

    /// What is to be done whether something happened or not; whether all is done.
    fn turn(&mut self) -> Result<bool> {
        let now_ns = self.engine.tick();
        self.make_connections(now_ns);
        for happening in self.engine.give_up(now_ns) {
            self.heed(happening)?;
        }
        match self.stage {
            Stage::Connecting => self.report_ready(now_ns)?,
            Stage::Ready if now_ns >= self.start_ns => self.start(),
            Stage::Running => {
                if now_ns >= self.measure_ns && self.usage == ProcessorTime::default() {
                    self.measure();
                }
                self.send_due();
                self.look_half_way(now_ns);
                if (now_ns >= self.end_ns && self.next_due_ns() >= self.end_ns) || self.left == 0 {
                    self.stage = Stage::Draining;
                    self.end_ns = self.end_ns.min(now_ns);
                    self.engine.tally.pending_at_end = self.pending();
                }
            }
            _ => {}
        }
        if self.stage == Stage::Running && now_ns >= self.next_progress_ns {
            self.next_progress_ns = now_ns + PROGRESS_NS;
            self.tell_progress()?;
        }
        let is_over = self.engine.under_way == 0 && self.queue.is_empty() || self.is_stopped;
        let patience_ns = self.plan.timeout_ns.saturating_mul(2);
        Ok(self.stage == Stage::Draining && (is_over || now_ns >= self.end_ns.saturating_add(patience_ns)))
    }

    /// Notes once what is pending when half of the schedule is over.
    fn look_half_way(&mut self, now_ns: u64) {
        let half = self.plan.request_count.unwrap_or(0) / 2;
        if !self.is_past_half && (now_ns >= self.half_ns || self.left <= half) {
            self.is_past_half = true;
            self.engine.tally.pending_half_way = self.pending();
        }
    }

    /// Requests of a schedule that are due and neither answered nor lost.
    fn pending(&self) -> u64 {
        if self.schedule.is_some() { self.engine.under_way + self.queue.len() } else { 0 }
    }

    /// How long may be waited. The alarm rings for what is due before.
    fn limit(&mut self) -> Duration {
        let now_ns = self.engine.now_ns;
        let next_ns = match self.stage {
            Stage::Connecting if self.unmade > 0 && self.next_connect_ns > now_ns => self.next_connect_ns,
            Stage::Ready => self.start_ns,
            Stage::Running => {
                let stage_ns = if now_ns < self.measure_ns { self.measure_ns } else { self.end_ns };
                stage_ns.min(self.next_due_ns())
            }
            _ => u64::MAX,
        };
        let left = Duration::from_nanos(next_ns.saturating_sub(now_ns)).min(LONGEST_WAIT);
        match &self.alarm {
            _ if left.is_zero() => left,
            Some(alarm) => {
                let at_ns = if next_ns == u64::MAX { 0 } else { next_ns };
                if self.alarm_at_ns != at_ns && alarm.set(at_ns).is_ok() {
                    self.alarm_at_ns = at_ns;
                }
                LONGEST_WAIT
            }
            // A wait is rounded up to milliseconds: the last one is not slept, but spent looking at the clock.
            None if self.schedule.is_some() => Duration::from_millis(left.as_millis() as u64),
            None => left,
        }
    }

    /// When the next request of the schedule is due: never, where there is none.
    #[inline]
    fn next_due_ns(&self) -> u64 {
        self.schedule.as_ref().map_or(u64::MAX, |schedule| self.start_ns.saturating_add(schedule.due_ns()))
    }

    /// Begins connections, as many as the window and the pace allow.
    fn make_connections(&mut self, now_ns: u64) {
        while self.retries.front().is_some_and(|&at_ns| at_ns <= now_ns) {
            self.retries.pop_front();
            self.unmade += 1;
        }
        while self.unmade > 0 && self.engine.opening < self.plan.window && now_ns >= self.next_connect_ns {
            self.unmade -= 1;
            self.next_connect_ns = now_ns.max(self.next_connect_ns).saturating_add(self.plan.connect_gap_ns);
            if let Happening::Gone { .. } = self.engine.connect() {
                self.retries.push_back(now_ns + RETRY_NS);
            }
        }
    }

    fn report_ready(&mut self, now_ns: u64) -> Result<()> {
        let is_all = self.unmade == 0 && self.retries.is_empty() && self.engine.opening == 0;
        let is_in_vain = self.engine.finds_nobody(self.begun_ns);
        if is_all || is_in_vain || now_ns >= self.begun_ns.saturating_add(self.plan.timeout_ns) {
            self.stage = Stage::Ready;
            self.link.send(&Report::Ready { open: self.engine.open }).map_err(|error| lost(&error))?;
        }
        Ok(())
    }

    fn start(&mut self) {
        self.stage = Stage::Running;
        self.measure_ns = self.start_ns.saturating_add(self.plan.warm_up_ns);
        let after = |ns: u64| self.measure_ns.saturating_add(ns);
        self.half_ns = self.plan.duration_ns.map_or(u64::MAX, |ns| after(ns / 2));
        self.end_ns = self.plan.duration_ns.map_or(u64::MAX, after);
        self.engine.measure_from(self.measure_ns);
        if self.plan.warm_up_ns == 0 {
            self.measure();
        }
        if self.schedule.is_none() {
            for id in self.engine.open_ids() {
                self.idle.remove(id);
                self.engine.tick();
                self.feed(id);
            }
            let absent = self.plan.connections.saturating_sub(self.engine.open + self.engine.opening);
            self.unmade = absent.saturating_sub(self.retries.len() as u32);
        }
    }

    /// From now on it is measured. What was sent before does not count, whenever it is answered.
    fn measure(&mut self) {
        self.engine.tally.bytes = 0;
        self.usage = thread_time();
    }

    /// Sends, or queues, what has fallen due, so much of it at once.
    #[inline]
    fn send_due(&mut self) {
        if self.stage != Stage::Running {
            return;
        }
        for _ in 0..DUE_AT_ONCE {
            let due_ns = self.next_due_ns();
            if due_ns > self.engine.now_ns || due_ns >= self.end_ns || self.left == 0 {
                return;
            }
            let Some(schedule) = &mut self.schedule else { return };
            // Nobody overtakes those that wait already.
            let idle = if self.queue.is_empty() { self.idle.take_any() } else { None };
            if idle.is_none() {
                self.queue.push(schedule);
            }
            schedule.advance();
            let is_measured = due_ns >= self.measure_ns;
            if is_measured {
                self.left -= 1;
                self.engine.tally.due += 1;
                self.engine.tally.phases.lag.record(self.engine.now_ns - due_ns);
            }
            if let Some(id) = idle {
                self.send(id, due_ns);
            }
            self.make_fresh();
            self.engine.tick();
        }
    }

    /// Sends one request that was due then.
    fn send(&mut self, id: u32, due_ns: u64) {
        if due_ns >= self.measure_ns {
            self.engine.tally.phases.wait.record(self.engine.now_ns.saturating_sub(due_ns));
        }
        match self.engine.request(id, due_ns, 1) {
            Ok(_) => {}
            Err(happening) => self.gone(happening),
        }
    }

    /// Where each request has a connection of its own: begins those that the queue waits for.
    fn make_fresh(&mut self) {
        if !self.plan.is_of_fresh_connections() {
            return;
        }
        let coming = self.engine.opening as usize + self.unmade as usize + self.retries.len();
        let room = self.plan.connections.saturating_sub(self.engine.open + coming as u32) as usize;
        self.unmade += self.queue.len().saturating_sub(coming as u64).min(room as u64) as u32;
        let now_ns = self.engine.now_ns;
        self.make_connections(now_ns);
    }

    /// A connection has room for requests.
    #[inline]
    fn feed(&mut self, id: u32) {
        if self.schedule.is_some() {
            match self.queue.pop() {
                Some(due_ns) => self.send(id, self.start_ns.saturating_add(due_ns)),
                None => self.idle.add(id),
            }
        } else if self.stage == Stage::Running && self.left > 0 {
            let now_ns = self.engine.now_ns;
            match self.engine.request(id, now_ns, self.left) {
                Ok(sent) => {
                    if now_ns >= self.measure_ns {
                        self.left -= sent;
                    }
                }
                Err(happening) => self.gone(happening),
            }
        } else {
            self.idle.add(id);
        }
    }

    #[inline]
    fn heed(&mut self, happening: Happening) -> Result<()> {
        match happening {
            Happening::Room(id) | Happening::Open(id) => self.feed(id),
            Happening::Gone { .. } => self.gone(happening),
            Happening::Nothing => {}
            // What it rang for is done by whoever looks at the schedule, who sets it anew.
            Happening::Alarm => {
                if let Some(alarm) = &self.alarm {
                    self.engine.reactor.clear_readiness(alarm, Interest::READABLE);
                }
            }
            Happening::Control => return self.listen(),
        }
        Ok(())
    }

    /// A connection is no more: another takes its place.
    fn gone(&mut self, happening: Happening) {
        let Happening::Gone { id, is_unmade } = happening else { return };
        self.idle.remove(id);
        if self.stage == Stage::Draining && self.queue.is_empty() {
            return;
        }
        if is_unmade {
            self.retries.push_back(self.engine.now_ns + RETRY_NS);
        } else if self.plan.is_of_fresh_connections() {
            self.make_fresh();
        } else {
            self.unmade += 1;
            let now_ns = self.engine.now_ns;
            self.make_connections(now_ns);
        }
    }

    /// The controller has spoken.
    fn listen(&mut self) -> Result<()> {
        let is_there = self.link.fill().map_err(|error| lost(&error))?;
        self.engine.reactor.clear_readiness(self.link, Interest::READABLE);
        while let Some(order) = self.link.next::<Order>().map_err(|error| lost(&error))? {
            match order {
                Order::Start { at_ns } => self.start_ns = at_ns,
                Order::Stop => {
                    self.stage = Stage::Draining;
                    self.is_stopped = true;
                    self.end_ns = self.end_ns.min(self.engine.now_ns);
                }
                _ => {}
            }
        }
        if is_there { Ok(()) } else { Err(crate::Error::Plan("the controller is gone".to_owned())) }
    }

    fn tell_progress(&mut self) -> Result<()> {
        let tally = &self.engine.tally;
        let progress = Progress {
            answers: tally.answers,
            failures: tally.failures.values().sum(),
            open: self.engine.open,
            waiting: self.queue.len(),
        };
        self.link.send(&Report::Progress(progress)).map_err(|error| lost(&error))
    }

    /// What was never sent and never answered is counted, and everything told.
    fn finish(mut self) -> Result<()> {
        let usage = thread_time().since(self.usage);
        if !self.is_stopped {
            // How long it waited was entered for each that was sent.
            let tally = &mut self.engine.tally;
            let unsent = tally.due.saturating_sub(tally.phases.wait.count());
            tally.fail_all(unsent, Failure::NeverSent, || "no connection became free in time".to_owned());
            self.engine.fail_under_way();
        }
        let is_counted = self.plan.request_count.is_some();
        let until_ns =
            if is_counted { self.engine.last_answer_ns } else { self.end_ns.max(self.engine.last_answer_ns) };
        self.engine.close_all();
        let mut tally = self.engine.take_tally();
        if self.usage != ProcessorTime::default() {
            tally.processor_ns = [usage.user_ns, usage.system_ns];
            tally.elapsed_ns = until_ns.saturating_sub(self.measure_ns);
        }
        self.link.send(&Report::Done(Box::new(tally))).map_err(|error| lost(&error))
    }
}
