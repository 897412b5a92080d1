//! `test`: runs the tests of the workspace and those in the browser. The last line is `N passed, N failed`.
//!
//! Everything is built once, in the profile `ci`: as released. The browser tests use the
//! program that cargo's integration tests use. The exit status is 1 if a test failed or none ran.

use crate::counts::{CargoOutput, Counts, Outcome};
use crate::mail_servers;
use crate::program::{self, Program};
use crate::sink::Sink;
use crate::{collection, workspace};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};

/// A Debian package that some tests need.
struct Need {
    package: &'static str,
    purpose: &'static str,
    is_installed: fn() -> bool,
}

const NEEDS: [Need; 19] = [
    Need { package: "gcc", purpose: "linking, and the fork helper", is_installed: || program::find("cc").is_some() },
    Need { package: "libc6-dev", purpose: "the fork helper in static glibc", is_installed: has_static_libc },
    Need {
        package: "musl-tools",
        purpose: "the fork helper in musl",
        is_installed: || program::find("musl-gcc").is_some(),
    },
    Need { package: "jq", purpose: "the queries of docs/record.md", is_installed: || program::find("jq").is_some() },
    Need {
        package: "qemu-system-x86",
        purpose: "the lab's kernels",
        is_installed: || program::find("qemu-system-x86_64").is_some(),
    },
    Need { package: "cpio", purpose: "reading the lab's initramfs", is_installed: || program::find("cpio").is_some() },
    Need {
        package: "strace",
        purpose: "counting the event library's calls",
        is_installed: || program::find("strace").is_some(),
    },
    Need { package: "rsync", purpose: "deployments by rsync", is_installed: || program::find("rsync").is_some() },
    Need { package: "python3-dkim", purpose: "verifying signatures of mail", is_installed: || has_module("dkim") },
    Need { package: "python3-nacl", purpose: "verifying Ed25519 signatures", is_installed: || has_module("nacl") },
    Need { package: "swaks", purpose: "a client of sink and relay", is_installed: || program::find("swaks").is_some() },
    Need {
        package: "libnet-ssleay-perl",
        purpose: "STARTTLS in swaks",
        is_installed: || Path::new("/usr/share/doc/libnet-ssleay-perl").exists(),
    },
    Need {
        package: "openssl",
        purpose: "a client of STARTTLS in sink and relay",
        is_installed: || program::find("openssl").is_some(),
    },
    Need {
        package: "iproute2",
        purpose: "mail in separate network namespaces",
        is_installed: || program::find_for_root("ip").is_some(),
    },
    Need {
        package: "xfsprogs",
        purpose: "files in an image with xfs",
        is_installed: || program::find_for_root("mkfs.xfs").is_some(),
    },
    Need {
        package: "btrfs-progs",
        purpose: "files in an image with btrfs",
        is_installed: || program::find_for_root("mkfs.btrfs").is_some(),
    },
    Need { package: "nodejs", purpose: "browser tests", is_installed: || program::find("node").is_some() },
    Need { package: "npm", purpose: "browser tests", is_installed: || program::find("npm").is_some() },
    Need { package: "chromium", purpose: "browser tests", is_installed: || program::find("chromium").is_some() },
];

/// The variable with proptest's seed, and its value unless it is set.
const RANDOM_SEED: (&str, &str) = ("PROPTEST_RNG_SEED", "2001");

pub(crate) fn run() -> Result<bool> {
    let outcome = everything()?;
    for name in &outcome.failures {
        println!("failed: {name}");
    }
    println!("{}", outcome.counts);
    Ok(outcome.counts.is_good())
}

/// Runs all tests and counts them.
pub(crate) fn everything() -> Result<Outcome> {
    install_needs();
    if let Err(error) = mail_servers::prepare() {
        println!("{error:#}; tests that deliver to mail servers are skipped");
    }
    let mut outcome = of_cargo()?;
    outcome += of_browser()?;
    if outcome.counts.skipped > 0 {
        println!("{} tests were skipped", outcome.counts.skipped);
    }
    Ok(outcome)
}

