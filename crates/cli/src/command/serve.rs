//! `landau serve`: the web server.

mod file;
mod running;

use crate::options::{Numbers, numbers};
use crate::status;
use landau_serve::{
    Accepting, AccessLog, Config, Listen, LiveRules, LogFormat, LogTarget, Networks, SandboxMode, Server, Timeouts,
    TlsFiles, User, supervisor, systemd,
};
use landau_units::{duration_in, size_in};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[command(after_help = "Examples:
  landau serve .                                     this directory at http://127.0.0.1:8080/
  landau serve /srv/www --listen :80 --workers 2     all addresses, IPv4 and IPv6
  landau serve . --listen unix:/run/landau.sock      a Unix socket
  landau serve . --log - --log-format json           one line of JSON for each response
  landau serve /srv/www --tls cert.pem key.pem       https://127.0.0.1:8080/
  landau serve . --metrics 127.0.0.1:9100            http://127.0.0.1:9100/metrics for Prometheus
  sudo landau serve /srv/www --listen :80            bind port 80 as root, then switch to nobody
  landau serve /srv/www --processes 2                two processes under a supervisor
  landau serve --config /etc/landau/serve.toml --check   check a configuration file
  landau serve /srv --virtual-hosts                  /srv/HOST for HOST, /srv/default for others
  landau serve . --listen 127.0.0.1:0 --json | head -1   print the port that the system chose")]
pub(crate) struct Args {
    /// Serve the files of this directory
    #[arg(value_name = "DIR", required_unless_present = "config")]
    root: Option<PathBuf>,
    /// Read flags, by their long names, and rules by path from this file (TOML). Flags of the command line override it.
    /// SIGHUP reloads the rules
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Check the configuration file and the directory, certificates, user and users files that it names; print each
    /// error, with its line if it is in the file, and exit
    #[arg(long, requires = "config")]
    check: bool,
    /// Listen at ADDRESS:PORT, :PORT (all addresses), unix:PATH or fd:NUMBER (an inherited socket), with tls: before it
    /// for TLS; repeatable. The sockets that systemd passes are served too [default: 127.0.0.1:8080, if
    /// systemd passes none]
    #[arg(long, short, value_name = "ADDRESS")]
    listen: Vec<Listen>,
    /// Use this certificate chain and key (PEM) for TLS; repeatable: each certificate is used for the host names in it.
    /// Applies to the addresses with tls:, or to all addresses if none has it. SIGHUP reloads the files
    #[arg(long, num_args = 2, value_names = ["CERT.pem", "KEY.pem"], action = clap::ArgAction::Append)]
    tls: Vec<PathBuf>,
    /// Switch to this user after binding, when started as root [default: nobody]
    #[arg(long, value_name = "NAME[:GROUP]")]
    user: Option<String>,
    /// Allow the server to open only DIR, the directory that contains it (so that a replaced DIR is followed) and the
    /// log's directory (Landlock): if-possible, always or never
    #[arg(long, value_name = "WHEN", default_value = "if-possible")]
    sandbox: SandboxMode,
    /// Also allow the sandboxed server to open this directory, to which a symbolic link at DIR may point later;
    /// repeatable
    #[arg(long, value_name = "DIR")]
    sandbox_read: Vec<PathBuf>,
    /// Serve metrics for Prometheus at /metrics of this address; a socket from systemd that is named here (fd:4) serves
    /// no files
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<Listen>,
    /// Run this many workers (threads). On Linux each worker has its own descriptor table, so that `ulimit -n` limits
    /// the connections of each worker, not those of all workers together
    #[arg(long, short, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: u16,
    /// Run this many worker processes, each with its own workers, under a supervisor that replaces each one that ends.
    /// All accept from the same sockets (--accept own and steered act as shared); limits on connections and on memory
    /// are divided among them, and --max-per-address holds for each [default: one process, no supervisor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    processes: Option<u16>,
    /// Pin the workers to these CPUs, round-robin: 1 or 0-3,6 [default: not pinned]
    #[arg(long, value_name = "LIST", value_parser = numbers)]
    pin: Option<Numbers>,
    /// Use this backend for the event loops: select, poll, epoll, epoll-edge, sigio, `io_uring` (multishot polls),
    /// `io_uring-once` (one-shot polls) or kqueue [default: epoll on Linux, kqueue on BSD and macOS, poll on illumos]
    #[arg(long, value_name = "NAME")]
    backend: Option<landau_reactor::Backend>,
    /// Distribute connections over the workers. own: each worker has a listening socket (`SO_REUSEPORT`); steered: like
    /// own, and the CPU that receives a connection selects the socket; shared: all workers accept from one socket;
    /// handed: the first worker accepts for all; multishot: each worker accepts and receives with `io_uring`
    #[arg(long, value_name = "HOW", default_value = "own", value_parser = accepting)]
    accept: Accepting,
    /// Let this many connections wait to be accepted, at each listening socket
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..))]
    backlog: u32,
    /// Accept a connection when its first request arrives, or after this time, such as 1s (`TCP_DEFER_ACCEPT`); saves
    /// CPU time if clients make a connection for each request [default: accept at once]
    #[arg(long, value_name = "TIME", value_parser = duration_in(S..=DAY))]
    defer_accept: Option<Duration>,
    /// Limit the number of connections; further ones are answered with 503 [default: as many as the limit on open files
    /// allows]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_connections: Option<u32>,
    /// Limit the number of connections from one address (for IPv6, from one /64 network); further ones are answered
    /// with 429 [default: no limit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_per_address: Option<u32>,
    /// Expect a header of the PROXY protocol (version 1 or 2) at the beginning of connections from these proxies: an
    /// address, a network such as 10.0.0.0/8, or unix; repeatable. A connection without it is closed [default: none]
    #[arg(long, value_name = "NETWORK", value_parser = network)]
    proxy_protocol: Vec<String>,
    /// Trust X-Forwarded-For and X-Forwarded-Proto from these proxies, for the log and the rules: an address, a network
    /// such as 10.0.0.0/8, or unix; repeatable [default: none]
    #[arg(long, value_name = "NETWORK", value_parser = network)]
    forwarded_from: Vec<String>,
    /// Append a line for each response to this file, or write it to standard output (-). SIGHUP reopens the file
    /// [default: no log]
    #[arg(long, value_name = "FILE")]
    log: Option<LogTarget>,
    /// Write log lines in this format: common, combined (with referrer and user agent) or json
    #[arg(long, value_name = "FORMAT", default_value = "common")]
    log_format: LogFormat,
    /// Limit the time for a request's head, and for a TLS handshake
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration_in(MS..=DAY * 11))]
    head_timeout: Duration,
    /// Close connections that are idle for this long
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration_in(MS..=DAY * 11))]
    idle_timeout: Duration,
    /// Close connections whose client takes less than 4 KiB of its response in this time, or sends less than 4 KiB of
    /// the content of a forwarded request
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = duration_in(MS..=DAY * 11))]
    send_timeout: Duration,
    /// Wait this long for busy connections when a signal stops the server
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration_in(Duration::ZERO..=DAY * 11))]
    drain_timeout: Duration,
    /// Limit the size of a request's head; longer ones are answered with 431
    #[arg(long, value_name = "SIZE", default_value = "32KiB", value_parser = size_in(256..=65_535))]
    max_head: u64,
    /// Limit the size of a request line; longer ones are answered with 414 [default: 8KiB, or --max-head if that is
    /// less]
    #[arg(long, value_name = "SIZE", value_parser = size_in(64..=65_535))]
    max_line: Option<u64>,
    /// Limit the number of header fields of a request; more are answered with 431
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..))]
    max_fields: u16,
    /// Disable HTTP/2. By default, the server offers HTTP/2 over TLS, and accepts it from clients that start with it
    /// (prior knowledge)
    #[arg(long)]
    no_http2: bool,
    /// Follow symbolic links. inside: only those that stay inside DIR; never: none; anywhere: all
    #[arg(long, value_name = "WHICH", default_value = "inside", value_parser = links)]
    symlinks: landau_sys::path::Links,
    /// Answer a request for a directory with this file, if it exists; repeatable
    #[arg(long, value_name = "NAME", default_value = "index.html", value_parser = file_name)]
    index: Vec<String>,
    /// Do not list directories that have no index file
    #[arg(long)]
    no_listings: bool,
    /// Serve each directory in DIR as the virtual host with the name of the directory
    #[arg(long)]
    virtual_hosts: bool,
    /// Limit the memory of each worker's file cache
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size_in(0..=1 << 40))]
    cache: u64,
    /// Limit the memory of all connections: incomplete requests, responses that clients have not read, TLS. At the
    /// limit, further incomplete requests are answered with 503 [default: half of what the system, the control group
    /// and the process limits leave]
    #[arg(long, value_name = "SIZE", value_parser = size_in(1 << 20..=1 << 44))]
    memory: Option<u64>,
    /// Trust cached file data for this long before checking the file again
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = duration_in(Duration::ZERO..=DAY))]
    cache_for: Duration,
    /// Print JSON, one object a line: the addresses when the server is ready, the counters when it ends
    #[arg(long)]
    json: bool,
}

