//! Closed and open loops in virtual time.

use super::{MS, Reply, Simulated, Simulation};
use crate::failure::Failure;
use crate::histogram::Histogram;
use crate::message::{Command, Report};
use crate::plan::{Arrivals, Load};
use landau_wire::http2::Setting;
use landau_wire::http2::frame::{self, HEADER_BYTES};
use landau_wire::http2::hpack::write_status;
use std::cell::Cell;
use std::rc::Rc;

fn open(per_second: f64) -> Load {
    Load::Open { per_second, arrivals: Arrivals::Constant }
}

/// A server that responds after a millisecond.
fn steady(_: u64, now_ns: u64) -> Vec<Reply> {
    vec![Reply::at(now_ns + MS)]
}

/// The number of latencies above 100 ms, with a margin for the histogram's resolution.
fn late(histogram: &Histogram) -> u64 {
    histogram.count_above(100 * MS + MS / 2)
}

/// Requests are due every millisecond for three seconds. The server stalls for the second of them.
fn stalled() -> Simulated {
    let stall = 1000 * MS..2000 * MS;
    let respond = move |_, now_ns| vec![Reply::at(if stall.contains(&now_ns) { stall.end } else { now_ns })];
    Simulation::new(open(1000.0), respond).plan(|plan| plan.duration_ns = Some(3000 * MS)).run()
}

/// Of the 1,000 requests that are due during the stall, 900 are answered more than 100 ms late. Counted from the time
/// of sending, only the four requests in flight are: one on each connection.
#[test]
fn open_loop_charges_a_stall_to_every_request_that_waits() {
    let simulated = stalled();
    let (metrics, phases) = (&simulated.outcome.metrics, &simulated.outcome.metrics.phases);
    assert_eq!((metrics.due, metrics.responses, simulated.failures()), (3000, 3000, Vec::new()));
    assert_eq!((late(&phases.latency), late(&phases.service)), (900, 4));
    assert_eq!(late(&phases.connection_wait), 896);
    assert_eq!((phases.schedule_lag.count(), phases.connection_wait.count()), (3000, 3000));
    // 0 counts as 1.
    assert_eq!(phases.schedule_lag.max_ns(), 1);
    let p90_ns = phases.latency.quantile_ns(0.9);
    assert!((699 * MS..702 * MS).contains(&p90_ns), "{p90_ns}");
    assert_eq!((metrics.pending_at_half, metrics.pending_at_end), (501, 0));
    assert!(simulated.failed_gates().is_empty(), "{:?}", simulated.outcome.gates);
}

#[test]
fn simulations_are_deterministic() {
    assert_eq!(stalled().outcome.metrics.phases, stalled().outcome.metrics.phases);
}

/// The server needs 10 ms for each request, one at a time, and requests are due every 5 ms. All are answered
/// eventually, so the rate once counted as reached.
#[test]
fn server_that_reaches_half_the_rate_fails_it() {
    for is_timed in [true, false] {
        let mut free_ns = 0;
        let respond = move |_, now_ns: u64| {
            free_ns = now_ns.max(free_ns) + 10 * MS;
            vec![Reply::at(free_ns)]
        };
        let simulated = Simulation::new(open(200.0), respond)
            .plan(|plan| {
                plan.duration_ns = is_timed.then_some(1000 * MS);
                plan.request_count = (!is_timed).then_some(200);
            })
            .run();
        let metrics = &simulated.outcome.metrics;
        assert_eq!((metrics.due, metrics.responses), (200, 200));
        let expected = if is_timed { (51, 100) } else { (51, 101) };
        assert_eq!((metrics.pending_at_half, metrics.pending_at_end), expected);
        assert_eq!(simulated.failed_gates(), ["rate"], "{:?}", simulated.outcome.gates);
    }
}

