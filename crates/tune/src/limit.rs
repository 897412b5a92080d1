//! Resource limits that exist: of new sessions and of services. A file that keeps a profile must not lower them.
//!
//! Sessions get theirs from `/etc/security/limits.conf` and `limits.d` (`pam_limits`), and else from the service that
//! starts them. Services get theirs from `DefaultLimitNOFILE=` and `DefaultLimitNPROC=` of systemd,
//! and else its defaults.

use landau_host::Root;
use std::collections::BTreeMap;
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

/// Returns the limits of the sessions of somebody, `*` or `root`, but for the file `own`: as the lines of that domain
/// say, of which the last one counts, and else as sessions begin. The lines of `*` do not apply to root (`pam_limits`).
pub(crate) fn of_sessions(root: &Root, name: &str, who: &str, own: &str) -> Option<Pair> {
    let folder = "etc/security/limits.d";
    let drop_ins = confs(root, folder).filter(|file| file != own).map(|file| format!("{folder}/{file}"));
    let texts = ["etc/security/limits.conf".to_owned()].into_iter().chain(drop_ins).filter_map(|file| root.text(&file));
    let (mut soft, mut hard) = (None, None);
    for text in texts {
        for line in text.lines() {
            let words: Vec<&str> = line.split('#').next().unwrap_or_default().split_ascii_whitespace().collect();
            let [domain, kind, item, value, ..] = words[..] else { continue };
            let Some(value) = parse(value).filter(|_| domain == who && item == name) else { continue };
            if matches!(kind, "-" | "soft") {
                soft = Some(value);
            }
            if matches!(kind, "-" | "hard") {
                hard = Some(value);
            }
        }
    }
    let first = at_begin(root, name, who, own);
    let hard = hard.or(first.map(|pair| pair.hard)).or(soft)?;
    // A higher soft limit is lowered to the hard one.
    let soft = soft.or(first.map(|pair| pair.soft)).unwrap_or(hard).min(hard);
    Some(Pair { soft, hard })
}

/// Returns the limits with which a session begins: those of the service that starts it, or of process 1 where that is
/// not systemd. Of root, also those of this session, if it is root's.
fn at_begin(root: &Root, name: &str, who: &str, own: &str) -> Option<Pair> {
    let of_service = || of_services(root, name, own);
    let first = match root.text("proc/1/comm") {
        Some(program) if program != "systemd" => of_process(root, "1", name).or_else(of_service),
        _ => of_service(),
    };
    let of_root = of_process(root, "self", name).filter(|_| who == "root" && is_root(root));
    match (first, of_root) {
        (Some(first), Some(of_root)) => Some(first.at_least(of_root)),
        (first, of_root) => first.or(of_root),
    }
}

/// Returns whether this process is root's.
fn is_root(root: &Root) -> bool {
    let status = root.text("proc/self/status").unwrap_or_default();
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    ids.and_then(|ids| ids.split_ascii_whitespace().next()) == Some("0")
}

/// The folders of systemd's configuration. A file hides those of the same name in the folders behind its own.
const SYSTEMD: [&str; 4] = ["etc/systemd", "run/systemd", "usr/local/lib/systemd", "usr/lib/systemd"];

