//! `cross-check`: our server, asked by programs that nobody here wrote.
//!
//! Two clients (`curl`, `h2load`) must be content with what they get, and a suite of malformed and ambiguous requests
//! (`Http11Probe`, whose checkout is named with `--probes`) must be answered as it wants, but for the differences that
//! are listed here with their reasons. What the suite builds by code and not as text is told, not asked.

mod clients;
mod probes;

use super::bench::rivals;
use crate::workspace;
use anyhow::{Context, Result};
use std::path::PathBuf;

/// Arguments of `cross-check`.
#[derive(Debug, clap::Args)]
pub(crate) struct Words {
    /// A checkout of `Http11Probe` (of 2026: github.com/MDA2AV/Http11Probe, commit 95bc6a9)
    #[arg(long, value_name = "DIR")]
    probes: Option<PathBuf>,
}

/// Where the server listens.
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
            "     only curl and h2load have asked. The suite Http11Probe has NOT: name its checkout with --probes DIR"
        ),
    }
    Ok(is_good)
}

/// A line of the answer.
fn said(what: &str, is_good: bool) -> bool {
    println!("{} {what}", if is_good { "ok  " } else { "FAIL" });
    is_good
}
