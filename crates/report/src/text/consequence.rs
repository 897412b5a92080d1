//! The meaning of a cost at the largest n for a program: "A program that watches 1,961 descriptors pays 280 µs for each
//! wait, so it waits at most 3,570 times a second."

use crate::quantity::{FormatCost, Unit, count, digits};
use crate::{CaseStudy, PhaseStudy, ends};

/// The sentences, by benchmark and phase; `{n}` and `{cost}` are replaced. The sentence for a curve that is not listed
/// uses its axis: "With 980 open files, a call takes 1.2 µs". An empty text means no sentence, because no program pays
/// for a model.
const WHO: [(&str, &str, &str); 16] = [
    ("architecture", "latency", "With {n} simultaneous connections, a request waits {cost} for the end of its reply"),
    ("bind", "bind", "A program that has bound {n} ports pays {cost} for the next one"),
    ("connect", "first_byte", "With {n} open connections, a request waits {cost} for the first byte of its response"),
    ("connect", "last_byte", "With {n} open connections, a request waits {cost} for the last byte of its response"),
    ("event_loop", "wait", "An event loop with {n} idle descriptors pays {cost} for each wait"),
    ("event_wait", "wait", "A program that watches {n} descriptors with this call pays {cost} for each wait"),
    ("fork", "return", "A process with {n} children pays {cost} for each further fork"),
    ("mmap", "mmap", "A process with {n} mappings pays {cost} for each further one"),
    ("mmap", "munmap", "A process with {n} mappings pays {cost} to remove one"),
    ("pids", "allocate", ""),
    ("request", "first_byte", "With {n} open connections, a request waits {cost} for the first byte of its response"),
    ("request", "last_byte", "With {n} open connections, a request waits {cost} for the last byte of its response"),
    ("thread", "join", "A process with {n} threads pays {cost} to join one"),
    ("timerfd", "arm", "A process with {n} armed timers pays {cost} to arm one more"),
    ("waitpid", "reap", "A server with {n} child processes pays {cost} to reap one"),
    ("waitpid", "wnohang", "A server with {n} child processes pays {cost} for each check for an exited child"),
];
/// Latencies of requests, by benchmark and phase. A server answers several requests in that time, so latencies limit no
/// rate.
const LATENCIES: [(&str, &str); 11] = [
    ("architecture", "latency"),
    ("connect", "accept"),
    ("connect", "first_byte"),
    ("connect", "last_byte"),
    ("idle_connections", "handshake"),
    ("idle_connections", "idle_first_byte"),
    ("idle_connections", "idle_last_byte"),
    ("idle_connections", "new_first_byte"),
    ("idle_connections", "new_last_byte"),
    ("request", "first_byte"),
    ("request", "last_byte"),
];
/// Rates above this are not stated as a limit, because programs do not reach them.
const RATE_MAX: f64 = 100_000.0;

/// Returns the benchmarks and phases that have their own sentence, for the test that they exist.
pub fn subjects() -> impl Iterator<Item = (&'static str, &'static str)> {
    WHO.iter().map(|(benchmark, phase, _)| (*benchmark, *phase))
}

/// Returns the sentence for a curve; empty if it has no points.
pub(crate) fn consequence(study: &CaseStudy<'_>, phase: &PhaseStudy<'_>) -> String {
    let judged = &phase.verdict.all;
    let Some(large) = ends::large(judged) else { return String::new() };
    words(&study.case.benchmark, &phase.phase.name, &study.case.axis, judged.unit, (large.n, large.cost.value))
}

fn words(benchmark: &str, phase: &str, axis: &str, unit: Unit, (n, cost): (f64, f64)) -> String {
    let own = WHO.iter().find(|one| one.0 == benchmark && one.1 == phase).map(|one| one.2.to_owned());
    let verb = if unit == Unit::Instructions { "executes" } else { "takes" };
    let is_latency = LATENCIES.contains(&(benchmark, phase));
    let what = if is_latency { format!("the {}", phase.replace('_', " ")) } else { "a call".to_owned() };
    let template = own.unwrap_or_else(|| format!("With {{n}} {axis}, {what} {verb} {{cost}}"));
    if template.is_empty() {
        return template;
    }
    let text = template.replace("{n}", &count(n)).replace("{cost}", &unit.cost(cost));
    let rate = 1e9 / cost.max(1.0);
    match unit {
        Unit::Time if rate < RATE_MAX && !is_latency => {
            format!("{text}: at most {} a second.", digits(rounded(rate)))
        }
        _ => format!("{text}."),
    }
}

/// Rounds to three significant digits.
fn rounded(x: f64) -> f64 {
    let unit = 10f64.powf(x.abs().max(f64::MIN_POSITIVE).log10().floor() - 2.0);
    (x / unit).round() * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_becomes_a_rate_where_it_limits_a_program() {
        let bind = words("bind", "bind", "bound sockets", Unit::Time, (14_254.0, 2.77e6));
        assert_eq!(bind, "A program that has bound 14,254 ports pays 2.77 ms for the next one: at most 361 a second.");
        let slow = words("waitpid", "reap", "children", Unit::Time, (9_000.0, 3e9));
        assert_eq!(slow, "A server with 9,000 child processes pays 3 s to reap one: at most 0.333 a second.");
        let slowest = words("waitpid", "reap", "children", Unit::Time, (9_000.0, 2.5e11));
        assert_eq!(slowest, "A server with 9,000 child processes pays 250 s to reap one: at most 0.004 a second.");
        let open = words("open", "open", "open files", Unit::Time, (980.0, 1200.0));
        assert_eq!(open, "With 980 open files, a call takes 1.2 µs.");
        assert_eq!(words("pids", "allocate", "sleeping processes", Unit::Time, (3_000.0, 2e5)), "");
        let counted = words("open", "open", "open files", Unit::Instructions, (980.0, 4016.0));
        assert_eq!(counted, "With 980 open files, a call executes 4,016 instructions.");
    }

    /// Guards against "at most 11.4 a second" for a latency, in which the server answers other requests, too.
    #[test]
    fn a_latency_limits_no_rate() {
        for (benchmark, phase) in LATENCIES {
            let text = words(benchmark, phase, "open connections", Unit::Time, (979.0, 8.78e7));
            assert!(text.contains(" 87.8 ms") && !text.contains("a second"), "{text}");
        }
        let text = words("idle_connections", "idle_first_byte", "idle connections", Unit::Time, (1e6, 2.87e4));
        assert_eq!(text, "With 1,000,000 idle connections, the idle first byte takes 28.7 µs.");
    }
}
