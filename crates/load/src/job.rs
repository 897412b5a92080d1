//! Turns a load specification into a plan for each worker: resolves and checks addresses, divides the work, and
//! respects the limits of the host. Sends nothing except queries to the resolver.

use crate::clock::nanoseconds;
use crate::error::{Error, Result};
use crate::gate::{self, Gate};
use crate::origin::origins;
use crate::plan::{Load, PROTOCOL, Plan, Sources};
use crate::source;
use crate::spec::{IdleSpec, LoadSpec};
use crate::target::Endpoint;
use crate::validate;
use landau_reactor::Reactor;
use landau_sys::limits::{Resource, get};
use std::time::Duration;

/// Descriptors of a worker other than its connections: the standard ones, the link, the event set, the timer, the
/// connection of a sample, and some spare ones. The controller reserves as many in addition to its links.
const RESERVED_DESCRIPTORS: u64 = 24;

/// Maximum number of connections in a handshake at a time: over all workers of a loop, or in each worker of an idle
/// load, including those that wait for their first response, unless the user sets the number (`--connect-window`).
const WINDOW: u32 = 128;

/// The same limit over all workers of an idle load, unless the user sets another: about the backlog of many servers
/// (511).
const IDLE_WINDOW: u32 = 512;

/// The smallest part of the window that a worker gets if the window is large enough. With a smaller one, many workers
/// would mostly wait.
const WINDOW_LEAST: u32 = 8;

/// The largest number of workers that open connections at the same time with `--connect-rate`. It is small, because the
/// first connections of all these workers start at once, whatever the rate.
const PACED_OPENERS: u32 = 4;

/// A load that is ready to run: a plan for each worker, and what the controller needs.
#[derive(Debug, Clone)]
pub struct Job {
    /// One plan for each worker.
    pub plans: Vec<Plan>,
    /// The kind of load; for an open loop with the rate of all workers together.
    pub load: Load,
    /// The steps of an idle load.
    pub idle: Option<IdleJob>,
    /// Addresses of the servers.
    pub endpoints: Vec<Endpoint>,
    /// Gates that may fail.
    pub waived: Vec<&'static Gate>,
    /// Remarks for the user before the run, a sentence each.
    pub notes: Vec<String>,
}

/// The steps of an idle load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdleJob {
    /// Numbers of idle connections, increasing.
    pub steps: Vec<u32>,
    /// Samples on idle connections, and on new ones, at each step.
    pub samples: u32,
    /// Number of repetitions.
    pub passes: u32,
    /// Time between opening the connections of a step and its samples.
    pub settle: Duration,
    /// Process ID of a server on this host whose memory is reported.
    pub server_pid: Option<u32>,
    /// Number of workers that open connections at the same time; the others wait for their turn.
    pub openers: u32,
}

impl Job {
    /// Returns the job of a specification.
    ///
    /// # Errors
    ///
    /// If the specification contradicts itself or exceeds the limits of this host, or if it names a host that may not
    /// be loaded, a name that does not resolve, or a file that cannot be used.
    pub fn resolve(spec: &LoadSpec) -> Result<Self> {
        validate::check(spec)?;
        let waived = spec.waived.iter().map(|name| gate::find(name)).collect::<Result<_>>()?;
        let mut notes = Vec::new();
        let origins = origins(spec, &mut notes)?;
        let endpoints: Vec<Endpoint> = origins.iter().map(|origin| origin.endpoint.clone()).collect();
        let load = load(spec);
        let connections = spec.idle.as_ref().map_or(spec.connections, |idle| idle.n);
        let worker_count = worker_count(get(Resource::Descriptors)?.1, connections, spec.workers)?;
        let has_rate = spec.connect_rate.is_some();
        let openers = spec.idle.as_ref().map(|idle| Openers::new(worker_count, has_rate, idle.window));
        // The workers that open connections at the same time share the rate.
        let opener_count = openers.map_or(worker_count, |openers| openers.count);
        let window = |worker: u32| {
            if let Some(openers) = openers {
                return openers.window;
            }
            let all = if spec.per_connection.is_some() { spec.connections } else { WINDOW };
            (share(all.into(), worker, worker_count) as u32).max(WINDOW_LEAST)
        };
        let (backend, fallback) = Reactor::resolve_backend(spec.backend.parse()?)?;
        notes.extend(fallback);
        let sources = source::divide(&endpoints, connections, worker_count, spec, &mut notes)?;
        let plan = |(worker, sources): (u32, Sources)| Plan {
            version: PROTOCOL,
            share: (worker, worker_count),
            origins: origins.clone(),
            load: match &load {
                Load::Open { per_second, arrivals } => {
                    Load::Open { per_second: per_second / f64::from(worker_count), arrivals: *arrivals }
                }
                other => other.clone(),
            },
            connections: share(connections.into(), worker, worker_count) as u32,
            pipeline: spec.pipeline,
            http2: spec.http2,
            per_connection: spec.per_connection,
            duration_ns: spec.duration.map(nanoseconds),
            request_count: spec.request_count.map(|count| share(count, worker, worker_count)),
            warm_up_ns: nanoseconds(spec.warm_up),
            timeout_ns: nanoseconds(spec.timeout),
            window: window(worker),
            connect_gap_ns: spec.connect_rate.map_or(0, |rate| (1e9 * f64::from(opener_count) / rate) as u64),
            seed: spec.seed,
            cpu: spec.cpus.get(worker as usize % spec.cpus.len().max(1)).copied(),
            backend: backend.to_string(),
            sources,
        };
        let plans = (0..worker_count).zip(sources).map(plan).collect();
        let idle = spec.idle.as_ref().map(|idle| idle_job(idle, opener_count)).transpose()?;
        Ok(Self { plans, load, idle, endpoints, waived, notes })
    }

