//! Gates: what must hold for a measurement to be one. A gate that fails fails the run, with the reason; the user may
//! waive it by name, and the report says so.

use crate::counters::OVERFLOWS;
use crate::outcome::Outcome;
use crate::plan::Load;
use crate::tally::Failure;
use serde::Serialize;

/// The lag that 999 of 1,000 requests of an open loop must not exceed: 1 ms, or a tenth of the latency that is reported
/// for 99 of 100 if that is more.
const LAG_NS: u64 = 1_000_000;

/// The share of the rate asked for that must be reached.
const RATE: f64 = 0.99;

/// By so many standard deviations of those that are pending half-way there may be more at the end.
const CHANCE: f64 = 2.0;

/// The share of a processor above which a worker of an open loop or a crowd is not trusted to be on time.
const BUSY: f64 = 0.85;

/// The share of a processor above which a worker of a closed loop is what limits it.
const FULL: f64 = 0.95;

/// How a gate stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It holds.
    Held,
    /// It does not bear on this load.
    Moot,
    /// It does not hold, and the measurement is good all the same, with care.
    Warned,
    /// It does not hold, and the user said that it need not.
    Waived,
    /// It does not hold.
    Failed,
}

/// A gate and how it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Gate {
    /// Its name, by which it is waived.
    pub name: &'static str,
    /// How it stands.
    pub standing: Standing,
    /// Why, where it does not hold.
    pub reason: Option<String>,
}

impl Gate {
    /// What is to be said of it where it does not hold: its name, how it stands, and why.
    pub fn remark(&self) -> Option<String> {
        let word = match self.standing {
            Standing::Failed => "failed",
            Standing::Waived => "waived",
            Standing::Warned => "warning",
            Standing::Held | Standing::Moot => return None,
        };
        Some(format!("gate {}: {word}: {}", self.name, self.reason.as_deref().unwrap_or_default()))
    }
}

/// The names of all gates, and what each asks.
pub const GATES: &[(&str, &str)] = &[
    ("lag", "the schedule's lag is small: 99.9% within 1 ms or a tenth of the latency's p99"),
    ("rate", "99% of what was due was answered, and what was not yet answered did not pile up"),
    ("connect", "every connection could be made"),
    ("errors", "every request was answered"),
    ("status", "every answer is 2xx or 3xx"),
    ("length", "answers to the same request have the same length"),
    ("alive", "every connection of the crowd stood when its samples had been taken"),
    ("overflow", "no listening socket of this host overflowed meanwhile"),
    ("saturated", "no worker used up its processor"),
];

/// What a gate says.
type Finding = Result<(), (Standing, String)>;

/// The same: nothing where it is moot.
type Verdict = Option<Finding>;

/// How every gate stands, with those of some names waived.
pub(crate) fn judge(outcome: &Outcome, waived: &[String]) -> Vec<Gate> {
    let judged = |&(name, _): &(&'static str, &str)| {
        let verdict = match name {
            "lag" => lag(outcome),
            "rate" => rate(outcome),
            "connect" => Some(failures(outcome, Failure::is_of_connecting)),
            "errors" => Some(failures(outcome, |failure| !failure.is_of_connecting())),
            "status" => Some(status(outcome)),
            "length" => Some(length(outcome)),
            "alive" => alive(outcome),
            "overflow" => overflow(outcome),
            _ => Some(saturated(outcome)),
        };
        let (standing, reason) = match verdict {
            None => (Standing::Moot, None),
            Some(Ok(())) => (Standing::Held, None),
            Some(Err((Standing::Failed, reason))) if waived.iter().any(|one| one == name) => {
                (Standing::Waived, Some(reason))
            }
            Some(Err((standing, reason))) => (standing, Some(reason)),
        };
        Gate { name, standing, reason }
    };
    GATES.iter().map(judged).collect()
}

fn fail(reason: String) -> Finding {
    Err((Standing::Failed, reason))
}

