//! Resource limits that exist: of new sessions and of services. A file that keeps a profile must not lower them.
//!
//! Sessions get theirs from `/etc/security/limits.conf` and `limits.d` (`pam_limits`), and else from whatever started
//! them, which this process shows. Services get theirs from `DefaultLimitNOFILE=` and `DefaultLimitNPROC=` of systemd,
//! and else its defaults.

use landau_host::Root;
use std::path::Path;

/// The value that means that there is no limit.
pub(crate) const UNLIMITED: u64 = u64::MAX;

/// A soft and a hard limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) soft: u64,
    pub(crate) hard: u64,
}

impl Pair {
    /// Returns the pair of which neither is lower than that of the other pair.
    fn at_least(self, other: Self) -> Self {
        Self { soft: self.soft.max(other.soft), hard: self.hard.max(other.hard) }
    }

    /// Returns the pair in which a program can have a soft limit of so much.
    pub(crate) fn raised_to(self, value: u64) -> Self {
        self.at_least(Self { soft: value, hard: value })
    }
}

/// Returns a limit as the files of limits.d and systemd write it, whose word for "no limit" differs.
pub(crate) fn written(value: u64, unlimited: &str) -> String {
    if value == UNLIMITED { unlimited.to_owned() } else { value.to_string() }
}

/// Reads a limit, in the words of `/proc`, limits.conf(5) and systemd.exec(5).
fn parse(word: &str) -> Option<u64> {
    match word {
        "unlimited" | "infinity" | "-1" => Some(UNLIMITED),
        _ => word.parse().ok(),
    }
}

/// Returns the limits of a process, on the line of `/proc/PID/limits` for `nofile` or `nproc`.
pub(crate) fn of_process(root: &Root, process: &str, name: &str) -> Option<Pair> {
    let line = if name == "nofile" { "Max open files" } else { "Max processes" };
    let text = root.text(&format!("proc/{process}/limits"))?;
    let mut words = text.lines().find_map(|text| text.strip_prefix(line))?.split_ascii_whitespace().map(parse);
    Some(Pair { soft: words.next()??, hard: words.next()?? })
}

/// Returns the highest limits of sessions: of this one, and of whomever a file names, but for the file `own`.
pub(crate) fn of_sessions(root: &Root, name: &str, own: &str) -> Option<Pair> {
    let folder = "etc/security/limits.d";
    let drop_ins = confs(root, folder).filter(|file| !file.ends_with(&format!("/{own}")));
    let texts = ["etc/security/limits.conf".to_owned()].into_iter().chain(drop_ins).filter_map(|file| root.text(&file));
    let mut highest = of_process(root, "self", name);
    for text in texts {
        for line in text.lines() {
            let words: Vec<&str> = line.split('#').next().unwrap_or_default().split_ascii_whitespace().collect();
            let [_, kind, item, value, ..] = words[..] else { continue };
            let Some(value) = parse(value).filter(|_| item == name) else { continue };
            let pair = match kind {
                "-" => Pair { soft: value, hard: value },
                "hard" => Pair { soft: 0, hard: value },
                "soft" => Pair { soft: value, hard: 0 },
                _ => continue,
            };
            highest = Some(highest.map_or(pair, |highest| highest.at_least(pair)));
        }
    }
    highest
}

/// Returns the limits that systemd gives to services without their own, but for the file `own`: as its files say, of
/// which the last one counts, or its defaults.
pub(crate) fn of_services(root: &Root, name: &str, own: &str) -> Option<Pair> {
    let key = format!("DefaultLimit{}=", name.to_uppercase());
    let mut files = Vec::new();
    for folder in ["usr/lib/systemd", "etc/systemd"] {
        files.push(format!("{folder}/system.conf"));
        files
            .extend(confs(root, &format!("{folder}/system.conf.d")).filter(|file| !file.ends_with(&format!("/{own}"))));
    }
    let texts: Vec<String> = files.iter().filter_map(|file| root.text(file)).collect();
    let set = texts.iter().flat_map(|text| text.lines()).filter_map(|line| line.trim().strip_prefix(&key)).next_back();
    let pair = set.and_then(|value| {
        let (soft, hard) = value.split_once(':').unwrap_or((value, value));
        Some(Pair { soft: parse(soft.trim())?, hard: parse(hard.trim())? })
    });
    // Since version 240. Of processes, systemd passes on its own limit, which is the kernel's.
    let default = || match name {
        "nofile" => Some(Pair { soft: 1_024, hard: 524_288 }),
        _ => of_process(root, "1", name),
    };
    pair.or_else(default)
}

/// Returns the paths of the `.conf` files of a folder.
fn confs<'a>(root: &Root, folder: &'a str) -> impl Iterator<Item = String> + use<'a> {
    let is_conf = |name: &String| Path::new(name).extension().is_some_and(|kind| kind == "conf");
    root.names(folder).into_iter().filter(is_conf).map(move |name| format!("{folder}/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planted(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let room = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = room.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let root = Root::planted(room.path());
        (room, root)
    }

    #[test]
    fn the_highest_limit_of_sessions_is_that_of_this_one_or_of_a_file() {
        let (_room, root) = planted(&[
            (
                "proc/self/limits",
                "Max open files            1024    4096    files\nMax processes   unlimited   unlimited  p\n",
            ),
            ("etc/security/limits.conf", "# * hard nofile 9999999\n@web hard nofile 100000 # comment\n* soft core 0\n"),
            ("etc/security/limits.d/20-x.conf", "* soft nofile 2048\n"),
            ("etc/security/limits.d/90-own.conf", "* - nofile 7000000\n"),
        ]);
        let of = |name| of_sessions(&root, name, "90-own.conf");
        assert_eq!(of("nofile"), Some(Pair { soft: 2_048, hard: 100_000 }));
        assert_eq!(of("nproc"), Some(Pair { soft: UNLIMITED, hard: UNLIMITED }));
        assert_eq!(of("nofile").unwrap().raised_to(65_536), Pair { soft: 65_536, hard: 100_000 });
    }

    #[test]
    fn the_last_file_of_systemd_counts_and_else_its_default() {
        let (_room, root) = planted(&[
            ("etc/systemd/system.conf", "[Manager]\n#DefaultLimitNOFILE=9\nDefaultLimitNOFILE=5\n"),
            ("etc/systemd/system.conf.d/10-x.conf", "[Manager]\nDefaultLimitNOFILE=2048:infinity\n"),
            ("etc/systemd/system.conf.d/90-own.conf", "[Manager]\nDefaultLimitNOFILE=7\n"),
        ]);
        assert_eq!(of_services(&root, "nofile", "90-own.conf"), Some(Pair { soft: 2_048, hard: UNLIMITED }));
        let (_room, root) = planted(&[]);
        assert_eq!(of_services(&root, "nofile", "90-own.conf"), Some(Pair { soft: 1_024, hard: 524_288 }));
        assert_eq!(of_services(&root, "nproc", "90-own.conf"), None);
    }
}