/// The server answers 995 of 1,000 requests per second. After ten seconds 50 requests are pending, half a percent of
/// those that were due: this once passed.
#[test]
fn growing_queue_fails_the_rate_however_small_it_is() {
    let run = |service_ns: u64, arrivals: Arrivals| {
        let mut free_ns = 0;
        let respond = move |_, now_ns: u64| {
            free_ns = now_ns.max(free_ns) + service_ns;
            vec![Reply::at(free_ns)]
        };
        let load = Load::Open { per_second: 1000.0, arrivals };
        let plan = |plan: &mut crate::Plan| (plan.duration_ns, plan.connections) = (Some(10_000 * MS), 64);
        Simulation::new(load, respond).plan(plan).run()
    };
    let simulated = run(1_005_000, Arrivals::Constant);
    let metrics = &simulated.outcome.metrics;
    assert_eq!((metrics.due, metrics.responses), (10_000, 10_000));
    assert!(metrics.pending_at_end * 100 < metrics.due, "{}", metrics.pending_at_end);
    assert_eq!(simulated.failed_gates(), ["rate"], "{:?}", simulated.outcome.gates);
    let trend = metrics.latency_series.trend().unwrap();
    assert!((47e6..50e6).contains(&trend.growth_ns), "{trend:?}");
    // A server that is busy for 60% of the time has a queue, but it does not grow.
    let simulated = run(600_000, Arrivals::Poisson);
    assert!(simulated.failed_gates().is_empty(), "{:?}", simulated.outcome.gates);
}

/// The server answers the requests of 10 ms together, and the generator needs half a millisecond for each response. A
/// response was once timestamped when its turn in the batch came, and the delay did not count as the generator's lag.
#[test]
fn response_arrives_when_its_readiness_is_reported() {
    let respond = |_, now_ns: u64| vec![Reply::at((now_ns / (10 * MS) + 1) * 10 * MS)];
    let plan = |plan: &mut crate::Plan| (plan.duration_ns, plan.connections) = (Some(2000 * MS), 64);
    let simulated = Simulation::new(open(1000.0), respond).plan(plan).handling(MS / 2).run();
    let phases = &simulated.outcome.metrics.phases;
    assert_eq!((simulated.outcome.metrics.responses, simulated.failures()), (2000, Vec::new()));
    assert!(phases.latency.max_ns() < 10 * MS + MS / 100, "{}", phases.latency.max_ns());
    // Requests that fall due during a batch are sent after the current event; the tenth response is read after 5 ms.
    assert!(phases.schedule_lag.max_ns() < MS, "{}", phases.schedule_lag.max_ns());
    assert!((4 * MS..6 * MS).contains(&phases.response_lag.max_ns()), "{}", phases.response_lag.max_ns());
    assert_eq!(simulated.failed_gates(), ["lag"], "{:?}", simulated.outcome.gates);
}

/// The generator is saturated for one second of three.
#[test]
fn saturated_second_is_not_hidden_by_the_average() {
    let cpu_time = |now_ns: u64| now_ns.saturating_sub(1000 * MS).min(1000 * MS);
    let plan = |plan: &mut crate::Plan| plan.duration_ns = Some(3000 * MS);
    let simulated = Simulation::new(open(1000.0), steady).plan(plan).cpu_time(cpu_time).run();
    let metrics = &simulated.outcome.metrics;
    assert_eq!(
        metrics.cpu_percents.iter().map(|(percent, count)| (*percent, *count)).collect::<Vec<_>>(),
        [(0, 2), (100, 1)]
    );
    assert_eq!(simulated.failed_gates(), ["saturated"], "{:?}", simulated.outcome.gates);
}

/// A closed loop opens four connections before the start. An open loop with a connection for each of 100 requests opens
/// them after it.
#[test]
fn handshakes_of_the_set_up_are_counted_apart() {
    let counts = |simulated: &Simulated| {
        let phases = &simulated.outcome.metrics.phases;
        (phases.setup_handshake.count(), phases.handshake.count())
    };
    let count = |plan: &mut crate::Plan| plan.request_count = Some(100);
    assert_eq!(counts(&Simulation::new(Load::Closed, steady).plan(count).run()), (4, 0));
    let fresh = |plan: &mut crate::Plan| (plan.request_count, plan.per_connection) = (Some(100), Some(1));
    assert_eq!(counts(&Simulation::new(open(1000.0), steady).plan(fresh).run()), (0, 100));
    // Handshakes during the warm-up count as set-up, too.
    let warm = |plan: &mut crate::Plan| plan.warm_up_ns = 50 * MS;
    assert_eq!(counts(&Simulation::new(open(1000.0), steady).plan(fresh).plan(warm).run()), (50, 100));
}

