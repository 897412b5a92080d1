//! `landau load`: load on a server, and whether what was measured is a measurement.

use crate::load::{Live, Opening, Recorder, text};
use crate::options::{Numbers, numbers};
use crate::status;
use anyhow::Context;
use clap::ValueEnum;
use landau_load::schedule::Arrivals;
use landau_load::{CrowdWish, Error, Job, Launch, Outcome, Wish};
use landau_record::Record;
use landau_report::Analysis;
use landau_sys::signal::{catch_interrupts, interrupted};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ArrivalsWord {
    /// At random, independently of one another, as those of many people do
    Poisson,
    /// At equal distances
    Uniform,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  landau load http://127.0.0.1:8080/                              64 connections, 10 seconds
  landau load http://127.0.0.1:8080/ --rate 5000 --duration 30s   5,000 requests a second, come what may
  landau load http://127.0.0.1:8080/ --per-connection 1           a connection for each request
  landau load http://127.0.0.1:8080/ --crowd 10000                latency beside 1, 2, 5 … 10,000 idle connections
  landau load http://127.0.0.1:8080/ --crowd 10000 --passes 5 -o crowd.landau.ndjson   with verdicts
  landau load http://10.0.0.7/ --replay access.log --rate 200     what was asked for yesterday
  landau load unix:/run/server.sock:/ --json | jq .phases.service.p99_ns

Exit status: 0 done, 1 a gate failed or the run was interrupted, 2 could not run.")]
pub(crate) struct Args {
    /// Where to: http://HOST:PORT/PATH, https://…, unix:SOCKET:/PATH (several take turns)
    #[arg(required = true, value_name = "URL")]
    urls: Vec<String>,
    /// Connections that make requests
    #[arg(long, short, value_name = "N", default_value_t = 64, conflicts_with = "crowd")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    connections: u32,
    /// Requests a second, whether the last ones were answered or not (an open loop)
    #[arg(long, value_name = "R", conflicts_with = "crowd")]
    rate: Option<f64>,
    /// How the requests of an open loop follow one another [default: poisson]
    #[arg(long, value_enum)]
    arrivals: Option<ArrivalsWord>,
    /// Let idle connections pile up to so many, and measure beside them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=50_000_000))]
    crowd: Option<u32>,
    /// Sizes of the crowd at which to measure [default: 1, 2, 5, 10 … N]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    steps: Vec<u32>,
    /// Samples of each kind at each size of the crowd [default: 200]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    samples: Option<u32>,
    /// How often the crowd is made, each time by fresh processes [default: 1]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=1000))]
    passes: Option<u32>,
    /// How long a size of the crowd is left alone before it is measured [default: 100ms]
    #[arg(long, value_name = "TIME", value_parser = time)]
    settle: Option<Duration>,
    /// Tell, with a crowd, how much memory the server's process has to itself: its number, if it runs here
    #[arg(long, value_name = "PID")]
    server_pid: Option<u32>,
    /// How long it is measured [default: 10s, unless --requests is given]
    #[arg(long, short, value_name = "TIME", value_parser = time, conflicts_with = "crowd")]
    duration: Option<Duration>,
    /// End after so many requests
    #[arg(long, short = 'n', value_name = "COUNT", conflicts_with = "crowd")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
    /// Make load for so long before it is measured
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = time, conflicts_with = "crowd")]
    warm_up: Duration,
    /// Replace a connection after so many requests
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "crowd")]
    per_connection: Option<u64>,
    /// Requests under way on one connection
    #[arg(long, value_name = "DEPTH", default_value_t = 1, conflicts_with = "crowd")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024))]
    pipeline: u32,
    /// New connections a second, at most
    #[arg(long, value_name = "R")]
    connect_rate: Option<f64>,
    /// How long a handshake or an answer may take
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    timeout: Duration,
    /// The method
    #[arg(long, short = 'X', value_name = "METHOD", default_value = "GET", conflicts_with = "replay")]
    method: String,
    /// A header field to send (repeatable)
    #[arg(long, short = 'H', value_name = "NAME: VALUE")]
    header: Vec<String>,
    /// Make the requests of an access log, in its order, in the common or combined format
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// Take any certificate
    #[arg(long)]
    insecure: bool,
    /// Trust the certificates in this file (PEM) and no others
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    ca: Option<PathBuf>,
    /// Worker processes [default: as many as the limit of descriptors needs]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=4096))]
    workers: Option<u32>,
    /// Processors for the workers: 1 or 0-3,6 [default: wherever the system puts them]
    #[arg(long, value_name = "LIST", value_parser = numbers)]
    pin: Option<Numbers>,
    /// Source addresses: A, or A-B (repeatable) [default: own ones of 127.0.0.0/8 for many connections over loopback]
    #[arg(long, value_name = "A-B", value_parser = addresses)]
    source: Vec<Addresses>,
    /// The event loop's mechanism
    #[arg(long, value_name = "NAME", default_value_t = landau_load::mechanism())]
    backend: String,
    /// Seed of every random choice [default: of the moment, and in the answer]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// A gate that need not hold: lag, rate, connect, errors, status, length, alive, overflow, saturated (repeatable)
    #[arg(long, value_name = "GATE")]
    waive: Vec<String>,
    /// This host may be loaded though it is neither this machine nor in a private network (repeatable)
    #[arg(long, value_name = "HOST")]
    i_may_load: Vec<String>,
    /// Write a record of the crowd, for `landau show`, `report` and `verify`
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
}

