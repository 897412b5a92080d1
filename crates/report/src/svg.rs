//! Each chart as an SVG file, for an article or a slide, drawn by plotters with logarithmic axes.
//!
//! As on the page, passes are thin lines, the law is a thick one, and annotations are dashed. No font is embedded; the
//! viewer chooses one.

use crate::findings::subject;
use crate::quantity::{FormatCost, Unit, count, digits};
use crate::reduce::{Columns, Kept};
use crate::{Analysis, CaseStudy, PhaseStudy, text};
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::prelude::*;
use plotters::series::DashedLineSeries;

const SIZE: (u32, u32) = (960, 540);
const PASS: RGBColor = RGBColor(0x56, 0x8c, 0xc8);
const LAW: RGBColor = RGBColor(0x0b, 0x3d, 0x78);
const CLIFF: RGBColor = RGBColor(0xb8, 0x46, 0x00);
const QUIET: RGBColor = RGBColor(0x77, 0x77, 0x77);

type Failure = DrawingAreaErrorKind<std::io::Error>;

/// Returns the file name and the content for each phase of each case. A phase without a positive cost has no logarithm,
/// and therefore no chart.
pub fn charts(analysis: &Analysis<'_>) -> Vec<(String, String)> {
    let mut files = Vec::new();
    for study in &analysis.cases {
        let columns = Columns::up_to(study.largest_n());
        for phase in &study.phases {
            files.extend(chart(study, phase, &columns).map(|svg| (file_name(study, phase), svg)));
        }
    }
    files
}

fn file_name(study: &CaseStudy<'_>, phase: &PhaseStudy<'_>) -> String {
    name_of(study.case.case, &study.case.label, &phase.phase.name)
}

/// Maximum lengths of the parts of a file name; most file systems allow 255 bytes. The number distinguishes cases with
/// the same beginning.
const LABEL_MAX: usize = 120;
const PHASE_MAX: usize = 60;

fn name_of(case: u32, label: &str, phase: &str) -> String {
    let cut = |text: &str, most: usize| text.chars().take(most).collect::<String>();
    let raw = format!("{case:02}-{}-{}", cut(label, LABEL_MAX), cut(phase, PHASE_MAX));
    let plain: String =
        raw.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.=".contains(c) { c } else { '-' }).collect();
    format!("{plain}.svg")
}

fn chart(study: &CaseStudy<'_>, phase: &PhaseStudy<'_>, columns: &Columns) -> Option<String> {
    let passes: Vec<Vec<Option<Kept>>> = phase.curve.passes.iter().map(|pass| columns.keep(pass)).collect();
    let costs = || passes.iter().flatten().flatten().map(|kept| kept.median).filter(|ns| *ns > 0.0);
    let (low, high) = costs().fold((f64::INFINITY, 0.0f64), |(low, high), ns| (low.min(ns), high.max(ns)));
    if !(low > 0.0 && high > 0.0 && low.is_finite()) {
        return None;
    }
    // A flat cost must look flat: the axis spans at least a factor of ten.
    let pad = (10.0 / (high / low)).max(1.69).sqrt();
    let (from, to) = (1.0, f64::from(study.largest_n()).max(2.0));
    let mut svg = String::new();
    let plot = Plot { study, phase, columns, passes: &passes, x: (from, to), y: (low / pad, high * pad) };
    plot.draw(&mut svg).ok()?;
    Some(titled(&svg, &subject(study, phase), &text::sentence(&phase.verdict.all)))
}

/// Adds title and description for screen readers; the SVG standard expects them first.
fn titled(svg: &str, title: &str, words: &str) -> String {
    let Some((head, rest)) = svg.split_once('>') else { return svg.to_owned() };
    let description = maud::html! { title { (title) } "\n" desc { (words) } }.into_string();
    format!("{head} role=\"img\">\n{description}{rest}")
}

/// The data of a chart.
struct Plot<'a> {
    study: &'a CaseStudy<'a>,
    phase: &'a PhaseStudy<'a>,
    columns: &'a Columns,
    passes: &'a [Vec<Option<Kept>>],
    x: (f64, f64),
    y: (f64, f64),
}

/// Both axes are logarithmic: the coordinates are decimal logarithms, so that a short axis still has ticks.
type Area<'a> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<Axis, Axis>>;

/// A range of decimal logarithms with ticks at round values.
struct Axis {
    from: f64,
    to: f64,
}

impl Axis {
    fn over((from, to): (f64, f64)) -> Self {
        Self { from: from.log10(), to: to.log10() }
    }
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let share = (value - self.from) / (self.to - self.from);
        limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
    }

    /// Returns every decade; also 2 and 5 if there are few decades.
    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        let steps: &[f64] = if self.to - self.from > 3.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let decades = self.from.floor() as i32..=self.to.ceil() as i32;
        let every = decades.flat_map(|decade| steps.iter().map(move |step| step.log10() + f64::from(decade)));
        every.filter(|tick| *tick >= self.from - 1e-9 && *tick <= self.to).collect()
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.from..self.to
    }
}

