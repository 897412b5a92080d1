//! Loads in virtual time, for tests: the real connections and event loop over Unix sockets, with a clock that jumps and
//! a server that responds at given times of this clock.
//!
//! Load, server and controller run in one thread: the latter two act whenever the load waits. The kernel delivers bytes
//! on a Unix socket before `send` returns, so if a wait returns no event, and server and controller had nothing to do,
//! nothing can happen before the next time that the load or the server waits for. The clock then jumps to that time.
//! Neither the machine's speed nor its load changes the result.

mod idle;
mod loops;

use crate::clock::{Clock, nanoseconds};
use crate::connections::Connections;
use crate::error::Result;
use crate::failure::Failure;
use crate::idle_load::IdleLoad;
use crate::link::Link;
use crate::message::{Command, Report};
use crate::metrics::Metrics;
use crate::outcome::{GateState, Outcome};
use crate::plan::{Load, Origin, PROTOCOL, Plan, Ports, Request, Sources};
use crate::request_loop::RequestLoop;
use crate::target::Endpoint;
use landau_reactor::{Event, Reactor};
use landau_sys::process::ProcessorTime;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

/// A millisecond in nanoseconds.
const MS: u64 = 1_000_000;

/// The start of the load, in nanoseconds of the clock.
const START_NS: u64 = 1000 * MS;

/// Bytes that the simulated server sends. Times count from the start of the load.
#[derive(Debug, Clone)]
struct Reply {
    at_ns: u64,
    bytes: Vec<u8>,
    /// Whether the server closes the connection after the bytes.
    closes: bool,
}

impl Reply {
    /// A complete response.
    fn at(at_ns: u64) -> Self {
        Self { at_ns, bytes: b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab".to_vec(), closes: false }
    }
}

/// Returns the server's replies to a request, given its number, from 0, and the time at which it arrives.
type Respond = Box<dyn FnMut(u64, u64) -> Vec<Reply>>;

/// Receives each report of the worker and returns the next command of the controller.
type Direct = Box<dyn FnMut(&Report) -> Option<Command>>;

/// Returns the CPU time of the load at a time from its start, both in nanoseconds.
type CpuTime = Box<dyn Fn(u64) -> u64>;

/// A connection of the simulated server.
struct Peer {
    stream: UnixStream,
    received: Vec<u8>,
    replies: VecDeque<Reply>,
    is_closed: bool,
}

/// The simulated server.
struct Server {
    listener: UnixListener,
    peers: Vec<Peer>,
    respond: Respond,
    /// Bytes that the server sends to each connection without a request.
    greeting: Vec<u8>,
    requests: u64,
    /// The largest number of connections that arrived between two waits of the load.
    most_at_once: Rc<Cell<usize>>,
}

impl Server {
    /// Does everything that is due. Returns whether there was anything to do.
    fn act(&mut self, now_ns: u64) -> bool {
        let (mut has_acted, before) = (false, self.peers.len());
        while let Ok((stream, _)) = self.listener.accept() {
            stream.set_nonblocking(true).unwrap();
            // A greeting without a delay would be repeated forever at one instant.
            let at_ns = now_ns.saturating_sub(START_NS) + MS;
            let greeting = Reply { at_ns, bytes: self.greeting.clone(), closes: false };
            let replies = if self.greeting.is_empty() { VecDeque::new() } else { VecDeque::from([greeting]) };
            self.peers.push(Peer { stream, received: Vec::new(), replies, is_closed: false });
            has_acted = true;
        }
        self.most_at_once.set(self.most_at_once.get().max(self.peers.len() - before));
        for peer in &mut self.peers {
            has_acted |= peer.receive();
            while let Some(end) = peer.received.windows(4).position(|window| window == b"\r\n\r\n") {
                peer.received.drain(..end + 4);
                peer.replies.extend((self.respond)(self.requests, now_ns.saturating_sub(START_NS)));
                self.requests += 1;
                has_acted = true;
            }
            has_acted |= peer.send(now_ns);
        }
        self.peers.retain(|peer| !peer.is_closed);
        has_acted
    }

    fn next_ns(&self) -> u64 {
        let first = self.peers.iter().filter_map(|peer| peer.replies.front());
        first.map(|reply| START_NS + reply.at_ns).min().unwrap_or(u64::MAX)
    }
}

impl Peer {
    fn receive(&mut self) -> bool {
        let mut buffer = [0; 4096];
        match self.stream.read(&mut buffer) {
            Ok(0) => self.is_closed = true,
            Ok(count) => self.received.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            Err(_) => self.is_closed = true,
        }
        true
    }