    /// Returns the process ID of the server whose memory is reported.
    pub(crate) fn server_pid(&self) -> Option<u32> {
        self.idle.as_ref()?.server_pid
    }

    /// Returns whether each request of an open loop opens a connection.
    pub(crate) fn connects_per_request(&self) -> bool {
        self.plans.first().is_some_and(Plan::connects_per_request)
    }
}

/// The workers of an idle load that open connections at the same time.
///
/// With only a few, the CPU switches between worker and server for nearly every connection. With many, which share the
/// CPU with the server, each finds several responses when it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Openers {
    count: u32,
    /// Maximum number of connections of each that are in a handshake, or before their first response, at a time.
    window: u32,
}

impl Openers {
    /// Divides a window of all workers (`--connect-window`). With a connect rate, of which each gets an equal part, the
    /// count divides the number of workers: a smaller last group would not keep the rate.
    fn new(worker_count: u32, has_rate: bool, window: Option<u32>) -> Self {
        let (all, most_each) = window.map_or((IDLE_WINDOW, WINDOW), |all| (all, all));
        let most = (all / WINDOW_LEAST).clamp(1, if has_rate { PACED_OPENERS } else { u32::MAX }).min(worker_count);
        let count = (1..=most).rev().find(|&count| !has_rate || worker_count.is_multiple_of(count)).unwrap_or(1);
        Self { count, window: (all / count).min(most_each) }
    }
}

/// Returns a worker's share of a total; the first workers get the remainder.
pub(crate) fn share(total: u64, worker: u32, worker_count: u32) -> u64 {
    let (worker, count) = (u64::from(worker), u64::from(worker_count));
    total / count + u64::from(worker < total % count)
}

fn load(spec: &LoadSpec) -> Load {
    match (&spec.idle, spec.rate) {
        (Some(_), _) => Load::Idle,
        (None, Some(per_second)) => Load::Open { per_second, arrivals: spec.arrivals },
        (None, None) => Load::Closed,
    }
}

/// Returns the number of workers: as many as requested, and at least as many as the limit on open files requires. A
/// worker needs a descriptor for each connection, the controller one for each worker.
fn worker_count(limit: u64, connections: u32, asked: Option<u32>) -> Result<u32> {
    let most = limit.saturating_sub(RESERVED_DESCRIPTORS);
    let least = u64::from(connections).max(1).div_ceil(most.max(1));
    let count = asked.map_or(least, |asked| u64::from(asked.min(connections.max(1))));
    let plural = |count: u64, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let connections = plural(connections.into(), "connection");
    if count > most {
        let workers = plural(count, "worker");
        return Err(Error::Plan(format!(
            "the limit on open files (RLIMIT_NOFILE, {limit}) is too low for {connections} and {workers}; raise it \
             with ulimit -n, or ask for fewer connections"
        )));
    }
    if count < least {
        return Err(Error::Plan(format!(
            "{connections} require at least {}: the limit on open files (RLIMIT_NOFILE, {limit}) permits {most} \
             connections per worker; raise it with ulimit -n, or omit --workers",
            plural(least, "worker")
        )));
    }
    Ok(count as u32)
}

