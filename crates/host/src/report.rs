//! The answer: which limit binds, and how to raise it.

use crate::census::Census;
use crate::conditions::conditions;
use crate::connection::Measured;
use crate::context::{A_PROCESS, Context, Folder};
use crate::demand::Demand;
use crate::limit::{self, PortsInUse};
use crate::noise::Noise;
use crate::process::{Process, describe};
use crate::rights;
use crate::root::Root;
use crate::row::{Bound, Condition, Effect, OF_A_NETWORK, Remedy, Row};
use crate::subject::{Subject, Unread};
use crate::text::grouped;
use serde::Serialize;

/// The subject of the examination, and the measurements for it.
#[derive(Debug)]
pub struct Request {
    subject: Subject,
    free_descriptors: u64,
    /// The requested kinds of load.
    pub demands: Vec<Demand>,
    /// The directory for files that would be created.
    pub folder: Option<Folder>,
    /// The kernel's memory for a connection, or why it was not measured; `None` if it was not requested.
    pub connection: Option<Result<Measured, String>>,
    /// The current interference, if it was measured.
    pub noise: Option<Noise>,
    /// The reserves that `landau run` keeps free, for each requested benchmark.
    pub reserves: Vec<Reserve>,
    /// The memory of the workers of these benchmarks in addition to their objects.
    pub workers: Vec<Worker>,
    /// The profile of a `landau tune` trial that was killed and left its settings in place.
    pub killed_trial: Option<String>,
    /// What the caller could not read, with the reason.
    pub unread: Vec<Unread>,
}

impl Request {
    /// Reads this process, or the running program with this pid. Measurements, and limits that this process raises,
    /// must come later.
    ///
    /// # Errors
    ///
    /// [`NoProcess`] if there is no process with that number, or `/proc` is not mounted.
    pub fn new(root: &Root, pid: Option<u32>, demands: Vec<Demand>) -> Result<Self, NoProcess> {
        let subject = Subject::read(root, pid).ok_or(NoProcess(pid))?;
        let own = Subject::read(root, None).ok_or(NoProcess(None))?;
        let soft = own.limit("Max open files").map_or(0, |(soft, _)| soft);
        let free_descriptors = soft.saturating_sub(own.descriptors.unwrap_or(soft));
        Ok(Self {
            subject,
            free_descriptors,
            demands,
            folder: None,
            connection: None,
            noise: None,
            reserves: Vec::new(),
            workers: Vec::new(),
            killed_trial: None,
            unread: Vec::new(),
        })
    }

    /// Returns the examined program if its network namespace is known to differ from that of this process.
    pub fn in_other_network(&self, root: &Root) -> Option<u32> {
        let pid = self.subject.name.parse().ok()?;
        (self.subject.shares_namespace(root, "net") == Some(false)).then_some(pid)
    }

    /// Returns whether the examined program's use of the resources for this kind of load is unreadable.
    fn hides_use(&self, demand: &Demand) -> bool {
        let (subject, needs) = (&self.subject, &demand.kind.needs);
        let hides_descriptors = needs.descriptors.is_some() && subject.descriptors.is_none();
        subject.is_other && (hides_descriptors || (needs.maps > 0 && subject.maps.is_none()))
    }

    /// Returns how many more descriptors this process may open, even if another one is examined.
    pub fn free_descriptors(&self) -> u64 {
        self.free_descriptors
    }
}

/// The limit that `landau run` puts on a size, because it keeps part of the host free or the benchmark accepts no
/// larger one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reserve {
    /// The benchmark.
    pub benchmark: String,
    /// The n at which it ends.
    pub at_most: u64,
    /// The resource of which a part is kept free, as text, or that the benchmark accepts no more.
    pub reason: String,
    /// Whether part of the host is kept free.
    pub is_of_host: bool,
}