const MS: Duration = Duration::from_millis(1);
const S: Duration = Duration::from_secs(1);
/// Times are at most eleven days: the event loop's clock counts milliseconds in 32 bits.
const DAY: Duration = Duration::from_secs(86_400);

/// The default address: reachable from this machine only.
const DEFAULT_ADDRESS: &str = "127.0.0.1:8080";

fn accepting(text: &str) -> Result<Accepting, String> {
    let found = Accepting::ALL.iter().find(|(name, _)| *name == text);
    found.map(|(_, one)| *one).ok_or_else(|| "expected own, steered, shared, handed or multishot".to_owned())
}

fn links(text: &str) -> Result<landau_sys::path::Links, String> {
    match text {
        "inside" => Ok(landau_sys::path::Links::Inside),
        "never" => Ok(landau_sys::path::Links::Never),
        "anywhere" => Ok(landau_sys::path::Links::Anywhere),
        _ => Err("expected inside, never or anywhere".to_owned()),
    }
}

/// Returns the networks of a flag; `None` if there are none.
fn networks(flag: &str, texts: &[String]) -> anyhow::Result<Option<Networks>> {
    let mut networks = Networks::default();
    for text in texts {
        networks.add(text).map_err(|why| anyhow::anyhow!("{flag} {text}: {why}"))?;
    }
    Ok((!texts.is_empty()).then_some(networks))
}

