//! `bench architecture`: compares the servers of the benchmark `architecture` with plain twins in C and with nginx.
//!
//! Each answers a connection with "450 too busy" and closes it. The client is that of the benchmark, on another
//! processor. The chore compares the server's processor time for each reply, including its threads and children. The
//! two servers run in turn, in alternating order.
//!
//! nginx is the real server of the comparison. Of the servers in Debian, it is the one with an event loop that can
//! answer a connection with a text before it reads anything (`return` of its stream module). haproxy needs a request
//! first, and inetd and xinetd start a process.

use super::files::in_turn;
use super::median::median;
use super::rivals::{CLIENT_PROCESSOR, SERVER_PROCESSOR};
use crate::program::{self, Program};
use crate::workspace;
use anyhow::{Context, Result, anyhow, ensure};
use landau_architectures::{Arguments, Workload, command_of, named};
use landau_bench::architecture::Client;
use landau_sys::process::{OwnedChild, time_of_ns};
use landau_sys::system::{children, pin, reaped_time_ns};
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The maximum ratio of our processor time to theirs.
const BOUND: f64 = 1.3;

/// Simultaneous connections.
const CONNECTIONS: u64 = 100;

/// Replies before the processor time is read for the first time.
const WARM_UP: u64 = 200;

/// The maximum number of processes or threads of our servers.
const MOST: u32 = 1_000;

/// The rival of each architecture, and the number of replies in a run. The kernel counts the time of ended children in
/// hundredths of a second, so thousands of replies are needed.
const PAIRS: [(&str, Rival, u64); 7] = [
    ("event-loop", Rival::Nginx, 40_000),
    ("event-loop", Rival::Twin, 40_000),
    ("thread", Rival::Twin, 20_000),
    ("thread-pool", Rival::Twin, 20_000),
    ("prefork", Rival::Twin, 20_000),
    ("fork", Rival::Twin, 5_000),
    ("exec", Rival::Twin, 3_000),
];

/// A server to compare with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rival {
    /// The C program of the same architecture.
    Twin,
    Nginx,
}

/// Arguments of `cargo xtask bench architecture`.
#[derive(Debug, clap::Args)]
pub(crate) struct Words {
    /// Runs of each server
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Measure this program instead of a release build
    #[arg(long)]
    landau: Option<PathBuf>,
}

pub(crate) fn run(words: &Words) -> Result<bool> {
    let landau = words.landau.clone().map_or_else(workspace::landau, Ok)?;
    let folder = tempfile::tempdir().context("create a folder")?;
    let twins = folder.path().join("servers");
    let source = workspace::root().join("crates/xtask/instrument/servers.c");
    let flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"];
    Program::new("cc").args(flags).arg(&twins).arg(&source).run()?;
    pin(&[CLIENT_PROCESSOR.parse()?]).context("pin the client")?;
    println!(
        "processor time of the server per reply in µs, {CONNECTIONS} connections, median of {} rounds",
        words.rounds
    );
    let mut is_good = true;
    for (name, rival, replies) in PAIRS {
        if rival == Rival::Nginx && program::find("nginx").is_none() {
            println!("     without nginx: it is not installed (apt-get install nginx-light libnginx-mod-stream)");
            continue;
        }
        let mut rounds = Vec::new();
        for round in 0..words.rounds {
            let ours = || of_landau(&landau, name)?.reply_ns(replies);
            let theirs = || match rival {
                Rival::Twin => started(on_processor(&twins).arg(name))?.reply_ns(replies),
                Rival::Nginx => nginx(folder.path())?.reply_ns(replies),
            };
            rounds.push(in_turn(round, ours, theirs).with_context(|| format!("{name} beside {rival:?}"))?);
        }
        is_good &= judged(name, rival, &rounds);
    }
    Ok(is_good)
}

