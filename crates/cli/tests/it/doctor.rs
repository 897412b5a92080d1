//! `landau doctor` predicts the n at which programs reach a limit. The programs are Landau's benchmarks and, for limits
//! that a run never reaches because it keeps a reserve, small Perl scripts.
//!
//! Each case lowers a limit for its own processes only: with `ulimit`, in a namespace, or in a control group that it
//! creates and removes. The program runs after the prediction, under the same limit. `LANDAU_DOCTOR_ALL=1` adds the
//! other limits. `LANDAU_DOCTOR_ALL=whole` also adds the limits of this host, which takes minutes. Both print the rows
//! of docs/doctor.md.

use crate::support::{LANDAU, Process, Ran, Room, install, is_root};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A limit that is lowered, and a program that reaches it.
struct Case {
    /// The lowered limit, for the table.
    lowered: &'static str,
    /// The kind of the demand.
    kind: &'static str,
    size: u64,
    /// A script that lowers the limit and then executes `"$@"`; `{room}` is the directory of the test.
    script: &'static str,
    /// The limit that the doctor must name.
    limit: &'static str,
    program: Program,
}

impl Case {
    /// Returns whether every user can lower the limit.
    fn is_for_all(&self) -> bool {
        self.script.starts_with("ulimit ")
    }
}

/// A program that reaches the limit.
enum Program {
    /// The benchmark with the name of the kind, with settings that reduce it to one case.
    Benchmark(&'static [&'static str]),
    /// A Perl script that prints how many objects it had when the kernel refused another.
    Perl(&'static str),
}

const SOCKET: Program = Program::Benchmark(&["socket.threads=0", "socket.hole=none", "socket.reserve=0"]);
const BIND: Program = Program::Benchmark(&["bind.range=host", "bind.family=v4", "bind.v6only=on"]);
const CONNECT: Program = Program::Benchmark(&["connect.idle=halt"]);
const FORK: Program = Program::Benchmark(&["fork.linkage=dynamic", "fork.method=fork", "fork.order=reverse"]);
const THREAD: Program = Program::Benchmark(&[]);
const MMAP: Program = Program::Benchmark(&["mmap.order=sequential", "mmap.populate=off"]);
const SPAWN: Program =
    Program::Benchmark(&["spawn.wait=any", "spawn.parent=timer", "spawn.image=shared", "spawn.pid_max=4194304"]);

/// Forks children that sleep until the parent ends, kills them, and prints their number: at most 3,000, so that an
/// ineffective limit does not exhaust the host's processes.
const PERL_FORKS: Program = Program::Perl(
    "pipe(R, W); my @p; while (@p < 3000) { my $p = fork; last unless defined $p; \
     if (!$p) { close W; sysread R, my $b, 1; exit } push @p, $p } \
     kill 9, @p; waitpid $_, 0 for @p; print scalar @p",
);

/// Opens files until the kernel refuses.
const PERL_DESCRIPTORS: Program =
    Program::Perl("my @f; while (open my $f, '<', '/dev/null') { push @f, $f } print scalar @f");

/// Creates files of one byte in the directory `full` until the kernel refuses.
const PERL_FILES: Program = Program::Perl(
    "my $n = 0; while (open my $f, '>', \"full/$n\") { syswrite($f, 'x') // last; close $f or last; $n++ } print $n",
);

/// Connects to a listener that never accepts, until a handshake gets no answer.
const PERL_BACKLOG: Program = Program::Perl(
    "use Socket; socket L, PF_INET, SOCK_STREAM, 0; bind L, sockaddr_in(7777, INADDR_LOOPBACK); listen L, 65535; \
     my @c; while (@c < 5000) { socket my $s, PF_INET, SOCK_STREAM, 0; $s->blocking(0); \
     connect $s, sockaddr_in(7777, INADDR_LOOPBACK); my $w = ''; vec($w, fileno $s, 1) = 1; \
     last unless select(undef, $w, undef, 0.5); push @c, $s } print scalar @c",
);

