//! `landau explain` as a user runs it: a kernel boots under the plugin, and the costs of the functions add up.

use crate::lab::{emulators, kernel};
use crate::support::{Process, Ran, Room, eventually};
use landau_record::schema::{EndOutcome, Explanation, Profile};
use std::process::{Command, Stdio};

#[test]
fn the_functions_of_poll_add_up_to_its_growth() {
    let Some(kernel) = kernel() else { return };
    let (room, kernel) = (Room::new(), kernel.display().to_string());
    let settings = ["--set", "event_wait.backend=poll", "--set", "event_wait.n=200"];
    let words = ["explain", "event_wait", "--kernel", &kernel, "--json", "--record", "r", "-o", "page.html"];
    let ran = room.landau(&[&words[..], &settings].concat());
    assert_eq!(ran.status, Some(0), "{ran:?}");

    let found: Vec<Explanation> = serde_json::from_str(&ran.out).unwrap();
    let wait = found.iter().find(|one| one.phase == "wait").unwrap();
    assert_eq!(wait.at, [20, 100, 200]);
    let (growth, explained) = (wait.growth(), wait.explained());
    assert!(growth > 10_000, "180 more descriptors cost {growth} instructions");
    assert!((explained - growth).abs() * 100 <= growth, "{explained} of {growth} instructions are explained");
    let shares: f64 = wait.functions.iter().map(|function| function.share).sum();
    assert!((shares - 1.0).abs() <= 0.01, "the shares add up to {shares}");
    let poll = wait.functions.iter().find(|function| function.name == "pipe_poll").unwrap();
    assert!(poll.share > 0.05 && poll.is_linear(), "{poll:?}");
    // Including its callees, it has one of the three largest shares among the callees of the function at which the cost
    // branches.
    let branching = wait.branching.as_ref().unwrap();
    let parts: f64 = branching.parts.iter().map(|part| part.share).sum();
    assert!(
        (0.97..1.001).contains(&parts) && branching.parts.iter().all(|part| part.interval.is_none()),
        "{branching:?}"
    );
    assert!(branching.parts.iter().take(3).any(|part| part.name == "pipe_poll"), "{branching:?}");
    assert!(poll.inclusive_share.unwrap() > poll.share, "{poll:?}");
    // The kernel polls each pipe once: 100 more calls of the function, each with the same cost.
    assert_eq!(poll.instructions[2] - poll.instructions[1], 100 * poll.per_object_instructions.round() as u64);

    assert_eq!(room.record("r").explanations, found, "the record contains what was printed");
    assert!(std::fs::read_to_string(room.file("page.html")).unwrap().contains("pipe_poll"));
    assert_eq!(room.landau(&["verify", "r"]).status, Some(0));
    assert_eq!(room.leftovers(), Vec::<String>::new());
}

/// Samples of the running kernel. A user with permission gets functions whose shares add up; a user without it gets the
/// reason.
#[test]
fn the_growth_of_poll_on_the_running_kernel_is_in_its_functions() {
    let room = Room::new();
    let settings = ["--set", "event_wait.backend=poll", "--set", "event_wait.n=1000"];
    let words = ["explain", "event_wait", "--for", "5s", "--json", "--record", "r", "-o", "page.html"];
    let ran = room.landau(&[&words[..], &settings].concat());
    if ran.status == Some(2) {
        let refusals = ["perf_event_paranoid", "kptr_restrict"];
        assert!(refusals.iter().any(|one| ran.err.contains(one)), "{ran:?}");
        assert_eq!(std::fs::read_dir(room.path()).unwrap().count(), 0, "something was left behind");
        eprintln!("skipped: this user may not sample the kernel");
        return;
    }
    let found: Vec<Profile> = serde_json::from_str(&ran.out).unwrap();
    let wait = found.iter().find(|one| one.phase == "wait").unwrap();
    assert_eq!(wait.ranges, [[32, 250], [750, 1_000]]);
    assert!(wait.is_judged() && wait.measured_growth_ns.value > 5_000.0, "{:?}", wait.measured_growth_ns);
    // If both processors are busy, either kind of pass may be slower; the functions are the same.
    let part = wait.sampled_growth_ns.value / wait.measured_growth_ns.value;
    assert!((0.4..2.5).contains(&part), "{part}: {ran:?}");
    let shares: f64 = wait.functions.iter().map(|function| function.share.value).sum();
    assert!((shares - 1.0).abs() < 1e-6, "the shares add up to {shares}");
    let poll = wait.functions.iter().position(|function| function.name.starts_with("pipe_poll"));
    assert!(poll.is_some_and(|place| place < 5), "{:?}", wait.functions);
    let record = room.record("r");
    assert_eq!(record.profiles, found, "the record contains what was printed");
    // The elapsed time determines the number of rounds. The record contains that number and is complete.
    assert_eq!(record.passes.len(), record.cases.len() * record.header.pass_count as usize);
    assert!(record.header.pass_count >= 5 && record.end.is_some_and(|end| end.outcome == EndOutcome::Complete));
    let page = std::fs::read_to_string(room.file("page.html")).unwrap();
    assert!(page.contains("Functions of wait, by samples") && page.contains("Call chains by time"));
    // Checks each function with its callees, and the growth at the function where it branches.
    let branching = wait.branching.as_ref().unwrap();
    let parts: f64 = branching.parts.iter().map(|part| part.share).sum();
    assert!((0.8..1.2).contains(&parts), "{branching:?}");
    assert!(branching.parts.iter().take(4).any(|part| part.name.starts_with("pipe_poll")), "{branching:?}");
    let lead = format!("The growth passes through {}: ", branching.function);
    let shown = room.landau(&["show", "r"]);
    assert!(page.contains(&lead) && shown.out.replace("\n    ", " ").contains(&lead), "{lead}: {shown:?}");
    assert_eq!(room.landau(&["verify", "r"]).status, Some(0));
    assert_eq!(room.leftovers(), Vec::<String>::new());
}

