//! Runs apt with a private root: it reads the host's keys and proxy settings, and writes into one directory.
//!
//! It installs nothing, and runs none of the host's hooks.

use super::{INDEX, sources};
use crate::kernel::Error;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

/// The time limit of one call of apt.
const LONGEST: Duration = Duration::from_secs(900);

/// The part of apt that reads and fetches single files.
const HELPER: &str = "/usr/lib/apt/apt-helper";

/// The configuration in addition to the host's. `{root}` is the private directory.
const CONFIGURATION: &str = r#"// Written by landau; it does not change the host's apt.
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear APT::Architectures;
APT::Architecture "amd64";
APT::Architectures { "amd64"; };
APT::Get::AllowUnauthenticated "false";
Acquire::AllowInsecureRepositories "false";
Acquire::AllowWeakRepositories "false";
Acquire::AllowDowngradeToInsecureRepositories "false";
Acquire::GzipIndexes "true";
Acquire::Languages "none";
Acquire::Retries "2";
Acquire::http::Timeout "30";
Acquire::https::Timeout "30";
Dir::Cache "{root}/cache";
Dir::Cache::archives "{root}/cache/archives";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "{root}/sources";
Dir::State "{root}/state";
Dir::State::lists "{root}/state/lists";
Dir::State::status "{root}/state/status";
pkgCacheFile::Generate "false";
"#;

/// The private root.
pub(super) struct Apt {
    root: PathBuf,
}

/// The output of a program, and whether it succeeded.
pub(super) struct Answer {
    pub(super) is_success: bool,
    pub(super) out: String,
    pub(super) err: String,
}

/// The result of updating the index.
pub(super) struct Update {
    /// Whether any archive could be reached.
    pub(super) reached: bool,
    /// The problems, as text for the user.
    pub(super) problems: Vec<String>,
}

impl Apt {
    /// Creates the private root in a directory. If the sources have changed, marks the index there as old.
    pub(super) fn new(root: &Path) -> Result<Self, Error> {
        let text = root.to_str().filter(|text| !text.contains(['"', '\n', ';', '{', '}']));
        let text = text.ok_or_else(|| {
            Error::Apt(format!("apt cannot use the directory {}; choose another name with --cache", root.display()))
        })?;
        for folder in ["cache/archives/partial", "state/lists/partial", "sources"] {
            let folder = root.join(folder);
            std::fs::create_dir_all(&folder).map_err(|error| Error::io(&folder, error))?;
        }
        let mut configuration = CONFIGURATION.replace("{root}", text);
        if landau_sys::process::effective_user() == 0 {
            // As root, apt downloads as another user, which cannot write into a private directory.
            configuration.push_str("APT::Sandbox::User \"root\";\n");
        }
        write(&root.join("apt.conf"), &configuration)?;
        write(&root.join("state/status"), "")?;
        put_sources(root, &private_sources()?)?;
        Ok(Self { root: root.to_owned() })
    }

    /// Runs a program of apt with the private root.
    fn run(&self, program: &str, words: &[&str], within: &Path) -> Result<Answer, Error> {
        let mut command = Command::new(program);
        command.arg("-c").arg(self.root.join("apt.conf")).args(words).current_dir(within);
        answer(&mut command, program)
    }

    /// Updates the index.
    pub(super) fn update(&self) -> Result<Update, Error> {
        let answer = self.run("apt-get", &["update"], &self.root)?;
        let reached = answer.out.lines().any(|line| line.starts_with("Get:") || line.starts_with("Hit:"));
        Ok(Update { reached, problems: problems(&answer.err) })
    }

    /// Returns the entries of the index for packages whose names begin with one of `prefixes`, each with the address of
    /// its file in `URI`.
    ///
    /// It reads whole lists: apt would decompress them for each single package, which takes minutes.
    pub(super) fn packages(&self, prefixes: &[&str]) -> Result<String, Error> {
        let sources = self.root.join("sources/landau.sources");
        let sources = std::fs::read_to_string(&sources).map_err(|error| Error::io(&sources, error))?;
        let folder = self.root.join("state/lists");
        let files = std::fs::read_dir(&folder).map_err(|error| Error::io(&folder, error))?;
        let mut lists: Vec<String> = files.flatten().map(|file| file.path().display().to_string()).collect();
        lists.sort();
        let mut packages = String::new();
        for list in lists.iter().filter(|list| list.contains("_binary-amd64_Packages")) {
            let Some(archive) = sources::archive_of(&sources, list) else { continue };
            let answer = self.run(HELPER, &["cat-file", list], &self.root)?;
            if !answer.is_success {
                return Err(Error::Apt(format!("cannot read {list}: {}", reasons(&answer.err))));
            }
            let text = answer.out;
            let is_wanted = |stanza: &&str| {
                let name = stanza.trim_start().strip_prefix("Package: ").and_then(|rest| rest.lines().next());
                let begins = |name: &str| prefixes.iter().any(|prefix| name.starts_with(prefix));
                name.is_some_and(|name| begins(name) && name.ends_with("-amd64") && !name.contains("-unsigned-"))
            };
            for stanza in text.split("\n\n").filter(is_wanted) {
                let file = stanza.lines().find_map(|line| line.strip_prefix("Filename: "));
                let Some(file) = file else { continue };
                let uri = format!("{}/{file}", archive.trim_end_matches('/'));
                packages.extend([stanza.trim(), "\nURI: ", &uri, "\n\n"]);
            }
        }
        Ok(packages)
    }

