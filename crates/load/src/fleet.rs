//! The workers as the controller sees them: started, told, listened to, and ended with it.

use crate::error::{Error, Result};
use crate::link::{Link, Order, Report};
use crate::plan::{PROTOCOL, Plan};
use crate::worker;
use landau_reactor::{Backend, Interest, Reactor, Token};
use landau_sys::limits::{Resource, raise};
use landau_sys::process::OwnedChild;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

/// What workers are made of.
#[derive(Debug, Clone)]
pub enum Launch {
    /// Processes of this program, which calls [`worker::main`] first of all.
    Program(PathBuf),
    /// Threads of this process, for tests.
    Thread,
}

#[derive(Debug)]
enum Body {
    Process(OwnedChild),
    Thread(Option<JoinHandle<()>>),
}

#[derive(Debug)]
struct Member {
    link: Option<Link>,
    body: Body,
}

/// The workers.
#[derive(Debug)]
pub(crate) struct Fleet {
    members: Vec<Member>,
    reactor: Reactor,
    inbox: VecDeque<(usize, Report)>,
}

impl Fleet {
    /// Starts a worker for each plan and tells it.
    pub(crate) fn start(plans: &[Plan], launch: &Launch) -> Result<Self> {
        // Each worker has a link.
        raise(Resource::Descriptors)?;
        let mut fleet =
            Self { members: Vec::new(), reactor: Reactor::new(Backend::default())?, inbox: VecDeque::new() };
        for (number, plan) in plans.iter().enumerate() {
            let wrong = |reason: String| Error::Worker { worker: number, reason };
            let (own, other) = UnixStream::pair().map_err(|error| wrong(error.to_string()))?;
            let body = spawn(other, launch).map_err(|error| wrong(format!("it cannot be started: {error}")))?;
            let mut link = Link::new(own);
            let greeting = link.receive::<Report>().map_err(|error| wrong(error.to_string()))?;
            match greeting {
                Some(Report::Hello { version: PROTOCOL, .. }) => {}
                Some(Report::Hello { version, .. }) => {
                    return Err(wrong(format!("it speaks version {version}, and we speak {PROTOCOL}")));
                }
                _ => return Err(wrong("it ended before it had said a word".to_owned())),
            }
            link.send(&Order::Plan(Box::new(plan.clone()))).map_err(|error| wrong(error.to_string()))?;
            fleet.reactor.register_nonblocking(&link, Token(number as u32), Interest::READABLE)?;
            fleet.members.push(Member { link: Some(link), body });
        }
        Ok(fleet)
    }

    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    /// Tells one worker.
    pub(crate) fn tell(&mut self, worker: usize, order: &Order) -> Result<()> {
        let Some(link) = &mut self.members[worker].link else { return Ok(()) };
        link.send(order).map_err(|error| Error::Worker { worker, reason: format!("it is gone: {error}") })
    }

    /// Tells all.
    pub(crate) fn tell_all(&mut self, order: &Order) -> Result<()> {
        (0..self.members.len()).try_for_each(|worker| self.tell(worker, order))
    }

    /// The next report of any worker; none within that time. A worker that is gone without having said that it is done
    /// is an error.
    pub(crate) fn next(&mut self, limit: Duration) -> Result<Option<(usize, Report)>> {
        if let Some(found) = self.inbox.pop_front() {
            return found_of(found);
        }
        self.reactor.wait(Some(limit))?;
        while let Some(event) = self.reactor.next_event() {
            let worker = event.token.0 as usize;
            let Some(link) = &mut self.members[worker].link else { continue };
            let wrong = |reason: String| Error::Worker { worker, reason };
            let is_there = link.fill().map_err(|error| wrong(error.to_string()))?;
            let mut is_done = false;
            while let Some(report) = link.next::<Report>().map_err(|error| wrong(error.to_string()))? {
                is_done |= matches!(report, Report::Done(_));
                self.inbox.push_back((worker, report));
            }
            if is_done {
                self.reactor.deregister(link)?;
                self.members[worker].link = None;
            } else if !is_there && self.inbox.is_empty() {
                return Err(wrong("it ended without a word".to_owned()));
            }
        }
        self.inbox.pop_front().map_or(Ok(None), found_of)
    }
}

fn found_of((worker, report): (usize, Report)) -> Result<Option<(usize, Report)>> {
    match report {
        Report::Failed { reason } => Err(Error::Worker { worker, reason }),
        report => Ok(Some((worker, report))),
    }
}

fn spawn(link: UnixStream, launch: &Launch) -> std::io::Result<Body> {
    match launch {
        Launch::Program(program) => {
            let mut command = Command::new(program);
            command.arg(worker::ARGUMENT).stdin(Stdio::from(OwnedFd::from(link))).stdout(Stdio::null());
            OwnedChild::spawn_group(&mut command).map(Body::Process)
        }
        Launch::Thread => {
            let work = move || {
                // What went wrong is told over the link.
                let _ = worker::work(link);
            };
            Ok(Body::Thread(Some(std::thread::Builder::new().name("load".to_owned()).spawn(work)?)))
        }
    }
}

/// Workers end with their links. One that does not is ended.
impl Drop for Fleet {
    fn drop(&mut self) {
        for member in &mut self.members {
            drop(member.link.take());
        }
        for member in &mut self.members {
            match &mut member.body {
                // One that does not end is killed when its `OwnedChild` is dropped.
                Body::Process(child) => drop(ends(child)),
                Body::Thread(thread) => {
                    if let Some(thread) = thread.take() {
                        // A panic of a worker was seen as a link that broke.
                        let _ = thread.join();
                    }
                }
            }
        }
    }
}

/// Whether a worker ends by itself within some seconds: closing 20,000 connections takes its time.
fn ends(child: &mut OwnedChild) -> bool {
    (0..500).any(|_| match child.try_wait() {
        Ok(None) => {
            std::thread::sleep(Duration::from_millis(10));
            false
        }
        _ => true,
    })
}
