//! `landau serve`: the web server.

use crate::options::{Numbers, numbers};
use crate::status;
use landau_serve::systemd::{self, Notifier};
use landau_serve::{
    Accepting, AccessLog, Config, Listen, LogFormat, LogTarget, Remote, SandboxMode, Server, Timeouts, TlsFiles, User,
};
use landau_sys::signal::{self, ServiceSignal};
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  landau serve .                                     this folder at http://127.0.0.1:8080/
  landau serve /srv/www --listen :80 --workers 2     all addresses of both families
  landau serve . --listen unix:/run/landau.sock      a Unix socket
  landau serve . --log - --log-format json           a line for each answer
  landau serve /srv/www --tls cert.pem key.pem       https://127.0.0.1:8080/
  landau serve . --metrics 127.0.0.1:9100            http://127.0.0.1:9100/metrics for Prometheus
  sudo landau serve /srv/www --listen :80            binds as root, then becomes nobody
  landau serve /srv --virtual-hosts                  /srv/example.org for that host, /srv/default for all others")]
pub(crate) struct Args {
    /// The folder whose files are served
    #[arg(value_name = "DIR")]
    root: PathBuf,
    /// Where to listen: ADDRESS:PORT, :PORT for all addresses, unix:PATH, or fd:NUMBER for a socket that was passed on;
    /// may be given several times. Sockets passed on by systemd are taken by themselves [default: 127.0.0.1:8080]
    #[arg(long, short, value_name = "ADDRESS")]
    listen: Vec<Listen>,
    /// A certificate with its chain and its key, in PEM; may be given several times, and each is for the hosts in it.
    /// TLS is spoken at the addresses that begin with tls:, or at all if none does. SIGHUP reads them again
    #[arg(long, num_args = 2, value_names = ["CERT.pem", "KEY.pem"], action = clap::ArgAction::Append)]
    tls: Vec<PathBuf>,
    /// Whom to become when started as root, once all addresses are bound [default: nobody]
    #[arg(long, value_name = "NAME[:GROUP]")]
    user: Option<String>,
    /// Whether nothing but DIR and the log's folder can be opened once the server runs (Landlock): if-possible, always
    /// or never
    #[arg(long, value_name = "WHEN", default_value = "if-possible")]
    sandbox: SandboxMode,
    /// Answer /metrics for Prometheus at this address
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<Listen>,
    /// How many workers; each may hold as many connections as a process may hold descriptors
    #[arg(long, short, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: u16,
    /// Pin the workers to these processors, in turn
    #[arg(long, value_name = "LIST", value_parser = numbers)]
    pin: Option<Numbers>,
    /// The mechanism of the event loops [default: the system's best]
    #[arg(long, value_name = "NAME")]
    backend: Option<landau_reactor::Backend>,
    /// How connections come to the workers: each listens by itself (own), the same by the processor on which a
    /// connection arrives (steered), all at one socket (shared), the first accepts for all (handed), or the kernel
    /// accepts, receives and sends for each, by a ring (multishot)
    #[arg(long, value_name = "HOW", default_value = "own", value_parser = accepting)]
    accept: Accepting,
    /// Connections that may wait to be accepted
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..))]
    backlog: u32,
    /// Accept a connection only when its first request has come, or after so many seconds: cheaper where each request
    /// has a connection of its own
    #[arg(long, value_name = "S")]
    defer_accept: Option<u32>,
    /// The most connections in all; further ones are answered with 503
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_connections: Option<u32>,
    /// The most connections from one address (or one /64 of IPv6); further ones are answered with 429
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_per_address: Option<u32>,
    /// Write a line for each answer to the end of this file, or to standard output (-); SIGHUP opens the file again
    #[arg(long, value_name = "FILE")]
    log: Option<LogTarget>,
    /// How the log's lines look: common, combined (with referring page and client) or json
    #[arg(long, value_name = "FORMAT", default_value = "common")]
    log_format: LogFormat,
    /// Seconds for a request's head
    #[arg(long, value_name = "S", default_value = "10", value_parser = patience)]
    head_timeout: Duration,
    /// Seconds that a connection may be idle
    #[arg(long, value_name = "S", default_value = "60", value_parser = patience)]
    idle_timeout: Duration,
    /// Seconds in which a client must take 4 KiB of its answer
    #[arg(long, value_name = "S", default_value = "20", value_parser = patience)]
    send_timeout: Duration,
    /// Seconds that busy connections get when the server is told to end
    #[arg(long, value_name = "S", default_value = "10", value_parser = seconds)]
    drain_timeout: Duration,
    /// Bytes of a request's head
    #[arg(long, value_name = "N", default_value_t = 8192, value_parser = clap::value_parser!(u16).range(256..))]
    max_head: u16,
    /// Fields of a request's head
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..))]
    max_fields: u16,
    /// Which symbolic links are followed: those that stay inside, never, or anywhere
    #[arg(long, value_name = "WHICH", default_value = "inside", value_parser = links)]
    symlinks: landau_sys::path::Links,
    /// The file that a folder is answered with; may be given several times
    #[arg(long, value_name = "NAME", default_value = "index.html", value_parser = file_name)]
    index: Vec<String>,
    /// List no folders
    #[arg(long)]
    no_listings: bool,
    /// Each folder below DIR is a host
    #[arg(long)]
    virtual_hosts: bool,
    /// Mebibytes that each worker's cache may hold
    #[arg(long, value_name = "MIB", default_value_t = 64)]
    cache: u32,
    /// Milliseconds for which a worker believes its cache before it looks at the file again
    #[arg(long, value_name = "MS", default_value_t = 500)]
    cache_for: u64,
    /// Print JSON, one object a line: the addresses when the server is ready, the counters when it ends
    #[arg(long)]
    json: bool,
}

