//! `curl` and `h2load` as clients of `landau serve`.

use super::{PORT, said};
use crate::program::find;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Size of the file that is requested whole, in parts and compressed, in bytes.
const FILE_BYTES: usize = 200_000;

/// A call of `curl` and its expected result.
#[derive(Debug, Clone, Copy)]
struct Call {
    what: &'static str,
    /// The arguments; `URL` stands for the server's address.
    words: &'static [&'static str],
    /// The expected statuses, separated by spaces if there are several transfers; one of these texts.
    statuses: &'static [&'static str],
    /// The expected part of the file: its first byte, and the byte after its last.
    bytes: Option<(usize, usize)>,
}

const fn call(what: &'static str, words: &'static [&'static str], statuses: &'static [&'static str]) -> Call {
    Call { what, words, statuses, bytes: None }
}

const fn part(call: Call, from: usize, to: usize) -> Call {
    Call { bytes: Some((from, to)), ..call }
}

const CALLS: [Call; 13] = [
    part(call("the whole file", &["URL/file"], &["200"]), 0, FILE_BYTES),
    call("its head", &["-I", "URL/file"], &["200"]),
    part(call("a range", &["-r", "1000-1999", "URL/file"], &["206"]), 1000, 2000),
    part(call("its end", &["-r", "-500", "URL/file"], &["206"]), FILE_BYTES - 500, FILE_BYTES),
    call("a range beyond it", &["-r", "900000-", "URL/file"], &["416"]),
    part(call("the rest of a partial download", &["-C", "150000", "URL/file"], &["206"]), 150_000, FILE_BYTES),
    call("a file not newer than 2100", &["-z", "1 Jan 2100", "URL/file"], &["304"]),
    part(call("by HTTP/1.0", &["--http1.0", "URL/file"], &["200"]), 0, FILE_BYTES),
    part(call("compressed", &["--compressed", "URL/file"], &["200"]), 0, FILE_BYTES),
    call("a path that leaves the directory", &["--path-as-is", "URL/../../etc/passwd"], &["400", "404"]),
    call("a body after Expect: 100-continue", &["-d", "x=1", "-H", "Expect: 100-continue", "URL/file"], &["405"]),
    call("two on one connection", &["URL/file", "-o", "/dev/null", "URL/small"], &["200 200"]),
    part(call("through a Unix socket", &["--unix-socket", "SOCKET", "http://x/file"], &["200"]), 0, FILE_BYTES),
];

/// Creates the directory to serve, and returns its path.
pub(super) fn site(folder: &Path) -> Result<PathBuf> {
    let root = folder.join("www");
    fs::create_dir(&root).context("make the site")?;
    let bytes: Vec<u8> = (0..FILE_BYTES).map(|place| b'a' + (place % 23) as u8).collect();
    fs::write(root.join("file"), &bytes).context("write file")?;
    for name in ["f", "small", "index.html"] {
        fs::write(root.join(name), "hello").with_context(|| format!("write {name}"))?;
    }
    let packed = Command::new("gzip").arg("-k").arg(root.join("file")).status().context("start gzip")?;
    ensure!(packed.success(), "gzip failed");
    Ok(root)
}

/// Runs both clients. Returns whether every result is the expected one.
pub(super) fn check(folder: &Path, root: &Path) -> Result<bool> {
    let file = fs::read(root.join("file"))?;
    let mut is_good = true;
    ensure!(find("curl").is_some(), "curl is not installed (Debian: apt-get install curl)");
    for call in CALLS {
        is_good &= called(folder, &call, &file)?;
    }
    ensure!(find("h2load").is_some(), "h2load is not installed (Debian: apt-get install nghttp2-client)");
    for (url, count) in [("small", "20000"), ("file", "2000")] {
        let url = format!("http://127.0.0.1:{PORT}/{url}");
        let output = Command::new("h2load").args(["--h1", "-n", count, "-c", "50", &url]).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let wanted = format!("{count} total, {count} started, {count} done, {count} succeeded, 0 failed, 0 errored");
        is_good &= said(&format!("h2load: {count} requests for {url}"), text.contains(&wanted));
    }
    Ok(is_good)
}

/// Runs one call of `curl`. Returns whether the result is the expected one.
fn called(folder: &Path, call: &Call, file: &[u8]) -> Result<bool> {
    let got = folder.join("got");
    fs::write(&got, "")?;
    let url = format!("http://127.0.0.1:{PORT}");
    let socket = folder.join("s").display().to_string();
    let output = Command::new("curl")
        .args(["-sS", "--max-time", "20", "-w", "%{http_code} %{num_connects}\n", "-o"])
        .arg(&got)
        .args(call.words.iter().map(|word| word.replace("URL", &url).replace("SOCKET", &socket)))
        .output()
        .context("start curl")?;
    // For each transfer: its status, and how many connections it opened (only the first may open one).
    let text = String::from_utf8_lossy(&output.stdout);
    let transfers: Vec<(&str, &str)> = text.lines().filter_map(|line| line.split_once(' ')).collect();
    let statuses: Vec<&str> = transfers.iter().map(|transfer| transfer.0).collect();
    let statuses = statuses.join(" ");
    let is_kept = transfers.iter().skip(1).all(|transfer| transfer.1 == "0");
    let is_whole = call.bytes.is_none_or(|(from, to)| fs::read(&got).is_ok_and(|got| got == file[from..to]));
    let is_good = call.statuses.contains(&&*statuses) && is_kept && is_whole && output.status.success();
    let why = format!(", expected {}; {}", call.statuses.join(" or "), output.stderr.escape_ascii());
    let why = if is_good { "" } else { &why };
    Ok(said(&format!("curl: {}: {statuses}{why}", call.what), is_good))
}
