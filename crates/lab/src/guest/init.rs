//! A guest that is the first process of a system which was booted for it. Linux only.

use super::{Link, measure};
use crate::job::{JOB_PATH, Job, Message, VARIABLE};
use landau_engine::{Entry, Fault};
use landau_sys::{boot, system};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::AsFd;
use std::path::Path;

/// The line to the host where the job names no other. The kernel's console is the same one.
const LINE: &str = "/dev/ttyS0";

/// Measures as the first process of a guest, if that is what this process is. Then it does not return.
pub(super) fn main(registry: &[Entry]) {
    if std::process::id() != 1 || std::env::var_os(VARIABLE).is_none() {
        return;
    }
    let ended = open().and_then(|(job, mut link)| {
        let last = serve(registry, &job, &mut link).unwrap_or_else(Message::Failed);
        link.say(&last).map_err(|error| error.to_string())
    });
    if let Err(reason) = ended {
        // The console is all there is left to say it to.
        let _ = File::options()
            .write(true)
            .open("/dev/console")
            .and_then(|mut console| writeln!(console, "landau: {reason}"));
    }
    let refused = boot::reboot();
    panic!("the machine does not end: {refused}");
}

/// What a system's start-up would have mounted; the job, and the line to the host.
fn open() -> Result<(Job, Link), String> {
    for (kind, target) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev"), ("tmpfs", "/tmp")] {
        boot::mount(kind, target).map_err(|error| format!("{target}: {error}"))?;
    }
    let job: Job = std::fs::read(Path::new("/").join(JOB_PATH))
        .map_err(|error| error.to_string())
        .and_then(|bytes| serde_json::from_slice(&bytes).map_err(|error| error.to_string()))?;
    let name = job.line.as_deref().unwrap_or(LINE);
    let line = OpenOptions::new().read(true).write(true).open(name).map_err(|error| format!("{name}: {error}"))?;
    boot::make_raw(line.as_fd()).map_err(|error| format!("{name}: {error}"))?;
    let link = Link::new(line, name);
    Ok((job, link))
}

fn serve(registry: &[Entry], job: &Job, link: &mut Link) -> Result<Message, String> {
    link.say(&Message::Up).map_err(|error| error.to_string())?;
    prepare(job)?;
    if job.symbols {
        link.say(&Message::Symbols(symbols()?)).map_err(|error| error.to_string())?;
    }
    if let Some(open) = system::setting("fs.nr_open").and_then(|text| text.parse().ok()) {
        boot::raise_descriptor_limit(open).map_err(|error| error.to_string())?;
    }
    measure(registry, job, link, fault(), Vec::new(), &|| false)
}

/// A fault that the kernel's command line asks for: `LANDAU_PANIC_AT=2031`, `LANDAU_HANG_AT=2031`. Only a system that
/// was booted for it is brought to a stop.
fn fault() -> Option<Fault> {
    let at = |name: &str| std::env::var(name).ok()?.parse().ok();
    at("LANDAU_PANIC_AT").map(Fault::Panic).or_else(|| at("LANDAU_HANG_AT").map(Fault::Hang))
}

/// What a system's start-up would have done, and what the user wants changed.
fn prepare(job: &Job) -> Result<(), String> {
    boot::bring_up_loopback().map_err(|error| format!("the loopback interface: {error}"))?;
    // From here on only a panic speaks on the console, which is the line to the host.
    std::fs::write("/proc/sys/kernel/printk", "1").map_err(|error| format!("kernel.printk: {error}"))?;
    for (name, value) in &job.sysctls {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        std::fs::write(path, value).map_err(|error| refused(name, value, &error))?;
    }
    Ok(())
}

/// Why a setting could not be set.
fn refused(name: &str, value: &str, error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => format!("the sysctl {name}: this kernel has no such setting"),
        _ => format!("the sysctl {name}={value}: {error}"),
    }
}

/// The kernel's own functions and where they stand.
fn symbols() -> Result<String, String> {
    let text = std::fs::read_to_string("/proc/kallsyms").map_err(|error| format!("/proc/kallsyms: {error}"))?;
    let is_function = |line: &&str| matches!(line.as_bytes().get(17), Some(b't' | b'T' | b'w' | b'W' | b'i'));
    Ok(text.lines().filter(is_function).flat_map(|line| [line, "\n"]).collect())
}
