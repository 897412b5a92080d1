//! Checks that vendored files have the names and checksums that their README states.

use super::{File, Findings};
use crate::workspace;
use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;

pub(crate) fn check(files: &[File]) -> Result<Findings> {
    let mut findings = Findings::new();
    let readmes = files.iter().filter(|file| file.path.contains("/vendor/") && file.path.ends_with("/README.md"));
    for readme in readmes {
        let folder = readme.path.trim_end_matches("README.md");
        let stated = stated(&readme.text);
        for (name, sum) in &stated {
            let path = workspace::root().join(folder).join(name);
            let bytes = std::fs::read(&path).with_context(|| format!("read {}", path.display()))?;
            let found = checksum(&bytes);
            if found != *sum {
                findings.push(format!("{folder}{name}: its checksum is {found}, its README states {sum}"));
            }
        }
        let others = files.iter().filter_map(|file| file.path.strip_prefix(folder)).filter(|name| *name != "README.md");
        let unstated = others.filter(|name| !stated.iter().any(|(known, _)| known == name));
        findings.extend(unstated.map(|name| format!("{folder}{name}: its README states no checksum")));
    }
    Ok(findings)
}

/// Returns the rows `| file | sha256 |`.
fn stated(text: &str) -> Vec<(String, String)> {
    let row = |line: &str| {
        let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
        let (name, sum) = (cells.next()?, cells.next()?);
        (sum.len() == 64).then(|| (name.trim_matches('`').to_owned(), sum.trim_matches('`').to_owned()))
    };
    text.lines().filter_map(row).collect()
}

fn checksum(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn the_table_is_read_and_the_sum_is_sha256() {
        let sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(checksum(b"abc"), sum);
        let text = format!("| file | sha256 |\n|---|---|\n| a.js | {sum} |\n");
        assert_eq!(stated(&text), [("a.js".to_owned(), sum.to_owned())]);
    }
}
