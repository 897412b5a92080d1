//! `cross-check`: tests `landau serve` with independent programs.
//!
//! Two clients (`curl`, `h2load`) must accept its responses, and a suite of malformed and ambiguous requests
//! (`Http11Probe`, in the checkout given with `--probes`) must get the expected responses, except for the differences
//! listed in `probes.rs` with reasons. Requests that the suite builds with code are reported, not sent. This suite,
//! `h1spec` (`--h1spec`) and `h2spec` (`--h2spec`) are also run against the other installed servers; ours must pass at
//! least as many cases as the best of them.

mod clients;
mod h1spec;
mod h2spec;
mod probes;

use super::bench::rivals::{self, Server};
use crate::workspace;
use anyhow::{Context, Result};
use landau_bench::rival::Protocol;
use std::path::{Path, PathBuf};

/// Arguments of `cross-check`.
#[derive(Debug, clap::Args)]
pub(crate) struct Words {
    /// Use this checkout of `Http11Probe` (2026: github.com/MDA2AV/Http11Probe, commit 95bc6a9)
    #[arg(long, value_name = "DIR")]
    probes: Option<PathBuf>,
    /// Use this checkout of `h1spec` (2026: github.com/uNetworking/h1spec, commit f0a5650)
    #[arg(long, value_name = "DIR")]
    h1spec: Option<PathBuf>,
    /// Use this program, `h2spec` (go install github.com/summerwind/h2spec/cmd/h2spec@v2.2.1)
    #[arg(long, value_name = "PROGRAM")]
    h2spec: Option<PathBuf>,
}

/// The result of a suite for a server.
struct Score {
    /// The number of cases that passed.
    passed: usize,
    /// Each case that failed.
    failed: Vec<String>,
}

/// The server's port.
const PORT: u16 = 18_095;

pub(crate) fn run(words: &Words) -> Result<bool> {
    let folder = tempfile::tempdir().context("create a directory")?;
    let root = clients::site(folder.path())?;
    let landau = workspace::landau()?.display().to_string();
    let (address, socket) = (format!("127.0.0.1:{PORT}"), format!("unix:{}", folder.path().join("s").display()));
    let site = root.display().to_string();
    let words_of_server = [&*landau, "serve", &site, "--listen", &address, "--listen", &socket, "--user", "root"];
    let server = rivals::started("landau", PORT, &words_of_server)?;
    let mut is_good = clients::check(folder.path(), &root)?;
    match &words.probes {
        Some(folder) => is_good &= probes::check(folder)?,
        None => println!(
            "     only curl and h2load were run. To run Http11Probe as well, name its checkout with --probes DIR"
        ),
    }
    if words.probes.is_some() || words.h1spec.is_some() {
        let mut servers = rivals::others(folder.path(), &root, true, Protocol::Http1)?;
        servers.insert(0, server);
        if let Some(suite) = &words.probes {
            is_good &= compared("Http11Probe", &servers, |server| probes::score(suite, server.port))?;
        }
        if let Some(suite) = &words.h1spec {
            is_good &= compared("h1spec", &servers, |server| h1spec::score(suite, server.port))?;
        }
    }
    if let Some(program) = &words.h2spec {
        is_good &= http2(folder.path(), &root, program)?;
    }
    Ok(is_good)
}

/// Runs h2spec, without and with TLS.
fn http2(folder: &Path, root: &Path, program: &Path) -> Result<bool> {
    let mut is_good = true;
    for (name, is_tls) in [("h2spec, prior knowledge", false), ("h2spec, TLS", true)] {
        let servers = rivals::start_http2(folder, root, is_tls)?;
        is_good &= compared(name, &servers, |server| h2spec::score(program, server.port, is_tls))?;
    }
    Ok(is_good)
}

/// Runs a suite against servers. Returns whether our servers of each kind pass at least as many cases as the best of
/// the others.
fn compared(suite: &str, servers: &[Server], score: impl Fn(&Server) -> Result<Score>) -> Result<bool> {
    let (mut ours, mut best) = (usize::MAX, 0);
    for server in servers {
        let Score { passed, failed } = score(server)?;
        println!("     {suite}: {}: {passed} of {} passed", server.name, passed + failed.len());
        if server.is_ours() {
            ours = ours.min(passed);
            for case in &failed {
                println!("          {case}");
            }
        } else {
            best = best.max(passed);
        }
    }
    let is_good = ours >= best && best > 0;
    Ok(said(&format!("{suite}: landau passes {ours} cases, the best of the others {best}"), is_good))
}

/// Prints a line of the result. Returns whether it is good.
fn said(what: &str, is_good: bool) -> bool {
    println!("{} {what}", if is_good { "ok  " } else { "FAIL" });
    is_good
}
