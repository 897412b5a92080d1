//! A server as a process of its own, for the benchmarks of connections and requests: never linked into the process that
//! measures, on another processor where there is one, and gone with it.
//!
//! It stays in the worker's process group and is killed when the worker ends, however that ends. So it has to be one
//! process in the foreground: what others are started with here sees to that.

use crate::backend;
use landau_engine::{Context, Facts, Host, Settings, Stop, Support, Unit};
use landau_reactor::Backend;
use landau_sys::clock::monotonic_ns;
use landau_sys::limits::{Resource, get};
use landau_sys::process::OwnedChild;
use landau_sys::wait::SELECT_CAPACITY;
use landau_sys::{socket, stream, system};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The servers that are known by name, ours first.
pub(crate) const SERVERS: &[&str] = &["landau", "nginx", "lighttpd", "h2o"];

/// Where programs are looked for: a worker has no environment.
const FOLDERS: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// How long a server may take until it accepts connections.
const START_NS: u64 = 20_000_000_000;

/// How long a connection may be idle, in seconds: longer than any sweep, so that n is no fiction. It fits 15 bits, in
/// which one of the servers keeps it.
const IDLE_S: u32 = 30_000;

/// What stands for a server whose table of descriptors is full.
pub(crate) const FULL: landau_sys::Error = landau_sys::Error { call: "accept", errno: libc::EMFILE };

/// Descriptors that a server may keep back for itself.
const SPARE: u64 = 16;

/// The name of the file that is asked for.
pub(crate) const FILE: &str = "file";

/// A running server, or somebody else's.
#[derive(Debug)]
pub(crate) struct Server {
    child: Option<OwnedChild>,
    /// What it was started as.
    name: String,
    processor: Option<u32>,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// The request that it is asked, whole.
    pub(crate) request: Vec<u8>,
    began: Account,
}

/// Processor time of server and client, and what the kernel turned away, at a moment.
#[derive(Debug, Clone, Copy, Default)]
struct Account {
    at_ns: u64,
    server_ns: Option<u64>,
    client_ns: Option<u64>,
    losses: Option<(u64, u64)>,
}

/// Whether a server can be had here as the settings say.
pub(crate) fn support(host: &Host, settings: &Settings) -> Support {
    if host.clock.unit != Unit::Ns {
        return Support::No("a server beside the client needs real time, and a processor of its own".to_owned());
    }
    if let Err(error) = loopback_works() {
        return Support::No(format!("this host's loopback carries no connection ({error})"));
    }
    let (server, backend) = (settings.text("server"), backend::named(settings, "backend"));
    let is_foreign = is_set(settings, "url") || is_set(settings, "command");
    if is_set(settings, "url") && is_set(settings, "command") {
        return Support::No("both url and command are set; one of them says which server".to_owned());
    }
    if is_foreign && (server != "landau" || backend != Backend::default()) {
        return Support::No("url or command says which server, and its backend is its own".to_owned());
    }
    if is_set(settings, "url")
        && let Err(Stop::Wrong(why)) = Server::elsewhere(settings.text("url"))
    {
        return Support::No(why);
    }
    if is_foreign {
        return Support::Yes;
    }
    if server == "landau" {
        return match backend {
            Backend::Null => {
                Support::No("a server that takes all for ready never sleeps and proves nothing".to_owned())
            }
            other => backend::support(other),
        };
    }
    if backend != Backend::default() {
        return Support::No(format!("the backend is chosen for server=landau; {server} takes its own"));
    }
    Support::when(find(server).is_some(), &format!("{server} is not installed (apt-get install {server})"))
}

/// Whether a parameter that a benchmark may have says something.
fn is_set(settings: &Settings, name: &str) -> bool {
    !matches!(settings.text(name), "" | "none")
}

/// Whether a connection to ourselves can be made.
fn loopback_works() -> std::io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    // What cannot be reset waits out TIME_WAIT, one socket of it.
    let _ = stream::set_reset_on_close(&client);
    Ok(())
}

/// Where a program is.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    FOLDERS.iter().map(|folder| Path::new(folder).join(program)).find(|path| path.is_file())
}

