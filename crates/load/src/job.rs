//! From what was asked for to a plan for each worker: addresses resolved and allowed, work shared out, limits heeded.
//! Nothing is sent here but questions to the resolver.

use crate::check;
use crate::error::{Error, Result};
use crate::plan::{Load, Origin, PROTOCOL, Plan, Ports, Request, Sources, Tls};
use crate::replay::Replay;
use crate::schedule::Arrivals;
use crate::source;
use crate::target::{Endpoint, Url};
use landau_reactor::Reactor;
use landau_sys::limits::{Resource, get};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Descriptors of a worker that are no connections: the standard ones, its link, its event set, its alarm, a sample's
/// connection, and some to spare. The controller has as many that are no links.
const RESERVED_DESCRIPTORS: u64 = 24;

/// Connections that are on their way at once, of all workers together, where nobody asked for more: far below any
/// usual backlog.
const WINDOW: u32 = 128;

/// The least of it that a worker has: with fewer, many workers would mostly wait for one another.
const WINDOW_LEAST: u32 = 8;

/// What was asked for.
#[derive(Debug, Clone)]
pub struct Wish {
    /// Where to and what.
    pub urls: Vec<String>,
    /// Hosts of which the user says that they may be loaded.
    pub confirmed: Vec<String>,
    /// The method.
    pub method: String,
    /// Further header fields, `Name: value`.
    pub headers: Vec<String>,
    /// An access log whose requests are made.
    pub replay: Option<PathBuf>,
    /// Whether any certificate will do.
    pub insecure: bool,
    /// Certificates to trust.
    pub roots: Option<PathBuf>,
    /// Connections of a loop.
    pub connections: u32,
    /// Requests under way on one connection.
    pub pipeline: u32,
    /// After how many requests a connection is replaced.
    pub per_connection: Option<u64>,
    /// Requests a second of an open loop.
    pub rate: Option<f64>,
    /// How they follow one another.
    pub arrivals: Arrivals,
    /// Idle connections of a crowd.
    pub crowd: Option<CrowdWish>,
    /// How long it is measured.
    pub duration: Option<Duration>,
    /// How many requests are made.
    pub request_count: Option<u64>,
    /// How long load is made before.
    pub warm_up: Duration,
    /// How long a handshake or an answer may take.
    pub timeout: Duration,
    /// New connections a second, at most.
    pub connect_rate: Option<f64>,
    /// How many workers; as many as the limits need if none.
    pub workers: Option<u32>,
    /// Processors for the workers.
    pub pins: Vec<u32>,
    /// Source addresses.
    pub sources: Vec<IpAddr>,
    /// Drives every random choice.
    pub seed: u64,
    /// The event loop's mechanism.
    pub mechanism: String,
    /// Gates that need not hold.
    pub waived: Vec<String>,
}

/// A crowd that was asked for.
#[derive(Debug, Clone)]
pub struct CrowdWish {
    /// How many idle connections in the end.
    pub n: u32,
    /// Sizes at which samples are taken; those of [`ladder`] if none.
    pub steps: Vec<u32>,
    /// Samples of each kind at each size.
    pub samples: u32,
    /// How often the whole is done.
    pub passes: u32,
    /// How long a size is left alone before samples are taken.
    pub settle: Duration,
    /// The server's process, if it runs here and its memory is to be told.
    pub server: Option<u32>,
}

/// A crowd as it is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrowdJob {
    /// The sizes, rising.
    pub steps: Vec<u32>,
    /// Samples of each kind at each size.
    pub samples: u32,
    /// How often the whole is done.
    pub passes: u32,
    /// How long a size is left alone.
    pub settle: Duration,
    /// The server's process, whose memory is told.
    pub server: Option<u32>,
}

/// What is to be done: a plan for each worker, and what the controller itself needs.
#[derive(Debug, Clone)]
pub struct Job {
    /// One for each worker.
    pub plans: Vec<Plan>,
    /// The kind of load; of an open loop the rate of all together.
    pub load: Load,
    /// The crowd's sizes.
    pub crowd: Option<CrowdJob>,
    /// Where connections go.
    pub endpoints: Vec<Endpoint>,
    /// Gates that need not hold.
    pub waived: Vec<String>,
    /// What the user should know beforehand, a sentence each.
    pub notes: Vec<String>,
}

