//! Idle connections in virtual time.

use super::{MS, Reply, Simulated, Simulation};
use crate::failure::Failure;
use crate::message::{Command, Report, SampleCounts, SampleTimes};
use crate::plan::Load;
use crate::request_loop::OPENED_PER_WAIT;
use std::cell::RefCell;
use std::rc::Rc;

/// Runs an idle load that executes the commands one after another, and returns the reports between them.
fn run(simulation: Simulation, commands: Vec<Command>) -> (Simulated, Vec<Report>) {
    let reports = Rc::new(RefCell::new(Vec::new()));
    let (seen, mut commands) = (Rc::clone(&reports), commands.into_iter());
    let direct = move |report: &Report| {
        // Copies the report by way of JSON.
        let copy = serde_json::from_str(&serde_json::to_string(report).unwrap()).unwrap();
        seen.borrow_mut().push(copy);
        Some(commands.next().unwrap_or(Command::Stop))
    };
    let simulated = simulation.direct(direct).run();
    (simulated, reports.take())
}

fn open_to(to: u32) -> Command {
    Command::Open { to, from_ns: 0 }
}

fn opened(reports: &[Report]) -> Vec<u32> {
    reports
        .iter()
        .filter_map(|report| if let Report::Opened { open, .. } = report { Some(*open) } else { None })
        .collect()
}

#[test]
fn samples_have_the_latency_of_the_server() {
    let simulation = Simulation::new(Load::Idle, |_, now_ns| vec![Reply::at(now_ns + 2 * MS)]);
    let counts = SampleCounts { on_idle: 3, on_new: 3, discarded: 2 };
    let commands = vec![open_to(10), Command::Sample(counts), Command::Count];
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
    let commands = vec![open_to(10), open_to(20), Command::Count];
    let (simulated, reports) =
        run(Simulation::new(Load::Idle, respond).plan(|plan| plan.timeout_ns = 300 * MS), commands);
    assert_eq!(opened(&reports), [10, 15]);
    assert!(matches!(reports.last(), Some(Report::Counted { open: 15 })), "{reports:?}");
    let failures = simulated.failures();
    assert!(matches!(failures[..], [(Failure::ClosedBeforeResponse, 1..)]), "{failures:?}");
}

/// A server that may still be starting gets a second, whatever the timeout.
#[test]
fn absent_server_is_reported_after_a_second() {
    let (simulated, reports) = run(Simulation::without_server(Load::Idle), vec![open_to(2)]);
    assert_eq!(opened(&reports), [0]);
    assert_eq!(simulated.failed_gates(), ["connect"]);
    assert!((1000 * MS..1200 * MS).contains(&simulated.end_ns), "{}", simulated.end_ns);
}

/// Without a deadline for the next connection, the load once waited 20 ms for each.
#[test]
fn connections_are_opened_at_the_connect_rate() {
    let simulation = Simulation::new(Load::Idle, |_, now_ns| vec![Reply::at(now_ns)]);
    let simulation = simulation.plan(|plan| plan.connect_gap_ns = 2 * MS);
    let (simulated, reports) = run(simulation, vec![open_to(10)]);
    assert_eq!(opened(&reports), [10]);
    assert!((15 * MS..40 * MS).contains(&simulated.end_ns), "{}", simulated.end_ns);
}

/// With a large window, the first connections would otherwise wait with their requests for all attempts.
#[test]
fn few_connections_are_started_between_two_waits() {
    let simulation = Simulation::new(Load::Idle, |_, now_ns| vec![Reply::at(now_ns + MS)]);
    let (simulated, reports) = run(simulation.plan(|plan| plan.window = 1000), vec![open_to(300)]);
    assert_eq!(opened(&reports), [300]);
    assert!((2..=OPENED_PER_WAIT as usize).contains(&simulated.most_at_once), "{}", simulated.most_at_once);
}

/// A gap of more than twice the timeout was once taken as a sign that no connection succeeds.
#[test]
fn slow_connect_rate_is_not_a_lack_of_progress() {
    let simulation = Simulation::new(Load::Idle, |_, now_ns| vec![Reply::at(now_ns)]);
    let simulation = simulation.plan(|plan| (plan.connect_gap_ns, plan.timeout_ns) = (500 * MS, 100 * MS));
    let (_, reports) = run(simulation, vec![open_to(4)]);
    assert_eq!(opened(&reports), [4]);
}

/// The pace passes from one worker to the next.
#[test]
fn first_connection_waits_for_its_turn() {
    let simulation = Simulation::new(Load::Idle, |_, now_ns| vec![Reply::at(now_ns)]);
    let from_ns = super::START_NS + 30 * MS;
    let (simulated, reports) = run(simulation, vec![Command::Open { to: 1, from_ns }]);
    assert_eq!(opened(&reports), [1]);
    assert!((30 * MS..40 * MS).contains(&simulated.end_ns), "{}", simulated.end_ns);
}

/// A worker with idle connections once woke fifty times a second, and scanned all of them twice a second, during the
/// samples of other workers.
#[test]
fn worker_that_only_holds_idle_connections_sleeps() {
    let simulation = Simulation::new(Load::Idle, |_, now_ns| vec![Reply::at(now_ns)]).stop_at(10_000 * MS);
    let mut commands = vec![open_to(10)].into_iter();
    let direct = move |report: &Report| if matches!(report, Report::Ready { .. }) { commands.next() } else { None };
    let simulated = simulation.direct(direct).run();
    assert_eq!(simulated.outcome.metrics.responses, 10);
    // The command ends the last wait.
    assert!((10_000 * MS..10_001 * MS).contains(&simulated.end_ns), "{}", simulated.end_ns);
    assert!(simulated.wait_count < 50, "{}", simulated.wait_count);
}

/// The worker gives up opening connections while one of them waits for its first response, which arrives during a
/// sample of another connection. It was once taken for that sample.
#[test]
fn late_first_response_is_not_a_sample() {
    let respond = |number, now_ns| match number {
        1 => vec![Reply { at_ns: 100 * MS, bytes: Vec::new(), closes: true }],
        2 => Vec::new(),
        3 => vec![Reply::at(650 * MS)],
        4 => vec![Reply::at(now_ns + 100 * MS)],
        _ => vec![Reply::at(now_ns)],
    };
    let counts = SampleCounts { on_idle: 0, on_new: 1, discarded: 0 };
    let simulation = Simulation::new(Load::Idle, respond).plan(|plan| plan.timeout_ns = 300 * MS);
    let (simulated, reports) = run(simulation, vec![open_to(2), Command::Sample(counts), Command::Count]);
    assert_eq!(opened(&reports), [1]);
    let samples =
        reports.iter().find_map(|report| if let Report::Sampled(times) = report { Some(times) } else { None });
    assert_eq!(samples.unwrap().on_new_ns, [[0, 100 * MS, 100 * MS]]);
    // From then on it is an idle connection.
    assert!(matches!(reports.last(), Some(Report::Counted { open: 2 })), "{reports:?}");
    assert_eq!(simulated.failures(), [(Failure::ClosedBeforeResponse, 1), (Failure::Timeout, 1)]);
}