/// Checks that a text is a network.
fn network(text: &str) -> Result<String, String> {
    Networks::default().add(text).map(|()| text.to_owned())
}

/// Parses the name of an index file.
fn file_name(text: &str) -> Result<String, String> {
    if text.is_empty() || text == "." || text == ".." || text.contains(['/', '\0']) {
        return Err("must be a file name without a slash; the file is looked for in each directory".to_owned());
    }
    let names: Vec<&str> = text.split_whitespace().collect();
    if names.len() > 1 && names.iter().all(|name| name.contains('.')) {
        return Err("looks like several names; specify each separately: --index a --index b on the command line, \
             index = [\"a\", \"b\"] in a configuration file"
            .to_owned());
    }
    Ok(text.to_owned())
}

pub(crate) fn run(args: &Args) -> anyhow::Result<u8> {
    let Some(path) = &args.config else { return serve(args, None) };
    let (merged, rules) = file::read(path)?;
    if args.check { check(path, &merged, rules) } else { serve(&merged, Some(rules)) }
}

/// Reports the errors of a configuration: those of its text, and those of the files that it names.
fn check(path: &Path, args: &Args, rules: LiveRules) -> anyhow::Result<u8> {
    let rules = Arc::new(rules);
    let user = resolved_user(args, landau_sys::process::effective_user() == 0);
    let (user, wrong_user) = user.map_or_else(|error| (None, Some(error.into())), |user| (user, None));
    let (mut of_rules, mut wrong): (_, Vec<anyhow::Error>) = (Vec::new(), wrong_user.into_iter().collect());
    match config(args) {
        Err(error) => wrong.push(error),
        Ok(mut config) => {
            config.rules = Some(rules.clone());
            // Done before the check, which switches to another user.
            of_rules = surveyed(&rules, &config);
            wrong.extend(Server::check(&config, user.as_ref()).into_iter().map(anyhow::Error::from));
        }
    }
    let of_files = wrong.iter().map(|error| file::placed(path, rules.settings(), error));
    let wrong: Vec<String> = of_files.chain(of_rules).collect();
    anyhow::ensure!(wrong.is_empty(), "{}", wrong.join("\nlandau: "));
    status::print(&format!("{}: no errors", path.display()))?;
    Ok(status::DONE)
}

