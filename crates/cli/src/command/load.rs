//! `landau load`: generates HTTP load and checks whether the result is a valid measurement.

use crate::load::{Live, Opening, Recorder, text};
use crate::options::{Numbers, numbers};
use crate::status;
use crate::terminal::indented;
use anyhow::Context;
use clap::ValueEnum;
use landau_load::plan::Arrivals;
use landau_load::{Error, IdleSpec, Job, Launch, LoadSpec, gate};
use landau_record::Record;
use landau_report::Analysis;
use landau_sys::signal::{catch_interrupts, interrupted};
use landau_units::duration_in;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

/// The longest duration of a run or of a part of it: thirty days.
const LONGEST: Duration = Duration::from_secs(720 * 3600);

/// The default of `--duration`.
const DURATION: Duration = Duration::from_secs(10);

/// The default of `--samples`.
const SAMPLES: u32 = 200;

/// The column of the help text in which the description of a gate starts.
const GATE_INDENT: usize = 13;

/// The default of `--settle`.
const SETTLE: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ArrivalsWord {
    /// Random, exponentially distributed intervals (a Poisson process)
    Poisson,
    /// Constant intervals
    Constant,
}

/// Returns the text after the list of options: the gates by name, the phases, examples, and the exit status.
fn after_help() -> String {
    let about = |text| indented(text, GATE_INDENT, 98);
    let gates: Vec<String> = gate::all().map(|gate| format!("  {:<11}{}\n", gate.name, about(gate.about))).collect();
    format!(
        "Gates, the conditions of a valid measurement (--waive NAME):
{}
Phases, the rows of the table (with --json .phases.NAME):
  handshake          from connect() until the socket is writable
  tls                from the end of handshake to the end of the TLS handshake
  setup_handshake    handshake of a connection that was started before the measured time
  setup_tls          tls of such a connection
  first_byte_new     from the first request of a connection to the first byte of its response
  first_byte_reused  from a later request of a connection to the first byte of its response
  service            from sending a request to the last byte of its response
  latency            from the due time of a request (open loop) to the last byte of its response
  connection_wait    from the due time of a request until a connection is free
  schedule_lag       from the due time of a request until the generator notices it
  response_lag       from the time when a response may be readable until the generator reads it

Examples:
  landau load http://127.0.0.1:8080/                       64 connections, 10 seconds
  landau load http://127.0.0.1:8080/ --rate 5000 -d 30s    5,000 requests per second
  landau load http://127.0.0.1:8080/ --per-connection 1    a connection per request
  landau load http://127.0.0.1:8080/ --idle 10000          latency with 10,000 idle connections open
  landau load http://127.0.0.1:8080/ --idle 10000 --passes 5 -o FILE   with verdicts
  landau load http://10.0.0.7/ --replay access.log --rate 200          replay a log
  landau load unix:/run/server.sock:/ --json | jq .phases.service.p99_ns

Exit status: 0 valid measurement, 1 a gate failed or the run was interrupted, 2 could not run.",
        gates.concat()
    )
}

fn backend_help() -> String {
    format!(
        "Wait for events with this backend: {} (io_uring: multishot polls; io_uring-once: one-shot polls)",
        landau_load::backends().collect::<Vec<_>>().join(", ")
    )
}

