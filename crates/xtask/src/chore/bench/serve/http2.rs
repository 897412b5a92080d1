//! HTTP/2 under `h2load`, with prior knowledge and over TLS, and the memory of its idle connections.

use super::{Idle, Rival, Server, Words, load};
use crate::chore::bench::rivals;
use crate::client::Http2;
use anyhow::{Context, Result, ensure};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

/// The measurement of idle connections.
const IDLE: Idle = Idle { what: "connection of HTTP/2", count: 4_000, most_bytes: 1024.0 };

/// The loads: name, file, connections and streams, and the servers with which ours is compared.
const LOADS: [(&str, &str, [&str; 2], Rival); 3] = [
    ("300 bytes", "f", ["-c64", "-m10"], Rival::Others),
    ("8 KB", "f8k", ["-c64", "-m10"], Rival::Others),
    ("10 MB", "f10m", ["-c4", "-m1"], Rival::Shown),
];

/// Measures requests without and with TLS.
pub(super) fn run(words: &Words, folder: &Path, root: &Path) -> Result<bool> {
    let mut is_good = true;
    for is_tls in [false, true] {
        let servers = rivals::start_http2(folder, root, is_tls)?;
        for (name, file, arguments, rival) in LOADS {
            let tls = if is_tls { "TLS" } else { "prior knowledge" };
            let name = format!("HTTP/2, {tls}, {name}, {}", arguments.join(" "));
            let cost = |server: &Server| requested_us(server, is_tls, file, &arguments, words.seconds);
            is_good &= load(words, &servers, &name, rival, cost)?;
        }
    }
    Ok(is_good)
}

/// Returns the server's processor time for each request in microseconds, under `h2load`.
fn requested_us(server: &Server, is_tls: bool, file: &str, arguments: &[&str], seconds: u32) -> Result<f64> {
    let scheme = if is_tls { "https" } else { "http" };
    let before = server.processor_ns()?;
    let (time, url) = (seconds.to_string(), format!("{scheme}://127.0.0.1:{}/{file}", server.port));
    let output = rivals::generated(&[&["h2load", "-t1", "-D", &time][..], arguments, &[&url]].concat())?;
    let spent = server.processor_ns()? - before;
    let text = String::from_utf8_lossy(&output.stdout);
    let protocol = if is_tls { "Application protocol: h2\n" } else { "Application protocol: h2c\n" };
    ensure!(text.contains(protocol), "{} does not use HTTP/2: {text}", server.name);
    let count = |what: &str| {
        let line = text.lines().find(|line| line.starts_with("requests: "))?;
        let part = line.split([':', ',']).find(|part| part.ends_with(what))?;
        part.split_whitespace().next()?.parse::<u64>().ok()
    };
    let requests = count("succeeded").context("h2load printed no result")?;
    let is_clean = requests > 0 && count("failed") == Some(0) && count("errored") == Some(0);
    ensure!(is_clean, "{}: {text}{}", server.name, output.stderr.escape_ascii());
    Ok(spent as f64 / 1000.0 / requests as f64)
}

/// Measures the user memory of an idle connection.
pub(super) fn memory(folder: &Path, root: &Path) -> Result<bool> {
    IDLE.measure(&rivals::start_http2(folder, root, false)?, ask)
}

/// Returns a connection that has made one request, with the fields that a browser sends.
fn ask(server: &Server) -> Result<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", server.port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut client = Http2::new(stream)?;
    let fields = [
        ("user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"),
        ("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
        ("accept-language", "en-GB,en;q=0.5"),
    ];
    let answer = client.get(&[("/f", &fields)]).remove(0).map_err(|lost| anyhow::anyhow!("{}: {lost}", server.name))?;
    ensure!(answer.status == 200, "{}: {}", server.name, answer.status);
    Ok(client.stream)
}
