//! The files that make a profile permanent: sysctl.d, limits.d and a drop-in of systemd.
//!
//! Files that `landau tune keep` did not write are never replaced. All files are checked before the first is written.

use crate::journal::{self, sync};
use crate::limit::{self, Pair};
use crate::name::{normalized, twin};
use crate::plan::{Plan, Present};
use crate::profile::{Profile, Want};
use crate::{Error, knob, status};
use landau_host::{NR_OPEN, NR_OPEN_OF_SYSTEMD, Root};
use serde::Serialize;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The beginning of every file that `landau tune keep` writes.
pub(crate) const MARK: &str = "# Written by `landau tune keep";

/// The sysctl that caps the descriptor limit of a process.
const NR_OPEN_NAME: &str = "fs.nr_open";

/// The directory for the file of sysctls.
const SYSCTLS: &str = "etc/sysctl.d";

/// A file that makes a part of a profile permanent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Kept {
    /// Its path, serialized as it is displayed.
    #[serde(serialize_with = "shown")]
    pub path: PathBuf,
    /// Its contents.
    pub text: String,
    /// How to make it take effect before the next boot.
    pub effect: String,
    /// Whether the file already has these contents.
    pub unchanged: bool,
    /// The present contents; `None` if the file does not exist.
    #[serde(skip)]
    before: Option<String>,
}

/// Serializes a path that may not be UTF-8.
fn shown<S: serde::Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&path.display())
}

/// Returns the files of a profile, without writing them.
///
/// # Errors
///
/// Fails if one of them exists and was not written by Landau, or if the values are those of a trial that is running or
/// was killed since the last boot.
pub fn keep(root: &Root, profile: &Profile) -> Result<Vec<Kept>, Error> {
    if let Some(left) = journal::unrestored(root)?.filter(|left| left.is_of_this_boot(root)) {
        return Err(Error::Left(left.profile));
    }
    let plan = Plan::of(root, profile, &[]);
    let name = format!("90-landau-{}.conf", profile.name);
    let limits: Vec<&Want> = profile.wants.iter().filter(|want| want.is_limit()).collect();
    let sysctls = sysctls(root, profile, &plan, &name);
    let ceiling = Ceiling::of(root, &name, &sysctls);
    let sessions = limits_of_sessions(root, &limits, &ceiling, &name);
    let services = limits_of_services(root, &limits, &ceiling, &name);
    let texts = [
        (SYSCTLS, Limits { text: sysctls, too_high: None }, "sysctl --system"),
        ("etc/security/limits.d", sessions, "it applies to sessions from the next login on"),
        ("etc/systemd/system.conf.d", services, "systemctl daemon-reexec, then restart services"),
    ];
    let mut kept = Vec::new();
    for (folder, Limits { text: body, too_high }, effect) in texts {
        let path = root.path(&format!("{folder}/{name}"));
        let before = own_text(&path);
        // A file of ours is rewritten nevertheless: its old lines may lower a limit by now.
        if !sets_something(&body) && too_high.is_none() && !matches!(before, Ok(Some(_))) {
            continue;
        }
        let advice = too_high.map(|value| ceiling.advice(value));
        let later = if folder == SYSCTLS { overridden(root, profile, &name, &body) } else { Vec::new() };
        let effect = [effect.to_owned()].into_iter().chain(advice).chain(later).collect::<Vec<_>>().join("; ");
        let before = before?;
        let text = format!("{MARK} {}`. To undo it, remove this file.\n{body}", profile.name);
        kept.push(Kept { unchanged: before.as_deref() == Some(text.as_str()), path, text, effect, before });
    }
    Ok(kept)
}

/// Returns whether a text has a line that is not a comment.
fn sets_something(text: &str) -> bool {
    text.lines().any(|line| !line.starts_with('#'))
}

/// The lines of a file of limits.
struct Limits {
    text: String,
    /// A descriptor limit that was left out because it is above `fs.nr_open`.
    too_high: Option<u64>,
}

/// `fs.nr_open`. `setrlimit()` fails above it, even for root: with such a line in limits.d, `pam_limits` refuses every
/// session. systemd then gives services its own hard limit (`setrlimit_closest()`).
struct Ceiling {
    /// Its present value.
    now: u64,
    /// Its value after the next boot, with the sysctls of the profile in place.
    at_start: u64,
}

