//! Checks that each package in the build has a licence compatible with MIT or Apache-2.0.
//!
//! `deny.toml` lists the allowed licences, for this rule and for cargo-deny.

use super::Findings;
use crate::workspace;
use anyhow::{Context, Result};
use serde_json::Value;

pub(crate) fn check(metadata: &Value) -> Result<Findings> {
    let allowed = allowed(&workspace::read("deny.toml")?).context("deny.toml has no list `allow`")?;
    let empty = Vec::new();
    let mut findings = Findings::new();
    let mut used = Vec::new();
    for package in metadata["packages"].as_array().unwrap_or(&empty) {
        let name = package["name"].as_str().unwrap_or_default();
        let Some(licence) = package["license"].as_str() else {
            findings.push(format!("{name}: states no licence"));
            continue;
        };
        used.extend(names(licence));
        if !is_allowed(licence, &allowed) {
            findings.push(format!("{name}: {licence}: not allowed by deny.toml"));
        }
    }
    let unused = allowed.iter().filter(|one| !used.contains(one));
    findings.extend(unused.map(|one| format!("deny.toml allows {one}, which nothing uses")));
    Ok(findings)
}

/// Returns the strings of `allow = [ … ]` in deny.toml.
fn allowed(text: &str) -> Option<Vec<String>> {
    let (_, rest) = text.split_once("\nallow = [")?;
    let (list, _) = rest.split_once(']')?;
    Some(list.split('"').skip(1).step_by(2).map(str::to_owned).collect())
}

/// Returns the licences that an expression names.
fn names(expression: &str) -> Vec<String> {
    tokens(expression).into_iter().filter(|token| !matches!(token.as_str(), "(" | ")" | "OR" | "AND")).collect()
}

/// Returns whether allowed licences satisfy an SPDX expression.
fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    let tokens = tokens(expression);
    let mut at = 0;
    let verdict = either(&tokens, &mut at, allowed);
    verdict && at == tokens.len()
}

/// Splits an expression into words and parentheses; an exception stays with its licence.
fn tokens(expression: &str) -> Vec<String> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut tokens: Vec<String> = Vec::new();
    let mut words = spaced.split_whitespace();
    while let Some(word) = words.next() {
        match (word, tokens.last_mut()) {
            ("WITH", Some(last)) => *last = format!("{last} WITH {}", words.next().unwrap_or_default()),
            _ => tokens.push(word.to_owned()),
        }
    }
    tokens
}

fn either(tokens: &[String], at: &mut usize, allowed: &[String]) -> bool {
    let mut verdict = both(tokens, at, allowed);
    while tokens.get(*at).is_some_and(|token| token == "OR") {
        *at += 1;
        verdict |= both(tokens, at, allowed);
    }
    verdict
}

fn both(tokens: &[String], at: &mut usize, allowed: &[String]) -> bool {
    let mut verdict = one(tokens, at, allowed);
    while tokens.get(*at).is_some_and(|token| token == "AND") {
        *at += 1;
        verdict &= one(tokens, at, allowed);
    }
    verdict
}

fn one(tokens: &[String], at: &mut usize, allowed: &[String]) -> bool {
    let Some(token) = tokens.get(*at) else { return false };
    *at += 1;
    if token != "(" {
        return allowed.contains(token);
    }
    let verdict = either(tokens, at, allowed);
    *at += 1;
    verdict
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn the_list_is_read() {
        let text = "[licenses]\n# why\nallow = [\n    \"MIT\",\n    \"Apache-2.0\",\n]\nother = [\"GPL-3.0\"]\n";
        assert_eq!(allowed(text), Some(vec!["MIT".to_owned(), "Apache-2.0".to_owned()]));
    }

    #[test]
    fn expressions_are_understood() {
        let allowed = ["MIT".to_owned(), "Unicode-3.0".to_owned(), "Apache-2.0 WITH LLVM-exception".to_owned()];
        for (expression, verdict) in [
            ("MIT OR Apache-2.0", true),
            ("Apache-2.0/MIT", true),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
            ("Apache-2.0 WITH LLVM-exception OR GPL-2.0", true),
            ("MIT AND GPL-3.0-only", false),
            ("GPL-3.0-only", false),
            ("(GPL-2.0 OR LGPL-2.1) AND MIT", false),
            ("", false),
        ] {
            assert_eq!(is_allowed(expression, &allowed), verdict, "{expression}");
        }
    }
}
