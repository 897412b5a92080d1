//! The ladders of several records side by side: a row for each step, a column for each record.
//!
//! All ladders are for the same number of sleepers, the largest that every record reached, because what a step removes
//! depends on it.

use super::{Cases, Ladder, cell, difference, has_interval};
use crate::Analysis;
use crate::quantity::{FormatCost, Unit, count, factor};
use crate::table::grid::{bold, line, needed, rule, used};
use crate::table::{Layout, plain, wrapped};
use landau_stats::Estimate;
use serde::Serialize;

/// The minimum width of the column of names in a terminal.
const NAME_MIN: usize = 24;

/// The ladders of several records of one unit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ladders {
    /// The unit of costs.
    pub unit: Unit,
    /// The number of sleepers at which the records are compared.
    pub sleepers: u32,
    /// The records that have a ladder, at least two.
    pub records: Vec<OfRecord>,
}

/// The ladder of one of several records.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OfRecord {
    /// The record's name, with the settings in which all its steps differ from those of the first record.
    pub name: String,
    /// Its index among the records.
    #[serde(skip)]
    pub index: usize,
    /// Its ladder up to the number of sleepers that all records reached.
    pub ladder: Ladder,
}

/// The rows of one quantity: its name, and for every row a name and a cell for each record.
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) rows: Vec<(String, Vec<String>)>,
}