/// A file that is asked for, of so many bytes, in a folder of its own.
fn folder(context: &Context) -> Result<PathBuf, Stop> {
    let io = |error: std::io::Error| Stop::io("write", &error);
    let bytes = context.settings.bytes("file");
    let folder = context.scratch.join(format!("www-{bytes}"));
    fs::create_dir_all(&folder).map_err(io)?;
    let path = folder.join(FILE);
    if fs::metadata(&path).map_or(u64::MAX, |meta| meta.len()) != bytes {
        fs::write(&path, "landau\n".bytes().cycle().take(bytes as usize).collect::<Vec<_>>()).map_err(io)?;
    }
    Ok(folder)
}

impl Server {
    /// Starts the server of the settings, or takes the one that is there; returns when it accepts connections.
    pub(crate) fn of(context: &Context) -> Result<Self, Stop> {
        let settings = context.settings;
        if is_set(settings, "url") {
            return Self::elsewhere(settings.text("url"));
        }
        Self::start(context, &folder(context)?)
    }

    /// Starts the server of the settings on that folder.
    pub(crate) fn start(context: &Context, folder: &Path) -> Result<Self, Stop> {
        let is_ours = !is_set(context.settings, "command") && context.settings.is("server", "landau");
        let port = if is_ours { 0 } else { free_port()? };
        let (name, mut command) = command(context, folder, port)?;
        let log = context.scratch.join("server.log");
        let errors = File::create(&log).map_err(|error| Stop::io("open", &error))?;
        command.stdin(Stdio::null()).stderr(errors);
        command.stdout(if is_ours { Stdio::piped() } else { Stdio::null() });
        let (spawned, processor) = beside(context.host.pinned_processor, || OwnedChild::spawn(&mut command));
        let child = spawned.map_err(|error| Stop::Wrong(format!("{name} cannot be started: {error}")))?;
        let mut server = Self {
            child: Some(child),
            name,
            processor,
            address: (Ipv4Addr::LOCALHOST, port).into(),
            request: request("localhost", &format!("/{FILE}")),
            began: Account::default(),
        };
        let ready = if is_ours { server.await_word() } else { server.await_connection() };
        ready.map_err(|reason| {
            let said = fs::read_to_string(&log).unwrap_or_default();
            let last = said.lines().last().unwrap_or("it said nothing");
            Stop::Wrong(format!("{} does not serve: {reason}; {last}", server.name))
        })?;
        Ok(server)
    }

    /// A server that somebody else has started.
    fn elsewhere(url: &str) -> Result<Self, Stop> {
        let rest = url.strip_prefix("http://").unwrap_or(url);
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let place = if has_port { host.to_owned() } else { format!("{host}:80") };
        let found = place.to_socket_addrs().ok().and_then(|mut all| all.next());
        let address = found.ok_or_else(|| Stop::Wrong(format!("{place}: no such host")))?;
        // Thousands of connections are nothing to send to a stranger by a slip of the pen.
        if !socket::is_own(address.ip()) {
            return Err(Stop::Wrong(format!(
                "{place} is neither this machine nor in a private network; `landau load --i-may-load {}` asks others",
                address.ip()
            )));
        }
        let request = request(host, &format!("/{path}"));
        Ok(Self { child: None, name: url.to_owned(), processor: None, address, request, began: Account::default() })
    }

