//! The servers to compare: ours in both kinds, the bare loop that parses nothing, and those servers of the benchmarks'
//! list (`crates/bench/src/server/list`) that are installed, tuned for throughput.
//!
//! All serve the same directory with one worker on one processor, without logs. Dropping a `Server` ends its process.

use crate::program::Program;
use crate::workspace;
use anyhow::{Context, Result, bail, ensure};
use landau_bench::rival::{self, Protocol, Rival};
use landau_sys::limits::{Resource, get, raise};
use landau_sys::system::{cpu_time_ns, private_bytes, process_tree};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The processor of the servers; the generator has the other.
pub(super) const SERVER_PROCESSOR: &str = "0";
/// The processor of the generator.
pub(super) const CLIENT_PROCESSOR: &str = "1";

/// The port of the first of the other servers; the next ports follow in order.
const FIRST_PORT: u16 = 18101;

/// Bytes of the head that `landau serve` sends for the small file; the bare loop sends a head of the same size.
const HEAD_BYTES: &str = "223";
/// Bytes of the small file.
pub(super) const SMALL_BYTES: usize = 300;
/// Bytes of the large file.
pub(super) const LARGE_BYTES: usize = 100_000_000;

/// A running server.
pub(crate) struct Server {
    pub(crate) name: &'static str,
    pub(crate) port: u16,
    child: Child,
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(3) {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Creates the directory with a small file and files of 8 KB, 10 MB and 100 MB.
pub(super) fn site(folder: &Path) -> Result<PathBuf> {
    let root = folder.join("www");
    std::fs::create_dir(&root).context("make the site")?;
    // The content does not matter to the kernel, but it would matter to a program that compresses it.
    let piece: Vec<u8> =
        (0..100_000_u32).map(|number| b'a' + (number.wrapping_mul(2_654_435_761) >> 28) as u8).collect();
    let bytes = piece.repeat(1000);
    for (name, len) in [("f", SMALL_BYTES), ("f8k", 8192), ("f10m", 10_000_000), ("f100m", LARGE_BYTES)] {
        std::fs::write(root.join(name), &bytes[..len]).with_context(|| format!("write {name}"))?;
    }
    Ok(root)
}

/// When connections are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Accept {
    /// When their first request arrives (`TCP_DEFER_ACCEPT`), as h2o always does.
    Deferred,
    /// As soon as they are established. Servers that cannot do this, such as h2o, are left out.
    AtOnce,
}

/// Starts all servers that can be compared. Prints the others, with reasons.
pub(super) fn start(folder: &Path, root: &Path, accept: Accept) -> Result<Vec<Server>> {
    let landau = workspace::landau()?;
    Program::cargo()
        .args(["build", "--release", "--locked", "-p", "landau-reactor", "--example", "bare"])
        .run()
        .context("build the bare loop")?;
    let bare = landau.with_file_name("examples").join("bare");
    let (landau, bare) = (landau.display().to_string(), bare.display().to_string());
    raise(Resource::Descriptors).context("raise the limit on descriptors")?;
    let site = root.display().to_string();
    let small = SMALL_BYTES.to_string();
    let defers_accept = accept == Accept::Deferred;
    let defer = if defers_accept { &["--defer-accept", "1s"][..] } else { &[] };
    let ours = |address, accept| {
        let words = [&landau, "serve", &site, "--idle-timeout", "600s", "--listen", address, "--accept", accept];
        [&words, defer].concat()
    };
    let mut servers = vec![
        started("landau", 18081, &ours("127.0.0.1:18081", "own"))?,
        started("multishot", 18086, &ours("127.0.0.1:18086", "multishot"))?,
        started("bare", 18085, &[&bare, "18085", &small, HEAD_BYTES])?,
    ];
    servers.extend(others(folder, root, defers_accept, Protocol::Http1)?);
    Ok(servers)
}

/// The servers' certificate and its key. `h2load` does not verify certificates.
pub(super) const CERTIFICATE: [&str; 2] =
    ["crates/serve/tests/it/certificates/one.pem", "crates/serve/tests/it/certificates/one-key.pem"];

/// Starts all servers that support HTTP/2. Prints the others, with reasons. A completion worker does not support TLS.
pub(crate) fn start_http2(folder: &Path, root: &Path, is_tls: bool) -> Result<Vec<Server>> {
    let landau = workspace::landau()?.display().to_string();
    raise(Resource::Descriptors).context("raise the limit on descriptors")?;
    let site = root.display().to_string();
    let [certificate, key] = CERTIFICATE.map(|path| workspace::root().join(path));
    let tls = ["--tls", &certificate.display().to_string(), &key.display().to_string()].map(str::to_owned);
    let ours = |name, port: u16, accept| {
        let listen = format!("127.0.0.1:{port}");
        let words = [&landau, "serve", &site, "--idle-timeout", "600s", "--listen", &listen, "--accept", accept];
        let words =
            [&words[..], &if is_tls { tls.each_ref().map(String::as_str).to_vec() } else { Vec::new() }].concat();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        let mut server = spawned(name, port, &command)?;
        server.wait_until(Server::connects)?;
        Ok::<_, anyhow::Error>(server)
    };
    let mut servers = vec![ours("landau", 18081, "own")?];
    if !is_tls {
        servers.push(ours("multishot", 18086, "multishot")?);
    }
    let protocol = if is_tls { Protocol::Tls { certificate: &certificate, key: &key } } else { Protocol::Http2 };
    servers.extend(others(folder, root, true, protocol)?);
    Ok(servers)
}

/// Starts the servers of the list that can be compared. Prints the others, with reasons.
pub(crate) fn others(folder: &Path, root: &Path, defers_accept: bool, protocol: Protocol<'_>) -> Result<Vec<Server>> {
    let mut servers = Vec::new();
    let descriptors = get(Resource::Descriptors).context("read the limit on descriptors")?.0;
    for (name, port) in rival::names().zip(FIRST_PORT..) {
        let directory = folder.join(name);
        std::fs::create_dir_all(&directory).with_context(|| format!("create {}", directory.display()))?;
        let rival = Rival { root, directory: &directory, port, descriptors, defers_accept, protocol };
        match rival::command(name, &rival) {
            Ok(command) => {
                let mut server = spawned(name, port, &command)?;
                let is_http1 = matches!(protocol, Protocol::Http1);
                server.wait_until(if is_http1 { Server::answers } else { Server::connects })?;
                servers.push(server);
            }
            Err(reason) => println!("     without {name}: {reason}"),
        }
    }
    Ok(servers)
}

/// Starts an HTTP/1.1 server on its processor. The first of `words` is the program.
pub(crate) fn started(name: &'static str, port: u16, words: &[&str]) -> Result<Server> {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    let mut server = spawned(name, port, &command)?;
    server.wait_until(Server::answers)?;
    Ok(server)
}

/// Runs a load generator on its processor. The first of `words` is the program.
pub(super) fn generated(words: &[&str]) -> Result<Output> {
    let output =
        Command::new("taskset").args(["-c", CLIENT_PROCESSOR]).args(words).output().context("start taskset")?;
    // taskset's own status if it cannot execute the program.
    if matches!(output.status.code(), Some(126 | 127)) {
        let package = if words[0] == "h2load" { "nghttp2-client" } else { words[0] };
        bail!("{} cannot be executed (Debian: apt-get install {package})", words[0]);
    }
    Ok(output)
}

/// Starts a server on its processor.
fn spawned(name: &'static str, port: u16, server: &Command) -> Result<Server> {
    // A program that already listens on the port would answer in place of this server.
    ensure!(TcpStream::connect(("127.0.0.1", port)).is_err(), "another program listens on port {port}");
    let mut command = Command::new("taskset");
    command.args(["-c", SERVER_PROCESSOR]).arg(server.get_program()).args(server.get_args());
    command.envs(server.get_envs().filter_map(|(variable, value)| Some((variable, value?))));
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().with_context(|| format!("start {name}"))?;
    Ok(Server { name, port, child })
}

impl Server {
    /// Returns whether the server is `landau serve`, of either kind.
    pub(crate) fn is_ours(&self) -> bool {
        matches!(self.name, "landau" | "multishot")
    }

