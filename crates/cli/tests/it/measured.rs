//! Every benchmark measures what it says, at smoke size.

use crate::support::{LANDAU, Room};
use landau_record::schema::{Direction, Outcome};
use std::process::Command;

/// The whole registry: every case that can run here ends well, its check holds, and each phase has one sample for
/// each step. A new benchmark is covered by being in the folder.
#[test]
fn every_benchmark_runs_and_its_check_holds() {
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
            let lane = &pass.lanes[&phase.name];
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

/// Past the whole of a port range the curve ends with a limit, exactly at the range's size.
#[test]
fn a_full_port_range_is_a_limit_at_its_size() {
    let room = Room::new();
    // In a network of its own, where root may make one: elsewhere somebody else may hold one of the ports.
    let script = format!(
        "{LANDAU} run bind --study smoke --set bind.range=40000-40199 --set bind.n=300 --output r --no-report --quiet"
    );
    let is_alone = landau_sys::process::effective_user() == 0;
    let words = if is_alone { vec!["unshare", "-n", "sh", "-c", &script] } else { vec!["sh", "-c", &script] };
    let output = Command::new(words[0]).args(&words[1..]).current_dir(room.path()).output().unwrap();
    assert!(output.status.success(), "a limit is a result: {output:?}");
    let record = room.record("r");
    if record.cases.is_empty() {
        // Before Linux 6.3 there is no range for single sockets, and the record says so.
        assert!(record.skips.iter().all(|skip| skip.reason.contains("Linux 6.3")));
        return;
    }
    for pass in &record.passes {
        let limit = pass.end.as_ref().unwrap().limit.as_ref().unwrap();
        assert_eq!((limit.call.as_str(), limit.error.as_str()), ("bind", "EADDRINUSE"));
        assert!(limit.n == 201 || (!is_alone && limit.n < 201), "{limit:?}");
        assert!(limit.meaning.contains("no unused port from 40000 to 40199"), "{limit:?}");
    }
}

/// Past the limit of mappings the curve ends with that limit's name: to find it out must not take a mapping itself.
#[test]
fn the_limit_of_mappings_is_named() {
    let room = Room::new();
    let words = ["mmap", "--set", "mmap.until=limit", "--set", "mmap.n=auto", "--set", "mmap.order=sequential"];
    let (ran, record) = room.smoke(&[&words[..], &["--set", "mmap.populate=off"]].concat());
    assert_eq!(ran.status, Some(0), "{ran:?}");
    if let Some(pass) = record.passes.first() {
        let limit = pass.end.as_ref().unwrap().limit.as_ref().unwrap();
        assert!(limit.error == "ENOMEM" && limit.meaning.contains("vm.max_map_count is"), "{limit:?}");
    }
}

/// A set of `select` ends at `FD_SETSIZE`: left to itself the curve goes as far as there is room, and its check sees
/// every descriptor told; asked for more, the case is left out with the size that fits, and the others go on.
#[test]
fn a_select_of_too_many_is_left_out_with_what_fits() {
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

/// The order of passes and every random order come from the seed.
#[test]
fn the_same_seed_gives_the_same_order() {
    let order = || {
        let room = Room::new();
        let words = ["nop", "syscall", "dup", "open", "pipe", "--passes", "4", "--set", "pipe.n=20"];
        let (_, record) = room.smoke(&words);
        record.passes.iter().map(|pass| pass.start.case).collect::<Vec<_>>()
    };
    let first = order();
    assert_eq!(first, order());
    let rounds: std::collections::BTreeSet<&[u32]> = first.chunks(5).collect();
    assert!(rounds.len() > 1, "each round has an order of its own: {first:?}");
}

/// A size that would endanger the host is brought down, and the record says by how much and why.
#[test]
fn too_many_processes_are_cut_with_a_reason() {
    let room = Room::new();
    let words = ["fork", "--set", "fork.n=9000000", "--set", "fork.linkage=dynamic", "--time-limit", "1s"];
    let (_, record) = room.smoke(&words);
    let reduced = record.cases[0].reduced.as_ref().unwrap();
    assert_eq!(reduced.requested, 9_000_000);
    assert!(record.cases[0].n < 4_000_000 && reduced.reason.contains("left alone"), "{reduced:?}");
}

/// What can be asked for is what the registry has.
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

/// The reference in the documents is what the program says of itself.
#[test]
fn the_reference_is_the_programs_own() {
    let room = Room::new();
    let written = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference.md")).unwrap();
    let ran = room.landau(&["generate", "reference"]);
    assert!(written == ran.out, "out of date; run: landau generate reference > docs/reference.md");
}

/// What restates the parser comes from the parser and names every command.
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