fn serve(args: &Args, rules: Option<LiveRules>) -> anyhow::Result<u8> {
    let user = user(args)?;
    let mut config = config(args)?;
    if let Some(rules) = &rules {
        let wrong = surveyed(rules, &config);
        anyhow::ensure!(wrong.is_empty(), "{}", wrong.join("\nlandau: "));
    }
    config.rules = rules.map(Arc::new);
    config.log_owner = user.as_ref().map(|user| user.identity);
    let (root, drain_timeout, is_json) = (config.root.clone(), args.drain_timeout, args.json);
    let start = running::Start { root, user, drain_timeout, is_json };
    match args.processes {
        Some(count) => running::supervised(start, config, usize::from(count)),
        None => running::alone(&start, config),
    }
}

/// Returns a certificate and its key. The parser ensures that there are two files.
fn pair(files: &[PathBuf]) -> Option<TlsFiles> {
    let [certificate, key] = files else { return None };
    Some(TlsFiles { certificate: certificate.clone(), key: key.clone() })
}

/// Returns the user to switch to: the given one, or nobody if root started the server.
fn user(args: &Args) -> anyhow::Result<Option<User>> {
    let is_root = landau_sys::process::effective_user() == 0;
    if let (Some(name), false) = (&args.user, is_root) {
        anyhow::bail!("--user {name}: only root can switch to another user; start the server as that user instead");
    }
    Ok(resolved_user(args, is_root)?)
}

fn resolved_user(args: &Args, is_root: bool) -> Result<Option<User>, landau_serve::Error> {
    args.user.as_deref().or(is_root.then_some("nobody")).map(str::parse).transpose()
}

/// Prints a message for the operator, once for all processes of a server.
fn report(text: &str) {
    if !supervisor::is_repeated(text) {
        status::tell(&format!("landau: {text}"));
    }
}

/// Warns the operator of probable mistakes in the rules, and returns their errors.
fn surveyed(rules: &LiveRules, config: &Config) -> Vec<String> {
    let survey = rules.survey(config);
    survey.warnings.iter().for_each(|warning| report(&format!("warning: {warning}")));
    survey.errors
}

/// Returns the CPUs to pin workers to; an error if this process may not run on one of them.
fn processors(args: &Args) -> anyhow::Result<Vec<u32>> {
    let wanted = args.pin.clone().map(|pins| pins.0).unwrap_or_default();
    let allowed = landau_sys::system::processors();
    if let Some(one) = wanted.iter().find(|one| !allowed.contains(one)) {
        let list: Vec<String> = allowed.iter().map(ToString::to_string).collect();
        anyhow::bail!("--pin {one}: this process may use only the CPUs {}", list.join(", "));
    }
    Ok(wanted)
}

