//! The present resource limits of new sessions and of services, which a kept profile must not lower.
//!
//! The limits of sessions come from `/etc/security/limits.conf` and `limits.d` (`pam_limits`), or else from the service
//! that starts the session. The limits of services come from `DefaultLimitNOFILE=` and `DefaultLimitNPROC=` of systemd,
//! or else from its defaults.

use landau_host::{FIRST_PID_NAMESPACE, Root, manager_setting};
use landau_sys::limits::UNLIMITED;
use std::path::Path;

/// A soft and a hard limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) soft: u64,
    pub(crate) hard: u64,
}

impl Pair {
    /// Returns the pair raised so that both limits are at least `value`.
    pub(crate) fn raised_to(self, value: u64) -> Self {
        Self { soft: self.soft.max(value), hard: self.hard.max(value) }
    }
}

/// Returns the soft and the hard limit of a pair.
pub(crate) fn halves(pair: Option<Pair>) -> [Option<u64>; 2] {
    [pair.map(|pair| pair.soft), pair.map(|pair| pair.hard)]
}

/// Returns a limit as the files of limits.d and systemd spell it; their words for "no limit" differ.
pub(crate) fn written(value: u64, unlimited: &str) -> String {
    if value == UNLIMITED { unlimited.to_owned() } else { value.to_string() }
}

/// Returns a limit as [`written`] does, or "unknown".
pub(crate) fn described(value: Option<u64>, unlimited: &str) -> String {
    value.map_or("unknown".to_owned(), |value| written(value, unlimited))
}

/// Parses a limit as `/proc`, limits.conf(5) or systemd.exec(5) spell it.
fn parse(word: &str) -> Option<u64> {
    match word {
        "unlimited" | "infinity" | "-1" => Some(UNLIMITED),
        _ => word.parse().ok(),
    }
}

/// Returns the limits of a process, from the line of `/proc/PID/limits` for `nofile` or `nproc`.
pub(crate) fn of_process(root: &Root, process: &str, name: &str) -> Option<Pair> {
    let line = if name == "nofile" { "Max open files" } else { "Max processes" };
    let text = root.text(&format!("proc/{process}/limits"))?;
    let mut words = text.lines().find_map(|text| text.strip_prefix(line))?.split_ascii_whitespace().map(parse);
    Some(Pair { soft: words.next()??, hard: words.next()?? })
}

/// Returns the soft and the hard limit of the sessions of `who` (`*` or `root`), as far as they are known, ignoring the
/// file `own`. They come from the lines of that domain, or else from the start of the session. The lines of `*` do not
/// apply to root (`pam_limits`).
pub(crate) fn of_sessions(root: &Root, name: &str, who: &str, own: &str) -> [Option<u64>; 2] {
    let folder = "etc/security/limits.d";
    let drop_ins = confs(root, folder).filter(|file| file != own).map(|file| format!("{folder}/{file}"));
    let texts = ["etc/security/limits.conf".to_owned()].into_iter().chain(drop_ins).filter_map(|file| root.text(&file));
    let [soft, hard] = lines_of(texts, name, who);
    let ours = lines_of(root.text(&format!("{folder}/{own}")).into_iter(), name, who);
    let [first_soft, first_hard] = at_begin(root, name, who, own, ours);
    let (soft, hard) = (soft.or(first_soft), hard.or(first_hard));
    // The hard limit caps the soft one.
    [soft.map(|soft| soft.min(hard.unwrap_or(UNLIMITED))), hard]
}

/// Returns the soft and the hard limit that the lines of a domain in these texts set. The last line takes precedence.
fn lines_of(texts: impl Iterator<Item = String>, name: &str, who: &str) -> [Option<u64>; 2] {
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
    [soft, hard]
}

/// Returns the soft and the hard limit at the start of a session, as far as they are known: those of the service that
/// starts it, or of process 1 if that is not systemd. The hard limit is at least that of process 1, with which Debian's
/// `pam_limits` begins. If this session is root's, the limits of root are at least its own. But a limit that the file
/// `own` sets (`ours`) may come from that file.
fn at_begin(root: &Root, name: &str, who: &str, own: &str, ours: [Option<u64>; 2]) -> [Option<u64>; 2] {
    let of_process_1 = of_process(root, "1", name);
    let of_service = of_services(root, name, own);
    let is_systemd = root.text("proc/1/comm").is_none_or(|program| program == "systemd");
    let first = if is_systemd { of_service } else { of_process_1.or(of_service) };
    let of_root = of_process(root, "self", name).filter(|_| who == "root" && is_root(root));
    let [soft_of_root, hard_of_root] = halves(of_root);
    let [soft, hard] = halves(first);
    // `None`, for an unknown limit, is less than any limit.
    let soft = soft.max(soft_of_root.filter(|_| soft_of_root != ours[0]));
    let hard = hard.max(halves(of_process_1)[1]).max(hard_of_root.filter(|_| hard_of_root != ours[1]));
    [soft, hard]
}

/// Returns whether this process runs as root.
fn is_root(root: &Root) -> bool {
    let status = root.text("proc/self/status").unwrap_or_default();
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    ids.and_then(|ids| ids.split_ascii_whitespace().next()) == Some("0")
}