impl Job {
    /// Makes plans of a wish, or says why it cannot be met here.
    pub fn resolve(wish: &Wish) -> Result<Self> {
        check::wish(wish)?;
        let mut notes = Vec::new();
        let origins = origins(wish, &mut notes)?;
        let endpoints: Vec<Endpoint> = origins.iter().map(|origin| origin.endpoint.clone()).collect();
        let load = load_of(wish);
        let connections = wish.crowd.as_ref().map_or(wish.connections, |crowd| crowd.n);
        let worker_count = worker_count(wish, connections)?;
        let window = if wish.per_connection.is_some() { wish.connections } else { WINDOW };
        let (mechanism, why) = Reactor::resolve_backend(wish.mechanism.parse()?)?;
        notes.extend(why);
        let sources = source::share_out(&endpoints, connections, worker_count, wish, &mut notes)?;
        let share = |total: u32, worker: u32| total / worker_count + u32::from(worker < total % worker_count);
        let share_long = |total: u64, worker: u32| {
            total / u64::from(worker_count) + u64::from(u64::from(worker) < total % u64::from(worker_count))
        };
        let plan = |(worker, sources): (u32, Sources)| Plan {
            version: PROTOCOL,
            share: (worker, worker_count),
            origins: origins.clone(),
            load: match load {
                Load::Open { per_second, arrivals } => {
                    Load::Open { per_second: per_second / f64::from(worker_count), arrivals }
                }
                ref other => other.clone(),
            },
            connections: share(connections, worker),
            pipeline: wish.pipeline,
            per_connection: wish.per_connection,
            duration_ns: wish.duration.map(nanoseconds),
            request_count: wish.request_count.map(|count| share_long(count, worker)),
            warm_up_ns: nanoseconds(wish.warm_up),
            timeout_ns: nanoseconds(wish.timeout),
            window: share(window, worker).max(WINDOW_LEAST),
            connect_gap_ns: wish.connect_rate.map_or(0, |rate| (1e9 * f64::from(worker_count) / rate) as u64),
            seed: wish.seed,
            processor: (!wish.pins.is_empty()).then(|| wish.pins[worker as usize % wish.pins.len()]),
            mechanism: mechanism.to_string(),
            sources,
        };
        let plans = (0..worker_count).zip(sources).map(plan).collect();
        let crowd = wish.crowd.as_ref().map(crowd_job).transpose()?;
        Ok(Self { plans, load, crowd, endpoints, waived: wish.waived.clone(), notes })
    }

    /// The server's process, if its memory is to be told.
    pub(crate) fn server(&self) -> Option<u32> {
        self.crowd.as_ref()?.server
    }

    /// Whether each request of an open loop has a connection of its own.
    pub(crate) fn is_of_fresh_connections(&self) -> bool {
        self.plans.first().is_some_and(Plan::is_of_fresh_connections)
    }
}

pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn load_of(wish: &Wish) -> Load {
    match (&wish.crowd, wish.rate) {
        (Some(_), _) => Load::Crowd,
        (None, Some(per_second)) => Load::Open { per_second, arrivals: wish.arrivals },
        (None, None) => Load::Closed,
    }
}

/// The servers, each once, with what is asked there.
fn origins(wish: &Wish, notes: &mut Vec<String>) -> Result<Vec<Origin>> {
    let mut found: Vec<Origin> = Vec::new();
    for text in &wish.urls {
        let url = Url::parse(text)?;
        let endpoint = url.resolve(&wish.confirmed)?;
        let tls =
            url.is_secure.then(|| Tls { name: url.host.clone(), insecure: wish.insecure, roots: wish.roots.clone() });
        let request = |method: &str, target: &str| request(method, target, &url.authority(), &wish.headers);
        let (requests, order) = match &wish.replay {
            None => (vec![request(&wish.method, &url.target)], Vec::new()),
            Some(path) => {
                let unusable = |reason: String| Error::File { path: path.display().to_string(), reason };
                let bytes = std::fs::read(path).map_err(|error| unusable(error.to_string()))?;
                let replay = Replay::parse(&String::from_utf8_lossy(&bytes));
                if replay.order.is_empty() {
                    return Err(unusable("no line is a GET or HEAD in the common or combined format".to_owned()));
                }
                notes.push(format!(
                    "{}: {} requests, {} different ones; lines left out: {}",
                    path.display(),
                    replay.order.len(),
                    replay.requests.len(),
                    replay.left_out
                ));
                (replay.requests.iter().map(|(method, target)| request(method, target)).collect(), replay.order)
            }
        };
        match found.iter_mut().find(|one| one.endpoint == endpoint && one.tls == tls) {
            Some(origin) if wish.replay.is_none() => origin.requests.extend(requests),
            _ => found.push(Origin { endpoint, tls, requests, order }),
        }
    }
    Ok(found)
}

