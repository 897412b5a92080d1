//! Servers compared with the sum of their calls, as in `landau predict`, for each record that has both.

use super::scrolling;
use crate::page::View;
use crate::predicted::{Checked, beside_calls};
use crate::quantity::{duration, percent};
use maud::{Markup, html};

/// Renders the servers of each record in which calls were measured, and which servers are not compared; nothing if
/// there are none.
pub(crate) fn render(view: &View<'_>) -> Markup {
    let of_record = |(index, source): (usize, &crate::page::Source<'_>)| {
        let (servers, left_out) = beside_calls(&source.analysis);
        let is_empty = servers.is_empty() && left_out.is_empty();
        (!is_empty).then(|| (view.names.get(index).map_or("", String::as_str), servers, left_out))
    };
    let records: Vec<(&str, Vec<Checked>, Vec<String>)> =
        view.sources.iter().enumerate().filter_map(of_record).collect();
    let is_single = view.sources.len() == 1;
    html! {
        @if !records.is_empty() {
            section #servers aria-labelledby="servers-heading" {
                h2 #servers-heading { "Servers and their calls" }
                p.note {
                    "The processor time that a server used for a step, and the sum of the costs of its system calls, \
                     by the curves of the same record, averaged over the pass. The calls are a lower bound: the \
                     program's own work, going to sleep and waking up come on top."
                }
                @for (name, servers, left_out) in &records {
                    @if !is_single { h3 { (name) } }
                    @let of_record = if is_single { String::new() } else { format!(" of {name}") };
                    (of(servers, left_out, &of_record))
                }
            } "\n"
        }
    }
}

/// Renders a table, a sentence for each server, and sentences about the servers that are not compared.
fn of(servers: &[Checked], left_out: &[String], of_record: &str) -> Markup {
    let table = html! {
        table {
            thead { tr {
                @for name in ["Case", "Server", "By its calls", "Used", "The sum"] { th scope="col" { (name) } }
            } }
            tbody {
                @for one in servers {
                    tr {
                        th scope="row" { (one.case) }
                        td { (one.server) }
                        td { (duration(one.predicted_ns)) }
                        td { (duration(one.used_ns.value)) }
                        td { (outcome(one)) }
                    } "\n"
                }
            }
        }
    };
    html! {
        @if !servers.is_empty() { (scrolling(&format!("Comparison of servers with their calls{of_record}"), &table)) }
        ul {
            @for one in servers { li { (one.sentence()) } }
            @for sentence in left_out { li { (sentence) } }
        }
    }
}

/// Renders whether the sum misses the time used, and by how much.
fn outcome(one: &Checked) -> Markup {
    let share = percent((1.0 - one.predicted_ns / one.used_ns.value).abs());
    let side = if one.ratio > 1.0 { "below" } else { "above" };
    html! {
        @if one.misses { strong { "misses: " (share) " " (side) } } @else { "within 20%: " (share) " " (side) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use landau_stats::Estimate;

    fn checked(case: &str, predicted_ns: f64, used_ns: f64) -> Checked {
        Checked {
            record: 0,
            case: case.to_owned(),
            server: "nginx".to_owned(),
            sum: "accept+recv".to_owned(),
            predicted_ns,
            used_ns: Estimate::bare(used_ns),
            ratio: used_ns / predicted_ns,
            misses: (used_ns - predicted_ns).abs() > 0.2 * used_ns,
        }
    }

    /// Guards against a page that shows a sum without stating that the server used three times as much.
    #[test]
    fn a_sum_that_misses_by_more_than_a_fifth_is_marked() {
        let servers = [checked("a<b", 25_000.0, 100_000.0), checked("near", 90_000.0, 100_000.0)];
        let page = of(&servers, &[], " of x").into_string();
        assert!(page.contains("aria-label=\"Comparison of servers with their calls of x\""), "{page}");
        assert!(
            page.contains("<strong>misses: 75% below</strong>") && page.contains("within 20%: 10% below"),
            "{page}"
        );
        assert!(page.contains("The sum does not cover 75% of the time used") && page.contains("a&lt;b"), "{page}");
        let above = of(&[checked("x", 100_000.0, 50_000.0)], &[], "").into_string();
        assert!(above.contains("misses: 100% above"), "{above}");
    }

    /// Guards against leaving out servers silently, as the page once did with all servers that it did not compare.
    #[test]
    fn servers_that_are_not_compared_are_named() {
        let left_out = ["connect server=h2o is not compared: why.".to_owned()];
        let page = of(&[checked("near", 90_000.0, 100_000.0)], &left_out, "").into_string();
        assert!(page.contains("<li>connect server=h2o is not compared: why.</li>"), "{page}");
        let without = of(&[], &left_out, "").into_string();
        assert!(page.contains("<table>") && !without.contains("<table>"), "{without}");
    }
}
