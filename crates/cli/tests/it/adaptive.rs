//! Adaptive passes: those after the planned ones, and those added to a complete record.

use crate::support::Room;
use landau_record::Record;
use landau_record::schema::{Adaptive, EndOutcome};

/// Enough calls for a verdict, so that only the number of passes keeps it unresolved.
const MEASURED: [&str; 4] = ["nop", "--set", "nop.n=2000", "--seed"];

fn rounds(record: &Record) -> Vec<(u32, bool)> {
    record.passes.iter().map(|pass| (pass.start.round, pass.start.is_adaptive())).collect()
}

#[test]
fn a_number_of_passes_is_exact() {
    let room = Room::new();
    let words = [&["run"], &MEASURED[..], &["1", "--passes", "1", "--output", "r", "--no-report"]].concat();
    let ran = room.landau(&words);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let record = room.record("r");
    assert_eq!((rounds(&record), record.header.adaptive), (vec![(0, false)], Adaptive::Off));
    assert!(record.notes.is_empty(), "{:?}", record.notes);
}

/// A single pass has no error estimate, so its verdict is never resolved, and further passes follow.
#[test]
fn until_resolved_adds_passes_and_says_for_what() {
    let room = Room::new();
    let extra = ["1", "--passes", "1", "--until-resolved", "--time-limit", "20s", "--output", "r", "--no-report"];
    let ran = room.landau(&[&["run"], &MEASURED[..], &extra].concat());
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let record = room.record("r");
    let made = rounds(&record);
    assert_eq!(made[..2], [(0, false), (1, true)], "{made:?}");
    assert!(made.iter().enumerate().all(|(index, (round, _))| *round == index as u32), "{made:?}");
    assert_eq!(record.passes[1].start.adaptive_for, ["nop"]);
    assert_eq!(record.header.adaptive, Adaptive::UntilResolved);
    assert_eq!(record.end.as_ref().unwrap().outcome, EndOutcome::Complete);
    let count = made.len() - 1;
    let note = format!("{count} adaptive {}; ", if count == 1 { "pass" } else { "passes" });
    assert!(record.notes.iter().any(|one| one.starts_with(&note)), "{:?}", record.notes);
    assert_eq!(room.landau(&["verify", "r"]).status, Some(0));
}

#[test]
fn a_complete_record_takes_more_passes_when_asked() {
    let room = Room::new();
    let words = [&["run"], &MEASURED[..], &["1", "--passes", "1", "--output", "r", "--no-report"]].concat();
    assert_eq!(room.landau(&words).status, Some(0));
    let resume = |words: &[&str]| room.landau(&[&["run", "--resume", "r", "--no-report"], words].concat());

    let ran = resume(&[]);
    assert!(ran.status == Some(2) && ran.err.contains("--until-resolved or --passes N, for N above 1"), "{ran:?}");
    assert_eq!(resume(&["--passes", "1"]).status, Some(2), "it has one pass already");

    let ran = resume(&["--passes", "3"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let record = room.record("r");
    assert_eq!(rounds(&record), [(0, false), (1, false), (2, false)]);
    assert_eq!((record.pass_count(), record.header.pass_count, record.adaptive()), (3, 1, Adaptive::Off));
    assert_eq!(record.results.len(), 1, "results of the first part do not describe the whole");
    let ran = resume(&["--passes", "2"]);
    assert!(ran.status == Some(2) && ran.err.contains("has 3 planned passes"), "{ran:?}");

    let ran = resume(&["--until-resolved", "--time-limit", "20s"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let record = room.record("r");
    assert_eq!((record.pass_count(), record.adaptive()), (3, Adaptive::UntilResolved));
    assert_eq!(record.end.as_ref().unwrap().outcome, EndOutcome::Complete);
    assert_eq!(room.landau(&["verify", "r"]).status, Some(0));
}