/// Returns the limits that systemd gives to services without their own, ignoring the file `own`: those of its
/// configuration files, or its defaults. `None` if they are not known.
pub(crate) fn of_services(root: &Root, name: &str, own: &str) -> Option<Pair> {
    let set = manager_setting(root, &format!("DefaultLimit{}", name.to_uppercase()), Some(own));
    let Some(value) = set else { return default_of_services(root, name) };
    let (soft, hard) = value.split_once(':').unwrap_or((&value, &value));
    Some(Pair { soft: parse(soft.trim())?, hard: parse(hard.trim())? })
}

/// Returns systemd's defaults. For processes, it passes on its own limit, which is the kernel's. For descriptors, it
/// passes on the hard limit that it was started with if that is higher than its default, and then raises its own
/// further. In a container, its present limit may be the one that it was started with; a kernel starts it with less
/// than the default.
fn default_of_services(root: &Root, name: &str) -> Option<Pair> {
    let of_process_1 = of_process(root, "1", name);
    if name != "nofile" {
        return of_process_1;
    }
    let is_contained = root.link("proc/self/ns/pid").is_some_and(|link| link != FIRST_PID_NAMESPACE);
    let started_with = of_process_1.filter(|_| is_contained).map_or(0, |pair| pair.hard);
    // The defaults since version 240.
    Some(Pair { soft: 1_024, hard: started_with.max(524_288) })
}

/// Returns the names of the `.conf` files of a directory, sorted.
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
        let of = |name, who| of_sessions(&root, name, who, "90-own.conf");
        assert_eq!(of("nofile", "*"), [Some(2_048), Some(524_288)]);
        // The lines of `*` do not apply to root; the limits of this root session do.
        assert_eq!(of("nofile", "root"), [Some(1_024), Some(4_096_000)]);
        // The files set no hard limit, and there is no process 1 to read one from.
        assert_eq!(of("nproc", "*"), [Some(4_096), None]);
        assert_eq!(of("nproc", "root"), [Some(UNLIMITED), None]);
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
            ["nofile", "nproc"]
                .map(|name| ["*", "root"].map(|who| of_sessions(&root, name, who, "90-own.conf").map(Option::unwrap)))
        };
        assert_eq!(of("systemd\n", ""), [[[1_024, 524_288]; 2], [[300, 400]; 2]]);
        assert_eq!(of("init\n", ""), [[[4_096, 8_192]; 2], [[300, 400]; 2]]);
        // A soft limit never exceeds the hard one.
        assert_eq!(of("init\n", "* hard nofile 100\n")[0], [[100, 100], [4_096, 8_192]]);
        assert_eq!(of("init\n", "* soft nofile 9000\n")[0], [[8_192, 8_192], [4_096, 8_192]]);
    }

    /// Debian's sessions have the hard limit of process 1, which systemd raises to `fs.nr_open`. The hard limit of
    /// services was once written for sessions, which lowered it.
    #[test]
    fn the_hard_limit_of_a_session_is_at_least_that_of_process_1() {
        let (_room, root) =
            planted(&[("proc/1/comm", "systemd\n"), ("proc/1/limits", "Max open files   1048576   1048576   files\n")]);
        assert_eq!(of_sessions(&root, "nofile", "*", "90-own.conf"), [Some(1_024), Some(1_048_576)]);
        assert_eq!(of_services(&root, "nofile", "90-own.conf"), Some(Pair { soft: 1_024, hard: 524_288 }));
    }

    /// systemd passes on a higher hard limit that it was started with, as process 1 of a container may be.
    #[test]
    fn services_of_a_container_may_have_the_hard_limit_of_process_1() {
        let of = |namespace: &str, hard: u64| {
            let limits = format!("Max open files   1024   {hard}   files\n");
            let (room, root) = planted(&[("proc/1/limits", limits.as_str()), ("proc/self/ns/net", "")]);
            std::os::unix::fs::symlink(namespace, room.path().join("proc/self/ns/pid")).unwrap();
            of_services(&root, "nofile", "90-own.conf").unwrap().hard
        };
        assert_eq!(of(FIRST_PID_NAMESPACE, 1_048_576), 524_288);
        assert_eq!(of("pid:[4026532000]", 1_048_576), 1_048_576);
        assert_eq!(of("pid:[4026532000]", 4_096), 524_288);
    }

    #[test]
    fn the_last_file_of_systemd_counts_and_else_its_default() {
        let (_room, root) = planted(&[
            ("etc/systemd/system.conf", "[Manager]\n#DefaultLimitNOFILE=9\nDefaultLimitNOFILE=5\n"),
            ("etc/systemd/system.conf.d/10-x.conf", "[Manager]\nDefaultLimitNOFILE = 2048 : infinity\n"),
            ("etc/systemd/system.conf.d/90-own.conf", "[Manager]\nDefaultLimitNOFILE=7\n"),
        ]);
        assert_eq!(of_services(&root, "nofile", "90-own.conf"), Some(Pair { soft: 2_048, hard: UNLIMITED }));
        let (_room, root) = planted(&[]);
        assert_eq!(of_services(&root, "nofile", "90-own.conf"), Some(Pair { soft: 1_024, hard: 524_288 }));
        assert_eq!(of_services(&root, "nproc", "90-own.conf"), None);
    }

    /// A value that cannot be parsed may exceed the default, which would replace it.
    #[test]
    fn a_limit_of_services_that_cannot_be_read_is_not_known() {
        let text = "[Manager]\nDefaultLimitNOFILE=2097152\nDefaultLimitNOFILE=0x200000\n";
        let (_room, root) = planted(&[("etc/systemd/system.conf", text)]);
        assert_eq!(of_services(&root, "nofile", "90-own.conf"), None);
    }
}
