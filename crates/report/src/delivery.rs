//! The page of one delivery of `landau mail`: throughput over time, domains, the latency of each phase, and the reasons
//! for deferred recipients. Static, without scripts.

use crate::page::{STYLE, head};
use crate::quantity::{bytes, count, digits, duration};
use crate::section::over_time::{Line, drawing};
use crate::section::scrolling;
use maud::{DOCTYPE, Markup, html};

/// Content security policy: the page loads nothing and executes nothing.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// Maximum number of points of a drawing.
const POINTS_MAX: usize = 200;

/// The progress of a delivery at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sample {
    /// Nanoseconds since the delivery began.
    pub at_ns: u64,
    /// Recipients that are done.
    pub done: u64,
    /// Connections that are open.
    pub open: u64,
}

/// The latencies of a phase.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Phase {
    /// The name: `connect`, `rcpt` …
    pub name: String,
    /// The number of latencies.
    pub count: u64,
    /// The quantiles 0.5, 0.9 and 0.99, and the largest, in nanoseconds.
    pub quantiles_ns: [u64; 4],
}

/// The recipients of a domain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Domain {
    /// The name.
    pub name: String,
    /// Recipients done, deferred, failed and left.
    pub recipients: [u64; 4],
    /// The time from the first attempt to the last recipient, in nanoseconds.
    pub own_ns: u64,
}

/// A delivery.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Delivery {
    /// The word for a successful recipient: `sent`.
    pub success: String,
    /// Recipients done, deferred, failed and left.
    pub recipients: [u64; 4],
    /// The number of those done in this run.
    pub done_now: u64,
    /// The duration in nanoseconds.
    pub elapsed_ns: u64,
    /// Processor time per recipient done, in nanoseconds; `None` if no recipient is done.
    pub cpu_ns_each: Option<f64>,
    /// The total number of connections, and the maximum open at the same time.
    pub connections: (u64, u64),
    /// Bytes sent.
    pub sent_bytes: u64,
    /// The progress, in order of time.
    pub samples: Vec<Sample>,
    /// The phases, in chronological order.
    pub phases: Vec<Phase>,
    /// The domains with the most recipients.
    pub domains: Vec<Domain>,
    /// The number of domains.
    pub domain_count: u64,
    /// The reasons why recipients were deferred or failed, with counts.
    pub reasons: Vec<(String, u64)>,
    /// The reasons why connections were refused or lost, with counts.
    pub lost: Vec<(String, u64)>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// Recipients per second and open connections in an interval.
struct Point {
    /// The end of the interval, in seconds.
    at_s: f64,
    per_second: f64,
    open: f64,
}

impl Delivery {
    /// Returns the page.
    pub fn page(&self) -> String {
        let title = format!("{} of {} recipients {}", count(self.recipients[0] as f64), self.total(), self.success);
        let page = html! {
            (DOCTYPE) "\n"
            html lang="en" {
                (head(&title, POLICY, &[STYLE]))
                body {
                    header.head {
                        div.brand { span.mark aria-hidden="true" { "O" } " Landau" }
                        h1 { (title) }
                        p.lead { (self.lead()) }
                        @for note in &self.notes { p.lead { "Note: " (note) } }
                    }
                    main {
                        (section("throughput", "Throughput over time", &self.throughput()))
                        (section("phases", "Latency by phase", &self.phase_table()))
                        (section("domains", "Domains", &self.domain_table()))
                        (section(
                            "reasons",
                            "Deferred and failed",
                            &reasons("recipients", &self.reasons, "No recipients were deferred or failed."),
                        ))
                        (section(
                            "lost",
                            "Connections refused or lost",
                            &reasons("connections", &self.lost, "No connections were refused or lost."),
                        ))
                    } "\n"
                }
            } "\n"
        };
        page.into_string()
    }

    fn total(&self) -> String {
        count(self.recipients.iter().sum::<u64>() as f64)
    }

    fn lead(&self) -> String {
        let [_, deferred, failed, left] = self.recipients.map(|number| count(number as f64));
        let seconds = (self.elapsed_ns as f64 / 1e9).max(1e-9);
        let cpu = self.cpu_ns_each.map_or(String::new(), |each| format!(", {} of processor time each", duration(each)));
        format!(
            "{deferred} deferred, {failed} failed, {left} left. This run: {} {} in {}, {} a second{cpu}; \
             {} connections, up to {} at a time; {} sent.",
            count(self.done_now as f64),
            self.success,
            duration(self.elapsed_ns as f64),
            digits(self.done_now as f64 / seconds),
            count(self.connections.0 as f64),
            count(self.connections.1 as f64),
            bytes(self.sent_bytes)
        )
    }

    /// Returns the intervals between samples, merged if there are more than fit in a drawing.
    fn points(&self) -> Vec<Point> {
        let stride = self.samples.len().div_ceil(POINTS_MAX).max(1);
        let mut last = Sample::default();
        let mut points = Vec::new();
        for sample in self.samples.chunks(stride).filter_map(|chunk| chunk.last()) {
            let seconds = sample.at_ns.saturating_sub(last.at_ns) as f64 / 1e9;
            if seconds > 0.0 {
                let per_second = sample.done.saturating_sub(last.done) as f64 / seconds;
                points.push(Point { at_s: sample.at_ns as f64 / 1e9, per_second, open: sample.open as f64 });
            }
            last = *sample;
        }
        points
    }