/// Edge-triggered backends must not lose an end of stream that arrives with the last bytes, nor one that arrives later.
#[test]
fn every_backend_sees_the_end_of_a_response_and_of_a_connection() {
    let bytes = b"HTTP/1.1 200 OK\r\n\r\nab".to_vec();
    for backend in ["epoll", "epoll-edge", "poll", "select"] {
        for delay_ns in [0, 3 * MS] {
            for load in [Load::Closed, open(2000.0)] {
                let bytes = bytes.clone();
                let respond = move |_, now_ns: u64| {
                    let response = Reply { bytes: bytes.clone(), closes: delay_ns == 0, ..Reply::at(now_ns + MS) };
                    let end = Reply { at_ns: now_ns + MS + delay_ns, bytes: Vec::new(), closes: true };
                    vec![response, end]
                };
                let plan = |plan: &mut crate::Plan| {
                    plan.request_count = Some(100);
                    plan.backend = backend.to_owned();
                };
                let simulated = Simulation::new(load, respond).plan(plan).run();
                assert_eq!((simulated.outcome.metrics.responses, simulated.failures()), (100, Vec::new()), "{backend}");
                assert!(simulated.outcome.metrics.phases.service.min_ns() >= MS + delay_ns - MS / 100);
            }
        }
    }
}

#[test]
fn closed_loop_sends_a_request_after_each_response() {
    let simulated = Simulation::new(Load::Closed, steady).plan(|plan| plan.duration_ns = Some(100 * MS)).run();
    // Four connections, a response per millisecond on each, and those to the requests that are sent at the very end.
    let phases = &simulated.outcome.metrics.phases;
    assert_eq!(
        (simulated.outcome.metrics.responses, phases.service.count(), phases.first_byte_new.count()),
        (404, 404, 4)
    );
    assert_eq!((phases.latency.count(), phases.schedule_lag.count()), (0, 0));
}

/// The server closes the first connection after its first response, while further requests are pending.
#[test]
fn requests_that_a_close_loses_in_the_warm_up_are_not_measured() {
    let respond = |number, now_ns| match number {
        0 => vec![Reply {
            bytes: b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nab".to_vec(),
            closes: true,
            ..Reply::at(now_ns + MS)
        }],
        _ => steady(number, now_ns),
    };
    let plan =
        |plan: &mut crate::plan::Plan| (plan.pipeline, plan.warm_up_ns, plan.request_count) = (4, 200 * MS, Some(100));
    let simulated = Simulation::new(Load::Closed, respond).plan(plan).run();
    assert_eq!((simulated.outcome.metrics.responses, simulated.failures()), (100, Vec::new()));
}

#[test]
fn requests_of_the_warm_up_are_not_measured() {
    let requests = Rc::new(Cell::new(0));
    let counter = Rc::clone(&requests);
    let respond = move |number, now_ns| {
        counter.set(number + 1);
        steady(number, now_ns)
    };
    let plan = |plan: &mut crate::Plan| (plan.warm_up_ns, plan.request_count) = (200 * MS, Some(100));
    let simulated = Simulation::new(Load::Closed, respond).plan(plan).run();
    let metrics = &simulated.outcome.metrics;
    assert_eq!((metrics.requests, metrics.responses, requests.get()), (100, 100, 800 + 100));
    assert_eq!(metrics.elapsed_ns, 25 * MS);
}

#[test]
fn missing_responses_are_timeouts() {
    let plan = |plan: &mut crate::Plan| (plan.request_count, plan.timeout_ns) = (Some(6), 200 * MS);
    let simulated = Simulation::new(Load::Closed, |_, _| Vec::new()).plan(plan).run();
    assert_eq!((simulated.outcome.metrics.responses, simulated.failures()), (0, vec![(Failure::Timeout, 6)]));
    assert_eq!(simulated.failed_gates(), ["errors"]);
    // They count with the timeout as their latency. They once had no latency.
    let phases = &simulated.outcome.metrics.phases;
    let first_bytes = phases.first_byte_new.censored() + phases.first_byte_reused.censored();
    assert_eq!((phases.service.count(), phases.service.censored(), first_bytes), (6, 6, 6));
    let all = phases.service.counts();
    assert!(all.iter().all(|(ns, _)| ns.abs_diff(200 * MS) < MS), "{all:?}");
}

