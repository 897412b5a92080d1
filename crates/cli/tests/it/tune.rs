//! `landau tune`: plans, trials and how they end, including by a signal, and the answers for unprivileged users.

use crate::support::{LANDAU, Process, Ran, Room, eventually, is_root};
use serde_json::Value;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A profile of settings of a network namespace, with values far from their defaults.
const PROFILE: &str = "[sysctl]\n\"net.core.somaxconn\" = 16\n\"net.ipv4.ip_local_port_range\" = \"20000 60000\"\n\
                       \"net.ipv4.tcp_fin_timeout\" = 31\n\"net.ipv4.tcp_max_syn_backlog\" = 64\n";

/// The run of a trial.
const RUN: [&str; 9] = ["run", "dup", "--study", "smoke", "--passes", "3", "--output", "r.ndjson", "--no-report"];

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

/// Creates a sysctl below a directory.
fn plant(room: &Path, name: &str, value: &str) {
    let path = room.join("proc/sys").join(name.replace('.', "/"));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    // Renamed into place, so that no process reads a partial value, as in /proc.
    let written = room.join("planted");
    std::fs::write(&written, format!("{value}\n")).unwrap();
    std::fs::rename(written, path).unwrap();
}

#[test]
fn a_plan_says_what_would_change_and_changes_nothing() {
    let room = Room::new();
    plant(room.path(), "net.core.somaxconn", "4096");
    plant(room.path(), "fs.file-max", "65536");
    std::fs::write(room.file("own.toml"), "[sysctl]\n\"net.core.somaxconn\" = 16\n\"fs.file-max\" = 65536").unwrap();
    let ran = room.landau(&["tune", "plan", "own.toml", "--root", ".", "--json"]);
    let plan = json(&ran);
    let change = &plan["changes"][0];
    assert_eq!((&change["name"], &change["now"]), (&"net.core.somaxconn".into(), &"4096".into()), "{plan}");
    assert_eq!((&change["new"], &change["tried"]), (&"16".into(), &"namespace".into()), "{plan}");
    assert_eq!(plan["present"][0]["name"], "fs.file-max", "{plan}");
    assert_eq!(std::fs::read_to_string(room.file("proc/sys/net/core/somaxconn")).unwrap(), "4096\n");
    let ran = room.landau(&["tune", "plan", "idel"]);
    assert!(ran.status == Some(2) && ran.err.contains("seed-freebsd-2001"), "{ran:?}");
}

/// A trial of planted settings, which have no effect. Both sides are recorded, the values are restored, and the journal
/// is removed.
#[test]
fn a_trial_restores_the_host_and_its_records_are_not_resumed() {
    let room = Room::new();
    plant(room.path(), "vm.dirty_ratio", "20");
    std::fs::write(room.file("own.toml"), "[sysctl]\n\"vm.dirty_ratio\" = 40").unwrap();
    let first = ["tune", "try", "own.toml", "--root", ".", "--json"];
    let ran = room.landau(&[&first[..], &["--"], &RUN].concat());
    assert!(ran.status == Some(2) && ran.err.contains("--on-host"), "{ran:?}");
    let ran = room.landau(&[&first[..], &["--on-host", "--"], &RUN].concat());
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let answer = json(&ran);
    assert_eq!(answer["settings"][0]["name"], "vm.dirty_ratio", "{answer}");
    assert_eq!((&answer["complete"], answer["trials"].as_array().unwrap().len()), (&true.into(), 1), "{answer}");
    assert_eq!(std::fs::read_to_string(room.file("proc/sys/vm/dirty_ratio")).unwrap(), "20");
    assert!(!room.file("var/lib/landau/tune/journal.json").exists());
    let side = room.record("r.new.ndjson").header.side.unwrap();
    assert_eq!((side.profile.as_deref(), side.differences), (Some("own"), vec!["vm.dirty_ratio=40".to_owned()]));
    let ran = room.landau(&["run", "--resume", "r.base.ndjson", "--passes", "9"]);
    assert!(ran.status == Some(2) && ran.err.contains("start a new trial"), "{ran:?}");
}

