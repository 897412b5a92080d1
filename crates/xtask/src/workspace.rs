//! The workspace: its root, files, metadata and programs.

use crate::program::Program;
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Returns the directory of the workspace's `Cargo.toml`.
pub(crate) fn root() -> PathBuf {
    let own = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    own.ancestors().nth(2).map_or(own.clone(), Path::to_owned)
}

/// Returns the files that git tracks or would track, as sorted paths relative to the root.
pub(crate) fn files() -> Result<Vec<String>> {
    let listing = Program::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .text()
        .context("list the tree's files")?;
    let mut files: Vec<String> =
        listing.split('\0').filter(|path| !path.is_empty() && root().join(path).is_file()).map(str::to_owned).collect();
    files.sort();
    files.dedup();
    Ok(files)
}

/// Returns the text of a file, given its path relative to the root.
pub(crate) fn read(path: &str) -> Result<String> {
    std::fs::read_to_string(root().join(path)).with_context(|| format!("read {path}"))
}

/// Returns the output of `cargo metadata` for the workspace and all dependencies.
pub(crate) fn metadata() -> Result<Value> {
    let text = Program::cargo().args(["metadata", "--format-version", "1", "--locked"]).text()?;
    serde_json::from_str(&text).context("parse what cargo metadata printed")
}

/// Builds the program as users build it, and returns its path. If `LANDAU_PROGRAM` names a program, returns that.
pub(crate) fn landau() -> Result<PathBuf> {
    if let Some(program) = std::env::var_os("LANDAU_PROGRAM") {
        return Ok(program.into());
    }
    Program::cargo().args(["build", "--release", "--quiet", "--package", "landau"]).run().context("build landau")?;
    Ok(target()?.join("release/landau"))
}

/// Builds the program and every test in the profile `ci`, and returns the path of the program.
///
/// Both are built by one command: built separately, the program would enable different features of its dependencies,
/// which would then be compiled twice.
pub(crate) fn tested_landau() -> Result<PathBuf> {
    Program::cargo().args(["test", "--workspace", "--profile", "ci", "--no-run", "--quiet"]).run()?;
    Ok(target()?.join("ci/landau"))
}

/// Returns the directory that cargo builds into.
pub(crate) fn target() -> Result<PathBuf> {
    let text = Program::cargo().args(["metadata", "--format-version", "1", "--no-deps"]).text()?;
    let metadata: Value = serde_json::from_str(&text).context("parse what cargo metadata printed")?;
    Ok(PathBuf::from(metadata["target_directory"].as_str().context("cargo metadata names no target directory")?))
}
