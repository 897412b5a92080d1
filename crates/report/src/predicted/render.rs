//! A prediction as text.

use super::{Checked, Part, Predicted};
use crate::quantity::{FormatCost, Unit, count, digits, duration, factor, percent};
use crate::table::{Layout, plain, wrapped};

impl Predicted {
    /// Renders the prediction: a sentence, its terms, and the servers.
    pub fn render(&self, layout: Layout) -> String {
        let head = format!(
            "{} costs {}{} at {} {}.",
            self.sum,
            self.unit.cost(self.cost.value),
            self.interval(),
            count(self.n),
            self.terms.first().map_or("objects", |part| part.axis.as_str()),
        );
        let mut paragraphs = vec![wrapped(&head, layout)];
        if self.extrapolated {
            let has_one_pass = self.terms.iter().any(|part| part.is_of_one_pass);
            let has_two = self.unit != Unit::Instructions && !has_one_pass;
            let text = format!(
                "Extrapolated: the calls were measured up to {}{}. Beyond that, the costs follow from their laws, \
                 which these records cannot verify.",
                count(self.measured_to),
                if has_two { " by at least two passes" } else { "" }
            );
            paragraphs.push(wrapped(&text, layout));
        }
        paragraphs.push(self.table());
        paragraphs.extend(self.without_interval(layout));
        paragraphs.extend(self.axes(layout));
        paragraphs.extend(self.servers.iter().map(|server| wrapped(&server.sentence(), layout)));
        if self.servers.is_empty() && self.notes.is_empty() {
            let text = "There is no server to compare with: one of the records must also contain servers, for example \
                        from landau run tcp open connect request.";
            paragraphs.push(wrapped(text, layout));
        }
        paragraphs.extend(self.notes.iter().map(|note| wrapped(note, layout)));
        let trimmed: Vec<&str> = paragraphs.iter().map(|text| text.trim_end()).collect();
        format!("{}\n", trimmed.join("\n\n"))
    }

    /// Returns the interval in brackets. Counts have the range of the passes.
    fn interval(&self) -> String {
        let range = self.unit.costs(self.cost.low, self.cost.high);
        let is_equal = self.cost.low.to_bits() == self.cost.high.to_bits();
        match self.unit {
            Unit::Instructions if is_equal => String::new(),
            Unit::Instructions => format!(" (passes: {range})"),
            _ if self.terms.iter().all(|part| part.is_of_one_pass) => " (one pass: no interval)".to_owned(),
            _ => format!(" (95%: {range})"),
        }
    }

    /// Returns a note if some terms, but not all, have no interval.
    fn without_interval(&self, layout: Layout) -> Option<String> {
        let bare: Vec<&str> =
            self.terms.iter().filter(|part| part.is_of_one_pass).map(|part| part.term.as_str()).collect();
        let is_some = !bare.is_empty() && bare.len() < self.terms.len() && self.unit != Unit::Instructions;
        let text = format!("One pass has no interval, so that of the sum lacks the error of {}.", bare.join(", "));
        is_some.then(|| wrapped(&text, layout))
    }

    fn table(&self) -> String {
        let name = |part: &Part| {
            let is_once = (part.times - 1.0).abs() < f64::EPSILON;
            let times = if is_once { String::new() } else { format!("{}×", digits(part.times)) };
            format!("{times}{}", part.term)
        };
        let width = self.terms.iter().map(|part| name(part).chars().count()).max().unwrap_or(0);
        let line = |part: &Part| {
            let law = part.law.as_ref().map_or(String::new(), |law| format!(", extrapolated ({law})"));
            format!(
                "  {:<width$}  {:>8}  {:>6}  {} · {}{law}\n",
                name(part),
                self.unit.bare(part.cost.value),
                percent((part.cost.value / self.cost.value * 1000.0).round() / 1000.0),
                plain(&part.case),
                plain(&part.phase),
            )
        };
        self.terms.iter().map(line).collect()
    }

    /// Returns a note if n does not count the same in all terms.
    fn axes(&self, layout: Layout) -> Option<String> {
        let mut axes: Vec<&str> = self.terms.iter().map(|part| part.axis.as_str()).collect();
        axes.sort_unstable();
        axes.dedup();
        let text = format!(
            "The curves count different objects: {}. The cost of each is taken at that number of its own objects.",
            axes.join(", ")
        );
        (axes.len() > 1).then(|| wrapped(&text, layout))
    }
}

impl Checked {
    /// Returns the comparison as a sentence.
    pub fn sentence(&self) -> String {
        let Self { server, case, sum, .. } = self;
        let used = duration(self.used_ns.value);
        let predicted = duration(self.predicted_ns);
        let verdict = if !self.misses {
            "The sum is within 20% of the time used.".to_owned()
        } else if self.ratio > 1.0 {
            format!(
                "The sum does not cover {} of the time used: the program's own work, sleeping and waking up.",
                percent((1.0 - 1.0 / self.ratio).max(0.0))
            )
        } else {
            "The sum exceeds the time used: the server makes fewer or cheaper calls.".to_owned()
        };
        format!(
            "{server} used {used} of processor time a step in {case}; by its calls, {sum}, it must use {predicted} \
             ({}). {verdict}",
            factor(self.ratio)
        )
    }
}
