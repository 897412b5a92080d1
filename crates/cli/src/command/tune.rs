//! `landau tune`: shows what a profile of kernel settings would change, measures whether it helps, and writes the files
//! that make it permanent. Measurement and text output are in `tune/`.

mod guard;
mod text;
mod trial;

use crate::status;
use clap::Subcommand;
use landau_host::Root;
use landau_lab::sysctl::OF_A_NETWORK;
use landau_tune::{Error, Outcome, Plan, Profile, Restored, Status};
use serde_json::json;
use std::io::ErrorKind;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  landau tune plan idle                            what the profile would change, and why
  landau tune try idle -- run connect --passes 9   does it help? measured in a network namespace
  landau tune try own.toml --ablate -- run dup     which of its settings helps?
  landau tune try files --on-host -- run files     settings that only the host has, as root
  landau tune restore                              undo a trial that was killed
  landau tune keep idle                            write sysctl.d, limits.d and a drop-in of systemd
  landau tune status                               what differs from the defaults

Profiles: idle, mail, files, seed-freebsd-2001, seed-linux-2001, empty, or a file NAME.toml;
docs/tune.md describes them and the JSON.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show what a profile would change on this host, why, and what cannot be changed; changes nothing
    Plan(PlanArgs),
    /// Measure the host in turn with and without a profile, and then restore it
    Try(trial::Args),
    /// Undo the changes that a killed trial has left on the host
    Restore(RestoreArgs),
    /// Make a profile permanent: write files for sysctl.d, limits.d and systemd
    Keep(KeepArgs),
    /// List the settings that differ from their defaults, and the file that sets each
    Status(StatusArgs),
    /// Wait for the end of the trial that started this process, and restore the host if it was killed
    #[command(hide = true)]
    Guard(guard::Args),
}

/// Flags that every subcommand has.
#[derive(Debug, clap::Args)]
struct Common {
    /// Read and write /proc/sys, /etc and /var below this directory, for images and tests
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Common {
    fn root(&self) -> Root {
        self.root.as_deref().map_or_else(Root::live, Root::planted)
    }
}

#[derive(Debug, clap::Args)]
struct PlanArgs {
    /// Name of a profile, or a file
    #[arg(value_name = "PROFILE")]
    profile: String,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
struct RestoreArgs {
    /// Also restore settings that another process has changed since
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
struct KeepArgs {
    /// Name of a profile, or a file
    #[arg(value_name = "PROFILE")]
    profile: String,
    /// Print the files without writing them
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
struct StatusArgs {
    /// Also print settings that have their default values
    #[arg(long, short)]
    all: bool,
    #[command(flatten)]
    common: Common,
}

pub(crate) fn run(args: &Args, words: &[String]) -> anyhow::Result<u8> {
    match &args.command {
        Command::Plan(args) => plan(args),
        Command::Try(args) => trial::run(args, words),
        Command::Restore(args) => restore(args),
        Command::Keep(args) => keep(args),
        Command::Status(args) => show_status(args),
        Command::Guard(args) => guard::run(args),
    }
}

/// Warns on standard error if a killed trial has left the host changed.
pub(crate) fn tell_left(root: &Root) {
    if let Ok(Some(left)) = landau_tune::left(root) {
        status::tell(&text::left(&left));
    }
}

fn plan(args: &PlanArgs) -> anyhow::Result<u8> {
    let root = args.common.root();
    let plan = Plan::of(&root, &Profile::find(&args.profile)?, OF_A_NETWORK);
    tell_left(&root);
    let text = if args.common.json { serde_json::to_string_pretty(&plan)? } else { text::plan(&plan) };
    status::print(&text)?;
    Ok(status::DONE)
}

fn restore(args: &RestoreArgs) -> anyhow::Result<u8> {
    let restored = landau_tune::restore(&args.common.root(), args.force, false)?;
    let is_done = restored.iter().all(|one| one.outcome.is_done());
    let text = if args.common.json {
        serde_json::to_string_pretty(&json!({"schema": landau_tune::SCHEMA, "settings": restored, "done": is_done}))?
    } else {
        restored_text(&restored)
    };
    status::answer(&text, if is_done { status::DONE } else { status::FAILED })
}

fn restored_text(restored: &[Restored]) -> String {
    if restored.is_empty() {
        return "nothing to restore: no trial has left settings changed".to_owned();
    }
    let line = |one: &Restored| match one.outcome {
        Outcome::Restored => format!("{}: restored to {}", one.name, one.old),
        Outcome::Unchanged => format!("{}: is {}, as before the trial", one.name, one.old),
        Outcome::Rebooted => format!("{}: the host has been rebooted since, which reset it", one.name),
        Outcome::Foreign => format!("{}; --force restores it", one.complaint().unwrap_or_default()),
        Outcome::Failed => format!(
            "{}; if the host no longer has the setting, remove /var/lib/landau/tune/journal.json",
            one.complaint().unwrap_or_default()
        ),
    };
    restored.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn keep(args: &KeepArgs) -> anyhow::Result<u8> {
    let profile = Profile::find(&args.profile)?;
    let kept = landau_tune::keep(&args.common.root(), &profile)?;
    let writing = if args.dry_run { Ok(()) } else { landau_tune::write(&kept) };
    let is_denied =
        |error: &Error| matches!(error, Error::File { why, .. } if why.kind() == ErrorKind::PermissionDenied);
    let denied = match writing {
        Ok(()) => None,
        Err(error) if is_denied(&error) => Some(error),
        Err(error) => return Err(error.into()),
    };
    if let Some(error) = &denied {
        status::tell(&format!("landau: {error}; no file was written. As root, it would write:"));
    }
    let written = !args.dry_run && denied.is_none();
    let text = if args.common.json {
        let answer = json!({"schema": landau_tune::SCHEMA, "profile": profile.name, "written": written, "files": kept});
        serde_json::to_string_pretty(&answer)?
    } else {
        text::kept(&kept, !written)
    };
    status::answer(&text, if denied.is_some() { status::COULD_NOT_RUN } else { status::DONE })
}

fn show_status(args: &StatusArgs) -> anyhow::Result<u8> {
    let found = Status::of(&args.common.root())?;
    let text = if args.common.json { serde_json::to_string_pretty(&found)? } else { text::status(&found, args.all) };
    status::print(&text)?;
    Ok(status::DONE)
}