impl Plot<'_> {
    fn draw(&self, svg: &mut String) -> Result<(), Failure> {
        let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let (x, y) = (self.x, self.y);
        let unit = self.phase.verdict.all.unit;
        let mut area = ChartBuilder::on(&root)
            .margin(16)
            .caption(subject(self.study, self.phase), ("sans-serif", 20))
            .x_label_area_size(44)
            .y_label_area_size(76)
            .build_cartesian_2d(Axis::over(x), Axis::over(y))?;
        area.configure_mesh()
            .disable_mesh()
            .x_desc(&self.study.case.axis)
            .y_desc(if unit == Unit::Instructions { "instructions of a call" } else { "cost of a call" })
            .x_label_formatter(&|x| digits(10f64.powf(*x).round()))
            .y_label_formatter(&|y| unit.bare(10f64.powf(*y).round()))
            .axis_style(QUIET)
            .draw()?;
        self.annotations(&mut area)?;
        self.passes(&mut area)?;
        self.law(&mut area)?;
        self.cliffs(&mut area)?;
        root.present()
    }

    fn inside(&self, n: f64) -> bool {
        n >= self.x.0 && n <= self.x.1
    }

    fn annotations(&self, area: &mut Area<'_>) -> Result<(), Failure> {
        for (row, annotation) in self.study.case.annotations.iter().filter(|one| self.inside(one.n)).enumerate() {
            let (x, bottom, top) = (annotation.n.log10(), self.y.0.log10(), self.y.1.log10());
            area.draw_series(DashedLineSeries::new([(x, bottom), (x, top)], 4, 4, QUIET.stroke_width(1)))?;
            let y = top - (top - bottom) * (0.02 + 0.035 * (row % 4) as f64);
            let style = ("sans-serif", 12).into_font().color(&QUIET);
            let anchor = plotters::style::text_anchor::Pos::new(
                plotters::style::text_anchor::HPos::Right,
                plotters::style::text_anchor::VPos::Top,
            );
            area.draw_series([Text::new(format!("{} ", annotation.name), (x, y), style.pos(anchor))])?;
        }
        Ok(())
    }

    fn passes(&self, area: &mut Area<'_>) -> Result<(), Failure> {
        for pass in self.passes {
            let point = |(column, kept): (usize, &Option<Kept>)| {
                let ns = kept.filter(|kept| kept.median > 0.0)?.median;
                Some((self.columns.middle(column).log10(), ns.log10()))
            };
            area.draw_series(LineSeries::new(
                pass.iter().enumerate().filter_map(point),
                PASS.mix(0.45).stroke_width(1),
            ))?;
        }
        Ok(())
    }

    fn law(&self, area: &mut Area<'_>) -> Result<(), Failure> {
        let judged = &self.phase.verdict.all;
        let (Some(fit), Some((first, last))) = (&judged.fit, judged.range) else { return Ok(()) };
        let places = (0..=100).map(|i| first * (last / first).powf(f64::from(i) / 100.0));
        let points =
            places.map(|n| (n, fit.at(n))).filter(|(_, ns)| ns.is_finite() && *ns > self.y.0 && *ns < self.y.1);
        let line: Vec<(f64, f64)> = points.map(|(n, ns)| (n.log10(), ns.log10())).collect();
        let end = line.last().copied();
        area.draw_series(LineSeries::new(line, LAW.stroke_width(3)))?;
        if let Some(end) = end {
            let anchor = plotters::style::text_anchor::Pos::new(
                plotters::style::text_anchor::HPos::Right,
                plotters::style::text_anchor::VPos::Bottom,
            );
            let style = ("sans-serif", 15).into_font().color(&LAW).pos(anchor);
            let lift = (self.y.1 / self.y.0).log10() * 0.02;
            area.draw_series([Text::new(crate::table::law_short(judged), (end.0, end.1 + lift), style)])?;
        }
        Ok(())
    }

    fn cliffs(&self, area: &mut Area<'_>) -> Result<(), Failure> {
        for cliff in self.phase.verdict.all.cliffs.iter().filter(|cliff| self.inside(cliff.n.value)) {
            let place = (cliff.n.value.log10(), cliff.cost_after.clamp(self.y.0, self.y.1).log10());
            area.draw_series([Circle::new(place, 4, CLIFF.filled())])?;
            let anchor = plotters::style::text_anchor::Pos::new(
                plotters::style::text_anchor::HPos::Right,
                plotters::style::text_anchor::VPos::Top,
            );
            let words = format!("{} at {}  ", crate::quantity::factor(cliff.factor_over_start), count(cliff.n.value));
            area.draw_series([Text::new(words, place, ("sans-serif", 14).into_font().color(&CLIFF).pos(anchor))])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::name_of;

    /// Guards against a label that is too long for a file system.
    #[test]
    fn a_long_label_is_cut() {
        let long = "n=1/".repeat(100);
        let name = name_of(3, &long, &long);
        assert!(name.starts_with("03-n=1-n=1-") && name.len() < 200, "{name}");
        assert_eq!(name_of(3, "bind range=1-2", "bind"), "03-bind-range=1-2-bind.svg");
    }
}