/// Returns where to listen for requests: the given addresses, and the sockets from systemd except that for the metrics.
fn addresses(args: &Args) -> anyhow::Result<Vec<Listen>> {
    let mut listen: Vec<Listen> = Vec::new();
    let inherited_metrics = args.metrics.as_ref().filter(|place| matches!(place, Listen::Inherited(_)));
    if let Some(place) = inherited_metrics.filter(|&place| args.listen.iter().any(|one| one.address().0 == place)) {
        anyhow::bail!(
            "--listen {place} --metrics {place}: a socket cannot serve both files and metrics; use two sockets"
        );
    }
    let passed = systemd::passed_sockets().into_iter().filter(|one| Some(one) != inherited_metrics);
    for one in args.listen.iter().cloned().chain(passed) {
        match listen.iter().find(|known| known.address().0 == one.address().0) {
            None => listen.push(one),
            // An inherited socket that is also given with --listen is the same socket.
            Some(known) if known.address().1 == one.address().1 || matches!(one.address().0, Listen::Inherited(_)) => {}
            Some(known) => {
                anyhow::bail!(
                    "--listen {known} and {one}: an address cannot serve both TLS and plain HTTP; use two addresses"
                )
            }
        }
    }
    if listen.is_empty() {
        listen.push(DEFAULT_ADDRESS.parse()?);
    }
    Ok(listen)
}

fn config(args: &Args) -> anyhow::Result<Config> {
    let mut config = Config::new(args.root.as_deref().unwrap_or(Path::new(".")));
    config.listen = addresses(args)?;
    config.tls = args.tls.chunks(2).filter_map(pair).collect();
    let has_tls_address = config.listen.iter().any(|listen| listen.address().1);
    if !config.tls.is_empty() && !has_tls_address {
        config.listen = config.listen.into_iter().map(|listen| Listen::Tls(Box::new(listen))).collect();
    }
    if let Some((place, true)) = args.metrics.as_ref().map(Listen::address) {
        anyhow::bail!("--metrics tls:{place}: metrics are served without TLS; use a private address without tls:");
    }
    config.metrics.clone_from(&args.metrics);
    config.sets_no_new_privileges = true;
    config.sandbox = args.sandbox;
    config.sandbox_read.clone_from(&args.sandbox_read);
    config.workers = usize::from(args.workers);
    config.processors = processors(args)?;
    if let (Some(backend), Accepting::Multishot) = (args.backend, args.accept) {
        anyhow::bail!(
            "--backend {backend} with --accept multishot: io_uring replaces the backend; omit one of the two"
        );
    }
    config.backend = args.backend.unwrap_or_default();
    config.accepting = args.accept;
    config.backlog = args.backlog;
    // `TCP_DEFER_ACCEPT` has a resolution of one second.
    config.defer_accept_s = args.defer_accept.map(|time| time.as_millis().div_ceil(1000) as u32);
    config.connections = args.max_connections.map(|count| count as usize);
    config.connections_per_address = args.max_per_address;
    config.timeouts = Timeouts {
        head: args.head_timeout,
        idle: args.idle_timeout,
        send: args.send_timeout,
        drain: args.drain_timeout,
    };
    config.limits.head_bytes = args.max_head as usize;
    if let Some(line) = args.max_line.filter(|&line| line > args.max_head) {
        anyhow::bail!(
            "--max-line {line}: a request line is a part of the head, which --max-head limits to {}",
            args.max_head
        );
    }
    let line_bytes = args.max_line.map_or(config.limits.line_bytes, |line| line as usize);
    config.limits.line_bytes = line_bytes.min(config.limits.head_bytes);
    config.limits.fields = usize::from(args.max_fields);
    config.http2 = !args.no_http2;
    config.links = args.symlinks;
    config.index.clone_from(&args.index);
    config.listings = !args.no_listings;
    config.virtual_hosts = args.virtual_hosts;
    config.cache_bytes = usize::try_from(args.cache).unwrap_or(usize::MAX);
    config.memory_bytes = args.memory.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    config.cache_for = args.cache_for;
    if (&args.log, args.processes.is_some_and(|count| count > 1)) == (&Some(LogTarget::Output), true) {
        anyhow::bail!("--log - with --processes: the lines of several processes would interleave; log to a file");
    }
    config.log = args.log.clone().map(|target| AccessLog { target, format: args.log_format });
    config.forwarded_from = networks("--forwarded-from", &args.forwarded_from)?;
    config.proxies = networks("--proxy-protocol", &args.proxy_protocol)?;
    config.report = report;
    Ok(config)
}
