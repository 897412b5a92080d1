//! Every benchmark runs at smoke size; its record, limits and orders are as documented.

use crate::support::{LANDAU, Ran, Room, eventually};
use landau_record::schema::{Direction, Fact, Outcome};

/// Covers the whole registry: each case ends without failure, and each phase has one sample for each step.
#[test]
fn every_benchmark_passes_its_check() {
    let room = Room::new();
    let (ran, record) = room.smoke(&[]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let named: std::collections::BTreeSet<&str> = record.cases.iter().map(|case| case.benchmark.as_str()).collect();
    for entry in landau_bench::REGISTRY {
        let skipped = !cfg!(target_os = "linux") && record.skips.iter().any(|skip| skip.label.starts_with(entry.name));
        assert!(named.contains(entry.name) || skipped, "{} was not measured", entry.name);
    }
    for pass in &record.passes {
        let case = record.case(pass.start.case).unwrap();
        let end = pass.end.as_ref().unwrap();
        assert!(matches!(end.outcome, Outcome::Done | Outcome::Limit), "{}: {end:?}", case.label);
        for phase in &case.phases {
            let lane = &pass.series[&phase.name];
            let (first, last) = (lane.n[0], *lane.n.last().unwrap());
            let steps = end.steps as u32;
            match phase.direction {
                Direction::Up => assert!(first == 1 && last >= steps, "{} {}", case.label, phase.name),
                Direction::Down => assert_eq!((first, last), (steps, 1), "{} {}", case.label, phase.name),
            }
        }
        let stepped: u32 = pass.windows.iter().filter(|one| one.direction == Direction::Up).map(|one| one.count).sum();
        assert_eq!(u64::from(stepped), end.steps, "{}: windows cover every step", case.label);
    }
    assert_eq!(room.leftovers(), Vec::<String>::new());
    assert_eq!(room.landau(&["verify", "run.ndjson"]).status, Some(0));
}

#[test]
fn an_exhausted_port_range_is_a_limit_at_its_size() {
    let room = Room::new();
    // Runs in a network namespace if root can create one: otherwise other processes may hold some of the ports.
    let script = format!(
        "{LANDAU} run bind --study smoke --set bind.range=40000-40199 --set bind.n=300 --output r --no-report --quiet"
    );
    let is_alone = landau_sys::process::effective_user() == 0;
    let words = if is_alone { vec!["unshare", "-n", "sh", "-c", &script] } else { vec!["sh", "-c", &script] };
    let output = room.other(words[0], &words[1..]).output().unwrap();
    assert!(output.status.success(), "a limit is a result: {output:?}");
    let record = room.record("r");
    if record.cases.is_empty() {
        // Before Linux 6.3 there is no per-socket port range, and the record says so.
        assert!(record.skips.iter().all(|skip| skip.reason.contains("Linux 6.3")));
        eprintln!("skipped: {}", record.skips[0].reason);
        return;
    }
    for pass in &record.passes {
        let limit = pass.end.as_ref().unwrap().limit.as_ref().unwrap();
        assert_eq!((limit.call.as_str(), limit.error.as_str()), ("bind", "EADDRINUSE"));
        assert!(limit.n == 201 || (!is_alone && limit.n < 201), "{limit:?}");
        assert!(limit.meaning.contains("no unused port from 40000 to 40199"), "{limit:?}");
    }
}

/// Naming the limit must not need a mapping itself.
#[test]
fn the_limit_on_mappings_is_named() {
    let room = Room::new();
    let words = ["mmap", "--set", "mmap.until=limit", "--set", "mmap.n=auto", "--set", "mmap.order=sequential"];
    let (ran, record) = room.smoke(&[&words[..], &["--set", "mmap.populate=off"]].concat());
    assert_eq!(ran.status, Some(0), "{ran:?}");
    if let Some(pass) = record.passes.first() {
        let limit = pass.end.as_ref().unwrap().limit.as_ref().unwrap();
        assert!(limit.error == "ENOMEM" && limit.meaning.contains("vm.max_map_count is"), "{limit:?}");
    }
}

/// `n=auto` stops at `FD_SETSIZE`; a larger n skips the case, names the size that fits, and runs the other cases.
#[test]
fn select_beyond_fd_setsize_is_skipped() {
    let room = Room::new();
    let (ran, record) = room.smoke(&["event_wait", "--set", "event_wait.backend=select", "--set", "event_wait.n=auto"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let most = record.cases[0].n;
    assert!(most <= landau_sys::wait::SELECT_CAPACITY as u64 / 2, "each pipe takes two descriptors: {most}");
    let end = record.passes[0].end.as_ref().unwrap();
    assert_eq!((end.outcome, end.steps), (Outcome::Done, most), "{end:?}");

    let room = Room::new();
    let n = format!("event_wait.n={}", most + 1);
    let (_, record) = room.smoke(&["event_wait", "--set", &n, "--set", "event_wait.object=pipe"]);
    assert!(
        record.cases.iter().any(|case| case.label.ends_with("event_wait") && case.n == most + 1),
        "{:?}",
        record.cases
    );
    let skip = record.skips.iter().find(|skip| skip.label.contains("select")).unwrap();
    assert!(skip.reason.contains(&format!("at most {most}")), "{skip:?}");
}

#[test]
fn equal_seeds_give_equal_orders_of_passes() {
    let order = || {
        let room = Room::new();
        let words = ["nop", "syscall", "dup", "open", "pipe", "--passes", "4", "--set", "pipe.n=20"];
        let (_, record) = room.smoke(&words);
        record.passes.iter().map(|pass| pass.start.case).collect::<Vec<_>>()
    };
    let first = order();
    assert_eq!(first, order());
    let rounds: std::collections::BTreeSet<&[u32]> = first.chunks(5).collect();
    assert!(rounds.len() > 1, "every round has the same order: {first:?}");
}

/// An n that would endanger the host is reduced, and the record says why.
#[test]
fn too_many_processes_are_reduced_with_a_reason() {
    let room = Room::new();
    let words = ["fork", "--set", "fork.n=9000000", "--set", "fork.linkage=dynamic", "--time-limit", "1s"];
    let (_, record) = room.smoke(&words);
    let reduced = record.cases[0].reduced.as_ref().unwrap();
    assert_eq!(reduced.requested, 9_000_000);
    assert!(record.cases[0].n < 4_000_000 && reduced.reason.contains("kept free"), "{reduced:?}");
}

#[test]
fn list_names_every_benchmark() {
    let room = Room::new();
    let ran = room.landau(&["list", "--json"]);
    let rows: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let names: Vec<&str> = rows.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, landau_bench::REGISTRY.iter().map(|entry| entry.name).collect::<Vec<_>>());
    for name in names {
        assert!(room.landau(&["list"]).out.contains(name));
    }
}

#[test]
fn docs_reference_is_up_to_date() {
    let room = Room::new();
    let written = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference.md")).unwrap();
    let ran = room.landau(&["generate", "reference"]);
    assert!(written == ran.out, "out of date; run: landau generate reference > docs/reference.md");
}

#[test]
fn manual_and_completions_name_every_command() {
    let room = Room::new();
    for words in [&["generate", "man"][..], &["generate", "completions", "bash"], &["generate", "reference"]] {
        let ran = room.landau(words);
        assert_eq!(ran.status, Some(0));
        for command in ["run", "list", "show", "report", "verify", "generate"] {
            assert!(ran.out.contains(command), "{words:?} lacks {command}");
        }
    }
}

/// Returns a fact of a pass as a number.
fn fact(record: &landau_record::Record, pass: usize, name: &str) -> Option<f64> {
    match record.passes[pass].end.as_ref()?.facts.get(name)? {
        landau_record::schema::Fact::Number { value, .. } => Some(*value),
        landau_record::schema::Fact::Text(_) => None,
    }
}

/// With two processors the controller shares the server's processor, where each of its wakeups could delay a response.
/// It may check for a hanging worker every 10 s.
#[test]
fn the_controller_sleeps_while_a_server_is_measured() {
    let room = Room::new();
    let settings = ["--set", "connect.n=1500", "--set", "connect.connections=silent", "--set", "connect.backend=epoll"];
    let (ran, record) = room.smoke(&[&["connect"], &settings[..]].concat());
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let end = record.passes[0].end.as_ref().unwrap();
    assert_eq!((end.outcome, end.steps), (Outcome::Done, 1_500), "{end:?}");
    if let Some(switches) = fact(&record, 0, "controller_context_switches") {
        // The controller may begin to wait only after the worker has counted, and may be preempted during a check. A
        // controller that checks every tenth of a second would have more switches.
        let most = (1 + 2 * (end.elapsed_ms / 10_000)) as f64;
        assert!(switches <= most, "{switches} in {} ms", end.elapsed_ms);
    }
}

/// An ignored SIGCHLD survives `execve`. The children of a run would then leave neither an exit status nor their
/// processor time.
#[test]
#[cfg(target_os = "linux")]
fn children_are_waited_for_whoever_starts_the_program() {
    let time = |words: &[&str]| {
        let room = Room::new();
        let settings = ["--set", "architecture.architecture=fork", "--set", "architecture.workload=busy"];
        let fixed = [LANDAU, "run", "mmap", "architecture", "--study", "smoke", "--seed", "1", "--output", "r"];
        let words = [words, &fixed, &["--no-report"], &settings].concat();
        let ran = Ran::of(room.other(words[0], &words[1..]).output().unwrap());
        assert_eq!(ran.status, Some(0), "{ran:?}");
        let record = room.record("r");
        let is_of_server = |name: &&str| name.starts_with("server_processor_time_per_reply_at_");
        let of_pass = |pass: usize| {
            let facts = &record.passes[pass].end.as_ref().unwrap().facts;
            let names = facts.iter().map(|(name, _)| name);
            names.filter(is_of_server).filter_map(|name| fact(&record, pass, name)).fold(0.0, f64::max)
        };
        (0..record.passes.len()).map(of_pass).fold(0.0, f64::max)
    };
    let (usual, ignored) = (time(&["env"]), time(&["env", "--ignore-signal=CHLD"]));
    // Without its children, a forking server accounts for only a small part of the time.
    assert!(usual > 0.0 && ignored > usual / 4.0, "{usual} and {ignored} ns");
}

/// The page tables that supply the kernel's memory need more addresses than this limit allows.
#[test]
#[cfg(target_os = "linux")]
fn a_limit_of_addresses_leaves_the_kernels_memory_to_pages() {
    let room = Room::new();
    let script = "ulimit -v 4194304; exec \"$@\"";
    let run = ["run", "fork", "--set", "fork.n=300", "--study", "smoke", "--output", "r", "--no-report"];
    let ran = Ran::of(room.other("sh", &[&["-c", script, "sh", LANDAU][..], &run].concat()).output().unwrap());
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let record = room.record("r");
    let facts = &record.passes[0].end.as_ref().unwrap().facts;
    let Some(Fact::Text(told)) = facts.get("memory") else { panic!("{facts:?}") };
    assert!(told.starts_with("the kernel's own was supplied as pages: mmap"), "{told}");
}

/// `vm.memfd_noexec` = 1 forbids the execution of a memfd that was not created for that. Each pid namespace has a
/// separate setting.
#[test]
#[cfg(target_os = "linux")]
fn a_hardened_host_lets_the_fork_helper_be_executed() {
    if landau_sys::process::effective_user() != 0 || !std::path::Path::new("/proc/sys/vm/memfd_noexec").exists() {
        eprintln!("skipped: this needs root and vm.memfd_noexec (Linux 6.3)");
        return;
    }
    let room = Room::new();
    let script = format!(
        "echo 1 > /proc/sys/vm/memfd_noexec && exec {LANDAU} run fork --study smoke --output r --no-report --quiet"
    );
    let ran = Ran::of(room.other("unshare", &["--pid", "--fork", "sh", "-c", &script]).output().unwrap());
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(room.record("r").passes.iter().all(|pass| pass.end.as_ref().unwrap().outcome == Outcome::Done));
}

/// A user's restriction to some processors applies to all processes of the program.
#[test]
#[cfg(target_os = "linux")]
fn all_processors_are_those_that_the_user_allows() {
    let affinity = landau_sys::system::processors_of(std::process::id()).unwrap();
    let Some(last) = affinity.get(1..).and_then(<[u32]>::last).map(u32::to_string) else {
        eprintln!("skipped: this needs two processors");
        return;
    };
    let room = Room::new();
    let words = ["-c", &last, LANDAU, "run", "fork", "--set", "fork.processors=all", "--set", "fork.n=1000"];
    let more = ["--study", "smoke", "--output", "r", "--no-report", "--quiet"];
    let mut child = room.other("taskset", &[&words[..], &more].concat()).spawn().unwrap();
    let allowed = |pid: u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        list.map(|list| list.trim().to_owned())
    };
    // `taskset` itself starts on all processors.
    assert!(eventually(|| allowed(child.id()).as_ref() == Some(&last)));
    // All processes that it starts: the worker, the fork helper and its children.
    let mut seen = std::collections::BTreeSet::new();
    while child.try_wait().unwrap().is_none() {
        seen.extend(landau_sys::system::process_tree(child.id()).into_iter().filter_map(allowed));
    }
    assert!(child.wait().unwrap().success());
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [last]);
}

