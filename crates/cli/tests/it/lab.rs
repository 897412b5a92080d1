//! The lab from outside: kernels that are booted, that panic, that hang, and what is left of all that.

use crate::support::{LANDAU, Ran, Room, eventually, processes_with};
use landau_record::Record;
use landau_record::schema::{CrashKind, Unit};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// A kernel for the tests, fetched once: none where there is no emulator or no archive, and why.
pub(crate) fn kernel() -> Option<&'static Path> {
    static KERNEL: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let found = KERNEL.get_or_init(|| {
        let version = Command::new("qemu-system-x86_64").arg("--version").output();
        if !version.is_ok_and(|said| said.status.success()) {
            return Err("there is no qemu-system-x86_64 (Debian: qemu-system-x86)".to_owned());
        }
        // Kept between runs of the tests: it is the cache of a user, in the folder of the build.
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels");
        let kernel =
            landau_lab::kernel::obtain("debian:6.1", &cache, &mut |_| {}).map_err(|error| error.to_string())?;
        Ok(kernel.image)
    });
    match found {
        Ok(path) => Some(path),
        Err(why) => {
            eprintln!("skipped: {why}");
            None
        }
    }
}

/// `landau lab run` of that kernel with further words; the record's path.
fn run(room: &Room, kernel: &Path, words: &[&str]) -> (Ran, PathBuf) {
    let kernel = kernel.display().to_string();
    let fixed =
        ["lab", "run", "--kernel", &kernel, "--no-report", "--platform", "exact", "--output", "records", "--jobs", "1"];
    let ran = room.landau(&[&fixed, words].concat());
    (ran, record_in(&room.file("records")))
}

fn record_in(folder: &Path) -> PathBuf {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .find(|path| path.to_string_lossy().ends_with(".landau.ndjson"))
        .unwrap_or_default()
}

/// The lines of a record that hold what was measured, without their seals: those depend on the header's date.
fn samples(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let is_sample = |line: &&str| ["chunk", "window"].iter().any(|kind| line.contains(&format!("\"kind\":\"{kind}\"")));
    text.lines().filter(is_sample).map(|line| line.rsplit_once(",\"seal\"").unwrap().0.to_owned()).collect()
}

/// Emulators that were started for a test's folder.
pub(crate) fn emulators(room: &Room) -> Vec<i32> {
    processes_with(&room.path().display().to_string()).into_iter().filter(|pid| is_emulator(*pid)).collect()
}

fn is_emulator(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.starts_with("qemu-system"))
}

/// Two processes that keep the processors busy as long as this lives.
struct Hogs(Vec<std::process::Child>);

impl Hogs {
    fn new() -> Self {
        let hog = || Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        Self(vec![hog(), hog()])
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        for hog in &mut self.0 {
            let _ = hog.kill();
            let _ = hog.wait();
        }
    }
}

#[test]
fn the_same_words_count_the_same_instructions_whatever_else_runs() {
    let Some(kernel) = kernel() else { return };
    let words = ["syscall", "socket", "bind", "--set", "bind.n=300", "--set", "socket.n=600", "--set", "syscall.n=500"];
    let (idle, busy) = (Room::new(), Room::new());
    let (ran, first) = run(&idle, kernel, &words);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let second = {
        let _hogs = Hogs::new();
        run(&busy, kernel, &words).1
    };
    let (one, other) = (samples(&first), samples(&second));
    assert!(one.len() > 10, "{} lines", one.len());
    assert_eq!(one, other);

    let record = Record::read(&first).unwrap();
    assert_eq!(record.unit(), Unit::Instructions);
    let lab = record.lab.as_ref().unwrap();
    assert_eq!((lab.platform.as_str(), lab.kernel.as_ref().unwrap().sha256.len()), ("exact", 64));
    assert!(record.notes.iter().any(|note| note.contains("getppid took")), "{:?}", record.notes);
    let canary: Vec<u64> =
        record.passes.iter().flat_map(|pass| &pass.windows).flat_map(|window| window.canary.values().clone()).collect();
    // The canary is the quickest of six calls: where background work goes on, it wavers.
    assert!(canary.iter().all(|&one| one == canary[0]), "the canary wavers: {canary:?}");
    assert_eq!(idle.landau(&["verify", &first.display().to_string()]).status, Some(0));
    assert_eq!(idle.leftovers(), Vec::<String>::new());
}

