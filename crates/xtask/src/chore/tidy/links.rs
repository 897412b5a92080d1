//! Checks that links between documents lead to existing files and headings.

use super::{File, Findings};
use crate::workspace;
use std::path::{Component, Path, PathBuf};

pub(crate) fn check(files: &[File]) -> Findings {
    let mut findings = Findings::new();
    for file in files.iter().filter(|file| file.is_a("md") && !file.path.contains("/vendor/")) {
        for (line, target) in targets(&file.text) {
            if let Some(reason) = broken(files, &file.path, &target) {
                findings.push(format!("{}:{line}: {target}: {reason}", file.path));
            }
        }
    }
    findings
}

/// Returns the relative links of a document outside code, with their lines.
fn targets(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut is_code = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        if is_code {
            continue;
        }
        // Every second part between backquotes is code.
        for piece in line.split('`').step_by(2).flat_map(|prose| prose.split("](").skip(1)) {
            let target = piece.split([')', ' ']).next().unwrap_or_default();
            if !target.contains("://") && !target.starts_with("mailto:") {
                found.push((index + 1, target.to_owned()));
            }
        }
    }
    found
}

fn broken(files: &[File], from: &str, target: &str) -> Option<String> {
    let (path, heading) = target.split_once('#').unwrap_or((target, ""));
    let folder = Path::new(from).parent().unwrap_or(Path::new(""));
    let place = if path.is_empty() { PathBuf::from(from) } else { plain(&folder.join(path)) };
    if !workspace::root().join(&place).exists() {
        return Some("no such file".to_owned());
    }
    if heading.is_empty() {
        return None;
    }
    let document = files.iter().find(|file| Path::new(&file.path) == place)?;
    let has_heading = headings(&document.text).any(|one| one == heading);
    (!has_heading).then(|| "no such heading".to_owned())
}

/// Returns a path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

/// Returns the anchors of a document's headings.
fn headings(text: &str) -> impl Iterator<Item = String> + '_ {
    text.lines().filter(|line| line.starts_with('#')).map(|line| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        title
            .chars()
            .filter(|&c| c.is_alphanumeric() || c == '-' || c == ' ' || c == '_')
            .map(|c| if c == ' ' { '-' } else { c })
            .collect()
    })
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn links_are_found_outside_code() {
        let text =
            "See [a](docs/a.md#x \"title\") and ![b](b.svg), `[c](c.md)`, [d](https://d).\n```\n[e](e.md)\n```\n";
        assert_eq!(targets(text), [(1, "docs/a.md#x".to_owned()), (1, "b.svg".to_owned())]);
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let text = "# What it is, and why\n";
        let files = [File { path: "Cargo.toml".to_owned(), text: text.to_owned() }];
        assert_eq!(broken(&files, "README.md", "Cargo.toml#what-it-is-and-why"), None);
        assert!(broken(&files, "README.md", "Cargo.toml#gone").is_some());
        assert!(broken(&files, "docs/x.md", "../no-such-file.md").is_some());
        assert_eq!(broken(&files, "docs/x.md", "../Cargo.toml"), None);
    }
}