#[derive(Debug, clap::Args)]
#[command(after_help = after_help())]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct Args {
    /// Target: http://HOST:PORT/PATH, https://…, unix:SOCKET:/PATH; several are used round-robin
    #[arg(required = true, value_name = "URL")]
    urls: Vec<String>,
    /// Keep N connections busy
    #[arg(long, short, value_name = "N", default_value_t = 64, conflicts_with = "idle")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    connections: u32,
    /// Send R requests per second on a schedule that does not wait for responses (open loop)
    #[arg(long, value_name = "R", conflicts_with = "idle")]
    rate: Option<f64>,
    /// Distribute the requests of an open loop over time [default: poisson]
    #[arg(long, value_enum)]
    arrivals: Option<ArrivalsWord>,
    /// Open up to N idle connections in steps. At each step, time requests on idle and on new connections, one at a
    /// time. Replaces the load of --connections, --rate and --duration
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=50_000_000))]
    idle: Option<u32>,
    /// Use these numbers of idle connections as steps [default: 1, 2, 5, 10 … N]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    steps: Vec<u32>,
    /// Take K samples on idle connections and K on new ones at each step [default: 200]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    samples: Option<u32>,
    /// Repeat all steps K times, each time with fresh worker processes [default: 1]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=1000))]
    passes: Option<u32>,
    /// Wait this long after opening the connections of a step, before sampling [default: 100ms]
    #[arg(long, value_name = "TIME", value_parser = duration_in(Duration::ZERO..=LONGEST))]
    settle: Option<Duration>,
    /// Report the private memory of the server process PID on this host and of its children (requires --idle)
    #[arg(long, value_name = "PID")]
    server_pid: Option<u32>,
    /// Measure for this long [default: 10s, unlimited with --requests]
    #[arg(long, short, value_name = "TIME", conflicts_with = "idle")]
    #[arg(value_parser = duration_in(Duration::from_nanos(1)..=LONGEST))]
    duration: Option<Duration>,
    /// Stop after N requests
    #[arg(long, short = 'n', value_name = "N", conflicts_with = "idle")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
    /// Generate load for this long before measuring
    #[arg(long, value_name = "TIME", default_value = "0s", conflicts_with = "idle")]
    #[arg(value_parser = duration_in(Duration::ZERO..=LONGEST))]
    warm_up: Duration,
    /// Close and replace each connection after K requests
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "idle")]
    per_connection: Option<u64>,
    /// Keep up to DEPTH requests in flight on each connection (closed loop)
    #[arg(long, value_name = "DEPTH", default_value_t = 1, conflicts_with = "idle")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024))]
    pipeline: u32,
    /// Speak HTTP/2. Over TLS, offer only h2 (ALPN): the handshake fails unless the server chooses it. Without TLS, use
    /// prior knowledge: a server that speaks only HTTP/1.1 fails every request
    #[arg(long, conflicts_with_all = ["idle", "pipeline"])]
    http2: bool,
    /// Keep up to N requests in flight on each connection, each on a separate stream
    #[arg(long, value_name = "N", default_value_t = 1, requires = "http2")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024))]
    streams: u32,
    /// Limit new connections to R per second [default: unlimited]
    #[arg(long, value_name = "R")]
    connect_rate: Option<f64>,
    /// Limit the connections that are in a handshake or wait for their first response to N at a time (requires --idle).
    /// More than the server's backlog can overflow it [default: 512, and 128 in each worker]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    connect_window: Option<u32>,
    /// Fail a handshake or a response that takes longer than this
    #[arg(long, value_name = "TIME", default_value = "10s")]
    #[arg(value_parser = duration_in(Duration::from_nanos(1)..=Duration::from_secs(100)))]
    timeout: Duration,
    /// Send requests with this method
    #[arg(long, short = 'X', value_name = "METHOD", default_value = "GET", conflicts_with = "replay")]
    method: String,
    /// Send this header field (repeatable)
    #[arg(long, short = 'H', value_name = "NAME: VALUE")]
    header: Vec<String>,
    /// Send the requests of an access log (common or combined format) in the order of its lines
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// Do not verify the server's certificate (https)
    #[arg(long)]
    insecure: bool,
    /// Trust only the certificates in this PEM file (https) [default: the certificates that the system trusts]
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    ca: Option<PathBuf>,
    /// Start K worker processes [default: as few as the limit on open files allows]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=4096))]
    workers: Option<u32>,
    /// Pin the workers to these CPUs, round-robin: 1 or 0-3,6 [default: not pinned]
    #[arg(long, value_name = "LIST", value_parser = numbers)]
    pin: Option<Numbers>,
    /// Connect from this address or range of addresses (repeatable); write a link-local IPv6 address as
    /// ADDRESS%INTERFACE [default: chosen by the kernel; over loopback, distinct addresses of 127.64.0.0/10 for more
    /// than 2,000 connections or with --per-connection]
    #[arg(long, value_name = "A-B", value_parser = addresses)]
    source: Vec<Addresses>,
    #[arg(long, value_name = "NAME", default_value_t = landau_load::default_backend(), help = backend_help())]
    backend: String,
    /// Seed the random choices [default: random; --json reports it]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Do not fail the run when this gate fails (repeatable; see Gates)
    #[arg(long, value_name = "NAME")]
    waive: Vec<String>,
    /// Permit load on HOST although it is neither this host nor in a private network (repeatable)
    #[arg(long, value_name = "HOST")]
    allow_host: Vec<String>,
    /// Write a record for `landau show`, `report` and `verify` (requires --idle)
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
}

/// A list of source addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Addresses(Vec<SocketAddr>);

