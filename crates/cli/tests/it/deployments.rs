//! Deployments under load: every response is a complete copy of one version.
//!
//! Clients of HTTP/1.1 (on persistent connections, and on a new one for each request) and of HTTP/2 request four files
//! while these are replaced in four ways. Each version of a file has distinct content and a distinct length, so a
//! response identifies its version. Violations are an error, content of no version, a length or an entity tag of
//! another version, and a version that was replaced long before the request.
//!
//! Replacing a link or a directory changes all files at once. `rename` of files and `rsync` change one file after the
//! other, so each file is judged separately.
//!
//! `LANDAU_DEPLOYMENTS=1000 cargo test -p landau --test it deployments -- --nocapture` makes a thousand deployments; a
//! version must then be gone one second after it was replaced.

use crate::client::{Answer, Http1, Http2, Lost};
use crate::serve::{LONG, Serving, room};
use crate::support::Room;
use std::collections::HashMap;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, RwLock};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

/// The files with the length of their first version.
const FILES: [(&str, usize); 4] = [("index.html", 400), ("a.css", 4000), ("b.js", 40_000), ("sub/c.bin", 200_000)];

/// The number of consecutive versions with different lengths.
const LENGTHS: usize = 500;

/// The number of deployments in an ordinary test.
const DEPLOYMENTS: usize = 32;

/// Kinds of workers, each with a value of `--cache-for`: the default, and one so short that deployments often coincide
/// with requests.
const WORKERS: [(&str, &str); 2] = [("own", "500ms"), ("multishot", "20ms")];

/// A way to deploy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// `mv -T` of a symbolic link.
    Link,
    /// The directory is renamed, and then the next one is renamed to its name.
    Directory,
    /// Each file is replaced with `rename`.
    Files,
    /// `rsync --archive`, which also uses `rename`.
    Rsync,
}

const WAYS: [Way; 4] = [Way::Link, Way::Directory, Way::Files, Way::Rsync];

/// Returns the content of a version of a file.
fn content(file: usize, version: usize) -> Vec<u8> {
    let (name, length) = FILES[file];
    let line = format!("{version:08} is the version of {name}\n");
    line.bytes().cycle().take(length + version % LENGTHS).collect()
}

fn write(folder: &Path, version: usize) {
    for (file, (name, _)) in FILES.iter().enumerate() {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content(file, version)).unwrap();
    }
}

impl Way {
    /// Returns the name of the served directory.
    fn root(self) -> &'static str {
        if self == Self::Link { "current" } else { "dist" }
    }

    /// Deploys a version, which is in the directory `next`.
    fn deploy(self, www: &Path, version: usize) {
        let (next, dist) = (www.join("next"), www.join("dist"));
        let succeeds = |command: &mut Command| assert!(command.status().unwrap().success(), "{command:?}");
        match self {
            Self::Link => {
                let release = |version: usize| www.join(format!("release-{version}"));
                fs::rename(next, release(version)).unwrap();
                symlink(release(version).file_name().unwrap(), www.join("new")).unwrap();
                succeeds(Command::new("mv").arg("-T").arg(www.join("new")).arg(www.join("current")));
                if version > 0 {
                    fs::remove_dir_all(release(version - 1)).unwrap();
                }
            }
            Self::Directory => {
                if version > 0 {
                    fs::rename(&dist, www.join("previous")).unwrap();
                }
                fs::rename(next, dist).unwrap();
                if version > 0 {
                    fs::remove_dir_all(www.join("previous")).unwrap();
                }
            }
            _ if version == 0 => fs::rename(next, dist).unwrap(),
            Self::Files => {
                for (name, _) in FILES {
                    fs::rename(next.join(name), dist.join(name)).unwrap();
                }
                fs::remove_dir_all(next).unwrap();
            }
            Self::Rsync => {
                let slash = format!("{}/", next.display());
                succeeds(Command::new("rsync").args(["--archive", &slash]).arg(dist));
                fs::remove_dir_all(next).unwrap();
            }
        }
    }
}