/// A request that is not answered counts in the latencies, from its due time until the timeout.
#[test]
fn timeouts_enter_the_latency_of_an_open_loop() {
    let respond = |number, now_ns| if number == 7 { Vec::new() } else { steady(number, now_ns) };
    let plan = |plan: &mut crate::Plan| (plan.duration_ns, plan.timeout_ns) = (Some(100 * MS), 500 * MS);
    let simulated = Simulation::new(open(1000.0), respond).plan(plan).run();
    let phases = &simulated.outcome.metrics.phases;
    assert_eq!((simulated.outcome.metrics.responses, phases.latency.count(), phases.latency.censored()), (99, 100, 1));
    assert!(phases.latency.max_ns().abs_diff(500 * MS) < MS, "{}", phases.latency.max_ns());
    let json = simulated.outcome.json();
    assert_eq!((&json["phases"]["latency"]["censored"], &json["phases"]["handshake"]), (&1.into(), &().into()));
}

/// Requests that find no connection until twice the timeout after the end are counted as never sent.
#[test]
fn due_requests_that_cannot_be_sent_are_counted() {
    let plan = |plan: &mut crate::Plan| (plan.duration_ns, plan.timeout_ns) = (Some(100 * MS), 1000 * MS);
    let simulated = Simulation::new(open(1000.0), |_, _| Vec::new()).plan(plan).run();
    let failures = simulated.failures();
    assert_eq!(failures.iter().map(|(_, count)| count).sum::<u64>(), 100);
    assert!(failures.iter().any(|(failure, count)| *failure == Failure::NeverSent && *count > 50), "{failures:?}");
    assert!((2000 * MS..3000 * MS).contains(&simulated.end_ns), "{}", simulated.end_ns);
    // Each of these requests waited until the end of the run.
    let phases = &simulated.outcome.metrics.phases;
    assert_eq!((phases.latency.count(), phases.latency.censored()), (100, 100));
    let unsent = phases.connection_wait.censored();
    assert!(unsent > 50 && phases.connection_wait.count_above(1900 * MS) == unsent, "{unsent}");
}

/// An end of the schedule beyond the clock's range once came before its start.
#[test]
fn requests_and_warm_ups_beyond_the_range_of_the_clock_never_come() {
    let requests = Rc::new(Cell::new(0));
    let counter = Rc::clone(&requests);
    let respond = move |number, now_ns| {
        counter.set(number + 1);
        steady(number, now_ns)
    };
    let random = Load::Open { per_second: 1e-300, arrivals: Arrivals::Poisson };
    let simulated = Simulation::new(random, respond).plan(|plan| plan.duration_ns = Some(100 * MS)).run();
    assert_eq!((simulated.outcome.metrics.due, requests.get()), (0, 0));
    let mut reports = 0;
    let stop = move |report: &Report| {
        reports += u32::from(matches!(report, Report::Progress(_)));
        (reports == 3).then_some(Command::Stop)
    };
    let plan = |plan: &mut crate::Plan| (plan.warm_up_ns, plan.duration_ns) = (u64::MAX, Some(100 * MS));
    let simulated = Simulation::new(Load::Closed, steady).plan(plan).direct(stop).run();
    assert_eq!(simulated.outcome.metrics.responses, 0);
    assert!((500 * MS..800 * MS).contains(&simulated.end_ns), "{}", simulated.end_ns);
}

/// A server that may still be starting gets a second, whatever the timeout.
#[test]
fn absent_server_is_reported_after_a_second() {
    let stop = |report: &Report| matches!(report, Report::Ready { open: 0 }).then_some(Command::Stop);
    let plan = |plan: &mut crate::Plan| (plan.duration_ns, plan.timeout_ns) = (Some(1000 * MS), 100_000 * MS);
    let simulated = Simulation::without_server(Load::Closed).plan(plan).direct(stop).run();
    assert!(simulated.end_ns < 200 * MS, "{}", simulated.end_ns);
    assert_eq!(simulated.failed_gates(), ["connect"], "{:?}", simulated.outcome.gates);
}