impl Ceiling {
    fn of(root: &Root, own: &str, sysctls: &str) -> Self {
        let number = |text: String| text.parse::<u64>().ok();
        let now = root.sysctl(NR_OPEN_NAME).and_then(number);
        let at_start = at_next_start(root, NR_OPEN_NAME, own, sysctls).and_then(number).unwrap_or(NR_OPEN);
        // A system image has no present value.
        Self { now: now.unwrap_or(at_start), at_start }
    }

    fn forbids(&self, want: &Want, value: u64) -> bool {
        want.name == "nofile" && value > self.now.min(self.at_start)
    }

    /// Returns why a limit is left out.
    fn reason(&self, value: u64) -> String {
        if value > self.now {
            format!("fs.nr_open is {}, and setrlimit() of a higher value fails", self.now)
        } else {
            format!("fs.nr_open is {} after the next boot, and setrlimit() of a higher value fails", self.at_start)
        }
    }

    /// Returns what to do before a limit can be kept.
    fn advice(&self, value: u64) -> String {
        let first = if value > self.at_start {
            format!("set fs.nr_open to {value} or more in a file of /etc/sysctl.d, ")
        } else {
            String::new()
        };
        let reason = self.reason(value);
        let then = "run `sysctl --system`, then `landau tune keep` again";
        format!("nofile {value} is left out: {reason}. To keep it, {first}{then}")
    }
}

/// Returns the lines of a file of sysctls. A value that the host has at every boot without our file becomes a comment,
/// because a line would pin it.
fn sysctls(root: &Root, profile: &Profile, plan: &Plan, name: &str) -> String {
    let ours = root.text(&format!("{SYSCTLS}/{name}")).unwrap_or_default();
    let ours: Vec<(String, String)> = status::settings(&ours).collect();
    let mut text = String::new();
    for want in profile.wants.iter().filter(|want| !want.is_limit()) {
        let is_it = |other: &str| other == want.name;
        let change = plan.changes.iter().find(|one| is_it(&one.name));
        let kept = ours.iter().find(|(name, _)| is_it(name)).map(|(_, value)| value);
        let line = match (change, plan.present.iter().find(|one| is_it(&one.name)), kept) {
            (Some(change), _, _) => match raised(root, want, &change.new, name) {
                Ok(value) => format!("{} = {value}\n", change.name),
                Err(value) => format!(
                    "# {}: {} here, at least {} wanted; `sysctl --system` applies the {value} of another file\n",
                    change.name, change.now, want.value
                ),
            },
            (None, Some(_), Some(value)) if want.target(value).is_none() => {
                format!("{} = {}\n", want.name, normalized(value))
            }
            (None, Some(Present { now, wanted, .. }), _) if lasts(root, want, name) => {
                format!("# {}: {now} here, {wanted} wanted\n", want.name)
            }
            (None, Some(Present { now, .. }), _) => format!("{} = {}\n", want.name, normalized(now)),
            (None, None, _) if twin(root, &want.name).is_some() => {
                format!("# {}: another setting takes precedence\n", want.name)
            }
            // The setting of a module that is not loaded now.
            (None, None, Some(value)) if want.target(value).is_none() => {
                format!("-{} = {}\n", want.name, normalized(value))
            }
            // The value could be higher than that.
            (None, None, _) if want.at_least => {
                format!("# {}: unknown here, at least {} wanted\n", want.name, want.value)
            }
            // A system image, or a module that is not loaded. The leading `-` makes sysctl ignore an error.
            (None, None, _) => format!("-{} = {}\n", want.name, want.value),
        };
        text.push_str(&line);
    }
    text
}

/// Returns the value to write for a setting that is to become `new`; each number is at least that of the other files
/// if the setting has `at_least`. Fails with the value of those files if it is sufficient.
fn raised(root: &Root, want: &Want, new: &str, own: &str) -> Result<String, String> {
    let set = status::at_start(root, &want.name, own, "").filter(|_| want.at_least);
    let Some(set) = set else { return Ok(new.to_owned()) };
    Want { value: new.to_owned(), ..want.clone() }.target(&set).ok_or(set)
}

/// Returns advice for each line of our file of sysctls whose setting a later file sets to another value.
fn overridden(root: &Root, profile: &Profile, own: &str, text: &str) -> Vec<String> {
    let of = |(name, value): (String, String)| {
        let (file, later) = status::source_at_start(root, &name, own, text)?;
        let is_sufficient = profile.wants.iter().any(|want| want.name == name && want.target(&later).is_none());
        (later != value && !is_sufficient)
            .then(|| format!("/{file} sets {name} to {later} and takes precedence: change it there"))
    };
    status::settings(text).filter_map(of).collect()
}

