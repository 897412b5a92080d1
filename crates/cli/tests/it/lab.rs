//! `landau lab` as a user runs it: kernels that boot, panic and hang, and what they leave behind.

use crate::support::{LANDAU, Ran, Room, eventually, install, is_root, processes_with};
use landau_lab::kernel;
use landau_record::Record;
use landau_record::schema::{CrashKind, EndOutcome, Unit};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Returns a kernel for the tests, fetched once; `None` without an emulator or an archive.
pub(crate) fn kernel() -> Option<&'static Path> {
    static KERNEL: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    obtained("debian:6.1", &KERNEL)
}

/// Returns an older kernel, in which `bind()` is cheaper.
fn older_kernel() -> Option<&'static Path> {
    static KERNEL: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    obtained("debian:5.10", &KERNEL)
}

fn obtained(word: &str, held: &'static OnceLock<Result<PathBuf, String>>) -> Option<&'static Path> {
    let found = held.get_or_init(|| {
        let version = Command::new("qemu-system-x86_64").arg("--version").output();
        if !version.is_ok_and(|output| output.status.success()) {
            return Err("qemu-system-x86_64 is missing (Debian: qemu-system-x86)".to_owned());
        }
        // The cache is in the build directory, so that the next test run finds it.
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels");
        match landau_lab::obtain::obtain(word, &cache, &mut |_| {}) {
            Ok(kernel) => Ok(kernel.image),
            Err(error @ (kernel::Error::Apt(_) | kernel::Error::Fetch { .. })) => Err(error.to_string()),
            Err(error) => panic!("{error}"),
        }
    });
    match found {
        Ok(path) => Some(path),
        Err(why) => {
            eprintln!("skipped: {why}");
            None
        }
    }
}

/// Runs `landau lab run` with that kernel and further arguments. Also returns the path of the record.
fn run(room: &Room, kernel: &Path, arguments: &[&str]) -> (Ran, PathBuf) {
    let kernel = kernel.display().to_string();
    let fixed =
        ["lab", "run", "--kernel", &kernel, "--no-report", "--platform", "exact", "--output", "records", "--jobs", "1"];
    let ran = room.landau(&[&fixed, arguments].concat());
    (ran, record_in(&room.file("records")))
}

fn record_in(folder: &Path) -> PathBuf {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .find(|path| path.to_string_lossy().ends_with(".landau.ndjson"))
        .unwrap_or_default()
}

/// Returns the lines with samples, without their seals, which depend on the header's date.
fn samples(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let is_sample = |line: &&str| ["chunk", "window"].iter().any(|kind| line.contains(&format!("\"kind\":\"{kind}\"")));
    text.lines().filter(is_sample).map(|line| line.rsplit_once(",\"seal\"").unwrap().0.to_owned()).collect()
}

/// Returns the emulators that were started for the directory of a test.
pub(crate) fn emulators(room: &Room) -> Vec<i32> {
    processes_with(&room.path().display().to_string()).into_iter().filter(|pid| is_emulator(*pid)).collect()
}

fn is_emulator(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.starts_with("qemu-system"))
}

/// Two processes that keep the processors busy until this value is dropped.
struct BusyLoops(Vec<std::process::Child>);

impl BusyLoops {
    fn new() -> Self {
        let start = || Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        Self(vec![start(), start()])
    }
}

