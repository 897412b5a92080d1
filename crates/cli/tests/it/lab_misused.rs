//! The lab under wrong words and on a poor host: each ends with what failed and what to do, and leaves nothing.

use crate::lab::{emulators, kernel};
use crate::support::{LANDAU, Ran, Room};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

fn entries(room: &Room) -> Vec<String> {
    let entries = std::fs::read_dir(room.path()).unwrap().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// A message is lower case and ends a program that left nothing.
fn is_refused(room: &Room, words: &[&str], told: &str) {
    let ran = room.landau(&[&["lab", "run"], words].concat());
    assert!(ran.status == Some(2) && ran.err.contains(told), "{words:?}: {ran:?}");
    let last = ran.err.lines().rfind(|line| line.contains(": ")).unwrap();
    assert!(last.starts_with("landau: ") || last.starts_with("error: "), "{words:?}: {ran:?}");
    assert_eq!(entries(room), Vec::<String>::new(), "{words:?} left something");
}

#[test]
fn wrong_words_are_answered_with_what_would_be_right() {
    let room = Room::new();
    is_refused(&room, &["-p", "exakt"], "there are auto, native");
    is_refused(&room, &["sysscall"], "did you mean `syscall`?");
    is_refused(&room, &["-k", "nothing", "syscall"], "there is no kernel `nothing`");
    is_refused(&room, &["-k", "", "syscall"], "there is no kernel ``");
    is_refused(&room, &["-k", "/tmp", "syscall"], "this is a folder; --kernel wants a bzImage");
    is_refused(&room, &["--output", "/proc/x", "syscall"], "choose another folder with --output");
    is_refused(&room, &["--report", "/nonexistent/x.html", "syscall"], "folder /nonexistent does not exist");
    is_refused(&room, &["--sysctl", "somaxconn"], "write it as NAME=VALUE");
    for name in ["", "../x", "net..x", "/etc/x", "net.core/../../x"] {
        is_refused(&room, &["--sysctl", &format!("{name}=1")], "is no setting's name");
    }
}

#[test]
fn a_metric_that_means_nothing_ends_a_bisection() {
    let room = Room::new();
    for (claim, told) in [
        ("syscall", "is no claim; write one as"),
        ("syscall.instructions@x < 3", "is no claim; write one as"),
        ("syscall.x.instructions@5 < 3", "`syscall` has no phase `x`; it has getppid"),
        ("sysscall.instructions@5 < 3", "did you mean `syscall`?"),
    ] {
        let ran = room.landau(&["lab", "test", "-k", "nothing", "--metric", claim]);
        // git takes 1 to 127 for "bad", but for 125, and would name a culprit.
        assert!(ran.status == Some(255) && ran.err.contains(told), "{claim}: {ran:?}");
    }
    let ran = room.landau(&["lab", "test", "-k", "nothing", "--metrc", "x"]);
    assert!(ran.status == Some(255) && ran.err.contains("unexpected argument"), "{ran:?}");
}

#[test]
fn without_an_emulator_it_says_what_to_install() {
    let Some(kernel) = kernel() else { return };
    let room = Room::new();
    let mut command = room.command(&["lab", "run", "-k", &kernel.display().to_string(), "-p", "exact", "syscall"]);
    let ran = Ran::of(command.env("PATH", "/nonexistent").output().unwrap());
    assert!(ran.status == Some(2) && ran.err.contains("Debian: qemu-system-x86"), "{ran:?}");
    assert_eq!(entries(&room), Vec::<String>::new());
}

#[test]
fn a_setting_that_the_guest_lacks_is_named_without_its_console() {
    let Some(kernel) = kernel() else { return };
    let (room, kernel) = (Room::new(), kernel.display().to_string());
    for (setting, told) in [
        ("vm.nothing=3", "the sysctl vm.nothing: this kernel has no such setting"),
        ("vm.max_map_count=many", "the sysctl vm.max_map_count=many: Invalid argument"),
    ] {
        let words = ["lab", "run", "-k", &kernel, "-p", "exact", "syscall", "--no-report", "--sysctl", setting];
        let ran = room.landau(&words);
        assert!(ran.status == Some(2) && ran.err.contains(told) && !ran.err.contains("  | "), "{ran:?}");
        assert_eq!(entries(&room), Vec::<String>::new());
    }
}

/// A kernel without room dies before its console is up, and qemu ends as if all were well.
#[test]
fn a_machine_that_restarts_at_once_is_not_blamed_on_the_emulator() {
    let Some(kernel) = kernel() else { return };
    let (room, kernel) = (Room::new(), kernel.display().to_string());
    is_refused(&room, &["-k", &kernel, "-p", "exact", "syscall", "--memory", "64MiB"], "--memory gives it more");
}

#[test]
fn a_kernel_that_is_named_twice_is_one() {
    let Some(kernel) = kernel() else { return };
    let (room, kernel) = (Room::new(), kernel.display().to_string());
    is_refused(&room, &["-k", &kernel, "-k", &kernel, "-p", "exact", "syscall"], "is named twice");
}

#[test]
fn few_descriptors_here_are_none_the_fewer_in_the_guest() {
    let Some(kernel) = kernel() else { return };
    let room = Room::new();
    let script = format!(
        "ulimit -n 64; exec '{LANDAU}' lab run -k '{}' -p exact dup --set dup.n=200 --no-report --output r",
        kernel.display()
    );
    let mut command = Command::new("sh");
    let ran = Ran::of(command.args(["-c", &script]).current_dir(room.path()).output().unwrap());
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert_eq!(emulators(&room), Vec::<i32>::new());
}

/// A folder of kernels whose index names one more, of which the archive has no file.
fn cache_with_a_hole(room: &Room, kernel: &Path) -> Option<PathBuf> {
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

/// A mirror that is being renewed names what it no longer gives: an evening's run must not end there.
#[test]
fn a_kernel_that_the_archive_lost_fails_alone() {
    let Some(kernel) = kernel() else { return };
    let room = Room::new();
    let Some(cache) = cache_with_a_hole(&room, kernel) else {
        return eprintln!("skipped: no kernel was fetched here");
    };
    let (cache, kernel) = (cache.display().to_string(), kernel.display().to_string());
    let words = ["lab", "run", "-k", "debian:4.0", "-p", "exact", "syscall", "--set", "syscall.n=50", "--no-report"];
    let words = [&words[..], &["--cache", &cache, "--output", "r"]].concat();
    let alone = room.landau(&words);
    let told = "linux-image-4.0.0-1-cloud-amd64_4.0.1-1_amd64.deb could not be fetched";
    assert!(alone.status == Some(2) && alone.err.contains(told) && !room.file("r").exists(), "{alone:?}");
    let ran = room.landau(&[&words[..], &["-k", &kernel]].concat());
    assert!(ran.status == Some(1) && ran.err.contains(told), "{ran:?}");
    assert!(ran.err.lines().last().unwrap().starts_with("debian:4.0: "), "{ran:?}");
    assert_eq!(std::fs::read_dir(room.file("r")).unwrap().count(), 1, "the other kernel was measured");
}