/// Returns whether the host has the wanted value after the next boot, too, without our file `own`. A value set by
/// `sysctl -w` is lost then. If the default is not known, the present value counts as the default, provided that the
/// setting has `at_least`.
fn lasts(root: &Root, want: &Want, own: &str) -> bool {
    at_next_start(root, &want.name, own, "").map_or(want.at_least, |value| want.target(&value).is_none())
}

/// Returns the value of a setting after the next boot, if our file `own` has this text; `None` if no file sets it and
/// its default is not known.
fn at_next_start(root: &Root, name: &str, own: &str, text: &str) -> Option<String> {
    // systemd raises `fs.nr_open` at every boot.
    let of_systemd = || {
        let now = root.sysctl(NR_OPEN_NAME).filter(|_| name == NR_OPEN_NAME)?;
        (now.parse() == Ok(NR_OPEN_OF_SYSTEMD)).then_some(now)
    };
    let default = || knob::find(name)?.default_of(root).map(str::to_owned);
    status::at_start(root, name, own, text).or_else(of_systemd).or_else(default)
}

/// Returns the lines of a file of limits.d. A limit with `at_least` has a line only if the present limit is known to be
/// lower, because a line could lower an unknown one. Limits without a line become comments.
fn limits_of_sessions(root: &Root, limits: &[&Want], ceiling: &Ceiling, own: &str) -> Limits {
    let (mut text, mut too_high) = (String::new(), None);
    // `*` matches everybody but root.
    for (want, who) in limits.iter().flat_map(|want| ["*", "root"].map(|who| (want, who))) {
        let Ok(value) = want.value.parse::<u64>() else { continue };
        let name = &want.name;
        let present = limit::of_sessions(root, name, who, own);
        let is_set = present.map(|one| !want.at_least || one.is_some_and(|one| one < value));
        let kind = match is_set {
            [true, true] => Some("-"),
            [true, false] => Some("soft"),
            [false, true] => Some("hard"),
            [false, false] => None,
        };
        // Writing to a string cannot fail.
        if kind.is_some() && ceiling.forbids(want, value) {
            too_high = Some(value);
            let _ = writeln!(text, "# {who} {name}: {value} wanted, left out: {}", ceiling.reason(value));
            continue;
        }
        if kind != Some("-") {
            let [soft, hard] = present.map(|one| limit::described(one, "unlimited"));
            let _ = writeln!(text, "# {who} {name}: soft {soft}, hard {hard} here, at least {value} wanted");
        }
        if let Some(kind) = kind {
            let _ = writeln!(text, "{who} {kind} {name} {}", limit::written(value, "unlimited"));
        }
    }
    Limits { text, too_high }
}

/// Returns the lines of a systemd drop-in. A limit with `at_least` has a line only if the present one is known and
/// lower; the line lowers neither the soft nor the hard limit. Otherwise it becomes a comment.
fn limits_of_services(root: &Root, limits: &[&Want], ceiling: &Ceiling, own: &str) -> Limits {
    let (mut comments, mut lines, mut too_high) = (String::new(), String::new(), None);
    for want in limits {
        let Ok(value) = want.value.parse::<u64>() else { continue };
        let key = format!("DefaultLimit{}", want.name.to_uppercase());
        let present = limit::of_services(root, &want.name, own);
        let pair = if want.at_least {
            present.map(|present| present.raised_to(value)).filter(|raised| Some(*raised) != present)
        } else {
            Some(Pair { soft: value, hard: value })
        };
        // Writing to a string cannot fail.
        if pair.is_some() && ceiling.forbids(want, value) {
            too_high = Some(value);
            let _ = writeln!(comments, "# {key}: {value} wanted, left out: {}", ceiling.reason(value));
        } else if let Some(Pair { soft, hard }) = pair {
            let [soft, hard] = [soft, hard].map(|one| limit::written(one, "infinity"));
            let value = if soft == hard { soft } else { format!("{soft}:{hard}") };
            lines.extend([key.as_str(), "=", value.as_str(), "\n"]);
        } else {
            let [soft, hard] = limit::halves(present).map(|one| limit::described(one, "infinity"));
            let _ = writeln!(comments, "# {key}: soft {soft}, hard {hard} here, at least {value} wanted");
        }
    }
    let text = if lines.is_empty() { comments } else { format!("{comments}[Manager]\n{lines}") };
    Limits { text, too_high }
}