/// Returns the ladders of the records that have one; `None` if fewer than two have one. `names` has a name for each
/// record.
pub fn of(analyses: &[&Analysis<'_>], names: &[String]) -> Option<Ladders> {
    let found = analyses.iter().enumerate();
    let found: Vec<_> = found.filter_map(|(index, one)| Some((index, Cases::of(one)?))).collect();
    let [(first, base), _, ..] = &found[..] else { return None };
    let sleepers = found.iter().map(|(_, cases)| cases.largest_n()).min()?;
    let of_record = |(index, cases): &(usize, Cases<'_>)| {
        let settings = difference(cases.steps()[0].study, base.steps()[0].study);
        let name = if settings.is_empty() { names[*index].clone() } else { format!("{} {settings}", names[*index]) };
        OfRecord { name, index: *index, ladder: cases.ladder(analyses[*index], sleepers) }
    };
    let unit = crate::unit_of(analyses[*first].record);
    Some(Ladders { unit, sleepers, records: found.iter().map(of_record).collect() })
}

impl Ladders {
    /// Returns the table: costs among the sleepers, what each step removes, the factor between the ends, and costs
    /// without sleepers.
    pub(crate) fn groups(&self) -> Vec<Group> {
        let steps = self.records.first().map_or(&[][..], |one| &one.ladder.steps);
        let write = |value: f64| self.unit.bare(value);
        let row = |name: &str, find: &dyn Fn(&Ladder) -> Option<Estimate>, write: &dyn Fn(f64) -> String| {
            let cells =
                self.records.iter().map(|one| find(&one.ladder).map_or("–".to_owned(), |one| cell(one, write)));
            (name.to_owned(), cells.collect())
        };
        let rows = |from: usize, find: fn(&super::Step) -> Option<Estimate>| {
            let steps = steps.iter().enumerate().skip(from);
            steps.map(|(index, step)| row(&step.name, &|ladder| find(&ladder.steps[index]), &write)).collect()
        };
        let sleepers = count(f64::from(self.sleepers));
        let ratio = row("naive over sound", &|ladder| ladder.factors.last().copied().flatten(), &factor);
        let group = |name: &str, rows| Group { name: name.to_owned(), rows };
        vec![
            group(&format!("Cost among {sleepers} sleepers"), rows(0, |step| step.costs.last().copied().flatten())),
            group("Removed by the step", rows(1, |step| step.removed.last().copied().flatten())),
            group("Factor", vec![ratio]),
            group("Cost without sleepers", rows(0, |step| step.without)),
        ]
    }

    /// Describes whether the same step removes most in every record, and which step does so in each. The former is
    /// based only on records whose intervals prove it.
    pub fn sentences(&self) -> Vec<String> {
        let steps: Vec<Option<&str>> =
            self.records.iter().map(|one| one.ladder.clearly_largest().map(|step| step.name.as_str())).collect();
        let shown: Vec<&str> = steps.iter().copied().flatten().collect();
        let are_all = shown.len() == steps.len();
        let across = shown.split_first().and_then(|(first, others)| {
            let is_same = others.iter().all(|other| other == first);
            match (is_same, are_all) {
                (true, true) => Some(format!("In every record the step \"{first}\" removes most.")),
                (false, _) => Some("The step that removes most is not the same in all records.".to_owned()),
                (true, false) => None,
            }
        });
        let of_record = |one: &OfRecord| {
            let apart = one.ladder.disagreement().map(|text| format!("{}: {text}.", one.name));
            std::iter::once(self.sentence(one)).chain(apart).collect::<Vec<String>>()
        };
        across.into_iter().chain(self.records.iter().flat_map(of_record)).collect()
    }

    /// Describes the step that removes most in a record, and how much it removes.
    fn sentence(&self, one: &OfRecord) -> String {
        let found = one.ladder.largest_removal().filter(|(_, removed)| !has_interval(*removed) || removed.low > 0.0);
        let Some((step, removed)) = found else {
            return format!("{}: no step is shown to remove anything.", one.name);
        };
        let interval = Ladder::interval(removed, |value| self.unit.bare(value));
        let of = one.ladder.added().map(|added| format!(", of {} that the sleepers add", self.unit.cost(added)));
        format!(
            "{}: the step \"{}\" removes {}{interval}{}.",
            one.name,
            step.name,
            self.unit.cost(removed.value),
            of.unwrap_or_default()
        )
    }
}

/// Lays out the ladders for a terminal. Records that do not fit side by side follow below.
pub fn render(ladders: &Ladders, layout: Layout) -> String {
    let groups = ladders.groups();
    let mut text = bold("Confounder ladder (cycle)", layout);
    let mut from = 0;
    while from < ladders.records.len() {
        let left = ladders.records.len() - from;
        let fits = |count: &usize| used(&widths(ladders, &groups, from..from + count)) <= usize::from(layout.width);
        let count = (1..=left).rev().find(fits).unwrap_or(1);
        text.extend([if from > 0 { "\n\n" } else { "\n" }, &table(ladders, &groups, from..from + count, layout)]);
        from += count;
    }
    format!("{text}\n\n{}", wrapped(&ladders.sentences().join(" "), layout))
}

/// Returns the widths of the columns of names and of some records.
fn widths(ladders: &Ladders, groups: &[Group], some: std::ops::Range<usize>) -> Vec<usize> {
    needed(lines(ladders, groups, some).iter().map(|(cells, _)| &cells[..]))
}

/// Returns the head and the rows of some records; `true` marks the name of a group.
fn lines(ladders: &Ladders, groups: &[Group], some: std::ops::Range<usize>) -> Vec<(Vec<String>, bool)> {
    let row = |name: &str, cells: &[String]| {
        let cells = cells.iter().map(|cell| plain(cell));
        std::iter::once(name.to_owned()).chain(cells).collect::<Vec<_>>()
    };
    let names: Vec<String> = ladders.records[some.clone()].iter().map(|one| one.name.clone()).collect();
    let mut lines = vec![(row(&format!("{:<NAME_MIN$}", "Step"), &names), false)];
    for group in groups {
        lines.push((vec![group.name.clone()], true));
        let rows = group.rows.iter().map(|(name, cells)| row(&format!("  {name}"), &cells[some.clone()]));
        lines.extend(rows.map(|cells| (cells, false)));
    }
    lines
}

fn table(ladders: &Ladders, groups: &[Group], some: std::ops::Range<usize>, layout: Layout) -> String {
    let lines = lines(ladders, groups, some);
    let widths = needed(lines.iter().map(|(cells, _)| &cells[..]));
    let mut text = Vec::new();
    for (index, (cells, is_name)) in lines.iter().enumerate() {
        if *is_name {
            text.push(rule(&widths, layout));
        }
        let line = line(cells, &widths);
        text.push(if index == 0 { bold(&line, layout) } else { line });
    }
    text.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::STEPS;
    use crate::ladder::tests::record;

    fn names() -> Vec<String> {
        ["old", "new"].map(str::to_owned).to_vec()
    }

    fn rows(ladders: &Ladders, group: &str) -> Vec<(String, Vec<String>)> {
        ladders.groups().into_iter().find(|one| one.name == group).unwrap().rows
    }

    /// In the first record the second step removes the growth, in the other one the first step does: another kernel.
    #[test]
    fn the_step_that_removes_most_is_told_for_each_record() {
        let (old, new) = (record(2, 0.01), record(1, 0.01));
        let ladders = of(&[&Analysis::of(&old), &Analysis::of(&new)], &names()).unwrap();
        let removed = rows(&ladders, "Removed by the step");
        assert_eq!(removed.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), STEPS.map(|step| step.0)[1..]);
        assert!(removed[1].1[0].starts_with("195 µs (") && removed[0].1[1].starts_with("195 µs ("), "{removed:?}");
        assert!(!removed[0].1[0].contains("195") && !removed[1].1[1].contains("195"), "{removed:?}");
        let text = ladders.sentences();
        assert_eq!(text[0], "The step that removes most is not the same in all records.");
        for (name, step, sentence) in [("old", STEPS[2].0, &text[1]), ("new", STEPS[1].0, &text[2])] {
            assert!(sentence.starts_with(&format!("{name}: the step \"{step}\" removes 195 µs (")), "{sentence}");
            // 300 µs and the drift of the machine, 50 µs without sleepers.
            assert!(sentence.ends_with("), of 250 µs that the sleepers add."), "{sentence}");
        }
        let same = of(&[&Analysis::of(&old), &Analysis::of(&old)], &names()).unwrap();
        assert_eq!(same.sentences()[0], format!("In every record the step \"{}\" removes most.", STEPS[2].0));
    }

    /// Guards against columns of different numbers of sleepers: what a step removes depends on the number.
    #[test]
    fn records_are_compared_among_the_sleepers_that_all_reached() {
        let (long, mut short) = (record(1, 0.01), record(1, 0.01));
        for pass in &mut short.passes {
            for lane in pass.series.values_mut() {
                lane.n.truncate(1_000);
                lane.costs.truncate(1_000);
            }
        }
        let (long, short) = (Analysis::of(&long), Analysis::of(&short));
        let ladders = of(&[&long, &short], &names()).unwrap();
        assert_eq!(ladders.sleepers, 1_000);
        let costs = rows(&ladders, "Cost among 1,000 sleepers");
        assert!(costs[0].1[0].starts_with("202 µs (") && costs[0].1[0] == costs[0].1[1], "{costs:?}");
        assert!(ladders.records.iter().all(|one| one.ladder.sleepers.last() == Some(&1_000)));
    }

    #[test]
    fn a_record_without_a_step_has_no_column_and_other_settings_are_named() {
        let (whole, mut other, mut torn) = (record(1, 0.01), record(1, 0.01), record(1, 0.01));
        torn.passes.retain(|pass| pass.start.case != 2);
        for case in &mut other.cases {
            case.settings.insert("creation".to_owned(), "vfork".to_owned());
        }
        let (whole, other, torn) = (Analysis::of(&whole), Analysis::of(&other), Analysis::of(&torn));
        assert_eq!(of(&[&whole, &torn], &names()), None);
        let names: Vec<String> = ["a", "b", "c"].map(str::to_owned).to_vec();
        let ladders = of(&[&whole, &torn, &other], &names).unwrap();
        let shown: Vec<&str> = ladders.records.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(shown, ["a", "c creation=vfork"]);
    }

    /// Guards against a step that is presented as certain after one pass, and against one that may be zero.
    #[test]
    fn what_is_not_certain_is_not_told_as_if_it_were() {
        let mut one_pass = record(1, 0.01);
        one_pass.passes.retain(|pass| pass.start.round == 0);
        let one_pass = Analysis::of(&one_pass);
        let text = of(&[&one_pass, &one_pass], &names()).unwrap().sentences();
        assert!(text.len() == 2 && text.iter().all(|line| line.contains("(one pass: no interval)")), "{text:?}");
        let whole = record(1, 0.01);
        let whole = Analysis::of(&whole);
        let mut ladders = of(&[&whole, &whole], &names()).unwrap();
        for step in &mut ladders.records[1].ladder.steps {
            step.removed = vec![Some(Estimate { value: 30.0, low: -2.0, high: 60.0 })];
        }
        let text = ladders.sentences();
        assert_eq!(text.len(), 2, "{text:?}");
        assert_eq!(text[1], "new: no step is shown to remove anything.");
    }

    /// Guards against a step that "removes" a difference that the steps have without sleepers.
    #[test]
    fn steps_that_differ_without_sleepers_are_told_for_their_record() {
        let (alike, apart) = (record(1, 0.01), record(1, 0.1));
        let text = of(&[&Analysis::of(&alike), &Analysis::of(&apart)], &names()).unwrap().sentences();
        assert_eq!(text.len(), 4, "{text:?}");
        assert!(text[3].starts_with("new: its steps differ by up to 15") && text[3].contains("(30%)"), "{text:?}");
    }

    #[test]
    fn records_that_do_not_fit_in_a_line_follow_below() {
        let record = record(1, 0.01);
        let analysis = Analysis::of(&record);
        let names: Vec<String> = ["first", "second", "third"].map(str::to_owned).to_vec();
        let ladders = of(&[&analysis; 3], &names).unwrap();
        let shown = |width: u16| render(&ladders, Layout { width, color: false });
        assert!(shown(200).lines().any(|line| ["first", "second", "third"].iter().all(|name| line.contains(name))));
        let narrow = shown(60);
        assert_eq!(narrow.lines().filter(|line| line.trim_start().starts_with("naive  ")).count(), 6, "{narrow}");
        let table = narrow.lines().take_while(|line| !line.starts_with("In every"));
        assert!(table.clone().all(|line| line.chars().count() <= 60), "{narrow}");
    }
}