/// The address space that the worker of a benchmark needs in addition to the program's own and that of its objects: the
/// samples, and the data that the benchmark keeps for each step.
pub struct Worker {
    /// The benchmark.
    pub benchmark: String,
    /// Returns the bytes if the benchmark ends at this n. They must not decrease with n.
    pub bytes: Box<dyn Fn(u64) -> u64 + Send + Sync>,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("benchmark", &self.benchmark).finish_non_exhaustive()
    }
}

/// The version of the JSON answer, which docs/doctor.md describes.
const SCHEMA: u32 = 1;

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The version of these members.
    pub schema: u32,
    /// For each demand, the limit that binds.
    pub answers: Vec<Answer>,
    /// All limits, in ascending order of their bounds.
    pub limits: Vec<Row>,
    /// The conditions that distort times.
    pub conditions: Vec<Condition>,
    /// The running program that was requested.
    pub process: Option<Process>,
    /// The kernel's memory for a connection, if it was measured.
    pub connection: Option<Measured>,
    /// The current interference, if it was measured.
    pub noise: Option<Noise>,
    /// What could not be read or measured, with the reason.
    pub unread: Vec<Unread>,
}

/// The answer to one demand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// The kind of load.
    pub kind: &'static str,
    /// The requested size; `None` if the maximum was requested.
    pub asked: Option<u64>,
    /// Whether it fits; `None` if no size was requested, or no limit is known.
    pub fits: Option<bool>,
    /// The maximum that fits.
    pub at_most: Option<u64>,
    /// The unit.
    pub unit: String,
    /// The name of the limit that binds.
    pub limit: Option<String>,
    /// The answer as a sentence.
    pub sentence: String,
    /// What to do if it does not fit.
    pub remedy: Remedy,
    /// What reaches the size without raising a limit.
    pub instead: Option<String>,
    /// The limits that the size exceeds, but that only slow it down or fail now and then, as sentences.
    pub warnings: Vec<String>,
}

/// The process does not exist; `None` if this process cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoProcess(pub Option<u32>);

impl std::error::Error for NoProcess {}

impl std::fmt::Display for NoProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(pid) => write!(f, "there is no process {pid}; run `pidof PROGRAM` to find its pid"),
            None => f.write_str("/proc/self/status cannot be read; is /proc mounted? (only Linux has it)"),
        }
    }
}

/// Examines a host, without changing it.
pub fn examine(root: &Root, request: &Request) -> Report {
    let subject = request.subject.clone();
    let mut unread = [&subject.unread[..], &request.unread].concat();
    let measured = request.connection.as_ref().and_then(|result| result.as_ref().ok());
    let context = Context {
        root,
        ports: PortsInUse::read(root, &subject),
        subject,
        demands: &request.demands,
        census: Census::take(root),
        folder: request.folder.as_ref(),
        connection_bytes: measured.map(|measured| measured.bytes_each),
        workers: &request.workers,
        killed_trial: request.killed_trial.as_deref(),
        page_bytes: landau_sys::memory::page_bytes() as u64,
    };
    unread.extend(context.census.unread());
    unread.extend(unseen_namespaces(&context));
    let mut limits = limit::rows(&context);
    if context.subject.shares_namespace(root, "net") == Some(false) {
        limits.iter_mut().filter(|row| row.owner == OF_A_NETWORK).for_each(|row| of_other_network(row, &context));
    }
    let of_reserves = request.reserves.iter().filter_map(|reserve| of_reserve(reserve, &request.demands, &limits));
    let of_reserves: Vec<Row> = of_reserves.collect();
    limits.extend(of_reserves);
    let process = context.subject.is_other.then(|| describe(&context, &mut unread));
    // If its descriptors cannot be read, the listening sockets include those of other programs.
    let own = process.iter().filter(|process| process.connections.is_some());
    limits.extend(own.flat_map(|process| limit::of_listeners(&context, &process.listeners)));
    limits.sort_by_key(tightest);
    if let Some(Err(why)) = &request.connection {
        unread.push(Unread { what: "the kernel's memory for a connection".to_owned(), why: why.clone() });
    }
    Report {
        schema: SCHEMA,
        answers: request
            .demands
            .iter()
            .map(|demand| answer(&context, demand, &limits, request.hides_use(demand)))
            .collect(),
        conditions: conditions(&context),
        process,
        connection: measured.cloned(),
        noise: request.noise.clone(),
        limits,
        unread,
    }
}

