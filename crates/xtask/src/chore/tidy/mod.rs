//! `tidy`: checks what the documents promise about the tree. A promise that nothing checks is a wish.
//!
//! Each rule is a function from files to findings; a finding names its place and says what is wrong. Rules about
//! source text look at it with comments and literals blanked out ([`source`]), so that a word in a sentence is no
//! offence.

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

/// A file of the tree.
pub(crate) struct File {
    /// Below the root, with `/`.
    pub(crate) path: String,
    /// Its text; files that are not text are not here.
    pub(crate) text: String,
}

impl File {
    /// Whether its name ends so.
    pub(crate) fn is_a(&self, ending: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|own| own == ending)
    }
}

/// What is wrong, and where.
pub(crate) type Findings = Vec<String>;

pub(crate) fn run() -> Result<bool> {
    let mut files = Vec::new();
    for path in workspace::files()? {
        // What is no text (a picture, a record that is packed) has no rules here.
        if let Ok(text) = std::fs::read_to_string(workspace::root().join(&path)) {
            files.push(File { path, text });
        }
    }
    let metadata = workspace::metadata()?;
    let rules: [(&str, Findings); 8] = [
        ("source style", style::check(&files)),
        ("what a crate may not do", crates::check_source(&files)),
        ("crates depend downwards", crates::check_dependencies(&metadata)),
        ("licences", licences::check(&metadata)?),
        ("every dependency has its reason", documents::check_dependencies(&files, &metadata)),
        ("links between documents", links::check(&files)),
        ("vendored files", vendored::check(&files)?),
        ("no registry's address", hosts::check(&files)),
    ];
    let mut is_tidy = true;
    for (name, findings) in rules.into_iter().chain([("the calibration's table", documents::check_calibration(&files))])
    {
        println!("{} {name}", if findings.is_empty() { "ok  " } else { "FAIL" });
        for finding in &findings {
            println!("       {finding}");
        }
        is_tidy &= findings.is_empty();
    }
    Ok(is_tidy)
}
