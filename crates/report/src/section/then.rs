//! The studies of 2001, 2003 and 2004, replayed: an article for each, from the record alone.

use super::ladder::axis;
use super::scrolling;
use super::study_2001::drawing::{Curve, Scale, legend, lines};
use crate::page::View;
use crate::quantity::{Unit, count};
use crate::then::{self, Article, Figure, Test};
use landau_stats::quantile::quantile;
use maud::{Markup, html};
use std::fmt::Write as _;

/// The size and the margins of the drawing of the samples.
const WIDTH: f64 = 500.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const ABOVE: f64 = 30.0;
const BELOW: f64 = 40.0;

/// The vertical axis ends at this multiple of the quantile below which all but one in 200 samples are.
const HEADROOM: f64 = 1.3;

/// Costs that differ by more than this factor need a logarithmic axis.
const LINEAR_MAX: f64 = 20.0;

/// Renders the articles of a record of the study `then`; otherwise nothing.
pub(crate) fn render(view: &View<'_>) -> Markup {
    let ([_], Some(base)) = (view.sources, view.base()) else { return html! {} };
    let articles = then::of(base);
    html! {
        @if !articles.is_empty() {
            section #then.then aria-labelledby="then-heading" {
                h2 #then-heading { "The studies of 2001, 2003 and 2004, replayed" }
                (summary(&articles))
                @for article in &articles { (one(article, view.unit())) }
            } "\n"
        }
    }
}

/// Renders each test with its conclusion.
fn summary(articles: &[Article]) -> Markup {
    let table = html! {
        table.then {
            thead { tr {
                @for name in ["Study", "Test", "The conclusion", "Both methods"] { th scope="col" { (name) } }
            } }
            tbody {
                @for article in articles {
                    @for test in &article.tests {
                        tr {
                            td { (article.year) }
                            th scope="row" { a href={ "#" (anchor(article, test)) } { (test.name) } }
                            td { (test.change.word()) }
                            td { (test.conclusion) }
                        } "\n"
                    }
                }
            }
        }
    };
    html! {
        p {
            "Each test ran with its authors' parameters and number of runs, and its samples were read by their method; \
             and it ran by Landau's, in several passes in random order, to the end of the resource, with intervals."
        }
        (scrolling("Conclusions of the replayed studies", &table))
    }
}

fn anchor(article: &Article, test: &Test) -> String {
    format!("then-{}-{}", article.year, test.name.replace(' ', "-").to_lowercase())
}

fn one(article: &Article, unit: Unit) -> Markup {
    html! {
        article id={ "then-" (article.year) } {
            h3 { "The study of " (article.year) }
            h4 { "What was asked" }
            p { (article.asked) }
            p.note { (article.citation) }
            h4 { "How it was measured" }
            p { (article.method) }
            @for test in &article.tests { (of_test(article, test, unit)) }
            @if !article.contradictions.is_empty() { (contradictions(article)) }
        } "\n"
    }
}

fn of_test(article: &Article, test: &Test, unit: Unit) -> Markup {
    let rows = html! {
        table.published-2001 {
            thead { tr {
                @for name in ["Published by others", "Figure or words", "Source"] { th scope="col" { (name) } }
            } }
            tbody { @for row in &test.published { tr { td { (row.what) } td { (row.value) } td { (row.source) } } } }
        }
    };
    html! {
        section.then-test id=(anchor(article, test)) {
            h4 { (test.name) ": " (test.asked) }
            p.words.{ "change-" (test.change.word()) } {
                strong { (test.conclusion) }
                @for sentence in &test.why { " " (sentence) }
            }
            h5 { "What they measured" }
            p { (test.method) }
            (scrolling(&format!("Published results, {}", test.name), &rows))
            h5 { "Their method here today" }
            ul { @for sentence in &test.then { li { (sentence) } } }
            h5 { "The corrected method here today" }
            ul { @for sentence in &test.now { li { (sentence) } } }
            @if let Some(figure) = &test.figure { (drawn(figure, test, unit)) }
        } "\n"
    }
}

