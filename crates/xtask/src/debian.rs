//! Debian packages, used without installing them: apt-get fetches them from the host's sources, and they are unpacked
//! to a private directory.
//!
//! The client keeps a separate state below the directory. It therefore needs no privileges, finds the newest versions,
//! and does not change the host.

use crate::program::{self, Program};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A package, as described by the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// The version in Debian's format.
    pub(crate) version: String,
    /// The dependencies: groups of alternative names, one of which is sufficient.
    depends: Vec<Vec<String>>,
}

impl Package {
    /// Parses the paragraph that `apt-cache show` prints.
    fn parse(text: &str) -> Option<Self> {
        let field = |name: &str| {
            let mut lines = text.lines().take_while(|line| !line.is_empty());
            lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
        };
        let group = |group: &str| group.split('|').filter_map(bare).collect();
        Some(Self {
            name: field("Package")?.to_owned(),
            version: field("Version")?.to_owned(),
            depends: field("Depends").map_or_else(Vec::new, |line| line.split(',').map(group).collect()),
        })
    }

    /// Returns the major and minor numbers of the upstream version.
    pub(crate) fn release(&self) -> Option<(u32, u32)> {
        let mut numbers = self.version.split(['.', '+', '-', '~']).map(str::parse);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    }
}

/// Returns the name of a dependency without its version and architecture.
fn bare(dependency: &str) -> Option<String> {
    let name = dependency.split([' ', '(', ':', '[']).find(|word| !word.is_empty())?;
    Some(name.to_owned())
}

/// Debian's package client with a separate state.
pub(crate) struct Client {
    folder: PathBuf,
}

impl Client {
    /// Creates a client that keeps its package lists in the directory, and updates the lists. Fails if the host is not
    /// a Debian system.
    pub(crate) fn new(folder: &Path) -> Result<Self> {
        if let Some(name) = ["apt-get", "apt-cache", "dpkg-deb"].iter().find(|name| program::find(name).is_none()) {
            bail!("`{name}` is missing: this chore needs a Debian system");
        }
        for part in ["state/lists/partial", "cache/archives/partial", "packages"] {
            fs::create_dir_all(folder.join(part)).with_context(|| format!("make {}", folder.join(part).display()))?;
        }
        let client = Self { folder: folder.to_owned() };
        client.apt("apt-get").args(["--quiet=2", "update"]).run().context("update the package lists")?;
        Ok(client)
    }

    fn apt(&self, program: &str) -> Program {
        let option = |name: &str, part: &str| format!("{name}={}", self.folder.join(part).display());
        Program::new(program).args(["-o", &option("Dir::State", "state"), "-o", &option("Dir::Cache", "cache")]).args([
            "-o",
            "Dir::State::status=/var/lib/dpkg/status",
            "-o",
            "APT::Sandbox::User=",
        ])
    }

    /// Returns the description of a package; `None` if there is none with this name.
    pub(crate) fn show(&self, name: &str) -> Option<Package> {
        let text = self.apt("apt-cache").args(["show", "--no-all-versions", name]).text().ok()?;
        Package::parse(&text).filter(|package| package.name == name)
    }

    /// Fetches packages and unpacks all of them into the same directory.
    pub(crate) fn unpack(&self, names: &BTreeSet<String>, into: &Path) -> Result<()> {
        let packages = self.folder.join("packages");
        // An earlier call may have failed between fetching and unpacking.
        remove_files(&packages)?;
        let download = self.apt("apt-get").args(["--quiet=2", "download"]).args(names);
        download.within(&packages).run().context("fetch Debian packages")?;
        for entry in fs::read_dir(&packages).with_context(|| format!("list {}", packages.display()))? {
            let path = entry?.path();
            Program::new("dpkg-deb").arg("-x").arg(&path).arg(into).run()?;
            fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))?;
        }
        Ok(())
    }
}

