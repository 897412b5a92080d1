//! `architecture`: a small server answers a growing number of simultaneous connections, in one of eight architectures.
//!
//! Measures the time and the processor time of a reply while n connections are open. The server sends "450 too busy" to
//! each connection and closes it; the client opens another in its place and counts the complete replies. Each
//! architecture handles a connection by other means: an executed program, a forked process, a thread, or an entry in
//! the table of an event loop. With `workload=work` the connections stay open, and each request costs the server a
//! millisecond of work.
//!
//! Not a measure of a network or of a real server: the reply is 14 bytes long and nothing is read before it. Client and
//! server share the machine, and if the server needs less time, `reply` is the time of the client: compare `processor`,
//! the server's processor time per reply.
//!
//! Source: J. Rothman and J. Buckman, "Which OS is Fastest for High-Performance Network Applications?", Sys Admin, July
//! 2001: a C++ server in three architectures (a program executed, a thread, nonblocking calls), connected to from
//! another machine by up to 1,000 connections at a time.

use crate::architecture::{Client, Meter, Server, of, pool, workload};
use crate::backend;
use crate::idle_poll::IdlePoll;
use crate::server::loopback_works;
use landau_architectures::{WORK, Workload, list};
use landau_engine::{
    Annotation, AnnotationKind, Benchmark, Context, Cost, FactUnit, Facts, Host, Kind, Parameter, Phase, ReplayCase,
    Settings, Stop, Study, Support, Timer, Unit, Variant,
};
use landau_sys::clock::monotonic_ns;
use landau_sys::fork_helper::image;
use landau_sys::system::{headroom, lists_children, setting};
use std::collections::BTreeMap;

/// The number of replies of a step.
const REPLIES_EACH: u64 = 2;

/// State of a pass. The fields' order matters: connections are closed before the server ends.
#[derive(Debug)]
pub struct Architecture {
    client: Client,
    server: Server,
    meter: Option<Meter>,
    observed: Vec<Observation>,
    last_n: u64,
    began_ns: u64,
    processor: Option<u32>,
    idle: IdlePoll,
    /// Whether the server keeps connections.
    is_kept: bool,
}

/// The counters of a pass at a number of connections: none, each power of two up to half of the last, and the last.
#[derive(Debug)]
struct Observation {
    n: u64,
    /// The server's processor time and the replies so far.
    time_ns: Option<u64>,
    replies: u64,
    /// The server's private memory for each connection, if it keeps them.
    memory_each: Option<u64>,
    /// All failures so far, by the reason.
    failures: BTreeMap<&'static str, u64>,
}

const REPLY: usize = 0;
const LATENCY: usize = 1;
const PROCESSOR: usize = 2;

/// The maximum number of kept connections in a study; each costs a millisecond of work per reply.
const KEPT_QUICK: u64 = 64;
const KEPT_FULL: u64 = 1_000;
/// `select` watches descriptors below 1,024, and the server needs some of them itself.
const KEPT_SELECT: u64 = 400;

/// The memory of a process and of a thread of the server, with the kernel's part.
const PROCESS_BYTES: u64 = 300 << 10;
const THREAD_BYTES: u64 = 32 << 10;