/// Runs the command in a separate network namespace. The status is 77 if this host does not permit one, or does not
/// permit changing its settings.
const NET: &str = "unshare -n true || exit 77; \
                   exec unshare -n sh -c 'ip link set lo up; {set} || exit 77; exec \"$@\"' sh \"$@\"";

/// A script that sets `kernel.pid_max` in a separate pid namespace, runs the second text there, and then executes
/// `"$@"`. The status is 77 if this host does not permit one, or if the value is that of the host (before Linux 6.14).
macro_rules! in_pid_namespace {
    ($pid_max:literal, $first:literal) => {
        concat!(
            "unshare -p -f true || exit 77; \
             exec env HOST=$(cat /proc/sys/kernel/pid_max) unshare -p -f --mount-proc sh -c \
             'test $(cat /proc/sys/kernel/pid_max) != $HOST || exit 77; echo ",
            $pid_max,
            " > /proc/sys/kernel/pid_max; ",
            $first,
            "\"$@\"' sh \"$@\""
        )
    };
}

/// Cases that take about a second each.
const FEW: &[Case] = &[
    Case {
        lowered: "ulimit -n 300",
        kind: "socket",
        size: 1_000,
        script: "ulimit -n 300; exec \"$@\"",
        limit: "RLIMIT_NOFILE",
        program: SOCKET,
    },
    Case {
        lowered: "ulimit -n 300",
        kind: "sockets",
        size: 1_000,
        script: "ulimit -n 300; exec \"$@\"",
        limit: "RLIMIT_NOFILE",
        program: PERL_DESCRIPTORS,
    },
    Case {
        lowered: "ip_local_port_range 40000 40799",
        kind: "bind",
        size: 2_000,
        script: "echo 40000 40799 > /proc/sys/net/ipv4/ip_local_port_range",
        limit: "net.ipv4.ip_local_port_range",
        program: BIND,
    },
    Case {
        lowered: "ulimit -v 4 GiB",
        kind: "thread",
        size: 2_000,
        script: "ulimit -v 4194304; exec \"$@\"",
        limit: "RLIMIT_AS",
        program: THREAD,
    },
    Case {
        lowered: "ulimit -v 256 MiB",
        kind: "mmap",
        size: 80_000,
        script: "ulimit -v 262144; exec \"$@\"",
        limit: "RLIMIT_AS",
        program: MMAP,
    },
    Case {
        lowered: "pids.max 400 of a group",
        kind: "processes",
        size: 1_000,
        script: "{group pids pids.max 400}",
        limit: "pids.max of",
        program: PERL_FORKS,
    },
];

/// Cases without a lowered limit: the n that each benchmark reaches on this host.
const WHOLE: &[Case] = &[
    Case {
        lowered: "nothing",
        kind: "socket",
        size: 1_000_000,
        script: "exec \"$@\"",
        limit: "RLIMIT_NOFILE",
        program: SOCKET,
    },
    Case {
        // In a separate namespace, because other programs use ports of the host in the meantime.
        lowered: "nothing",
        kind: "bind",
        size: 40_000,
        script: "echo 32768 60999 > /proc/sys/net/ipv4/ip_local_port_range",
        limit: "net.ipv4.ip_local_port_range",
        program: BIND,
    },
    Case {
        lowered: "nothing",
        kind: "connect",
        size: 40_000,
        script: "exec \"$@\"",
        limit: "RLIMIT_NOFILE",
        program: CONNECT,
    },
    Case {
        lowered: "nothing",
        kind: "fork",
        size: 40_000,
        script: "exec \"$@\"",
        limit: "kernel.pid_max, less the reserve",
        program: FORK,
    },
    Case {
        lowered: "nothing",
        kind: "thread",
        size: 40_000,
        script: "exec \"$@\"",
        limit: "kernel.pid_max, less the reserve",
        program: THREAD,
    },
    Case {
        lowered: "nothing",
        kind: "mmap",
        size: 80_000,
        script: "exec \"$@\"",
        limit: "vm.max_map_count",
        program: MMAP,
    },
    Case {
        lowered: "nothing",
        kind: "spawn",
        size: 40_000,
        script: "exec \"$@\"",
        limit: "kernel.pid_max, less the reserve",
        program: SPAWN,
    },
];

