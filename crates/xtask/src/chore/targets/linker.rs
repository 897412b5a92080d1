//! The linker for other systems: zig, which includes the C libraries of the BSDs. rustc calls it like a C compiler.
//!
//! rustc requests libraries that zig does not include, for reasons specific to each system. Landau uses none of them.
//! If it did, the link would fail for missing symbols, so leaving them out hides no error.

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
    /// Arguments that rustc passes to a C compiler
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Libraries that rustc requests and zig lacks: the kernel's memory and statistics (FreeBSD), and backtraces.
const ABSENT: [&str; 5] = ["-lkvm", "-lmemstat", "-ldevstat", "-lprocstat", "-lexecinfo"];

/// Calls zig as the linker.
pub(crate) fn run(words: &Words) -> Result<bool> {
    let zig = Program::new(&words.zig).args(["cc", "-target", &words.target]);
    // rustc's paths are relative to its working directory, not to the workspace.
    let here = std::env::current_dir().context("find the current folder")?;
    Ok(zig.args(rewritten(&words.arguments)).within(&here).status()?.success())
}

/// Returns zig's name of a target: `x86_64-netbsd-none` for `x86_64-unknown-netbsd`.
fn zig_name(triple: &str) -> Option<String> {
    let mut parts = triple.split('-');
    let (processor, _vendor, system) = (parts.next()?, parts.next()?, parts.next()?);
    Some(format!("{processor}-{system}-none"))
}

/// Converts the arguments of rustc for zig. Also removes the target in clang's syntax, which build scripts of crates
/// with C code add: `run` has already passed zig's target.
fn rewritten(arguments: &[OsString]) -> Vec<OsString> {
    let is_target = |word: &OsString| word.to_str().is_some_and(|word| word.starts_with("--target="));
    let kept = arguments.iter().filter(|word| !is_target(word) && !ABSENT.iter().any(|absent| word == absent));
    // For rustc the unwinder is a library of GCC; for zig it is one of LLVM.
    kept.map(|word| if word == "-lgcc_s" { "-lunwind".into() } else { word.clone() }).collect()
}

/// The linker: zig, and this program, which rustc calls and which calls zig.
pub(super) struct Linker {
    folder: PathBuf,
    zig: PathBuf,
    own: PathBuf,
}

impl Linker {
    /// Uses the zig of an earlier call, otherwise fetches one with pip into the directory.
    pub(super) fn find(folder: &Path) -> Result<Self> {
        // Resolved now, because a rebuild of this program would replace the file.
        let own = std::env::current_exe().context("find this program")?;
        let home = folder.join("zig");
        let zig = home.join("ziglang/zig");
        if !zig.exists() {
            fetch(&home)?;
        }
        Ok(Self { folder: folder.to_owned(), zig, own })
    }

    /// Creates a script that rustc can call as the linker for a target. It consists of one line, which calls this
    /// program.
    pub(super) fn script(&self, target: &str) -> Result<PathBuf> {
        let name = zig_name(target).with_context(|| format!("the target {target} contains no system"))?;
        let path = self.folder.join(format!("linker-{name}"));
        let text = format!("#!/bin/sh\nexec {} link {} {name} \"$@\"\n", quoted(&self.own), quoted(&self.zig));
        write_script(&path, &text)?;
        Ok(path)
    }
}

/// Creates a substitute for a C compiler, for checks that link nothing: its output files are empty. The C code of a
/// crate is then not compiled; its Rust code is.
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

/// Fetches zig as a Python package, which is available for every host.
fn fetch(home: &Path) -> Result<()> {
    let pip = |words: &[&str]| Program::new("python3").args(["-m", "pip"]).args(words);
    if !pip(&["--version"]).output().is_ok_and(|(status, ..)| status.success()) {
        bail!(
            "linking needs zig, which pip installs, but `python3 -m pip` does not run; install it \
             (Debian: apt-get install python3-pip), or check only: cargo xtask targets --check-only"
        );
    }
    println!("fetching zig with pip into {}", home.display());
    let part = home.with_extension("part");
    if part.exists() {
        fs::remove_dir_all(&part).with_context(|| format!("remove {}", part.display()))?;
    }
    pip(&["install", "--quiet", "--disable-pip-version-check", "--target"]).arg(&part).arg("ziglang").run()?;
    fs::rename(&part, home).with_context(|| format!("rename {} to {}", part.display(), home.display()))
}

/// Quotes a path for the shell.
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
        // A file may have a name like a library's; only the whole word is a library.
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
