//! The servers that benchmarks can start by name.

use crate::support::Room;
use landau_engine::Kind;
use landau_record::schema::Outcome;

/// Covers the whole registry, and so every new server in the directory.
#[test]
fn every_installed_server_starts_answers_and_is_killed() {
    let request = landau_bench::REGISTRY.iter().find(|entry| entry.name == "request").unwrap();
    let parameter = request.parameters.iter().find(|parameter| parameter.name == "server").unwrap();
    let Kind::Choice(names) = parameter.kind else { panic!("{parameter:?} is not a choice") };
    for name in names {
        let room = Room::new();
        let server = format!("request.server={name}");
        let settings = ["--set", &server, "--set", "request.backend=epoll", "--set", "request.n=8"];
        let words = ["run", "request", "--study", "smoke", "--output", "run.ndjson", "--no-report"];
        let ran = room.landau(&[&words, &settings[..]].concat());
        // A run with nothing to measure leaves no record.
        if ran.status == Some(2) && ran.err.contains("is not installed") {
            eprintln!("skipped: {name}: {}", ran.err);
            continue;
        }
        assert_eq!(ran.status, Some(0), "{name}: {ran:?}");
        let record = room.record("run.ndjson");
        let end = record.passes[0].end.as_ref().unwrap();
        assert_eq!((end.outcome, end.steps), (Outcome::Done, 8), "{name}: {end:?}");
        assert_eq!(end.facts.get("server").map(ToString::to_string).as_deref(), Some(*name));
        assert!(end.facts.get("server_version").is_some(), "{name}: {:?}", end.facts);
        assert_eq!(room.leftovers(), Vec::<String>::new(), "{name}");
    }
}
