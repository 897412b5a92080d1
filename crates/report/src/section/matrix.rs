//! Several records: a row for each curve, a column for each record, and cells with cost, ratio to the base and outcome.

use super::scrolling;
use crate::findings::subject;
use crate::page::View;
use crate::quantity::{FormatCost, Unit, change};
use crate::{CaseStudy, PhaseComparison, PhaseStudy, Shown, ends, text};
use landau_record::schema::Direction;
use maud::{Markup, html};

/// Bounds of the shades of a cell, as factors of the cost relative to the base.
const SHADES: [f64; 4] = [1.02, 1.1, 1.5, 3.0];

/// One curve of the base in all records.
struct Row<'a> {
    study: &'a CaseStudy<'a>,
    phase: &'a PhaseStudy<'a>,
    cells: Vec<Cell<'a>>,
}

/// The curve in one record; without a phase if the record lacks it.
struct Cell<'a> {
    phase: Option<&'a PhaseStudy<'a>>,
    /// Whether it is the cell of the base.
    is_base: bool,
    limit: Option<String>,
    /// The cost relative to the base if the difference is proven; absent for the base.
    proven: Option<Shown>,
    /// The result in words.
    words: String,
}

/// Renders the matrix; nothing for one record.
pub(crate) fn render(view: &View<'_>) -> Markup {
    if view.comparisons.is_none() {
        return html! {};
    }
    let mut rows = rows(view);
    // The largest change is first. Rows without a proven difference are last, in the record's order.
    rows.sort_by(|a, b| b.change().total_cmp(&a.change()));
    let same = rows.iter().filter(|row| row.change() == 0.0).count();
    let table = html! {
        table #table.matrix {
            thead { tr {
                th scope="col" aria-sort="none" { button type="button" data-key="name" { "Curve" } }
                @for (index, name) in view.names.iter().enumerate() {
                    th scope="col" aria-sort="none" {
                        button type="button" data-key={ "r" (index) } { (name) }
                    }
                }
                th scope="col" aria-sort="descending" { button type="button" data-key="change" { "Change" } }
            } }
            tbody {
                @for row in &rows { (row.render()) }
                @for study in view.base().into_iter().flat_map(|base| &base.cases) { (of_timeline(view, study)) }
            }
        }
    };
    html! {
        section #matrix.overview aria-labelledby="matrix-heading" {
            h2 #matrix-heading { "Every curve in every record" }
            p.note {
                "Cost of a call at the largest n, relative to " b { (view.names[0]) } ", and the sign of the outcome: "
                @for (sign, words) in text::SIGNS { span.sign aria-hidden="true" { (sign) } " " (words) ". " }
                (shades())
                "A ratio marked " b { "ø" } " is the mean over the common range of n: where the curves end at \
                 different n or at a cliff, or where the difference is not that at the largest n. "
                @if view.unit() == Unit::Instructions {
                    "Instructions are counted exactly, so every difference is real; below 2% it is not shaded."
                } @else {
                    "Only differences proven at 95% are shaded; all comparisons are corrected together (Holm)."
                }
            }
            @if same > 0 {
                label.choice {
                    input #same type="checkbox"; " Show the " (same) " of " (rows.len()) " curves that do not differ"
                }
            }
            (scrolling("Costs and ratios", &table))
            (unmatched(view))
        } "\n"
    }
}

fn shades() -> Markup {
    html! {
        span.shade.less-3 { "cheaper" } " " span.shade.more-3 { "more expensive" } ". "
    }
}

fn rows<'a>(view: &'a View<'_>) -> Vec<Row<'a>> {
    let base = view.base().into_iter().flat_map(|analysis| &analysis.cases);
    let every = base.flat_map(|study| study.phases.iter().map(move |phase| (study, phase)));
    every
        .map(|(study, phase)| Row {
            study,
            phase,
            cells: (0..view.sources.len()).map(|index| cell(view, study, phase, index)).collect(),
        })
        .collect()
}

fn cell<'a>(view: &'a View<'_>, study: &CaseStudy<'_>, phase: &PhaseStudy<'_>, index: usize) -> Cell<'a> {
    let case = view.sources[index].analysis.cases.iter().find(|other| other.case.label == study.case.label);
    let found = case.and_then(|case| case.phases.iter().find(|other| other.phase.name == phase.phase.name));
    let met = case.and_then(|case| case.limit.as_ref()).filter(|_| phase.phase.direction == Direction::Up);
    let of_phase = view.comparisons.into_iter().flat_map(|all| all.of_phase(&study.case.label, &phase.phase.name));
    let compared = of_phase.into_iter().find(|one| one.other == index);
    Cell {
        phase: found,
        is_base: index == 0,
        limit: met.map(|met| format!("{} at {}", met.limit.error, met.at())),
        proven: compared.and_then(PhaseComparison::proven),
        words: compared.map_or(String::new(), |one| one.text(&view.names)),
    }
}

