//! The controller's side of the workers: starts them, sends commands, reads their reports, and ends them.

use crate::error::{Error, Result};
use crate::link::Link;
use crate::message::{Command, Report};
use crate::plan::{PROTOCOL, Plan};
use crate::worker;
use landau_reactor::{Backend, Interest, Reactor, Token};
use landau_sys::limits::{Resource, raise};
use landau_sys::process::OwnedChild;
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::thread::JoinHandle;
use std::time::Duration;

/// How workers are started.
#[derive(Debug, Clone)]
pub enum Launch {
    /// As processes of this program, whose `main` begins with [`worker::main`].
    Program(PathBuf),
    /// As threads of this process, for tests.
    Thread,
}

#[derive(Debug)]
enum Execution {
    Process(OwnedChild),
    Thread(Option<JoinHandle<()>>),
}

#[derive(Debug)]
struct Worker {
    /// `None` after the worker's last report.
    link: Option<Link>,
    execution: Execution,
}

/// The workers of a load.
#[derive(Debug)]
pub(crate) struct Workers {
    list: Vec<Worker>,
    reactor: Reactor,
    /// Reports that were received and not yet returned.
    reports: VecDeque<(usize, Report)>,
}

impl Workers {
    /// Starts a worker for each plan and sends it the plan.
    pub(crate) fn start(plans: &[Plan], launch: &Launch) -> Result<Self> {
        // Each worker needs a descriptor for its link.
        raise(Resource::Descriptors)?;
        let reactor = Reactor::new(Backend::default())?;
        let mut all = Self { list: Vec::new(), reactor, reports: VecDeque::new() };
        for (number, plan) in plans.iter().enumerate() {
            let failed = |reason: String| Error::Worker { worker: number, reason };
            let (own, other) = UnixStream::pair().map_err(|error| failed(error.to_string()))?;
            let execution = spawn(other, launch).map_err(|error| failed(format!("cannot start: {error}")))?;
            let mut link = Link::new(own);
            match link.receive::<Report>().map_err(|error| failed(error.to_string()))? {
                Some(Report::Hello { version: PROTOCOL, .. }) => {}
                Some(Report::Hello { version, .. }) => {
                    let reason = format!("it speaks version {version} of the protocol, this controller {PROTOCOL}");
                    return Err(failed(reason));
                }
                _ => return Err(failed("it exited before its first report".to_owned())),
            }
            link.send(&Command::Plan(Box::new(plan.clone()))).map_err(|error| failed(error.to_string()))?;
            all.reactor.register_nonblocking(&link, Token(number as u32), Interest::READABLE)?;
            all.list.push(Worker { link: Some(link), execution });
        }
        Ok(all)
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Sends a command to one worker. For a worker that has exited, [`Workers::next`] returns the last report, or an
    /// error.
    pub(crate) fn send(&mut self, worker: usize, command: &Command) -> Result<()> {
        let Some(link) = &mut self.list[worker].link else { return Ok(()) };
        match link.send(command) {
            Err(error) if !matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                Err(Error::Worker { worker, reason: format!("cannot reach it: {error}") })
            }
            _ => Ok(()),
        }
    }

    /// Sends a command to all workers.
    pub(crate) fn send_all(&mut self, command: &Command) -> Result<()> {
        (0..self.list.len()).try_for_each(|worker| self.send(worker, command))
    }

    /// Returns the next report and the worker's number, or `None` if none arrives within `limit`.
    ///
    /// # Errors
    ///
    /// If a worker failed, or exited without its last report.
    pub(crate) fn next(&mut self, limit: Duration) -> Result<Option<(usize, Report)>> {
        if let Some(report) = self.reports.pop_front() {
            return checked(report);
        }
        self.reactor.wait(Some(limit))?;
        while let Some(event) = self.reactor.next_event() {
            let worker = event.token.0 as usize;
            let Some(link) = &mut self.list[worker].link else { continue };
            let failed = |reason: String| Error::Worker { worker, reason };
            let is_open = link.fill().map_err(|error| failed(error.to_string()))?;
            let mut is_done = false;
            while let Some(report) = link.next::<Report>().map_err(|error| failed(error.to_string()))? {
                is_done |= matches!(report, Report::Done(_));
                self.reports.push_back((worker, report));
            }
            if is_done {
                self.reactor.deregister(link)?;
                self.list[worker].link = None;
            } else if !is_open && self.reports.is_empty() {
                return Err(failed("it exited without a report".to_owned()));
            }
        }
        self.reports.pop_front().map_or(Ok(None), checked)
    }
}

fn checked((worker, report): (usize, Report)) -> Result<Option<(usize, Report)>> {
    match report {
        Report::Failed { reason } => Err(Error::Worker { worker, reason }),
        report => Ok(Some((worker, report))),
    }
}

fn spawn(link: UnixStream, launch: &Launch) -> std::io::Result<Execution> {
    match launch {
        Launch::Program(program) => {
            let mut command = std::process::Command::new(program);
            command.arg(worker::ARGUMENT).stdin(Stdio::from(OwnedFd::from(link))).stdout(Stdio::null());
            OwnedChild::spawn_group(&mut command).map(Execution::Process)
        }
        Launch::Thread => {
            let work = move || {
                // The worker has reported its error over the link.
                let _ = worker::work(link);
            };
            Ok(Execution::Thread(Some(std::thread::Builder::new().name("load".to_owned()).spawn(work)?)))
        }
    }
}

/// Closes the links, so that the workers exit.
impl Drop for Workers {
    fn drop(&mut self) {
        for worker in &mut self.list {
            drop(worker.link.take());
        }
        for worker in &mut self.list {
            match &mut worker.execution {
                // A process that does not exit is killed when its `OwnedChild` is dropped.
                Execution::Process(child) => drop(exits(child)),
                Execution::Thread(thread) => {
                    if let Some(thread) = thread.take() {
                        // A panic of the worker was already noticed as a broken link.
                        let _ = thread.join();
                    }
                }
            }
        }
    }
}

/// Returns whether a worker exits within five seconds: closing 20,000 connections takes time.
fn exits(child: &mut OwnedChild) -> bool {
    (0..500).any(|_| match child.try_wait() {
        Ok(None) => {
            std::thread::sleep(Duration::from_millis(10));
            false
        }
        _ => true,
    })
}
