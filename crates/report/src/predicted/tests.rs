//! Predictions from curves with known costs.

use super::*;
use crate::simulated::{SimulatedCase, record};
use landau_record::Record;
use landau_record::schema::Facts;
use landau_stats::{Curve as Calls, Options, Pass, judge};

/// A judged curve whose cost at n is `cost(n)`, in five passes.
fn judged(last: u32, cost: impl Fn(u32) -> f64) -> Judgement {
    let pass = |number: u32| {
        let n: Vec<u32> = (1..=last).collect();
        // The passes differ by up to 2%, the calls by up to 4%.
        let level = 1.0 + f64::from(number) * 0.005;
        let own = |n: &u32| (cost(*n) * level * (1.0 + f64::from((n * 7919) % 41) * 0.001)).round() as u64;
        let costs = n.iter().map(own).collect();
        Pass { n, costs, ..Pass::default() }
    };
    let curve = Calls { passes: (0..5).map(pass).collect(), ..Calls::default() };
    judge(&curve, None, &Options::default()).all
}

/// Guards against a sum that is read differently from how it is written.
#[test]
fn a_sum_has_factors_and_phases() {
    let terms = parse("accept + 2*read+open.close +0.5 * bind.range=40000-42001").unwrap();
    let all: Vec<(f64, &str)> = terms.iter().map(|term| (term.times, term.name.as_str())).collect();
    assert_eq!(all, [(1.0, "accept"), (2.0, "read"), (1.0, "open.close"), (0.5, "bind.range=40000-42001")]);
    for wrong in ["", " ", "accept++read", "0*read", "-1*read", "nan*read", "x*read", "2*", "3", "a b", "accept+"] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
    assert!(parse("accept+2**read").unwrap_err().contains("2**read"));
}

/// Guards against an interpolation that misses a law inside the measured range.
#[test]
fn a_cost_within_the_range_is_that_of_the_curve() {
    let linear = judged(4_000, |n| 1_000.0 + f64::from(n));
    for n in [200.0, 700.0, 3_000.0_f64] {
        let found = at(&linear, 4_000.0, n).unwrap();
        let truth = (1_000.0 + n) * 1.03;
        assert!((found.cost.value / truth - 1.0).abs() < 0.02, "{n}: {found:?}");
        assert!(found.law.is_none() && found.cost.low <= found.cost.value && found.cost.value <= found.cost.high);
    }
}

/// Guards against an interval of zero width from the one pass that went further than the others.
#[test]
fn points_of_one_pass_are_left_out() {
    let pass = |number: u32| {
        let n: Vec<u32> = (1..=if number == 0 { 4_000 } else { 1_000 }).collect();
        let costs = n.iter().map(|n| u64::from(1_000 + n + 40 * number)).collect();
        Pass { n, costs, ..Pass::default() }
    };
    let of = |count: u32, n: f64| {
        let curve = Calls { passes: (0..count).map(pass).collect(), ..Calls::default() };
        at(&judge(&curve, None, &Options::default()).all, reached(&curve, Unit::Time), n).unwrap()
    };
    let is_bare = |found: &At| {
        assert_eq!(found.is_of_one_pass, found.cost.low.to_bits() == found.cost.high.to_bits());
        found.is_of_one_pass
    };
    let (within, beyond) = (of(5, 900.0), of(5, 2_000.0));
    assert!(!is_bare(&within) && (within.measured_to, &within.law) == (1_000.0, &None), "{within:?}");
    assert!(!is_bare(&beyond) && beyond.law.is_some(), "{beyond:?}");
    // Without a second pass, there is a cost but no interval.
    let alone = of(1, 3_000.0);
    assert!(is_bare(&alone) && (alone.measured_to, &alone.law) == (4_000.0, &None), "{alone:?}");
}

/// Guards against an extrapolation that is not marked, or that does not follow its law.
#[test]
fn beyond_the_range_the_law_is_continued() {
    let linear = judged(4_000, |n| 1_000.0 + f64::from(n));
    let found = at(&linear, 4_000.0, 100_000.0).unwrap();
    assert!((found.cost.value / (101_000.0 * 1.03) - 1.0).abs() < 0.05, "{found:?}");
    assert_eq!(found.law.as_deref(), Some("linear"));
    let near = at(&linear, 4_000.0, 8_000.0).unwrap().cost;
    let width = |cost: Estimate| (cost.high - cost.low) / cost.value;
    // Each pass differs by a constant factor, so no n is known better than another.
    let far = at(&linear, 4_000.0, 10_000_000.0).unwrap().cost;
    let is_wider = |a: Estimate, b: Estimate| width(a) > width(b) * (1.0 - 1e-9);
    assert!(is_wider(found.cost, near) && is_wider(far, found.cost), "{near:?} {found:?} {far:?}");
    let mut nameless = linear;
    nameless.at_ten_times = None;
    let found = at(&nameless, 4_000.0, 8_000.0).unwrap();
    assert_eq!(found.law.as_deref(), Some(NO_LAW));
    let (constant, line) = (5_000.0 * 1.03, 9_000.0 * 1.03);
    assert!(found.cost.low <= constant && found.cost.high >= line, "{found:?}");
    assert!(at(&Judgement::empty(Unit::Time), 4_000.0, 10.0).is_err());
}

