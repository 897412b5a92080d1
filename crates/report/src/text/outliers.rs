//! Outliers in words: the recurring ones by their pattern, the isolated ones by their number.

use crate::quantity::{FormatCost, Unit, count, digits};
use landau_stats::{Exact, Outliers, Pattern, PatternRule, Verdict};

/// Positions named of a group.
const POSITIONS: usize = 3;
/// Patterns named of timed costs.
const PATTERNS: usize = 2;
/// Periods named of counted costs, and patterns of other kinds.
const EXACT_PATTERNS: (usize, usize) = (3, 1);

pub(crate) fn is_first_calls(pattern: &Pattern) -> bool {
    pattern.rule == PatternRule::FirstCalls
}

/// The recurring outliers: "1.3–20 ms at n + 3 = 256, 512, 1,024 …; first calls, 11–14 µs". Empty if none recur.
pub fn recurring(verdict: &Verdict) -> String {
    of(verdict, |_| true)
}

/// The same without the first calls, which are slower in every process.
pub(crate) fn without_first_calls(verdict: &Verdict) -> String {
    of(verdict, |pattern| !is_first_calls(pattern))
}

fn of(verdict: &Verdict, is_told: impl Fn(&Pattern) -> bool) -> String {
    let (outliers, unit) = (&verdict.outliers, verdict.all.unit);
    if outliers.patterns.is_empty() {
        return positions(outliers, unit);
    }
    let named: Vec<&Pattern> = if verdict.exact.is_some() {
        let (periodic, other): (Vec<&Pattern>, Vec<&Pattern>) =
            outliers.patterns.iter().partition(|one| matches!(one.rule, PatternRule::Periodic { .. }));
        periodic.into_iter().take(EXACT_PATTERNS.0).chain(other.into_iter().take(EXACT_PATTERNS.1)).collect()
    } else {
        outliers.patterns.iter().take(PATTERNS).collect()
    };
    let texts: Vec<String> = named.into_iter().filter(|one| is_told(one)).map(|one| pattern(verdict, one)).collect();
    texts.join("; ")
}

/// One pattern: "1.3–20 ms at n + 3 = 256, 512, 1,024 …", "2.2 µs every 512 calls, first at n = 37".
pub(crate) fn pattern(verdict: &Verdict, pattern: &Pattern) -> String {
    let outliers = &verdict.outliers;
    let costs = verdict.all.unit.costs(pattern.cost_min as f64, pattern.cost_max as f64);
    match pattern.rule {
        PatternRule::PowersOfTwo { offset } => {
            let n = outliers.following(pattern).map(|n| f64::from(n) + f64::from(offset));
            let sum = match offset {
                0 => "n".to_owned(),
                offset if offset > 0 => format!("n + {offset}"),
                offset => format!("n − {}", -offset),
            };
            format!("{costs} at {sum} = {}", listed(n, pattern.count))
        }
        PatternRule::Periodic { period, phase } => {
            let every = format!("{costs} every {} calls", count(f64::from(period)));
            if verdict.exact.is_some() {
                // Counted periods start at another call in each pass.
                return every;
            }
            // A phase of zero is no position; the first outlier that follows the rule is.
            let first = outliers.following(pattern).next().unwrap_or(phase);
            format!("{every}, first at n = {}", count(f64::from(first)))
        }
        PatternRule::FirstCalls => format!("{costs} in the first calls"),
    }
}

/// Recurring outliers that follow no pattern: their range and the first positions.
fn positions(outliers: &Outliers, unit: Unit) -> String {
    let recurring = &outliers.recurring;
    let (Some(low), Some(high)) =
        (recurring.iter().map(|one| one.cost_min).min(), recurring.iter().map(|one| one.cost_max).max())
    else {
        return String::new();
    };
    let n = recurring.iter().map(|one| f64::from(one.n));
    format!("{} at n = {}", unit.costs(low as f64, high as f64), listed(n, recurring.len()))
}

fn listed(n: impl Iterator<Item = f64>, all: usize) -> String {
    let named: Vec<String> = n.take(POSITIONS).map(count).collect();
    let more = if all > POSITIONS { " …" } else { "" };
    format!("{}{more}", named.join(", "))
}

/// The caption of a chart of single calls.
pub fn caption(verdict: &Verdict) -> String {
    let recurring = recurring(verdict);
    let isolated = verdict.outliers.isolated;
    if let Some(exact) = &verdict.exact {
        let mut parts = vec![exact_costs(exact, is_flat(verdict))];
        if !recurring.is_empty() {
            parts.push(format!("recurring: {recurring}"));
        }
        if isolated > 0 {
            parts.push(format!("an interrupt hit {} calls", count(isolated as f64)));
        }
        parts.retain(|part| !part.is_empty());
        return format!("{}.", parts.join("; "));
    }
    match (recurring.as_str(), isolated) {
        ("", 0) => "No recurring and no isolated outliers.".to_owned(),
        ("", 1) => "No recurring outliers. 1 isolated outlier, probably interference.".to_owned(),
        ("", many) => {
            format!("No recurring outliers. {} isolated outliers, probably interference.", count(many as f64))
        }
        (recurring, _) => format!("Recurring outliers: {recurring}."),
    }
}

/// Whether the constant law was fitted.
fn is_flat(verdict: &Verdict) -> bool {
    verdict.all.fit.as_ref().is_some_and(|fit| fit.slope.is_none())
}

/// "4,122 instructions in 67% of the calls, 4,157 in 8%; mean 6,904".
fn exact_costs(exact: &Exact, is_flat: bool) -> String {
    let Some((cost, share)) = exact.common.first() else { return String::new() };
    if exact.distinct == 1 {
        return format!("every call costs {} instructions", count(*cost as f64));
    }
    // Where hardly two calls cost the same, no cost is common.
    let head = if *share >= 0.1 && is_flat {
        let others = exact.common.iter().skip(1).take(2).filter(|(_, share)| *share >= 0.01);
        let mut text = format!("{} instructions in {}% of the calls", count(*cost as f64), digits(share * 100.0));
        for (cost, share) in others {
            text.extend([", ", &count(*cost as f64), " in ", &digits(share * 100.0), "%"]);
        }
        text
    } else {
        format!("{} different costs", count(exact.distinct as f64))
    };
    format!("{head}; mean {}", count(exact.mean))
}
