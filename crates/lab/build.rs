//! Builds the plugin for qemu (see `plugin/lib.rs`) once for each version of qemu's plugin interface.
//!
//! If this fails, only `landau explain` is missing; its error message gives the reason.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The plugin's variants: name and compiler arguments.
const VARIANTS: [(&str, &[&str]); 2] = [("1", &[]), ("3", &["--cfg=per_processor"])];

fn main() {
    println!("cargo::rerun-if-changed=plugin");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=PATH");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let mut table = String::from("const BUILT: &[(&str, std::result::Result<&[u8], &str>)] = &[\n");
    for (name, arguments) in VARIANTS {
        let entry = match compile(&out, name, arguments) {
            Ok(plugin) => format!("Ok(include_bytes!({:?}))", plugin.display().to_string()),
            Err(reason) => format!("Err({reason:?})"),
        };
        writeln!(table, "    ({name:?}, {entry}),").expect("a string takes everything");
    }
    table.push_str("];\n");
    fs::write(out.join("plugin_built.rs"), table).expect("OUT_DIR is writable");
}

fn compile(out: &Path, name: &str, arguments: &[&str]) -> Result<PathBuf, String> {
    let target = env::var("TARGET").expect("cargo sets TARGET");
    if env::var("HOST").as_ref() != Ok(&target) {
        return Err(format!("this landau was cross-built for {target}; build it on the target"));
    }
    if !target.contains("linux") {
        return Err(format!("the plugin is written for Linux, not for {target}"));
    }
    let plugin = out.join(format!("landau-plugin-{name}.so"));
    let rustc = env::var_os("RUSTC").expect("cargo sets RUSTC");
    let output = Command::new(rustc)
        .args(["--crate-type=cdylib", "--edition=2024", "-Copt-level=3", "-Cpanic=abort", "-Ccodegen-units=1"])
        .args(["-Clto=fat", "-Cstrip=symbols", "--check-cfg=cfg(per_processor)"])
        .args(arguments)
        .args(["--target", &target, "--crate-name=landau_plugin", "plugin/lib.rs", "-o"])
        .arg(&plugin)
        .output();
    match output {
        Ok(output) if output.status.success() => Ok(plugin),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            // An error in the plugin itself must not look like a missing linker: it fails the build.
            assert!(said.contains("linker") || said.contains("linking"), "the plugin does not compile:\n{said}");
            let line = said.lines().find(|line| line.starts_with("error")).unwrap_or("no linker").to_owned();
            Err(format!("it was built without the plugin ({line}); install a C compiler, then rebuild landau"))
        }
        Err(error) => Err(format!("it was built without the plugin: cannot start rustc: {error}")),
    }
}
