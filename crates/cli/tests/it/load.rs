//! `landau load` as a user types it: what is refused, and in which words.

use crate::serve::Serving;
use crate::support::{LANDAU, Ran, Room};
use std::process::Command;

/// Nobody listens there: what is not refused fails within moments.
const NOWHERE: &[&str] = &["load", "http://127.0.0.1:9/", "--timeout", "100ms", "--quiet"];

/// The status is 2, and the message names what is wrong and what to do.
fn refused(room: &Room, words: &[&str], answer: &str) {
    let ran = room.landau(&[NOWHERE, words].concat());
    assert!(ran.status == Some(2) && ran.err.contains(answer), "{words:?}: {ran:?}");
}

/// An option that belongs to another kind of load was without effect and without a word.
#[test]
fn an_option_without_effect_is_refused() {
    let room = Room::new();
    let cases: &[(&[&str], &str)] = &[
        (&["-o", "r"], "--output belongs to a crowd: add --crowd N"),
        (&["-n", "1", "-o", "r"], "--output belongs to a crowd: add --crowd N"),
        (&["-n", "1", "--steps", "1,2"], "--steps belongs to a crowd"),
        (&["-n", "1", "--samples", "5"], "--samples belongs to a crowd"),
        (&["-n", "1", "--passes", "2"], "--passes belongs to a crowd"),
        (&["-n", "1", "--settle", "1s"], "--settle belongs to a crowd"),
        (&["-n", "1", "--arrivals", "uniform"], "--arrivals belongs to an open loop: add --rate R"),
        (&["--crowd", "1", "--arrivals", "uniform"], "--arrivals belongs to an open loop"),
        (&["--crowd", "1", "-c", "5"], "cannot be used with"),
        (&["--crowd", "1", "--pipeline", "5"], "cannot be used with"),
        (&["--crowd", "1", "--samples", "0"], "--samples"),
        (&["-n", "1", "--source", "::1"], "--source ::1: no server of this load has an address of IPv6"),
    ];
    for (words, answer) in cases {
        refused(&room, words, answer);
    }
    assert!(!room.file("r").exists());
    let ran = room.landau(&["load", "unix:/nowhere:/", "-n", "1", "--source", "127.0.0.1"]);
    assert!(ran.status == Some(2) && ran.err.contains("--source 127.0.0.1: no server"), "{ran:?}");
}

/// A hundred workers of one connection each were wanted, for whom there were no descriptors.
#[test]
fn few_descriptors_are_enough_for_some_workers_or_are_told() {
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
        let told = format!("RLIMIT_NOFILE is {limit}, which is too low for that; raise it with ulimit -n");
        assert!(ran.status == Some(2) && ran.err.contains(&told), "{ran:?}");
    }
    serving.end();
}
