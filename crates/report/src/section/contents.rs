//! The table of contents, with a small picture of each case's curves.

use crate::CaseStudy;
use crate::page::View;
use maud::{Markup, html};

/// The table of contents.
pub(crate) fn render(view: &View<'_>) -> Markup {
    let cases: Vec<&CaseStudy<'_>> = view.base().into_iter().flat_map(|analysis| &analysis.cases).collect();
    let benchmarks = cases.chunk_by(|a, b| a.case.benchmark == b.case.benchmark);
    html! {
        nav.contents aria-label="Contents" {
            details open {
                summary { "Contents" }
                ul {
                    li { a.part href="#findings" { "Findings" } }
                    @for cases in benchmarks {
                        @let benchmark = &cases[0].case.benchmark;
                        li {
                            a.part href={ "#" (super::benchmark::anchor(benchmark)) } { (benchmark) }
                            ul { @for study in cases { (entry(study)) } }
                        } "\n"
                    }
                    li { a.part href="#host" { "Environment" } }
                    li { a.part href="#record" { "Record" } }
                }
            }
        }
    }
}

fn entry(study: &CaseStudy<'_>) -> Markup {
    html! {
        li {
            a href={ "#case-" (study.case.case) } {
                span { (super::benchmark::settings(study)) }
                (sparkline(study))
            }
        }
    }
}

/// The most points of a sparkline.
const POINTS_MAX: usize = 24;

/// The curves of a case at the height of a line of text, both axes logarithmic. They repeat what the text beside them
/// says, so screen readers skip them. The contents hold the shapes; [`spark`] refers to them.
fn sparkline(study: &CaseStudy<'_>) -> Markup {
    let (width, height) = (144.0, 36.0);
    let curves: Vec<Vec<(f64, f64)>> = study
        .phases
        .iter()
        .map(|phase| {
            let points = phase.verdict.all.points.iter().filter(|point| point.n >= 1.0 && point.cost.value > 0.0);
            let points: Vec<_> = points.map(|point| (point.n.ln(), point.cost.value.ln())).collect();
            let last = points.len().saturating_sub(1);
            let stride = points.len().div_ceil(POINTS_MAX).max(1);
            let kept = points.into_iter().enumerate().filter(|(i, _)| i % stride == 0 || *i == last);
            kept.map(|(_, point)| point).collect()
        })
        .collect();
    let every = || curves.iter().flatten();
    let (left, right) = every().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), p| (a.min(p.0), b.max(p.0)));
    let (low, high) = every().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), p| (a.min(p.1), b.max(p.1)));
    if right.partial_cmp(&left) != Some(std::cmp::Ordering::Greater) {
        return html! {};
    }
    // A range below a factor of four uses only its share of the height: a flat cost must look flat.
    let middle = f64::midpoint(low, high);
    let half = ((high - low) / 2.0).max(4f64.ln() / 2.0);
    let position = |&(x, y): &(f64, f64)| {
        let across = 2.0 + (x - left) / (right - left) * (width - 4.0);
        let down = height / 2.0 - (y - middle) / half * (height / 2.0 - 4.0);
        format!("{across:.0},{down:.0}")
    };
    drawing(&html! {
        g.lines id={ "spark-" (study.case.case) } {
            @for (tone, curve) in curves.iter().enumerate() {
                @let points: Vec<String> = curve.iter().map(position).collect();
                polyline class={ "tone-" (tone % super::benchmark::TONES) } points=(points.join(" ")) {}
            }
        }
    })
}

/// The same picture, by reference.
pub(crate) fn spark(study: &CaseStudy<'_>) -> Markup {
    drawing(&html! { use href={ "#spark-" (study.case.case) } {} })
}

fn drawing(shape: &Markup) -> Markup {
    html! { svg.spark viewBox="0 0 144 36" aria-hidden="true" focusable="false" { (shape) } }
}
