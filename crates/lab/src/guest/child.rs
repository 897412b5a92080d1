//! A guest that runs as a child process: of this program, of a sandbox, or of a shell on another system.
//!
//! It reads its job from standard input, one line, or from a file named on its command line, and writes to standard
//! output. It mounts nothing and reboots nothing. With a job from standard input it ends when its parent has exited,
//! which it notices by the end of standard input.

use super::connection::Connection;
use super::measure::measure;
use crate::job::{Job, Message};
use landau_engine::Entry;
use landau_sys::descriptor::wait_readable;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, Write};
use std::os::fd::AsFd;

/// The argument that makes the program a guest; not for users.
pub const ARGUMENT: &str = "__guest";

/// Runs as a child if this process was started as one, and returns the exit status.
pub(super) fn main(registry: &[Entry]) -> Option<u8> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_none_or(|argument| argument != ARGUMENT) {
        return None;
    }
    Some(match run(registry, arguments.next().as_deref()) {
        Ok(()) => 0,
        Err(reason) => {
            // If standard error is closed too, the error is lost.
            let _ = writeln!(std::io::stderr(), "landau: {reason}");
            2
        }
    })
}

fn run(registry: &[Entry], file: Option<&OsStr>) -> Result<(), String> {
    let text = |error: std::io::Error| error.to_string();
    let job = if let Some(path) = file {
        std::fs::read_to_string(path).map_err(text)?
    } else {
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line).map_err(text)?;
        line
    };
    let job: Job =
        serde_json::from_str(&job).map_err(|error| format!("{ARGUMENT} is for `landau lab` only: {error}"))?;
    let output = std::io::stdout().as_fd().try_clone_to_owned().map_err(text)?;
    let mut connection = Connection::new(File::from(output), "standard output");
    connection.send(&Message::Up).map_err(text)?;
    // The parent sends nothing after the job, so if standard input is readable, the parent is gone.
    let is_orphaned = || file.is_none() && wait_readable(&std::io::stdin(), 0).unwrap_or(false);
    let last = prepare(&job)
        .and_then(|notes| measure(registry, &job, &mut connection, None, notes, &is_orphaned))
        .unwrap_or_else(Message::Failed);
    connection.send(&last).map_err(text)
}

/// Prepares the environment that the job requires; returns notes for the record.
#[cfg(target_os = "linux")]
fn prepare(job: &Job) -> Result<Vec<String>, String> {
    use crate::sysctl;
    use landau_sys::boot;
    if !job.own_network {
        return refuse_sysctls(job);
    }
    // The host has checked them, too. Nothing that is written below may affect the host.
    sysctl::check_all(&job.sysctls)?;
    let network = || std::fs::read_link("/proc/self/ns/net").map_err(|error| format!("/proc/self/ns/net: {error}"));
    let outside = network()?;
    boot::unshare_network().map_err(|error| {
        format!("cannot create a network namespace: {error}; it needs root, or a kernel that allows user namespaces")
    })?;
    // Entering a user namespace clears the parent-death signal, so it is set again.
    let _ = landau_sys::system::set_parent_death_signal(landau_sys::process::parent_id());
    if network()? == outside {
        return Err("the network namespace is still the host's".to_owned());
    }
    boot::bring_up_loopback().map_err(|error| format!("cannot bring up the loopback interface: {error}"))?;
    for (name, value) in &job.sysctls {
        std::fs::write(sysctl::path(name), value)
            .map_err(|error| format!("cannot set the sysctl {name}={value}: {error}"))?;
    }
    let set = job.sysctls.iter().map(|(name, value)| format!("in its own network namespace: {name}={value}"));
    Ok(set.collect())
}

/// Prepares the environment that the job requires; returns notes for the record.
#[cfg(not(target_os = "linux"))]
fn prepare(job: &Job) -> Result<Vec<String>, String> {
    if job.own_network {
        return Err("only Linux has network namespaces".to_owned());
    }
    refuse_sysctls(job)
}

/// Refuses every sysctl: this guest shares its kernel with other processes.
fn refuse_sysctls(job: &Job) -> Result<Vec<String>, String> {
    match job.sysctls.keys().next() {
        None => Ok(Vec::new()),
        Some(name) => Err(format!("cannot set {name}: it would change the whole system, which other processes use")),
    }
}