/// Addresses from one to another.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Addresses(Vec<IpAddr>);

pub(crate) fn run(args: &Args, words: &[String]) -> anyhow::Result<u8> {
    catch_interrupts();
    args.check_kind()?;
    let seed = args.seed.unwrap_or_else(super::run::random_seed);
    let job = Job::resolve(&wish(args, seed)).map_err(advised)?;
    let mut live = Live::new(args.quiet || args.json, args.duration_of().map(|time| time + args.warm_up));
    for note in &job.notes {
        live.line(&format!("note: {note}"));
    }
    let program = landau_sys::process::this_program().context("find this program, to start workers")?;
    let launch = Launch::Program(program);
    let is_enough = || interrupted().is_some();
    let outcome = match &args.output {
        None => landau_load::run(&job, &launch, &mut live, &is_enough)?,
        Some(path) => {
            let (host, _) = landau_engine::describe_host(landau_engine::Pinning::Free)?;
            let opening = Opening { host, words, urls: &args.urls, seed };
            let mut recorder = Recorder::create(path, &job, opening, &mut live)?;
            let outcome = landau_load::run(&job, &launch, &mut recorder, &is_enough)?;
            recorder.close(&outcome)?;
            outcome
        }
    };
    drop(live);
    let answer = if args.json {
        let mut answer = outcome.json();
        answer["seed"] = seed.into();
        serde_json::to_string(&answer)?
    } else {
        text(&outcome, &args.urls)
    };
    status::print(&answer)?;
    if let Some(path) = &args.output {
        if !args.json {
            status::print(&super::show::summary(&Analysis::of(&Record::read(path)?)))?;
        }
        status::tell(&format!("\nrecord: {}", path.display()));
    }
    Ok(verdict(&outcome))
}

fn verdict(outcome: &Outcome) -> u8 {
    if outcome.is_interrupted {
        status::tell("interrupted: what was measured until then is above");
    }
    if outcome.is_valid() { status::DONE } else { status::FAILED }
}

/// What to do about it, where the error does not say so itself.
fn advised(error: Error) -> anyhow::Error {
    let advice = match &error {
        Error::Unresolved { .. } => Some("check the name, or write an address"),
        _ => None,
    };
    match advice {
        Some(advice) => anyhow::anyhow!("{error}; {advice}"),
        None => error.into(),
    }
}

impl Args {
    /// Refuses an option of another kind of load, which would be without effect. The parser's own rule would not do: it
    /// asks for no option that contradicts another one that was given.
    fn check_kind(&self) -> anyhow::Result<()> {
        let of_crowd = [
            ("--steps", !self.steps.is_empty()),
            ("--samples", self.samples.is_some()),
            ("--passes", self.passes.is_some()),
            ("--settle", self.settle.is_some()),
            ("--server-pid", self.server_pid.is_some()),
            ("--output", self.output.is_some()),
        ];
        if let Some((option, _)) = of_crowd.iter().find(|(_, is_given)| *is_given && self.crowd.is_none()) {
            anyhow::bail!("{option} belongs to a crowd: add --crowd N, or leave it out");
        }
        if self.arrivals.is_some() && self.rate.is_none() {
            anyhow::bail!("--arrivals belongs to an open loop: add --rate R, or leave it out");
        }
        Ok(())
    }