/// Guards against two passes for a term that one pass measured.
#[test]
fn a_sum_with_a_term_of_one_pass_says_so() {
    let part = |term: &str, is_of_one_pass: bool| Part {
        term: term.to_owned(),
        times: 1.0,
        record: 0,
        case: term.to_owned(),
        phase: "x".to_owned(),
        axis: "open files".to_owned(),
        cost: Estimate::bare(1_000.0),
        measured_to: 10.0,
        extrapolated: true,
        law: None,
        is_of_one_pass,
    };
    let rendered = |terms: Vec<Part>| {
        let predicted = Predicted {
            sum: "a+b".to_owned(),
            n: 20.0,
            unit: Unit::Time,
            cost: total(&terms),
            measured_to: 10.0,
            extrapolated: true,
            terms,
            servers: Vec::new(),
            notes: Vec::new(),
        };
        predicted.render(crate::table::Layout { width: 400, color: false })
    };
    let (mixed, one, two) = (
        rendered(vec![part("a", true), part("b", false)]),
        rendered(vec![part("a", true)]),
        rendered(vec![part("b", false)]),
    );
    let lacks = "One pass has no interval, so that of the sum lacks the error of a.";
    assert!(mixed.contains(lacks) && mixed.contains("measured up to 10. Beyond"), "{mixed}");
    assert!(one.contains("(one pass: no interval)") && one.contains("measured up to 10. Beyond"), "{one}");
    assert!(two.contains("measured up to 10 by at least two passes. Beyond") && !two.contains("One pass"), "{two}");
}

/// Guards against adding the errors of one case as if they were independent.
#[test]
fn half_widths_of_one_case_add_up() {
    let part = |case: &str, value: f64, half: f64| Part {
        term: case.to_owned(),
        times: 1.0,
        record: 0,
        case: case.to_owned(),
        phase: "x".to_owned(),
        axis: "open files".to_owned(),
        cost: Estimate { value, low: value - half, high: value + half },
        measured_to: 10.0,
        is_of_one_pass: false,
        extrapolated: false,
        law: None,
    };
    let same = total(&[part("tcp", 100.0, 3.0), part("tcp", 200.0, 4.0)]);
    assert_eq!((same.value, same.low, same.high), (300.0, 293.0, 307.0));
    let different = total(&[part("tcp", 100.0, 3.0), part("open", 200.0, 4.0)]);
    assert_eq!((different.value, different.low, different.high), (300.0, 295.0, 305.0));
}

/// A record of these cases, with calls of 1 µs and servers that used 100 µs per step.
fn served(cases: &[(&str, &[(&str, &str)])]) -> Record {
    let calls = || {
        let pass = || Pass { n: (1..=400).collect(), costs: vec![1_000; 400], ..Pass::default() };
        Calls { passes: (0..3).map(|_| pass()).collect(), ..Calls::default() }
    };
    let phases = |benchmark: &str| match benchmark {
        "tcp" => &["accept", "epoll_ctl", "epoll_wait", "recv", "send", "send_header", "sendfile"][..],
        "open" => &["open", "close"],
        _ => &["last_byte"],
    };
    let simulated = cases.iter().map(|(benchmark, settings)| SimulatedCase {
        benchmark: (*benchmark).to_owned(),
        settings: settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        phases: phases(benchmark).iter().map(|name| ((*name).to_owned(), calls())).collect(),
        ..SimulatedCase::default()
    });
    let mut record = record(&simulated.collect::<Vec<_>>());
    for end in record.passes.iter_mut().filter_map(|pass| pass.end.as_mut()) {
        let mut facts = Facts::new();
        facts.number("server_processor_time_per_step", 100_000.0, landau_record::schema::FactUnit::Ns);
        end.facts = facts;
    }
    record
}

/// The settings of a case of `connect` with this server, kind of connections and file.
fn connected<'a>(server: &'a str, connections: &'a str, file: &'a str) -> [(&'a str, &'a str); 6] {
    let own = [("server", server), ("connections", connections), ("file", file)];
    let [a, b, c] = own;
    [a, b, c, ("backend", "epoll"), ("url", "none"), ("command", "none")]
}

