//! Quantities by connections that are not phases: percentiles of the latency, memory and failures.

use super::{LATENCY, is_of, label};
use crate::page::View;
use crate::quantity::count;
use crate::section::scrolling;
use crate::section::study_2001::phase;
use crate::{CaseStudy, facts};
use maud::{Markup, html};

/// The fact with the server's processor time per reply at one n.
pub(super) const TIME: &str = "server_processor_time_per_reply";

/// Minimum number of samples beyond a percentile.
const BEYOND: f64 = 2.0;

/// Returns a quantile of the latency by n, over all samples of all passes from each power of two to the next, at the
/// geometric mean of the two. A bin with fewer than two samples beyond the quantile has no point.
pub(super) fn latency(study: &CaseStudy<'_>, share: f64) -> Vec<(f64, f64)> {
    let passes = phase(study, LATENCY).map_or(&[][..], |phase| &phase.curve.passes);
    let mut bins: Vec<Vec<u64>> = Vec::new();
    for pass in passes {
        for (&n, &cost) in pass.n.iter().zip(&pass.costs) {
            let bin = n.max(1).ilog2() as usize;
            if bins.len() <= bin {
                bins.resize_with(bin + 1, Vec::new);
            }
            bins[bin].push(cost);
        }
    }
    let largest = passes.iter().flat_map(|pass| &pass.n).copied().max().unwrap_or(1);
    let of_bin = |(bin, mut costs): (usize, Vec<u64>)| {
        let from = (1_u64 << bin) as f64;
        let to = (2.0 * from - 1.0).min(f64::from(largest));
        costs.sort_unstable();
        let has_tail = costs.len() as f64 * (1.0 - share) >= BEYOND;
        let at = (costs.len() as f64 * share) as usize;
        has_tail.then(|| costs.get(at).map(|&cost| ((from * to).sqrt(), cost as f64))).flatten()
    };
    bins.into_iter().enumerate().filter_map(of_bin).filter(|(_, cost)| *cost > 0.0).collect()
}

/// Returns the server's processor time per reply since the n before, as the mean of the passes, in nanoseconds.
pub(super) fn processor_time(study: &CaseStudy<'_>) -> Vec<(f64, f64)> {
    means(study, TIME)
}

/// Returns the server's private memory per connection by n, as the mean of the passes, in bytes.
pub(super) fn memory(study: &CaseStudy<'_>) -> Vec<(f64, f64)> {
    means(study, "server_memory_per_connection")
}

/// Returns the mean of a fact's values by n.
fn means(study: &CaseStudy<'_>, name: &str) -> Vec<(f64, f64)> {
    let series = facts::by_n(study, name);
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    series.iter().map(|(n, values)| (*n as f64, mean(values))).filter(|(_, value)| *value > 0.0).collect()
}

/// Renders the number of connections without a whole reply, by architecture, reason and n.
pub(super) fn failures(view: &View<'_>) -> Markup {
    let mut rows: Vec<(String, String, u64, f64)> = Vec::new();
    for source in view.sources {
        let cases = &source.analysis.cases;
        for study in cases.iter().filter(|study| is_of(study, "busy") || is_of(study, "work")) {
            for name in facts::names_by_n(study) {
                let Some(reason) = name.strip_prefix("failures_") else { continue };
                for (n, values) in facts::by_n(study, name) {
                    rows.push((label(study), reason.replace('_', " "), n, values.iter().copied().fold(0.0, f64::max)));
                }
            }
        }
    }
    let table = html! {
        table.failures-2001 {
            thead { tr { @for name in ["Architecture", "Reason", "Up to n", "In the worst pass"] {
                th scope="col" { (name) }
            } } }
            tbody {
                @for (label, reason, n, failed) in &rows {
                    tr {
                        td { (label) }
                        td { (reason) }
                        td.number { (count(*n as f64)) }
                        td.number { (count(*failed)) }
                    }
                }
            }
        }
    };
    html! {
        @if rows.is_empty() { p.note { "Every connection of every architecture received its whole reply." } }
        @else {
            p { "Connections without a whole reply, since the n before:" }
            (scrolling("Connections without a whole reply", &table))
        }
    }
}