/// The state that the clients of a server share.
struct Watch {
    address: SocketAddr,
    /// A version is stale in a response to a request sent this long after the next version was deployed.
    stale_after: Duration,
    /// The times at which the deployment of each version began and ended.
    times: RwLock<Vec<(Instant, Option<Instant>)>>,
    is_over: AtomicBool,
    answers: AtomicU64,
    unchanged: AtomicU64,
    /// The age of the oldest version that was sent, in milliseconds since the next one was deployed.
    age_ms: AtomicU64,
    /// The entity tag of each version of a file.
    tags: Mutex<HashMap<(usize, usize), String>>,
    /// The version of a file for each entity tag.
    versions: Mutex<HashMap<(usize, String), usize>>,
    violations: Mutex<Vec<String>>,
}

/// A request of a client: a file, and the entity tag that the client has of it.
#[derive(Debug, Clone)]
struct Asked {
    file: usize,
    tag: Option<String>,
    sent: Instant,
}

impl Watch {
    fn new(address: SocketAddr, stale_after: Duration) -> Self {
        Self {
            address,
            stale_after,
            times: RwLock::default(),
            is_over: AtomicBool::new(false),
            answers: AtomicU64::new(0),
            unchanged: AtomicU64::new(0),
            age_ms: AtomicU64::new(0),
            tags: Mutex::default(),
            versions: Mutex::default(),
            violations: Mutex::default(),
        }
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.set_nodelay(true).unwrap();
        // Otherwise thousands of connections would stay in TIME_WAIT.
        landau_sys::stream::set_reset_on_close(&stream).unwrap();
        stream
    }

    /// Returns whether clients have received this version of each file.
    fn has_seen(&self, version: usize) -> bool {
        let tags = self.tags.lock().unwrap();
        (0..FILES.len()).all(|file| tags.contains_key(&(file, version)))
    }

    /// Judges a response. Returns the entity tag.
    fn judge(&self, asked: &Asked, got: Result<Answer, Lost>) -> Option<String> {
        self.answers.fetch_add(1, Ordering::Relaxed);
        let judged = got.map_err(|lost| lost.to_string()).and_then(|answer| self.judge_answer(asked, &answer));
        if let Err(why) = &judged {
            let when = self.when();
            self.violations.lock().unwrap().push(format!("{}: {why}; {when}", FILES[asked.file].0));
        }
        judged.ok()
    }

    /// Describes the progress of the deployment of the last version.
    fn when(&self) -> String {
        let times = self.times.read().unwrap();
        let Some((began, ended)) = times.last() else { return String::new() };
        let ended = ended.map(|ended| ended.elapsed());
        format!("version {} since {:?}, deployed since {ended:?}", times.len() - 1, began.elapsed())
    }

    fn judge_answer(&self, asked: &Asked, answer: &Answer) -> Result<String, String> {
        let tag = answer.etag.clone().ok_or_else(|| format!("status {}, no entity tag", answer.status))?;
        let file = asked.file;
        let version = match answer.status {
            200 => version_of(file, &answer.body)?,
            304 if asked.tag.as_ref() == Some(&tag) => {
                self.unchanged.fetch_add(1, Ordering::Relaxed);
                *self.versions.lock().unwrap().get(&(file, tag.clone())).ok_or("a tag that was never sent")?
            }
            status => return Err(format!("status {status}")),
        };
        let known = self.tags.lock().unwrap().entry((file, version)).or_insert_with(|| tag.clone()).clone();
        let owner = *self.versions.lock().unwrap().entry((file, tag.clone())).or_insert(version);
        if known != tag || owner != version {
            return Err(format!("version {version} has the tags {known} and {tag}, the latter of version {owner}"));
        }
        let times = self.times.read().unwrap();
        if version >= times.len() {
            return Err(format!("version {version} was not deployed"));
        }
        let next = times.get(version + 1).and_then(|(_, ended)| *ended);
        let age = next.map_or(Duration::ZERO, |next| asked.sent.saturating_duration_since(next));
        self.age_ms.fetch_max(age.as_millis() as u64, Ordering::Relaxed);
        if age > self.stale_after { Err(format!("version {version} {age:?} after the next")) } else { Ok(tag) }
    }
}