    fn send(&mut self, now_ns: u64) -> bool {
        let mut has_sent = false;
        while let Some(reply) = self.replies.pop_front_if(|reply| START_NS + reply.at_ns <= now_ns) {
            self.is_closed |= self.stream.write_all(&reply.bytes).is_err() || reply.closes;
            has_sent = true;
        }
        has_sent
    }
}

/// The controller: sends commands in response to the worker's reports.
struct Controller {
    link: Link,
    direct: Direct,
    /// The time at which the controller stops the load, in nanoseconds of the clock.
    stop_ns: u64,
}

impl Controller {
    /// Answers the reports that have arrived, and stops the load when it is time. Returns whether there was anything to
    /// do.
    fn act(&mut self, now_ns: u64) -> bool {
        self.link.fill().unwrap();
        let mut has_acted = now_ns >= self.stop_ns;
        if has_acted {
            self.stop_ns = u64::MAX;
            self.link.send(&Command::Stop).unwrap();
        }
        while let Some(report) = self.link.next::<Report>().unwrap() {
            has_acted = true;
            if let Some(command) = (self.direct)(&report) {
                self.link.send(&command).unwrap();
            }
        }
        has_acted
    }

    /// Returns the metrics of the last report.
    fn metrics(&mut self) -> Metrics {
        loop {
            if let Some(Report::Done(metrics)) = self.link.receive::<Report>().unwrap() {
                return *metrics;
            }
        }
    }
}

/// A clock that jumps to the next time at which something happens.
struct VirtualClock {
    now_ns: Rc<Cell<u64>>,
    server: Option<Server>,
    controller: Rc<RefCell<Controller>>,
    /// Whether the last wait returned an event.
    had_event: bool,
    wait_count: Rc<Cell<u64>>,
    /// The time that handling an event takes.
    handling_ns: u64,
    cpu_time: CpuTime,
}

impl VirtualClock {
    /// Lets server and controller act. Returns whether they had anything to do.
    fn others_act(&mut self) -> bool {
        let now_ns = self.now_ns.get();
        let has_acted = self.server.as_mut().is_some_and(|server| server.act(now_ns));
        self.controller.borrow_mut().act(now_ns) || has_acted
    }
}

impl Clock for VirtualClock {
    fn now_ns(&self) -> u64 {
        self.now_ns.get()
    }

    fn cpu_time(&self) -> ProcessorTime {
        ProcessorTime { user_ns: (self.cpu_time)(self.now_ns.get().saturating_sub(START_NS)), system_ns: 0 }
    }

    fn wait(&mut self, reactor: &mut Reactor, now_ns: u64, until_ns: u64, longest: Duration) -> Result<()> {
        self.wait_count.set(self.wait_count.get() + 1);
        let has_acted = self.others_act();
        if !has_acted && !std::mem::take(&mut self.had_event) {
            let limit_ns = until_ns.min(now_ns.saturating_add(nanoseconds(longest)));
            let server_ns = self.server.as_ref().map_or(u64::MAX, Server::next_ns);
            let stop_ns = self.controller.borrow().stop_ns;
            self.now_ns.set(limit_ns.min(server_ns).min(stop_ns).max(now_ns));
            self.others_act();
        }
        Ok(reactor.wait(Some(Duration::ZERO))?)
    }

    fn consume(&mut self, _: &mut Reactor, _: Event) -> bool {
        self.had_event = true;
        self.now_ns.set(self.now_ns.get() + self.handling_ns);
        false
    }
}

/// A load and the simulated server and controller.
struct Simulation {
    plan: Plan,
    respond: Option<Respond>,
    greeting: Vec<u8>,
    /// The maximum number of connections that wait for the server, minus one; `None` for the system's default.
    backlog: Option<u32>,
    direct: Direct,
    stop_ns: u64,
    handling_ns: u64,
    cpu_time: CpuTime,
}

/// The result of a simulation.
struct Simulated {
    outcome: Outcome,
    /// The end of the load, in nanoseconds from its start.
    end_ns: u64,
    /// The number of times that the load waited for events.
    wait_count: u64,
    /// The largest number of connections that arrived between two waits.
    most_at_once: usize,
}

/// A plan of four connections with a timeout of 20 s. Its server has no address yet.
pub(crate) fn plan(load: Load) -> Plan {
    let request = |field: &str| format!("GET / HTTP/1.1\r\nHost: localhost\r\n{field}\r\n");
    let request = Request {
        method: "GET".to_owned(),
        bytes: request(""),
        last_bytes: request("Connection: close\r\n"),
        fields: Vec::new(),
    };
    Plan {
        version: PROTOCOL,
        share: (0, 1),
        origins: vec![Origin {
            endpoint: Endpoint::Unix(PathBuf::new()),
            tls: None,
            requests: vec![request],
            order: Vec::new(),
        }],
        load,
        connections: 4,
        pipeline: 1,
        http2: false,
        per_connection: None,
        duration_ns: None,
        request_count: None,
        warm_up_ns: 0,
        timeout_ns: 20_000 * MS,
        window: 128,
        connect_gap_ns: 0,
        seed: 1,
        cpu: None,
        backend: crate::default_backend(),
        sources: Sources { addresses: Vec::new(), ports: Ports::Kernel },
    }
}

impl Simulation {
    /// A load over four connections with a timeout of 20 s, against a server that replies by the function `respond`.
    fn new(load: Load, respond: impl FnMut(u64, u64) -> Vec<Reply> + 'static) -> Self {
        Self {
            plan: plan(load),
            respond: Some(Box::new(respond)),
            greeting: Vec::new(),
            backlog: None,
            direct: Box::new(|_| None),
            stop_ns: u64::MAX,
            handling_ns: 0,
            cpu_time: Box::new(|_| 0),
        }
    }

