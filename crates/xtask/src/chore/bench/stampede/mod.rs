//! `bench stampede`: our server under overload: too many connections, slow clients, a full descriptor table.
//!
//! The servers run on one processor; the clients, including this program, run on the other.

mod full;
mod overload;
mod quota;
mod slow;

use super::rivals::{self, CLIENT_PROCESSOR};
use crate::workspace;
use anyhow::{Context, Result};

/// Arguments of `bench stampede`.
#[derive(Debug, clap::Args)]
pub(crate) struct Words {
    /// Run only these parts
    parts: Vec<Part>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Ten times as many connections as are optimal
    Closed,
    /// Ten times the peak rate, one connection per request
    Fresh,
    /// Slow clients
    Slow,
    /// A full descriptor table
    Full,
}

pub(crate) fn run(words: &Words) -> Result<bool> {
    let is_wanted = |part| words.parts.is_empty() || words.parts.contains(&part);
    landau_sys::limits::raise(landau_sys::limits::Resource::Descriptors).context("raise the limit on descriptors")?;
    let folder = tempfile::tempdir().context("create a temporary directory")?;
    let root = rivals::site(folder.path())?.display().to_string();
    let landau = workspace::landau()?.display().to_string();
    landau_sys::system::pin(&[CLIENT_PROCESSOR.parse()?]).context("pin this process")?;
    let serve = |port: u16, more: &[&str]| {
        let address = format!("127.0.0.1:{port}");
        let words = [&[&landau, "serve", &root, "--listen", &address][..], more].concat();
        rivals::started("landau", port, &words)
    };
    let mut is_good = true;
    if is_wanted(Part::Closed) {
        is_good &= overload::closed(&landau, &serve(18091, &[])?)?;
    }
    if is_wanted(Part::Fresh) {
        is_good &= overload::tenfold(&landau, &serve(18098, &["--backlog", overload::BACKLOG])?)?;
    }
    if is_wanted(Part::Slow) {
        is_good &= slow::slow(&serve(18092, &[])?, &serve(18094, &[])?)?;
    }
    if is_wanted(Part::Full) {
        // To lower another process's limit, a process must have the same user or be privileged.
        let patient =
            ["--head-timeout", "600s", "--idle-timeout", "600s", "--metrics", full::METRICS, "--user", "root"];
        is_good &= full::full(&serve(18093, &patient)?)?;
    }
    Ok(is_good)
}

fn said(what: &str, is_good: bool) -> bool {
    println!("{} {what}", if is_good { "ok  " } else { "FAIL" });
    is_good
}