/// Cases with further lowered limits.
const LOWERED: &[Case] = &[
    Case {
        lowered: "ulimit -n 2000",
        kind: "connect",
        size: 3_000,
        script: "ulimit -n 2000; exec \"$@\"",
        limit: "RLIMIT_NOFILE",
        program: CONNECT,
    },
    Case {
        lowered: "ip_local_reserved_ports, 500 of 1,500",
        kind: "bind",
        size: 2_000,
        script: "echo 40000 41499 > /proc/sys/net/ipv4/ip_local_port_range && \
                 echo 40200-40699 > /proc/sys/net/ipv4/ip_local_reserved_ports",
        limit: "net.ipv4.ip_local_port_range",
        program: BIND,
    },
    Case {
        lowered: "ulimit -d 4 GiB",
        kind: "thread",
        size: 2_000,
        script: "ulimit -d 4194304; exec \"$@\"",
        limit: "RLIMIT_DATA",
        program: THREAD,
    },
    Case {
        // The samples of the requested steps take 6 MiB, and the benchmark's own lists 0.5 MiB.
        lowered: "ulimit -v 96 MiB",
        kind: "mmap",
        size: 20_000,
        script: "ulimit -v 98304; exec \"$@\"",
        limit: "RLIMIT_AS",
        program: MMAP,
    },
    Case {
        lowered: "ulimit -s 64 MiB, -v 32 GiB",
        kind: "thread",
        size: 2_000,
        script: "ulimit -s 65536; ulimit -v 33554432; exec \"$@\"",
        limit: "RLIMIT_AS",
        program: THREAD,
    },
    Case {
        lowered: "pids.max 600 of a group",
        kind: "fork",
        size: 1_000,
        script: "{group pids pids.max 600}",
        limit: "pids.max of",
        program: FORK,
    },
    Case {
        lowered: "pids.max 600 of a group",
        kind: "thread",
        size: 1_000,
        script: "{group pids pids.max 600}",
        limit: "pids.max of",
        program: THREAD,
    },
    Case {
        lowered: "pids.max 600 of a group",
        kind: "spawn",
        size: 1_000,
        script: "{group pids pids.max 600}",
        limit: "pids.max of",
        program: SPAWN,
    },
    Case {
        lowered: "pids.max 500 of the group above",
        kind: "processes",
        size: 1_000,
        script: "{above pids pids.max 500}",
        limit: "pids.max of",
        program: PERL_FORKS,
    },
    Case {
        lowered: "memory.limit_in_bytes 512 MiB",
        kind: "fork",
        size: 5_000,
        script: "{group memory memory.limit_in_bytes 536870912}",
        limit: "memory.limit_in_bytes of",
        program: FORK,
    },
    Case {
        lowered: "memory.limit_in_bytes 512 MiB of the group above",
        kind: "fork",
        size: 5_000,
        script: "{above memory memory.limit_in_bytes 536870912}",
        limit: "memory.limit_in_bytes of",
        program: FORK,
    },
    Case {
        lowered: "RLIMIT_NPROC 400, another user",
        kind: "processes",
        size: 1_000,
        // dash's ulimit has no -u.
        script: "exec prlimit --nproc=400 setpriv --reuid 54321 --regid 54321 --clear-groups \"$@\"",
        limit: "RLIMIT_NPROC",
        program: PERL_FORKS,
    },
    Case {
        lowered: "RLIMIT_NPROC 400:5000, another user",
        kind: "processes",
        size: 1_000,
        script: "exec prlimit --nproc=400:5000 setpriv --reuid 54321 --regid 54321 --clear-groups \"$@\"",
        limit: "RLIMIT_NPROC",
        program: PERL_FORKS,
    },
    Case {
        // A zombie counts until its parent waits for it.
        lowered: "RLIMIT_NPROC 400, another user, 150 zombies",
        kind: "processes",
        size: 1_000,
        script: "exec prlimit --nproc=400 setpriv --reuid 54321 --regid 54321 --clear-groups perl -e \
                 'for (1 .. 150) { fork or exit } my $s = system(@ARGV) >> 8; 1 while wait > 0; exit $s' -- \"$@\"",
        limit: "RLIMIT_NPROC",
        program: PERL_FORKS,
    },
    Case {
        lowered: "pids.max 400 of a group, 150 zombies",
        kind: "processes",
        size: 1_000,
        script: "{group pids pids.max 400 perl -e 'for (1 .. 150) { fork or exit } my $s = system(@ARGV) >> 8; \
                 1 while wait > 0; exit $s' --}",
        limit: "pids.max of",
        program: PERL_FORKS,
    },
    Case {
        // The sessions of twenty daemons keep the identifiers of their exited leaders in use.
        lowered: "kernel.pid_max 700 of a pid namespace, 20 daemons",
        kind: "processes",
        size: 5_000,
        script: in_pid_namespace!(
            700,
            "i=0; while [ $i -lt 310 ]; do /bin/true; i=$((i + 1)); done; \
             i=0; while [ $i -lt 20 ]; do setsid sh -c \"sleep 1000 & :\" & wait $!; i=$((i + 1)); done; "
        ),
        limit: "kernel.pid_max",
        program: PERL_FORKS,
    },
    Case {
        // All processes of the benchmark are in a namespace inside this one.
        lowered: "kernel.pid_max 6000 of a pid namespace",
        kind: "spawn",
        size: 10_000,
        script: in_pid_namespace!(6000, ""),
        limit: "kernel.pid_max, less the reserve",
        program: SPAWN,
    },
    Case {
        lowered: "kernel.pid_max 1500 of a pid namespace",
        kind: "processes",
        size: 5_000,
        script: in_pid_namespace!(1500, ""),
        limit: "kernel.pid_max",
        program: PERL_FORKS,
    },
    Case {
        lowered: "inodes of a tmpfs, 1,000",
        kind: "files",
        size: 5_000,
        script: "unshare -m true || exit 77; mkdir full; \
                 exec unshare -m sh -c 'mount -t tmpfs -o nr_inodes=1000 none full && exec \"$@\"' sh \"$@\"",
        limit: "inodes of",
        program: PERL_FILES,
    },
    Case {
        lowered: "size of a tmpfs, 8 MiB",
        kind: "files",
        size: 5_000,
        script: "unshare -m true || exit 77; mkdir full; \
                 exec unshare -m sh -c 'mount -t tmpfs -o size=8m none full && exec \"$@\"' sh \"$@\"",
        limit: "space of",
        program: PERL_FILES,
    },
    Case {
        lowered: "somaxconn 128",
        kind: "idle",
        size: 5_000,
        script: "echo 128 > /proc/sys/net/core/somaxconn",
        limit: "net.core.somaxconn",
        program: PERL_BACKLOG,
    },
];

