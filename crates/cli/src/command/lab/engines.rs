//! `landau lab engines`: what can run kernels here, and what cannot, why, and what to do about it.

use super::run::own_program;
use crate::options::Cache;
use crate::status;
use anyhow::Context;
use landau_lab::engine::{self, Engine, probe};
use landau_lab::kernel;
use serde_json::json;
use std::path::Path;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  landau lab engines                     what works here
  landau lab engines --kernel ./bzImage  and boot this kernel to see whether kvm does
  landau lab engines --json | jq -r '.[] | select(.usable) | .engine'

That a device opens proves nothing: kvm counts as usable only once a guest was booted by it.")]
pub(crate) struct Args {
    /// A kernel to boot under kvm: a file or `debian:VERSION`
    #[arg(long, short)]
    kernel: Option<String>,
    #[command(flatten)]
    cache: Cache,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// An engine and whether it can be used: none where only a boot would tell.
struct Row {
    engine: Engine,
    usable: Option<bool>,
    detail: String,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<u8> {
    let program = own_program()?;
    let cache = args.cache.known();
    let mut rows = Vec::new();
    for &engine in engine::ALL {
        let (usable, detail) = match engine.check(&program) {
            Ok(_) if engine == Engine::Kvm => kvm(args, &program, cache.as_deref())?,
            Ok(detail) => (Some(true), detail),
            Err(error) => (Some(false), error.to_string()),
        };
        rows.push(Row { engine, usable, detail });
    }
    status::print(&if args.json { as_json(&rows)? } else { as_text(&rows) })?;
    Ok(status::DONE)
}

/// What a boot showed, now or earlier.
fn kvm(args: &Args, program: &Path, cache: Option<&Path>) -> anyhow::Result<(Option<bool>, String)> {
    let answer = match &args.kernel {
        Some(word) => {
            let cache = cache.context("no folder for what is found out; name one with --cache")?;
            let kernel = kernel::obtain(word, cache, &mut |text| status::tell(text))?;
            Some(probe::ask(&kernel, program, cache, &mut |text| status::tell(text))?)
        }
        None => cache.and_then(probe::known),
    };
    Ok(match answer {
        Some(answer) => (Some(answer.works), answer.why),
        None => (None, "its device opens, which proves nothing; --kernel K boots one to see".to_owned()),
    })
}

fn as_json(rows: &[Row]) -> anyhow::Result<String> {
    let row = |row: &Row| {
        json!({
            "engine": row.engine.name(),
            "usable": row.usable,
            "unit": row.engine.unit().name(),
            "about": row.engine.about(),
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
        let (name, about) = (row.engine.name(), row.engine.about());
        format!("{name:<8} {:<4} {about}\n{:14}{}", word(row), "", row.detail)
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}