/// Returns the limits that systemd gives to services without their own, but for the file `own`: as its files say, of
/// which the last one counts, or its defaults. It reads one main file, and then the drop-ins in the order of their
/// names, whatever their folder.
pub(crate) fn of_services(root: &Root, name: &str, own: &str) -> Option<Pair> {
    let key = format!("DefaultLimit{}", name.to_uppercase());
    let main = SYSTEMD.iter().find_map(|folder| root.text(&format!("{folder}/system.conf")));
    let mut drop_ins = BTreeMap::new();
    for folder in SYSTEMD.iter().rev().map(|folder| format!("{folder}/system.conf.d")) {
        for file in confs(root, &folder).filter(|file| file != own) {
            let path = format!("{folder}/{file}");
            drop_ins.insert(file, path);
        }
    }
    let drop_ins = drop_ins.values().filter_map(|path| root.text(path));
    let texts: Vec<String> = main.into_iter().chain(drop_ins).collect();
    // Spaces around the sign are allowed.
    let assigned = texts.iter().flat_map(|text| text.lines()).filter_map(|line| line.split_once('='));
    let set = assigned.filter(|(found, _)| found.trim() == key).map(|(_, value)| value.trim()).next_back();
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

/// Returns the names of the `.conf` files of a folder, sorted.
fn confs(root: &Root, folder: &str) -> impl Iterator<Item = String> + use<> {
    let is_conf = |name: &String| Path::new(name).extension().is_some_and(|kind| kind == "conf");
    root.names(folder).into_iter().filter(is_conf)
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
    fn the_limit_of_everybody_is_neither_that_of_root_nor_of_a_group() {
        let (_room, root) = planted(&[
            ("proc/self/limits", "Max open files            1024    4096000    files\n"),
            ("proc/self/status", "Name:\tlandau\nUid:\t0\t0\t0\t0\n"),
            (
                "etc/security/limits.conf",
                "# * hard nofile 9999999\n@web hard nofile 8000000 # comment\n* soft core 0\n",
            ),
            ("etc/security/limits.d/10-x.conf", "* soft nofile 4096\n* soft nproc 4096\nroot soft nproc unlimited\n"),
            ("etc/security/limits.d/20-x.conf", "* soft nofile 2048\n"),
            ("etc/security/limits.d/90-own.conf", "* - nofile 7000000\nroot - nofile 7000000\n"),
        ]);
        let of = |name, who| of_sessions(&root, name, who, "90-own.conf").unwrap();
        assert_eq!(of("nofile", "*"), Pair { soft: 2_048, hard: 524_288 });
        assert_eq!(of("nofile", "*").raised_to(65_536), Pair { soft: 65_536, hard: 524_288 });
        // Not the lines of `*`, but what this session of root shows.
        assert_eq!(of("nofile", "root"), Pair { soft: 1_024, hard: 4_096_000 });
        // The files say no hard limit, and no process 1 shows one.
        assert_eq!(of("nproc", "*"), Pair { soft: 4_096, hard: 4_096 });
        assert_eq!(of("nproc", "root"), Pair { soft: UNLIMITED, hard: UNLIMITED });
    }

    #[test]
    fn a_session_begins_with_the_limits_of_a_service_or_of_another_process_1() {
        let limits = "Max open files            4096    8192    files\nMax processes   300   400   processes\n";
        let of = |program: &str, text: &str| {
            let (_room, root) = planted(&[
                ("proc/1/limits", limits),
                ("proc/1/comm", program),
                ("proc/self/limits", "Max open files   9000000   9000000   files\n"),
                ("proc/self/status", "Uid:\t1000\t1000\t1000\t1000\n"),
                ("etc/security/limits.conf", text),
            ]);
            ["nofile", "nproc"].map(|name| {
                let of = |who| of_sessions(&root, name, who, "90-own.conf").map(|pair| (pair.soft, pair.hard)).unwrap();
                [of("*"), of("root")]
            })
        };
        assert_eq!(of("systemd\n", ""), [[(1_024, 524_288); 2], [(300, 400); 2]]);
        assert_eq!(of("init\n", ""), [[(4_096, 8_192); 2], [(300, 400); 2]]);
        // A soft limit is not above the hard one.
        assert_eq!(of("init\n", "* hard nofile 100\n")[0], [(100, 100), (4_096, 8_192)]);
        assert_eq!(of("init\n", "* soft nofile 9000\n")[0], [(8_192, 8_192), (4_096, 8_192)]);
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

    #[test]
    fn spaces_are_allowed_around_the_sign_of_systemd() {
        let text = "[Manager]\n# DefaultLimitNOFILE = 9\n DefaultLimitNOFILE = 1048576\nDefaultLimitNOFILESoft=9\n";
        let (_room, root) = planted(&[("etc/systemd/system.conf", text)]);
        let of = of_services(&root, "nofile", "90-own.conf");
        assert_eq!(of, Some(Pair { soft: 1_048_576, hard: 1_048_576 }));
    }

    #[test]
    fn drop_ins_count_by_their_name_and_hide_those_of_the_same_name() {
        let of = |files: &[(&str, u64)]| {
            let files = files.iter().map(|(path, value)| (*path, format!("[Manager]\nDefaultLimitNOFILE={value}\n")));
            let files: Vec<(&str, String)> = files.collect();
            let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
            let (_room, root) = planted(&files);
            of_services(&root, "nofile", "90-own.conf").unwrap().soft
        };
        let mut files = vec![("usr/lib/systemd/system.conf", 1_u64), ("etc/systemd/system.conf", 2)];
        assert_eq!(of(&files), 2, "there is one main file");
        files.extend([("usr/lib/systemd/system.conf.d/50-x.conf", 3), ("etc/systemd/system.conf.d/10-x.conf", 4)]);
        assert_eq!(of(&files), 3, "a name counts more than a folder");
        files.push(("usr/local/lib/systemd/system.conf.d/50-x.conf", 5));
        assert_eq!(of(&files), 5, "one of an earlier folder hides another");
        files.push(("run/systemd/system.conf.d/50-x.conf", 6));
        assert_eq!(of(&files), 6);
        files.extend([("etc/systemd/system.conf.d/50-x.conf", 7), ("etc/systemd/system.conf.d/90-own.conf", 8)]);
        assert_eq!(of(&files), 7);
    }
}
