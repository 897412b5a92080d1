//! The table of contents, with each case's curve in small.

use crate::CaseStudy;
use crate::page::{View, escape};
use std::fmt::Write;

/// The table of contents.
pub(crate) fn render(view: &View<'_>) -> String {
    let mut list = String::new();
    let mut benchmark = "";
    for study in view.base().into_iter().flat_map(|analysis| &analysis.cases) {
        if study.case.benchmark != benchmark {
            let _ = write!(
                list,
                "{}<li><a class=\"part\" href=\"#{}\">{}</a><ul>",
                if benchmark.is_empty() { "" } else { "</ul></li>\n" },
                super::benchmark::anchor(&study.case.benchmark),
                escape(&study.case.benchmark)
            );
            benchmark = &study.case.benchmark;
        }
        let setting = study.case.label.strip_prefix(benchmark).map_or("", str::trim);
        let name = if setting.is_empty() { "default" } else { setting };
        let _ = write!(
            list,
            "<li><a href=\"#case-{}\"><span>{}</span>{}</a></li>",
            study.case.case,
            escape(name),
            sparkline(study)
        );
    }
    if !benchmark.is_empty() {
        list.push_str("</ul></li>");
    }
    format!(
        "<nav class=\"contents\" aria-label=\"Contents\"><details open><summary>Contents</summary>\n<ul>\
         <li><a class=\"part\" href=\"#findings\">What was found</a></li>\n{list}\n\
         <li><a class=\"part\" href=\"#host\">The machine</a></li><li><a class=\"part\" href=\"#repeat\">Repeat, \
         verify</a></li>\
         </ul></details></nav>"
    )
}

/// The most points of a curve of a word's size.
const SPARKS: usize = 24;

/// The curves of a case as lines of a word's size, both axes logarithmic. Pictures of what stands in words beside them,
/// so a screen reader passes them over. They stand in the contents; others refer to them by [`spark`].
fn sparkline(study: &CaseStudy<'_>) -> String {
    let (width, height) = (144.0, 36.0);
    let curves: Vec<Vec<(f64, f64)>> = study
        .phases
        .iter()
        .map(|phase| {
            let points = phase.verdict.all.points.iter().filter(|point| point.n >= 1.0 && point.ns.value > 0.0);
            let points: Vec<_> = points.map(|point| (point.n.ln(), point.ns.value.ln())).collect();
            let last = points.len().saturating_sub(1);
            let stride = points.len().div_ceil(SPARKS).max(1);
            let kept = points.into_iter().enumerate().filter(|(i, _)| i % stride == 0 || *i == last);
            kept.map(|(_, point)| point).collect()
        })
        .collect();
    let every = || curves.iter().flatten();
    let (left, right) = every().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), p| (a.min(p.0), b.max(p.0)));
    let (low, high) = every().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), p| (a.min(p.1), b.max(p.1)));
    if right.partial_cmp(&left) != Some(std::cmp::Ordering::Greater) {
        return String::new();
    }
    // Less than a factor of four fills no more than its share: a flat cost must look flat.
    let middle = f64::midpoint(low, high);
    let half = ((high - low) / 2.0).max(4f64.ln() / 2.0);
    let mut lines = String::new();
    for (tone, curve) in curves.iter().enumerate() {
        let place = |&(x, y): &(f64, f64)| {
            let across = 2.0 + (x - left) / (right - left) * (width - 4.0);
            let down = height / 2.0 - (y - middle) / half * (height / 2.0 - 4.0);
            format!("{across:.0},{down:.0}")
        };
        let points: Vec<String> = curve.iter().map(place).collect();
        let _ = write!(
            lines,
            "<polyline class=\"tone-{}\" points=\"{}\"/>",
            tone % super::benchmark::TONES,
            points.join(" ")
        );
    }
    drawing(&format!("<g class=\"lines\" id=\"spark-{}\">{lines}</g>", study.case.case))
}

/// The same picture once more.
pub(crate) fn spark(study: &CaseStudy<'_>) -> String {
    drawing(&format!("<use href=\"#spark-{}\"/>", study.case.case))
}

fn drawing(inner: &str) -> String {
    format!("<svg class=\"spark\" viewBox=\"0 0 144 36\" aria-hidden=\"true\" focusable=\"false\">{inner}</svg>")
}