#[test]
fn a_panic_is_a_result_up_to_its_last_step() {
    let Some(kernel) = kernel() else { return };
    let room = Room::new();
    let (ran, path) = run(&room, kernel, &["socket", "--set", "socket.n=2500", "--append", "LANDAU_PANIC_AT=2031"]);
    assert_eq!(ran.status, Some(1), "{ran:?}");
    assert!(ran.err.contains("panicked") && ran.err.contains("n = 2030"), "{ran:?}");
    let record = Record::read(&path).unwrap();
    let crash = &record.crashes[0];
    assert_eq!(
        (crash.crash, crash.last_n, crash.boots, crash.same_place),
        (CrashKind::Panic, Some(2030), 2, Some(true))
    );
    assert!(crash.console.iter().any(|line| line.contains("Kernel panic")), "{:?}", crash.console);
    let lane = &record.passes.iter().find(|pass| Some(pass.start.pass) == crash.pass).unwrap().lanes["socket"];
    assert_eq!(lane.n, (1..=2030).collect::<Vec<u32>>(), "every step up to there is in the record, once");
    assert_eq!(room.landau(&["verify", &path.display().to_string()]).status, Some(0));
    assert_eq!(emulators(&room), Vec::<i32>::new());
}

#[test]
fn a_program_that_hangs_is_given_up_in_time() {
    let Some(kernel) = kernel() else { return };
    let room = Room::new();
    let began = std::time::Instant::now();
    let words = ["socket", "--set", "socket.n=900", "--append", "LANDAU_HANG_AT=700", "--stall-timeout", "20s"];
    let (ran, path) = run(&room, kernel, &words);
    assert_eq!(ran.status, Some(1), "{ran:?}");
    assert!(ran.err.contains("nothing was heard for 20 s"), "{ran:?}");
    assert!(began.elapsed().as_secs() < 300, "two boots and two bounds of 20 s took {:?}", began.elapsed());
    assert_eq!(Record::read(&path).unwrap().crashes[0].last_n, Some(699));
    assert_eq!(emulators(&room), Vec::<i32>::new());
}

#[test]
fn a_kernel_that_never_gets_to_measuring_shows_its_console_and_leaves_no_record() {
    let Some(kernel) = kernel() else { return };
    let room = Room::new();
    let (ran, path) = run(&room, kernel, &["syscall", "--append", "rdinit=/nothing root=/dev/nothing rootwait=0"]);
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(ran.err.contains("panicked") && ran.err.contains("  | "), "{ran:?}");
    assert_eq!(path, PathBuf::new());
}

#[test]
fn a_wrong_image_is_named_before_anything_is_booted() {
    let room = Room::new();
    std::fs::write(room.file("text"), "I am no kernel\n").unwrap();
    for (name, what) in [("text", "text file"), (LANDAU, "ELF program"), ("nothing", "nothing")] {
        let ran = room.landau(&["lab", "run", "--kernel", name, "syscall"]);
        assert_eq!(ran.status, Some(2), "{ran:?}");
        assert!(ran.err.contains(what), "{name}: {ran:?}");
    }
}

#[test]
fn one_bad_kernel_leaves_the_others_alone_and_resume_keeps_what_is_whole() {
    let Some(kernel) = kernel() else { return };
    let room = Room::new();
    // A bzImage by its header, whose code is nothing.
    let mut broken = std::fs::read(kernel).unwrap();
    broken[0x4000..].fill(0xf4);
    std::fs::write(room.file("broken"), broken).unwrap();
    let good = kernel.display().to_string();
    let words = [
        "lab",
        "run",
        "-k",
        "broken",
        "-k",
        &good,
        "--no-report",
        "--output",
        "r",
        "--platform",
        "exact",
        "--stall-timeout",
        "15s",
        "syscall",
        "--set",
        "syscall.n=100",
    ];
    let ran = room.landau(&words);
    assert_eq!(ran.status, Some(1), "{ran:?}");
    assert!(ran.err.contains("did not come up within 15 s") || ran.err.contains("ended without a word"), "{ran:?}");
    let record = record_in(&room.file("r"));
    assert!(Record::read(&record).unwrap().end.is_some_and(|end| end.outcome == "complete"), "{ran:?}");
    let again = room.landau(&[
        "lab",
        "run",
        "-k",
        &good,
        "--no-report",
        "--output",
        "r",
        "--resume",
        "--platform",
        "exact",
        "syscall",
    ]);
    assert!(again.err.contains("was there already"), "{again:?}");
}