    fn duration_of(&self) -> Option<Duration> {
        let is_unbounded = self.duration.is_none() && self.requests.is_none() && self.crowd.is_none();
        if is_unbounded { Some(Duration::from_secs(10)) } else { self.duration }
    }
}

fn wish(args: &Args, seed: u64) -> Wish {
    Wish {
        urls: args.urls.clone(),
        confirmed: args.i_may_load.clone(),
        method: args.method.clone(),
        headers: args.header.clone(),
        replay: args.replay.clone(),
        insecure: args.insecure,
        roots: args.ca.clone(),
        connections: args.connections,
        pipeline: args.pipeline,
        per_connection: args.per_connection,
        rate: args.rate,
        arrivals: match args.arrivals {
            None | Some(ArrivalsWord::Poisson) => Arrivals::Poisson,
            Some(ArrivalsWord::Uniform) => Arrivals::Uniform,
        },
        crowd: args.crowd.map(|n| CrowdWish {
            n,
            steps: args.steps.clone(),
            samples: args.samples.unwrap_or(200),
            passes: args.passes.unwrap_or(1),
            settle: args.settle.unwrap_or(Duration::from_millis(100)),
            server: args.server_pid,
        }),
        duration: args.duration_of(),
        request_count: args.requests,
        warm_up: args.warm_up,
        timeout: args.timeout,
        connect_rate: args.connect_rate,
        workers: args.workers,
        pins: args.pin.clone().map(|pins| pins.0).unwrap_or_default(),
        sources: args.source.iter().flat_map(|some| some.0.clone()).collect(),
        seed,
        mechanism: args.backend.clone(),
        waived: args.waive.clone(),
    }
}

/// A time: `10s`, `500ms`, `2m`, and seconds without a unit.
fn time(word: &str) -> Result<Duration, String> {
    let end = word.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(word.len());
    let (number, unit) = word.split_at(end);
    let scale = match unit {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err("a time is a number with ms, s, m or h".to_owned()),
    };
    let number: f64 = number.parse().map_err(|_| "a time is a number with ms, s, m or h".to_owned())?;
    Duration::try_from_secs_f64(number * scale).map_err(|_| "a time is not negative, and not for ever".to_owned())
}

/// Addresses: `127.0.0.2`, `10.0.0.5-10.0.0.9`.
fn addresses(word: &str) -> Result<Addresses, String> {
    const MOST: u128 = 65_536;
    let wrong = |text: &str| format!("{text} is no address");
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    let (first, last): (IpAddr, IpAddr) =
        (first.parse().map_err(|_| wrong(first))?, last.parse().map_err(|_| wrong(last))?);
    let number = |address: IpAddr| match address {
        IpAddr::V4(v4) => u128::from(u32::from(v4)),
        IpAddr::V6(v6) => u128::from(v6),
    };
    let (low, high) = (number(first), number(last));
    if first.is_ipv4() != last.is_ipv4() || low > high || high - low >= MOST {
        return Err(format!("{word} is no range of addresses that could be used"));
    }
    let address = |value: u128| match u32::try_from(value) {
        Ok(value) if first.is_ipv4() => IpAddr::V4(value.into()),
        _ => IpAddr::V6(value.into()),
    };
    Ok(Addresses((low..=high).map(address).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_values() {
        assert_eq!(time("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(time("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(time("250ms"), Ok(Duration::from_millis(250)));
        assert!(time("-1s").is_err() && time("s").is_err() && time("1d").is_err() && time("inf").is_err());
        assert_eq!(numbers("0-2,5"), Ok(Numbers(vec![0, 1, 2, 5])));
        assert!(numbers("2-1").is_err() && numbers("a").is_err() && numbers("").is_err());
        let range = addresses("127.0.0.254-127.0.1.1").unwrap().0;
        assert_eq!(range.iter().map(ToString::to_string).collect::<Vec<_>>()[1..3], ["127.0.0.255", "127.0.1.0"]);
        assert_eq!(addresses("::1-::2").unwrap().0.len(), 2);
        assert!(addresses("127.0.0.1-::1").is_err() && addresses("127.0.0.2-127.0.0.1").is_err());
    }
}
