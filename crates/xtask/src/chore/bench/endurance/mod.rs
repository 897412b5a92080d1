//! `bench endurance`: runs thousands of mixed clients against our server for half an hour, with half the memory that
//! they need.
//!
//! The clients run twice. In the first run memory is not limited, so no response may be refused. The peak of the memory
//! that the server holds for connections is what the clients need. In the second run a new server gets half of that for
//! connections (`--memory`), and the same amount (`RLIMIT_DATA`) for everything beyond its memory at rest; a failed
//! allocation would end the server. Its memory and descriptors are sampled once a second, and every response is
//! compared with the file. The server and the clients share all processors. Because the clients pause, both together
//! are far from saturating them: this is a test of resources, not of speed.

mod clients;
mod hostile;
mod samples;
mod stream;
mod tally;

use super::rivals::CERTIFICATE;
use crate::workspace;
use anyhow::{Context, Result, ensure};
use clients::{Kind, SHARES, Site};
use landau_sys::process::OwnedChild;
use samples::{Sample, Samples};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tally::Tally;

/// The duration of the run without a limit.
const FREE: Duration = Duration::from_secs(90);
/// The time between the end of the clients and the count of descriptors. It is longer than a refused connection stays
/// open, and longer than the server waits for a client to close.
const FORGET: Duration = Duration::from_secs(35);
/// The ports: without TLS, with TLS, and of the metrics.
const PORTS: [u16; 3] = [18_111, 18_112, 18_113];
/// The number of descriptors that the server may have opened for internal use, such as those of threads that start on
/// demand. A leak would lose one descriptor for each of many connections.
const OWN_DESCRIPTORS: u64 = 4;
/// The maximum growth of resident memory over the run, relative to its mean, at the upper end of the confidence
/// interval.
const GROWTH: f64 = 0.05;

/// Arguments of `bench endurance`.
#[derive(Debug, clap::Args)]
pub(crate) struct Words {
    /// Keep the clients at the limited server for this many minutes
    #[arg(long, default_value_t = 30.0)]
    minutes: f64,
    /// Start this many clients
    #[arg(long, default_value_t = 5000)]
    clients: usize,
    /// Write the samples of the limited server to this file, as CSV
    #[arg(long, value_name = "FILE")]
    samples: Option<PathBuf>,
}

/// The cache size of each worker of the limited server: enough for the small files.
const CACHE: &str = "512KiB";

/// The memory limits of a server.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// `RLIMIT_DATA`.
    data_bytes: u64,
    /// `--memory`.
    held_bytes: u64,
}

/// A server under test. It is killed when this value is dropped.
pub(super) struct Running {
    child: OwnedChild,
}

impl Running {
    /// Starts the server, with limits if given.
    fn start(landau: &Path, site: &Site, limits: Option<Limits>) -> Result<Self> {
        let [certificate, key] = CERTIFICATE.map(|path| workspace::root().join(path));
        let mut command = Command::new(if limits.is_some() { Path::new("prlimit") } else { landau });
        if let Some(Limits { data_bytes, .. }) = limits {
            command.arg(format!("--data={data_bytes}:{data_bytes}")).arg(landau);
        }
        let [plain, tls, metrics] = PORTS;
        command.arg("serve").arg(&site.root).args(["--workers", "2", "--metrics", &format!("127.0.0.1:{metrics}")]);
        command.args(["--listen", &format!("127.0.0.1:{plain}"), "--listen", &format!("tls:127.0.0.1:{tls}")]);
        command.arg("--tls").arg(certificate).arg(key).stdin(Stdio::null()).stdout(Stdio::null());
        if let Some(Limits { held_bytes, .. }) = limits {
            command.args(["--memory", &format!("{held_bytes}B"), "--cache", CACHE]);
        }
        let child = OwnedChild::spawn(&mut command).context("start the server")?;
        let mut running = Self { child };
        let began = Instant::now();
        while running.sample().is_err() {
            ensure!(running.is_alive()? && began.elapsed() < Duration::from_secs(20), "the server does not answer");
            std::thread::sleep(Duration::from_millis(50));
        }
        // Fills the cache and the table of open files of each worker.
        for _ in 0..50 {
            site.visit_all()?;
        }
        Ok(running)
    }

    fn is_alive(&mut self) -> Result<bool> {
        Ok(self.child.try_wait().context("poll the server")?.is_none())
    }

    fn sample(&self) -> Result<Sample> {
        Sample::take(self.child.id(), PORTS[2])
    }
}

