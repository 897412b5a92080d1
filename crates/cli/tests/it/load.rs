//! `landau load` as a user types it: refused options and their messages.

use crate::serve::Serving;
use crate::support::{LANDAU, Ran, Room};
use std::process::Command;

/// A URL where nothing listens: a load that is not refused fails soon.
const CLOSED: &[&str] = &["load", "http://127.0.0.1:9/", "--timeout", "100ms", "--quiet"];

/// Asserts that the options are refused with status 2 and a message that contains `expected`.
fn assert_refused(room: &Room, options: &[&str], expected: &str) {
    let ran = room.landau(&[CLOSED, options].concat());
    assert!(ran.status == Some(2) && ran.err.contains(expected), "{options:?}: {ran:?}");
}

/// Options of another kind of load were once ignored.
#[test]
fn options_without_effect_are_refused() {
    let room = Room::new();
    let cases: &[(&[&str], &str)] = &[
        (&["-o", "r"], "--output requires --idle N"),
        (&["-n", "1", "-o", "r"], "--output requires --idle N"),
        (&["-n", "1", "--steps", "1,2"], "--steps requires --idle N"),
        (&["-n", "1", "--samples", "5"], "--samples requires --idle N"),
        (&["-n", "1", "--passes", "2"], "--passes requires --idle N"),
        (&["-n", "1", "--settle", "1s"], "--settle requires --idle N"),
        (&["-n", "1", "--server-pid", "1"], "--server-pid requires --idle N"),
        (&["-n", "1", "--arrivals", "constant"], "--arrivals requires --rate R"),
        (&["-n", "1", "--ca", "/etc/passwd"], "--ca requires an https URL"),
        (&["--idle", "1", "--arrivals", "constant"], "--arrivals requires --rate R"),
        (&["--idle", "1", "-c", "5"], "cannot be used with"),
        (&["--idle", "1", "--pipeline", "5"], "cannot be used with"),
        (&["--idle", "1", "--samples", "0"], "--samples"),
        (&["--idle", "1", "--server-pid", "4194305"], "cannot read the memory of process 4194305"),
        (&["-n", "1", "--source", "::1"], "--source ::1: no server of this load has an IPv6 address"),
        (&["-n", "1", "--waive", "lags"], "--waive lags: unknown gate; the gates are alive, connect,"),
        (&["-d", "10"], "the unit is missing; write 10s"),
        (&["-d", "0"], "must be at least 1ns"),
        (&["--warm-up", "721h"], "must be at most 720h"),
    ];
    for (options, expected) in cases {
        assert_refused(&room, options, expected);
    }
    assert!(!room.file("r").exists());
    let ran = room.landau(&["load", "unix:/nowhere:/", "-n", "1", "--source", "127.0.0.1"]);
    assert!(ran.status == Some(2) && ran.err.contains("--source 127.0.0.1: no server"), "{ran:?}");
}

#[test]
fn load_without_a_server_fails_and_says_so() {
    let ran = Room::new().landau(&[CLOSED, &["-n", "1"]].concat());
    assert!(ran.status == Some(1) && ran.out.contains("no responses: no connection was established"), "{ran:?}");
    assert!(ran.out.contains("gate connect: failed: "), "{ran:?}");
    assert_eq!(ran.out.matches("connection refused: is the server running?").count(), 1, "{ran:?}");
}

/// With a limit of 64, a hundred connections once asked for a hundred workers.
#[test]
fn low_limit_on_open_files_is_enough_for_some_workers_or_an_error() {
    let room = crate::serve::room();
    let serving = Serving::new(&mut room.command(&["serve", "www", "--listen", "127.0.0.1:0"]));
    let load = |limit: u32, connections: u32| {
        let url = format!("http://{}/a", serving.address);
        let waived = "--waive lag --waive overflow --waive saturated";
        let script = format!("ulimit -n {limit}; {LANDAU} load {url} -c {connections} -n 500 --quiet {waived}");
        Ran::of(Command::new("sh").args(["-c", &script]).output().unwrap())
    };
    let ran = load(64, 100);
    assert!(ran.status == Some(0) && ran.out.contains("500 × 200"), "{ran:?}");
    for (limit, connections) in [(20, 1), (64, 100_000)] {
        let ran = load(limit, connections);
        let expected = format!("the limit on open files (RLIMIT_NOFILE, {limit}) is too low");
        assert!(ran.status == Some(2) && ran.err.contains(&expected), "{ran:?}");
        assert!(ran.err.contains("raise it with ulimit -n"), "{ran:?}");
    }
    serving.end();
}