impl Drop for BusyLoops {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn equal_runs_count_equal_instructions_on_a_busy_host() {
    let Some(kernel) = kernel() else { return };
    let words = ["syscall", "socket", "bind", "--set", "bind.n=300", "--set", "socket.n=600", "--set", "syscall.n=500"];
    let (idle, busy) = (Room::new(), Room::new());
    let (ran, first) = run(&idle, kernel, &words);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let second = {
        let _busy = BusyLoops::new();
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
    // The canary is the minimum of six calls; background work would make it vary.
    assert!(canary.iter().all(|&one| one == canary[0]), "the canary varies: {canary:?}");
    assert_eq!(idle.landau(&["verify", &first.display().to_string()]).status, Some(0));
    assert_eq!(idle.leftovers(), Vec::<String>::new());
}

#[test]
fn a_panic_is_recorded_up_to_its_last_step() {
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
    let lane = &record.passes.iter().find(|pass| Some(pass.start.pass) == crash.pass).unwrap().series["socket"];
    assert_eq!(lane.n, (1..=2030).collect::<Vec<u32>>(), "the record contains every step before it once");
    assert_eq!(room.landau(&["verify", &path.display().to_string()]).status, Some(0));
    assert_eq!(emulators(&room), Vec::<i32>::new());
    let before = std::fs::read(&path).unwrap();
    let (again, _) = run(&room, kernel, &["socket", "--resume"]);
    assert!(again.status == Some(1) && again.err.contains("panicked"), "the kernel panics again: {again:?}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn a_hanging_guest_is_killed_after_the_timeout() {
    let Some(kernel) = kernel() else { return };
    let room = Room::new();
    let words = ["socket", "--set", "socket.n=900", "--append", "LANDAU_HANG_AT=700", "--stall-timeout", "40s"];
    let start = Instant::now();
    let (ran, path) = run(&room, kernel, &words);
    // Enough for two boots and two timeouts on a busy host.
    assert!(start.elapsed() < Duration::from_secs(600), "{:?}", start.elapsed());
    assert_eq!(ran.status, Some(1), "{ran:?}");
    assert!(ran.err.contains("the guest sent nothing for 40 s"), "{ran:?}");
    assert_eq!(Record::read(&path).unwrap().crashes[0].last_n, Some(699));
    assert_eq!(emulators(&room), Vec::<i32>::new());
    let (again, _) = run(&room, kernel, &["socket", "--set", "socket.n=200", "--resume"]);
    assert_eq!(again.status, Some(0), "perhaps this host stopped it: {again:?}");
    assert_eq!(Record::read(&path).unwrap().end.unwrap().outcome, EndOutcome::Complete);
}

#[test]
fn a_kernel_that_fails_to_boot_shows_its_console_and_leaves_no_record() {
    let Some(kernel) = kernel() else { return };
    let room = Room::new();
    let (ran, path) = run(&room, kernel, &["syscall", "--append", "rdinit=/nothing root=/dev/nothing rootwait=0"]);
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(ran.err.contains("panicked") && ran.err.contains("  | "), "{ran:?}");
    assert_eq!(path, PathBuf::new());
}

#[test]
fn a_wrong_image_is_an_error_before_any_boot() {
    let room = Room::new();
    std::fs::write(room.file("text"), "not a kernel\n").unwrap();
    for (name, what) in [("text", "text file"), (LANDAU, "ELF program"), ("nothing", "nothing")] {
        let ran = room.landau(&["lab", "run", "--kernel", name, "syscall"]);
        assert_eq!(ran.status, Some(2), "{ran:?}");
        assert!(ran.err.contains(what), "{name}: {ran:?}");
    }
}

#[test]
fn one_bad_kernel_does_not_affect_the_others_and_resume_keeps_complete_records() {
    let Some(kernel) = kernel() else { return };
    let room = Room::new();
    // Writes invalid instructions (ud2) after the real-mode code, whose length in sectors is at 0x1f1; the processor
    // resets.
    let mut broken = std::fs::read(kernel).unwrap();
    let start = (usize::from(broken[0x1f1]) + 1) * 512;
    broken[start..].chunks_exact_mut(2).for_each(|code| code.copy_from_slice(&[0x0f, 0x0b]));
    std::fs::write(room.file("broken"), broken).unwrap();
    let good = kernel.display().to_string();
    let arguments = ["lab", "run", "-k", "broken", "-k", &good, "--no-report", "--output", "r", "--platform", "exact"];
    let arguments = [&arguments[..], &["syscall", "--set", "syscall.n=100"]].concat();
    let ran = room.landau(&arguments);
    assert_eq!(ran.status, Some(1), "{ran:?}");
    assert!(ran.err.contains("ended without a message"), "{ran:?}");
    let record = record_in(&room.file("r"));
    assert!(Record::read(&record).unwrap().end.is_some_and(|end| end.outcome == EndOutcome::Complete), "{ran:?}");
    let again = room.landau(&[&arguments[..], &["--resume"]].concat());
    assert!(again.err.contains("exists already"), "{again:?}");
}

#[test]
fn sigkill_leaves_no_emulator_and_a_record_that_resume_replaces() {
    let Some(kernel) = kernel() else { return };
    let room = Room::new();
    let kernel = kernel.display().to_string();
    let words = ["lab", "run", "-k", &kernel, "--no-report", "--output", "r", "--platform", "exact", "mmap"];
    let mut child = room.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let has_begun = (0..12).any(|_| {
        eventually(|| std::fs::read_to_string(record_in(&room.file("r"))).is_ok_and(|text| text.contains("\"chunk\"")))
    });
    assert!(has_begun, "nothing was measured");
    assert_eq!(emulators(&room).len(), 1);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(eventually(|| emulators(&room).is_empty()), "an emulator survived landau");
    let record = Record::read(&record_in(&room.file("r"))).unwrap();
    assert!(record.end.is_none() && record.fault.is_none());
    let small = ["--resume", "--set", "mmap.n=100"];
    let ran = room.landau(&[&words[..], &small].concat());
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert_eq!(room.leftovers(), Vec::<String>::new(), "the next run removes what the killed one left");
}

#[test]
fn a_full_disk_is_an_error_and_ends_the_emulator() {
    let Some(kernel) = kernel() else { return };
    let room = Room::new();
    let kernel = kernel.display().to_string();
    // A limit on the file size acts like a full disk, and needs no root; the initramfs is elsewhere.
    let shell =
        format!("ulimit -f 24 && trap '' XFSZ && exec '{LANDAU}' lab run -k '{kernel}' --no-report --output r socket");
    let ran = Ran::of(room.other("sh", &["-c", &shell]).output().unwrap());
    assert_ne!(ran.status, Some(0), "{ran:?}");
    assert!(ran.err.contains("cannot write") || ran.err.contains("write r/"), "{ran:?}");
    assert_eq!(emulators(&room), Vec::<i32>::new());
}

#[test]
fn a_run_needs_no_root_and_does_not_change_the_host() {
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
    install(LANDAU, &program);
    let mut command = Command::new(&program);
    command.args(["lab", "run", "-k", "kernel", "--no-report", "--output", "r", "--platform", "exact"]);
    command.args(["syscall", "--set", "syscall.n=200", "--sysctl", "vm.max_map_count=70000"]);
    command.current_dir(room.path()).env("TMPDIR", room.path()).env("HOME", room.path()).env_remove("XDG_CACHE_HOME");
    if is_root() {
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
    assert_eq!(inside, ["kernel", "landau", "r"], "something was written elsewhere");
    let record = Record::read(&record_in(&room.file("r"))).unwrap();
    assert_eq!(record.host.sysctls["vm.max_map_count"], "70000", "the guest has the sysctl");
}

#[test]
fn exit_statuses_are_those_of_git_bisect() {
    let Some(kernel) = kernel() else { return };
    let room = Room::new();
    std::fs::write(room.file("no-kernel"), "x").unwrap();
    let kernel = kernel.display().to_string();
    let test = |kernel: &str, claim: &str| room.landau(&["lab", "test", "-k", kernel, "--metric", claim]).status;
    assert_eq!(test(&kernel, "syscall.instructions@50 < 1000"), Some(0));
    assert_eq!(test(&kernel, "syscall.instructions@50 > 1000"), Some(1));
    assert_eq!(test("no-kernel", "syscall.instructions@50 > 1000"), Some(125));
    assert_eq!(test(&kernel, "sysall.instructions@50 > 1000"), Some(255), "an unknown benchmark ends a bisection");
}

/// A bisection finds the kernel that made `bind()` more expensive. It reports kernels without an answer, and a wrong
/// end of the series.
#[test]
fn a_bisection_names_the_first_kernel_for_which_a_claim_no_longer_holds() {
    if std::env::var_os("LANDAU_BISECTION").is_none() {
        return eprintln!("skipped: five boots take minutes; LANDAU_BISECTION=1 runs this test");
    }
    let (Some(new), Some(old)) = (kernel(), older_kernel()) else { return };
    let room = Room::new();
    std::fs::write(room.file("no-kernel"), "x").unwrap();
    let (old, new) = (old.display().to_string(), new.display().to_string());
    let bisect = |good: &str, bad: &str, more: &[&str]| {
        let words = ["lab", "bisect", "--good", good, "--bad", bad, "--metric", "bind.instructions@300 < 2000"];
        room.landau(&[&words, more].concat())
    };
    let ran = bisect(&old, &new, &["--json"]);
    let answer: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.status, answer["asked"].as_array().unwrap().len()), (Some(0), 2), "{answer}");
    let named = |member: &str, release: &str| answer[member].as_str().is_some_and(|name| name.contains(release));
    assert!(named("last_good", "5.10") && named("first_bad", "6.1"), "{answer}");
    assert!(
        answer["sentence"].as_str().unwrap().starts_with("`bind.instructions@300 < 2000` holds up to "),
        "{answer}"
    );
    let ran = bisect(&old, &new, &["-k", "no-kernel"]);
    assert!(ran.status == Some(1) && ran.out.contains("; not testable: no-kernel"), "{ran:?}");
    let ran = bisect(&new, &old, &[]);
    assert!(ran.status == Some(1) && ran.out.contains("` does not hold for --good "), "{ran:?}");
    assert_eq!(emulators(&room), Vec::<i32>::new());
}