/// A case in progress: the script, and the control groups that it joins.
struct Trial<'a> {
    case: &'a Case,
    room: Room,
    script: String,
    groups: Vec<PathBuf>,
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        // The innermost group is the last one.
        for group in self.groups.iter().rev() {
            // A killed process leaves its group with a delay.
            if !crate::support::eventually(|| fs::remove_dir(group).is_ok()) {
                eprintln!("cannot remove {}", group.display());
            }
        }
    }
}

/// A predicted or reached n, and its limit.
#[derive(Debug)]
struct End {
    n: u64,
    limit: String,
}

impl<'a> Trial<'a> {
    /// Prepares a case; `None` if this host lacks a requirement.
    fn new(case: &'a Case) -> Option<Self> {
        let mut trial = Self { case, room: Room::new(), script: case.script.to_owned(), groups: Vec::new() };
        fs::set_permissions(trial.room.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        install(LANDAU, &trial.room.file("landau"));
        if case.script.starts_with("echo ") {
            trial.script = NET.replace("{set}", case.script);
        }
        if let Some(words) = case.script.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            let words: Vec<&str> = words.split(' ').collect();
            let [place, controller, file, value, ..] = words[..] else { panic!("{words:?}") };
            trial.join_group(place == "above", controller, file, value, &words[4..].join(" "))?;
        }
        Some(trial)
    }

