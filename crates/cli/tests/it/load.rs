//! `landau load` as a user types it: what is refused, and in which words.

use crate::support::Room;

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
        (&["-o", "r"], "--out belongs to a crowd: add --crowd N"),
        (&["-n", "1", "-o", "r"], "--out belongs to a crowd: add --crowd N"),
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
