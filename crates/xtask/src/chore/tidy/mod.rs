//! `tidy`: checks the rules of the repository that no compiler or lint checks.
//!
//! Each rule is a function from files to findings. A finding states the location and the problem.

mod crates;
mod documents;
mod hosts;
mod licences;
mod links;
mod source;
mod style;
mod vendored;

use crate::workspace;
use anyhow::Result;
use std::path::Path;

/// A text file of the tree.
pub(crate) struct File {
    /// Path relative to the root, with `/`.
    pub(crate) path: String,
    /// Its text.
    pub(crate) text: String,
}

impl File {
    /// Returns whether the file has this extension.
    pub(crate) fn is_a(&self, ending: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|own| own == ending)
    }
}

/// Locations and problems, one per text.
pub(crate) type Findings = Vec<String>;

pub(crate) fn run() -> Result<bool> {
    let mut files = Vec::new();
    for path in workspace::files()? {
        // No rule applies to binary files.
        if let Ok(text) = std::fs::read_to_string(workspace::root().join(&path)) {
            files.push(File { path, text });
        }
    }
    let metadata = workspace::metadata()?;
    let rules: [(&str, Findings); 8] = [
        ("source style", style::check(&files)),
        ("names that a crate must not use", crates::check_source(&files)),
        ("dependencies between crates", crates::check_dependencies(&metadata)),
        ("licences", licences::check(&metadata)?),
        ("docs/dependencies.md", documents::check_dependencies(&files, &metadata)),
        ("links between documents", links::check(&files)),
        ("vendored files", vendored::check(&files)?),
        ("addresses of registries", hosts::check(&files)),
    ];
    let mut is_tidy = true;
    for (name, findings) in
        rules.into_iter().chain([("table of the calibration", documents::check_calibration(&files))])
    {
        println!("{} {name}", if findings.is_empty() { "ok  " } else { "FAIL" });
        for finding in &findings {
            println!("       {finding}");
        }
        is_tidy &= findings.is_empty();
    }
    Ok(is_tidy)
}