#[test]
fn what_the_running_kernel_cannot_be_asked_is_an_error_before_any_pass() {
    let room = Room::new();
    std::fs::create_dir(room.file("p")).unwrap();
    for (arguments, expected) in [
        (["explain", "syscall", "--at", "1,2,3"].as_slice(), "pass two values"),
        (&["explain", "fork"], "cannot explain fork (return, run, byte, kill, reap): the worker does not time"),
        (&["explain", "thread", "--phase", "run"], "cannot explain thread (run): the worker does not time"),
        (
            &["explain", "thread", "--phase", "run"],
            "so no sample or instruction can be assigned to one; explain join instead",
        ),
        (&["explain", "syscall", "--at", "9,3"], "pass two values"),
        (
            &["explain", "syscall", "--record", "p/../r.html", "-o", "./r.html"],
            "-o and --record name the same file: ./r.html",
        ),
        (
            &["explain", "syscall", "--record", "r", "-o", "p"],
            "write p: it is a directory; specify a file, such as p/report.html",
        ),
        (&["explain", "syscall", "--append", "quiet"], "--kernel"),
        (&["explain", "syscall", "--memory", "2GiB"], "--kernel"),
        (&["explain", "syscall", "-k", "vmlinuz", "--for", "3s"], "cannot be used with"),
    ] {
        let ran = room.landau(arguments);
        assert!(ran.status == Some(2) && ran.err.contains(expected), "{arguments:?}: {ran:?}");
    }
    assert_eq!(std::fs::read_dir(room.path()).unwrap().count(), 1, "something was left behind");
}