impl Benchmark for Architecture {
    const NAME: &'static str = "architecture";
    const ABOUT: &'static str =
        "What does a connection cost a server, by its architecture and by simultaneous connections?";
    const AXIS: &'static str = "simultaneous connections";
    const PHASES: &'static [Phase] = &[
        Phase::up("reply", "time per reply while all connections are open: the slower of client and server")
            .elsewhere(),
        Phase::up("latency", "from connect(), or the request, to the end of its reply, of one connection in each step")
            .elsewhere(),
        Phase::up(
            "processor",
            "processor time of the server for each reply, with that of its children (workload=busy)",
        )
        .elsewhere(),
    ];
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::auto_steps(
            "32",
            "auto",
            "auto",
            "simultaneous connections at the end; auto: quick: 1,000, with workload=work 64; full: a tenth more than \
             may wait for accept() (net.core.somaxconn), but not more than 20,000 or 95% of RLIMIT_NOFILE; with \
             workload=work 1,000",
        ),
        Parameter::fixed(
            "architecture",
            Kind::Choice(list::NAMES),
            "event-loop",
            "what handles a connection. exec: a new program; fork: a forked process; prefork, thread-pool: a member of \
             a pool; thread: a new thread; event-loop: one thread for all; event-loops: one for each processor; \
             io_uring: one thread with a completion ring",
        ),
        Parameter::fixed(
            "workload",
            Kind::Choice(Workload::NAMES),
            "busy",
            "busy: reply \"450 too busy\" and close, as in 2001; work: keep the connection and do 1 ms of work for \
             each request",
        ),
        Parameter::fixed(
            "backend",
            Kind::Choice(backend::WAITING),
            "epoll",
            "event backend of architecture=event-loop and event-loops; with workload=busy it watches only the \
             listener, so backends hardly differ",
        ),
        Parameter::fixed(
            "pool",
            Kind::Count { min: 0, max: 10_000 },
            "0",
            "processes of prefork or threads of thread-pool; each serves one connection at a time. 0: 16, or with \
             workload=work one for each connection",
        ),
        Parameter::fixed(
            "processors",
            Kind::Choice(&["others", "all"]),
            "others",
            "processors of the server. others: all but the client's; all: also the client's",
        ),
        Parameter::fixed(
            "idle",
            Kind::Choice(&["poll", "halt"]),
            "poll",
            "idle state of the CPUs of client and server. poll: busy SCHED_IDLE processes keep them from halting; \
             halt: they halt when idle",
        ),
    ];
    const VARIANTS: &'static [Variant] = &[
        Variant::always(&[("architecture", "exec")]),
        Variant::always(&[("architecture", "fork")]),
        Variant::always(&[("architecture", "prefork")]),
        Variant::always(&[("architecture", "thread")]),
        Variant::always(&[("architecture", "thread-pool")]),
        Variant::always(&[("architecture", "event-loops")]),
        Variant::always(&[("architecture", "io_uring")]),
        Variant::full(&[("architecture", "event-loops"), ("processors", "all")]),
        // The three architectures that the study of 2001 measured; the others differ little from one of them.
        Variant { from: Study::Quick, settings: &[("workload", "work")] },
        Variant { from: Study::Quick, settings: &[("workload", "work"), ("architecture", "exec")] },
        Variant { from: Study::Quick, settings: &[("workload", "work"), ("architecture", "thread")] },
        Variant::full(&[("workload", "work"), ("architecture", "fork")]),
        Variant::full(&[("workload", "work"), ("architecture", "prefork")]),
        Variant::full(&[("workload", "work"), ("architecture", "thread-pool")]),
        Variant::full(&[("workload", "work"), ("architecture", "event-loops")]),
        Variant::full(&[("workload", "work"), ("architecture", "io_uring")]),
        Variant::full(&[("workload", "work"), ("backend", "poll")]),
        Variant::full(&[("workload", "work"), ("backend", "select")]),
    ];
    const REPLAYS: &'static [ReplayCase] = &[
        ReplayCase::author("2001", 1, &[("n", "1000")]),
        ReplayCase::author("2001", 1, &[("n", "1000"), ("architecture", "exec")]),
        ReplayCase::author("2001", 1, &[("n", "1000"), ("architecture", "thread")]),
        ReplayCase::corrected(&[("n", "1000")]),
        ReplayCase::corrected(&[("n", "1000"), ("architecture", "exec")]),
        ReplayCase::corrected(&[("n", "1000"), ("architecture", "thread")]),
    ];
    const IN_QUICK: bool = false;
    const CAVEATS: &'static [&'static str] = &[
        "Client and server run on two processors of one machine. There is no network between them, and the kernel \
         completes the server's handshakes on the client's processor.",
        "reply is the time of the slower of client and server. Compare architectures by processor, the server's time.",
        "Replies that arrive together each count with the mean of their batch, and with workload=work `reply` is a \
         mean of the last n replies: neighbouring samples of reply and processor are not independent, and outliers and \
         percentiles of `reply` mean little. Passes are independent.",
        "With workload=busy most of n connections wait to be accepted: the server has accepted few of them at a time. \
         With workload=work it has accepted all of them.",
        "exec executes a small program from memory. A larger one, or one from a disk, costs more.",
        "event-loops has as many loops as the server has processors: with two processors and processors=others, one.",
    ];
    const SOURCE: &'static str = "J. Rothman and J. Buckman, Which OS is Fastest for High-Performance Network \
                                  Applications? (2001), architecture test";

    fn phases(settings: &Settings) -> Vec<Phase> {
        Self::PHASES[..if has_meter(workload(settings)) { 3 } else { 2 }].to_vec()
    }

    fn support(host: &Host, settings: &Settings) -> Support {
        if host.clock.unit != Unit::Ns {
            return Support::No("the server needs real time and a separate processor".to_owned());
        }
        let Ok(architecture) = of(settings) else { return Support::No("there is no such architecture".to_owned()) };
        if architecture.has_pool
            && workload(settings) == Workload::Work
            && (1..settings.count("n")).contains(&settings.count("pool"))
        {
            let (pool, n) = (settings.count("pool"), settings.count("n"));
            return Support::No(format!(
                "a pool of {pool} serves only {pool} of {n} persistent connections; set pool=0"
            ));
        }
        if architecture.name == "prefork" && cfg!(target_os = "linux") && !lists_children() {
            return Support::No("/proc lists no children, so a pool's processor time would be unknown".to_owned());
        }
        let members = settings.count("pool");
        if architecture.has_pool
            && let Some((room, why)) = headroom().processes
            && members > room / 2
        {
            let tasks = if architecture.name == "prefork" { "processes" } else { "threads" };
            return Support::No(format!("a pool of {members} {tasks} is too large: {why}"));
        }
        if architecture.name == "exec"
            && let Err(reason) = image("dynamic")
        {
            return Support::No(reason.to_owned());
        }
        let is_ring = architecture.name == "io_uring";
        if let (true, Support::No(reason)) =
            (architecture.has_backends || is_ring, backend::support(used_backend(settings, is_ring)))
        {
            return Support::No(reason);
        }
        match loopback_works() {
            Ok(()) => Support::Yes,
            Err(error) => Support::No(format!("cannot connect over the loopback interface ({error})")),
        }
    }

    fn auto_n(host: &Host, settings: &Settings, study: Study) -> u64 {
        match (workload(settings), study) {
            (Workload::Work, Study::Full) if settings.is("backend", "select") => return KEPT_SELECT,
            (Workload::Work, Study::Full) => return KEPT_FULL,
            (Workload::Work, _) => return KEPT_QUICK,
            (Workload::Busy, Study::Full) => {}
            (Workload::Busy, _) => return 1_000,
        }
        let queue = setting("net.core.somaxconn").and_then(|value| value.parse::<u64>().ok()).unwrap_or(4_096);
        let descriptors = host.limits.get("RLIMIT_NOFILE").map_or(20_000, |limit| limit / 20 * 19);
        (queue / 10 * 11).min(descriptors).clamp(16, 20_000)
    }

    fn annotations(_: &Host, _: &Settings) -> Vec<Annotation> {
        let queue = setting("net.core.somaxconn").and_then(|value| value.parse::<f64>().ok());
        let capacity = queue.map(|n| Annotation {
            name: "longest accept queue".to_owned(),
            n,
            kind: AnnotationKind::Capacity,
            source: "net.core.somaxconn".to_owned(),
        });
        let of_2001 = Annotation {
            name: "2001: up to here".to_owned(),
            n: 1_000.0,
            kind: AnnotationKind::Event,
            source: "Rothman and Buckman, 2001".to_owned(),
        };
        capacity.into_iter().chain([of_2001]).collect()
    }

    fn cost(settings: &Settings) -> Cost {
        let is_pool = of(settings).is_ok_and(|one| one.has_pool);
        // Without a number, each connection has a member of the pool.
        let members = if is_pool { pool(settings, 0) } else { 0 };
        let (has_each, is_prefork) = (is_pool && members == 0, settings.is("architecture", "prefork"));
        let member_bytes = if is_prefork { PROCESS_BYTES } else { THREAD_BYTES };
        let is_process = ends_processes(settings) || (has_each && is_prefork);
        let is_each = is_process || has_each || settings.is("architecture", "thread");
        // A process has a stack, page tables and pages that it writes to: 97 KiB of pages with `exec` and 25 KiB
        // without, 15 KiB with threads (`AnonPages` in /proc/meminfo, at n = 1,000).
        let (handler_bytes, page_bytes_each) = match () {
            () if is_process && settings.is("architecture", "exec") => (PROCESS_BYTES, 100 << 10),
            () if is_process => (PROCESS_BYTES, 26 << 10),
            () if is_each => (THREAD_BYTES, 15 << 10),
            () => (0, 0),
        };
        Cost {
            // Both ends of a connection.
            memory_bytes_each: 8_000 + handler_bytes,
            page_bytes_each,
            memory_bytes: (64 << 20) + members * member_bytes,
            descriptors_each: 1,
            // A process may still be ending when its connection is replaced.
            processes_each: 2 * u64::from(is_each),
            disk_bytes: 1 << 20,
            ..Cost::default()
        }
    }

    fn uses_other_processors(_: &Settings) -> bool {
        true
    }

    fn step_us(settings: &Settings) -> u64 {
        match (settings.text("workload"), settings.text("architecture")) {
            ("work", _) => 4_500,
            (_, "exec") => 2_800,
            (_, "fork") => 1_300,
            (_, "thread") => 600,
            _ => 250,
        }
    }

    fn setup(context: &Context) -> Result<Self, Stop> {
        let (settings, own) = (context.settings, context.host.pinned_processor);
        let is_kept = workload(settings) == Workload::Work;
        let mut server = Server::start(context)?;
        // The first connections load code and create the state that the server keeps.
        let mut first = Client::new(server.address, workload(settings))?;
        first.round(1, 4).and_then(|_| first.drain()).map_err(|stop| server.explain(stop))?;
        drop(first);
        let polls = settings.is("idle", "poll");
        let processors = if polls { server.processors.iter().copied().chain(own).collect() } else { Vec::new() };
        let idle = IdlePoll::start(processors);
        server.begin();
        let client = Client::new(server.address, workload(settings))?;
        let began =
            Observation { n: 0, time_ns: server.time_ns(), replies: 0, memory_each: None, failures: BTreeMap::new() };
        Ok(Self {
            client,
            meter: has_meter(workload(settings)).then(|| Meter::new(&server)),
            server,
            observed: vec![began],
            last_n: context.n,
            began_ns: monotonic_ns(),
            processor: own,
            idle,
            is_kept,
        })
    }

    fn measured_processes(&self) -> Vec<u32> {
        self.server.processes()
    }

    fn step(&mut self, n: u64, timer: &mut Timer) -> Result<(), Stop> {
        let round = self.client.round(n, REPLIES_EACH).map_err(|stop| self.server.explain(stop))?;
        timer.record_ns(REPLY, round.each_ns);
        timer.record_ns(LATENCY, round.latency_ns);
        if let Some(meter) = &mut self.meter {
            timer.record_ns(PROCESSOR, meter.each_ns(&self.server, self.client.replies));
        }
        // At each power of two, except for one shortly before the end, because every connection gets a reply each time.
        if (n.is_power_of_two() && 2 * n <= self.last_n) || n == self.last_n {
            self.observe(n)?;
        }
        Ok(())
    }

    fn check(&mut self, steps: u64, facts: &mut Facts) -> Result<(), Stop> {
        let (elapsed_ns, in_time) = (monotonic_ns() - self.began_ns, self.client.replies);
        // The server has worked for the connections that are open: their replies count, too.
        self.client.drain().map_err(|stop| self.server.explain(stop))?;
        let processor_ns = self.server.report(self.processor, self.client.replies, facts);
        facts.text("idle_processors", self.idle.describe());
        self.client.report(facts)?;
        report_observations(&self.observed, facts);
        let per_second = in_time as f64 * 1e9 / elapsed_ns.max(1) as f64;
        facts.count("replies_per_second", per_second.round() as u64);
        // The clock of a process that is about to sleep may be a tick old, so the check only requires that half of the
        // work was counted.
        let (worked, least_ns) = (processor_ns.filter(|_| self.is_kept), WORK.as_nanos() as u64 / 2);
        Stop::unless(worked.is_none_or(|ns| ns >= least_ns), || {
            format!("the server used {} ns for a reply, less than half of its work", worked.unwrap_or(0))
        })?;
        Stop::unless(in_time >= steps * REPLIES_EACH, || {
            format!("only {in_time} complete replies in {steps} steps ({REPLIES_EACH} expected per step)")
        })
    }
}

