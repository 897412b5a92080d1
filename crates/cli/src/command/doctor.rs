//! `landau doctor`: reports which limits of this host a load would reach.

mod text;

use crate::status;
use anyhow::{Context, ensure};
use landau_bench::REGISTRY;
use landau_engine::{Adaptive, Entry, Pinning, Plan, Request as RunRequest, Study, describe_host};
use landau_host::{Demand, Folder, Report, Request, Reserve, Root, Unread, Worker, connection, examine, noise};
use landau_sys::boot;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  landau doctor                            the limit of each kind of load, and what affects times
  landau doctor --for idle=100000          will a server hold 100,000 connections?
  landau doctor --for mail=3000,files=1000000
  landau doctor --for idle=100000 --pid $(pidof -s nginx)
  landau doctor --for fork=40000 --json | jq '.answers[].sentence'

Kinds of load: idle (connections of a server), mail (SMTP sessions), files (in a directory),
processes, threads, maps (mappings of a process), ports (sockets bound to port 0), sockets (of a
process); and the n at which a benchmark ends: socket, bind, connect, fork, thread, mmap, spawn.

The doctor changes nothing on the host.

Exit status: 0 if every size fits, 1 if one does not, 2 if this is unknown for a size or the
command could not run.")]
pub(crate) struct Args {
    /// Check whether a load of this size fits; without =SIZE, report the largest that fits [default: the largest of
    /// each kind]
    #[arg(long = "for", value_name = "KIND[=SIZE],…", value_parser = demands)]
    demands: Vec<Demands>,
    /// Examine a running program: its limits, open descriptors and listening sockets
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,
    /// Set the directory for the kind of load `files` [default: the current directory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Measure neither the memory of a connection nor the interference, which takes 0.3 s
    #[arg(long)]
    no_measure: bool,
    /// Print each limit with its evidence, remedy and risk
    #[arg(long, short)]
    long: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The demands of one `--for`. `clap` cannot split them, because a size may also contain a comma.
#[derive(Debug, Clone)]
struct Demands(Vec<Demand>);

fn demands(text: &str) -> Result<Demands, landau_host::Error> {
    Demand::parse_all(text).map(Demands)
}

pub(crate) fn run(args: &Args) -> anyhow::Result<u8> {
    let report = report(args)?;
    let text = if args.json { serde_json::to_string_pretty(&report)? } else { text::render(&report, args.long) };
    let asked = report.answers.iter().filter(|answer| answer.asked.is_some());
    let fits: Vec<Option<bool>> = asked.map(|answer| answer.fits).collect();
    let status = match (fits.contains(&Some(false)), fits.contains(&None)) {
        (true, _) => status::FAILED,
        (false, true) => status::COULD_NOT_RUN,
        (false, false) => status::DONE,
    };
    status::answer(&text, status)
}

fn report(args: &Args) -> anyhow::Result<Report> {
    let asked: Vec<Demand> = args.demands.iter().flat_map(|Demands(several)| several).copied().collect();
    let asks_for_files = asked.iter().any(|demand| demand.kind.name == "files");
    let demands = if asked.is_empty() { Demand::all() } else { asked };
    for (place, demand) in demands.iter().enumerate() {
        let is_again = demands[..place].iter().any(|other| other.kind.name == demand.kind.name);
        ensure!(!is_again, "--for contains {} twice; pass one size for each kind", demand.kind.name);
    }
    let root = Root::live();
    let mut request = Request::new(&root, args.pid, demands)?;
    match folder(args.dir.as_deref()) {
        Ok(folder) => request.folder = Some(folder),
        // The user neither named the directory nor asked about files in it.
        Err(error) if args.dir.is_none() && !asks_for_files => {
            let why = format!("{error:#}; specify a directory for files with --dir");
            request.unread.push(Unread { what: "the current directory".to_owned(), why });
        }
        Err(error) => return Err(error),
    }
    if !args.no_measure {
        request.connection = Some(connection::measure(request.free_descriptors()));
        request.noise = Some(noise::measure());
    }
    (request.reserves, request.workers) = planned(&request.demands)?;
    request.killed_trial = killed_trial(&root, &mut request.unread);
    let Some(pid) = request.in_other_network(&root) else { return Ok(examine(&root, &request)) };
    // The kernel shows the settings of a network namespace only to processes inside it.
    boot::in_network_of(pid, || examine(&root, &request))
        .with_context(|| format!("enter the network namespace of process {pid}, which needs root"))
}

/// Returns the profile of a trial of `landau tune` that was killed and left its settings in place.
fn killed_trial(root: &Root, unread: &mut Vec<Unread>) -> Option<String> {
    match landau_tune::left(root) {
        Ok(left) => left.filter(|left| left.is_of_this_boot(root)).map(|left| left.profile),
        Err(error) => {
            let what = "whether a trial of landau tune was killed".to_owned();
            unread.push(Unread { what, why: error.to_string() });
            None
        }
    }
}

/// Reads the file system of a directory; without a path, that of the current directory.
fn folder(path: Option<&Path>) -> anyhow::Result<Folder> {
    let named = || match path {
        Some(path) => format!("read the file system of --dir {}", path.display()),
        None => "read the file system of the current directory, which may have been deleted".to_owned(),
    };
    let path = path.unwrap_or(Path::new("."));
    let absolute = path.canonicalize().with_context(named)?;
    ensure!(absolute.is_dir(), "--dir {} is not a directory", path.display());
    let free = landau_sys::system::free_space(&CString::new(absolute.as_os_str().as_bytes())?).with_context(named)?;
    Ok(Folder {
        path: absolute.display().to_string(),
        free_bytes: free.bytes,
        block_bytes: free.block_bytes,
        free_inodes: free.inodes,
    })
}

/// Returns the sizes to which `landau run` would reduce the benchmarks, because it keeps a reserve of the host free,
/// and the memory that their workers use in addition to the objects.
fn planned(demands: &[Demand]) -> anyhow::Result<(Vec<Reserve>, Vec<Worker>)> {
    let (mut reserves, mut workers) = (Vec::new(), Vec::new());
    let benchmarks: Vec<&Demand> = demands.iter().filter(|demand| demand.kind.is_benchmark).collect();
    if benchmarks.is_empty() {
        return Ok((reserves, workers));
    }
    // `describe_host` raises the limits of this process as a run does; the request has already read them.
    let (host, clock) = describe_host(Pinning::default())?;
    for demand in benchmarks {
        let name = demand.kind.name;
        let most = Entry::find(REGISTRY, name)?.most_steps();
        let size = demand.size.map(|size| size.min(most));
        let request = RunRequest {
            names: vec![name.to_owned()],
            cases: Vec::new(),
            study: Study::Full,
            pass_count: None,
            adaptive: Adaptive::Off,
            settings: size.map(|size| format!("{name}.n={size}")).into_iter().collect(),
            varied: Vec::new(),
            seed: 1,
            time_limit_s: None,
        };
        let plan = Plan::resolve(REGISTRY, &request, host.clone(), clock.clock, None)?;
        let reserve = |at_most: u64, reason: &str, is_of_host: bool| Reserve {
            benchmark: name.to_owned(),
            at_most,
            reason: reason.to_owned(),
            is_of_host,
        };
        if let Some(skip) = plan.skips.iter().find(|skip| skip.label == name) {
            reserves.push(reserve(0, &skip.reason, true));
        } else if let Some(one) = plan.cases.into_iter().find(|one| one.case.label == name) {
            let of_host = one.case.reduced.as_ref().map(|reduced| reserve(one.case.n, &reduced.reason, true));
            let of_benchmark = || (size < demand.size).then(|| reserve(most, "it accepts no larger n", false));
            reserves.extend(of_host.or_else(of_benchmark));
            // The sample buffer is allocated for the planned n, even if the run reaches a smaller one.
            let least = demand.size.map_or(0, |_| one.case.n);
            let bytes = Box::new(move |n: u64| one.worker_bytes(n.max(least)));
            workers.push(Worker { benchmark: name.to_owned(), bytes });
        }
    }
    Ok((reserves, workers))
}
