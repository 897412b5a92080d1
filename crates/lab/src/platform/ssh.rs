//! Whatever system runs at the other end of ssh: the program goes there, measures as a child, and is removed.
//!
//! Two connections are made, one that carries the program and one in which it runs; nothing is asked (`BatchMode`), so
//! a key or an agent must do. What is left at the other end is removed by the shell there, also when the connection
//! breaks: the guest notices by the end of its standard input.

use super::{Machine, Platform, native, version_of};
use crate::error::Error;
use crate::guest::child;
use crate::job::Job;
use crate::kernel::sha256;
use crate::machine::Start;
use landau_record::schema::{Emulator, Lab};
use landau_sys::process::OwnedChild;
use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The program.
const PROGRAM: &str = "ssh";

/// How long the program may take to get there.
const CARRY: Duration = Duration::from_secs(300);

/// The words before the command: a host that does not answer is given up, one that went away too.
fn arguments(target: &str) -> Vec<String> {
    let options = ["BatchMode=yes", "ConnectTimeout=15", "ServerAliveInterval=15", "ServerAliveCountMax=4"];
    let mut words: Vec<String> = options.iter().flat_map(|option| ["-o", option]).map(str::to_owned).collect();
    // A connection that others share must not hold on to our pipes.
    words.extend(["-o", "ControlMaster=no", "-T"].map(str::to_owned));
    let (host, port) = split(target);
    if let Some(port) = port {
        words.extend(["-p", port].map(str::to_owned));
    }
    words.extend(["--".to_owned(), host.replace(['[', ']'], "")]);
    words
}

/// Host (with its user) and port: `user@host:2222`. More colons are an IPv6 address, with a port only in brackets.
fn split(target: &str) -> (&str, Option<&str>) {
    if let Some((host, rest)) = target.rsplit_once("]:").filter(|(_, port)| is_number(port)) {
        return (host, Some(rest));
    }
    match target.rsplit_once(':') {
        Some((host, port)) if is_number(port) && !host.contains(':') => (host, Some(port)),
        _ => (target, None),
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn command(target: &str, shell: &str) -> Command {
    let mut command = Command::new(PROGRAM);
    // Whatever the login shell is, this is read by a standard one.
    command.args(arguments(target)).arg(format!("exec sh -c '{shell}'"));
    command
}

/// A name that nobody else has at the other end.
fn name() -> String {
    format!("landau-{}-{:x}", std::process::id(), landau_sys::clock::monotonic_ns())
}

/// Takes the program there: the path that it has there.
fn carry(machine: &Machine) -> Result<String, Error> {
    let failed = |reason: String| Error::Platform { platform: Platform::Ssh.name().to_owned(), reason };
    let path = format!("/tmp/{}", name());
    let program = File::open(machine.program).map_err(|source| crate::error::io("read", machine.program, source))?;
    let shell = format!("umask 077 && cat > {path} && chmod 700 {path} || {{ rm -f {path}; exit 1; }}");
    let mut command = command(&machine.kernel.origin, &shell);
    command.stdin(Stdio::from(program)).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = OwnedChild::spawn_group(&mut command)
        .map_err(|error| failed(format!("{PROGRAM}: {error}; install an ssh client")))?;
    let began = Instant::now();
    while began.elapsed() < CARRY {
        if let Ok(Some(status)) = child.try_wait() {
            if status.success() {
                return Ok(path);
            }
            let mut words = String::new();
            // What cannot be read leaves the message without the reason.
            let _ = child.stderr.as_mut().map(|errors| errors.read_to_string(&mut words));
            let words = words.trim().replace('\n', "; ");
            return Err(failed(format!("{} cannot be reached: {words}", machine.kernel.origin)));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(failed(format!("{} did not take the program within {} s", machine.kernel.origin, CARRY.as_secs())))
}

pub(super) fn start(machine: &Machine, job: &Job) -> Result<Start, Error> {
    let path = carry(machine)?;
    let guest = child::ARGUMENT;
    // The shell outlives the guest and tidies up after it; what the connection's end sends to the shell is let by.
    let shell = format!("trap : HUP TERM PIPE; {path} {guest}; code=$?; rm -f {path}; exit $code");
    native::child_of(command(&machine.kernel.origin, &shell), job)
}

pub(super) fn check() -> Result<String, Error> {
    version_of(Platform::Ssh, PROGRAM, "-V", "install an ssh client (Debian: openssh-client)")
}

pub(super) fn describe(machine: &Machine) -> Result<Lab, Error> {
    let target = &machine.kernel.origin;
    Ok(Lab {
        platform: Platform::Ssh.name().to_owned(),
        emulator: Some(Emulator { name: PROGRAM.to_owned(), version: check()?, arguments: vec![target.clone()] }),
        program_sha256: sha256(machine.program)?,
        ..Lab::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_port_come_apart() {
        assert_eq!(split("box"), ("box", None));
        assert_eq!(split("me@box:2222"), ("me@box", Some("2222")));
        assert_eq!(split("me@::1"), ("me@::1", None));
        assert_eq!(split("me@[::1]:22"), ("me@[::1", Some("22")));
        assert_eq!(split("box:"), ("box:", None));
    }

    #[test]
    fn a_target_is_never_an_option() {
        let words = arguments("-oProxyCommand=x");
        assert_eq!(words[words.len() - 2..], ["--", "-oProxyCommand=x"]);
        assert!(arguments("me@[::1]:22").join(" ").ends_with("-p 22 -- me@::1"));
    }
}