/// Where it listens when nobody says where: for this machine alone.
const DEFAULT_ADDRESS: &str = "127.0.0.1:8080";

fn accepting(text: &str) -> Result<Accepting, String> {
    let found = Accepting::ALL.iter().find(|(name, _)| *name == text);
    found.map(|(_, one)| *one).ok_or_else(|| "there are own, steered, shared, handed and multishot".to_owned())
}

fn links(text: &str) -> Result<landau_sys::path::Links, String> {
    match text {
        "inside" => Ok(landau_sys::path::Links::Inside),
        "never" => Ok(landau_sys::path::Links::Never),
        "anywhere" => Ok(landau_sys::path::Links::Anywhere),
        _ => Err("there are inside, never and anywhere".to_owned()),
    }
}

/// Up to so many seconds, eleven days: the longest that the event loop's clock tells from what has passed.
const LONGEST_S: f64 = 1e6;

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=LONGEST_S).contains(&value) => Ok(Duration::from_secs_f64(value)),
        _ => Err(format!("a time is a number of seconds up to {LONGEST_S}")),
    }
}

/// A time that somebody gets for something: none at all would be no patience.
fn patience(text: &str) -> Result<Duration, String> {
    let time = seconds(text)?;
    if time < Duration::from_millis(1) { Err("nobody does that in no time".to_owned()) } else { Ok(time) }
}

/// The name of a file in any folder.
fn file_name(text: &str) -> Result<String, String> {
    if text.is_empty() || text == "." || text == ".." || text.contains(['/', '\0']) {
        return Err("it is a name and no path: the file lies in the folder that it is the answer for".to_owned());
    }
    Ok(text.to_owned())
}

pub(crate) fn run(args: &Args) -> anyhow::Result<u8> {
    // Before any thread is there: all of them must hold the signals back.
    signal::block_service_signals();
    let notifier = Notifier::from_environment();
    let user = user(args)?;
    let mut config = config(args)?;
    config.log_owner = user.as_ref().map(|user| user.identity);
    let server = Server::start(config)?;
    if let Some(note) = server.give_up_privileges(user.as_ref())? {
        say(&note);
    }
    if args.json {
        status::print(&ready(&server, user.as_ref()).to_string())?;
    } else {
        tell_how_it_serves(args, &server, user.as_ref())?;
    }
    server.release();
    notifier.tell("READY=1");
    let (remote, drain) = (server.remote(), args.drain_timeout);
    std::thread::Builder::new().name("notices".to_owned()).spawn(move || heed(&remote, &notifier, drain))?;
    let totals = server.join()?;
    status::print(&if args.json {
        serde_json::json!({ "requests": totals.requests, "connections": totals.accepted }).to_string()
    } else {
        format!("{} requests on {} connections", totals.requests, totals.accepted)
    })?;
    Ok(status::DONE)
}

/// What a program that starts the server needs to know once it listens. An address is `ADDRESS:PORT`, `unix:PATH` or
/// `fd:NUMBER`.
fn ready(server: &Server, user: Option<&User>) -> serde_json::Value {
    let place = |address: &Listen| {
        let (place, is_tls) = address.address();
        serde_json::json!({ "address": place.to_string(), "tls": is_tls })
    };
    serde_json::json!({
        "listening": server.addresses().iter().map(place).collect::<Vec<_>>(),
        "metrics": server.metrics_address().map(|address| address.to_string()),
        "pid": std::process::id(),
        "sandbox": server.is_sandboxed(),
        "user": user.map(|user| &user.name),
    })
}

/// The parser sees to it that there are two.
fn pair(files: &[PathBuf]) -> Option<TlsFiles> {
    let [certificate, key] = files else { return None };
    Some(TlsFiles { certificate: certificate.clone(), key: key.clone() })
}

/// Whom to become: what was asked for, or nobody when root started it.
fn user(args: &Args) -> anyhow::Result<Option<User>> {
    let is_root = landau_sys::process::effective_user() == 0;
    match &args.user {
        Some(name) if !is_root => {
            anyhow::bail!("--user {name}: only root can become another user; start it as that user instead")
        }
        Some(name) => Ok(Some(name.parse()?)),
        None if is_root => Ok(Some("nobody".parse()?)),
        None => Ok(None),
    }
}