/// Returns the contents of a file that Landau wrote; `None` if there is no file.
fn own_text(path: &Path) -> Result<Option<String>, Error> {
    let refused = |reason: &str| Err(Error::Refused { path: path.to_owned(), reason: reason.to_owned() });
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::file(path)(error)),
        Ok(meta) if !meta.is_file() => return refused("it is not a regular file; nothing was written"),
        Ok(_) => {}
    }
    let text = fs::read(path).map_err(Error::file(path))?;
    match String::from_utf8(text) {
        Ok(text) if text.starts_with(MARK) => Ok(Some(text)),
        _ => refused("landau tune keep did not write it, so it is not replaced; nothing was written"),
    }
}

impl Kept {
    /// Writes the file unless it already has these contents. Creates its directory.
    ///
    /// # Errors
    ///
    /// Fails if the file or its directory cannot be written.
    pub fn write(&self) -> Result<(), Error> {
        if self.unchanged { Ok(()) } else { replace(&self.path, &self.text) }
    }

    /// Returns whether the file has the contents that it had before [`Kept::write`].
    fn is_as_before(&self) -> bool {
        match fs::read(&self.path) {
            Ok(now) => self.before.as_ref().is_some_and(|before| before.as_bytes() == now),
            Err(error) => self.before.is_none() && is_absent(&error),
        }
    }

    /// Restores the state of the file before [`Kept::write`].
    fn undo(&self) -> Result<(), Error> {
        match &self.before {
            _ if self.unchanged => Ok(()),
            Some(before) => replace(&self.path, before),
            None => match fs::remove_file(&self.path) {
                Err(error) if !is_absent(&error) => Err(Error::file(&self.path)(error)),
                _ => Ok(()),
            },
        }
    }
}

/// Writes all files of a profile, or none: after an error, the files already written are restored.
///
/// # Errors
///
/// Fails with the error of the first file that cannot be written, or with [`Error::HalfKept`] if others could not be
/// restored after that.
pub fn write(kept: &[Kept]) -> Result<(), Error> {
    for (place, one) in kept.iter().enumerate() {
        let Err(error) = one.write() else { continue };
        // The failed write may already have renamed the file.
        let left = kept[..=place].iter().rev().filter(|one| one.undo().is_err() && !one.is_as_before());
        let left: Vec<String> = left.map(|one| one.path.display().to_string()).collect();
        return Err(if left.is_empty() { error } else { Error::HalfKept { error: Box::new(error), left } });
    }
    Ok(())
}