    /// Fetches a package by the address and checksum of the signed index; apt verifies the checksum.
    pub(super) fn download(&self, uri: &str, sha256: &str, into: &Path) -> Result<(), Error> {
        let target = into.display().to_string();
        let sum = format!("SHA256:{sha256}");
        let answer = self.run(HELPER, &["download-file", uri, &target, &sum], &self.root)?;
        if answer.is_success && into.exists() {
            return Ok(());
        }
        Err(refused(uri.rsplit('/').next().unwrap_or(uri), &answer.err))
    }
}

/// Returns why a file could not be fetched: the mirror does not have it, which concerns only this file, or something
/// else failed.
fn refused(file: &str, err: &str) -> Error {
    // Parts of apt's messages for HTTP (404 Not Found, 410 Gone) and for an archive in a directory.
    const IS_MISSING: [&str; 3] = [" 404 ", " 410 ", "File not found"];
    let why = reasons(err);
    if IS_MISSING.iter().any(|word| why.contains(word)) {
        return Error::Fetch { file: file.to_owned(), why };
    }
    Error::Apt(format!("cannot fetch {file}: {why}"))
}

/// Puts the sources into the private root. If they have changed, marks the index there as old, because it describes
/// other archives.
fn put_sources(root: &Path, sources: &str) -> Result<(), Error> {
    let path = root.join("sources/landau.sources");
    if std::fs::read_to_string(&path).is_ok_and(|old| old == sources) {
        return Ok(());
    }
    // The index comes first, so that after a failure in between the next call repeats both steps.
    let index = root.join(INDEX);
    match File::options().write(true).open(&index).and_then(|file| file.set_modified(SystemTime::UNIX_EPOCH)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io(&index, error)),
        _ => write(&path, sources),
    }
}

/// Writes a file if its content differs.
fn write(path: &Path, text: &str) -> Result<(), Error> {
    if std::fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    std::fs::write(path, text).map_err(|error| Error::io(path, error))
}

/// Returns the sources for the private root, from those of the host.
fn private_sources() -> Result<String, Error> {
    let words = ["shell", "LIST", "Dir::Etc::sourcelist/f", "PARTS", "Dir::Etc::sourceparts/d"];
    let places = answer(Command::new("apt-config").args(words), "apt-config")?.out;
    let place = |name: &str| {
        let line = places.lines().find_map(|line| line.strip_prefix(name))?;
        Some(PathBuf::from(line.trim_matches('\'')))
    };
    let mut files: Vec<PathBuf> = place("LIST=").into_iter().collect();
    if let Some(folder) = place("PARTS=") {
        let parts = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|file| file.path());
        files.extend(parts.filter(|path| path.extension().is_some_and(|is| is == "list" || is == "sources")));
        files.sort();
    }
    let read = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).ok()?;
        Some(sources::read(&path.to_string_lossy(), &text))
    };
    let entries: Vec<_> = files.iter().filter_map(read).flatten().collect();
    sources::private(&entries).ok_or_else(|| {
        Error::Apt(
            "this host's apt has no source for Debian's archive; fetch a kernel package elsewhere and give it \
             as --kernel FILE.deb"
                .to_owned(),
        )
    })
}

/// Runs a program to its end, in the C locale.
fn answer(command: &mut Command, name: &str) -> Result<Answer, Error> {
    command.env("LC_ALL", "C").env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            Error::Apt(format!("{name} is missing, and debian:VERSION needs apt; give a kernel as --kernel FILE"))
        }
        _ => Error::Apt(format!("cannot start {name}: {error}")),
    })?;
    let (out, err) = (reader(child.stdout.take()), reader(child.stderr.take()));
    let status = wait(&mut child).map_err(|error| Error::Apt(format!("{name}: {error}")))?;
    let text = |reader: std::thread::JoinHandle<String>| reader.join().unwrap_or_default();
    Ok(Answer { is_success: status, out: text(out), err: text(err) })
}

/// Reads a stream in a thread, so that the program never blocks on a full pipe.
fn reader(stream: Option<impl std::io::Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            let _ = stream.read_to_end(&mut bytes);
        }
        String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    })
}

