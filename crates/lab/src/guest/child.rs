//! A guest that is a child: of this very program, of a sandbox, or of a shell on another system.
//!
//! It reads its job as a line of standard input, or from a file that it is given, and speaks on standard output. It
//! mounts nothing and restarts nothing, and ends when whoever started it is gone: standard input ends then.

use super::{Link, measure};
use crate::job::{Job, Message};
use landau_engine::Entry;
use landau_sys::descriptor::wait_readable;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, Write};
use std::os::fd::AsFd;

/// The word that makes the program a guest; not for users.
pub const ARGUMENT: &str = "__guest";

/// Measures as a child, if that is what this process was started as: the exit status.
pub(super) fn main(registry: &[Entry]) -> Option<u8> {
    let mut words = std::env::args_os().skip(1);
    if words.next().is_none_or(|word| word != ARGUMENT) {
        return None;
    }
    Some(match serve(registry, words.next().as_deref()) {
        Ok(()) => 0,
        Err(reason) => {
            // Where nobody listens any more there is nobody to tell.
            let _ = writeln!(std::io::stderr(), "landau: {reason}");
            2
        }
    })
}

fn serve(registry: &[Entry], file: Option<&OsStr>) -> Result<(), String> {
    let text = |error: std::io::Error| error.to_string();
    let job = if let Some(path) = file {
        std::fs::read_to_string(path).map_err(text)?
    } else {
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line).map_err(text)?;
        line
    };
    let job: Job = serde_json::from_str(&job).map_err(|error| format!("a guest is started by landau lab: {error}"))?;
    let output = std::io::stdout().as_fd().try_clone_to_owned().map_err(text)?;
    let mut link = Link::new(File::from(output), "standard output");
    link.say(&Message::Up).map_err(text)?;
    // Nothing is sent after the job: whatever can be read then is the end of whoever sent it.
    let is_alone = || file.is_none() && wait_readable(&std::io::stdin(), 0).unwrap_or(false);
    let last = prepare(&job)
        .and_then(|notes| measure(registry, &job, &mut link, None, notes, &is_alone))
        .unwrap_or_else(Message::Failed);
    link.say(&last).map_err(text)
}

/// Makes what the job asks for before anything is measured; remarks for the record.
#[cfg(target_os = "linux")]
fn prepare(job: &Job) -> Result<Vec<String>, String> {
    use crate::sysctl;
    use landau_sys::boot;
    if !job.own_network {
        return refuse_sysctls(job);
    }
    // Before the namespace is made and again here: what is written below must never reach the host.
    sysctl::check_all(&job.sysctls)?;
    let network = || std::fs::read_link("/proc/self/ns/net").map_err(|error| format!("/proc/self/ns/net: {error}"));
    let outside = network()?;
    boot::unshare_network().map_err(|error| {
        format!("a network of its own: {error}; as root, or where the kernel allows user namespaces, it works")
    })?;
    // Who became superuser of a namespace no longer gets the signal that was asked for.
    let _ = landau_sys::system::set_parent_death_signal(landau_sys::process::parent_id());
    if network()? == outside {
        return Err("the network namespace is still the host's".to_owned());
    }
    boot::bring_up_loopback().map_err(|error| format!("the loopback interface: {error}"))?;
    for (name, value) in &job.sysctls {
        std::fs::write(sysctl::path(name), value).map_err(|error| format!("{name}={value}: {error}"))?;
    }
    let set = job.sysctls.iter().map(|(name, value)| format!("in a network namespace of its own: {name}={value}"));
    Ok(set.collect())
}

/// Makes what the job asks for before anything is measured; remarks for the record.
#[cfg(not(target_os = "linux"))]
fn prepare(job: &Job) -> Result<Vec<String>, String> {
    if job.own_network {
        return Err("only Linux has network namespaces".to_owned());
    }
    refuse_sysctls(job)
}

/// A guest that shares its kernel with others changes nothing about it.
fn refuse_sysctls(job: &Job) -> Result<Vec<String>, String> {
    match job.sysctls.keys().next() {
        None => Ok(Vec::new()),
        Some(name) => Err(format!("{name} would be set for the whole system, which is not the lab's own")),
    }
}
