//! Small pictures of all curves in one grid: coloured and signed by outcome, sortable, each with a link to its details.

use super::thumbnail;
use crate::findings::subject;
use crate::page::View;
use crate::quantity::{FormatCost, factor};
use crate::text::{self, CLASSES};
use crate::{CaseStudy, PhaseStudy, ends};
use landau_record::schema::Direction;
use maud::{Markup, html};

/// Maximum length of a law's symbol that fits in a cell.
const SYMBOL_MAX: usize = 8;

/// A curve of the grid.
struct Cell<'a> {
    study: &'a CaseStudy<'a>,
    phase: &'a PhaseStudy<'a>,
}

/// Renders the overview of one record; nothing for several, which have a matrix.
pub(crate) fn render(view: &View<'_>) -> Markup {
    let Some(base) = view.base().filter(|_| view.sources.len() == 1) else { return html! {} };
    let every = base.cases.iter().flat_map(|study| study.phases.iter().map(move |phase| Cell { study, phase }));
    let cells: Vec<Cell<'_>> = every.collect();
    html! {
        section #overview.overview aria-labelledby="overview-heading" {
            h2 #overview-heading { "Every curve" }
            p.note {
                @if cells.len() == 1 { "The cost" } @else { (cells.len()) " curves, each the cost" }
                " of a call against n, both logarithmic. A link opens the details."
            }
            (legend(&cells))
            ul #grid.grid {
                @for (index, cell) in cells.iter().enumerate() { (cell.render(index)) }
                @for (index, study) in base.cases.iter().filter(|study| study.timeline.is_some()).enumerate() {
                    (of_timeline(cells.len() + index, study))
                }
            }
        } "\n"
    }
}

/// Renders the classes with their numbers, which scripts turn into filters, and the sort order.
fn legend(cells: &[Cell<'_>]) -> Markup {
    html! {
        div.bar {
            div.classes role="group" aria-label="Show outcomes" {
                @for class in CLASSES {
                    @let word = text::class_word(class);
                    @let number = cells.iter().filter(|cell| cell.phase.verdict.class() == class).count();
                    @if number > 0 {
                        button.class.(word) type="button" data-class=(word) aria-pressed="true" {
                            span.dot aria-hidden="true" {} (number) " " (text::class_name(class))
                        }
                    }
                }
            }
            label.sort { "Sort by "
                select #sort {
                    option value="index" { "benchmark" }
                    option value="outcome" { "outcome" }
                    option value="growth" { "growth" }
                    option value="cost" { "cost at the largest n" }
                    option value="name" { "name" }
                }
            }
        }
    }
}

/// Renders the cell of a timeline, which has a rate and no outcome.
fn of_timeline(index: usize, study: &CaseStudy<'_>) -> Markup {
    let Some(timeline) = &study.timeline else { return html! {} };
    let rate = timeline.rate().map_or("no samples".to_owned(), text::rate);
    html! {
        li data-index=(index) data-outcome=(CLASSES.len()) data-class="timeline" data-growth="0" data-cost="0"
            data-name=(study.case.label)
        {
            a.cell.timeline href={ "#case-" (study.case.case) } {
                span.name { b { (study.case.benchmark) } " · " (timeline.phase.name) }
                span.settings-of-cell {
                    @if !super::benchmark::is_default(study) { (super::benchmark::settings(study)) }
                }
                (super::timeline::cell(timeline))
                span.outcome { span.sign aria-hidden="true" { "▸" } (rate) }
            }
        } "\n"
    }
}

impl Cell<'_> {
    fn render(&self, index: usize) -> Markup {
        let (verdict, judged) = (&self.phase.verdict, &self.phase.verdict.all);
        let class = verdict.class();
        let rank = CLASSES.iter().position(|other| *other == class).unwrap_or(CLASSES.len());
        let growth = self.growth();
        let cost = ends::large(judged).map_or(0.0, |large| large.cost.value);
        let is_down = self.phase.phase.direction == Direction::Down;
        html! {
            li data-index=(index) data-outcome=(rank) data-class=(text::class_word(class))
                data-growth=(format!("{:.3}", growth.abs())) data-cost=(format!("{cost:.3}"))
                data-name=(subject(self.study, self.phase))
            {
                a.cell.(text::class_word(class)) href={ "#case-" (self.study.case.case) } {
                    span.name {
                        b { (self.study.case.benchmark) } " · " @if is_down { "↓ " } (self.phase.phase.name)
                    }
                    span.settings-of-cell {
                        @if !super::benchmark::is_default(self.study) { (super::benchmark::settings(self.study)) }
                    }
                    (thumbnail::cell(self.phase))
                    span.outcome {
                        span.sign aria-hidden="true" { (text::glyph(verdict)) }
                        (self.words(growth))
                    }
                    @if cost > 0.0 { span.cost { (judged.unit.bare(cost)) } }
                }
            } "\n"
        }
    }

    /// Returns the logarithm of the change from small to large n; if there is a cliff, of its factor.
    fn growth(&self) -> f64 {
        let judged = &self.phase.verdict.all;
        let cliff = judged.cliffs.iter().map(|cliff| cliff.factor_over_start).reduce(f64::max);
        cliff.or(judged.growth.map(|growth| growth.value)).unwrap_or(1.0).max(1e-9).ln()
    }

    /// Describes the outcome in a few words: "cliff ×3,187", "×75.4 O(n)", "flat".
    fn words(&self, growth: f64) -> String {
        let judged = &self.phase.verdict.all;
        if judged.cliffs.is_empty() && text::known_growth(judged).is_none() {
            return text::outcome_word(judged).to_owned();
        }
        let by = factor(growth.exp());
        match text::outcome_word(judged) {
            "cliff" => format!("cliff {by}"),
            "grows" => match text::symbol_of(judged).filter(|symbol| symbol.chars().count() <= SYMBOL_MAX) {
                Some(symbol) => format!("{by} {symbol}"),
                None => format!("grows {by}"),
            },
            "falls" => format!("falls {by}"),
            "small change" => "small".to_owned(),
            "not resolved" => "unresolved".to_owned(),
            word => word.to_owned(),
        }
    }
}