/// Waits for a program, at most [`LONGEST`]; returns whether it succeeded.
fn wait(child: &mut Child) -> std::io::Result<bool> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        if start.elapsed() > LONGEST || landau_sys::signal::interrupted().is_some() {
            child.kill()?;
            child.wait()?;
            let why = if landau_sys::signal::interrupted().is_some() { "interrupted" } else { "it took too long" };
            return Err(std::io::Error::other(why));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns apt's errors and warnings in one line.
fn reasons(err: &str) -> String {
    let problems = problems(err);
    if problems.is_empty() { "no reason was given".to_owned() } else { problems.join("; ") }
}

/// Returns apt's errors and warnings as text for the user, each once.
fn problems(err: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for line in err.lines().filter_map(|line| line.strip_prefix("E: ").or(line.strip_prefix("W: "))) {
        let problem = match line.split_once("NO_PUBKEY ") {
            Some((before, key)) => {
                let suite = before.split_whitespace().take_while(|word| *word != "InRelease:" && *word != "Release:");
                let suite = suite.last().unwrap_or("a suite").trim_end_matches("InRelease").to_owned();
                let suite = if suite.is_empty() { "a suite".to_owned() } else { suite };
                let key = key.split_whitespace().next().unwrap_or_default();
                format!("{suite} is signed by key {key}, which is not installed here; upgrade debian-archive-keyring")
            }
            None if line.ends_with("is not signed.") || line.starts_with("Some index files failed") => continue,
            None => line.to_owned(),
        };
        if !problems.contains(&problem) {
            problems.push(problem);
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test ends where its premise fails")]

    use super::*;

    /// Guards against counting kernels as missing from the archive if the host has no network or a full disk.
    #[test]
    fn only_a_file_that_the_mirror_lacks_is_missing() {
        for missing in [
            "E: Failed to fetch http://m.example/a.deb  404  Not Found [IP: 192.0.2.1 80]\nE: Download Failed\n",
            "E: Failed to fetch http://m.example/a.deb  410  Gone [IP: 192.0.2.1 80]\nE: Download Failed\n",
            "E: Failed to fetch file:/m/a.deb  File not found - /m/a.deb (2: No such file or directory)\n",
        ] {
            let error = refused("a.deb", missing);
            assert!(matches!(error, Error::Fetch { .. }), "{error}");
        }
        for (other, expected) in [
            ("E: Failed to fetch http://m.example/404/a.deb  Could not resolve 'm.example'\n", "Could not resolve"),
            ("E: Failed to fetch http://m.example/a.deb  Could not connect to m.example:410 ()\n", "not connect"),
            ("E: Write error - write (28: No space left on device)\n", "cannot fetch a.deb: Write error"),
            ("", "cannot fetch a.deb: no reason was given"),
        ] {
            let error = refused("a.deb", other);
            assert!(matches!(&error, Error::Apt(why) if why.contains(expected)), "{error}");
        }
    }

    /// Guards against forgetting changed sources if the next update fails, or if a package was fetched first.
    #[test]
    fn changed_sources_make_the_index_old() {
        let folder = tempfile::tempdir().unwrap();
        let (root, index) = (folder.path(), folder.path().join(INDEX));
        std::fs::create_dir(root.join("sources")).unwrap();
        put_sources(root, "one").unwrap();
        assert!(!index.exists());
        std::fs::write(&index, "packages").unwrap();
        let modified = || index.metadata().unwrap().modified().unwrap();
        put_sources(root, "one").unwrap();
        assert_ne!(modified(), SystemTime::UNIX_EPOCH);
        put_sources(root, "two").unwrap();
        assert_eq!(modified(), SystemTime::UNIX_EPOCH);
        assert_eq!(std::fs::read_to_string(root.join("sources/landau.sources")).unwrap(), "two");
        assert_eq!(std::fs::read_to_string(&index).unwrap(), "packages");
    }

    #[test]
    fn a_missing_key_is_explained() {
        let err = "W: GPG error: http://m.example/debian trixie InRelease: The following signatures couldn't be \
                   verified because the public key is not available: \
                   NO_PUBKEY 6ED0E7B82643E131 NO_PUBKEY 78DBA3BC47EF2265\n\
                   E: The repository 'http://m.example/debian trixie InRelease' is not signed.\n\
                   W: Failed to fetch http://m.example/x  Could not resolve 'm.example'\n\
                   W: Some index files failed to download. They have been ignored, or old ones used instead.\n";
        let found = problems(err);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("trixie is signed by key 6ED0E7B82643E131, which is not installed"), "{found:?}");
        assert!(found[1].contains("Could not resolve"));
    }

    #[test]
    fn a_directory_name_that_would_change_the_configuration_is_refused() {
        let Err(error) = Apt::new(Path::new("/tmp/a\"; x")) else { unreachable!() };
        assert!(error.to_string().contains("--cache"), "{error}");
    }
}
