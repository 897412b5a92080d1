//! `landau lab platforms`: lists the platforms, whether they work on this host, and what the others need.

use super::run::own_program;
use crate::options::Cache;
use crate::status;
use anyhow::Context;
use landau_lab::platform::{self, Platform};
use landau_lab::{obtain, probe};
use serde_json::json;
use std::path::Path;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  landau lab platforms                     list all platforms
  landau lab platforms --kernel ./bzImage  boot this kernel to test whether kvm works
  landau lab platforms --json | jq -r '.[] | select(.usable) | .platform'

Being able to open /dev/kvm does not prove that it works, so kvm is listed as usable only after a
test guest has booted with it.")]
pub(crate) struct Args {
    /// Boot this kernel to test kvm: a file or `debian:VERSION`
    #[arg(long, short)]
    kernel: Option<String>,
    #[command(flatten)]
    cache: Cache,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A platform and whether it is usable; `None` if only a boot can show that.
struct Row {
    platform: &'static dyn Platform,
    usable: Option<bool>,
    detail: String,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<u8> {
    let program = own_program()?;
    let cache = args.cache.known();
    let mut rows = Vec::new();
    for &platform in platform::REGISTRY {
        let (usable, detail) = match platform.check(&program) {
            Ok(_) if platform.unproven_device().is_some() => booted(args, platform, &program, cache.as_deref())?,
            Ok(detail) => (Some(true), detail),
            Err(error) => (Some(false), error.to_string()),
        };
        rows.push(Row { platform, usable, detail });
    }
    status::print(&if args.json { as_json(&rows)? } else { as_text(&rows) })?;
    Ok(status::DONE)
}

/// Returns the result of a test boot, made now or earlier.
fn booted(
    args: &Args,
    platform: &dyn Platform,
    program: &Path,
    cache: Option<&Path>,
) -> anyhow::Result<(Option<bool>, String)> {
    let outcome = match &args.kernel {
        Some(word) => {
            let cache = cache.context("no directory for the result; pass one with --cache")?;
            let kernel = obtain::obtain(word, cache, &mut |text| status::tell(text))?;
            Some(probe::probe(platform, &kernel, program, Some(cache), &mut |text| status::tell(text))?)
        }
        None => probe::known(platform, program, cache),
    };
    Ok(match outcome {
        Some(outcome) => (Some(outcome.works), outcome.why),
        None => (
            None,
            "its device can be opened, which does not prove that it works; boot a kernel to test it: --kernel K"
                .to_owned(),
        ),
    })
}

fn as_json(rows: &[Row]) -> anyhow::Result<String> {
    let row = |row: &Row| {
        json!({
            "platform": row.platform.name(),
            "usable": row.usable,
            "unit": row.platform.unit().name(),
            "about": row.platform.about(),
            "detail": row.detail,
        })
    };
    Ok(serde_json::to_string_pretty(&rows.iter().map(row).collect::<Vec<_>>())?)
}

fn as_text(rows: &[Row]) -> String {
    let word = |row: &Row| match row.usable {
        Some(true) => "yes",
        Some(false) => "no",
        None => "?",
    };
    let line = |row: &Row| {
        let (name, about) = (row.platform.name(), row.platform.about());
        format!("{name:<8} {:<4} {about}\n{:14}{}", word(row), "", row.detail)
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}