/// Returns whether an error says that a file does not exist.
fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Writes a file, and creates its directory.
fn replace(path: &Path, text: &str) -> Result<(), Error> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
    fs::create_dir_all(folder).map_err(Error::file(folder))?;
    let new_path = folder.join(format!(".{}.{}", name.to_string_lossy(), std::process::id()));
    let mut options = File::options();
    options.write(true).create_new(true).mode(0o644);
    let written = options.open(&new_path).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    let renamed = written.and_then(|()| fs::rename(&new_path, path));
    if renamed.is_err() {
        // The error says what went wrong. Only the new file could be left behind.
        let _ = fs::remove_file(&new_path);
    }
    renamed.map_err(Error::file(path))?;
    sync(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::plant;
    use crate::{Journal, Setting, Trial};

    fn own() -> Profile {
        let text = "[sysctl]\n\"net.core.somaxconn\" = { at_least = 4096 }\n\"vm.dirty_ratio\" = { at_least = 10 }\n\
                    \"net.netfilter.nf_conntrack_max\" = 9\n[limits]\nnofile = 65536";
        Profile::parse("own", "own.toml", text).unwrap()
    }

    fn host() -> (tempfile::TempDir, Root) {
        let room = tempfile::tempdir().unwrap();
        plant(room.path(), "net.core.somaxconn", "128");
        plant(room.path(), "vm.dirty_ratio", "20");
        let root = Root::planted(room.path());
        (room, root)
    }

    /// Guards against settings that stay on disk although the program reports that none were kept.
    #[test]
    fn all_files_are_written_or_none() {
        let (room, root) = host();
        let kept = keep(&root, &own()).unwrap();
        assert_eq!(kept.len(), 3);
        let folder = room.path().join("etc/sysctl.d");
        fs::create_dir_all(&folder).unwrap();
        // The directory of the last file cannot be created.
        let blocked = room.path().join("etc/systemd");
        std::os::unix::fs::symlink("nowhere", &blocked).unwrap();
        let failed = || write(&keep(&root, &own()).unwrap()).unwrap_err();
        assert!(matches!(failed(), Error::File { .. }));
        assert!(kept.iter().all(|one| !one.path.exists()));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        // A file that was replaced has its former contents again.
        let before = format!("{MARK} own`.\nvm.dirty_ratio = 7\n");
        fs::write(&kept[0].path, &before).unwrap();
        assert!(matches!(failed(), Error::File { .. }));
        assert_eq!(fs::read_to_string(&kept[0].path).unwrap(), before);
        fs::remove_file(&blocked).unwrap();
        write(&keep(&root, &own()).unwrap()).unwrap();
        assert!(kept.iter().all(|one| one.path.exists()));
    }

    #[test]
    fn files_are_written_once_and_again_with_the_same_text() {
        let (room, root) = host();
        let kept = keep(&root, &own()).unwrap();
        kept.iter().try_for_each(Kept::write).unwrap();
        let read = |path: &str| fs::read_to_string(room.path().join(path)).unwrap();
        let sysctls = read("etc/sysctl.d/90-landau-own.conf");
        assert!(sysctls.starts_with(MARK) && sysctls.contains("\nnet.core.somaxconn = 4096\n"), "{sysctls}");
        assert!(sysctls.contains("\n# vm.dirty_ratio: 20 here, at least 10 wanted\n"), "{sysctls}");
        assert!(sysctls.contains("\n-net.netfilter.nf_conntrack_max = 9\n"), "{sysctls}");
        assert!(
            read("etc/security/limits.d/90-landau-own.conf").ends_with("\n* - nofile 65536\nroot - nofile 65536\n")
        );
        assert!(
            read("etc/systemd/system.conf.d/90-landau-own.conf").ends_with("[Manager]\nDefaultLimitNOFILE=65536\n")
        );
        // The values take effect. Lines that we wrote stay.
        plant(room.path(), "net.core.somaxconn", "4096");
        assert!(keep(&root, &own()).unwrap().iter().all(|one| one.unchanged));
    }

    /// Guards against leaving out a value that only `sysctl -w` has set, and that is lost at the next boot.
    #[test]
    fn a_value_that_the_next_start_takes_away_is_kept() {
        let (room, root) = host();
        let wanted = |want: &str| Profile::parse("own", "own.toml", &format!("[sysctl]\n\"{want}\n")).unwrap();
        let lines = |want: &str| {
            let kept = keep(&root, &wanted(want)).unwrap();
            kept.iter().flat_map(lines).map(str::to_owned).collect::<Vec<_>>()
        };
        plant(room.path(), "kernel.osrelease", "5.3.0");
        plant(room.path(), "net.core.somaxconn", "16384");
        let somaxconn = "net.core.somaxconn\" = { at_least = 4096 }";
        assert_eq!(lines(somaxconn), ["net.core.somaxconn = 16384"]);
        assert_eq!(lines("net.core.somaxconn\" = 16384"), ["net.core.somaxconn = 16384"]);
        // A file sets a sufficient value.
        let folder = room.path().join("etc/sysctl.d");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("10-x.conf"), "net.core.somaxconn = 4096\n").unwrap();
        assert_eq!(lines(somaxconn), [""; 0]);
        assert_eq!(lines("net.core.somaxconn\" = 16384"), ["net.core.somaxconn = 16384"]);
        fs::remove_file(folder.join("10-x.conf")).unwrap();
        // The kernel's default is sufficient.
        plant(room.path(), "kernel.osrelease", "6.1.0");
        assert_eq!(lines(somaxconn), [""; 0]);
        // The kernel computes the default from the memory size, or Landau does not know it.
        plant(room.path(), "fs.file-max", "9000000");
        assert_eq!(lines("fs.file-max\" = { at_least = 9 }"), [""; 0]);
        plant(room.path(), "net.ipv4.tcp_congestion_control", "bbr");
        assert_eq!(lines("net.ipv4.tcp_congestion_control\" = \"bbr\""), ["net.ipv4.tcp_congestion_control = bbr"]);
        // systemd raises it at every boot.
        plant(room.path(), "fs.nr_open", &NR_OPEN_OF_SYSTEMD.to_string());
        assert_eq!(lines("fs.nr_open\" = { at_least = 2000000 }"), [""; 0]);
        plant(room.path(), "fs.nr_open", "3000000");
        assert_eq!(lines("fs.nr_open\" = { at_least = 2000000 }"), ["fs.nr_open = 3000000"]);
    }

    /// Guards against lowering what another file sets, and against a line that a later file makes void.
    #[test]
    fn the_other_files_are_neither_lowered_nor_overlooked() {
        let (room, root) = host();
        let folder = room.path().join("etc/sysctl.d");
        fs::create_dir_all(&folder).unwrap();
        let keep = |want: &str, file: &str, text: &str| {
            fs::write(folder.join(file), text).unwrap();
            let profile = Profile::parse("own", "own.toml", &format!("[sysctl]\n\"{want}\n")).unwrap();
            let kept = keep(&root, &profile).unwrap();
            fs::remove_file(folder.join(file)).unwrap();
            let all = |one: &Kept| (lines(one).join("; "), one.effect.clone());
            kept.iter().map(all).next().unwrap_or_default()
        };
        // The file has not been applied, or somebody has lowered the value since.
        let somaxconn = "net.core.somaxconn\" = { at_least = 4096 }";
        assert_eq!(keep(somaxconn, "10-x.conf", "net.core.somaxconn = 16384\n").0, "");
        assert_eq!(keep(somaxconn, "10-x.conf", "net.core.somaxconn = 512\n").0, "net.core.somaxconn = 4096");
        assert_eq!(keep("net.core.somaxconn\" = 4096", "10-x.conf", "net.core.somaxconn = 16384\n").0, {
            "net.core.somaxconn = 4096"
        });
        plant(room.path(), "net.ipv4.tcp_rmem", "4096 131072 6291456");
        let of_memory = "net.ipv4.tcp_rmem\" = { at_least = \"4096 131072 16777216\" }";
        let (line, effect) = keep(of_memory, "10-x.conf", "net.ipv4.tcp_rmem = 8192 131072 8388608\n");
        assert_eq!((&*line, &*effect), ("net.ipv4.tcp_rmem = 8192 131072 16777216", "sysctl --system"));
        // Letters are sorted after digits.
        let (line, effect) = keep(somaxconn, "local.conf", "net.core.somaxconn = 1024\n");
        assert_eq!(line, "net.core.somaxconn = 4096");
        let advice = "/etc/sysctl.d/local.conf sets net.core.somaxconn to 1024 and takes precedence: change it there";
        assert_eq!(effect, format!("sysctl --system; {advice}"));
    }

    /// Guards against comments in place of values that a trial has set, and that `landau tune restore` will undo.
    #[test]
    fn nothing_is_kept_while_a_trial_is_not_restored() {
        let (room, root) = host();
        let entries = Trial::entries(&[Setting {
            name: "net.core.somaxconn".to_owned(),
            old: "128".to_owned(),
            new: "4096".to_owned(),
        }]);
        let journal = Journal::open(&root, "own", entries).unwrap();
        plant(room.path(), "net.core.somaxconn", "4096");
        let refused = |root: &Root| keep(root, &own()).unwrap_err();
        assert!(matches!(refused(&root), Error::Busy), "{}", refused(&root));
        // The trial is killed.
        drop(journal);
        assert!(matches!(refused(&root), Error::Left(profile) if profile == "own"));
        crate::restore(&root, false, false).unwrap();
        assert!(keep(&root, &own()).is_ok());
    }

    /// A value with `at_least` was once written as an exact value, which lowered the setting at the next boot.
    #[test]
    fn a_sysctl_that_is_not_known_is_not_lowered() {
        let room = tempfile::tempdir().unwrap();
        let profile = Profile::find("seed-freebsd-2001").unwrap();
        for one in keep(&Root::planted(room.path()), &profile).unwrap() {
            let lowers = |line: &&str| line.starts_with("-net.ipv4.tcp_mem") || line.starts_with("-fs.file-max");
            assert_eq!(one.text.lines().find(lowers), None, "{}", one.text);
        }
    }

    fn kept(root: &Root, limit: &str) -> Vec<Kept> {
        keep(root, &Profile::parse("own", "own.toml", &format!("[limits]\n{limit}")).unwrap()).unwrap()
    }

    /// Returns the lines of a file that are not comments.
    fn lines(kept: &Kept) -> Vec<&str> {
        kept.text.lines().filter(|line| !line.starts_with('#')).collect()
    }

    /// A limit with `at_least` never lowers a higher one: neither the hard limit of sessions, nor that of services.
    #[test]
    fn no_limit_that_is_higher_already_is_lowered() {
        let (room, root) = host();
        plant(room.path(), "fs.nr_open", "1000000");
        let files = kept(&root, "nofile = { at_least = 65536 }");
        let [sessions, services] = &files[..] else { panic!("two files") };
        assert_eq!(lines(sessions), ["* soft nofile 65536", "root soft nofile 65536"]);
        let left = "\n# * nofile: soft 1024, hard 524288 here, at least 65536 wanted\n";
        assert!(sessions.text.contains(left), "{}", sessions.text);
        assert_eq!(lines(services), ["[Manager]", "DefaultLimitNOFILE=65536:524288"]);
        // Without `at_least`, the exact value is written.
        assert_eq!(lines(&kept(&root, "nofile = 2048")[1]), ["[Manager]", "DefaultLimitNOFILE=2048"]);
        // All are higher: there is nothing to write.
        assert!(kept(&root, "nofile = { at_least = 512 }").is_empty());
    }

    /// Above `fs.nr_open`, `setrlimit()` fails even for root. With the lines that were once written, nobody could log
    /// in.
    #[test]
    fn no_limit_above_what_the_kernel_takes_is_written() {
        let (room, root) = host();
        plant(room.path(), "fs.nr_open", "1000000");
        for limit in ["nofile = { at_least = 2000000 }", "nofile = 2000000"] {
            let files = kept(&root, limit);
            let [sessions, services] = &files[..] else { panic!("two files") };
            assert_eq!((lines(sessions), lines(services)), (Vec::new(), Vec::new()));
            let why = "2000000 wanted, left out: fs.nr_open is 1000000, and setrlimit() of a higher value fails\n";
            for (file, whose) in [(sessions, "* nofile"), (sessions, "root nofile"), (services, "DefaultLimitNOFILE")] {
                assert!(file.text.contains(&format!("\n# {whose}: {why}")), "{}", file.text);
                let advice = "set fs.nr_open to 2000000 or more in a file of /etc/sysctl.d, run `sysctl --system`";
                assert!(file.effect.contains(advice), "{}", file.effect);
            }
        }
        assert_eq!(lines(&kept(&root, "nofile = 1000000")[0]), ["* - nofile 1000000", "root - nofile 1000000"]);
        // In a system image, the kernel's default counts.
        let image = tempfile::tempdir().unwrap();
        let root = Root::planted(image.path());
        assert_eq!(lines(&kept(&root, "nofile = 1048576")[0]).len(), 2);
        assert!(lines(&kept(&root, "nofile = 1048577")[0]).is_empty());
    }

    /// The sysctl of the same profile must take effect first. A line that was written stays.
    #[test]
    fn a_limit_follows_the_sysctl_that_allows_it() {
        let (room, root) = host();
        plant(room.path(), "fs.nr_open", "1048576");
        let text = "[sysctl]\n\"fs.nr_open\" = { at_least = 2000000 }\n[limits]\nnofile = 2000000";
        let profile = Profile::parse("own", "own.toml", text).unwrap();
        let keep = || {
            let files = keep(&root, &profile).unwrap();
            files.iter().try_for_each(Kept::write).unwrap();
            files
        };
        let files = keep();
        assert_eq!(lines(&files[0]), ["fs.nr_open = 2000000"]);
        assert!(lines(&files[1]).is_empty() && lines(&files[2]).is_empty());
        let advice = "To keep it, run `sysctl --system`, then `landau tune keep` again";
        assert!(files[1].effect.ends_with(advice) && files[2].effect.ends_with(advice), "{}", files[1].effect);
        plant(room.path(), "fs.nr_open", "2000000");
        let files = keep();
        assert_eq!(lines(&files[0]), ["fs.nr_open = 2000000"]);
        assert_eq!(lines(&files[1]), ["* - nofile 2000000", "root - nofile 2000000"]);
        assert_eq!(lines(&files[2]), ["[Manager]", "DefaultLimitNOFILE=2000000"]);
        assert!(keep().iter().all(|one| one.unchanged));
    }

    /// A value set by `sysctl -w` is lost at the next boot; a limit in a file is not.
    #[test]
    fn a_ceiling_that_no_file_keeps_counts_as_the_kernels() {
        let (room, root) = host();
        let sessions = |running: u64| {
            plant(room.path(), "fs.nr_open", &running.to_string());
            let files = kept(&root, "nofile = 2000000");
            (lines(&files[0]).len(), files[0].text.contains("fs.nr_open is 1048576 after the next boot"))
        };
        assert_eq!(sessions(4_000_000), (0, true));
        assert_eq!(sessions(NR_OPEN_OF_SYSTEMD), (2, false));
        let folder = room.path().join("usr/lib/sysctl.d");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("10-x.conf"), "fs.nr_open = 4000000\n").unwrap();
        assert_eq!(sessions(4_000_000), (2, false));
        // The later file takes precedence.
        fs::write(folder.join("95-x.conf"), "fs/nr_open=1048576\n").unwrap();
        assert_eq!(sessions(4_000_000), (0, true));
    }

    /// A line was once written for a limit whose present value was not known, which might have lowered it.
    #[test]
    fn a_limit_that_is_not_known_is_left_alone() {
        let (room, root) = host();
        fs::create_dir_all(room.path().join("etc/security")).unwrap();
        fs::write(room.path().join("etc/security/limits.conf"), "* soft nproc 4096\n").unwrap();
        let files = kept(&root, "nproc = { at_least = 8192 }\nnofile = { at_least = 65536 }");
        let [sessions, services] = &files[..] else { panic!("two files") };
        assert_eq!(lines(sessions), ["* soft nofile 65536", "root soft nofile 65536", "* soft nproc 8192"]);
        let left = "\n# root nproc: soft unknown, hard unknown here, at least 8192 wanted\n";
        assert!(sessions.text.contains(left), "{}", sessions.text);
        assert_eq!(lines(services), ["[Manager]", "DefaultLimitNOFILE=65536:524288"]);
        let left = "\n# DefaultLimitNPROC: soft unknown, hard unknown here, at least 8192 wanted\n";
        assert!(services.text.contains(left), "{}", services.text);
        // The limits of services are not known.
        assert_eq!(kept(&root, "nproc = { at_least = 8192 }").len(), 1);
        // An exact value is requested.
        assert_eq!(lines(&kept(&root, "nproc = 8192")[1]), ["[Manager]", "DefaultLimitNPROC=8192"]);
    }

    /// A line of ours must not lower a limit that has been raised since it was written.
    #[test]
    fn a_line_of_ours_that_would_lower_a_limit_is_removed() {
        let (room, root) = host();
        let write = |limit: &str| kept(&root, limit).iter().try_for_each(Kept::write).unwrap();
        write("nofile = { at_least = 65536 }");
        let folder = room.path().join("etc/security/limits.d");
        fs::write(folder.join("10-x.conf"), "* - nofile 1000000\nroot - nofile 1000000\n").unwrap();
        write("nofile = { at_least = 65536 }");
        let text = fs::read_to_string(folder.join("90-landau-own.conf")).unwrap();
        assert!(text.starts_with(MARK) && text.lines().all(|line| line.starts_with('#')), "{text}");
    }

    /// A root session that began after the file was written has the limits of the file; its line stays.
    #[test]
    fn what_is_kept_for_root_stays_kept() {
        let (room, root) = host();
        let folder = room.path().join("proc/self");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("status"), "Uid:\t0\t0\t0\t0\n").unwrap();
        let plant = |soft: u64| {
            let limits = format!("Max open files {soft} 1048576 files\n");
            fs::write(folder.join("limits"), limits).unwrap();
        };
        plant(1_024);
        let first = kept(&root, "nofile = { at_least = 65536 }");
        assert_eq!(lines(&first[0]), ["* soft nofile 65536", "root soft nofile 65536"]);
        first.iter().try_for_each(Kept::write).unwrap();
        plant(65_536);
        assert!(kept(&root, "nofile = { at_least = 65536 }").iter().all(|one| one.unchanged));
        // The hard limit of this session does not come from our file.
        assert_eq!(lines(&kept(&root, "nofile = { at_least = 1000000 }")[0])[1], "root soft nofile 1000000");
    }

    /// The limits of root are no reason to give everybody the same.
    #[test]
    fn the_limit_of_root_is_not_given_to_everybody() {
        let (room, root) = host();
        fs::create_dir_all(room.path().join("etc/security")).unwrap();
        let limits = "* soft nproc 4096\n* hard nproc 5000\nroot - nproc unlimited\n";
        fs::write(room.path().join("etc/security/limits.conf"), limits).unwrap();
        assert_eq!(lines(&kept(&root, "nproc = { at_least = 8192 }")[0]), ["* - nproc 8192"]);
    }

    #[test]
    fn a_file_of_somebody_else_stays_and_nothing_is_written() {
        let (room, root) = host();
        let path = room.path().join("etc/systemd/system.conf.d/90-landau-own.conf");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "[Manager]\n").unwrap();
        let error = keep(&root, &own()).unwrap_err().to_string();
        assert!(error.contains("did not write it"), "{error}");
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("elsewhere", &path).unwrap();
        assert!(keep(&root, &own()).is_err());
        assert!(!room.path().join(SYSCTLS).exists());
    }
}