/// Removes the files in a directory.
fn remove_files(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))? {
        let path = entry.with_context(|| format!("list {}", folder.display()))?.path();
        fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))?;
    }
    Ok(())
}

/// Returns the packages that are installed on the host.
pub(crate) fn installed() -> Result<BTreeSet<String>> {
    let text = Program::new("dpkg-query").args(["-W", "-f", "${db:Status-Status} ${Package}\\n"]).text()?;
    Ok(text.lines().filter_map(|line| line.strip_prefix("installed ")).map(str::to_owned).collect())
}

/// Returns the packages with their run-time dependencies: parts of the toolchain in any case, and libraries that the
/// host lacks. Further build dependencies (a C compiler, headers) were already needed to build this program.
pub(crate) fn closure(
    roots: &[&str],
    installed: &BTreeSet<String>,
    show: impl Fn(&str) -> Option<Package>,
) -> Result<BTreeSet<String>> {
    let mut open: Vec<String> = roots.iter().map(|&name| name.to_owned()).collect();
    let mut taken = BTreeSet::new();
    while let Some(name) = open.pop() {
        if taken.contains(&name) {
            continue;
        }
        let package = show(&name).with_context(|| format!("Debian has no package {name} here"))?;
        for group in &package.depends {
            let Some(first) = group.first() else { continue };
            let is_part = first.contains("rust");
            let is_library = first.starts_with("lib") && !first.ends_with("-dev");
            let is_there = group.iter().any(|name| installed.contains(name));
            if is_part || (is_library && !is_there) {
                open.push(first.clone());
            }
        }
        taken.insert(name);
    }
    Ok(taken)
}

#[cfg(test)]
mod unit {
    use super::*;

    const CARGO: &str = "Package: cargo-web\nSource: rustc-web\nVersion: 1.96.0+dfsg1-1~deb12u2\n\
        Depends: libc6 (>= 2.34), libgit2-1.5:any (>= 1.5.0), rustc-web (= 1.96), gcc | clang | c-compiler\n\
        Description: x\n\nPackage: other\nVersion: 2.0\n";

    /// Guards against packages of one server that are unpacked into the directory of the next.
    #[test]
    fn what_an_earlier_call_has_fetched_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["postfix_3.deb", "partial.deb"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        remove_files(folder.path()).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(remove_files(&folder.path().join("missing")).is_err());
    }

    #[test]
    fn a_paragraph_is_read_and_the_next_is_not() {
        let package = Package::parse(CARGO).unwrap();
        assert_eq!((package.name.as_str(), package.release()), ("cargo-web", Some((1, 96))));
        let groups: Vec<String> = package.depends.iter().map(|group| group.join("|")).collect();
        assert_eq!(groups, ["libc6", "libgit2-1.5", "rustc-web", "gcc|clang|c-compiler"]);
        assert_eq!(Package::parse("N: Unable to locate package"), None);
    }

    #[test]
    fn missing_libraries_are_followed_and_what_the_host_has_is_not() {
        let show = |name: &str| {
            let depends = match name {
                "cargo-web" => return Package::parse(CARGO),
                "rustc-web" => "libstd-rust-1.96, gcc, libc-dev",
                "libstd-rust-1.96" => "libllvm22, libc6",
                "libgit2-1.5" => "libssh2-1 | libssh2-1t64, libpcre2",
                "libllvm22" | "libpcre2" => "libc6",
                _ => return None,
            };
            Package::parse(&format!("Package: {name}\nVersion: 1\nDepends: {depends}\n"))
        };
        let installed = ["libc6", "libssh2-1t64", "rustc-web"].map(str::to_owned).into();
        let names = closure(&["cargo-web"], &installed, show).unwrap();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(names, ["cargo-web", "libgit2-1.5", "libllvm22", "libpcre2", "libstd-rust-1.96", "rustc-web"]);
        let error = closure(&["rust-web-src"], &installed, show).unwrap_err();
        assert!(error.to_string().contains("rust-web-src"), "{error}");
    }
}