pub(crate) fn run(args: &Args, words: &[String]) -> anyhow::Result<u8> {
    catch_interrupts();
    args.check_kind()?;
    let seed = args.seed.unwrap_or_else(super::run::random_seed);
    let job = Job::resolve(&spec(args, seed)).map_err(advised)?;
    let mut live = Live::new(args.quiet || args.json, args.duration_of().map(|time| time + args.warm_up));
    for note in &job.notes {
        live.line(&format!("note: {note}"));
    }
    let program = landau_sys::process::this_program().context("cannot start workers")?;
    let launch = Launch::Program(program);
    let should_stop = || interrupted().is_some();
    let outcome = match &args.output {
        None => landau_load::run(&job, &launch, &mut live, &should_stop)?,
        Some(path) => {
            let (host, _) = landau_engine::describe_host(landau_engine::Pinning::Free)?;
            let opening = Opening { host, words, urls: &args.urls, seed };
            let mut recorder = Recorder::create(path, &job, opening, &mut live)?;
            let outcome = landau_load::run(&job, &launch, &mut recorder, &should_stop)?;
            recorder.close(&outcome)?;
            outcome
        }
    };
    drop(live);
    let result = if args.json {
        let mut result = outcome.json();
        result["seed"] = seed.into();
        serde_json::to_string(&result)?
    } else {
        text(&outcome, &args.urls)
    };
    let code = status::answer(&result, if outcome.is_valid() { status::DONE } else { status::FAILED })?;
    if let Some(path) = &args.output {
        if !args.json {
            status::if_read(status::print(&super::show::summary(&Analysis::of(&Record::read(path)?))))?;
        }
        status::tell(&format!("\nrecord: {}", path.display()));
    }
    if outcome.is_interrupted {
        status::tell("interrupted; the result covers the time until then");
    }
    Ok(code)
}

/// Adds advice to an error that contains none.
fn advised(error: Error) -> anyhow::Error {
    match &error {
        Error::Unresolved { .. } => anyhow::anyhow!("{error}; check the name, or use an address"),
        _ => error.into(),
    }
}

impl Args {
    /// Returns an error for an option that has no effect on this kind of load. Clap's `requires` is not sufficient: it
    /// does not demand an option that conflicts with one that was given.
    fn check_kind(&self) -> anyhow::Result<()> {
        let of_idle = [
            ("--steps", !self.steps.is_empty()),
            ("--samples", self.samples.is_some()),
            ("--passes", self.passes.is_some()),
            ("--settle", self.settle.is_some()),
            ("--server-pid", self.server_pid.is_some()),
            ("--connect-window", self.connect_window.is_some()),
            ("--output", self.output.is_some()),
        ];
        if let Some((option, _)) = of_idle.iter().find(|(_, is_given)| *is_given && self.idle.is_none()) {
            anyhow::bail!("{option} requires --idle N");
        }
        if self.arrivals.is_some() && self.rate.is_none() {
            anyhow::bail!("--arrivals requires --rate R");
        }
        Ok(())
    }

    fn duration_of(&self) -> Option<Duration> {
        let is_unbounded = self.duration.is_none() && self.requests.is_none() && self.idle.is_none();
        if is_unbounded { Some(DURATION) } else { self.duration }
    }
}

fn spec(args: &Args, seed: u64) -> LoadSpec {
    LoadSpec {
        urls: args.urls.clone(),
        allowed_hosts: args.allow_host.clone(),
        method: args.method.clone(),
        headers: args.header.clone(),
        replay: args.replay.clone(),
        insecure: args.insecure,
        ca_file: args.ca.clone(),
        connections: args.connections,
        pipeline: if args.http2 { args.streams } else { args.pipeline },
        http2: args.http2,
        per_connection: args.per_connection,
        rate: args.rate,
        arrivals: match args.arrivals {
            None | Some(ArrivalsWord::Poisson) => Arrivals::Poisson,
            Some(ArrivalsWord::Constant) => Arrivals::Constant,
        },
        idle: args.idle.map(|n| IdleSpec {
            n,
            steps: args.steps.clone(),
            samples: args.samples.unwrap_or(SAMPLES),
            passes: args.passes.unwrap_or(1),
            settle: args.settle.unwrap_or(SETTLE),
            server_pid: args.server_pid,
            window: args.connect_window,
        }),
        duration: args.duration_of(),
        request_count: args.requests,
        warm_up: args.warm_up,
        timeout: args.timeout,
        connect_rate: args.connect_rate,
        workers: args.workers,
        cpus: args.pin.clone().map(|pins| pins.0).unwrap_or_default(),
        sources: args.source.iter().flat_map(|range| range.0.clone()).collect(),
        seed,
        backend: args.backend.clone(),
        waived: args.waive.clone(),
    }
}