fn has_static_libc() -> bool {
    let folder = format!("/usr/lib/{}-linux-gnu/libc.a", std::env::consts::ARCH);
    Path::new(&folder).exists()
}

/// Returns whether Debian's Python has a module.
fn has_module(name: &str) -> bool {
    let ran = std::process::Command::new("/usr/bin/python3").args(["-c", &format!("import {name}")]).output();
    ran.is_ok_and(|ran| ran.status.success())
}

/// Installs missing packages if this user can, after saying which and why; tests that need the others are skipped.
pub(crate) fn install_needs() {
    let missing: Vec<&Need> = NEEDS.iter().filter(|need| !(need.is_installed)()).collect();
    if missing.is_empty() {
        return;
    }
    let packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
    let is_root = Program::new("id").args(["-u"]).text().is_ok_and(|id| id.trim() == "0");
    if is_root && program::find("apt-get").is_some() {
        println!("running as root: installing {} Debian packages for the tests with apt-get", packages.len());
        for need in &missing {
            println!("  {}: {}", need.package, need.purpose);
        }
        let apt = |words: &[&str]| Program::new("apt-get").args(words).env("DEBIAN_FRONTEND", "noninteractive");
        let install = apt(&["install", "-y", "-qq", "--no-install-recommends"]).args(&packages);
        if let Err(error) = apt(&["update", "-qq"]).run().and_then(|()| install.run()) {
            println!("{error:#}; tests that need these packages are skipped");
        }
    }
    for need in missing.iter().filter(|need| !(need.is_installed)()) {
        println!("missing: {} ({}); install it with: apt-get install {0}", need.package, need.purpose);
    }
}

/// Runs the unit, integration and documentation tests of the workspace, and says which were skipped and why.
fn of_cargo() -> Result<Outcome> {
    let cargo = Program::cargo().args(["test", "--workspace", "--profile", "ci", "--no-fail-fast"]);
    // Random inputs are the same in every run, so that a failure is due to the change; `cargo test` takes new ones.
    let cargo = if std::env::var_os(RANDOM_SEED.0).is_none() { cargo.env(RANDOM_SEED.0, RANDOM_SEED.1) } else { cargo };
    let mut output = CargoOutput::default();
    // Without this the output of a passed test is lost, and with it the reason for which it was skipped.
    let (status, _) = cargo.args(["--", "--show-output"]).watch(|line| output.read(line))?;
    for skip in output.skips() {
        println!("{skip}");
    }
    Ok(output.outcome(status.success()))
}

/// Runs the browser tests on the report of a new smoke run.
fn of_browser() -> Result<Outcome> {
    let folder = workspace::root().join("tests/browser");
    if !folder.join("package.json").exists() {
        println!("skipped: tests/browser contains no tests");
        return Ok(Outcome::default());
    }
    let skipped = |name: &str| {
        println!("skipped: the browser tests need {name}");
        Ok(Counts { skipped: 1, ..Counts::default() }.into())
    };
    if let Some(name) = ["node", "npm"].iter().find(|name| program::find(name).is_none()) {
        return skipped(name);
    }
    let Some(chromium) = program::find("chromium") else { return skipped("chromium") };
    let scratch = tempfile::tempdir().context("create a temporary directory")?;
    match pages(scratch.path()).and_then(|pages| in_browser(&folder, &chromium, &pages)) {
        Ok(outcome) => Ok(outcome),
        Err(error) => {
            println!("the browser tests could not start: {error:#}");
            Ok(Counts::of(false).into())
        }
    }
}

/// Writes two reports with enough passes that every section has content, of one record and of it beside a copy, the
/// page of a delivery, and the site of a collection.
fn pages(folder: &Path) -> Result<[PathBuf; 4]> {
    let landau = workspace::tested_landau()?;
    let (record, page) = (folder.join("smoke.landau.ndjson"), folder.join("page.html"));
    let (copy, compared) = (folder.join("copy.landau.ndjson"), folder.join("compared.html"));
    Program::new(&landau)
        .args(["run", "--quiet", "--study", "smoke", "--passes", "5", "--seed", "1", "--no-report", "--output"])
        .args([&record])
        .run()?;
    Program::new(&landau).arg("report").arg(&record).arg("-o").arg(&page).run()?;
    std::fs::copy(&record, &copy).with_context(|| format!("copy {}", record.display()))?;
    Program::new(&landau).arg("report").args([&record, &copy]).arg("-o").arg(&compared).run()?;
    let delivery = delivery_page(&landau, folder)?;
    let site = site(&landau, folder)?;
    Ok([page, compared, delivery, site])
}