#[test]
fn kill_9_leaves_no_emulator_and_a_record_that_resume_replaces() {
    let Some(kernel) = kernel() else { return };
    let room = Room::new();
    let kernel = kernel.display().to_string();
    let words = ["lab", "run", "-k", &kernel, "--no-report", "--output", "r", "--platform", "exact", "mmap"];
    let mut child = room.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begun = (0..6).any(|_| {
        eventually(|| std::fs::read_to_string(record_in(&room.file("r"))).is_ok_and(|text| text.contains("\"chunk\"")))
    });
    assert!(begun, "nothing was measured within a minute");
    assert_eq!(emulators(&room).len(), 1);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(eventually(|| emulators(&room).is_empty()), "an emulator outlived landau");
    let record = Record::read(&record_in(&room.file("r"))).unwrap();
    assert!(record.end.is_none() && record.fault.is_none());
    let small = ["--resume", "--set", "mmap.n=100"];
    let ran = room.landau(&[&words[..], &small].concat());
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert_eq!(room.leftovers(), Vec::<String>::new(), "the next run sweeps up after the killed one");
}

#[test]
fn a_full_disk_is_told_and_ends_the_emulator() {
    let Some(kernel) = kernel() else { return };
    let room = Room::new();
    let kernel = kernel.display().to_string();
    // A file that may not grow is a disk that is full, and needs no root; the initramfs lies elsewhere.
    let shell =
        format!("ulimit -f 24 && trap '' XFSZ && exec '{LANDAU}' lab run -k '{kernel}' --no-report --output r socket");
    let mut command = Command::new("sh");
    command.args(["-c", &shell]).current_dir(room.path()).env("TMPDIR", room.path());
    let ran = Ran::of(command.output().unwrap());
    assert_ne!(ran.status, Some(0), "{ran:?}");
    assert!(ran.err.contains("cannot write") || ran.err.contains("write r/"), "{ran:?}");
    assert_eq!(emulators(&room), Vec::<i32>::new());
}

#[test]
fn no_root_is_needed_and_the_host_stays_as_it_was() {
    let Some(kernel) = kernel() else { return };
    let room = Room::new();
    let image = room.file("kernel");
    std::fs::copy(kernel, &image).unwrap();
    let host = || {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let changed = |path: &str| std::fs::metadata(path).ok().and_then(|facts| facts.modified().ok());
        let sysctls = ["net/ipv4/ip_local_port_range", "vm/max_map_count", "kernel/pid_max", "fs/file-max"];
        let values: Vec<String> = sysctls.iter().map(|name| read(&format!("/proc/sys/{name}"))).collect();
        (values, read("/var/lib/dpkg/status"), ["/etc", "/usr", "/boot", "/var/lib/dpkg"].map(changed))
    };
    let before = host();
    let program = room.file("landau");
    std::fs::copy(LANDAU, &program).unwrap();
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|facts| std::os::unix::fs::MetadataExt::uid(&facts) == 0);
    let mut command = Command::new(&program);
    command.args(["lab", "run", "-k", "kernel", "--no-report", "--output", "r", "--platform", "exact"]);
    command.args(["syscall", "--set", "syscall.n=200", "--sysctl", "vm.max_map_count=70000"]);
    command.current_dir(room.path()).env("TMPDIR", room.path()).env("HOME", room.path()).env_remove("XDG_CACHE_HOME");
    if is_root {
        const NOBODY: u32 = 65_534;
        std::os::unix::fs::chown(room.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        command.uid(NOBODY).gid(NOBODY);
    }
    let ran = Ran::of(command.output().unwrap());
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert_eq!(host(), before);
    let mut inside: Vec<String> = std::fs::read_dir(room.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    inside.sort();
    assert_eq!(inside, ["kernel", "landau", "r"], "something was written outside the chosen folder");
    let record = Record::read(&record_in(&room.file("r"))).unwrap();
    assert_eq!(record.host.sysctls["vm.max_map_count"], "70000", "the guest has what was asked for");
}

#[test]
fn a_claim_is_answered_as_git_bisect_wants_it() {
    let Some(kernel) = kernel() else { return };
    let room = Room::new();
    std::fs::write(room.file("no-kernel"), "x").unwrap();
    let kernel = kernel.display().to_string();
    let test = |kernel: &str, claim: &str| room.landau(&["lab", "test", "-k", kernel, "--metric", claim]).status;
    assert_eq!(test(&kernel, "syscall.instructions@50 < 1000"), Some(0));
    assert_eq!(test(&kernel, "syscall.instructions@50 > 1000"), Some(1));
    assert_eq!(test("no-kernel", "syscall.instructions@50 > 1000"), Some(125));
    assert_eq!(test(&kernel, "sysall.instructions@50 > 1000"), Some(255), "a claim about nothing ends a bisection");
}
