//! Servers to compare with: ours in both kinds, the bare loop that parses nothing, and other servers that are
//! installed.
//!
//! All serve the same directory with one worker on one processor, without logs. A server ends when its guard is
//! dropped.

use crate::program::Program;
use crate::workspace;
use anyhow::{Context, Result, ensure};
use landau_sys::system::{cpu_time_ns, private_bytes, process_tree};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The processor of the servers; the generator has the other.
pub(super) const SERVER_PROCESSOR: &str = "0";
/// The processor of the generator.
pub(super) const CLIENT_PROCESSOR: &str = "1";

/// Bytes of the head that `landau serve` sends for the small file; the bare loop sends as many.
const HEAD_BYTES: &str = "223";
/// Bytes of the small file.
pub(super) const SMALL_BYTES: usize = 300;
/// Bytes of the large one.
pub(super) const LARGE_BYTES: usize = 100_000_000;

/// A running server.
pub(crate) struct Server {
    pub(super) name: &'static str,
    pub(super) port: u16,
    child: Child,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
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

/// Makes the directory: a small file, one of 8 KB, one of 100 MB.
pub(super) fn site(folder: &Path) -> Result<PathBuf> {
    let root = folder.join("www");
    std::fs::create_dir(&root).context("make the site")?;
    // The content does not matter to the kernel, but would to a program that compresses it.
    let piece: Vec<u8> =
        (0..100_000_u32).map(|number| b'a' + (number.wrapping_mul(2_654_435_761) >> 28) as u8).collect();
    let bytes = piece.repeat(1000);
    for (name, len) in [("f", SMALL_BYTES), ("f8k", 8192), ("f100m", LARGE_BYTES)] {
        std::fs::write(root.join(name), &bytes[..len]).with_context(|| format!("write {name}"))?;
    }
    Ok(root)
}

/// When connections are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Accept {
    /// With their first request (`TCP_DEFER_ACCEPT`), as h2o always does.
    Deferred,
    /// As soon as they are established; without h2o.
    AtOnce,
}

/// Starts all installed servers; prints which are missing.
pub(super) fn start(folder: &Path, root: &Path, accept: Accept) -> Result<Vec<Server>> {
    let landau = workspace::landau()?;
    Program::cargo()
        .args(["build", "--release", "--locked", "-p", "landau-reactor", "--example", "bare"])
        .run()
        .context("build the bare loop")?;
    let bare = landau.with_file_name("examples").join("bare");
    let (landau, bare) = (landau.display().to_string(), bare.display().to_string());
    let site = root.display().to_string();
    let small = SMALL_BYTES.to_string();
    let is_deferred = accept == Accept::Deferred;
    let nginx = written(folder, "nginx.conf", &nginx(folder, root, is_deferred))?;
    let lighttpd = written(folder, "lighttpd.conf", &lighttpd(root, is_deferred))?;
    let h2o = written(folder, "h2o.conf", &h2o(root))?;
    let defer = if is_deferred { &["--defer-accept", "1s"][..] } else { &[] };
    let ours = |address, accept| {
        let words = [&landau, "serve", &site, "--idle-timeout", "600s", "--listen", address, "--accept", accept];
        [&words, defer].concat()
    };
    let words: [(&'static str, u16, Vec<&str>); 6] = [
        ("landau", 18081, ours("127.0.0.1:18081", "own")),
        ("multishot", 18086, ours("127.0.0.1:18086", "multishot")),
        ("bare", 18085, vec![&bare, "18085", &small, HEAD_BYTES]),
        ("nginx", 18082, vec!["nginx", "-c", &nginx]),
        ("lighttpd", 18083, vec!["lighttpd", "-D", "-f", &lighttpd]),
        ("h2o", 18084, vec!["h2o", "-c", &h2o]),
    ];
    let mut servers = Vec::new();
    for (name, port, words) in words {
        if name == "h2o" && !is_deferred {
            continue;
        }
        if is_here(words[0]) {
            servers.push(started(name, port, &words)?);
        } else {
            println!("     {name} is not installed here (Debian: apt-get install {name})");
        }
    }
    Ok(servers)
}

fn is_here(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/".into()]);
    folders.map(|folder| folder.join(program)).any(|path| path.is_file())
}

/// Starts a server on its processor and waits until it answers.
pub(crate) fn started(name: &'static str, port: u16, words: &[&str]) -> Result<Server> {
    let path = format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("taskset");
    command.args(["-c", SERVER_PROCESSOR]).args(words).env("PATH", path);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().with_context(|| format!("start {name}"))?;
    let mut server = Server { name, port, child };
    let began = Instant::now();
    while server.ask("/f").is_err() {
        let ended = server.child.try_wait().context("look at a server")?;
        ensure!(ended.is_none() && began.elapsed() < Duration::from_secs(10), "{name} does not serve: {ended:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(server)
}

impl Server {
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

    /// Returns its process id.
    pub(super) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Returns the processor time so far in nanoseconds, of all its processes and threads.
    pub(super) fn processor_ns(&self) -> Result<u64> {
        let sum: u64 = process_tree(self.child.id()).into_iter().filter_map(cpu_time_ns).sum();
        ensure!(sum > 0, "{} has ended, or the kernel counts no processor time", self.name);
        Ok(sum)
    }

    /// Returns the private memory in bytes, of all its processes.
    pub(super) fn private_bytes(&self) -> u64 {
        private_bytes(self.child.id()).unwrap_or(0)
    }
}

fn written(folder: &Path, name: &str, text: &str) -> Result<String> {
    let path = folder.join(name);
    std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
    Ok(path.display().to_string())
}

fn nginx(folder: &Path, root: &Path, is_deferred: bool) -> String {
    let (folder, root) = (folder.display(), root.display());
    let deferred = if is_deferred { " deferred" } else { "" };
    format!(
        "worker_processes 1; daemon off; error_log {folder}/nginx.log; pid {folder}/nginx.pid; user root;\n\
         worker_rlimit_nofile 19000; events {{ worker_connections 18000; use epoll; }}\n\
         http {{ access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000000; keepalive_timeout 600;\n\
         open_file_cache max=1000; server {{ listen 127.0.0.1:18082 backlog=4096{deferred}; root {root}; }} }}\n"
    )
}

fn lighttpd(root: &Path, is_deferred: bool) -> String {
    let defer = u8::from(is_deferred);
    format!(
        "server.document-root = \"{}\"\nserver.port = 18083\nserver.bind = \"127.0.0.1\"\n\
         server.max-keep-alive-requests = 1000000000\nserver.max-fds = 19000\nserver.max-connections = 18000\n\
         server.max-keep-alive-idle = 600\nserver.listen-backlog = 4096\n\
         server.defer-accept = {defer}\n",
        root.display()
    )
}

fn h2o(root: &Path) -> String {
    format!(
        "num-threads: 1\nuser: root\nlisten: {{host: 127.0.0.1, port: 18084}}\nmax-connections: 18000\n\
         http1-request-timeout: 600\nhosts:\n  default:\n    paths:\n      \"/\": {{file.dir: {}}}\n",
        root.display()
    )
}
