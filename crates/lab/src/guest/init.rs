//! A guest that is the first process of a system booted for it. Linux only.

use super::connection::Connection;
use super::measure::measure;
use crate::job::{JOB_PATH, Job, Message, VARIABLE};
use landau_engine::{Entry, Fault};
use landau_sys::{boot, system};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;
use std::path::Path;

/// The default connection to the host, which is also the kernel's console.
const LINE: &str = "/dev/ttyS0";

/// Runs as the first process of a guest if this process is one, and then does not return.
pub(super) fn main(registry: &[Entry]) {
    if std::process::id() != 1 || std::env::var_os(VARIABLE).is_none() {
        return;
    }
    let ended = open().and_then(|(job, mut connection)| {
        let last = run(registry, &job, &mut connection).unwrap_or_else(Message::Failed);
        connection.send(&last).map_err(|error| error.to_string())
    });
    if let Err(reason) = ended {
        // Without a connection only the console is left.
        let _ = File::options()
            .write(true)
            .open("/dev/console")
            .and_then(|mut console| writeln!(console, "landau: {reason}"));
    }
    let error = boot::reboot();
    panic!("the machine does not reboot: {error}");
}

/// Mounts what a system's init would mount; returns the job and the connection to the host.
fn open() -> Result<(Job, Connection), String> {
    for (kind, target) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev"), ("tmpfs", "/tmp")] {
        boot::mount(kind, target).map_err(|error| format!("{target}: {error}"))?;
    }
    let job: Job = std::fs::read(Path::new("/").join(JOB_PATH))
        .map_err(|error| error.to_string())
        .and_then(|bytes| serde_json::from_slice(&bytes).map_err(|error| error.to_string()))?;
    let name = job.line.as_deref().unwrap_or(LINE);
    let line = OpenOptions::new().read(true).write(true).open(name).map_err(|error| format!("{name}: {error}"))?;
    boot::make_raw(line.as_fd()).map_err(|error| format!("{name}: {error}"))?;
    let connection = Connection::new(line, name);
    Ok((job, connection))
}

fn run(registry: &[Entry], job: &Job, connection: &mut Connection) -> Result<Message, String> {
    connection.send(&Message::Up).map_err(|error| error.to_string())?;
    prepare(job)?;
    if job.symbols {
        connection.send(&Message::Symbols(symbols()?)).map_err(|error| error.to_string())?;
    }
    if let Some(open) = system::setting("fs.nr_open").and_then(|text| text.parse().ok()) {
        boot::raise_descriptor_limit(open).map_err(|error| error.to_string())?;
    }
    measure(registry, job, connection, fault(), Vec::new(), &|| false)
}

/// Returns the fault that the kernel's command line requests, for tests: `LANDAU_PANIC_AT=2031` or
/// `LANDAU_HANG_AT=2031`. Only a system booted by the lab can be stopped like this.
fn fault() -> Option<Fault> {
    let at = |name: &str| std::env::var(name).ok()?.parse().ok();
    at("LANDAU_PANIC_AT").map(Fault::Panic).or_else(|| at("LANDAU_HANG_AT").map(Fault::Hang))
}

/// Does what a system's init would do, and sets the job's sysctls.
fn prepare(job: &Job) -> Result<(), String> {
    boot::bring_up_loopback().map_err(|error| format!("cannot bring up the loopback interface: {error}"))?;
    // From here on only a panic may write to the console: it is the connection to the host.
    std::fs::write("/proc/sys/kernel/printk", "1").map_err(|error| format!("kernel.printk: {error}"))?;
    for (name, value) in &job.sysctls {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        std::fs::write(path, value).map_err(|error| sysctl_error(name, value, &error))?;
    }
    Ok(())
}

fn sysctl_error(name: &str, value: &str, error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => format!("cannot set the sysctl {name}: this kernel does not have it"),
        _ => format!("cannot set the sysctl {name}={value}: {error}"),
    }
}

/// Returns the addresses of the kernel's functions, without those of modules' data.
fn symbols() -> Result<String, String> {
    let text = std::fs::read_to_string("/proc/kallsyms").map_err(|error| format!("/proc/kallsyms: {error}"))?;
    let is_function = |line: &&str| matches!(line.as_bytes().get(17), Some(b't' | b'T' | b'w' | b'W' | b'i'));
    Ok(text.lines().filter(is_function).flat_map(|line| [line, "\n"]).collect())
}