pub(crate) fn run(words: &Words) -> Result<bool> {
    ensure!(words.minutes > 0.0 && words.clients > 0, "--minutes and --clients must be more than 0");
    landau_sys::limits::raise(landau_sys::limits::Resource::Descriptors).context("raise the limit on descriptors")?;
    let landau = workspace::landau()?;
    let folder = tempfile::tempdir().context("create a directory")?;
    // The server's user must be able to enter the directory.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))
        .context("make the directory accessible to others")?;
    let site = Arc::new(Site::make(folder.path())?);
    let mut free = Running::start(&landau, &site, None)?;
    let at_rest = free.sample()?;
    let (samples, tally) = attend(&mut free, &site, words.clients, FREE, None)?;
    let liked = samples.peak(|sample| sample.held_bytes);
    println!("without a limit, {} s: the server holds at most {:.1} MB for the clients", FREE.as_secs(), mb(liked));
    let kinds = &SHARES[..words.clients.min(SHARES.len())];
    let mut is_good = judge_answers(&tally, kinds);
    is_good &= report(tally.refused() == 0, &format!("{} responses were refused or dropped", tally.refused()));
    drop(free);
    let limits = Limits { data_bytes: at_rest.data_bytes + liked, held_bytes: liked / 2 };
    println!(
        "with RLIMIT_DATA of {:.1} MB, {:.1} MB of it at rest, and --memory of {:.1} MB",
        mb(limits.data_bytes),
        mb(at_rest.data_bytes),
        mb(limits.held_bytes)
    );
    let mut limited = Running::start(&landau, &site, Some(limits))?;
    let begin = limited.sample()?;
    let time = Duration::from_secs_f64(words.minutes * 60.0);
    let (samples, tally) = attend(&mut limited, &site, words.clients, time, words.samples.as_deref())?;
    std::thread::sleep(FORGET);
    ensure!(limited.is_alive()?, "the server has ended");
    let end = limited.sample()?;
    site.visit_all().context("send requests to the server again")?;
    is_good &= judge_answers(&tally, kinds);
    Ok(judge(&samples, begin, end) && is_good)
}

fn mb(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// Runs clients against a server for `time`, and samples the server meanwhile.
fn attend(
    running: &mut Running,
    site: &Arc<Site>,
    count: usize,
    time: Duration,
    file: Option<&Path>,
) -> Result<(Samples, Tally)> {
    let is_over = Arc::new(AtomicBool::new(false));
    let began = Instant::now();
    let clients = clients::start(site, count, began, &is_over)?;
    let mut samples = Samples::new(file)?;
    let mut sampled = Ok(());
    while sampled.is_ok() && began.elapsed() < time {
        std::thread::sleep(Duration::from_secs(1));
        sampled = running.sample().and_then(|sample| samples.add(began.elapsed(), sample));
        if sampled.is_err() && !running.is_alive()? {
            sampled = Err(anyhow::anyhow!("the server has ended after {:.0} s", began.elapsed().as_secs_f64()));
        }
    }
    is_over.store(true, Ordering::Relaxed);
    let mut tally = Tally::default();
    for client in clients {
        tally.add(&client.join().map_err(|_| anyhow::anyhow!("a client panicked"))?);
    }
    sampled?;
    println!(
        "processor seconds per second: {:.1} of 2, {:.2} of them of the server",
        samples.total_share(),
        samples.server_share()
    );
    Ok((samples, tally))
}

/// Prints a check with its result, and returns the result.
fn report(is_good: bool, what: &str) -> bool {
    println!("{} {what}", if is_good { "ok  " } else { "FAIL" });
    is_good
}

/// Judges the responses that clients of these kinds received, independently of the server's limits.
fn judge_answers(tally: &Tally, kinds: &[Kind]) -> bool {
    tally.print();
    let is_whole = report(tally.lost() == 0, &format!("{} responses were lost or wrong", tally.lost()));
    let unanswered = tally.without_answers(kinds);
    let is_for_all = unanswered.is_empty();
    is_whole & (is_for_all || report(false, &format!("no complete response: {}", unanswered.join(", "))))
}

/// Judges the memory and the descriptors of the limited server.
fn judge(samples: &Samples, begin: Sample, end: Sample) -> bool {
    let limits = (end.refused - begin.refused, samples.peak(|sample| sample.held_bytes));
    let words = format!("the memory limit was reached: {} refused, at most {:.1} MB held", limits.0, mb(limits.1));
    let mut is_good = report(limits.0 > 0, &words);
    if let Some(trend) = samples.trend(|sample| sample.resident_bytes) {
        let words = format!(
            "resident memory {:.2} MB (mean after the first fifth; {:.2} to {:.2}), {:+.3} MB over the run ({:+.3} to \
             {:+.3}, 95%; at most {:.0}%)",
            trend.mean / 1e6,
            mb(samples.least(|sample| sample.resident_bytes)),
            mb(samples.peak(|sample| sample.resident_bytes)),
            trend.growth / 1e6,
            trend.low / 1e6,
            trend.high / 1e6,
            GROWTH * 100.0
        );
        is_good &= report(trend.high <= GROWTH * trend.mean, &words);
    } else {
        is_good &= report(false, "too few samples to judge the memory");
    }
    println!(
        "     resident {:.2} MB before the clients connected and {:.2} MB after they disconnected",
        mb(begin.resident_bytes),
        mb(end.resident_bytes)
    );
    let words = format!(
        "descriptors: {} before, at most {} during the run, {} after; {} connections still open",
        begin.descriptors,
        samples.peak(|sample| sample.descriptors),
        end.descriptors,
        end.connections
    );
    is_good & report(end.descriptors <= begin.descriptors + OWN_DESCRIPTORS && end.connections == 0, &words)
}
