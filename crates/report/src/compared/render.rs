//! A comparison as text: what changed, in detail; a line for each other curve; and what was not compared.

use super::{CliffChange, Compared, CurveComparison, LEVEL, Quantity, Side};
use crate::findings::curves;
use crate::quantity::{Unit, count, factor, percent};
use crate::table::grid::{self, bold};
use crate::table::{Layout, plain, wrapped};
use crate::text;
use landau_record::schema::Direction;
use landau_stats::quantile::median;
use landau_stats::{Agreement, Cliff, Estimate, Nature, OutlierChange};

/// The column width for the names of details.
const NAME: usize = 12;
/// The maximum widths of the columns of laws and of curves.
const LAW_MAX: usize = 20;
const CURVE_MAX: usize = 44;

pub(super) fn text(one: &Compared, changed: bool, layout: Layout) -> String {
    let mut parts = vec![head(one, layout)];
    let (loud, quiet): (Vec<&CurveComparison>, Vec<&CurveComparison>) = one.curves.iter().partition(|one| one.changed);
    if !one.alarms.is_empty() {
        let lines = one.alarms.iter().map(|alarm| line(&format!("{}: {}", alarm.kind, alarm.text), 2, layout));
        parts.push(section("Failures and crashes", lines, layout));
    }
    parts.extend(loud.iter().map(|curve| details(curve, one, layout)));
    if !one.limits.is_empty() {
        let lines = one.limits.iter().map(|limit| line(&format!("{}: {}", limit.case, limit.text), 2, layout));
        parts.push(section("Limits that changed", lines, layout));
    }
    if !changed && !quiet.is_empty() {
        parts.push(unchanged(&quiet, one, layout));
    }
    if !one.not_compared.is_empty() {
        let lines = one.not_compared.iter().map(|missing| {
            let phase = missing.phase.as_ref().map_or(String::new(), |phase| format!(" · {phase}"));
            line(&format!("{}{phase}: {}", missing.case, missing.reason), 2, layout)
        });
        parts.push(section("Not compared", lines, layout));
    }
    parts.join("\n\n")
}

fn section(title: &str, lines: impl Iterator<Item = String>, layout: Layout) -> String {
    std::iter::once(bold(title, layout)).chain(lines).collect::<Vec<_>>().join("\n")
}

/// Wraps a text with an indent to the width of the terminal.
fn line(text: &str, indent: usize, layout: Layout) -> String {
    let width = layout.width.saturating_sub(indent as u16 + 2).max(40);
    let text = wrapped(text, Layout { width, ..layout });
    format!("{}{}", " ".repeat(indent), text.replace('\n', &format!("\n{}", " ".repeat(indent + 2))))
}

/// Returns the records, and how many curves changed.
fn head(one: &Compared, layout: Layout) -> String {
    let side = |role: &str, side: &Side| {
        let Side { name, host, started, study } = side;
        let day = started.get(..16).map_or(started.clone(), |minute| minute.replace('T', " "));
        plain(&format!("{role}  {name}: {study} study, {host}, {day} UTC"))
    };
    let mut lines = if one.variants {
        vec![side("record", &one.base), "Each variant is compared with the default case of its benchmark.".to_owned()]
    } else {
        vec![side("base", &one.base), side("new ", &one.new)]
    };
    if !one.differences.is_empty() {
        lines.push(line(&format!("new differs in {}", one.differences.join(", ")), 0, layout));
    }
    lines.push(String::new());
    lines.push(wrapped(&summary(one), layout));
    if let Some(shift) = &one.shift {
        let names = [one.base.name.clone(), one.new.name.clone()];
        lines.extend([String::new(), wrapped(&shift.text(&names), layout)]);
    }
    lines.join("\n")
}