impl Row<'_> {
    /// Returns the largest proven change relative to the base, in logarithms; zero if there is none.
    fn change(&self) -> f64 {
        self.ratios().map(|ratio| ratio.max(1e-9).ln().abs()).fold(0.0, f64::max)
    }

    /// Returns the proven ratios to the base.
    fn ratios(&self) -> impl Iterator<Item = f64> {
        self.cells.iter().filter_map(|cell| cell.proven).map(|shown| shown.ratio.value)
    }

    fn render(&self) -> Markup {
        let size = self.change();
        let largest = self.ratios().max_by(|a, b| a.max(1e-9).ln().abs().total_cmp(&b.max(1e-9).ln().abs()));
        let is_down = self.phase.phase.direction == Direction::Down;
        html! {
            tr.same[size == 0.0] data-change=(format!("{size:.4}")) data-name=(subject(self.study, self.phase)) {
                th scope="row" {
                    a href={ "#case-" (self.study.case.case) } {
                        b { (self.study.case.benchmark) } " "
                        @if !super::benchmark::is_default(self.study) {
                            (super::benchmark::settings(self.study)) " "
                        }
                        "· " @if is_down { "↓ " } (self.phase.phase.name)
                    }
                }
                @for cell in &self.cells { (cell.render()) }
                td.number data-value=(format!("{size:.4}")) { (largest.map_or("–".to_owned(), change)) }
            } "\n"
        }
    }
}

/// Renders the row of a timeline, which has rates and is not compared.
fn of_timeline(view: &View<'_>, study: &CaseStudy<'_>) -> Markup {
    let timelines = super::benchmark::timelines(view, study);
    if study.timeline.is_none() {
        return html! {};
    }
    html! {
        tr data-change="0" data-name=(study.case.label) {
            th scope="row" { a href={ "#case-" (study.case.case) } { b { (study.case.label) } " · rate" } }
            @for index in 0..view.sources.len() {
                @let rate = timelines.iter().find(|one| one.tone == index).and_then(|one| one.study.rate());
                // Rates are not compared.
                @let value = rate.map_or(-1.0, |rate| if index == 0 { rate.median.round() } else { 1.0 });
                td.number data-value=(value) {
                    (rate.map_or("not measured".to_owned(), text::rate))
                }
            }
            td.number data-value="0" { "–" }
        } "\n"
    }
}

impl Cell<'_> {
    fn render(&self) -> Markup {
        let Some(phase) = self.phase else { return html! { td data-value="-1" { "not measured" } } };
        let (verdict, unit) = (&phase.verdict, phase.verdict.all.unit);
        let cost = ends::large(&verdict.all).map(|large| large.cost.value);
        let ratio = self.proven.map(|shown| shown.ratio.value);
        let shade = self.proven.filter(|shown| !shown.is_opposite).map(|shown| shade(shown.ratio.value));
        // A column is sorted by its values: costs for the base, ratios for the others. Costs without a proven
        // difference sort like the base.
        let value = cost.map_or(-1.0, |cost| if self.is_base { cost } else { ratio.unwrap_or(1.0) });
        html! {
            td.number.shade[shade.is_some()].(shade.as_deref().unwrap_or_default()) data-value=(format!("{value:.4}"))
                title=[(!self.words.is_empty()).then_some(&self.words)]
            {
                span.sign aria-hidden="true" { (text::glyph(verdict)) }
                span.hidden { (text::outcome_word(&verdict.all)) " " }
                (cost.map_or("–".to_owned(), |cost| unit.bare(cost)))
                @if let Some(shown) = self.proven { " " span.ratio { (text::ratio(shown)) } }
                @if let Some(limit) = &self.limit { " " span.ratio { (limit) } }
            }
        }
    }
}

/// Returns the class of a shade: "more-2" for a cost of 1.5 to 3 times the base's.
fn shade(ratio: f64) -> String {
    let size = ratio.max(1e-9).ln().abs();
    let step = SHADES.iter().filter(|bound| size >= bound.ln()).count();
    match step {
        0 => String::new(),
        step if ratio > 1.0 => format!("more-{}", step - 1),
        step => format!("less-{}", step - 1),
    }
}

/// Renders the cases that only the base has, and those that it lacks, which have no row.
fn unmatched(view: &View<'_>) -> Markup {
    let labels = |index: usize| view.sources[index].analysis.cases.iter().map(|study| study.case.label.as_str());
    html! {
        @let others: Vec<&str> = (1..view.sources.len()).flat_map(labels).collect();
        @let only: Vec<&str> = labels(0).filter(|label| !others.contains(label)).collect();
        @if !only.is_empty() {
            p.note { "Only in " (view.names[0]) ": " (only.join(", ")) "." }
        }
        @for index in 1..view.sources.len() {
            @let new: Vec<&str> = labels(index).filter(|label| !labels(0).any(|own| own == *label)).collect();
            @if !new.is_empty() {
                p.note { "Not in " (view.names[0]) ", so in no row: " (view.names[index]) " has " (new.join(", ")) "." }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::shade;

    #[test]
    fn shades_are_symmetric() {
        assert_eq!([shade(6.5), shade(1.0 / 6.5), shade(1.05)], ["more-3", "less-3", "more-0"]);
        assert_eq!(shade(1.01), "");
    }
}
