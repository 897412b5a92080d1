//! Idle connections in virtual time.

use super::{MS, Reply, Simulated, Simulation};
use crate::failure::Failure;
use crate::message::{Command, Report, SampleCounts, SampleTimes};
use crate::plan::Load;
use std::cell::RefCell;
use std::rc::Rc;

/// Runs an idle load that executes the commands one after another, and returns the reports between them.
fn run(simulation: Simulation, commands: Vec<Command>) -> (Simulated, Vec<Report>) {
    let reports = Rc::new(RefCell::new(Vec::new()));
    let (seen, mut commands) = (Rc::clone(&reports), commands.into_iter());
    let direct = move |report: &Report| {
        // A copy by way of JSON.
        let copy = serde_json::from_str(&serde_json::to_string(report).unwrap()).unwrap();
        seen.borrow_mut().push(copy);
        Some(commands.next().unwrap_or(Command::Stop))
    };
    let simulated = simulation.direct(direct).run();
    (simulated, reports.take())
}

fn opened(reports: &[Report]) -> Vec<u32> {
    reports.iter().filter_map(|report| if let Report::Opened { open } = report { Some(*open) } else { None }).collect()
}

#[test]
fn samples_have_the_latency_of_the_server() {
    let simulation = Simulation::new(Load::Idle, |_, now_ns| vec![Reply::at(now_ns + 2 * MS)]);
    let counts = SampleCounts { on_idle: 3, on_new: 3, discarded: 2 };
    let commands = vec![Command::Open { to: 10 }, Command::Sample(counts), Command::Count];
    let (simulated, reports) = run(simulation, commands);
    assert_eq!(opened(&reports), [10]);
    let samples =
        reports.iter().find_map(|report| if let Report::Sampled(times) = report { Some(times) } else { None });
    let SampleTimes { on_idle_ns, on_new_ns, elapsed_ns, .. } = &**samples.unwrap();
    assert_eq!(on_idle_ns, &[[2 * MS, 2 * MS]; 3]);
    assert_eq!(on_new_ns, &[[0, 2 * MS, 2 * MS]; 3]);
    assert_eq!(*elapsed_ns, (2 + 3 + 3) * 2 * MS);
    assert!(matches!(reports.last(), Some(Report::Counted { open: 10 })), "{reports:?}");
    assert!(simulated.failures().is_empty(), "{:?}", simulated.failures());
    // The handshakes of the idle connections are not samples.
    let phases = &simulated.outcome.metrics.phases;
    assert_eq!((phases.setup_handshake.count(), phases.handshake.count()), (10, 3));
}

/// The server closes every connection from the sixteenth on.
#[test]
fn opening_ends_when_no_more_connections_succeed() {
    let respond = |number, now_ns| vec![Reply { closes: number >= 15, bytes: Vec::new(), ..Reply::at(now_ns + MS) }];
    let respond = move |number, now_ns| if number < 15 { vec![Reply::at(now_ns)] } else { respond(number, now_ns) };
    let commands = vec![Command::Open { to: 10 }, Command::Open { to: 20 }, Command::Count];
    let (simulated, reports) =
        run(Simulation::new(Load::Idle, respond).plan(|plan| plan.timeout_ns = 300 * MS), commands);
    assert_eq!(opened(&reports), [10, 15]);
    assert!(matches!(reports.last(), Some(Report::Counted { open: 15 })), "{reports:?}");
    let failures = simulated.failures();
    assert!(matches!(failures[..], [(Failure::ClosedBeforeResponse, 1..)]), "{failures:?}");
}

/// A server that may be starting has a second, whatever the timeout.
#[test]
fn absent_server_is_reported_after_a_second() {
    let (simulated, reports) = run(Simulation::without_server(Load::Idle), vec![Command::Open { to: 2 }]);
    assert_eq!(opened(&reports), [0]);
    assert_eq!(simulated.failed_gates(), ["connect"]);
    assert!((1000 * MS..1200 * MS).contains(&simulated.end_ns), "{}", simulated.end_ns);
}