    /// Creates a control group with a limit, in which the script runs; with `is_above`, the script runs in a group
    /// inside that one. `first` precedes the command of the script.
    fn join_group(&mut self, is_above: bool, controller: &str, file: &str, value: &str, first: &str) -> Option<()> {
        let all = Path::new("/sys/fs/cgroup");
        // Version 2 has no directories for controllers.
        let root = Some(all.join(controller)).filter(|folder| folder.exists()).unwrap_or_else(|| all.to_owned());
        let name = self.room.path().file_name()?.to_string_lossy().replace('.', "");
        let outer = root.join(format!("landau-doctor-{name}"));
        fs::create_dir(&outer).ok()?;
        self.groups.push(outer.clone());
        // In version 2 the file exists only if the parent group delegates the controller.
        outer.join(file).exists().then_some(())?;
        fs::write(outer.join(file), value).ok()?;
        if is_above {
            fs::create_dir(outer.join("inner")).ok()?;
            self.groups.push(outer.join("inner"));
        }
        let group = self.groups.last()?.join("cgroup.procs");
        self.script = format!("echo $$ > {}; exec {first} \"$@\"", group.display());
        Some(())
    }

    fn run(&self, words: &[&str]) -> Ran {
        let all = [&["-c", self.script.as_str(), "sh"], words].concat();
        let mut command = self.room.other("sh", &all);
        // Otherwise `mkdir` of the second script would fail because the directory exists.
        let _ = fs::remove_dir_all(self.room.file("full"));
        Ran::of(command.output().unwrap())
    }

    fn predicted(&self) -> Option<End> {
        let demand = format!("{}={}", self.case.kind, self.case.size);
        let dir = if self.case.kind == "files" { "full" } else { "." };
        let ran = self.run(&["./landau", "doctor", "--for", &demand, "--no-measure", "--json", "--dir", dir]);
        if ran.status == Some(77) {
            return None;
        }
        let report: Value = serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
        let is_bent = self.case.limit == "net.core.somaxconn";
        assert_eq!(ran.status, Some(i32::from(!is_bent)), "the size is chosen not to fit: {ran:?}");
        let rows = report["limits"].as_array().unwrap();
        let row = |name: &str| rows.iter().find(|row| row["limit"] == name).unwrap();
        let name = if is_bent { self.case.limit } else { report["answers"][0]["limit"].as_str().unwrap() };
        let row = row(name);
        let n = row["bounds"][0]["at_most"].as_u64().unwrap();
        Some(End { n, limit: name.to_owned() })
    }

    fn met(&self) -> u64 {
        match &self.case.program {
            Program::Perl(script) => {
                let ran = self.run(&["perl", "-MIO::Handle", "-e", script]);
                ran.out.parse().unwrap_or_else(|error| panic!("{error}: {ran:?}"))
            }
            Program::Benchmark(settings) => self.met_by_benchmark(settings),
        }
    }

    fn met_by_benchmark(&self, settings: &[&str]) -> u64 {
        let size = format!("{}.n={}", self.case.kind, self.case.size);
        let mut words = vec!["./landau", "run", self.case.kind, "--study", "smoke", "--passes", "1"];
        words.extend(["--output", "r", "--no-report", "--seed", "1", "--set", &size]);
        for setting in settings {
            words.extend(["--set", setting]);
        }
        let ran = self.run(&words);
        let record = self.room.record("r");
        let case = &record.cases[0];
        let pass = record.passes_of(case.case)[0];
        let end = pass.end.as_ref().unwrap_or_else(|| panic!("{ran:?}"));
        assert_eq!(record.cases.len(), 1, "{:?}", record.cases);
        // Either the kernel refused the next step, or the plan had reduced the size.
        assert!(end.limit.is_some() || case.reduced.is_some() && end.steps == case.n, "{end:?} {ran:?}");
        end.steps
    }
}