/// A server at its limit often sends an error to each connection. Its first line is more useful than its length.
#[test]
fn unsolicited_bytes_are_quoted() {
    let full = b"HTTP/1.1 503 Full\r\nContent-Length: 0\r\n\r\n";
    // The only request is due after the end.
    let simulated = Simulation::new(open(0.001), steady).greeting(full).plan(|plan| plan.duration_ns = Some(200 * MS));
    let simulated = simulated.plan(|plan| plan.share = (1, 2)).run();
    let details = &simulated.outcome.metrics.failure_details;
    assert_eq!(details[&Failure::UnsolicitedResponse], "40 bytes, beginning with: HTTP/1.1 503 Full");
}

/// An HTTP/2 response without content.
fn answer(stream: u32) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    write_status(200, &mut bytes);
    frame::finish_headers(0, stream, true, &mut bytes);
    bytes
}

/// The later requests on the connection once failed with the slow one: as timeouts, with their short waits as lower
/// bounds of their latencies.
#[test]
fn a_slow_stream_times_out_alone() {
    // A request is due every 10 ms. The first one is answered after twice the timeout, the others after 50 ms.
    let mut replies: Vec<(u64, u32)> = (1..40).map(|number| (number * 10 + 50, 2 * number as u32 + 1)).collect();
    replies.push((405, 1));
    replies.sort_unstable();
    let respond = move |number, _| {
        // The server counts the beginning of the preface as its first request.
        let mut settings = Vec::new();
        frame::write_settings(&[], &mut settings);
        let of_stream =
            |&(at_ms, stream): &(u64, u32)| Reply { at_ns: at_ms * MS, bytes: answer(stream), closes: false };
        let settings = Reply { at_ns: 0, bytes: settings, closes: false };
        if number == 0 { std::iter::once(settings).chain(replies.iter().map(of_stream)).collect() } else { Vec::new() }
    };
    let plan = |plan: &mut crate::Plan| {
        (plan.http2, plan.pipeline, plan.connections) = (true, 100, 1);
        (plan.duration_ns, plan.timeout_ns) = (Some(400 * MS), 200 * MS);
    };
    let simulated = Simulation::new(open(100.0), respond).plan(plan).run();
    let metrics = &simulated.outcome.metrics;
    assert_eq!((metrics.responses, simulated.failures()), (39, vec![(Failure::Timeout, 1)]));
    assert_eq!((metrics.connections, metrics.phases.latency.count(), metrics.phases.latency.censored()), (1, 40, 1));
}

/// A connection on which nothing arrives any more is replaced; otherwise its other requests would wait forever.
#[test]
fn a_connection_without_any_answer_times_out_as_a_whole() {
    let settings = |number, _| {
        let mut bytes = Vec::new();
        frame::write_settings(&[], &mut bytes);
        if number % 2 == 0 { vec![Reply { at_ns: 0, bytes, closes: false }] } else { Vec::new() }
    };
    let plan = |plan: &mut crate::Plan| {
        (plan.http2, plan.pipeline, plan.connections, plan.request_count) = (true, 4, 1, Some(8));
        plan.timeout_ns = 200 * MS;
    };
    let simulated = Simulation::new(Load::Closed, settings).plan(plan).run();
    assert_eq!((simulated.outcome.metrics.connections, simulated.failures()), (2, vec![(Failure::Timeout, 8)]));
}

/// An interim response once counted as the first byte with HTTP/1.1, but not with HTTP/2.
#[test]
fn the_first_byte_is_that_of_the_final_response() {
    const INTERIM: &[u8] = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n";
    const FINAL: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab";
    for (pieces, first_ms) in [
        (vec![(10, INTERIM.to_vec()), (30, FINAL.to_vec())], 30),
        (vec![(10, INTERIM[..20].to_vec()), (20, INTERIM[20..].to_vec()), (30, FINAL.to_vec())], 30),
        (vec![(10, INTERIM.to_vec()), (20, INTERIM.to_vec()), (30, FINAL.to_vec())], 30),
        (vec![(10, [INTERIM, &FINAL[..9]].concat()), (30, FINAL[9..].to_vec())], 10),
        (vec![(10, [INTERIM, FINAL].concat())], 10),
        (vec![(10, FINAL[..9].to_vec()), (30, FINAL[9..].to_vec())], 10),
    ] {
        let count = pieces.len();
        let respond = move |_, now_ns| {
            let piece = |(at_ms, bytes): &(u64, Vec<u8>)| Reply {
                at_ns: now_ns + at_ms * MS,
                bytes: bytes.clone(),
                closes: false,
            };
            pieces.iter().map(piece).collect()
        };
        let plan = |plan: &mut crate::Plan| (plan.connections, plan.request_count) = (1, Some(1));
        let simulated = Simulation::new(Load::Closed, respond).plan(plan).run();
        let first_byte = &simulated.outcome.metrics.phases.first_byte_new;
        let is_right = first_byte.max_ns().abs_diff(first_ms * MS) < MS;
        assert!(
            first_byte.count() == 1 && is_right,
            "{count} pieces: {} instead of {first_ms} ms",
            first_byte.max_ns()
        );
    }
}