/// Parses an address or a range of addresses: `127.0.0.2`, `10.0.0.5-10.0.0.9`, `fe80::1%eth0`.
fn addresses(word: &str) -> Result<Addresses, String> {
    const MOST: u128 = 65_536;
    // The name of an interface may contain `-` too; the `-` of a range is followed by an address.
    let begins_address = |text: &str| text.split('%').next().is_some_and(|ip| ip.parse::<IpAddr>().is_ok());
    let is_range = |place: &usize| !word.contains('%') || begins_address(&word[place + 1..]);
    let middle = word.match_indices('-').map(|(place, _)| place).find(is_range);
    let (first, last) = middle.map_or((word, word), |place| (&word[..place], &word[place + 1..]));
    let (first, last) = (address(first)?, address(last)?);
    let number = |address: SocketAddr| match address.ip() {
        IpAddr::V4(v4) => u128::from(u32::from(v4)),
        IpAddr::V6(v6) => u128::from(v6),
    };
    let scope = |address: SocketAddr| match address {
        SocketAddr::V4(_) => 0,
        SocketAddr::V6(v6) => v6.scope_id(),
    };
    let (low, high) = (number(first), number(last));
    if first.is_ipv4() != last.is_ipv4() {
        return Err("the first and the last address must have the same family".to_owned());
    }
    if scope(first) != scope(last) {
        return Err("the first and the last address must have the same interface".to_owned());
    }
    if low > high {
        return Err("the first address must not be above the last".to_owned());
    }
    if high - low >= MOST {
        return Err(format!("must be at most {MOST} addresses"));
    }
    let address = |value: u128| match u32::try_from(value) {
        Ok(value) if first.is_ipv4() => SocketAddr::from((Ipv4Addr::from(value), 0)),
        _ => SocketAddrV6::new(value.into(), 0, 0, scope(first)).into(),
    };
    Ok(Addresses((low..=high).map(address).collect()))
}

/// Parses an address. A link-local one may have an interface, as a name or an index. The port is 0.
fn address(text: &str) -> Result<SocketAddr, String> {
    let Some((ip, interface)) = text.split_once('%') else {
        return text.parse().map(|ip| SocketAddr::new(ip, 0)).map_err(|_| format!("`{text}` is not an IP address"));
    };
    let ip: Ipv6Addr =
        ip.parse().map_err(|_| format!("`{ip}` is not an IPv6 address; only IPv6 addresses have an interface"))?;
    if !ip.is_unicast_link_local() {
        return Err(format!("{ip} cannot have an interface: only link-local addresses can (fe80::/10)"));
    }
    // The system's resolver knows the names of interfaces. For a numeric address it sends no query.
    let found = (text, 0).to_socket_addrs().ok().and_then(|mut all| all.next());
    found.ok_or_else(|| format!("{ip}: there is no interface `{interface}`; `ip link` lists them"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn options_of_idle_connections_reach_the_load() {
        let words = "load http://127.0.0.1/ --idle 9 --steps 3,9 --samples 4 --passes 2 --settle 5s --server-pid 6 \
                     --connect-window 7 --connect-rate 8";
        let spec = spec(&Line::parse_from(words.split_whitespace()).args, 1);
        let idle = spec.idle.unwrap();
        assert_eq!((idle.n, idle.steps, idle.samples, idle.passes), (9, vec![3, 9], 4, 2));
        assert_eq!((idle.settle, idle.server_pid, idle.window), (Duration::from_secs(5), Some(6), Some(7)));
        assert_eq!(spec.connect_rate, Some(8.0));
    }

    #[test]
    fn address_ranges_are_expanded() {
        let range = addresses("127.0.0.254-127.0.1.1").unwrap().0;
        assert_eq!(range.iter().map(ToString::to_string).collect::<Vec<_>>()[1..3], ["127.0.0.255:0", "127.0.1.0:0"]);
        assert_eq!(addresses("::1-::2").unwrap().0.len(), 2);
        assert_eq!(addresses("127.0.0.1").unwrap().0.len(), 1);
        assert!(addresses("127.0.0.1-::1").is_err() && addresses("127.0.0.2-127.0.0.1").is_err());
        let lo = |word: &str| addresses(word).unwrap().0.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        assert_eq!((lo("fe80::1%lo"), lo("fe80::1%1")), ("[fe80::1%1]:0".to_owned(), "[fe80::1%1]:0".to_owned()));
        assert_eq!(lo("fe80::1%lo-fe80::2%lo"), "[fe80::1%1]:0 [fe80::2%1]:0");
        let refused = |word: &str| addresses(word).unwrap_err();
        assert_eq!(refused("fe80::1%no-such"), "fe80::1: there is no interface `no-such`; `ip link` lists them");
        assert!(refused("fe80::1%lo-fe80::2%7").contains("the same interface"));
        assert!(refused("::2%lo").contains("only link-local") && refused("127.0.0.1%lo").contains("IPv6"));
        assert!(addresses("::1-::2:1").is_err() && addresses("x").is_err());
    }

    #[test]
    fn cpu_lists_are_expanded() {
        assert_eq!(numbers("0-2,5"), Ok(Numbers(vec![0, 1, 2, 5])));
        assert!(numbers("2-1").is_err() && numbers("a").is_err() && numbers("").is_err());
    }
}