/// Returns the settings of the program's namespaces that are not shown, and the commands that show them.
fn unseen_namespaces(context: &Context) -> Vec<Unread> {
    let subject = &context.subject;
    let of = |kind: &str, what: &str, flags: &str| {
        (subject.shares_namespace(context.root, kind) == Some(false)).then(|| Unread {
            what: what.to_owned(),
            why: format!("run nsenter -t {} {flags} landau doctor --for …", subject.name),
        })
    };
    let pid = of("pid", "kernel.pid_max of its pid namespace", "-p -m");
    let hidden = subject.is_other && subject.shares_namespace(context.root, "net").is_none();
    let net = (hidden && context.root.link("proc/self/ns/net").is_some()).then(|| Unread {
        what: "its network namespace".to_owned(),
        why: format!(
            "its namespace link cannot be read; net.* settings are those of this process: {}",
            rights::advice(context.root, "landau doctor")
        ),
    });
    let outer = context.is_contained().then(|| Unread {
        what: "limits of the namespaces and control groups around this container".to_owned(),
        why: "they apply too, and cannot be seen from here: run landau doctor on the host".to_owned(),
    });
    pid.into_iter().chain(net).chain(outer).collect()
}

/// Changes the row of a per-namespace setting to that of the program's network namespace: a command here would change
/// another one.
fn of_other_network(row: &mut Row, context: &Context) {
    "its network namespace (not this one)".clone_into(&mut row.owner);
    row.remedy.now = row.remedy.now.take().map(|command| format!("nsenter -t {} -n {command}", context.subject.name));
    let for_good = "by the program that creates the namespace: --sysctl of docker run and podman run";
    row.remedy.for_good = Some(for_good.to_owned());
}

/// Returns the sort key of a row: rows that stop something come first, in ascending order of their bounds.
fn tightest(row: &Row) -> (bool, u64) {
    let stops = row.bounds.iter().filter(|bound| bound.effect == Effect::Stops).map(|bound| bound.at_most).min();
    let any = row.bounds.iter().map(|bound| bound.at_most).min();
    (stops.is_none(), stops.or(any).unwrap_or(u64::MAX))
}

/// Returns the row of the reserve of `landau run`, if it reduces the size; its remedy is that of the underlying limit.
fn of_reserve(reserve: &Reserve, demands: &[Demand], limits: &[Row]) -> Option<Row> {
    let demand = demands.iter().find(|demand| demand.kind.name == reserve.benchmark)?;
    let kind = demand.kind.name;
    let is_it = |bound: &&Bound| bound.kind == kind && bound.effect == Effect::Stops;
    let bound_of = |row: &Row| row.bounds.iter().find(is_it).map(|bound| bound.at_most);
    // The engine's text is "kernel.pid_max is 32768, …"; for memory, it does not name the owner.
    let named = reserve.reason.split_once(" is ").map(|(name, _)| name.replace(" the control group", ""));
    let behind = limits.iter().find(|row| Some(&row.limit) == named.as_ref()).or_else(|| {
        let of_memory = limits.iter().filter(|row| row.limit.starts_with("memory"));
        of_memory.filter(|_| reserve.reason.contains("free memory")).min_by_key(|row| bound_of(row).unwrap_or(u64::MAX))
    });
    let (limit, evidence) = if reserve.is_of_host {
        let limit = behind.map_or(RESERVE.to_owned(), |row| format!("{}, less {RESERVE}", row.limit));
        (limit, "landau run reserves part of the host and stops before the kernel's limit".to_owned())
    } else {
        ("the largest n of the benchmark".to_owned(), format!("landau list {kind}"))
    };
    Some(Row {
        limit,
        value: reserve.reason.clone(),
        in_use: None,
        is_bytes: false,
        owner: behind.map_or("landau run".to_owned(), |row| row.owner.clone()),
        bounds: vec![Bound {
            kind,
            at_most: reserve.at_most,
            unit: demand.kind.unit.to_owned(),
            effect: Effect::Stops,
        }],
        evidence,
        counters: Vec::new(),
        remedy: behind.map(|row| row.remedy.clone()).unwrap_or_default(),
    })
}