/// Returns the version of a content, which must be complete.
fn version_of(file: usize, body: &[u8]) -> Result<usize, String> {
    let number = body.get(..8).and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    let version = number.ok_or_else(|| format!("no version: {}", body[..body.len().min(60)].escape_ascii()))?;
    let expected = content(file, version);
    if body == expected {
        return Ok(version);
    }
    let same = body.iter().zip(&expected).take_while(|(one, other)| one == other).count();
    Err(format!("version {version} for {same} bytes of {}; it has {}", body.len(), expected.len()))
}

/// The files in turn. Every second request for a file contains the entity tag of the client's version.
struct Turns {
    count: usize,
    tags: [Option<String>; FILES.len()],
}

impl Turns {
    fn new(count: usize) -> Self {
        Self { count, tags: Default::default() }
    }

    fn next(&mut self) -> Asked {
        self.count += 1;
        let file = self.count % FILES.len();
        let is_conditional = (self.count / FILES.len()).is_multiple_of(2);
        Asked { file, tag: self.tags[file].clone().filter(|_| is_conditional), sent: Instant::now() }
    }
}

/// Sends requests in a loop, on one connection or on a new one each time.
fn ask_http1(watch: &Watch, number: usize, is_kept: bool) {
    let (mut turns, mut kept) = (Turns::new(number), None);
    while !watch.is_over() {
        let mut client = kept.take().unwrap_or_else(|| Http1::new(watch.connect()));
        let asked = turns.next();
        let field = asked.tag.as_ref().map_or(String::new(), |tag| format!("If-None-Match: {tag}\r\n"));
        let got = client.get(&format!("/{}", FILES[asked.file].0), &field);
        let is_open = got.is_ok();
        turns.tags[asked.file] = watch.judge(&asked, got);
        if is_kept && is_open {
            kept = Some(client);
        } else {
            // Without a pause, these requests would occupy the server completely.
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Requests eight files at a time over HTTP/2, and reconnects after a hundred such batches.
fn ask_http2(watch: &Watch, number: usize) {
    let mut turns = Turns::new(number);
    while !watch.is_over() {
        let mut client = Http2::new(watch.connect()).unwrap();
        for _ in 0..100 {
            let asked: Vec<Asked> = (0..8).map(|_| turns.next()).collect();
            let paths: Vec<String> = asked.iter().map(|asked| format!("/{}", FILES[asked.file].0)).collect();
            let fields: Vec<Vec<(&str, &str)>> =
                asked.iter().map(|asked| asked.tag.iter().map(|tag| ("if-none-match", &**tag)).collect()).collect();
            let requests: Vec<(&str, &[(&str, &str)])> =
                paths.iter().zip(&fields).map(|(path, fields)| (&**path, &**fields)).collect();
            let got = client.get(&requests);
            let is_open = got.iter().all(Result::is_ok);
            for (asked, got) in asked.iter().zip(got) {
                turns.tags[asked.file] = watch.judge(asked, got);
            }
            if !is_open || watch.is_over() {
                break;
            }
        }
    }
}

/// Deploys repeatedly while clients send requests.
fn deploy(way: Way, www: &Path, watch: &Watch, count: usize) {
    std::thread::scope(|scope| {
        let clients = [
            scope.spawn(|| ask_http1(watch, 0, true)),
            scope.spawn(|| ask_http1(watch, 1, true)),
            scope.spawn(|| ask_http1(watch, 2, false)),
            scope.spawn(|| ask_http1(watch, 3, false)),
            scope.spawn(|| ask_http2(watch, 4)),
            scope.spawn(|| ask_http2(watch, 5)),
        ];
        for version in 1..=count {
            write(&www.join("next"), version);
            watch.times.write().unwrap().push((Instant::now(), None));
            way.deploy(www, version);
            watch.times.write().unwrap()[version].1 = Some(Instant::now());
            let deployed = Instant::now();
            while !watch.has_seen(version) && deployed.elapsed() < LONG {
                // Yields the processor to the clients that this loop waits for.
                std::thread::sleep(Duration::from_millis(1));
            }
            // A failed client thread makes no more progress; the scope propagates its panic.
            if clients.iter().any(ScopedJoinHandle::is_finished) || !watch.has_seen(version) {
                watch.violations.lock().unwrap().push(format!("version {version} was not seen"));
                break;
            }
        }
        watch.is_over.store(true, Ordering::Relaxed);
    });
}

/// Returns the version of the first file that a new client receives.
fn version_now(watch: &Watch) -> Option<usize> {
    let answer = Http1::new(watch.connect()).get(&format!("/{}", FILES[0].0), "").ok()?;
    version_of(0, &answer.body).ok()
}

#[test]
fn deployments_under_load() {
    let asked = std::env::var("LANDAU_DEPLOYMENTS").ok().map(|count| count.parse().unwrap());
    let stale_after = if asked.is_some() { Duration::from_secs(1) } else { LONG };
    let has_ring = landau_reactor::backends().contains(&landau_reactor::Backend::IoUring);
    let workers = &WORKERS[..if has_ring { 2 } else { 1 }];
    let has_rsync = Command::new("rsync").arg("--version").output().is_ok_and(|output| output.status.success());
    if !has_rsync {
        eprintln!("skipped: deployments by rsync, which is not installed");
    }
    let ways = WAYS.into_iter().filter(|way| has_rsync || *way != Way::Rsync).count();
    let each = asked.unwrap_or(DEPLOYMENTS).div_ceil(ways * workers.len());
    let mut found = Vec::new();
    for way in WAYS.into_iter().filter(|way| has_rsync || *way != Way::Rsync) {
        for &(worker, cache_for) in workers {
            found.extend(run(way, worker, cache_for, each, stale_after));
        }
    }
    assert!(found.is_empty(), "{} violations: {:#?}", found.len(), &found[..found.len().min(20)]);
}

/// Makes deployments of one kind with a new server. Returns the violations.
fn run(way: Way, worker: &str, cache_for: &str, count: usize, stale_after: Duration) -> Vec<String> {
    let room: Room = room();
    let www = room.file("www");
    let began = Instant::now();
    write(&www.join("next"), 0);
    way.deploy(&www, 0);
    let root = format!("www/{}", way.root());
    let words = ["serve", &root, "--listen", "127.0.0.1:0", "--workers", "2", "--accept", worker];
    let serving = Serving::new(room.command(&words).args(["--cache-for", cache_for]));
    let watch = Watch::new(serving.address, stale_after);
    watch.times.write().unwrap().push((began, Some(began)));
    deploy(way, &www, &watch, count);
    let is_seen = crate::support::eventually(|| version_now(&watch) == Some(count));
    let ran = serving.end();
    let mut violations = watch.violations.into_inner().unwrap();
    if !is_seen {
        violations.push("the last version was never sent".to_owned());
    }
    if ran.status != Some(0) {
        violations.push(format!("the server failed: {ran:?}"));
    }
    if !violations.is_empty() {
        eprintln!("{}", ran.err);
    }
    eprintln!(
        "{way:?}, {worker}, --cache-for {cache_for}: {count} deployments, {} answers ({} of them 304), {} versions of \
         files seen, the oldest {} ms after the next; {} violations",
        watch.answers.into_inner(),
        watch.unchanged.into_inner(),
        watch.tags.into_inner().unwrap().len(),
        watch.age_ms.into_inner(),
        violations.len()
    );
    violations.into_iter().map(|why| format!("{way:?}, {worker}: {why}")).collect()
}