/// Runs the cases, and prints their table.
fn compare(cases: &[Case]) {
    for case in cases {
        let skip = |why: &str| eprintln!("skipped: {} of {}: {why}", case.lowered, case.kind);
        if !is_root() && !case.is_for_all() {
            skip("only root can lower this limit");
            continue;
        }
        let Some(trial) = Trial::new(case) else {
            skip("this host lacks what it needs");
            continue;
        };
        let Some(predicted) = trial.predicted() else {
            skip("a namespace has no limit of its own here");
            continue;
        };
        let met = trial.met();
        let off = 100.0 * (predicted.n as f64 - met as f64) / met as f64;
        // Replaces the directory and the group, which are specific to the test.
        let named = predicted.limit.replace(trial.room.path().to_str().unwrap(), "…");
        let named = trial
            .groups
            .first()
            .map_or(named.clone(), |group| named.replace(group.file_name().unwrap().to_str().unwrap(), "…"));
        let row = format!("| {} | `{}` | {} | {met} | {off:+.2}% | {named} |", case.lowered, case.kind, predicted.n);
        eprintln!("{row}");
        assert!(predicted.limit.starts_with(case.limit), "{predicted:?} is not {}", case.limit);
        assert!(off.abs() <= 1.0, "{row}");
    }
}

#[test]
fn the_end_of_programs_is_predicted_within_one_percent() {
    compare(FEW);
    let chosen = std::env::var("LANDAU_DOCTOR_ALL").unwrap_or_default();
    if !chosen.is_empty() {
        compare(LOWERED);
    }
    if chosen == "whole" {
        compare(WHOLE);
    }
}

/// The JSON has exactly the members that docs/doctor.md describes.
#[test]
fn the_json_has_the_documented_members() {
    let room = Room::new();
    let own = std::process::id().to_string();
    let ran = room.landau(&["doctor", "--for", "idle=10", "--pid", &own, "--json"]);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    let document = include_str!("../../../../docs/doctor.md");
    let mut unknown = Vec::new();
    let mut look = |place: &str, value: &Value| {
        let Some(members) = value.as_object() else { panic!("{place} is no object: {value}") };
        unknown.extend(members.keys().filter(|name| !document.contains(&format!("| `{place}{name}` |"))).cloned());
    };
    look("", &report);
    for (list, place) in [("answers", "answers[]."), ("limits", "limits[]."), ("conditions", "conditions[].")] {
        let entries = report[list].as_array().unwrap();
        assert!(!entries.is_empty(), "{list}");
        for entry in entries {
            look(place, entry);
        }
    }
    let bounded = report["limits"].as_array().unwrap().iter().find(|row| row["bounds"][0].is_object()).unwrap();
    look("limits[].bounds[].", &bounded["bounds"][0]);
    look("limits[].remedy.", &bounded["remedy"]);
    look("process.", &report["process"]);
    look("noise.", &report["noise"]);
    assert!(unknown.is_empty(), "docs/doctor.md lacks {unknown:?}");
}

#[test]
fn a_size_that_fits_is_success_and_nonsense_cannot_run() {
    let room = Room::new();
    let status = |words: &[&str]| room.landau(&[&["doctor", "--no-measure"], words].concat());
    let ran = status(&["--for", "sockets=1"]);
    assert!(ran.status == Some(0) && ran.out.starts_with("sockets=1 fits: at most "), "{ran:?}");
    let ran = status(&["--for", "sockets=99000000000"]);
    assert!(ran.status == Some(1) && ran.out.starts_with("sockets=99,000,000,000 does not fit"), "{ran:?}");
    // A size in the format that the doctor prints.
    let ran = status(&["--for", "sockets=1,000,files=10"]);
    let both = ["sockets=1,000 fits: ", "files=10 fits: "].iter().all(|start| ran.out.contains(start));
    assert!(ran.status == Some(0) && both, "{ran:?}");
    // Larger than the benchmark's maximum n.
    let ran = status(&["--for", "socket=18446744073709551615,sockets=1"]);
    let is_answered = ran.out.contains("socket=18,446,744,073,709,551,615 does not fit: at most ");
    assert!(ran.status == Some(1) && is_answered && ran.out.contains("sockets=1 fits: "), "{ran:?}");
    let ran = status(&["--for", "idel=1"]);
    assert!(ran.status == Some(2) && ran.err.contains("write one of idle, mail"), "{ran:?}");
    let ran = status(&["--for", "idle,idle=5"]);
    assert!(ran.status == Some(2) && ran.err.contains("contains idle twice"), "{ran:?}");
    let ran = status(&["--pid", "4194305"]);
    assert!(ran.status == Some(2) && ran.err.contains("there is no process 4194305"), "{ran:?}");
    let ran = status(&["--dir", "/nowhere"]);
    assert!(ran.status == Some(2) && ran.err.contains("--dir /nowhere"), "{ran:?}");
    let ran = status(&["--dir", LANDAU]);
    assert!(ran.status == Some(2) && ran.err.contains("is not a directory"), "{ran:?}");
}

