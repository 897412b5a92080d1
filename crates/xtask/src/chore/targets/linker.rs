//! The linker for other systems: zig, which carries the C libraries of the BSDs, called as rustc calls a C compiler.
//!
//! rustc asks for libraries that zig does not carry. Each has a system's own reason to be asked for and none is used
//! by Landau; if one were, its symbols would be missing and the link would fail, so leaving them out hides nothing.

use crate::program::Program;
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Arguments of `link`, the word with which rustc calls this program back.
#[derive(Debug, clap::Args)]
pub(crate) struct Words {
    /// The zig to call
    zig: PathBuf,
    /// The target, as zig names it
    target: String,
    /// What rustc says to a C compiler
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Libraries that rustc asks for and zig lacks: the kernel's memory and statistics (FreeBSD), and backtraces.
const ABSENT: [&str; 5] = ["-lkvm", "-lmemstat", "-ldevstat", "-lprocstat", "-lexecinfo"];

/// Calls zig in the place of the linker.
pub(crate) fn run(words: &Words) -> Result<bool> {
    let zig = Program::new(&words.zig).args(["cc", "-target", &words.target]);
    // rustc says paths relative to its own folder, not to the workspace.
    let here = std::env::current_dir().context("find the current folder")?;
    Ok(zig.args(rewritten(&words.arguments)).within(&here).status()?.success())
}

/// A target as zig names it: `x86_64-unknown-netbsd` is `x86_64-netbsd-none`.
fn zig_name(triple: &str) -> Option<String> {
    let mut parts = triple.split('-');
    let (processor, _vendor, system) = (parts.next()?, parts.next()?, parts.next()?);
    Some(format!("{processor}-{system}-none"))
}

/// What zig understands of what rustc says, and of what the build script of a crate with C in it says, which names the
/// target in clang's words: zig was told already.
fn rewritten(arguments: &[OsString]) -> Vec<OsString> {
    let is_target = |word: &OsString| word.to_str().is_some_and(|word| word.starts_with("--target="));
    let kept = arguments.iter().filter(|word| !is_target(word) && !ABSENT.iter().any(|absent| word == absent));
    // The unwinder is a library of GCC's for rustc and of LLVM's for zig.
    kept.map(|word| if word == "-lgcc_s" { "-lunwind".into() } else { word.clone() }).collect()
}

/// What links: zig, and this program, which stands between it and rustc.
pub(super) struct Linker {
    folder: PathBuf,
    zig: PathBuf,
    own: PathBuf,
}

impl Linker {
    /// With the zig of an earlier call, else with one fetched by pip into the folder.
    pub(super) fn find(folder: &Path) -> Result<Self> {
        // Resolved now, because a rebuild of this program in the meantime replaces the file.
        let own = std::env::current_exe().context("find this program")?;
        let home = folder.join("zig");
        let zig = home.join("ziglang/zig");
        if !zig.exists() {
            fetch(&home)?;
        }
        Ok(Self { folder: folder.to_owned(), zig, own })
    }

    /// A program that rustc can call as a linker for a target: one line that calls this one.
    pub(super) fn script(&self, target: &str) -> Result<PathBuf> {
        let name = zig_name(target).with_context(|| format!("{target} names no system"))?;
        let path = self.folder.join(format!("linker-{name}"));
        let text = format!("#!/bin/sh\nexec {} link {} {name} \"$@\"\n", quoted(&self.own), quoted(&self.zig));
        write_script(&path, &text)?;
        Ok(path)
    }
}

/// A program that stands in for a C compiler where nothing is linked: whatever it is told to compile comes out empty.
/// What a crate has in C is not looked at there; what it has in Rust is.
pub(super) fn stand_in(folder: &Path) -> Result<PathBuf> {
    let path = folder.join("no-c-compiler");
    let text = "#!/bin/sh\nwhile [ $# -gt 0 ]; do\n  if [ \"$1\" = -o ]; then : > \"$2\"; fi\n  shift\ndone\n";
    write_script(&path, text)?;
    Ok(path)
}

fn write_script(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("write {}", path.display()))?;
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(path, mode).with_context(|| format!("make {} executable", path.display()))
}

/// Zig as a package of Python's, which brings it for every host.
fn fetch(home: &Path) -> Result<()> {
    let pip = |words: &[&str]| Program::new("python3").args(["-m", "pip"]).args(words);
    if !pip(&["--version"]).output().is_ok_and(|(status, ..)| status.success()) {
        bail!(
            "linking needs zig, which comes by pip, and there is no `python3 -m pip`; install it \
             (Debian: apt-get install python3-pip), or check only: cargo xtask targets --check-only"
        );
    }
    println!("fetching zig by pip into {}", home.display());
    let part = home.with_extension("part");
    if part.exists() {
        fs::remove_dir_all(&part).with_context(|| format!("remove {}", part.display()))?;
    }
    pip(&["install", "--quiet", "--disable-pip-version-check", "--target"]).arg(&part).arg("ziglang").run()?;
    fs::rename(&part, home).with_context(|| format!("rename {} to {}", part.display(), home.display()))
}

/// A path as the shell reads it.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn libraries_that_zig_lacks_are_left_out_and_the_unwinder_has_its_other_name() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let said = words("-m64 a.o -Wl,--as-needed -lexecinfo -lpthread -lgcc_s -lkvm -lmemstat -lc -o landau");
        assert_eq!(rewritten(&said), words("-m64 a.o -Wl,--as-needed -lpthread -lunwind -lc -o landau"));
        assert_eq!(rewritten(&words("--target=x86_64-unknown-netbsd -c a.c -o a.o")), words("-c a.c -o a.o"));
        // A file may be called like a library; only the whole word is one.
        let said = words("-L -lkvm.d /tmp/-lexecinfo libkvm.a");
        assert_eq!(rewritten(&said), said);
    }

    #[test]
    fn the_stand_in_leaves_an_empty_object() {
        let folder = tempfile::tempdir().unwrap();
        let object = folder.path().join("a.o");
        let status = std::process::Command::new(stand_in(folder.path()).unwrap())
            .args(["-O2", "-c", "missing.c", "-o"])
            .arg(&object)
            .status();
        assert!(status.unwrap().success());
        assert_eq!(fs::read(object).unwrap(), b"");
    }

    #[test]
    fn zig_has_names_of_its_own() {
        assert_eq!(zig_name("x86_64-unknown-freebsd").as_deref(), Some("x86_64-freebsd-none"));
        assert_eq!(zig_name("freebsd"), None);
    }

    #[test]
    fn a_path_with_a_quote_stays_one_word() {
        assert_eq!(quoted(Path::new("/a b/it's")), r"'/a b/it'\''s'");
    }
}