/// An HTTP/2 server that at first accepts no streams. When it accepted some, nothing was in flight, so nothing woke the
/// connection and the run never ended.
#[test]
fn higher_limit_of_streams_wakes_a_connection_without_requests() {
    let settings = |most| {
        let mut bytes = Vec::new();
        frame::write_settings(&[(Setting::MaxConcurrentStreams, most)], &mut bytes);
        bytes
    };
    let responses: Vec<u8> = [1, 3, 5, 7].into_iter().flat_map(answer).collect();
    // The server counts the beginning of the preface as its first request.
    let respond = move |number, _| {
        let reply = |at_ns, bytes: Vec<u8>| Reply { at_ns, bytes, closes: false };
        if number > 0 {
            return Vec::new();
        }
        vec![reply(0, settings(0)), reply(50 * MS, settings(100)), reply(60 * MS, responses.clone())]
    };
    let plan = |plan: &mut crate::Plan| {
        (plan.http2, plan.pipeline, plan.connections, plan.request_count) = (true, 4, 1, Some(4));
        plan.timeout_ns = 500 * MS;
    };
    let simulated = Simulation::new(Load::Closed, respond).plan(plan).run();
    assert_eq!((simulated.outcome.metrics.responses, simulated.failures()), (4, Vec::new()));
}

/// A connection without a request, and a request that could not be sent, once counted as further failures: 12 requests
/// to a server that does not speak HTTP/2 had 13 failures.
#[test]
fn a_request_fails_once() {
    // The server counts the preface as its first request.
    let refuse = |_, now_ns| vec![Reply { bytes: b"HTTP/1.1 400 Bad\r\n\r\n".to_vec(), closes: true, at_ns: now_ns }];
    let plan = |plan: &mut crate::Plan| (plan.http2, plan.request_count) = (true, Some(2));
    let simulated = Simulation::new(Load::Closed, refuse).plan(plan).run();
    assert_eq!((simulated.outcome.metrics.requests, simulated.failures()), (2, vec![(Failure::InvalidResponse, 2)]));
    // The server closes the connection after each response. `select` does not report that, so every second request is
    // sent too late.
    let close = |_, now_ns| vec![Reply { closes: true, ..Reply::at(now_ns) }];
    let plan = |plan: &mut crate::Plan| {
        (plan.connections, plan.request_count, plan.backend) = (1, Some(12), "select".to_owned());
    };
    let simulated = Simulation::new(Load::Closed, close).plan(plan).run();
    let metrics = &simulated.outcome.metrics;
    assert_eq!((metrics.requests, metrics.responses, simulated.failures()), (12, 6, vec![(Failure::Reset, 6)]));
}

/// A connection that was due once waited for the next event, or for 100 ms.
#[test]
fn connections_of_a_running_loop_are_replaced_at_the_connect_rate() {
    let plan = |plan: &mut crate::Plan| {
        (plan.connections, plan.per_connection) = (1, Some(1));
        (plan.connect_gap_ns, plan.duration_ns) = (10 * MS, Some(1000 * MS));
    };
    let simulated = Simulation::new(Load::Closed, steady).plan(plan).run();
    let responses = simulated.outcome.metrics.responses;
    assert!((81..=102).contains(&responses), "{responses}");
}