fn lag(outcome: &Outcome) -> Verdict {
    let phases = &outcome.tally.phases;
    if phases.lag.count() == 0 {
        return None;
    }
    let (lag_ns, limit_ns) = (phases.lag.quantile_ns(0.999), LAG_NS.max(phases.intended.quantile_ns(0.99) / 10));
    if lag_ns <= limit_ns {
        return Some(Ok(()));
    }
    let ms = |ns: u64| ns as f64 / 1e6;
    Some(fail(format!(
        "one request in a thousand was sent {:.1} ms late or later by the generator's own doing (allowed: {:.1} ms); \
         lower --rate, add --workers, or give the generator a processor of its own with --pin",
        ms(lag_ns),
        ms(limit_ns)
    )))
}

/// A server that is too slow answers everything in the end, if it is given the time. But while a schedule lasts, what
/// it owes grows, where a server that keeps up owes what its latency makes it owe, half-way and at the end.
fn rate(outcome: &Outcome) -> Verdict {
    let Load::Open { per_second, .. } = outcome.load else { return None };
    let tally = &outcome.tally;
    let words = format!("{:.0} requests/s were answered of {per_second:.0} asked for", outcome.per_second());
    if (tally.answers as f64) < RATE * tally.due as f64 {
        return Some(fail(format!("{words}: {} of {} that were due", tally.answers, tally.due)));
    }
    let (half_way, at_end) = (tally.pending_half_way, tally.pending_at_end);
    let allowed = (1.0 - RATE) * tally.due as f64 + CHANCE * (half_way as f64 + 1.0).sqrt();
    if at_end as f64 <= half_way as f64 + allowed {
        return Some(Ok(()));
    }
    Some(fail(format!(
        "{words}: {at_end} were not answered yet when the last was due, half-way {half_way} were, so the server does \
         not keep up (if it does, and only takes its time, measure for longer)"
    )))
}

fn failures(outcome: &Outcome, which: impl Fn(Failure) -> bool) -> Finding {
    let met = outcome.tally.failures.iter().filter(|(failure, _)| which(**failure));
    let words: Vec<String> = met
        .map(|(failure, count)| {
            let detail = outcome.tally.details.get(failure).map(|text| format!(" ({text})")).unwrap_or_default();
            format!("{count} × {}{detail}", failure.words())
        })
        .collect();
    if words.is_empty() { Ok(()) } else { fail(words.join("; ")) }
}

fn status(outcome: &Outcome) -> Finding {
    let is_bad = |status: u16| !(200..400).contains(&status);
    let bad: Vec<String> = outcome
        .tally
        .statuses
        .iter()
        .filter(|(status, _)| is_bad(**status))
        .map(|(status, count)| format!("{count} × {status}"))
        .collect();
    if bad.is_empty() { Ok(()) } else { fail(format!("answers that are no success: {}", bad.join(", "))) }
}

fn length(outcome: &Outcome) -> Finding {
    match (outcome.tally.wrong_lengths, &outcome.tally.wrong_length) {
        (0, _) => Ok(()),
        (count, example) => fail(format!(
            "{count} answers have another length than the first one to the same request ({})",
            example.as_deref().unwrap_or("")
        )),
    }
}

fn alive(outcome: &Outcome) -> Verdict {
    if outcome.load != Load::Crowd {
        return None;
    }
    let short = outcome.steps.iter().find(|step| u64::from(step.n) > step.open);
    match short {
        None => Some(Ok(())),
        Some(step) => Some(fail(format!(
            "of {} connections that were to stand, {} did when samples were taken",
            step.n, step.open
        ))),
    }
}

fn overflow(outcome: &Outcome) -> Verdict {
    if !outcome.is_local {
        return None;
    }
    let met: Vec<String> = outcome
        .counters
        .iter()
        .filter(|(name, _)| OVERFLOWS.contains(&name.as_str()))
        .map(|(name, count)| format!("{name} +{count}"))
        .collect();
    if met.is_empty() {
        return Some(Ok(()));
    }
    Some(fail(format!(
        "a listening socket of this host overflowed ({}): connections waited for a second, or were lost; raise the \
         server's backlog and net.core.somaxconn, or connect more slowly",
        met.join(", ")
    )))
}

