//! `test`: runs every test there is, cargo's and the browser's, and counts them.
//!
//! Everything is built once, in the release profile: what is tested is what is measured and shipped, and the
//! program that the page is made with is the one that cargo's integration tests have just built. The last line is
//! `N passed, N failed`; the exit status is 1 if a test failed or if nothing ran.

use crate::program::{self, Program};
use crate::tally::Tally;
use crate::workspace;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// A Debian package and what shows that it is there.
struct Need {
    package: &'static str,
    what_for: &'static str,
    is_there: fn() -> bool,
}

const NEEDS: [Need; 10] = [
    Need { package: "gcc", what_for: "linking, and the fork helper", is_there: || program::find("cc").is_some() },
    Need { package: "libc6-dev", what_for: "the fork helper in static glibc", is_there: has_static_libc },
    Need {
        package: "musl-tools",
        what_for: "the fork helper in musl",
        is_there: || program::find("musl-gcc").is_some(),
    },
    Need { package: "jq", what_for: "the queries of docs/record.md", is_there: || program::find("jq").is_some() },
    Need {
        package: "qemu-system-x86",
        what_for: "the lab's kernels",
        is_there: || program::find("qemu-system-x86_64").is_some(),
    },
    Need { package: "cpio", what_for: "reading the lab's initramfs", is_there: || program::find("cpio").is_some() },
    Need {
        package: "strace",
        what_for: "counting the event library's calls",
        is_there: || program::find("strace").is_some(),
    },
    Need { package: "nodejs", what_for: "browser tests", is_there: || program::find("node").is_some() },
    Need { package: "npm", what_for: "browser tests", is_there: || program::find("npm").is_some() },
    Need { package: "chromium", what_for: "browser tests", is_there: || program::find("chromium").is_some() },
];

pub(crate) fn run() -> Result<bool> {
    let tally = everything()?;
    println!("{tally}");
    Ok(tally.is_good())
}

/// All tests, counted.
pub(crate) fn everything() -> Result<Tally> {
    install_needs();
    let mut tally = of_cargo()?;
    tally += of_browser()?;
    if tally.skipped > 0 {
        println!("{} tests were skipped", tally.skipped);
    }
    Ok(tally)
}

fn has_static_libc() -> bool {
    let folder = format!("/usr/lib/{}-linux-gnu/libc.a", std::env::consts::ARCH);
    Path::new(&folder).exists()
}

/// Installs what is missing where that is possible, else names it and goes on: tests that need it are skipped.
fn install_needs() {
    let missing: Vec<&Need> = NEEDS.iter().filter(|need| !(need.is_there)()).collect();
    if missing.is_empty() {
        return;
    }
    let packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
    let is_root = Program::new("id").args(["-u"]).text().is_ok_and(|id| id.trim() == "0");
    if is_root && program::find("apt-get").is_some() {
        println!("installing {}", packages.join(" "));
        let apt = |words: &[&str]| Program::new("apt-get").args(words).env("DEBIAN_FRONTEND", "noninteractive");
        let install = apt(&["install", "-y", "-qq", "--no-install-recommends"]).args(&packages);
        if let Err(error) = apt(&["update", "-qq"]).run().and_then(|()| install.run()) {
            println!("{error:#}; going on with what is there");
        }
    }
    for need in missing.iter().filter(|need| !(need.is_there)()) {
        println!("missing: {} ({}); install it with: apt-get install {0}", need.package, need.what_for);
    }
}

/// Unit, integration and documentation tests of the workspace.
fn of_cargo() -> Result<Tally> {
    let cargo = Program::cargo().args(["test", "--workspace", "--release", "--no-fail-fast"]);
    let (status, lines) = cargo.watch()?;
    Ok(Tally::of_cargo(&lines, status.success()))
}

/// The browser tests, against the page of a run made on the spot.
fn of_browser() -> Result<Tally> {
    let folder = workspace::root().join("tests/browser");
    if !folder.join("package.json").exists() {
        println!("skipped: there are no browser tests in tests/browser");
        return Ok(Tally::default());
    }
    if let Some(name) = ["node", "npm", "chromium"].iter().find(|name| program::find(name).is_none()) {
        println!("skipped: the browser tests need {name}");
        return Ok(Tally { skipped: 1, ..Tally::default() });
    }
    let scratch = tempfile::tempdir().context("make a folder for the page")?;
    match page(scratch.path()).and_then(|page| in_browser(&folder, &page)) {
        Ok(tally) => Ok(tally),
        Err(error) => {
            println!("the browser tests could not start: {error:#}");
            Ok(Tally::of(false))
        }
    }
}

/// A page with enough passes that every part of it has something to show.
fn page(folder: &Path) -> Result<PathBuf> {
    let landau = workspace::landau()?;
    let (record, page) = (folder.join("smoke.landau.ndjson"), folder.join("page.html"));
    Program::new(&landau)
        .args(["run", "--quiet", "--study", "smoke", "--passes", "5", "--seed", "1", "--no-report", "--output"])
        .args([&record])
        .run()?;
    Program::new(&landau).arg("report").arg(&record).arg("-o").arg(&page).run()?;
    Ok(page)
}

fn in_browser(folder: &Path, page: &Path) -> Result<Tally> {
    if !folder.join("node_modules").exists() {
        Program::new("npm").args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).within(folder).run()?;
    }
    let node = Program::new("node").args(["--test", "--test-reporter=tap"]).within(folder).env("LANDAU_PAGE", page);
    let (status, lines) = node.watch()?;
    Ok(Tally::of_node(&lines, status.success()))
}