fn summary(one: &Compared) -> String {
    let all = one.curves.len();
    let changed = one.curves.iter().filter(|curve| curve.changed).count();
    if all == 0 {
        return "No curve could be compared.".to_owned();
    }
    let shown = match changed {
        0 => format!("No change is shown in {}.", curves(all)),
        some => format!("{some} of {} changed.", curves(all)),
    };
    if one.unit == Unit::Instructions {
        return format!("{shown} Counts are exact: differences of 2% or more are reported.");
    }
    let quiet = one.curves.iter().filter(|curve| !curve.changed);
    // A shift of the costs already states it for all curves.
    let is_told = one.shift.is_some_and(|shift| shift.deviation > 0.0);
    let seen = if is_told { None } else { median(quiet.filter_map(|curve| curve.detectable)) };
    let seen = seen.map_or(String::new(), |middle| {
        let place = match (all - changed, changed) {
            (1, 0) => "",
            (1, _) => " in the other one",
            (_, 0) => " in half of them",
            _ => " in half of the others",
        };
        format!(" A difference of {} would have been detected{place}.", text::detectable(middle))
    });
    let level = percent(1.0 - LEVEL);
    format!(
        "{shown}{seen} Intervals are 95%. Claims of different costs, and those of different growths, hold at {level} \
         over all curves together; cliffs, limits and outliers are compared by fixed rules."
    )
}

/// Returns the name of a curve: "bind · ↓ close".
fn name(curve: &CurveComparison) -> String {
    let arrow = if curve.direction == Direction::Down { "↓ " } else { "" };
    format!("{} · {arrow}{}", curve.case, curve.phase)
}

/// Describes a curve that changed: the result, then each detail.
fn details(curve: &CurveComparison, one: &Compared, layout: Layout) -> String {
    let names = if one.variants {
        [curve.base_case.as_str(), curve.case.as_str()]
    } else {
        [one.base.name.as_str(), one.new.name.as_str()]
    };
    let mut lines = vec![bold(&plain(&name(curve)), layout), line(&format!("{}.", curve.text), 2, layout)];
    let mut detail = |name: &str, text: String| {
        let text = line(&text, NAME + 2, layout);
        lines.push(format!("  {name:<NAME$}{}", text.trim_start()));
    };
    let unit = one.unit;
    let at = curve
        .at
        .iter()
        .filter_map(|at| Some(format!("{} at n = {}", text::ratio_with_interval(at.ratio?, unit), count(at.n))));
    detail("ratio", at.collect::<Vec<_>>().join(", "));
    detail("law", law(curve, names, unit));
    if let (Some(law), true) = (curve.law.common, curve.slope.ratio.is_some() || curve.fixed_cost.ratio.is_some()) {
        let parts = [("slope", &curve.slope), ("fixed cost", &curve.fixed_cost)];
        let parts = parts.iter().filter_map(|(name, one)| Some(format!("{name} {}", quantity(one, unit)?)));
        detail("common fit", format!("{law}: {}", parts.collect::<Vec<_>>().join("; ")));
    }
    if let Some(crossing) = curve.crossing {
        let interval = match unit {
            Unit::Instructions => String::new(),
            _ => format!(" (95% CI {}–{})", count(crossing.n.low), count(crossing.n.high)),
        };
        detail("crossing", format!("at n = {}{interval}", count(crossing.n.value)));
    }
    for change in &curve.cliffs {
        detail("cliff", cliff(change, names));
    }
    for change in &curve.outliers {
        detail("outliers", outliers(change, names));
    }
    lines.join("\n")
}

/// Describes the laws of both sides, and the growth.
fn law(curve: &CurveComparison, [from, to]: [&str; 2], unit: Unit) -> String {
    let [a, b] = &curve.law.outcomes;
    let laws = match curve.law.same {
        _ if a == b => format!("{a} in both"),
        Agreement::Same => format!("{a} in {from}, {b} in {to}: either may be the law of both"),
        Agreement::Different if curve.growth_changed || unit == Unit::Instructions => {
            format!("{a} in {from}, {b} in {to}")
        }
        _ => format!("{a} in {from}, {b} in {to}: not shown to differ"),
    };
    let growth = curve.growth.ratio.map(|ratio| text::ratio_with_interval(ratio, unit));
    let growth = growth.map_or(String::new(), |by| match (curve.growth_changed, curve.growth.same, curve.nature) {
        (true, _, Nature::Factor) => format!("; {to} grows {by} as much, which is within 10%"),
        (true, ..) => format!("; {to} grows {by} as much"),
        (false, Agreement::Same, _) => format!("; they grow alike, {by}"),
        (false, ..) => format!("; growth {by}, not shown to differ"),
    });
    format!("{laws}{growth}")
}