fn saturated(outcome: &Outcome) -> Finding {
    let share = outcome.busiest;
    let words = |limit: f64| {
        format!("a worker used {:.0}% of a processor (trusted up to {:.0}%)", share * 100.0, limit * 100.0)
    };
    match outcome.load {
        Load::Closed if share > FULL => Err((
            Standing::Warned,
            format!("{}: the generator is the bottleneck, or nearly; add --workers or processors", words(FULL)),
        )),
        Load::Open { .. } | Load::Crowd if share > BUSY => fail(format!("{}; add --workers", words(BUSY))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Step;

    fn standing(outcome: &Outcome, name: &str, waived: &[String]) -> Standing {
        judge(outcome, waived).into_iter().find(|gate| gate.name == name).unwrap().standing
    }

    fn open() -> Outcome {
        let mut outcome = Outcome::of(Load::Open { per_second: 100.0, arrivals: crate::schedule::Arrivals::Uniform });
        outcome.tally.elapsed_ns = 1_000_000_000;
        (outcome.tally.answers, outcome.tally.due) = (100, 100);
        outcome.tally.phases.lag.record_count(50_000, 100);
        outcome.tally.phases.intended.record_count(200_000, 100);
        outcome
    }

    #[test]
    fn a_clean_run_holds_every_gate() {
        assert!(judge(&open(), &[]).iter().all(|gate| matches!(gate.standing, Standing::Held | Standing::Moot)));
    }

    #[test]
    fn every_gate_fails_on_what_it_is_for_and_can_be_waived() {
        type Spoil = fn(&mut Outcome);
        let spoil: &[(&str, Spoil)] = &[
            ("lag", |one| one.tally.phases.lag.record(5_000_000)),
            ("rate", |one| one.tally.answers = 90),
            ("rate", |one| one.tally.pending_at_end = 50),
            ("connect", |one| one.tally.fail(Failure::ConnectRefused, String::new)),
            ("errors", |one| one.tally.fail(Failure::Timeout, String::new)),
            ("status", |one| {
                one.tally.statuses.insert(503, 1);
            }),
            ("length", |one| one.tally.wrong_lengths = 1),
            ("overflow", |one| {
                one.is_local = true;
                one.counters.insert("ListenDrops".to_owned(), 1);
            }),
            ("saturated", |one| one.busiest = 0.9),
            ("alive", |one| {
                one.load = Load::Crowd;
                one.steps.push(Step { n: 10, open: 9, ..Step::default() });
            }),
        ];
        assert!(GATES.iter().all(|gate| spoil.iter().any(|(name, _)| *name == gate.0)));
        for (name, act) in spoil {
            let mut outcome = open();
            act(&mut outcome);
            assert_eq!(standing(&outcome, name, &[]), Standing::Failed, "{name}");
            assert_eq!(standing(&outcome, name, &[(*name).to_owned()]), Standing::Waived, "{name}");
            let others = judge(&outcome, &[]).into_iter().filter(|gate| gate.standing == Standing::Failed).count();
            assert_eq!(others, 1, "{name}");
        }
    }

    /// Of 10,000 requests some are pending half-way and some at the end.
    #[test]
    fn a_rate_is_kept_where_requests_do_not_pile_up() {
        for (half_way, at_end, is_kept) in [
            (0, 0, true),
            // Each takes a quarter of the schedule's time.
            (2500, 2500, true),
            (2500, 2650, true),
            (0, 90, true),
            // The server reaches 98%, a half, a tenth.
            (100, 200 + 30, false),
            (2500, 5000, false),
            (4500, 9000, false),
            // It has caught up.
            (3000, 10, true),
        ] {
            let mut outcome = open();
            (outcome.tally.answers, outcome.tally.due) = (10_000, 10_000);
            (outcome.tally.pending_half_way, outcome.tally.pending_at_end) = (half_way, at_end);
            let expected = if is_kept { Standing::Held } else { Standing::Failed };
            assert_eq!(standing(&outcome, "rate", &[]), expected, "{half_way} {at_end}");
        }
    }

    #[test]
    fn a_closed_loop_that_uses_its_processor_up_is_warned_of() {
        let mut outcome = Outcome::of(Load::Closed);
        outcome.busiest = 0.99;
        assert_eq!(standing(&outcome, "saturated", &[]), Standing::Warned);
    }
}