/// The timeout once applied to the whole set-up, so the loop began with two connections.
#[test]
fn set_up_may_take_longer_than_the_timeout() {
    let open = Rc::new(Cell::new(0));
    let seen = Rc::clone(&open);
    let direct = move |report: &Report| {
        if let Report::Ready { open } = report {
            seen.set(*open);
        }
        None
    };
    let plan = |plan: &mut crate::Plan| {
        (plan.connect_gap_ns, plan.timeout_ns, plan.request_count) = (100 * MS, 150 * MS, Some(4));
    };
    Simulation::new(Load::Closed, steady).plan(plan).direct(direct).run();
    assert_eq!(open.get(), 4);
}

/// A request queued behind unsent bytes of earlier ones was once taken for one that the kernel had refused. The
/// readiness reported in the meantime was cleared, and an edge is reported only once.
#[test]
fn every_backend_sends_a_long_pipeline_to_its_end() {
    let is_here = |name: &&str| name.parse().is_ok_and(|backend| landau_reactor::Reactor::new(backend).is_ok());
    for backend in crate::backends().filter(is_here) {
        let plan = |plan: &mut crate::Plan| {
            (plan.connections, plan.pipeline, plan.request_count) = (1, 128, Some(400));
            (plan.timeout_ns, plan.backend) = (500 * MS, backend.to_owned());
            // More than a socket accepts at once.
            let field = format!("Host: localhost\r\nX-Long: {}\r\n", "x".repeat(6000));
            let request = &mut plan.origins[0].requests[0];
            request.bytes = request.bytes.replace("Host: localhost\r\n", &field);
        };
        let respond = |_, now_ns| vec![Reply::at(now_ns)];
        let simulated = Simulation::new(Load::Closed, respond).plan(plan).run();
        assert_eq!((simulated.outcome.metrics.responses, simulated.failures()), (400, Vec::new()), "{backend}");
    }
}

/// Timeouts are checked every 20 ms at most. A response that arrived before the check once counted as a success,
/// however late it was.
#[test]
fn late_response_is_a_timeout() {
    let respond = |number, now_ns| vec![Reply::at(now_ns + if number % 2 == 0 { 55 * MS } else { MS })];
    let plan = |plan: &mut crate::Plan| {
        (plan.connections, plan.request_count, plan.timeout_ns) = (1, Some(10), 50 * MS);
    };
    let simulated = Simulation::new(Load::Closed, respond).plan(plan).run();
    assert_eq!((simulated.outcome.metrics.responses, simulated.failures()), (5, vec![(Failure::Timeout, 5)]));
    assert_eq!(simulated.failed_gates(), ["errors"]);
    let service = &simulated.outcome.metrics.phases.service;
    assert_eq!((service.count(), service.censored()), (10, 5));
    assert!(service.max_ns().abs_diff(50 * MS) < MS, "{}", service.max_ns());
}

/// The same for a response that ends with its connection, and for an HTTP/2 stream, which ends alone.
#[test]
fn late_end_of_a_connection_or_of_a_stream_is_a_timeout() {
    let end = |_, now_ns| {
        let bytes = b"HTTP/1.1 200 OK\r\n\r\nab".to_vec();
        vec![
            Reply { at_ns: now_ns + MS, bytes, closes: false },
            Reply { at_ns: now_ns + 55 * MS, bytes: Vec::new(), closes: true },
        ]
    };
    let plan = |plan: &mut crate::Plan| {
        (plan.connections, plan.request_count, plan.timeout_ns) = (1, Some(1), 50 * MS);
    };
    let simulated = Simulation::new(Load::Closed, end).plan(plan).run();
    assert_eq!((simulated.outcome.metrics.responses, simulated.failures()), (0, vec![(Failure::Timeout, 1)]));
    let respond = |number, _| {
        let mut settings = Vec::new();
        frame::write_settings(&[], &mut settings);
        let reply = |at_ns, bytes| Reply { at_ns, bytes, closes: false };
        // The server counts the beginning of the preface as its first request.
        if number > 0 {
            return Vec::new();
        }
        vec![reply(0, settings), reply(20 * MS, answer(3)), reply(55 * MS, answer(1))]
    };
    let simulated = Simulation::new(Load::Closed, respond)
        .plan(plan)
        .plan(|plan| (plan.http2, plan.pipeline, plan.request_count) = (true, 2, Some(2)))
        .run();
    assert_eq!((simulated.outcome.metrics.responses, simulated.failures()), (1, vec![(Failure::Timeout, 1)]));
}