/// In a shell whose directory was deleted, the doctor answers everything except questions about files in that
/// directory.
#[test]
fn a_working_folder_that_was_deleted_stops_only_questions_about_it() {
    let room = Room::new();
    let ask = |words: &str| {
        let script = format!("mkdir gone && cd gone && rmdir ../gone && exec {LANDAU} doctor --no-measure {words}");
        Ran::of(room.other("sh", &["-c", &script]).output().unwrap())
    };
    let ran = ask("");
    assert!(ran.status == Some(0) && ran.out.contains("the current directory: "), "{ran:?}");
    assert!(ran.out.contains("files: no limit is known"), "{ran:?}");
    assert_eq!(ask("--for socket=10").status, Some(0));
    assert_eq!(ask("--for files=10 --dir /").status, Some(0));
    let ran = ask("--for files=10");
    assert!(ran.status == Some(2) && ran.err.contains("current directory, which may have been deleted"), "{ran:?}");
}

/// The doctor shows a running server's own limit, its listening socket, its accept queue of two connections, and the
/// drops when the queue is full.
#[test]
fn a_running_program_is_examined() {
    let room = Room::new();
    let script = "use Socket; socket L, PF_INET, SOCK_STREAM, 0; bind L, sockaddr_in(0, INADDR_LOOPBACK); listen L, 9; \
                  my ($port) = sockaddr_in(getsockname L); $| = 1; print \"$port\\n\"; <STDIN>";
    let limited = format!("ulimit -n 77; exec perl -e '{script}'");
    let mut command = Command::new("sh");
    command.args(["-c", &limited]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut server = Process::spawn(&mut command).unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(server.stdout.take().unwrap()), &mut line).unwrap();
    let port: u16 = line.trim().parse().unwrap();
    let waiting = [(); 2].map(|()| std::net::TcpStream::connect(("127.0.0.1", port)).unwrap());
    let pid = server.id().to_string();
    let ask = |more: &[&str]| {
        room.landau(&[&["doctor", "--for", "idle=100", "--pid", &pid, "--no-measure"], more].concat()).out
    };
    let read = || -> Value { serde_json::from_str(&ask(&["--json"])).unwrap() };
    let (report, text) = (read(), ask(&[]));
    // Ten connections fit in the queue: one more than the backlog.
    let full = [(); 8].map(|()| std::net::TcpStream::connect(("127.0.0.1", port)).unwrap());
    std::net::TcpStream::connect_timeout(&([127, 0, 0, 1], port).into(), Duration::from_millis(100)).unwrap_err();
    let (overflown, overflown_text) = (read(), ask(&[]));
    server.kill().unwrap();
    server.wait().unwrap();
    drop((waiting, full));
    // Standard input, output and error, the listening socket, and descriptors inherited from the tests.
    let open = report["process"]["descriptors"].as_u64().unwrap();
    assert!(open >= 4 && report["answers"][0]["at_most"].as_u64() == Some(77 - open), "{report}");
    let listener = &report["process"]["listeners"][0];
    assert_eq!(listener, &json!({"port": port, "waiting": 2, "backlog": 9, "drops": 0}));
    assert!(text.contains(&format!("port {port}: 2 connections wait for accept(), at most 10\n")), "{text}");
    let row = |report: &Value| {
        let name = format!("backlog of port {port}");
        report["limits"].as_array().unwrap().iter().find(|row| row["limit"] == name).cloned().unwrap()
    };
    let (bound, in_use) = (row(&report)["bounds"][0].clone(), row(&report)["in_use"].clone());
    assert_eq!((&bound["at_most"], &bound["effect"], in_use), (&json!(10), &json!("bends"), json!(2)), "{report}");
    let drops = overflown["process"]["listeners"][0]["drops"].as_u64().unwrap();
    assert!(drops >= 1 && overflown["process"]["listeners"][0]["waiting"] == 10, "{overflown}");
    assert_eq!(row(&overflown)["counters"][0], json!({"name": "packets it dropped", "value": drops}));
    assert!(overflown_text.contains("wait for accept(), at most 10; "), "{overflown_text}");
    assert!(text.contains(&format!("prlimit --pid {pid} --nofile={}:", 100 + open)), "{text}");
}

