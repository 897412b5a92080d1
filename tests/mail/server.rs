//! A Debian mail server, started from its unpacked package without installing it.
//!
//! Debian's mail server packages conflict with each other, and installing one starts it. So each server runs in a mount
//! namespace where the directory of its package is overlaid on the host's files ([`private.sh`](private.sh)). This
//! needs root. The file is compiled into `xtask`, which measures the servers, and into the tests of `landau`, which
//! deliver to them.

use anyhow::{Context, Result, bail, ensure};
use landau_sys::process::{OwnedChild, effective_user};
use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

/// The directory of the scripts that start servers, with a key and a certificate for them.
pub(crate) const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/mail");

/// The maximum time until a server accepts connections.
const START: Duration = Duration::from_secs(300);

/// The ports for servers, outside the ephemeral range.
const PORTS: std::ops::Range<u16> = 20_000..29_000;

/// A running server. Dropping this value kills `unshare`; the kernel then kills all processes of the namespace.
pub(crate) struct MailServer {
    /// The process `unshare`, the ancestor of all processes of the server.
    pub(crate) child: OwnedChild,
    /// The port on 127.0.0.1.
    pub(crate) port: u16,
    log: PathBuf,
}

impl MailServer {
    /// Starts the named server from the directory with its package. It stores all mail in the Maildir `mailboxes/all`
    /// below `shared`, or relays it to the port `relay` of 127.0.0.1. Its queue is in `shared`, too.
    pub(crate) fn start(packages: &Path, name: &str, shared: &Path, relay: Option<u16>) -> Result<Self> {
        fs::create_dir_all(shared).with_context(|| format!("make {}", shared.display()))?;
        let (port, log) = (free_port()?, shared.join("log"));
        let output = File::create(&log).context("create the log")?;
        let script = scripts()?.join(format!("{name}.sh"));
        let mut command = private(packages, &script, shared)?;
        command.env("PORT", port.to_string()).envs(relay.map(|port| ("RELAY", port.to_string())));
        command.stdin(Stdio::null()).stdout(output.try_clone().context("copy a descriptor")?).stderr(output);
        let child = OwnedChild::spawn(&mut command).with_context(|| format!("start {name}"))?;
        let mut server = Self { child, port, log };
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = server.child.try_wait().context("check the status of a server")?;
            if ended.is_some() || began.elapsed() > START {
                bail!("{name} does not accept connections; it wrote:\n{}", server.log());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(server)
    }

    /// Returns the server's output.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

/// Runs an empty script in a private root. Returns the reason if that fails, so that no server can run here.
pub(crate) fn refusal(packages: &Path, shared: &Path) -> Result<Option<String>> {
    if effective_user() != 0 {
        return Ok(Some("a mount namespace needs root".to_owned()));
    }
    fs::create_dir_all(shared).with_context(|| format!("make {}", shared.display()))?;
    let script = shared.join("empty.sh");
    fs::write(&script, ":\n").context("write a script")?;
    Ok(match private(packages, &script, shared)?.output() {
        Ok(ran) if ran.status.success() => None,
        Ok(ran) => Some(String::from_utf8_lossy(&ran.stderr).trim().to_owned()),
        Err(error) => Some(format!("start unshare: {error}")),
    })
}

/// Returns a port without a listener on any IPv4 address. The server binds it seconds later.
pub(crate) fn free_port() -> Result<u16> {
    static ASKED: AtomicU16 = AtomicU16::new(0);
    // Concurrent processes start at different offsets, so that they get different ports.
    let offset = std::process::id().wrapping_mul(37);
    for _ in PORTS {
        let number = offset.wrapping_add(u32::from(ASKED.fetch_add(1, Ordering::Relaxed)));
        let port = PORTS.start + (number % PORTS.len() as u32) as u16;
        if TcpListener::bind(("0.0.0.0", port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no port from {} to {} is free", PORTS.start, PORTS.end - 1)
}

/// Returns the command that runs a script in a private root.
fn private(packages: &Path, script: &Path, shared: &Path) -> Result<Command> {
    ensure!(packages.exists(), "{} is missing; cargo xtask test fetches it", packages.display());
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--kill-child", "sh"]).arg(scripts()?.join("private.sh"));
    command.arg(packages).arg(script).arg(shared);
    Ok(command)
}

fn scripts() -> Result<PathBuf> {
    Path::new(SCRIPTS).canonicalize().with_context(|| format!("find {SCRIPTS}"))
}