/// The name of the reserve that `landau run` keeps free.
const RESERVE: &str = "the reserve of landau run";

/// If `hides_use`, the resources in use by the program are unreadable: a size that fits an idle program does not
/// necessarily fit this one.
fn answer(context: &Context, demand: &Demand, limits: &[Row], hides_use: bool) -> Answer {
    let of = |effect: Effect| {
        limits.iter().flat_map(move |row| {
            let is_it = move |bound: &&Bound| bound.kind == demand.kind.name && bound.effect == effect;
            row.bounds.iter().filter(is_it).map(move |bound| (row, bound))
        })
    };
    let binding = of(Effect::Stops).min_by_key(|(_, bound)| bound.at_most);
    let asked = demand.size;
    let fits = binding.zip(asked).map(|((_, bound), asked)| asked <= bound.at_most);
    let fits = fits.filter(|fits| !(hides_use && *fits));
    let warning = |(row, bound): (&Row, &Bound)| {
        format!("beyond {} {} ({}): {}", grouped(bound.at_most), bound.unit, row.limit, row.evidence)
    };
    let is_exceeded = |bound: &Bound| asked.is_some_and(|asked| asked > bound.at_most);
    let exceeded: Vec<&Bound> = of(Effect::Stops).map(|(_, bound)| bound).filter(|bound| is_exceeded(bound)).collect();
    let bent = of(Effect::Bends).filter(|(_, bound)| is_exceeded(bound));
    Answer {
        kind: demand.kind.name,
        asked,
        fits,
        at_most: binding.map(|(_, bound)| bound.at_most),
        unit: binding.map_or(demand.kind.unit.to_owned(), |(_, bound)| bound.unit.clone()),
        limit: binding.map(|(row, _)| row.limit.clone()),
        sentence: sentence(demand, binding, fits),
        remedy: binding.filter(|_| fits == Some(false)).map(|(row, _)| row.remedy.clone()).unwrap_or_default(),
        instead: instead(context, demand, &exceeded),
        warnings: bent.map(warning).collect(),
    }
}

/// Returns how several server processes reach a size that only limits of one process prevent.
fn instead(context: &Context, demand: &Demand, exceeded: &[&Bound]) -> Option<String> {
    if exceeded.is_empty() || !exceeded.iter().all(|bound| bound.unit.ends_with(A_PROCESS)) {
        return None;
    }
    let processes = limit::processes(context, demand)?;
    let options = if context.subject.is_other {
        String::new()
    } else {
        format!(": `landau serve --processes {processes}`, `worker_processes {processes}` of nginx")
    };
    Some(format!("{} processes that share the listening socket, each with this limit{options}", grouped(processes)))
}

fn sentence(demand: &Demand, binding: Option<(&Row, &Bound)>, fits: Option<bool>) -> String {
    let label = demand.label();
    let Some((row, bound)) = binding else {
        return format!("{label}: no limit is known");
    };
    let most = format!("at most {} {}", grouped(bound.at_most), bound.unit);
    match fits {
        Some(true) => format!("{label} fits: {most} ({})", row.limit),
        Some(false) => format!("{label} does not fit: {most} ({}: {})", row.limit, row.value),
        None => format!("{label}: {most} ({})", row.limit),
    }
}
