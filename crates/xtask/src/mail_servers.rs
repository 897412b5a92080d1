//! Postfix, Exim and OpenSMTPD from Debian's packages, for tests of `landau mail` and comparisons with it.
//!
//! Their packages are unpacked into `target/mail-servers`, one directory each. Nothing is installed.

#[path = "../../../tests/mail/server.rs"]
mod server;

pub(crate) use server::{MailServer, refusal};

use crate::debian::{Client, closure, installed};
use crate::program::{self, Program};
use crate::workspace;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The servers with their packages.
pub(crate) const SERVERS: [(&str, &[&str]); 3] =
    [("postfix", &["postfix"]), ("exim", &["exim4-daemon-light", "exim4-base"]), ("opensmtpd", &["opensmtpd"])];

/// Returns the directory that contains a directory for each server. Fetches missing servers with apt-get, and all of
/// them if the host has been upgraded: a server uses the host's libraries, and includes only those that the host
/// lacked.
pub(crate) fn prepare() -> Result<PathBuf> {
    let folder = workspace::target()?.join("mail-servers");
    let (stamp, host) = (folder.join("host"), host()?);
    let is_stale = fs::read_to_string(&stamp).ok().as_ref() != Some(&host);
    let missing: Vec<_> = SERVERS.iter().filter(|(name, _)| is_stale || !folder.join(name).exists()).collect();
    if missing.is_empty() {
        return Ok(folder);
    }
    fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    println!("fetching mail servers with apt-get into {}; nothing is installed", folder.display());
    let (client, installed) = (Client::new(&folder.join("apt"))?, installed()?);
    for (name, packages) in missing {
        let (part, whole) = (folder.join(format!("{name}.part")), folder.join(name));
        remove(&part)?;
        client.unpack(&closure(packages, &installed, |name| client.show(name))?, &part)?;
        merge_usr(&part)?;
        remove(&whole)?;
        fs::rename(&part, &whole).with_context(|| format!("rename {}", part.display()))?;
    }
    fs::write(&stamp, host).with_context(|| format!("write {}", stamp.display()))?;
    Ok(folder)
}

/// Returns what the servers depend on: the release of the host, and its C library.
fn host() -> Result<String> {
    let release = fs::read_to_string("/etc/os-release").context("read /etc/os-release")?;
    let library = Program::new("dpkg-query").args(["-W", "-f", "${Package} ${Version}\\n", "libc6"]).text()?;
    Ok(release + &library)
}

fn remove(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("remove {}", folder.display()))?;
    }
    Ok(())
}

/// Moves directories such as `lib` below `usr`, as on the host. There `lib` is a symbolic link, which a directory would
/// hide.
fn merge_usr(root: &Path) -> Result<()> {
    for name in ["bin", "lib", "lib64", "sbin"] {
        let from = root.join(name);
        if from.is_dir() && !from.is_symlink() {
            let to = root.join("usr").join(name);
            fs::create_dir_all(&to).with_context(|| format!("make {}", to.display()))?;
            Program::new("cp").arg("-a").arg(from.join(".")).arg(&to).run()?;
            remove(&from)?;
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