    /// A load without a server.
    fn without_server(load: Load) -> Self {
        Self { respond: None, ..Self::new(load, |_, _| Vec::new()) }
    }

    /// Changes the plan.
    fn plan(mut self, change: impl FnOnce(&mut Plan)) -> Self {
        change(&mut self.plan);
        self
    }

    /// Lets the server send bytes to each connection before any request.
    fn greeting(self, bytes: &[u8]) -> Self {
        Self { greeting: bytes.to_vec(), ..self }
    }

    /// Limits the connections that wait for the server to one more than `backlog`.
    fn backlog(self, backlog: u32) -> Self {
        Self { backlog: Some(backlog), ..self }
    }

    /// Makes the load take this long to handle an event.
    fn handling(self, handling_ns: u64) -> Self {
        Self { handling_ns, ..self }
    }

    /// Sets the CPU time of the load as a function of the time from its start.
    fn cpu_time(self, cpu_time: impl Fn(u64) -> u64 + 'static) -> Self {
        Self { cpu_time: Box::new(cpu_time), ..self }
    }

    /// Sets the controller's commands.
    fn direct(self, direct: impl FnMut(&Report) -> Option<Command> + 'static) -> Self {
        Self { direct: Box::new(direct), ..self }
    }

    /// Stops the load at a time from its start.
    fn stop_at(self, ns: u64) -> Self {
        Self { stop_ns: START_NS + ns, ..self }
    }

    fn run(mut self) -> Simulated {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        self.plan.origins[0].endpoint = Endpoint::Unix(path.clone());
        let (greeting, most_at_once) = (self.greeting, Rc::new(Cell::new(0)));
        let server = self.respond.map(|respond| {
            let listener = UnixListener::bind(&path).unwrap();
            listener.set_nonblocking(true).unwrap();
            if let Some(backlog) = self.backlog {
                landau_sys::stream::listen(&listener, backlog).unwrap();
            }
            let most_at_once = Rc::clone(&most_at_once);
            Server { listener, peers: Vec::new(), respond, greeting, requests: 0, most_at_once }
        });
        let (own, other) = UnixStream::pair().unwrap();
        let mut link = Link::new(own);
        let mut controller = Controller { link: Link::new(other), direct: self.direct, stop_ns: self.stop_ns };
        controller.link.send(&Command::Start { at_ns: START_NS }).unwrap();
        // A loop opens its connections before the start; an idle load has no start.
        let began_ns = if self.plan.load == Load::Idle { START_NS } else { 1 };
        let (now_ns, controller) = (Rc::new(Cell::new(began_ns)), Rc::new(RefCell::new(controller)));
        let wait_count = Rc::new(Cell::new(0));
        let clock = VirtualClock {
            now_ns: Rc::clone(&now_ns),
            server,
            controller: Rc::clone(&controller),
            had_event: false,
            wait_count: Rc::clone(&wait_count),
            handling_ns: self.handling_ns,
            cpu_time: self.cpu_time,
        };
        let reactor = Reactor::new(self.plan.backend.parse().unwrap()).unwrap();
        let mut connections = Connections::new(&self.plan, reactor, clock).unwrap();
        connections.watch_controller(&link).unwrap();
        match self.plan.load {
            Load::Idle => IdleLoad::new(&self.plan, connections, &mut link).run().unwrap(),
            _ => RequestLoop::new(&self.plan, connections, &mut link).run().unwrap(),
        }
        let mut outcome = Outcome::new(self.plan.load);
        outcome.metrics = controller.borrow_mut().metrics();
        outcome.gates = crate::gate::judge(&outcome, &[]);
        let end_ns = now_ns.get().saturating_sub(START_NS);
        Simulated { outcome, end_ns, wait_count: wait_count.get(), most_at_once: most_at_once.get() }
    }
}

impl Simulated {
    /// The failures by kind.
    fn failures(&self) -> Vec<(Failure, u64)> {
        self.outcome.metrics.failures.iter().map(|(failure, count)| (*failure, *count)).collect()
    }

    /// The names of the gates that failed.
    fn failed_gates(&self) -> Vec<&'static str> {
        let failed = self.outcome.gates.iter().filter(|gate| gate.state == GateState::Failed);
        failed.map(|gate| gate.name).collect()
    }
}