/// The time after the last response was once left out, so that the rate was that of the first second.
#[test]
fn run_that_its_duration_ends_lasts_until_then() {
    let respond = |number, now_ns| if now_ns < 1000 * MS { steady(number, now_ns) } else { Vec::new() };
    let plan = |plan: &mut crate::Plan| (plan.request_count, plan.duration_ns) = (Some(5000), Some(6000 * MS));
    let simulated = Simulation::new(Load::Closed, respond).plan(plan).run();
    let metrics = &simulated.outcome.metrics;
    assert!((3990..4010).contains(&metrics.responses), "{}", metrics.responses);
    assert!((6000 * MS..6200 * MS).contains(&metrics.elapsed_ns), "{}", metrics.elapsed_ns);
    assert_eq!(metrics.requests + metrics.not_made, 5000);
    assert_eq!(simulated.outcome.json()["requests_not_made"], metrics.not_made);
}

/// All connections time out at once and are replaced: for a moment none is open.
#[test]
fn server_that_stalls_for_longer_than_twice_the_timeout_is_not_gone() {
    let stall = 50 * MS..500 * MS;
    let respond = move |number, now_ns| if stall.contains(&now_ns) { Vec::new() } else { steady(number, now_ns) };
    let plan = |plan: &mut crate::Plan| (plan.request_count, plan.timeout_ns) = (Some(1000), 100 * MS);
    let simulated = Simulation::new(Load::Closed, respond).plan(plan).run();
    let metrics = &simulated.outcome.metrics;
    let timeouts = metrics.failed(|failure| failure == Failure::Timeout);
    assert_eq!((metrics.requests, metrics.responses + timeouts), (1000, 1000));
    assert!((8..30).contains(&timeouts), "{timeouts}");
}

/// Under overload, thousands of connections were once started without handling an event in between: established
/// connections waited with their requests.
#[test]
fn only_some_connections_are_started_before_other_events() {
    for (load, per_connection) in [(Load::Closed, None), (open(100_000.0), Some(1))] {
        let plan = |plan: &mut crate::Plan| {
            (plan.connections, plan.window, plan.per_connection) = (300, 300, per_connection);
            plan.request_count = Some(600);
        };
        // While an event is handled, a hundred requests of the open loop fall due.
        let simulated = Simulation::new(load, steady).plan(plan).handling(MS).run();
        assert_eq!((simulated.outcome.metrics.responses, simulated.failures()), (600, Vec::new()));
        assert!((1..=64).contains(&simulated.most_at_once), "{per_connection:?}: {}", simulated.most_at_once);
    }
}

/// A server that has not yet accepted the earlier connections. With a Unix socket, this once counted as a failure to
/// connect.
#[test]
#[cfg(target_os = "linux")]
fn full_backlog_of_a_unix_socket_is_no_failure() {
    let plan = |plan: &mut crate::Plan| (plan.connections, plan.request_count) = (8, Some(100));
    let simulated = Simulation::new(Load::Closed, steady).plan(plan).backlog(1).run();
    let metrics = &simulated.outcome.metrics;
    assert_eq!((metrics.connections, metrics.responses, simulated.failures()), (8, 100, Vec::new()));
}

/// With TCP, this would be a handshake that does not complete.
#[test]
#[cfg(target_os = "linux")]
fn backlog_that_stays_full_is_a_failure_to_connect() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    landau_sys::stream::listen(&listener, 0).unwrap();
    let mut plan = super::plan(Load::Closed);
    plan.origins[0].endpoint = crate::target::Endpoint::Unix(path);
    let reactor = landau_reactor::Reactor::new(plan.backend.parse().unwrap()).unwrap();
    let mut connections =
        crate::connections::Connections::new(&plan, reactor, crate::clock::SystemClock::coarse()).unwrap();
    // The first one waits in the backlog.
    assert!(connections.connect().is_some() && connections.connect().is_none());
    assert!(connections.metrics().failures.is_empty());
    connections.fail_opening();
    let failures: Vec<(Failure, u64)> =
        connections.metrics().failures.iter().map(|(kind, count)| (*kind, *count)).collect();
    assert_eq!(failures, [(Failure::ConnectTimeout, 2)]);
}
