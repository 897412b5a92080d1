//! `ssh`: the kernel of another machine, with any operating system. The program is copied there, measures as a child of
//! the remote shell, and is removed.
//!
//! It makes two connections: one copies the program, one runs it. ssh asks no questions (`BatchMode`), so it needs a
//! key or an agent. The remote shell removes the program, even if the connection breaks: the guest notices this by the
//! end of its standard input.

use super::{Platform, refuse_sysctls};
use crate::error::{Error, io};
use crate::guest::child;
use crate::job::Job;
use crate::kernel::Kind;
use crate::launch::{Ending, Launch};
use crate::machine::Machine;
use crate::tool::version_of;
use crate::unpacked::sha256;
use landau_record::schema::{Emulator, Lab, Unit};
use landau_sys::process::OwnedChild;
use landau_sys::signal::interrupted;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// See the module.
#[derive(Debug)]
pub(super) struct Ssh;

/// The ssh client.
const PROGRAM: &str = "ssh";

/// The time limit for copying the program.
const COPY_TIMEOUT: Duration = Duration::from_secs(300);

/// Returns the arguments before the command. A host that does not answer, or stops answering, ends the connection.
fn arguments(target: &str) -> Vec<String> {
    let options = ["BatchMode=yes", "ConnectTimeout=15", "ServerAliveInterval=15", "ServerAliveCountMax=4"];
    let mut all: Vec<String> = options.iter().flat_map(|option| ["-o", option]).map(str::to_owned).collect();
    // A shared connection would keep our pipes open after ssh exits.
    all.extend(["-o", "ControlMaster=no", "-T"].map(str::to_owned));
    let (host, port) = split(target);
    if let Some(port) = port {
        all.extend(["-p", port].map(str::to_owned));
    }
    all.extend(["--".to_owned(), host.replace(['[', ']'], "")]);
    all
}

/// Splits `user@host:2222` into the host (with its user) and the port. A host with several colons is an IPv6 address,
/// which has a port only after brackets.
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
    // The user's login shell may be of any kind, so a POSIX shell runs the command.
    command.args(arguments(target)).arg(format!("exec sh -c '{shell}'"));
    command
}

/// Returns a file name that no other run uses on the remote machine.
fn unique_name() -> String {
    format!("landau-{}-{:x}", std::process::id(), landau_sys::clock::monotonic_ns())
}

/// Returns the script by which the remote shell receives a program of this length. It removes an incomplete copy,
/// because the shell survives the signals of a broken connection.
fn receiver(path: &str, len: u64) -> String {
    format!(
        "trap : HUP TERM PIPE; umask 077 && cat > {path} && if test $(wc -c < {path}) -eq {len}; then chmod 700 \
         {path}; else echo \"the copy is incomplete\" >&2; false; fi || {{ rm -f {path}; exit 1; }}"
    )
}

/// Copies the program to the remote machine and returns its path there.
fn copy_program(machine: &Machine) -> Result<String, Error> {
    let target = &machine.kernel.origin;
    let failed = |reason: String| Err(Error::unusable(Ssh.name(), reason));
    let path = format!("/tmp/{}", unique_name());
    let program = File::open(machine.program).map_err(|source| io("read", machine.program, source))?;
    let len = program.metadata().map_err(|source| io("stat", machine.program, source))?.len();
    let mut command = command(target, &receiver(&path, len));
    command.stdin(Stdio::from(program)).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = match OwnedChild::spawn_group(&mut command) {
        Ok(child) => child,
        Err(error) => return failed(format!("cannot start {PROGRAM}: {error}; install an ssh client")),
    };
    let start = Instant::now();
    while start.elapsed() < COPY_TIMEOUT {
        if let Ok(Some(status)) = child.try_wait() {
            if status.success() {
                return Ok(path);
            }
            let mut message = String::new();
            // If this fails, the message lacks the reason.
            let _ = child.stderr.as_mut().map(|errors| errors.read_to_string(&mut message));
            return failed(format!("cannot copy the program to {target}: {}", message.trim().replace('\n', "; ")));
        }
        if interrupted().is_some() {
            return failed(format!("interrupted while the program was copied to {target}"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    failed(format!("copying the program to {target} took more than {} s", COPY_TIMEOUT.as_secs()))
}

fn version() -> Result<String, Error> {
    version_of(Ssh.name(), PROGRAM, "-V", "install an ssh client (Debian: openssh-client)")
}

impl Platform for Ssh {
    fn name(&self) -> &'static str {
        "ssh"
    }

    fn about(&self) -> &'static str {
        "another machine, with any system; times of that machine"
    }

    fn unit(&self) -> Unit {
        Unit::Ns
    }

    fn runs(&self, kind: &Kind) -> bool {
        *kind == Kind::Remote
    }

    fn preference(&self) -> u8 {
        1
    }

    fn needs_initramfs(&self, _machine: &Machine) -> bool {
        false
    }

    fn settle_s(&self) -> u64 {
        0
    }

    fn check_job(&self, job: &Job) -> Result<(), Error> {
        refuse_sysctls(self.name(), job)
    }

    fn check(&self, _program: &Path) -> Result<String, Error> {
        version()
    }

    fn launch(&self, machine: &Machine, job: &Job) -> Result<Launch, Error> {
        let path = copy_program(machine)?;
        let guest = child::ARGUMENT;
        // The shell survives the guest and removes the program; it ignores the signals of a broken connection.
        let shell = format!("trap : HUP TERM PIPE; {path} {guest}; code=$?; rm -f {path}; exit $code");
        Launch::child(command(&machine.kernel.origin, &shell), job)
    }

    fn describe(&self, machine: &Machine) -> Result<Lab, Error> {
        let target = &machine.kernel.origin;
        Ok(Lab {
            platform: self.name().to_owned(),
            emulator: Some(Emulator { name: PROGRAM.to_owned(), version: version()?, arguments: vec![target.clone()] }),
            program_sha256: sha256(machine.program)?,
            ..Lab::default()
        })
    }

    fn advice(&self, _ending: &Ending) -> &'static str {
        "`ssh` must connect without asking anything (BatchMode), and the program must be built for that system: \
         specify another one with --program"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_port_are_separated() {
        assert_eq!(split("box"), ("box", None));
        assert_eq!(split("me@box:2222"), ("me@box", Some("2222")));
        assert_eq!(split("me@::1"), ("me@::1", None));
        assert_eq!(split("me@[::1]:22"), ("me@[::1", Some("22")));
        assert_eq!(split("box:"), ("box:", None));
    }

    #[test]
    fn a_target_is_never_an_option() {
        let all = arguments("-oProxyCommand=x");
        assert_eq!(all[all.len() - 2..], ["--", "-oProxyCommand=x"]);
        assert!(arguments("me@[::1]:22").join(" ").ends_with("-p 22 -- me@::1"));
    }
}