    /// Our own says where it listens.
    fn await_word(&mut self) -> Result<(), String> {
        let out = self.child.as_mut().and_then(|child| child.stdout.as_mut()).ok_or("it has no output")?;
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line).map_err(|error| error.to_string())?;
        let (_, said) = line.rsplit_once("http://").unwrap_or_default();
        let end = said.find(|letter: char| letter == ',' || letter.is_whitespace()).unwrap_or(said.len());
        let address = said[..end].parse().ok();
        self.address = address.ok_or_else(|| format!("it said {line:?}"))?;
        Ok(())
    }

    /// Others are asked until they answer.
    fn await_connection(&mut self) -> Result<(), String> {
        let until = monotonic_ns() + START_NS;
        loop {
            let refused = match TcpStream::connect(self.address) {
                Ok(client) => return stream::set_reset_on_close(&client).map_err(|error| error.to_string()),
                Err(error) => error,
            };
            if let Some(Ok(Some(status))) = self.child.as_mut().map(|child| child.try_wait()) {
                return Err(format!("it ended ({status})"));
            }
            if monotonic_ns() > until {
                return Err(refused.to_string());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// From here on processor time is counted.
    pub(crate) fn begin(&mut self) {
        self.began = self.account();
    }

    fn account(&self) -> Account {
        let pid = self.child.as_ref().map(|child| child.id());
        Account {
            at_ns: monotonic_ns(),
            server_ns: pid.and_then(|pid| system::process_tree(pid).into_iter().map(system::cpu_time_ns).sum()),
            client_ns: system::cpu_time_ns(std::process::id()),
            losses: system::listen_drops(),
        }
    }

    /// How many descriptors the server's fullest process has open, where the system says so.
    pub(crate) fn descriptors(&self) -> Option<u64> {
        let pid = self.child.as_ref()?.id();
        system::process_tree(pid).into_iter().filter_map(system::descriptor_count).max()
    }

    /// The processor that it was given, where it was started here.
    pub(crate) fn processor(&self) -> Option<u32> {
        self.processor
    }

    /// Whether it was started here, and not by somebody else.
    pub(crate) fn is_started(&self) -> bool {
        self.child.is_some()
    }

    /// Why it takes no more connections: its table of descriptors is full, or as good as that, or its set of `select`.
    pub(crate) fn full(&self) -> Option<landau_sys::Error> {
        let count = self.descriptors()?;
        if self.name.ends_with(" select") && count + SPARE >= SELECT_CAPACITY as u64 {
            return Some(landau_sys::Error { call: "select", errno: libc::EINVAL });
        }
        let limit = get(Resource::Descriptors).map_or(u64::MAX, |(soft, _)| soft);
        // It takes no more connections than half of its descriptors, whatever it is told.
        let limit = if self.name == "lighttpd" { limit / 2 } else { limit };
        (count + SPARE >= limit).then_some(FULL)
    }

    /// What it was, where it ran, and what it took since [`Server::begin`] for so many steps.
    pub(crate) fn facts(&self, client: Option<u32>, steps: u64, facts: &mut Facts) {
        let mut fact = |name: &str, text: String| facts.text(name, text);
        let (from, to) = (self.began, self.account());
        let place =
            |processor: Option<u32>| processor.map_or("any processor".to_owned(), |one| format!("processor {one}"));
        let whole = (to.at_ns - from.at_ns).max(1);
        let share = |from: Option<u64>, to: Option<u64>| match from.zip(to) {
            Some((from, to)) => {
                let used = to.saturating_sub(from);
                let each_us = used as f64 / 1e3 / steps.max(1) as f64;
                format!("{:.0}% busy, {each_us:.1} µs a step", used as f64 * 100.0 / whole as f64)
            }
            None => "use not known".to_owned(),
        };
        fact("server", self.name.clone());
        if self.child.is_some() {
            let used = share(from.server_ns, to.server_ns);
            fact("the server's processor", format!("{}, {used}", place(self.processor)));
        }
        fact("the client's processor", format!("{}, {}", place(client), share(from.client_ns, to.client_ns)));
        let lost = match from.losses.zip(to.losses) {
            Some((from, to)) => format!("{} and {}", to.0.saturating_sub(from.0), to.1.saturating_sub(from.1)),
            None => "not known".to_owned(),
        };
        fact("ListenOverflows and ListenDrops meanwhile", lost);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let family = system::process_tree(child.id());
            let _ = child.kill();
            for &pid in &family[1..] {
                let _ = landau_sys::process::kill(pid);
            }
        }
    }
}

fn request(host: &str, path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: landau\r\n\r\n").into_bytes()
}

/// A port that was free a moment ago.
fn free_port() -> Result<u16, Stop> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|error| Stop::io("bind", &error))?;
    Ok(listener.local_addr().map_err(|error| Stop::io("getsockname", &error))?.port())
}

/// Calls while this process sits on another processor than its own, so that what it starts does too; which one, where
/// there is one.
fn beside<T>(own: Option<u32>, call: impl FnOnce() -> T) -> (T, Option<u32>) {
    let Some(own) = own else { return (call(), None) };
    // The controller sits where the worker may not be; both are one program to the user.
    let allowed = system::processors_of(landau_sys::process::parent_id().unsigned_abs()).unwrap_or_default();
    let other = allowed.into_iter().find(|&one| one != own).unwrap_or(own);
    let moved = system::pin(&[other]).is_ok();
    let value = call();
    // It was there a moment ago, so it may go back.
    let _ = system::pin(&[own]);
    (value, moved.then_some(other))
}

