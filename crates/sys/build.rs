//! Compiles the fork helper (`fork_helper/`) once and links it against each C library that this host has.
//!
//! A missing C library is not an error: the program then reports the reason that is recorded here, and skips the
//! linkage.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A linkage: its name, the linkers to try in turn, their arguments, and what to install if none works.
struct Linkage {
    name: &'static str,
    linkers: &'static [&'static str],
    arguments: &'static [&'static str],
    remedy: &'static str,
}

const LINKAGES: [Linkage; 3] = [
    Linkage { name: "dynamic", linkers: &["cc", "gcc", "clang"], arguments: &[], remedy: "install a C compiler" },
    Linkage {
        name: "static",
        linkers: &["cc", "gcc", "clang"],
        arguments: &["-static"],
        remedy: "install the C library for static linking (Debian: libc6-dev, Fedora: glibc-static)",
    },
    Linkage {
        name: "musl",
        linkers: &["musl-gcc"],
        arguments: &["-static"],
        remedy: "install musl with its compiler wrapper (Debian: musl-tools, Fedora: musl-gcc)",
    },
];

fn main() {
    println!("cargo::rerun-if-changed=fork_helper");
    println!("cargo::rerun-if-changed=src/marker.rs");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=PATH");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let archive = compile(&out);
    let mut table = String::from("const BUILT: &[(&str, std::result::Result<&[u8], &str>)] = &[\n");
    for linkage in &LINKAGES {
        let entry = match archive.as_ref().map_err(Clone::clone).and_then(|archive| link(archive, &out, linkage)) {
            Ok(program) => format!("Ok(include_bytes!({:?}))", program.display().to_string()),
            Err(reason) => format!("Err({reason:?})"),
        };
        writeln!(table, "    ({:?}, {entry}),", linkage.name).expect("writing to a string cannot fail");
    }
    table.push_str("];\n");
    fs::write(out.join("fork_helper_built.rs"), table).expect("OUT_DIR is writable");
}

/// Compiles the fork helper into a static library that contains the parts of `core` that it uses.
fn compile(out: &Path) -> Result<PathBuf, String> {
    let target = env::var("TARGET").expect("cargo sets TARGET");
    if env::var("HOST").as_ref() != Ok(&target) {
        return Err(format!(
            "landau was cross-compiled for {target}; compile it on that system to run the fork benchmark"
        ));
    }
    let archive = out.join("libfork_helper.a");
    let rustc = env::var_os("RUSTC").expect("cargo sets RUSTC");
    let arguments = ["--crate-type=staticlib", "--edition=2024", "-Copt-level=2", "-Cpanic=abort", "-Ccodegen-units=1"];
    let status = Command::new(rustc)
        .args(arguments)
        .args(["--target", &target, "--crate-name=fork_helper", "fork_helper/main.rs", "-o"])
        .arg(&archive)
        .status();
    match status {
        Ok(status) if status.success() => Ok(archive),
        other => panic!("the fork helper does not compile: {other:?}"),
    }
}

fn link(archive: &Path, out: &Path, linkage: &Linkage) -> Result<PathBuf, String> {
    let program = out.join(format!("fork-helper-{}", linkage.name));
    for linker in linkage.linkers {
        let result = Command::new(linker)
            .args(linkage.arguments)
            .args(["-O2", "-s", "-Wl,--gc-sections", "-o"])
            .arg(&program)
            .arg(archive)
            .output();
        if result.is_ok_and(|output| output.status.success()) {
            return Ok(program);
        }
    }
    Err(format!("not included in this build of landau; {}, then rebuild landau", linkage.remedy))
}