fn idle_job(spec: &IdleSpec, openers: u32) -> Result<IdleJob> {
    let mut steps = if spec.steps.is_empty() { ladder(spec.n) } else { spec.steps.clone() };
    steps.sort_unstable();
    steps.dedup();
    if let Some(step) = steps.iter().find(|&&step| step == 0 || step > spec.n) {
        return Err(Error::Plan(format!("--steps {step}: must be from 1 to {}, the number of --idle", spec.n)));
    }
    if let Some(pid) = spec.server_pid
        && landau_sys::system::private_bytes(pid).is_none()
    {
        return Err(Error::Plan(format!(
            "--server-pid {pid}: cannot read the memory of process {pid} (/proc/{pid}/smaps_rollup); check that it \
             runs on this host, and as this user"
        )));
    }
    let IdleSpec { samples, settle, server_pid, .. } = *spec;
    Ok(IdleJob { steps, samples, passes: spec.passes.max(1), settle, server_pid, openers })
}

/// Returns the default steps up to `n`: 1, 2, 5, 10 … `n`.
pub fn ladder(n: u32) -> Vec<u32> {
    let decades = (0..10).flat_map(|power| [1, 2, 5].map(|digit| digit * 10_u64.pow(power)));
    let below = decades.take_while(|&step| step < u64::from(n)).map(|step| step as u32);
    below.chain([n]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With a limit of 64 all descriptors were once reserved, so that 100 connections required 100 workers.
    #[test]
    fn low_limit_on_open_files_needs_few_workers_or_is_an_error() {
        assert_eq!(worker_count(64, 100, None).unwrap(), 3);
        assert_eq!((worker_count(1024, 1, Some(5)).unwrap(), worker_count(1024, 7, Some(5)).unwrap()), (1, 5));
        let low = "the limit on open files (RLIMIT_NOFILE, ";
        for (limit, connections, asked, expected) in [
            (20, 1, None, format!("{low}20) is too low for 1 connection and 1 worker; raise it with ulimit -n")),
            (64, 10_000, None, format!("{low}64) is too low for 10000 connections and 250 workers;")),
            (64, 100, Some(41), format!("{low}64) is too low for 100 connections and 41 workers;")),
            (64, 100, Some(2), format!("100 connections require at least 3 workers: {low}64) permits 40 connections")),
        ] {
            let error = worker_count(limit, connections, asked).unwrap_err().to_string();
            assert!(error.starts_with(&expected), "{error}");
        }
    }

    /// Of five workers, four once opened their shares at the full rate, and the last one alone at a quarter of it.
    #[test]
    fn with_a_connect_rate_all_turns_of_the_workers_are_full() {
        for count in [1, 3, 5, 6, 40, 51, 65] {
            let openers = Openers::new(count, true, None);
            assert!(count.is_multiple_of(openers.count), "{count}: the last ones would not keep the rate");
        }
        assert_eq!(Openers::new(51, true, None), Openers { count: 3, window: 128 });
        assert_eq!(Openers::new(51, true, Some(3000)), Openers { count: 3, window: 1000 });
    }

    #[test]
    fn workers_that_open_connections_share_the_window() {
        for (workers, window, expected) in [
            (1, None, (1, 128)),
            (51, None, (51, 10)),
            (65, None, (64, 8)),
            (1, Some(512), (1, 512)),
            (51, Some(2048), (51, 40)),
            (100, Some(2048), (100, 20)),
            (51, Some(20), (2, 10)),
            (51, Some(7), (1, 7)),
            (51, Some(1), (1, 1)),
        ] {
            let openers = Openers::new(workers, false, window);
            assert_eq!((openers.count, openers.window), expected, "{workers} {window:?}");
        }
    }

    #[test]
    fn shares_add_up() {
        for (total, count) in [(0, 3), (7, 3), (100, 1), (5, 8)] {
            assert_eq!((0..count).map(|worker| share(total, worker, count)).sum::<u64>(), total);
        }
    }

    #[test]
    fn default_steps_are_1_2_5_10_and_the_last() {
        assert_eq!(ladder(30), [1, 2, 5, 10, 20, 30]);
        assert_eq!(ladder(1), [1]);
    }
}