/// While another trial runs, a second one once waited for its end and could not be interrupted.
#[test]
fn a_trial_does_not_wait_for_another_one() {
    let room = Room::new();
    plant(room.path(), "vm.dirty_ratio", "20");
    std::fs::write(room.file("own.toml"), "[sysctl]\n\"vm.dirty_ratio\" = 40").unwrap();
    let folder = room.file("var/lib/landau/tune");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
    let other = std::fs::File::create(folder.join("lock")).unwrap();
    other.lock().unwrap();
    let (ended, end) = std::sync::mpsc::channel::<()>();
    let other = std::thread::spawn(move || {
        let was_first = end.recv_timeout(Duration::from_secs(60)).is_err();
        drop(other);
        was_first
    });
    let ran = room.landau(&[&["tune", "try", "own.toml", "--root", ".", "--on-host", "--"][..], &RUN].concat());
    assert!(ran.status == Some(2) && ran.err.contains("another trial runs"), "{ran:?}");
    ended.send(()).unwrap();
    assert!(!other.join().unwrap(), "the second trial waited for the first");
}

/// An ablation compares the whole profile with the host, and then each setting in two ways.
#[test]
fn an_ablation_attributes_the_effect_to_each_setting() {
    let room = Room::new();
    plant(room.path(), "vm.dirty_ratio", "20");
    plant(room.path(), "vm.swappiness", "10");
    std::fs::write(room.file("own.toml"), "[sysctl]\n\"vm.dirty_ratio\" = 40\n\"vm.swappiness\" = 30").unwrap();
    let words = ["tune", "try", "own.toml", "--root", ".", "--on-host", "--ablate", "--json", "--"];
    let ran = room.landau(&[&words[..], &RUN].concat());
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let answer = json(&ran);
    let trials = answer["trials"].as_array().unwrap();
    let parts: Vec<_> = trials.iter().map(|one| (one["part"].as_str().unwrap(), one["setting"].as_str())).collect();
    let (dirty, swap) = (Some("vm.dirty_ratio"), Some("vm.swappiness"));
    let expected = [("all", None), ("without", dirty), ("alone", dirty), ("without", swap), ("alone", swap)];
    assert_eq!(parts, expected, "{answer}");
    // Except for the whole profile, the sides of a comparison differ only in its setting.
    for trial in trials {
        let side = room.record(trial["records"][1].as_str().unwrap()).header.side.unwrap();
        let differences: &[&str] = match trial["setting"].as_str() {
            None => &["vm.dirty_ratio=40", "vm.swappiness=30"],
            Some("vm.dirty_ratio") => &["vm.dirty_ratio=40"],
            Some(_) => &["vm.swappiness=30"],
        };
        assert_eq!(side.differences, differences, "{trial}");
    }
    let attributed: Vec<_> = answer["attribution"].as_array().unwrap().iter().map(|one| &one["setting"]).collect();
    assert_eq!(attributed, ["vm.dirty_ratio", "vm.swappiness"], "{answer}");
    for (name, value) in [("dirty_ratio", "20"), ("swappiness", "10")] {
        let now = std::fs::read_to_string(room.file("proc/sys/vm").join(name)).unwrap();
        assert_eq!(now.trim(), value, "{name} is as before");
    }
}

/// Whatever ends a trial after its plan was made, the answer is the plan with the reason, and the host is restored.
#[test]
fn a_trial_that_cannot_run_answers_with_its_plan() {
    let room = Room::new();
    plant(room.path(), "vm.dirty_ratio", "20");
    std::fs::write(room.file("own.toml"), "[sysctl]\n\"vm.dirty_ratio\" = 40").unwrap();
    std::fs::write(room.file("file"), "").unwrap();
    let first = ["tune", "try", "own.toml", "--root", ".", "--on-host"];
    for (run, said) in [(["nonsense", "--output", "r"], "nonsense"), (["dup", "--output", "file/r"], "file")] {
        let run = [&["--", "run", "--study", "smoke", "--passes", "1", "--no-report"], &run[..]].concat();
        let ran = room.landau(&[&first[..], &["--json"], &run].concat());
        let answer = json(&ran);
        assert_eq!((ran.status, &answer["changes"][0]["name"]), (Some(2), &"vm.dirty_ratio".into()), "{ran:?}");
        assert!(answer["error"].as_str().is_some_and(|why| why.contains(said)) && ran.err.contains(said), "{ran:?}");
        let ran = room.landau(&[&first[..], &run].concat());
        assert!(ran.status == Some(2) && ran.out.contains("vm.dirty_ratio  20 → 40"), "{ran:?}");
        assert_eq!(std::fs::read_to_string(room.file("proc/sys/vm/dirty_ratio")).unwrap().trim(), "20");
        assert!(!room.file("var/lib/landau/tune/journal.json").exists());
    }
}