impl Architecture {
    /// Stores the counters of the pass so far. No reply is outstanding at that time: the clock of a process that sleeps
    /// is exact, and reading the memory delays no reply.
    fn observe(&mut self, n: u64) -> Result<(), Stop> {
        self.client.drain().map_err(|stop| self.server.explain(stop))?;
        self.observed.push(Observation {
            n,
            time_ns: self.server.time_ns(),
            replies: self.client.replies,
            // A connection that the server closes at once is in the accept queue, not in its memory.
            memory_each: if self.is_kept { self.server.memory_each(n) } else { None },
            failures: self.client.failures().clone(),
        });
        // After the last step, the client would wait for replies that nothing reports.
        if n == self.last_n {
            return Ok(());
        }
        self.client.begin_batch(n).map_err(|stop| self.server.explain(stop))
    }
}

/// Returns whether the server's processor time is read in every step. With `workload=work` a server never sleeps, and
/// the clock of a process that runs on another processor is up to a tick old, which is several replies. Besides, only
/// Linux has clocks of other processes.
fn has_meter(workload: Workload) -> bool {
    workload == Workload::Busy && cfg!(target_os = "linux")
}

/// Adds the memory at each n, and the processor time and the failures since the n before, to the facts:
/// `failures_refused_at_512`.
fn report_observations(observed: &[Observation], facts: &mut Facts) {
    for (before, now) in observed.iter().zip(observed.iter().skip(1)) {
        let n = now.n;
        if let Some(bytes) = now.memory_each {
            facts.number(&format!("server_memory_per_connection_at_{n}"), bytes as f64, FactUnit::Bytes);
        }
        if let (Some(from), Some(to)) = (before.time_ns, now.time_ns)
            && now.replies > before.replies
        {
            let each_ns = to.saturating_sub(from) / (now.replies - before.replies);
            facts.number(&format!("server_processor_time_per_reply_at_{n}"), each_ns as f64, FactUnit::Ns);
        }
        for (reason, count) in &now.failures {
            let new = count - before.failures.get(reason).unwrap_or(&0);
            if new > 0 {
                facts.count(&format!("failures_{}_at_{n}", reason.replace([' ', '-'], "_")), new);
            }
        }
    }
}

/// Returns the backend that a server uses.
fn used_backend(settings: &Settings, is_ring: bool) -> landau_reactor::Backend {
    if is_ring { "io_uring".parse().unwrap_or_default() } else { backend::named(settings, "backend") }
}

/// Returns whether the processes that do the work end with their connections.
fn ends_processes(settings: &Settings) -> bool {
    settings.is("architecture", "fork") || settings.is("architecture", "exec")
}