/// What the settings ask to be started, and its name.
fn command(context: &Context, folder: &Path, port: u16) -> Result<(String, Command), Stop> {
    let settings = context.settings;
    if is_set(settings, "command") {
        let text = settings.text("command");
        let filled = |word: &str| word.replace("{port}", &port.to_string()).replace("{dir}", &folder.to_string_lossy());
        let mut words = text.split_whitespace().map(filled);
        let program = words.next().unwrap_or_default();
        let program = if program.contains('/') { PathBuf::from(program) } else { known(&program)? };
        let mut command = Command::new(program);
        command.args(words);
        return Ok((text.to_owned(), command));
    }
    let server = settings.text("server");
    if server == "landau" {
        let backend = backend::named(settings, "backend").name();
        let mut command = Command::new(landau_sys::process::this_program()?);
        command.arg("serve").arg(folder).args(["--listen", "127.0.0.1:0", "--backend", backend]);
        command.args(["--idle-timeout", &IDLE_S.to_string()]);
        if landau_sys::process::effective_user() == 0 {
            // A process that becomes another user is no longer killed with its parent.
            command.args(["--user", "root"]);
        }
        return Ok((format!("landau serve --backend {backend}"), command));
    }
    let mut command = Command::new(known(server)?);
    let own = context.scratch.join(server);
    fs::create_dir_all(&own).map_err(|error| Stop::io("mkdir", &error))?;
    let path = own.join("conf");
    let descriptors = get(Resource::Descriptors)?.0.min(1 << 20);
    let text = configuration(server, folder, &own, port, descriptors);
    fs::write(&path, text).map_err(|error| Stop::io("write", &error))?;
    match server {
        "nginx" => command.arg("-e").arg(own.join("error.log")).arg("-p").arg(&own).arg("-c").arg(&path),
        "lighttpd" => command.arg("-D").arg("-f").arg(&path),
        _ => command.arg("-c").arg(&path),
    };
    Ok((server.to_owned(), command))
}

fn known(program: &str) -> Result<PathBuf, Stop> {
    find(program).ok_or_else(|| Stop::Wrong(format!("{program} is in none of {}", FOLDERS.join(", "))))
}

/// One process in the foreground, no log of requests, and room for every connection that its descriptors allow. What
/// else it does is what its makers chose.
fn configuration(server: &str, folder: &Path, own: &Path, port: u16, descriptors: u64) -> String {
    let (folder, own) = (folder.display(), own.display());
    match server {
        // It ends idle connections when a sixteenth of its places is left: so there are twice as many.
        "nginx" => format!(
            "daemon off; master_process off; pid {own}/pid;\n\
             events {{ worker_connections {}; }}\n\
             http {{ access_log off; sendfile on; keepalive_timeout {IDLE_S}s; keepalive_requests 1000000;\n\
             client_body_temp_path {own}/body; proxy_temp_path {own}/proxy; fastcgi_temp_path {own}/fastcgi;\n\
             uwsgi_temp_path {own}/uwsgi; scgi_temp_path {own}/scgi;\n\
             server {{ listen 127.0.0.1:{port} backlog=4096; root {folder}; }} }}\n",
            2 * descriptors
        ),
        "lighttpd" => format!(
            "server.document-root = \"{folder}\"\nserver.bind = \"127.0.0.1\"\nserver.port = {port}\n\
             server.errorlog = \"{own}/error.log\"\nserver.max-fds = {descriptors}\n\
             server.max-connections = {descriptors}\nserver.max-keep-alive-idle = {IDLE_S}\n\
             server.listen-backlog = 4096\n"
        ),
        _ => format!(
            "listen:\n  host: 127.0.0.1\n  port: {port}\nnum-threads: 1\nmax-connections: {descriptors}\n\
             http1-request-timeout: {IDLE_S}\nerror-log: {own}/error.log\n{}\
             hosts:\n  default:\n    paths:\n      \"/\":\n        file.dir: {folder}\n",
            // As root it would become nobody, who may not read the folder.
            if landau_sys::process::effective_user() == 0 { "user: root\n" } else { "" }
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stranger_is_not_asked() {
        for url in ["http://192.0.2.1/", "http://[2001:db8::1]:80/", "http://169.254.169.254/"] {
            let refused = Server::elsewhere(url).unwrap_err();
            assert!(refused.to_string().contains("is neither this machine nor in a private network"), "{refused}");
        }
        for url in ["http://127.0.0.1:1/", "http://10.1.2.3/x", "http://[::1]:8080/"] {
            assert!(Server::elsewhere(url).is_ok(), "{url}");
        }
    }
}