/// The network settings of a program are those of its namespace, which the kernel shows only inside it.
#[test]
fn a_program_in_another_network_has_its_settings() {
    if !is_root() {
        return eprintln!("skipped: only root can create a network namespace");
    }
    let script = "echo 40000 40099 > /proc/sys/net/ipv4/ip_local_port_range && echo ready && read _";
    let mut command = Command::new("unshare");
    command.args(["-n", "sh", "-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let Ok(mut server) = Process::spawn(&mut command) else { return eprintln!("skipped: unshare is missing") };
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(server.stdout.take().unwrap()), &mut line).unwrap();
    let pid = server.id().to_string();
    let ask = || Room::new().landau(&["doctor", "--for", "ports=1000", "--pid", &pid, "--no-measure", "--json"]);
    let asked = (line == "ready\n").then(ask);
    server.kill().unwrap();
    server.wait().unwrap();
    let Some(ran) = asked else { return eprintln!("skipped: no network namespace can be created here") };
    let report: Value = serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    assert_eq!((ran.status, &report["answers"][0]["at_most"]), (Some(1), &100.into()), "{ran:?}");
    let now = report["answers"][0]["remedy"]["now"].as_str().unwrap();
    assert!(now.starts_with(&format!("nsenter -t {pid} -n sysctl -w ")), "{now}");
}

/// For another user's program, the answer states what could not be read, and why. The doctor itself needs no
/// privileges.
#[test]
fn a_user_without_rights_is_told_what_could_not_be_read() {
    let room = Room::new();
    room.open(0o755);
    if room.as_nobody(&[]).is_none() {
        return;
    }
    let own = std::process::id().to_string();
    let ask = |words: &[&str]| Ran::of(room.as_nobody(&[&["doctor"], words].concat()).unwrap().output().unwrap());
    let ran = ask(&["--pid", &own, "--for", "idle=10"]);
    let words: Vec<&str> = ran.out.split_whitespace().collect();
    let text = words.join(" ");
    assert!(text.contains("its descriptors: Permission denied"), "{text}");
    assert!(text.contains("run landau doctor as root or as the program's user"), "{text}");
    assert!(!text.contains("too few to open connections"), "the asker's own descriptors count: {text}");
    assert_eq!(ran.status, Some(2), "what is not known is no yes: {ran:?}");
    let ran = ask(&["--for", "idle=10"]);
    assert!(ran.status == Some(0) && ran.out.starts_with("idle=10 fits"), "{ran:?}");
}

/// The doctor changes nothing: no sysctls or limits of groups, and it leaves no files or sockets.
#[test]
fn nothing_on_the_host_is_changed() {
    let room = Room::new();
    let sysctls = || {
        let names = ["fs/file-max", "fs/nr_open", "kernel/pid_max", "kernel/threads-max", "vm/max_map_count"];
        let more = ["net/core/somaxconn", "net/ipv4/ip_local_port_range", "net/ipv4/tcp_mem", "vm/overcommit_memory"];
        names
            .iter()
            .chain(&more)
            .map(|name| fs::read_to_string(format!("/proc/sys/{name}")).unwrap())
            .collect::<Vec<_>>()
    };
    let before = sysctls();
    let modified = fs::metadata(room.path()).unwrap().mtime_nsec();
    let ran = room.landau(&["doctor", "--for", "idle=100,files=100"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert_eq!(before, sysctls());
    assert_eq!(fs::metadata(room.path()).unwrap().mtime_nsec(), modified, "a file was made");
}
