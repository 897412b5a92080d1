//! `cross-check`: tests `landau serve` with independent programs.
//!
//! Two clients (`curl`, `h2load`) must accept its responses, and a suite of malformed and ambiguous requests
//! (`Http11Probe`, in the checkout given with `--probes`) must get the expected responses, except for the differences
//! listed in `probes.rs` with reasons. Requests that the suite builds by code are reported, not sent.

mod clients;
mod probes;

use super::bench::rivals;
use crate::workspace;
use anyhow::{Context, Result};
use std::path::PathBuf;

/// Arguments of `cross-check`.
#[derive(Debug, clap::Args)]
pub(crate) struct Words {
    /// Use this checkout of `Http11Probe` (2026: github.com/MDA2AV/Http11Probe, commit 95bc6a9)
    #[arg(long, value_name = "DIR")]
    probes: Option<PathBuf>,
}

/// The server's port.
const PORT: u16 = 18_095;

pub(crate) fn run(words: &Words) -> Result<bool> {
    let folder = tempfile::tempdir().context("make a folder")?;
    let root = clients::site(folder.path())?;
    let landau = workspace::landau()?.display().to_string();
    let (address, socket) = (format!("127.0.0.1:{PORT}"), format!("unix:{}", folder.path().join("s").display()));
    let site = root.display().to_string();
    let words_of_server = [&*landau, "serve", &site, "--listen", &address, "--listen", &socket, "--user", "root"];
    let _server = rivals::started("landau", PORT, &words_of_server)?;
    let mut is_good = clients::check(folder.path(), &root)?;
    match &words.probes {
        Some(folder) => is_good &= probes::check(folder)?,
        None => println!(
            "     only curl and h2load were run. To run Http11Probe as well, name its checkout with --probes DIR"
        ),
    }
    Ok(is_good)
}

/// Prints a line of the result. Returns whether it is good.
fn said(what: &str, is_good: bool) -> bool {
    println!("{} {what}", if is_good { "ok  " } else { "FAIL" });
    is_good
}