fn quantity(one: &Quantity, unit: Unit) -> Option<String> {
    let ratio = text::ratio_with_interval(one.ratio?, unit);
    Some(match one.same {
        Agreement::Same => format!("{ratio}, the same within 10%"),
        // The interval is not corrected for the number of curves, so nothing else is stated.
        Agreement::Different => ratio,
        Agreement::Inconclusive => format!("{ratio}, not shown to differ"),
    })
}

fn cliff(change: &CliffChange, [from, to]: [&str; 2]) -> String {
    let told = |cliff: &Cliff| format!("{} at n = {}", factor(cliff.factor), count(cliff.n.value));
    match (&change.base, &change.new) {
        (Some(a), Some(b)) => format!("{} in {from}, {} in {to}", told(a), told(b)),
        (Some(a), None) => format!("{} in {from}, none in {to}", told(a)),
        (None, Some(b)) => format!("{} in {to}, none in {from}", told(b)),
        (None, None) => String::new(),
    }
}

fn outliers(change: &OutlierChange, [from, to]: [&str; 2]) -> String {
    let place = change.rule.map_or_else(
        || {
            let first = format!("n = {}", count(f64::from(change.first_n)));
            if change.positions == 1 {
                format!("at {first}")
            } else {
                format!("at {} n, the first {first}", count(change.positions as f64))
            }
        },
        |rule| text::rule(rule, change.first_n),
    );
    let [a, b] = change.shares.map(percent);
    let (has, lacks) = if change.came { (to, from) } else { (from, to) };
    let (with, without) = if change.came { (b, a) } else { (a, b) };
    format!("recur in {has} and not in {lacks}, {place} ({with} of these calls against {without})")
}

/// Lists the curves without a change, a line each.
fn unchanged(curves: &[&CurveComparison], one: &Compared, layout: Layout) -> String {
    let is_exact = one.unit == Unit::Instructions;
    let title = if is_exact { "No relevant difference" } else { "No difference proven" };
    let last = if is_exact { "" } else { "Detectable difference" };
    let header = ["Curve", "Ratio over n", "Law", last].map(str::to_owned);
    let ratio =
        |ratio: Option<Estimate>| ratio.map_or("–".to_owned(), |ratio| text::ratio_with_interval(ratio, one.unit));
    let cells: Vec<[String; 4]> = curves
        .iter()
        .map(|curve| {
            let law = match (curve.law.base, curve.law.new) {
                (Some(a), Some(b)) if a == b => a.to_owned(),
                (Some(a), Some(b)) => format!("{a}, {b}"),
                _ => "–".to_owned(),
            };
            let seen = curve.detectable.filter(|_| !is_exact).map_or(String::new(), text::detectable);
            [plain(&name(curve)), ratio(curve.ratio), law, seen]
        })
        .collect();
    let mut widths = grid::needed(cells.iter().chain([&header]).map(|cells| &cells[..]));
    widths[2] = widths[2].min(LAW_MAX);
    let others = grid::used(&widths) - widths[0];
    widths[0] = widths[0].min(CURVE_MAX).min(usize::from(layout.width).saturating_sub(others).max(20));
    let body = cells.iter().map(|cells| grid::line(cells, &widths));
    let head = [bold(title, layout), grid::line(&header, &widths), grid::rule(&widths, layout)];
    head.into_iter().chain(body).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guards against "at 1 n".
    #[test]
    fn a_single_position_is_told_by_its_n() {
        let told = |positions| {
            let change = OutlierChange { came: true, rule: None, first_n: 1_256, positions, shares: [0.0, 0.8] };
            outliers(&change, ["old", "new"])
        };
        assert_eq!(told(1), "recur in new and not in old, at n = 1,256 (80% of these calls against 0%)");
        let several = "recur in new and not in old, at 5 n, the first n = 1,256 (80% of these calls against 0%)";
        assert_eq!(told(5), several);
    }
}