fn contradictions(article: &Article) -> Markup {
    html! {
        h4 { "Published figures that say the same thing twice" }
        ul {
            @for one in &article.contradictions { li { (one.sentence()) } }
            li { (then::implied_linux()) }
        }
    }
}

/// Renders the samples as the author would plot them, next to the points of the corrected method.
fn drawn(figure: &Figure, test: &Test, unit: Unit) -> Markup {
    let curve = |(name, points): &(String, Vec<(f64, f64)>)| Curve { name: name.clone(), points: points.clone() };
    let curves: Vec<Curve> = figure.curves.iter().map(curve).collect();
    let costs = || curves.iter().flat_map(|curve| &curve.points).map(|point| point.1);
    let is_wide = costs().fold(0.0, f64::max) > LINEAR_MAX * costs().fold(f64::INFINITY, f64::min);
    let scale = if is_wide { Scale::Logarithmic(axis(unit)) } else { Scale::Linear(axis(unit)) };
    html! {
        figure.chart.study-2004 {
            figcaption {
                strong { (test.name) } " "
                span.words {
                    @if !figure.samples.is_empty() { "Dots: single samples, as in the study. " }
                    @if !curves.is_empty() { "Lines: the points of the corrected method." }
                }
            }
            div.pair.even {
                @if !figure.samples.is_empty() { (scatter(figure, unit)) }
                @if !curves.is_empty() { (lines("corrected method", &figure.axis, &curves, &scale, &[])) }
            }
            @if !curves.is_empty() { p.note { (legend(&curves)) } }
        } "\n"
    }
}

/// Draws a dot for each sample on linear axes from zero.
fn scatter(figure: &Figure, unit: Unit) -> Markup {
    let mut costs: Vec<f64> = figure.samples.iter().map(|sample| sample.1).collect();
    costs.sort_by(f64::total_cmp);
    let top = HEADROOM * quantile(&costs, 0.995).unwrap_or(1.0).max(1.0);
    let right = figure.samples.iter().map(|sample| sample.0).fold(1.0, f64::max);
    let above = costs.iter().filter(|cost| **cost > top).count();
    let (width, height, base) = (WIDTH - LEFT - RIGHT, HEIGHT - ABOVE - BELOW, HEIGHT - BELOW);
    let mut dots = String::new();
    for (n, cost) in figure.samples.iter().filter(|sample| sample.1 <= top) {
        // Writing to a string cannot fail.
        let _ = write!(dots, "M{:.1} {:.1}h0", LEFT + n / right * width, base - cost / top * height);
    }
    let write = axis(unit);
    html! {
        svg.drawing viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label="single samples over n" {
            text x="0" y="14" {
                "method of the study, " (figure.sampled) ": single samples"
                @if above > 0 { " (" (above) " above the axis)" }
            }
            line.axis x1=(LEFT) x2=(WIDTH - RIGHT) y1=(base) y2=(base) {}
            line.axis x1=(LEFT) x2=(LEFT) y1=(ABOVE) y2=(base) {}
            @for part in [0.0, 0.5, 1.0] {
                @let (at, up) = (LEFT + part * width, base - part * height + 4.0);
                text x=(LEFT - 6.0) y=(format!("{up:.1}")) text-anchor="end" {
                    @if part > 0.0 { (write(part * top)) } @else { "0" }
                }
                // The last label would be cut off if it were centred.
                @let (at, anchor) = if part < 1.0 { (at, "middle") } else { (WIDTH, "end") };
                text x=(format!("{at:.1}")) y=(base + 16.0) text-anchor=(anchor) { (count(part * right)) }
            }
            text x=(LEFT + width / 2.0) y=(base + 32.0) text-anchor="middle" { (figure.axis) }
            path.samples d=(dots) {}
        }
    }
}
