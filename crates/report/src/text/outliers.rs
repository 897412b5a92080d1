//! Outliers in words: the recurring ones by their pattern, the isolated ones by their number.

use crate::quantity::{FormatCost, Unit, count, digits, numbered};
use landau_stats::{Exact, Pattern, PatternRule, RecurringOutlier, Verdict};

/// Maximum number of positions named for a group.
const POSITIONS: usize = 3;
/// Maximum number of patterns named for timed costs.
const PATTERNS: usize = 2;
/// Maximum numbers of periods, and of other patterns, named for counted costs.
const EXACT_PATTERNS: (usize, usize) = (3, 1);

pub(crate) fn is_first_calls(pattern: &Pattern) -> bool {
    pattern.rule == PatternRule::FirstCalls
}

/// Describes the recurring outliers: "1.3–20 ms at n + 3 = 256, 512, 1,024 …; first calls, 11–14 µs". Empty if none
/// recur.
pub fn recurring(verdict: &Verdict) -> String {
    of(verdict, |_| true)
}

/// Describes the recurring outliers except the first calls, which are slower in every process.
pub(crate) fn without_first_calls(verdict: &Verdict) -> String {
    of(verdict, |pattern| !is_first_calls(pattern))
}

/// Describes the recurring outliers that follow no rule, if one of them costs at least `least`.
pub(crate) fn costly_positions(verdict: &Verdict, least: u64) -> Option<String> {
    let rest = verdict.outliers.without_pattern();
    let is_costly = rest.iter().any(|call| call.cost_max >= least);
    positions(&rest, verdict.all.unit).filter(|_| is_costly)
}

/// Returns the highest cost of a recurring outlier, except the first calls; `None` if there is none.
pub(crate) fn highest_outlier(verdict: &Verdict) -> Option<u64> {
    let outliers = &verdict.outliers;
    let others = outliers.patterns.iter().filter(|one| !is_first_calls(one));
    others.map(|one| one.cost_max).chain(outliers.without_pattern().iter().map(|call| call.cost_max)).max()
}

fn of(verdict: &Verdict, is_told: impl Fn(&Pattern) -> bool) -> String {
    let (outliers, unit) = (&verdict.outliers, verdict.all.unit);
    let named: Vec<&Pattern> = if verdict.exact.is_some() {
        let (periodic, other): (Vec<&Pattern>, Vec<&Pattern>) =
            outliers.patterns.iter().partition(|one| matches!(one.rule, PatternRule::Periodic { .. }));
        periodic.into_iter().take(EXACT_PATTERNS.0).chain(other.into_iter().take(EXACT_PATTERNS.1)).collect()
    } else {
        outliers.patterns.iter().take(PATTERNS).collect()
    };
    let texts = named.into_iter().filter(|one| is_told(one)).map(|one| pattern(verdict, one));
    let texts: Vec<String> = texts.chain(positions(&outliers.without_pattern(), unit)).collect();
    texts.join("; ")
}

/// Describes one pattern: "1.3–20 ms at n + 3 = 256, 512, 1,024 …", "2.2 µs every 512 calls, first at n = 37".
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
                // Counted periods start at a different call in each pass.
                return every;
            }
            // A phase of zero is not a position, so the first outlier that follows the rule is named.
            let first = outliers.following(pattern).next().unwrap_or(phase);
            format!("{every}, first at n = {}", count(f64::from(first)))
        }
        PatternRule::FirstCalls => format!("{costs} in the first calls"),
    }
}

/// Describes the positions of the outliers of a rule, without their costs: "every 512 calls, first at n = 37".
pub(crate) fn rule(rule: PatternRule, first_n: u32) -> String {
    let first = count(f64::from(first_n));
    match rule {
        PatternRule::PowersOfTwo { offset: 0 } => format!("where n is a power of two, first at n = {first}"),
        PatternRule::PowersOfTwo { offset } => {
            let sum = if offset > 0 { format!("n + {offset}") } else { format!("n − {}", -offset) };
            format!("where {sum} is a power of two, first at n = {first}")
        }
        PatternRule::Periodic { period, .. } => {
            format!("every {} calls, first at n = {first}", count(f64::from(period)))
        }
        PatternRule::FirstCalls => "in the first calls".to_owned(),
    }
}