/// Without `/proc` it is not known whether settings have their defaults or the values of a profile.
#[test]
fn a_host_that_shows_nothing_is_not_said_to_have_its_defaults() {
    let room = Room::new();
    let ran = room.landau(&["tune", "status", "--root", "."]);
    assert!(ran.out.contains("no setting can be read") && !ran.out.contains("default"), "{ran:?}");
    let ran = room.landau(&["tune", "try", "idle", "--root", ".", "--", "run", "dup"]);
    assert!(ran.status == Some(2) && ran.err.contains("none of the profile's settings can be read"), "{ran:?}");
}

#[test]
fn runs_that_a_trial_cannot_make_are_refused() {
    let room = Room::new();
    for (words, said) in [
        (&["run", "dup", "--against", "same"][..], "defines its two sides itself"),
        (&["run", "--resume", "x"], "cannot resume"),
        (&["list"], "pass the run to measure, as in: landau tune try PROFILE -- run bind; found `list` instead"),
        (&["bind"], "found `bind` instead of `run`"),
        (&["run", "bind", "--pass", "3"], "after `--`, in `run bind --pass 3`: unexpected argument '--pass'"),
        (&["run", "--help"], "--help and --version cannot be measured"),
        (&["run", "--pases", "1"], "--pases"),
    ] {
        let ran = room.landau(&[&["tune", "try", "empty", "--"], words].concat());
        assert!(ran.status == Some(2) && ran.err.contains(said), "{ran:?}");
    }
}

/// The passes of one side see the settings of the network namespace; the host does not. This works for every user who
/// may create a user namespace.
#[test]
fn settings_of_a_network_are_tried_in_a_namespace() {
    let room = Room::new();
    let host = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    std::fs::write(room.file("own.toml"), PROFILE).unwrap();
    let ran = room.landau(&[&["tune", "try", "own.toml", "--"], &RUN[..]].concat());
    if ran.err.contains("create a network namespace") {
        eprintln!("skipped: no network namespace can be created here");
        return;
    }
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.out.contains("in a network namespace") && ran.out.contains("from before the trial"), "{ran:?}");
    let seen = |name: &str| room.record(name).host.sysctls["net.core.somaxconn"].clone();
    assert_eq!((seen("r.base.ndjson").trim(), seen("r.new.ndjson").trim()), (host.trim(), "16"));
    assert_eq!(std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap(), host);
}

/// Checks the values that the passes of an ablation see. With the whole profile on one side, a setting is absent from
/// the other. With a setting alone, the others are absent.
#[test]
fn an_ablation_sets_the_values_that_it_names() {
    let room = Room::new();
    let names = ["net.core.somaxconn", "net.ipv4.tcp_fin_timeout"];
    std::fs::write(room.file("own.toml"), format!("[sysctl]\n\"{}\" = 16\n\"{}\" = 31\n", names[0], names[1])).unwrap();
    let ran = room.landau(&[&["tune", "try", "own.toml", "--ablate", "--"], &RUN[..]].concat());
    if ran.err.contains("create a network namespace") {
        eprintln!("skipped: no network namespace can be created here");
        return;
    }
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.err.contains("comparison 5 of 5: net.ipv4.tcp_fin_timeout alone"), "{ran:?}");
    let attributed = ran.out.split_once("\nBy setting:\n").unwrap().1;
    assert!(names.iter().all(|name| attributed.contains(&format!(" {name}: "))), "{ran:?}");
    let host = names.map(|name| {
        let path = Path::new("/proc/sys").join(name.replace('.', "/"));
        std::fs::read_to_string(path).unwrap().trim().to_owned()
    });
    let (old, new) = ([host[0].as_str(), &host[1]], ["16", "31"]);
    assert!(old[0] != new[0] && old[1] != new[1], "{old:?}");
    for (record, expected) in [
        ("r.base", old),
        ("r.new", new),
        ("r.without-net.core.somaxconn.base", [old[0], new[1]]),
        ("r.without-net.core.somaxconn.new", new),
        ("r.alone-net.core.somaxconn.base", old),
        ("r.alone-net.core.somaxconn.new", [new[0], old[1]]),
        ("r.without-net.ipv4.tcp_fin_timeout.base", [new[0], old[1]]),
        ("r.alone-net.ipv4.tcp_fin_timeout.new", [old[0], new[1]]),
    ] {
        let sysctls = room.record(&format!("{record}.ndjson")).host.sysctls;
        assert_eq!(names.map(|name| sysctls[name].trim()), expected, "{record}");
    }
}

