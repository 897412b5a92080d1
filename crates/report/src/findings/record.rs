//! Findings about a record and its cases as a whole: failures, limits, crashes, skips.

use super::{Finding, Kind, weight};
use crate::quantity::count;
use crate::{Analysis, CaseStudy, text};
use landau_record::schema::Crash;

/// Adds the findings that concern no single case.
pub(super) fn of_record(analysis: &Analysis<'_>, found: &mut Vec<Finding>) {
    let record = analysis.record;
    if let Some(fault) = &record.fault {
        let text = format!("The record was altered after it was written, line {}: {}.", fault.line, fault.reason);
        found.push(Finding::new(Kind::Failure, None, f64::INFINITY, text));
    }
    for crash in record.crashes.iter().filter(|crash| crash.pass.is_none()) {
        found.push(Finding::new(Kind::Crash, None, 2.0, format!("{}.", crash_text(crash, "objects"))));
    }
    for skip in &record.skips {
        let reason = skip.reason.trim_start_matches("skipped, ").trim_start_matches("because ").trim_end_matches('.');
        found.push(Finding::new(Kind::Skip, None, 1.0, format!("{} was skipped: {reason}.", skip.label)));
    }
    for cut in &record.cuts {
        let passes = if cut.pass_count == 1 { "1 pass".to_owned() } else { format!("{} passes", cut.pass_count) };
        let text = format!("{}: {passes} skipped: {}.", cut.label, cut.reason.trim_end_matches('.'));
        found.push(Finding::new(Kind::Skip, None, 0.0, text));
    }
}

/// Adds the findings about one case that need no curve.
pub(super) fn of_case(study: &CaseStudy<'_>, found: &mut Vec<Finding>) {
    let case = study.case;
    let plain = |kind, weight, text| Finding::new(kind, Some(case.case), weight, text);
    for failure in &study.failures {
        found.push(plain(Kind::Failure, 1.0, format!("{}: {failure}.", case.label)));
    }
    found.extend(limit(study));
    for crash in &study.crashes {
        found.push(plain(Kind::Crash, 1.0, format!("{}: {}.", case.label, crash_text(crash, &case.axis))));
    }
    if let Some(reduced) = &case.reduced {
        let (requested, n) = (count(reduced.requested as f64), count(case.n as f64));
        let reason = reduced.reason.trim_end_matches('.');
        let text = format!("{}: reduced from {requested} to {n} {}: {reason}.", case.label, case.axis);
        found.push(plain(Kind::Skip, 2.0, text));
    }
}

/// Returns the finding about a limit. Variants that reach the same limit share it.
fn limit(study: &CaseStudy<'_>) -> Option<Finding> {
    let (case, met) = (study.case, study.limit.as_ref()?);
    let (limit, at) = (met.limit, met.at());
    let meaning = limit.meaning.trim_end_matches('.');
    let raise = match text::command_and_remark(&limit.raise) {
        ("", _) => String::new(),
        (command, remark) => format!("To raise the limit: `{command}`{remark}."),
    };
    let text = format!(
        "{}: {} fails with {} at n = {at} {}: {meaning}.",
        text::variant(&case.benchmark, &case.label),
        limit.call,
        limit.error,
        case.axis
    );
    let theme = format!("{} {} {} {}", case.benchmark, limit.call, limit.error, limit.meaning);
    let brief = format!("{} (at {at})", case.label);
    // The curve of the failing call, if it has one.
    let of_call = study.phases.iter().find(|phase| phase.phase.name == limit.call);
    let phase = of_call.or(study.phases.first()).map(|phase| phase.phase.name.clone());
    let of_case = Finding::of_case(Kind::Limit, study, weight::LIMIT, text, theme, brief);
    Some(Finding { consequence: raise, phase, ..of_case })
}

/// Describes where the kernel stopped, whether it does so in each boot, and the last line of its console.
pub fn crash_text(crash: &Crash, axis: &str) -> String {
    let place = crash.last_n.map_or(String::new(), |n| format!(" after {} {axis}", count(n as f64)));
    let again = match (crash.same_place, crash.boots) {
        (Some(true), boots) => format!(", at the same point in each of {boots} boots"),
        (Some(false), boots) => {
            let places: Vec<String> = crash.every_last_n.iter().map(|n| count(*n as f64)).collect();
            let places = if places.is_empty() { String::new() } else { format!(": {}", places.join(", ")) };
            format!(", at a different point in each of {boots} boots{places}")
        }
        (None, _) => ", seen in one boot only".to_owned(),
    };
    let last = crash.console.iter().rev().find(|line| !line.trim().is_empty());
    let last = last.map_or(String::new(), |line| format!("; last console line: “{}”", line.trim()));
    format!("{}{place}{again}{last}", crash.meaning.trim_end_matches('.'))
}