/// Describes recurring outliers that follow no pattern: their range and the first positions. `None` if there are none.
fn positions(recurring: &[&RecurringOutlier], unit: Unit) -> Option<String> {
    let low = recurring.iter().map(|one| one.cost_min).min()?;
    let high = recurring.iter().map(|one| one.cost_max).max()?;
    let n = recurring.iter().map(|one| f64::from(one.n));
    Some(format!("{} at n = {}", unit.costs(low as f64, high as f64), listed(n, recurring.len())))
}

fn listed(n: impl Iterator<Item = f64>, all: usize) -> String {
    let named: Vec<String> = n.take(POSITIONS).map(count).collect();
    let more = if all > POSITIONS { " …" } else { "" };
    format!("{}{more}", named.join(", "))
}

/// Returns the caption of a chart of single calls.
pub fn caption(verdict: &Verdict) -> String {
    let recurring = recurring(verdict);
    let isolated = verdict.outliers.isolated;
    if let Some(exact) = &verdict.exact {
        let mut parts = vec![exact_costs(exact, is_flat(verdict))];
        if !recurring.is_empty() {
            parts.push(format!("recurring: {recurring}"));
        }
        if isolated > 0 {
            parts.push(format!("an interrupt hit {}", numbered(isolated, "call", "calls")));
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

/// Returns whether the constant law was fitted.
fn is_flat(verdict: &Verdict) -> bool {
    verdict.all.fit.as_ref().is_some_and(|fit| fit.slope.is_none())
}

/// Formats "4,122 instructions in 67% of the calls, 4,157 in 8%; mean 6,904".
fn exact_costs(exact: &Exact, is_flat: bool) -> String {
    let Some((cost, share)) = exact.common.first() else { return String::new() };
    if exact.distinct == 1 {
        return format!("every call costs {} instructions", count(*cost as f64));
    }
    // If hardly two calls cost the same, no cost is common.
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

#[cfg(test)]
mod tests {
    use super::super::fixture::{fit, verdict};
    use super::*;

    /// The unit, recurring outliers as (n, cost), patterns, and the expected text.
    type Case<'a> = (Unit, &'a [(u32, u64)], Vec<Pattern>, &'static str);

    fn rule(rule: PatternRule, cost_min: u64, cost_max: u64, count: usize) -> Pattern {
        Pattern { rule, count, kept: 1.0, factor: 10.0, cost_min, cost_max }
    }

    fn exact(common: &[(u64, f64)], distinct: usize, mean: f64) -> Exact {
        Exact { agree: 1.0, common: common.to_vec(), distinct, mean, interrupted: 0 }
    }

    /// A verdict whose outliers follow these patterns.
    fn with(unit: Unit, recurring: &[(u32, u64)], patterns: Vec<Pattern>) -> Verdict {
        let mut verdict = verdict(unit, recurring);
        verdict.exact = (unit == Unit::Instructions).then(|| exact(&[(4122, 1.0)], 1, 4122.0));
        verdict.outliers.patterns = patterns;
        verdict
    }

    const TABLE: [(u32, u64); 4] = [(125, 1_300_000), (253, 5_000_000), (509, 9_000_000), (1021, 20_000_000)];

    #[test]
    fn each_pattern_has_its_words() {
        let periodic = |phase| PatternRule::Periodic { period: 14, phase };
        let powers = |offset| PatternRule::PowersOfTwo { offset };
        let shifted = |by: u32| TABLE.map(|(n, cost)| (n + by, cost));
        let table = |offset| vec![rule(powers(offset), 1_300_000, 20_000_000, 4)];
        let (time, exact) = (Unit::Time, Unit::Instructions);
        let cases: [Case<'_>; 10] = [
            (exact, &[], vec![rule(periodic(5), 17_578, 17_578, 400)], "17,578 instructions every 14 calls"),
            (
                time,
                &[(19, 2200), (33, 2200)],
                vec![rule(periodic(5), 2200, 2200, 2)],
                "2.2 µs every 14 calls, first at n = 19",
            ),
            (time, &[], vec![rule(periodic(5), 2200, 2500, 9)], "2.2–2.5 µs every 14 calls, first at n = 5"),
            (time, &TABLE, table(3), "1.3–20 ms at n + 3 = 128, 256, 512 …"),
            (time, &shifted(3), table(0), "1.3–20 ms at n = 128, 256, 512 …"),
            (time, &shifted(4), table(-1), "1.3–20 ms at n − 1 = 128, 256, 512 …"),
            (time, &[], vec![rule(PatternRule::FirstCalls, 11_000, 14_000, 3)], "11–14 µs in the first calls"),
            (time, &[(70, 3000), (91, 3400)], vec![], "3–3.4 µs at n = 70, 91"),
            (time, &[(1, 3000), (5, 3000), (6, 3000), (9, 3000)], vec![], "3 µs at n = 1, 5, 6 …"),
            (time, &[], vec![], ""),
        ];
        for (unit, places, patterns, words) in cases {
            assert_eq!(recurring(&with(unit, places, patterns)), words);
        }
    }

    #[test]
    fn the_first_patterns_are_named_and_first_calls_can_be_left_out() {
        let periodic = |period, cost| rule(PatternRule::Periodic { period, phase: 0 }, cost, cost, 9);
        let first = || rule(PatternRule::FirstCalls, 9_000, 9_000, 3);
        let timed = with(Unit::Time, &[], vec![first(), periodic(14, 2200), periodic(21, 2000)]);
        assert_eq!(recurring(&timed), "9 µs in the first calls; 2.2 µs every 14 calls, first at n = 0");
        assert_eq!(without_first_calls(&timed), "2.2 µs every 14 calls, first at n = 0");
        let counted = vec![first(), periodic(14, 17_578), periodic(21, 14_106)];
        let counted = with(Unit::Instructions, &[], counted);
        let both = "17,578 instructions every 14 calls; 14,106 instructions every 21 calls";
        assert_eq!(recurring(&counted), format!("{both}; 9,000 instructions in the first calls"));
        assert_eq!(without_first_calls(&counted), both);
    }

    /// Guards against losing positions without a rule if there are also patterns.
    #[test]
    fn positions_beside_patterns_are_named() {
        let first = || rule(PatternRule::FirstCalls, 9_000, 9_000, 2);
        let places = [(1, 9_000), (2, 9_000), (70, 9_000), (91, 12_000)];
        let beside = with(Unit::Time, &places, vec![first()]);
        assert_eq!(recurring(&beside), "9 µs in the first calls; 9–12 µs at n = 70, 91");
        assert_eq!(without_first_calls(&beside), "9–12 µs at n = 70, 91");
        assert_eq!(highest_outlier(&beside), Some(12_000));
        let alone = with(Unit::Time, &places[..2], vec![first()]);
        assert_eq!((without_first_calls(&alone), highest_outlier(&alone)), (String::new(), None));
    }

    #[test]
    fn timed_captions_state_isolated_outliers_only_where_none_recur() {
        let caption_of = |recurring: &[(u32, u64)], isolated| {
            let mut verdict = verdict(Unit::Time, recurring);
            verdict.outliers.isolated = isolated;
            caption(&verdict)
        };
        assert_eq!(caption_of(&[], 0), "No recurring and no isolated outliers.");
        assert_eq!(caption_of(&[], 1), "No recurring outliers. 1 isolated outlier, probably interference.");
        assert_eq!(caption_of(&[], 1200), "No recurring outliers. 1,200 isolated outliers, probably interference.");
        assert_eq!(caption_of(&[(7, 2200)], 5), "Recurring outliers: 2.2 µs at n = 7.");
    }

    #[test]
    fn counted_captions_state_the_costs() {
        let mixed = [(4122, 0.67), (4157, 0.08), (4200, 0.001)];
        let periodic = rule(PatternRule::Periodic { period: 14, phase: 5 }, 17_578, 17_578, 9);
        let cases = [
            (exact(&[(4122, 1.0)], 1, 4122.0), vec![], 0, "every call costs 4,122 instructions."),
            (
                exact(&mixed, 9, 6904.0),
                vec![periodic],
                0,
                "4,122 instructions in 67% of the calls, 4,157 in 8%; mean 6,904; \
                 recurring: 17,578 instructions every 14 calls.",
            ),
            (
                exact(&[(4122, 0.01)], 300, 5000.0),
                vec![],
                2,
                "300 different costs; mean 5,000; an interrupt hit 2 calls.",
            ),
        ];
        for (costs, patterns, isolated, words) in cases {
            let mut verdict = with(Unit::Instructions, &[], patterns);
            verdict.all.fit = Some(fit("constant", 4122.0, None));
            verdict.exact = Some(costs);
            verdict.outliers.isolated = isolated;
            assert_eq!(caption(&verdict), words);
        }
    }
}