/// Guards against reporting that a server uses more than its calls because the sum has the wrong calls. With silent
/// connections, a step has a second connection and ends the first. A large file is not sent by the call of a small one.
#[test]
fn a_server_is_compared_with_the_calls_that_it_makes() {
    let small = [("response", "8KiB")];
    let (open, tcp) = (("open", &[][..]), ("tcp", &small[..]));
    let of = |cases: &[(&str, &[(&str, &str)])]| {
        let record = served(cases);
        let (servers, not_compared) = check::servers(&[Analysis::of(&record)]);
        let sums: Vec<String> = servers.iter().map(|one| one.sum.clone()).collect();
        (sums, not_compared)
    };
    let sends = "accept+epoll_ctl+epoll_wait+epoll_wait+recv+";
    for (server, calls, call) in
        [("landau", "send", "send"), ("nginx", "open+send_header+sendfile+open.close", "sendfile")]
    {
        let (sums, not_compared) = of(&[tcp, open, ("connect", &connected(server, "keep-alive", "8KiB"))]);
        assert_eq!((sums.as_slice(), not_compared.len()), (&[format!("{sends}{calls}")][..], 0), "{not_compared:?}");

        let (sums, not_compared) = of(&[tcp, open, ("connect", &connected(server, "silent", "8KiB"))]);
        assert!(sums.is_empty() && not_compared.len() == 1, "{sums:?}");
        assert!(not_compared[0].contains(&format!("connect server={server} connections=silent")), "{not_compared:?}");
        assert!(not_compared[0].contains("accepts a silent one in its place"), "{not_compared:?}");

        let large = connected(server, "keep-alive", "4MiB");
        let (sums, not_compared) = of(&[tcp, open, ("connect", &large)]);
        assert!(sums.is_empty() && not_compared.len() == 1, "{sums:?}");
        let why = format!("the file is 4MiB, and {call} was measured with 8KiB only");
        assert!(not_compared[0].contains("file=4MiB") && not_compared[0].contains(&why), "{not_compared:?}");

        // A case of `tcp` with a response of the same size has the curve.
        let larger = [("response", "32KiB")];
        let case = connected(server, "keep-alive", "32KiB");
        let (sums, _) = of(&[tcp, ("tcp", &larger), open, ("connect", &case)]);
        let calls = calls.replace(call, &format!("tcp.response=32KiB.{call}"));
        assert_eq!(sums, [format!("{sends}{calls}")]);
    }
}

/// Guards against leaving out servers silently: a reader would take the remaining ones for all.
#[test]
fn servers_that_are_not_compared_are_named_with_the_reason() {
    let small = [("response", "8KiB")];
    let of = |name: &'static str, value: &'static str| {
        connected("landau", "keep-alive", "8KiB").map(|own| if own.0 == name { (name, value) } else { own })
    };
    let (lighttpd, poll) = (of("server", "lighttpd"), of("backend", "poll"));
    let (own, other) = (of("url", "http://127.0.0.1/"), of("command", "httpd"));
    let cases: [(&str, &[(&str, &str)]); 6] = [
        ("tcp", &small),
        ("connect", &lighttpd),
        ("request", &lighttpd),
        ("request", &poll),
        ("connect", &own),
        ("connect", &other),
    ];
    let record = served(&cases);
    let analysis = Analysis::of(&record);
    let predicted = predict("accept", 100.0, std::slice::from_ref(&analysis)).unwrap();
    let ends = [
        " are not compared: only the calls of landau and nginx are known.",
        " is not compared: the calls of landau are known with backend=epoll only.",
        " are not compared: the calls of a server specified by url or command are not known.",
    ];
    assert!(predicted.servers.is_empty() && predicted.notes.len() == ends.len(), "{:?}", predicted.notes);
    assert!(predicted.notes.iter().zip(ends).all(|(note, end)| note.ends_with(end)), "{:?}", predicted.notes);
    assert!(predicted.notes[0].contains(" and request server=lighttpd "), "{:?}", predicted.notes);
    let text = predicted.render(crate::table::Layout { width: 100, color: false }).replace('\n', " ");
    assert!(text.contains("only the calls of landau and nginx are known"), "{text}");
    assert_eq!(beside_calls(&analysis).1, predicted.notes);

    let mut record = served(&[("tcp", &small), ("connect", &connected("nginx", "keep-alive", "8KiB"))]);
    record.passes.iter_mut().filter_map(|pass| pass.end.as_mut()).for_each(|end| end.facts = Facts::new());
    let (_, left_out) = beside_calls(&Analysis::of(&record));
    assert!(left_out[0].ends_with(" is not compared: the record has no processor time of the server."), "{left_out:?}");
    // Without calls there is nothing to compare a server with, and a page has no such section.
    let record = served(&[("connect", &lighttpd)]);
    assert_eq!(beside_calls(&Analysis::of(&record)).1, [""; 0]);
}