/// Prints the result of a pair, and returns whether our server is within the bound.
fn judged(name: &str, rival: Rival, rounds: &[(f64, f64)]) -> bool {
    let of = |value: fn(&(f64, f64)) -> f64| median(rounds.iter().map(value).collect());
    let ratio = of(|(ours, theirs)| ours / theirs);
    let is_good = ratio <= BOUND;
    println!(
        "{} {name:12} {:8.1}   {:12} {:8.1}   ratio {ratio:.3}, at most {BOUND}",
        if is_good { "ok  " } else { "FAIL" },
        of(|round| round.0) / 1e3,
        if rival == Rival::Nginx { "nginx" } else { "twin in C" },
        of(|round| round.1) / 1e3,
    );
    is_good
}

/// A running server.
struct Server {
    child: OwnedChild,
    address: SocketAddr,
}

impl Server {
    /// Returns the mean processor time of a reply in nanoseconds, over `replies` replies.
    fn reply_ns(&self, replies: u64) -> Result<f64> {
        let mut client = Client::new(self.address, Workload::Busy).map_err(|stop| anyhow!("{stop}"))?;
        let mut receive = |count: u64| -> Result<u64> {
            for _ in 0..count / CONNECTIONS {
                client.round(CONNECTIONS, CONNECTIONS).map_err(|stop| anyhow!("{stop}"))?;
            }
            client.drain().map_err(|stop| anyhow!("{stop}"))?;
            Ok(client.replies)
        };
        let before = receive(WARM_UP)?;
        let began_ns = self.time_ns()?;
        let received = receive(replies)? - before;
        let used_ns = self.time_ns()? - began_ns;
        Ok(used_ns as f64 / received as f64)
    }

    /// Returns the processor time of the server and its children, including those that have ended.
    fn time_ns(&self) -> Result<u64> {
        let pid = self.child.id();
        let reaped = reaped_time_ns(pid).context("read the time of ended children")?;
        let own = time_of_ns(pid).context("read the server's processor time")?;
        Ok(own + reaped + children(pid).into_iter().filter_map(time_of_ns).sum::<u64>())
    }
}

/// Starts one of our servers.
fn of_landau(landau: &Path, name: &str) -> Result<Server> {
    let architecture = named(name).with_context(|| format!("no architecture {name}"))?;
    let (workload, backend) = (Workload::Busy, "epoll".parse().map_err(|_| anyhow!("no backend epoll"))?);
    let command = command_of(landau, &Arguments { architecture, workload, pool: 16, most: MOST, backend });
    started(on_processor(command.get_program()).args(command.get_args()))
}

/// Returns a command that runs on the servers' processor.
fn on_processor(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", SERVER_PROCESSOR]).arg(program);
    command
}

/// Starts a server that prints its port.
fn started(command: &mut Command) -> Result<Server> {
    let mut child = OwnedChild::spawn(command.stdin(Stdio::null()).stdout(Stdio::piped())).context("start a server")?;
    let mut line = String::new();
    let output = child.stdout.take().context("a server without standard output")?;
    BufReader::new(output).read_line(&mut line).context("read a server's port")?;
    let port = line.trim().parse().with_context(|| format!("a server printed {line:?}"))?;
    Ok(Server { child, address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)) })
}

/// Starts nginx with one worker, which answers without reading.
fn nginx(folder: &Path) -> Result<Server> {
    // The port is free: it was bound a moment ago.
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    let folder = folder.display();
    let text = format!(
        "load_module modules/ngx_stream_module.so;\n\
         daemon off;\nmaster_process off;\npid {folder}/nginx.pid;\nerror_log {folder}/nginx.log crit;\n\
         worker_rlimit_nofile 20000;\nevents {{ worker_connections 10000; multi_accept on; }}\n\
         stream {{ server {{ listen 127.0.0.1:{port} backlog=65535; return \"450 too busy\\r\\n\"; }} }}\n"
    );
    let configuration = format!("{folder}/nginx.conf");
    std::fs::write(&configuration, text).context("write nginx.conf")?;
    let mut command = on_processor("nginx");
    command.args(["-p", "/usr/share/nginx", "-c", &configuration]).stdin(Stdio::null());
    let child = OwnedChild::spawn(&mut command).context("start nginx")?;
    let server = Server { child, address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)) };
    let began = Instant::now();
    while TcpStream::connect(server.address).is_err() {
        ensure!(began.elapsed() < Duration::from_secs(10), "nginx does not serve (is libnginx-mod-stream installed?)");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(server)
}