/// The controller avoids the worker's processor during a pass, but "all processors" includes it.
#[test]
#[cfg(target_os = "linux")]
fn all_processors_have_that_of_the_worker() {
    let all = landau_sys::system::processors_of(std::process::id()).unwrap();
    if all.len() < 2 {
        eprintln!("skipped: this needs two processors");
        return;
    }
    let room = Room::new();
    let settings = ["--set", "architecture.architecture=thread", "--set", "architecture.processors=all"];
    let (ran, record) = room.smoke(&[&["architecture"][..], &settings].concat());
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let facts = &record.passes[0].end.as_ref().unwrap().facts;
    let listed = all.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    assert_eq!(facts.get("server_processor"), Some(&Fact::Text(listed)), "{facts:?}");
    let words = ["run", "fork", "--set", "fork.processors=all", "--set", "fork.n=1000", "--study", "smoke"];
    let mut child = room.other(LANDAU, &[&words[..], &["--output", "r", "--no-report", "--quiet"]].concat());
    let mut child = child.spawn().unwrap();
    let mut seen = std::collections::BTreeSet::new();
    while child.try_wait().unwrap().is_none() {
        // Only the processes that the workers start: the workers themselves start with the processors of the
        // controller.
        for worker in landau_sys::system::children(child.id()) {
            let started = landau_sys::system::process_tree(worker).into_iter().filter(|pid| *pid != worker);
            seen.extend(started.filter_map(landau_sys::system::processors_of));
        }
    }
    assert!(child.wait().unwrap().success());
    assert!(seen.contains(&all), "{seen:?}");
}