/// A request's bytes: as one of several on a connection, and as the last one.
fn request(method: &str, target: &str, authority: &str, headers: &[String]) -> Request {
    let mut head = format!("{method} {target} HTTP/1.1\r\n");
    if !headers.iter().any(|header| header.to_ascii_lowercase().starts_with("host:")) {
        head.extend(["Host: ", authority, "\r\n"]);
    }
    for header in headers {
        head.extend([header.as_str(), "\r\n"]);
    }
    Request {
        method: method.to_owned(),
        bytes: format!("{head}\r\n"),
        last_bytes: format!("{head}Connection: close\r\n\r\n"),
    }
}

/// As many workers as were asked for, and at least as many as the limit of descriptors needs.
fn worker_count(wish: &Wish, connections: u32) -> Result<u32> {
    shared_out(get(Resource::Descriptors)?.1, connections, wish.workers)
}

/// The same where a process may hold so many descriptors: a worker one for each connection, the controller one for each
/// worker.
fn shared_out(limit: u64, connections: u32, asked: Option<u32>) -> Result<u32> {
    let most = limit.saturating_sub(RESERVED_DESCRIPTORS);
    let least = u64::from(connections).max(1).div_ceil(most.max(1));
    let count = asked.map_or(least, |asked| u64::from(asked.min(connections.max(1))));
    if count > most {
        let workers = if count == 1 { "a worker".to_owned() } else { format!("{count} workers") };
        return Err(Error::Plan(format!(
            "{connections} connections by {workers}: RLIMIT_NOFILE is {limit}, which is too low for that; raise it \
             with ulimit -n, or ask for fewer"
        )));
    }
    if count < least {
        return Err(Error::Plan(format!(
            "{connections} connections need {least} workers at least: a process may hold {most} of them, for \
             RLIMIT_NOFILE is {limit}; raise it with ulimit -n, or leave --workers out"
        )));
    }
    Ok(count as u32)
}

fn crowd_job(wish: &CrowdWish) -> Result<CrowdJob> {
    let mut steps = if wish.steps.is_empty() { ladder(wish.n) } else { wish.steps.clone() };
    steps.sort_unstable();
    steps.dedup();
    if steps.first() == Some(&0) || steps.last().is_none_or(|&last| last > wish.n) {
        return Err(Error::Plan(format!("the steps of a crowd lie from 1 to {}", wish.n)));
    }
    if let Some(pid) = wish.server
        && landau_sys::system::private_bytes(pid).is_none()
    {
        return Err(Error::Plan(format!(
            "--server-pid {pid}: there is no such process here whose memory could be read"
        )));
    }
    let (samples, passes, settle, server) = (wish.samples, wish.passes.max(1), wish.settle, wish.server);
    Ok(CrowdJob { steps, samples, passes, settle, server })
}

/// Sizes of a crowd at which it is worth looking: 1, 2, 5, 10 … and the last.
pub fn ladder(n: u32) -> Vec<u32> {
    let decades = (0..10).flat_map(|power| [1, 2, 5].map(|digit| digit * 10_u64.pow(power)));
    let below = decades.take_while(|&size| size < u64::from(n)).map(|size| size as u32);
    below.chain([n]).collect()
}

/// How the ports of connections are chosen, where it is we who choose.
pub(crate) fn ports(low: u16, high: u16, has_range: bool) -> Ports {
    if has_range { Ports::Range { low, high } } else { Ports::Explicit { low, high } }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 64 descriptors all were set aside, so that 100 connections had 100 workers, for which there was no room.
    #[test]
    fn a_low_limit_of_descriptors_needs_few_workers_or_is_told() {
        assert_eq!(shared_out(64, 100, None).unwrap(), 3);
        assert_eq!((shared_out(1024, 1, Some(5)).unwrap(), shared_out(1024, 7, Some(5)).unwrap()), (1, 5));
        for (limit, connections, asked, expected) in [
            (20, 1, None, "1 connections by a worker: RLIMIT_NOFILE is 20, which is too low for that; raise it with"),
            (64, 10_000, None, "10000 connections by 250 workers: RLIMIT_NOFILE is 64"),
            (64, 100, Some(41), "100 connections by 41 workers: RLIMIT_NOFILE is 64"),
            (64, 100, Some(2), "100 connections need 3 workers at least: a process may hold 40 of them"),
        ] {
            let said = shared_out(limit, connections, asked).unwrap_err().to_string();
            assert!(said.starts_with(expected), "{said}");
        }
    }
}