/// Sampling the kernel needs permission. A user without it gets an error before any pass.
#[test]
fn a_user_without_rights_is_told_what_is_missing() {
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    if paranoid.trim().parse::<i32>().is_ok_and(|level| level < 2) {
        eprintln!("skipped: every user may sample the kernel here");
        return;
    }
    let room = Room::new();
    room.open(0o777);
    let Some(mut nobody) = room.as_nobody(&["explain", "syscall"]) else { return };
    let ran = Ran::of(nobody.output().unwrap());
    assert!(ran.status == Some(2) && ran.out.is_empty(), "{ran:?}");
    assert!(ran.err.contains("the kernel refuses to sample its functions"), "{ran:?}");
    // The room contains the program and possibly the directory of its state.
    let names = std::fs::read_dir(room.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = names.filter(|name| name != "landau" && name != "state").collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

#[test]
fn a_size_beyond_the_largest_n_is_refused_before_any_pass() {
    let room = Room::new();
    let ran = room.landau(&["explain", "syscall", "--set", "syscall.n=4000", "--at", "500,9000", "--record", "r"]);
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(ran.err.contains("--at 9000: the largest n of syscall is 4000 with these settings"), "{ran:?}");
    // Otherwise the same calls would represent both values.
    let ran = room.landau(&["explain", "syscall", "--set", "syscall.n=5000", "--at", "400,500", "--record", "r"]);
    assert_eq!(ran.status, Some(2), "{ran:?}");
    let why =
        "--at 400,500: each value covers the calls within 625 (an eighth of 5,000) of it; choose two at least 1,251";
    assert!(ran.err.contains(why), "{ran:?}");
    assert!(!room.file("r").exists() && room.leftovers().is_empty(), "something was left behind");
}

/// `fork` is timed by its child, so the plugin sees neither the start nor the end of a call.
#[test]
fn a_benchmark_timed_elsewhere_cannot_be_explained_and_leaves_no_record() {
    let room = Room::new();
    // If anything were prepared first, the missing kernel would be reported instead.
    for kernel in [["--kernel", "nothing"].as_slice(), &[]] {
        let ran = room.landau(&[&["explain", "fork", "--record", "r"], kernel].concat());
        assert_eq!(ran.status, Some(2), "{ran:?}");
        assert!(ran.err.contains("the worker does not time these calls itself"), "{ran:?}");
    }
    assert_eq!(std::fs::read_dir(room.path()).unwrap().count(), 0, "something was left behind");
}

#[test]
fn a_wrong_argument_is_an_error_before_any_boot() {
    let room = Room::new();
    std::fs::write(room.file("no-kernel"), "x").unwrap();
    for (arguments, expected) in [
        (["explain", "syscal", "-k", "no-kernel"].as_slice(), "did you mean `syscall`?"),
        (&["explain", "syscall", "-k", "no-kernel", "--phase", "x"], "has no phase `x`; it has getppid"),
        (&["explain", "syscall", "-k", "no-kernel", "-o", "no/page.html"], "directory no does not exist"),
        (&["explain", "syscall", "-k", "no-kernel"], "a text file"),
        (&["explain", "syscall", "-k", "nothing"], "there is no kernel `nothing`"),
    ] {
        let ran = room.landau(arguments);
        assert!(ran.status == Some(2) && ran.err.contains(expected), "{arguments:?}: {ran:?}");
    }
    assert_eq!(std::fs::read_dir(room.path()).unwrap().count(), 1, "something was left behind");
}

#[test]
fn sigint_ends_it_and_leaves_nothing() {
    let Some(kernel) = kernel() else { return };
    let (room, kernel) = (Room::new(), kernel.display().to_string());
    let mut command = room.command(&["explain", "event_wait", "--kernel", &kernel, "--record", "r"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    assert!(eventually(|| emulators(&room).len() == 1), "no guest was started");
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let ran = Ran::of(child.wait_with_output().unwrap());
    assert_eq!((ran.status, ran.err.as_str()), (Some(1), "interrupted; nothing was explained\n"), "{ran:?}");
    assert_eq!(std::fs::read_dir(room.path()).unwrap().count(), 0, "something was left behind");
    assert_eq!(emulators(&room), Vec::<i32>::new());
}

/// Returns whether a record was begun. A complete record is renamed to `r`.
fn is_begun(room: &Room) -> bool {
    let mut entries = std::fs::read_dir(room.path()).unwrap().flatten();
    entries.any(|entry| entry.file_name().to_string_lossy().starts_with("r."))
}

/// Guards against an empty record left by a killed run: the next run could not create its record.
#[test]
fn sigkill_leaves_no_record_under_its_name() {
    let room = Room::new();
    let mut command = room.command(&["explain", "syscall", "--set", "syscall.n=64", "--for", "60s", "--record", "r"]);
    let mut child = Process::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped())).unwrap();
    assert!(eventually(|| is_begun(&room) || child.try_wait().unwrap().is_some()), "no record was begun");
    let sent = Command::new("kill").args(["-KILL", &child.id().to_string()]).status().unwrap();
    let ran = Ran::of(child.wait_with_output().unwrap());
    if ["perf_event_paranoid", "kptr_restrict"].iter().any(|one| ran.err.contains(one)) {
        eprintln!("skipped: this user may not sample the kernel");
        return;
    }
    assert!(sent.success() && ran.status.is_none() && !room.file("r").exists(), "{ran:?}");
}

/// Guards against an answer that is lost because its page cannot be written: the directory of the page is removed
/// during the measurement.
#[test]
fn an_answer_is_printed_though_its_page_cannot_be_written() {
    let room = Room::new();
    std::fs::create_dir(room.file("pages")).unwrap();
    let words =
        ["explain", "syscall", "--set", "syscall.n=64", "--for", "5s", "--json", "--record", "r", "-o", "pages/p.html"];
    let mut command = room.command(&words);
    let mut child = Process::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped())).unwrap();
    // The record is created after all checks.
    assert!(eventually(|| is_begun(&room) || child.try_wait().unwrap().is_some()));
    std::fs::remove_dir(room.file("pages")).unwrap();
    let ran = Ran::of(child.wait_with_output().unwrap());
    if ["perf_event_paranoid", "kptr_restrict"].iter().any(|one| ran.err.contains(one)) {
        eprintln!("skipped: this user may not sample the kernel");
        return;
    }
    assert!(ran.status == Some(2) && ran.err.contains("directory pages does not exist"), "{ran:?}");
    assert!(ran.err.contains("record: r\n"), "{ran:?}");
    let found: Vec<Profile> = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(room.record("r").profiles, found);
}