/// Writes the site of a hundred equal records, of those of several kernels, and of hostile ones.
fn site(landau: &Path, folder: &Path) -> Result<PathBuf> {
    let (records, site) = (folder.join("records"), folder.join("site"));
    std::fs::create_dir(&records).with_context(|| format!("create {}", records.display()))?;
    collection::write(&records, 100)?;
    collection::write_hostile(&records)?;
    let kept = workspace::root().join("docs/records/linux-kernels");
    for entry in std::fs::read_dir(&kept).with_context(|| format!("list {}", kept.display()))? {
        let entry = entry.with_context(|| format!("list {}", kept.display()))?;
        std::fs::copy(entry.path(), records.join(entry.file_name())).context("copy a record")?;
    }
    let history = Program::new(landau).arg("history").arg(&records).arg("--site").arg(&site);
    let (status, _, errors) = history.output()?;
    ensure!(status.success(), "landau history --site failed: {errors}");
    Ok(site.join("index.html"))
}

/// Writes the page of a delivery to a server that is slow and refuses some recipients.
fn delivery_page(landau: &Path, folder: &Path) -> Result<PathBuf> {
    let (profile, page) = (folder.join("slow.toml"), folder.join("delivery.html"));
    let text = "[default]\nlatency = \"20ms\"\nmessages = 300\npermanent = 0.05\ntemporary = { share = 0.05 }\n";
    std::fs::write(&profile, text).context("write a profile")?;
    let words = ["sink", "smtp", "--listen", "127.0.0.1:0", "--profile", &profile.display().to_string()];
    let sink = Sink::start(&mut std::process::Command::new(landau), &words)?;
    let mail = Program::new(landau).args(["mail", "--recipients", "3000", "--domains", "40", "--mode", "rset"]);
    let mail = mail.args(["--retry-after", "1s", "--attempts", "2", "--quiet", "--via"]);
    let mail = mail.arg(format!("127.0.0.1:{}", sink.port)).arg("--ledger").arg(folder.join("ledger"));
    // It fails because recipients were refused.
    let (_, _, errors) = mail.arg("--report").arg(&page).output()?;
    ensure!(page.exists(), "landau mail wrote no page: {errors}");
    Ok(page)
}

/// Installs the packages of `package-lock.json`, unless they are those of an installation that was completed.
fn install_modules(folder: &Path) -> Result<()> {
    let (lock, stamp) = (folder.join("package-lock.json"), folder.join("node_modules/.landau-lock"));
    let wanted = std::fs::read(&lock).with_context(|| format!("read {}", lock.display()))?;
    if std::fs::read(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    // It removes `node_modules` first, and the stamp with it.
    Program::new("npm").args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).within(folder).run()?;
    std::fs::write(&stamp, wanted).with_context(|| format!("write {}", stamp.display()))
}

fn in_browser(folder: &Path, chromium: &Path, [page, compared, delivery, site]: &[PathBuf; 4]) -> Result<Outcome> {
    install_modules(folder)?;
    // Node leaves a processor to others: on two, the files would run one after the other.
    let node = Program::new("node").args(["--test", "--test-concurrency=2", "--test-reporter=tap"]).within(folder);
    let node = node.env("LANDAU_PAGE", page).env("LANDAU_COMPARED", compared).env("LANDAU_DELIVERY", delivery);
    let node = node.env("LANDAU_SITE", site).env("CHROMIUM", chromium);
    let (status, lines) = node.watch(|_| true)?;
    Ok(Outcome::of_node(&lines, status.success()))
}
