//! `landau pids`: the closed forms and laws of the models, and sizes for which an allocator has too few numbers.
//!
//! Visits are determined by the seed, so the verdicts on them are the same everywhere. The verdicts on times are not
//! checked.

use crate::support::Room;
use serde_json::Value;

#[test]
fn visits_are_within_five_per_cent_of_the_closed_forms_and_their_laws_are_named() {
    let ran = Room::new().landau(&["pids", "--allocators", "freebsd-scan,hash-probe,netbsd-table", "--json"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let all: Value = serde_json::from_str(&ran.out).unwrap();
    let rows = all["allocators"].as_array().unwrap();
    let row = |name: &str| rows.iter().find(|row| row["allocator"] == name).unwrap();
    for (name, least, most, law) in
        [("freebsd-scan", 500, 10_000, "O(n²)"), ("hash-probe", 500, 90_000, "O(1/(1 − n/C))")]
    {
        let points = row(name)["points"].as_array().unwrap();
        assert_eq!((&points[0]["n"], &points.last().unwrap()["n"]), (&Value::from(least), &Value::from(most)));
        for point in points {
            let ratio = point["visits"]["value"].as_f64().unwrap() / point["closed_form"].as_f64().unwrap();
            assert!((0.95..1.05).contains(&ratio), "{name}: {point}");
        }
        assert_eq!(row(name)["visits"]["law"], law, "{name}");
    }
    assert_eq!(row("netbsd-table")["visits"]["outcome"], "flat");
}

#[test]
fn sleepers_without_a_number_are_an_error_with_what_to_do() {
    let room = Room::new();
    let ran = room.landau(&["pids", "--n", "100,995", "--pid-max", "1000"]);
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(ran.err.contains("--n 995: ") && ran.err.contains("raise --pid-max"), "{}", ran.err);
    let unknown = room.landau(&["pids", "--allocators", "minix"]);
    assert_eq!(unknown.status, Some(2));
    assert!(unknown.err.contains("freebsd-scan"), "the names are listed: {}", unknown.err);
}