fn tell_how_it_serves(args: &Args, server: &Server, user: Option<&User>) -> anyhow::Result<()> {
    let user = user.map(|user| format!(" as {}", user.name)).unwrap_or_default();
    let fence = if server.is_sandboxed() { ", behind a fence" } else { "" };
    for address in server.addresses() {
        let place = match address.address() {
            (Listen::Tcp(place), true) => format!("https://{place}"),
            (Listen::Tcp(place), false) => format!("http://{place}"),
            _ => address.to_string(),
        };
        status::print(&format!("serving {} at {place}{user}{fence}", args.root.display()))?;
    }
    match server.metrics_address() {
        Some(Listen::Tcp(address)) => status::print(&format!("metrics at http://{address}/metrics")),
        Some(other) => status::print(&format!("metrics at {other}")),
        None => Ok(()),
    }
}

/// Signals within so long are one: who ends a group of processes, or a service, may tell one of them twice.
const ONE_SIGNAL: Duration = Duration::from_millis(200);

/// Does what signals tell, for as long as the process lives.
fn heed(remote: &Remote, notifier: &Notifier, drain_timeout: Duration) {
    let mut ending_since: Option<Instant> = None;
    loop {
        match (signal::wait_for_service_signal(), ending_since) {
            (ServiceSignal::Reload, _) => {
                notifier.tell_reloading();
                remote.reopen_log();
                remote.reload_certificates();
                notifier.tell("READY=1");
            }
            (ServiceSignal::Terminate, None) => {
                notifier.tell("STOPPING=1");
                let seconds = drain_timeout.as_secs_f64();
                say(&format!("ending: connections get {seconds} s for what is under way; again to end at once"));
                remote.drain();
                ending_since = Some(Instant::now());
            }
            (ServiceSignal::Terminate, Some(since)) if since.elapsed() < ONE_SIGNAL => {}
            (ServiceSignal::Terminate, Some(_)) => {
                say("ending at once");
                remote.end_now();
            }
        }
    }
}

/// Tells the operator.
fn say(text: &str) {
    status::tell(&format!("landau: {text}"));
}

/// The processors to pin workers to, if this process may run on them.
fn processors(args: &Args) -> anyhow::Result<Vec<u32>> {
    let wanted = args.pin.clone().map(|pins| pins.0).unwrap_or_default();
    let allowed = landau_sys::system::processors();
    if let Some(one) = wanted.iter().find(|one| !allowed.contains(one)) {
        let list: Vec<String> = allowed.iter().map(ToString::to_string).collect();
        anyhow::bail!("--pin {one}: this process may run on {} only", list.join(", "));
    }
    Ok(wanted)
}

fn config(args: &Args) -> anyhow::Result<Config> {
    let mut config = Config::new(&args.root);
    config.listen.clear();
    let default = DEFAULT_ADDRESS.parse()?;
    for one in args.listen.iter().cloned().chain(systemd::passed_sockets()) {
        match config.listen.iter().find(|known| known.address().0 == one.address().0) {
            None => config.listen.push(one),
            // A socket that was passed on and is named besides is one socket.
            Some(known) if known.address().1 == one.address().1 || matches!(one.address().0, Listen::Inherited(_)) => {}
            Some(known) => anyhow::bail!("{known} and {one}: one address speaks TLS or does not; name two"),
        }
    }
    if config.listen.is_empty() {
        config.listen.push(default);
    }
    config.tls = args.tls.chunks(2).filter_map(pair).collect();
    let is_any_sealed = config.listen.iter().any(|listen| listen.address().1);
    if !config.tls.is_empty() && !is_any_sealed {
        config.listen = config.listen.into_iter().map(|listen| Listen::Tls(Box::new(listen))).collect();
    }
    if let Some((place, true)) = args.metrics.as_ref().map(Listen::address) {
        anyhow::bail!("--metrics tls:{place}: the metrics are told without TLS; name an address of a private network");
    }
    config.metrics.clone_from(&args.metrics);
    config.sets_no_new_privileges = true;
    config.sandbox = args.sandbox;
    config.workers = usize::from(args.workers);
    config.processors = processors(args)?;
    if let (Some(backend), Accepting::Multishot) = (args.backend, args.accept) {
        anyhow::bail!("--backend {backend} with --accept multishot: there a ring does all that a mechanism would");
    }
    config.backend = args.backend.unwrap_or_default();
    config.accepting = args.accept;
    config.backlog = args.backlog;
    config.defer_accept_s = args.defer_accept;
    config.connections = args.max_connections.map(|count| count as usize);
    config.connections_per_address = args.max_per_address;
    config.timeouts = Timeouts {
        head: args.head_timeout,
        idle: args.idle_timeout,
        send: args.send_timeout,
        drain: args.drain_timeout,
    };
    config.limits.head_bytes = usize::from(args.max_head);
    config.limits.line_bytes = config.limits.line_bytes.min(config.limits.head_bytes);
    config.limits.fields = usize::from(args.max_fields);
    config.links = args.symlinks;
    config.index.clone_from(&args.index);
    config.listings = !args.no_listings;
    config.virtual_hosts = args.virtual_hosts;
    config.cache_bytes = (args.cache as usize) << 20;
    config.cache_for = Duration::from_millis(args.cache_for);
    config.log = args.log.clone().map(|target| AccessLog { target, format: args.log_format });
    config.say = say;
    Ok(config)
}