/// Without privileges the plan is printed and nothing is changed; the exit status is 2.
#[test]
fn an_unprivileged_user_is_told_what_would_change() {
    let room = Room::new();
    if room.as_nobody(&[]).is_none() {
        return;
    }
    std::fs::write(room.file("own.toml"), "[sysctl]\n\"vm.dirty_ratio\" = 33\n\"net.core.somaxconn\" = 17\n").unwrap();
    let open = Command::new("chmod").args(["-R", "a+rwX"]).arg(room.path()).status().unwrap();
    assert!(open.success());
    let before = std::fs::read_to_string("/proc/sys/vm/dirty_ratio").unwrap();
    let nobody = |words: &[&str]| Ran::of(room.as_nobody(&[&["tune"], words].concat()).unwrap().output().unwrap());
    let ran = nobody(&["try", "own.toml", "--on-host", "--", "run", "dup"]);
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(ran.err.contains("nothing was tried or changed: vm.dirty_ratio: it needs root"), "{ran:?}");
    assert!(ran.out.contains("vm.dirty_ratio") && ran.out.contains("→ 33"), "{ran:?}");
    let ran = nobody(&["keep", "own.toml"]);
    assert!(ran.status == Some(2) && ran.out.contains("would be written"), "{ran:?}");
    assert!(ran.err.contains("no file was written"), "{ran:?}");
    let ran = nobody(&["keep", "own.toml", "--json"]);
    assert_eq!((ran.status, &json(&ran)["written"]), (Some(2), &false.into()), "{ran:?}");
    assert_eq!(nobody(&["status"]).status, Some(0));
    // Only root can see whether root's directory, if an earlier trial left one, contains a journal.
    let ran = nobody(&["restore"]);
    let is_refused = ran.status == Some(2) && ran.err.contains("run this command as root");
    assert!(if Path::new("/var/lib/landau/tune").exists() { is_refused } else { ran.status == Some(0) }, "{ran:?}");
    assert_eq!(std::fs::read_to_string("/proc/sys/vm/dirty_ratio").unwrap(), before);
}

#[test]
fn files_are_kept_below_a_root_and_named() {
    let room = Room::new();
    plant(room.path(), "fs.file-max", "1000");
    let ran = room.landau(&["tune", "keep", "seed-linux-2001", "--root", "."]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.out.contains("etc/sysctl.d/90-landau-seed-linux-2001.conf (written"), "{ran:?}");
    let again = room.landau(&["tune", "keep", "seed-linux-2001", "--root", ".", "--json"]);
    assert!(json(&again)["files"].as_array().unwrap().iter().all(|file| file["unchanged"] == true), "{again:?}");
    std::fs::write(room.file("etc/security/limits.d/90-landau-seed-linux-2001.conf"), "mine\n").unwrap();
    let refused = room.landau(&["tune", "keep", "seed-linux-2001", "--root", "."]);
    assert!(refused.status == Some(2) && refused.err.contains("did not write it"), "{refused:?}");
}

