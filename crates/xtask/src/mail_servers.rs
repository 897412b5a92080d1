//! Postfix, Exim and OpenSMTPD from Debian's packages, to test and compare `landau mail` with.
//!
//! Debian's mail servers exclude each other, and installing one starts it. So their packages are unpacked into
//! `target/mail-servers`, one directory each, and a server runs in a mount namespace where its directory lies over the
//! host's files ([`tests/mail/private.sh`](../../../tests/mail/private.sh)). Nothing is installed.

use crate::debian::{Client, closure, installed};
use crate::program::{self, Program};
use crate::workspace;
use anyhow::{Context, Result, bail, ensure};
use landau_sys::process::OwnedChild;
use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The servers with their packages.
pub(crate) const SERVERS: [(&str, &[&str]); 3] =
    [("postfix", &["postfix"]), ("exim", &["exim4-daemon-light", "exim4-base"]), ("opensmtpd", &["opensmtpd"])];

/// How long a server may take to accept connections.
const START: Duration = Duration::from_secs(60);

/// Returns the directory with a directory for each server. Fetches those that are missing with apt-get.
pub(crate) fn prepare() -> Result<PathBuf> {
    let folder = workspace::target()?.join("mail-servers");
    let missing: Vec<_> = SERVERS.iter().filter(|(name, _)| !folder.join(name).exists()).collect();
    if missing.is_empty() {
        return Ok(folder);
    }
    fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    println!("fetching mail servers with apt-get into {}; nothing is installed", folder.display());
    let (client, installed) = (Client::new(&folder.join("apt"))?, installed()?);
    for (name, packages) in missing {
        let part = folder.join(format!("{name}.part"));
        if part.exists() {
            fs::remove_dir_all(&part).with_context(|| format!("remove {}", part.display()))?;
        }
        client.unpack(&closure(packages, &installed, |name| client.show(name))?, &part)?;
        merge_usr(&part)?;
        fs::rename(&part, folder.join(name)).with_context(|| format!("rename {}", part.display()))?;
    }
    Ok(folder)
}

/// Moves directories such as `lib` below `usr`, as on the host: there `lib` is a link, which a directory would hide.
fn merge_usr(root: &Path) -> Result<()> {
    for name in ["bin", "lib", "lib64", "sbin"] {
        let from = root.join(name);
        if from.is_dir() && !from.is_symlink() {
            let to = root.join("usr").join(name);
            fs::create_dir_all(&to).with_context(|| format!("make {}", to.display()))?;
            Program::new("cp").arg("-a").arg(from.join(".")).arg(&to).run()?;
            fs::remove_dir_all(&from).with_context(|| format!("remove {}", from.display()))?;
        }
    }
    Ok(())
}

/// Returns a program of Postfix's package, such as `smtp-source`, with the library path that it needs.
pub(crate) fn postfix_program(folder: &Path, name: &str) -> Result<Command> {
    if let Some(path) = program::find(name) {
        return Ok(Command::new(path));
    }
    let root = folder.join("postfix/usr");
    let path = root.join("sbin").join(name);
    ensure!(path.exists(), "Postfix's package has no {name}: {}", path.display());
    let libraries = [root.join("lib/postfix"), root.join(format!("lib/{}-linux-gnu", std::env::consts::ARCH))];
    let mut command = Command::new(path);
    command.env("LD_LIBRARY_PATH", std::env::join_paths(libraries).context("a colon in the path of the workspace")?);
    Ok(command)
}

/// A running server. Dropping it kills `unshare`, which kills the first process of the namespace, and with it all
/// others.
pub(crate) struct MailServer {
    child: OwnedChild,
}

impl MailServer {
    /// Starts a server at a port of 127.0.0.1 that sends all mail on to port `relay`. `shared` is a new directory for
    /// its queue, on the disk that is to be measured.
    pub(crate) fn start(folder: &Path, name: &str, port: u16, relay: u16, shared: &Path) -> Result<Self> {
        fs::create_dir_all(shared).with_context(|| format!("make {}", shared.display()))?;
        let scripts = workspace::root().join("tests/mail");
        let log = fs::File::create(shared.join("log")).context("create the log")?;
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child", "sh"]).arg(scripts.join("private.sh"));
        command.arg(folder.join(name)).arg(scripts.join(format!("{name}.sh"))).arg(shared);
        command.env("PORT", port.to_string()).env("RELAY", relay.to_string());
        command.stdin(Stdio::null()).stdout(log.try_clone().context("copy a descriptor")?).stderr(log);
        let mut server = Self { child: OwnedChild::spawn(&mut command).with_context(|| format!("start {name}"))? };
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = server.child.try_wait().context("look at a server")?;
            if ended.is_some() || began.elapsed() > START {
                let text = fs::read_to_string(shared.join("log")).unwrap_or_default();
                bail!("{name} does not accept connections (this needs root); it wrote:\n{text}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(server)
    }

    /// Returns its process, of which all others descend.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }
}