    fn throughput(&self) -> Markup {
        let points = self.points();
        if points.len() < 2 {
            return html! { p.note { "Too short for a curve: there is a sample every 100 ms or more." } };
        }
        let line = |name: &str, tone, value: fn(&Point) -> f64| {
            let points = points.iter().map(|point| (point.at_s, value(point))).collect();
            drawing(name, &[Line { name: name.to_owned(), tone, points }])
        };
        html! {
            div.pair.even {
                (line("recipients a second", 0, |point| point.per_second))
                (line("open connections", 1, |point| point.open))
            }
            details.points {
                summary { "Throughput as a table" }
                (scrolling("Table of the throughput", &html! {
                    table {
                        thead { tr {
                            @for name in ["Until, s", "Recipients a second", "Open connections"] {
                                th scope="col" { (name) }
                            }
                        } }
                        tbody {
                            @for point in &points {
                                tr {
                                    td { (digits(point.at_s)) }
                                    td { (digits(point.per_second)) }
                                    td { (count(point.open)) }
                                }
                            }
                        }
                    }
                }))
            }
        }
    }

    fn phase_table(&self) -> Markup {
        let rows = self.phases.iter().filter(|phase| phase.count > 0);
        scrolling(
            "Table of latencies",
            &html! {
                table {
                    thead { tr {
                        @for name in ["Time to", "Count", "p50", "p90", "p99", "Maximum"] { th scope="col" { (name) } }
                    } }
                    tbody {
                        @for phase in rows {
                            tr {
                                th scope="row" { (phase.name) }
                                td { (count(phase.count as f64)) }
                                @for ns in phase.quantiles_ns { td { (duration(ns as f64)) } }
                            }
                        }
                    }
                }
                p.note { "From the command to its reply. Pipelined commands wait for each other." }
            },
        )
    }

    fn domain_table(&self) -> Markup {
        let shown = self.domains.len() as u64;
        scrolling(
            "Table of domains",
            &html! {
                table {
                    thead { tr {
                        @for name in ["Domain", &self.success, "Deferred", "Failed", "Left", "Own time"] {
                            th scope="col" { (name) }
                        }
                    } }
                    tbody {
                        @for domain in &self.domains {
                            tr {
                                th scope="row" { (domain.name) }
                                @for number in domain.recipients { td { (count(number as f64)) } }
                                td { (duration(domain.own_ns as f64)) }
                            }
                        }
                    }
                }
                p.note {
                    "Own time: from a domain's first attempt to its last recipient. No delivery can be shorter than \
                     the longest of them."
                }
                @if self.domain_count > shown {
                    p.note {
                        "The " (shown) " domains with the most recipients, of " (count(self.domain_count as f64)) "."
                    }
                }
            },
        )
    }
}

fn section(id: &str, heading: &str, content: &Markup) -> Markup {
    html! {
        section id=(id) aria-labelledby={ (id) "-heading" } {
            h2 id={ (id) "-heading" } { (heading) }
            (content)
        } "\n"
    }
}

fn reasons(whose: &str, all: &[(String, u64)], none: &str) -> Markup {
    if all.is_empty() {
        return html! { p.note { (none) } };
    }
    scrolling(
        &format!("Reasons of {whose}"),
        &html! {
            table {
                thead { tr { th scope="col" { "Times" } th scope="col" { "Reason" } } }
                tbody { @for (reason, times) in all { tr { td { (count(*times as f64)) } td { (reason) } } } }
            }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_ms: u64, done: u64) -> Sample {
        Sample { at_ns: at_ms * 1_000_000, done, open: 3 }
    }

    #[test]
    fn throughput_is_that_of_the_interval() {
        let samples = vec![sample(100, 50), sample(200, 250), sample(400, 250)];
        let delivery = Delivery { samples, ..Delivery::default() };
        let rates: Vec<f64> = delivery.points().iter().map(|point| point.per_second.round()).collect();
        assert_eq!(rates, [500.0, 2_000.0, 0.0]);
        let many: Vec<Sample> = (1..=1_001).map(|number| sample(number * 100, number * 7)).collect();
        let delivery = Delivery { samples: many, ..Delivery::default() };
        let points = delivery.points();
        assert!(points.len() <= POINTS_MAX && points.iter().all(|point| (point.per_second - 70.0).abs() < 0.5));
        assert!((points.last().unwrap().at_s - 100.1).abs() < 1e-9);
    }

    /// Guards against reporting "0 a second" for a slow delivery.
    #[test]
    fn slow_rates_keep_their_fractions() {
        let samples = vec![sample(5_000, 2), sample(10_000, 3)];
        let delivery = Delivery { samples, done_now: 3, elapsed_ns: 10_000_000_000, ..Delivery::default() };
        let page = delivery.page();
        assert!(page.contains(" in 10 s, 0.3 a second"), "{page}");
        assert!(page.contains("<td>0.4</td>") && page.contains("<td>0.2</td>"), "{page}");
    }

    #[test]
    fn what_servers_say_is_escaped_and_nothing_is_loaded() {
        let reasons = vec![("550 <script>alert(1)</script>".to_owned(), 2)];
        let page = Delivery { reasons, success: "sent".to_owned(), ..Delivery::default() }.page();
        assert!(page.contains("550 &lt;script&gt;") && !page.contains("<script"), "{page}");
        assert!(!page.contains("http://") && !page.contains("https://"));
    }
}