/// Guards against files that are written although the program reports that none was written, and against a panic.
#[test]
fn a_profile_is_kept_whole_or_not_at_all() {
    use std::os::unix::ffi::OsStringExt;
    let room = Room::new();
    plant(room.path(), "fs.file-max", "1000");
    std::fs::create_dir_all(room.file("etc/sysctl.d")).unwrap();
    std::fs::create_dir_all(room.file("etc/security")).unwrap();
    room.open(0o777);
    for folder in ["etc/sysctl.d", "etc/security"] {
        let mode = if folder == "etc/security" { 0o755 } else { 0o777 };
        std::fs::set_permissions(room.file(folder), std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let words = ["tune", "keep", "seed-linux-2001", "--root", ".", "--json"];
    if let Some(mut nobody) = room.as_nobody(&words) {
        let ran = Ran::of(nobody.output().unwrap());
        assert!(ran.status == Some(2) && ran.err.contains("no file was written"), "{ran:?}");
        assert_eq!(json(&ran)["written"], false);
        assert_eq!(std::fs::read_dir(room.file("etc/sysctl.d")).unwrap().count(), 0, "{ran:?}");
    }
    let odd = std::ffi::OsString::from_vec(b"r\xff".to_vec());
    let keep = room.command(&["tune", "keep", "seed-linux-2001", "--json", "--root"]).arg(&odd).output().unwrap();
    assert_eq!(json(&Ran::of(keep))["written"], true);
}

/// The output of a dry run equals the files that are written without it.
#[test]
fn a_dry_run_prints_the_files_to_keep_and_writes_none() {
    let room = Room::new();
    plant(room.path(), "fs.file-max", "1000");
    let keep = |words: &[&str]| room.landau(&[&["tune", "keep", "seed-linux-2001", "--root", "."], words].concat());
    let ran = keep(&["--dry-run"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.out.contains("etc/sysctl.d/90-landau-seed-linux-2001.conf (would be written"), "{ran:?}");
    assert!(ran.out.contains("    fs.file-max = 65536\n"), "{ran:?}");
    let dry = json(&keep(&["--dry-run", "--json"]));
    assert_eq!((&dry["written"], &dry["files"][0]["unchanged"]), (&false.into(), &false.into()), "{dry}");
    assert!(!room.file("etc").exists(), "something was written");
    assert_eq!(json(&keep(&["--json"]))["written"], true);
    for file in dry["files"].as_array().unwrap() {
        let written = std::fs::read_to_string(room.file(file["path"].as_str().unwrap())).unwrap();
        assert_eq!(file["text"], written.as_str());
    }
    let again = keep(&["--dry-run"]);
    assert!(again.out.contains("(unchanged;") && !again.out.contains("would be"), "{again:?}");
}

/// A network namespace whose sysctls represent those of a host. It ends when this value is dropped.
struct Network(Process);

impl Network {
    fn create() -> Option<Self> {
        let mut command = Command::new("unshare");
        command.args(["-n", "sleep", "10000"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = Process::spawn(&mut command).ok()?;
        let own = std::fs::read_link("/proc/self/ns/net").ok()?;
        let network = Self(child);
        let path = format!("/proc/{}/ns/net", network.0.id());
        let mut network = network;
        let is_other = || std::fs::read_link(&path).is_ok_and(|link| link != own);
        let entered = eventually(|| is_other() || matches!(network.0.try_wait(), Ok(Some(_)))) && is_other();
        entered.then_some(network)
    }

    fn command(&self, room: &Room, words: &[&str]) -> Command {
        let target = self.0.id().to_string();
        room.other("nsenter", &[&["-t", &target, "-n", "--"], words].concat())
    }

    /// Returns all readable sysctls except those that change on their own.
    fn dump(&self, room: &Room) -> BTreeMap<String, String> {
        const COUNTERS: [&str; 14] = [
            "kernel/random/",
            "fs/file-nr",
            "fs/inode-",
            "fs/dentry-state",
            // Another test may sync a file system.
            "fs/quota/",
            "kernel/ns_last_pid",
            "kernel/pty/nr",
            "nf_conntrack_count",
            "fs/aio-nr",
            "kernel/perf_event_max_sample_rate",
            "kernel/perf_cpu_time",
            "sched_domain",
            "nr_hugepages",
            "kernel/keys",
        ];
        let found = self.command(room, &["grep", "-rs", "", "/proc/sys"]).output().unwrap();
        let text = String::from_utf8_lossy(&found.stdout).into_owned();
        let mut dump: BTreeMap<String, String> = BTreeMap::new();
        for line in text.lines() {
            let Some((path, value)) = line.split_once(':') else { continue };
            if !COUNTERS.iter().any(|counter| path.contains(counter)) {
                dump.entry(path.to_owned()).or_default().push_str(value);
            }
        }
        dump
    }
}

/// Returns a random duration below `below`, different in each run.
fn random_moment(below: Duration) -> Duration {
    use std::hash::{BuildHasher, RandomState};
    let random = RandomState::new().hash_one(0) % u64::try_from(below.as_micros()).unwrap();
    Duration::from_micros(random)
}

/// No matter when a trial is killed, the guard restores every sysctl. More kills:
/// `LANDAU_TUNE_KILLS=100 cargo test --profile ci -p landau --test it tune -- --nocapture`. The sysctls are real ones,
/// in a network namespace that represents the host.
#[test]
fn a_killed_trial_restores_every_value() {
    let network = is_root().then(Network::create).flatten();
    let Some(network) = network else {
        eprintln!("skipped: this needs root and network namespaces");
        return;
    };
    let room = Room::new();
    std::os::unix::fs::symlink("/proc", room.file("proc")).unwrap();
    std::fs::write(room.file("own.toml"), PROFILE).unwrap();
    let journal = room.file("var/lib/landau/tune/journal.json");
    let kills: u64 = std::env::var("LANDAU_TUNE_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(4);
    let before = network.dump(&room);
    assert!(before.len() > 500 && before["/proc/sys/net/core/somaxconn"] != "16", "{} sysctls", before.len());
    let mut journaled = 0;
    for kill in 0..kills {
        let words = [LANDAU, "tune", "try", "own.toml", "--root", ".", "--on-host", "--"];
        let run = ["run", "dup", "--study", "smoke", "--passes", "900", "--no-report", "--quiet", "--output"];
        let output = format!("r{kill}");
        let words = [&words, &run[..], &[&output]].concat();
        let start = || {
            let mut command = network.command(&room, &words);
            Process::spawn(command.stdout(Stdio::null()).stderr(Stdio::null())).unwrap()
        };
        let mut landau = start();
        // Every fourth kill is before or while the journal is written; the others are during the passes. A trial is
        // refused while the guard of the previous one is still writing to a slow disk.
        if kill % 4 != 3 {
            let begun = eventually(|| {
                if landau.try_wait().unwrap().is_some() {
                    landau = start();
                }
                journal.exists()
            });
            assert!(begun, "no journal");
        }
        let after = random_moment(Duration::from_millis(400));
        std::thread::sleep(after);
        landau.kill().unwrap();
        landau.wait().unwrap();
        journaled += u64::from(journal.exists());
        assert!(eventually(|| !journal.exists()), "the guard has not restored the host after kill {kill}, {after:?}");
        assert_eq!(network.dump(&room), before, "after kill {kill}, {after:?}");
    }
    println!("{kills} kills, {journaled} with a journal left: {} sysctls have their values", before.len());
}

/// A setting that is empty before the trial is empty after it. A setting whose value the kernel converts to another one
/// is also restored.
#[test]
fn an_empty_value_and_one_that_the_kernel_changes_are_restored() {
    let Some(network) = is_root().then(Network::create).flatten() else {
        eprintln!("skipped: this needs root and network namespaces");
        return;
    };
    let room = Room::new();
    std::os::unix::fs::symlink("/proc", room.file("proc")).unwrap();
    let before = network.dump(&room);
    assert_eq!(before.get("/proc/sys/net/ipv4/ip_local_reserved_ports").map_or("", String::as_str), "");
    let name = "net.ipv4.ip_local_reserved_ports";
    for (value, status) in [("20000", 0), ("20000,20001", 2)] {
        std::fs::write(room.file("own.toml"), format!("[sysctl]\n\"{name}\" = \"{value}\"")).unwrap();
        let words = [LANDAU, "tune", "try", "own.toml", "--root", ".", "--on-host", "--"];
        let run = ["run", "dup", "--study", "smoke", "--passes", "3", "--no-report", "--quiet", "--output", value];
        let ran = Ran::of(network.command(&room, &[&words[..], &run].concat()).output().unwrap());
        assert!(ran.status == Some(status) && !ran.err.contains("another process"), "{value}: {ran:?}");
        assert_eq!(network.dump(&room), before, "{value}: {ran:?}");
        assert!(!room.file("var/lib/landau/tune/journal.json").exists(), "{value}");
    }
}

/// A value that another process sets ends the trial and is kept. No message says that the trial was killed.
#[test]
fn a_value_that_somebody_else_sets_during_a_trial_is_kept() {
    let room = Room::new();
    plant(room.path(), "vm.dirty_ratio", "20");
    std::fs::write(room.file("own.toml"), "[sysctl]\n\"vm.dirty_ratio\" = 40").unwrap();
    let run = ["run", "dup", "--study", "smoke", "--passes", "900", "--output", "r.ndjson", "--no-report", "--quiet"];
    let words = [&["tune", "try", "own.toml", "--root", ".", "--on-host", "--"], &run[..]].concat();
    let mut command = room.command(&words);
    let landau = Process::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped())).unwrap();
    let pid = landau.id();
    assert!(eventually(|| room.file("var/lib/landau/tune/journal.json").exists()), "no journal");
    let ended = std::thread::spawn(move || landau.wait_with_output().unwrap());
    // The trial may write at the same time, so a single write is not sufficient.
    assert!(
        eventually(|| {
            plant(room.path(), "vm.dirty_ratio", "30");
            ended.is_finished()
        }),
        "{pid} does not end"
    );
    let ran = Ran::of(ended.join().unwrap());
    assert!(ran.status == Some(2) && ran.err.contains("vm.dirty_ratio is 30; the trial set 40"), "{ran:?}");
    assert!(!ran.err.contains("killed"), "{ran:?}");
    assert_eq!(std::fs::read_to_string(room.file("proc/sys/vm/dirty_ratio")).unwrap().trim(), "30");
    assert!(room.file("var/lib/landau/tune/journal.json").exists(), "the journal stays");
}

/// `--force` cannot restore a setting that no longer exists, such as one of an unloaded module. The answer states what
/// can be done.
#[test]
fn a_setting_that_is_gone_is_not_said_to_be_restored_by_force() {
    let room = Room::new();
    let folder = room.file("var/lib/landau/tune");
    assert!(Command::new("install").args(["-d", "-m", "700"]).arg(&folder).status().unwrap().success());
    let text = r#"{"profile":"own","process":1,"boot":null,"entries":[{"name":"vm.gone","old":"20","new":"40"}]}"#;
    std::fs::write(folder.join("journal.json"), text).unwrap();
    let ran = room.landau(&["tune", "restore", "--root", "."]);
    assert!(ran.status == Some(1) && ran.out.contains("vm.gone is unreadable"), "{ran:?}");
    assert!(!ran.out.contains("--force") && ran.out.contains("remove /var/lib/landau/tune/journal.json"), "{ran:?}");
}

/// If the guard is killed too, the next start reports the remaining changes, and `restore` undoes them.
#[test]
fn what_a_killed_guard_leaves_is_named_and_restored() {
    let room = Room::new();
    plant(room.path(), "vm.dirty_ratio", "40");
    let folder = room.file("var/lib/landau/tune");
    let made = Command::new("install").args(["-d", "-m", "700"]).arg(&folder).status().unwrap();
    assert!(made.success());
    let text =
        r#"{"profile":"own","process":1,"boot":null,"entries":[{"name":"vm.dirty_ratio","old":"20","new":"40"}]}"#;
    std::fs::write(folder.join("journal.json"), text).unwrap();
    let ran = room.landau(&["tune", "status", "--root", "."]);
    assert!(ran.out.contains("landau tune restore") && ran.out.contains("vm.dirty_ratio"), "{ran:?}");
    let ran = room.landau(&["tune", "try", "empty", "--root", ".", "--", "run", "dup"]);
    assert!(ran.status == Some(2) && ran.err.contains("restore the host first"), "{ran:?}");
    plant(room.path(), "vm.dirty_ratio", "30");
    let ran = room.landau(&["tune", "restore", "--root", "."]);
    assert!(ran.status == Some(1) && ran.out.contains("another process has changed it"), "{ran:?}");
    let ran = room.landau(&["tune", "restore", "--root", ".", "--force", "--json"]);
    assert_eq!((ran.status, &json(&ran)["settings"][0]["outcome"]), (Some(0), &"restored".into()), "{ran:?}");
    assert_eq!(std::fs::read_to_string(room.file("proc/sys/vm/dirty_ratio")).unwrap(), "20");
    let ran = room.landau(&["tune", "restore", "--root", "."]);
    assert!(ran.status == Some(0) && ran.out.contains("nothing to restore"), "{ran:?}");
}