    /// Waits until the server is ready.
    fn wait_until(&mut self, is_ready: impl Fn(&Self) -> bool) -> Result<()> {
        let began = Instant::now();
        while !is_ready(self) {
            let ended = self.child.try_wait().context("poll a server")?;
            let is_late = began.elapsed() > Duration::from_secs(10);
            ensure!(ended.is_none() && !is_late, "{} does not answer: {ended:?}", self.name);
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn answers(&self) -> bool {
        self.ask("/f").is_ok()
    }

    fn connects(&self) -> bool {
        TcpStream::connect(("127.0.0.1", self.port)).is_ok()
    }

    /// Returns a connection that has made one request.
    pub(super) fn ask(&self, target: &str) -> Result<TcpStream> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
        let mut buffer = [0; 4096];
        let got = stream.read(&mut buffer)?;
        ensure!(buffer[..got].starts_with(b"HTTP/1.1 200"), "{}: {}", self.name, buffer[..got].escape_ascii());
        Ok(stream)
    }

    /// Returns the process id of the server.
    pub(super) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Returns the processor time that all processes and threads of the server have used, in nanoseconds.
    pub(super) fn processor_ns(&self) -> Result<u64> {
        let sum: u64 = process_tree(self.child.id()).into_iter().filter_map(cpu_time_ns).sum();
        ensure!(sum > 0, "{} has ended, or the kernel counts no processor time", self.name);
        Ok(sum)
    }

    /// Returns the private memory of all processes of the server, in bytes.
    pub(super) fn private_bytes(&self) -> u64 {
        private_bytes(self.child.id()).unwrap_or(0)
    }
}
