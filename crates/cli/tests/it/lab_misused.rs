//! Misuse of `landau lab`, and hosts that lack a requirement: each error states what failed and what to do. Nothing is
//! left behind.

use crate::lab::{emulators, kernel};
use crate::support::{LANDAU, Ran, Room};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn entries(room: &Room) -> Vec<String> {
    let entries = std::fs::read_dir(room.path()).unwrap().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Checks that these arguments are refused with a message that contains `expected`, and that nothing is left behind.
fn is_refused(room: &Room, arguments: &[&str], expected: &str) {
    let ran = room.landau(&[&["lab", "run"], arguments].concat());
    assert!(ran.status == Some(2) && ran.err.contains(expected), "{arguments:?}: {ran:?}");
    let last = ran.err.lines().rfind(|line| line.contains(": ")).unwrap();
    assert!(last.starts_with("landau: ") || last.starts_with("error: "), "{arguments:?}: {ran:?}");
    assert_eq!(entries(room), Vec::<String>::new(), "{arguments:?} left something");
}

#[test]
fn wrong_arguments_are_answered_with_valid_ones() {
    let room = Room::new();
    is_refused(&room, &["-p", "exakt"], "unknown platform; use auto, exact");
    is_refused(&room, &["sysscall"], "did you mean `syscall`?");
    is_refused(&room, &["-k", "nothing", "syscall"], "there is no kernel `nothing`");
    is_refused(&room, &["-k", "", "syscall"], "there is no kernel ``");
    for target in ["ssh:", "ssh:me@", "ssh::22"] {
        is_refused(&room, &["-k", target, "syscall"], "does not name a host; write ssh:USER@HOST");
    }
    is_refused(&room, &["-k", "/tmp", "syscall"], "this is a directory; --kernel takes a bzImage");
    is_refused(&room, &["--output", "/proc/x", "syscall"], "choose another directory with --output");
    is_refused(&room, &["--report", "/nonexistent/x.html", "syscall"], "directory /nonexistent does not exist");
    is_refused(&room, &["--sysctl", "somaxconn"], "write it as NAME=VALUE");
    for name in ["", "../x", "net..x", "/etc/x", "net.core/../../x"] {
        is_refused(&room, &["--sysctl", &format!("{name}=1")], "is not the name of a sysctl");
    }
}

/// The running kernel is measured without a cache. A record must not contain passwords, because records are published.
#[test]
fn the_running_kernel_needs_no_cache_and_its_record_has_no_password() {
    let room = Room::new();
    let words = ["lab", "run", "nop", "--study", "smoke", "--platform", "native", "--output", "r", "--report"];
    let lab = |report: &str, more: &[&str]| {
        let mut command = room.command(&[&words[..], &[report], more].concat());
        Ran::of(command.env_remove("HOME").env_remove("XDG_CACHE_HOME").output().unwrap())
    };
    let ran = lab("r.html", &["--login", "root:SECRET"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let record = std::fs::read_dir(room.file("r")).unwrap().next().unwrap().unwrap().path();
    for path in [record.clone(), room.file("r.html")] {
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains("SECRET") && text.contains("root:…"), "{}", path.display());
    }
    // The report has the same file name as the record.
    std::fs::remove_file(&record).unwrap();
    let ran = lab(record.to_str().unwrap(), &[]);
    assert!(ran.status == Some(2) && ran.err.contains("a record and --report name the same file"), "{ran:?}");
    assert!(!record.exists());
}

#[test]
fn an_invalid_metric_ends_a_bisection() {
    let room = Room::new();
    for (claim, expected) in [
        ("syscall", "column 8: expected `:` and an assertion, found the end of the claim"),
        ("syscall.instructions@x < 3", "column 22: expected a number of objects"),
        ("syscall: < 2x base at 5", "needs a base record"),
        ("syscall.x.instructions@5 < 3", "it has no phase or setting `x`; phases: getppid"),
        ("sysscall.instructions@5 < 3", "did you mean `syscall`?"),
    ] {
        let ran = room.landau(&["lab", "test", "-k", "nothing", "--metric", claim]);
        // git interprets 1 to 127, except 125, as "bad", and would blame a commit.
        assert!(ran.status == Some(255) && ran.err.contains(expected), "{claim}: {ran:?}");
    }
    let ran = room.landau(&["lab", "test", "-k", "nothing", "--metrc", "x"]);
    assert!(ran.status == Some(255) && ran.err.contains("unexpected argument"), "{ran:?}");
}

#[test]
fn a_bisection_that_cannot_begin_says_why() {
    let room = Room::new();
    let bisect = |words: &[&str]| room.landau(&[&["lab", "bisect"], words].concat());
    let ends = ["--good", "nothing", "--bad", "nothing-else"];
    for (words, expected) in [
        (&["--good", "a", "--bad", "b"][..], "--metric <CLAIM>"),
        (&["--good", "a", "--metric", "syscall: O(1)"], "--bad <BAD>"),
        (&["--bad", "b", "--metric", "syscall: O(1)"], "--good <GOOD>"),
    ] {
        let ran = bisect(words);
        assert!(ran.status == Some(2) && ran.err.contains(expected), "{words:?}: {ran:?}");
    }
    for (claim, expected) in [
        ("syscall", "column 8: expected `:` and an assertion, found the end of the claim"),
        ("sysscall.instructions@5 < 3", "did you mean `syscall`?"),
        ("syscall: < 2x base at 5", "needs a base record"),
    ] {
        // `--claim` is an alias of `--metric`.
        for flag in ["--metric", "--claim"] {
            let ran = bisect(&[&ends[..], &[flag, claim]].concat());
            assert!(ran.status == Some(2) && ran.err.contains(expected), "{claim}: {ran:?}");
        }
    }
    assert_eq!(entries(&room), Vec::<String>::new());
}

/// An end of the series that is not a kernel is an error before any kernel boots, and is reported with its flag. It was
/// once a result, with the exit status of a claim that does not hold.
#[test]
fn a_bisection_from_or_to_a_file_that_is_no_kernel_is_an_error() {
    let room = Room::new();
    let bisect = |good: &str, bad: &str| {
        room.landau(&["lab", "bisect", "--good", good, "--bad", bad, "--metric", "syscall.instructions@5 < 3"])
    };
    let check = |ran: &Ran, expected: &str| {
        let expected = format!("landau: {expected}: no such file; specify a kernel image");
        assert!(ran.status == Some(2) && ran.err.contains(&expected) && ran.out.is_empty(), "{ran:?}");
        assert!(!ran.err.contains("boots"), "{ran:?}");
    };
    let ran = bisect("nothing", "nothing-else");
    if ran.status == Some(2) && ran.err.contains("cannot be used here") {
        return eprintln!("skipped: {}", ran.err.trim());
    }
    check(&ran, "--good nothing: there is no kernel `nothing`");
    let Some(kernel) = kernel() else { return };
    check(&bisect(&kernel.display().to_string(), "typo"), "--bad typo: there is no kernel `typo`");
    assert_eq!(entries(&room), Vec::<String>::new());
}

/// Guards against a full disk that makes `git bisect run` blame a commit.
#[test]
fn an_answer_that_cannot_be_written_ends_a_bisection() {
    let room = Room::new();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = room.command(&["lab", "test", "-k", "nothing", "--metric", "syscall.instructions@5 < 3"]);
    let ran = Ran::of(command.stdout(full).output().unwrap());
    assert_eq!(ran.status, Some(255), "{ran:?}");
    if ran.err.contains("cannot be used here") {
        return eprintln!("skipped: {}", ran.err.trim());
    }
    assert!(ran.err.contains("write to standard output: No space left"), "{ran:?}");
}

#[test]
fn a_missing_emulator_is_answered_with_the_package_to_install() {
    let Some(kernel) = kernel() else { return };
    let room = Room::new();
    let mut command = room.command(&["lab", "run", "-k", &kernel.display().to_string(), "-p", "exact", "syscall"]);
    let ran = Ran::of(command.env("PATH", "/nonexistent").output().unwrap());
    assert!(ran.status == Some(2) && ran.err.contains("Debian: qemu-system-x86"), "{ran:?}");
    assert!(ran.err.contains("the platform `exact` cannot be used here"), "{ran:?}");
    assert_eq!(entries(&room), Vec::<String>::new());
}

#[test]
fn a_sysctl_that_the_guest_lacks_is_reported_without_its_console() {
    let Some(kernel) = kernel() else { return };
    let (room, kernel) = (Room::new(), kernel.display().to_string());
    for (setting, expected) in [
        ("vm.nothing=3", "cannot set the sysctl vm.nothing: this kernel does not have it"),
        ("vm.max_map_count=many", "cannot set the sysctl vm.max_map_count=many: Invalid argument"),
    ] {
        let words = ["lab", "run", "-k", &kernel, "-p", "exact", "syscall", "--no-report", "--sysctl", setting];
        let ran = room.landau(&words);
        assert!(ran.status == Some(2) && ran.err.contains(expected) && !ran.err.contains("  | "), "{ran:?}");
        assert_eq!(entries(&room), Vec::<String>::new());
    }
}

/// A kernel with too little memory fails before its console works, and qemu exits with status 0.
#[test]
fn a_machine_that_reboots_at_once_is_not_blamed_on_the_emulator() {
    let Some(kernel) = kernel() else { return };
    let (room, kernel) = (Room::new(), kernel.display().to_string());
    is_refused(&room, &["-k", &kernel, "-p", "exact", "syscall", "--memory", "64MiB"], "try more --memory");
}

#[test]
fn a_kernel_given_twice_is_an_error() {
    let Some(kernel) = kernel() else { return };
    let (room, kernel) = (Room::new(), kernel.display().to_string());
    is_refused(&room, &["-k", &kernel, "-k", &kernel, "-p", "exact", "syscall"], "is given twice");
}

#[test]
fn a_low_descriptor_limit_does_not_reach_the_guest() {
    let Some(kernel) = kernel() else { return };
    let room = Room::new();
    let script = format!(
        "ulimit -n 64; exec '{LANDAU}' lab run -k '{}' -p exact dup --set dup.n=200 --no-report --output r",
        kernel.display()
    );
    let ran = Ran::of(room.other("sh", &["-c", &script]).output().unwrap());
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert_eq!(emulators(&room), Vec::<i32>::new());
}

/// Creates a cache whose index lists an additional kernel that is missing in the archive.
fn cache_with_missing_kernel(room: &Room, kernel: &Path) -> Option<PathBuf> {
    // …/debian/kernels/NAME/vmlinuz
    let from = kernel.ancestors().nth(3)?;
    let to = room.file("cache/debian");
    std::fs::create_dir_all(to.join("sources")).ok()?;
    std::fs::copy(from.join("sources/landau.sources"), to.join("sources/landau.sources")).ok()?;
    let mut index = std::fs::read_to_string(from.join("index")).ok()?;
    let archive = index.lines().find_map(|line| line.strip_prefix("URI: ")?.split_once("/pool/"))?.0.to_owned();
    write!(
        index,
        "\n\nPackage: linux-image-4.0.0-1-cloud-amd64\nVersion: 4.0.1-1\nArchitecture: amd64\nSize: 1000\n\
         URI: {archive}/pool/main/l/linux/linux-image-4.0.0-1-cloud-amd64_4.0.1-1_amd64.deb\nSHA256: {}\n",
        "0".repeat(64)
    )
    .ok()?;
    std::fs::write(to.join("index"), index).ok()?;
    Some(room.file("cache"))
}

/// A mirror that is being updated lists files that it no longer has. A long run must not fail because of that.
#[test]
fn a_kernel_missing_from_the_archive_fails_alone() {
    let Some(kernel) = kernel() else { return };
    let room = Room::new();
    let Some(cache) = cache_with_missing_kernel(&room, kernel) else {
        return eprintln!("skipped: no kernel was fetched here");
    };
    let (cache, kernel) = (cache.display().to_string(), kernel.display().to_string());
    let words = ["lab", "run", "-k", "debian:4.0", "-p", "exact", "syscall", "--set", "syscall.n=50", "--no-report"];
    let words = [&words[..], &["--cache", &cache, "--output", "r"]].concat();
    let alone = room.landau(&words);
    let expected = "cannot fetch linux-image-4.0.0-1-cloud-amd64_4.0.1-1_amd64.deb";
    assert!(alone.status == Some(2) && alone.err.contains(expected) && !room.file("r").exists(), "{alone:?}");
    let ran = room.landau(&[&words[..], &["-k", &kernel]].concat());
    assert!(ran.status == Some(1) && ran.err.contains(expected), "{ran:?}");
    assert!(ran.err.lines().last().unwrap().starts_with("debian:4.0: "), "{ran:?}");
    assert_eq!(std::fs::read_dir(room.file("r")).unwrap().count(), 1, "the other kernel was measured");
}
