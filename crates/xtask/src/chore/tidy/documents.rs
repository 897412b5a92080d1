//! Checks statements of the documents: the list of dependencies and the table of the calibration.

use super::{File, Findings};
use crate::chore::calibrate;
use serde_json::Value;
use std::collections::BTreeSet;

const DEPENDENCIES: &str = "docs/dependencies.md";
const BROWSER: &str = "tests/browser/package.json";
const METHODOLOGY: &str = "METHODOLOGY.md";

/// Checks that docs/dependencies.md has a line for each direct dependency, and no other line.
pub(crate) fn check_dependencies(files: &[File], metadata: &Value) -> Findings {
    let Some(document) = files.iter().find(|file| file.path == DEPENDENCIES) else {
        return vec![format!("{DEPENDENCIES} is missing")];
    };
    let stated = stated(&document.text);
    let mut direct = direct(metadata);
    direct.extend(files.iter().filter(|file| file.path == BROWSER).flat_map(|file| of_browser(&file.text)));
    direct.extend(files.iter().filter_map(|file| vendored(&file.path)));
    let missing = direct.difference(&stated).map(|name| format!("{DEPENDENCIES} has no line for `{name}`"));
    let stale = stated.difference(&direct).map(|name| format!("{DEPENDENCIES}: nothing depends on `{name}`"));
    missing.chain(stale).collect()
}

/// Returns the direct dependencies of the workspace.
fn direct(metadata: &Value) -> BTreeSet<String> {
    let array = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let own = array(&metadata["packages"]).into_iter().filter(|package| package["source"].is_null());
    let named = own.flat_map(|package| array(&package["dependencies"])).filter(|one| one["path"].is_null());
    named.filter_map(|one| one["name"].as_str().map(str::to_owned)).collect()
}

/// Returns the dependencies of the browser tests.
fn of_browser(text: &str) -> Vec<String> {
    let package: Value = serde_json::from_str(text).unwrap_or_default();
    let of = |key: &str| package[key].as_object().cloned().unwrap_or_default();
    of("dependencies").into_iter().chain(of("devDependencies")).map(|(name, _)| name).collect()
}

/// Returns the name of the vendored package that a file belongs to.
fn vendored(path: &str) -> Option<String> {
    let (_, rest) = path.split_once("/vendor/")?;
    rest.split_once('/').map(|(name, _)| name.to_owned())
}

/// Returns the names in the first cells of the tables: `` | `serde` | … ``.
fn stated(text: &str) -> BTreeSet<String> {
    let name = |line: &str| line.strip_prefix("| `")?.split_once('`').map(|(name, _)| name.to_owned());
    text.lines().filter_map(name).collect()
}

/// Checks that the table of the calibration contains the command that generated it.
pub(crate) fn check_calibration(files: &[File]) -> Findings {
    let Some(document) = files.iter().find(|file| file.path == METHODOLOGY) else {
        return vec![format!("{METHODOLOGY} is missing")];
    };
    match calibrate::table_in(&document.text) {
        None => vec![format!("{METHODOLOGY} has no calibration table; run `cargo xtask calibrate --write`")],
        Some(table) if table.contains(&calibrate::caption()) => Vec::new(),
        Some(_) => vec![format!(
            "{METHODOLOGY}: the calibration table is not the one of `{}`; run it with --write",
            calibrate::command()
        )],
    }
}

#[cfg(test)]
mod unit {
    use super::*;
    use serde_json::json;

    #[test]
    fn missing_and_stale_lines_are_found() {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let metadata = json!({"packages": [{"name": "a", "source": null, "dependencies": [
            {"name": "serde"}, {"name": "landau-sys", "path": "/x"}, {"name": "clap"}]}]});
        let files = [
            file(DEPENDENCIES, "| name | why |\n|---|---|\n| `serde` | x |\n| `uplot` | y |\n| `gone` | z |\n"),
            file("crates/report/vendor/uplot/LICENSE", ""),
        ];
        assert_eq!(
            check_dependencies(&files, &metadata),
            [format!("{DEPENDENCIES} has no line for `clap`"), format!("{DEPENDENCIES}: nothing depends on `gone`")]
        );
    }
}