#[test]
fn a_socket_takes_the_number_of_a_closed_one() {
    for hole in ["timed", "untimed"] {
        let room = Room::new();
        let (ran, record) = room.smoke(&["socket", "--set", &format!("socket.hole={hole}")]);
        assert_eq!(ran.status, Some(0), "{ran:?}");
        let end = record.passes[0].end.as_ref().unwrap();
        assert_eq!((end.outcome, end.steps), (Outcome::Done, record.cases[0].n), "{hole}: {end:?}");
    }
}

/// A download has a rate and no law of growth, and the second reader begins during it.
#[test]
fn a_download_is_a_timeline_and_is_not_judged() {
    let room = Room::new();
    let settings = ["--set", "download.readers=2", "--set", "download.extent=whole", "--set", "download.n=8"];
    let (ran, record) = room.smoke(&[&["download"], &settings[..]].concat());
    if let Some(skip) = record.skips.first() {
        eprintln!("skipped: {}", skip.reason);
        return;
    }
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let case = &record.cases[0];
    assert_eq!(case.timeline.map(|timeline| timeline.step_bytes), Some(1 << 20));
    let event = &case.annotations[0];
    assert_eq!((event.name.as_str(), event.n), ("second reader starts", 5.0));
    assert_eq!(record.results, [], "a timeline has no verdict");
    if record.passes[0].end.as_ref().is_some_and(|end| end.outcome == Outcome::Done) {
        assert_eq!(fact(&record, 0, "second_reader_starts_at"), Some(5.0));
        let shown = room.landau(&["show", "run.ndjson"]).out;
        assert!(shown.contains("MB/s") && shown.contains("from 5 on (second reader starts)"), "{shown}");
    }
    assert_eq!(room.landau(&["verify", "run.ndjson"]).status, Some(0));
}
