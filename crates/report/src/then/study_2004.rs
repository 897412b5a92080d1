//! The study of 2004: creating and reaping a process among thousands of sleeping ones.

use super::reading::{Answer, Author, Settings, absent, judged, mean_near, mismatch, phase, points, verdict};
use super::{Article, Change, Figure, Published, Subject, Test};
use crate::ladder;
use crate::quantity::{FormatCost, Unit, count};
use crate::{Analysis, unit_of};
use landau_stats::{Estimate, paired};

const STUDY: &str = "2004";

const ARTICLE: &str = "D. Schultz, Process Creation/Destruction Benchmarks, February 2004";

const CITATION: &str = "D. Schultz, \"Process Creation/Destruction Benchmarks\" (February 2004), FreeBSD-CURRENT of \
                        6 February 2004 on a Pentium III of 450 MHz. Its graphs were images and are lost, and with \
                        them every value and the list of the two changes to the test; the second test here is a \
                        reconstruction.";

const BENCHMARK: &str = "spawn";
const PHASE: &str = "cycle";

const FIRST: Settings = &[("wait", "any"), ("parent", "timer"), ("image", "shared")];
const SECOND: Settings = &[("wait", "pid"), ("parent", "helper"), ("image", "executed")];

/// The settings in which the second test corrects the first.
const CORRECTION: [&str; 3] = ["wait", "parent", "image"];

/// "The common case of only several hundred processes"; the other end is thousands.
const FEW: f64 = 300.0;

const PUBLISHED: [Published; 4] = [
    Published {
        what: "first test, 1,000 forks, 3 repeats",
        value: "the better algorithms \"performed nearly as badly as the old allocator, so clearly confounding factors \
                were involved\"",
        source: ARTICLE,
    },
    Published {
        what: "second test, 10,000 forks",
        value: "\"Fork time decreased so much that I had to run 10,000 iterations instead of 1000\"",
        source: ARTICLE,
    },
    Published {
        what: "second test, several hundred processes",
        value: "\"no statistically significant performance impact\"",
        source: ARTICLE,
    },
    Published {
        what: "spread",
        value: "\"the variance is much higher when there are more sleeping processes\"",
        source: ARTICLE,
    },
];

/// Returns the curves that this article uses.
pub(super) fn subjects() -> Vec<Subject> {
    let cases = [FIRST, SECOND].into_iter().flat_map(|settings| [(Some(STUDY), settings), (None, settings)]);
    cases.map(|(study, settings)| Subject { study, benchmark: BENCHMARK, settings, phase: PHASE }).collect()
}

pub(super) fn replay(analysis: &Analysis<'_>) -> Article {
    Article {
        year: STUDY,
        citation: CITATION,
        asked: "Which allocator of process identifiers makes fork fastest when thousands of processes sleep?",
        method: "Forks at a fixed number of sleepers, timed together; three repeats, their mean with 95% error bars. \
                 Two numbers of sleepers differ if their error bars do not overlap.",
        tests: test(analysis).into_iter().collect(),
        contradictions: Vec::new(),
    }
}

/// The mean of the repeats at few sleepers and at the largest number, with error bars.
struct Bars {
    few: Estimate,
    many: Estimate,
    largest_n: f64,
    repeats: usize,
}

impl Bars {
    fn of(author: &Author<'_>) -> Option<Self> {
        let passes = &author.curve.passes;
        let largest_n = f64::from(passes.iter().flat_map(|pass| pass.n.iter().copied()).max()?);
        let at = |n: f64| paired::mean(&passes.iter().filter_map(|pass| mean_near(pass, n)).collect::<Vec<_>>());
        Some(Self { few: at(FEW)?, many: at(largest_n)?, largest_n, repeats: passes.len() })
    }

    /// Returns whether the forks among the largest number of sleepers cost more than those among few, by the error
    /// bars; `None` if there are no error bars.
    fn grows(&self) -> Option<bool> {
        (self.repeats > 1).then_some(self.many.low > self.few.high)
    }

    fn sentence(&self, name: &str, unit: Unit) -> String {
        let bar = |one: Estimate| {
            let (value, bar) = (unit.cost(one.value), unit.cost(one.high - one.value));
            if one.high.is_finite() { format!("{value} ± {bar}") } else { value }
        };
        let reading = match self.grows() {
            Some(true) => "The error bars do not overlap: sleepers cost time.",
            Some(false) => "The error bars overlap: no significant impact.",
            None => "One repeat has no error bars.",
        };
        format!(
            "{name}: {} repeats. A fork takes {} among {} sleepers and {} among {}. {reading}",
            self.repeats,
            bar(self.few),
            count(FEW),
            bar(self.many),
            count(self.largest_n)
        )
    }
}

fn test(analysis: &Analysis<'_>) -> Option<Test> {
    let unit = unit_of(analysis.record);
    let authors = [FIRST, SECOND].map(|settings| Author::find(analysis, STUDY, (BENCHMARK, settings), PHASE));
    let cases = [FIRST, SECOND].map(|settings| judged(analysis, (BENCHMARK, settings)));
    let own = cases.map(|study| phase(study?, PHASE));
    if authors.iter().all(Option::is_none) && own.iter().all(Option::is_none) {
        return None;
    }
    let bars = authors.each_ref().map(|author| author.as_ref().and_then(Bars::of));
    let names = ["first test", "second test (reconstructed)"];
    let mut then: Vec<String> =
        bars.iter().zip(names).filter_map(|(bars, name)| Some(bars.as_ref()?.sentence(name, unit))).collect();
    let mut now: Vec<String> = own.iter().zip(names).filter_map(|(own, name)| Some(verdict(name, (*own)?))).collect();
    let ladder = ladder::of(analysis);
    now.extend(ladder.iter().flat_map(ladder::Ladder::sentences));
    for sentences in [&mut then, &mut now] {
        if sentences.is_empty() {
            sentences.push(absent(analysis, BENCHMARK));
        }
    }
    let by_bars = bars.each_ref().map(|bars| bars.as_ref().and_then(Bars::grows));
    let answers = own.map(|own| own.map(|own| Answer::of(own, f64::INFINITY)));
    let differs = |author: &Author<'_>| {
        cases.iter().zip(own).find_map(|(study, own)| mismatch(author, (*study)?, own?, &CORRECTION))
    };
    let (change, conclusion) = match authors.iter().flatten().find_map(differs) {
        Some(reason) => (Change::Open, format!("Open: {reason}.")),
        None => conclusion(by_bars, answers),
    };
    let removed = ladder.as_ref().and_then(|ladder| {
        let (step, _) = ladder.largest_step()?;
        Some(vec![
            ladder.removal(step)?,
            format!("So most of what the first test saw here was the step \"{}\", not the fork.", step.name),
        ])
    });
    let curves = own.iter().zip(names).filter_map(|(own, name)| Some((name.to_owned(), points((*own)?))));
    Some(Test {
        name: "fork among sleepers",
        asked: "Does creating and reaping a child cost more while thousands of processes sleep?",
        published: PUBLISHED.to_vec(),
        method: "In the first test the parent of the timed child is also that of the sleepers, and waits for any \
                 child. The two changes of the second test are lost; here the sleepers are another process's children \
                 and have executed a program, and the parent waits for the timed child.",
        then,
        now,
        change,
        conclusion,
        why: removed.filter(|_| change == Change::Changes).unwrap_or_default(),
        figure: Some(Figure {
            axis: "sleeping processes".to_owned(),
            samples: authors[0].as_ref().map(Author::samples).unwrap_or_default(),
            sampled: names[0],
            curves: curves.collect(),
        }),
    })
}

/// Returns whether the first test and the corrected method differ, and the result of each test.
fn conclusion([first, second]: [Option<bool>; 2], [naive, sound]: [Option<Answer>; 2]) -> (Change, String) {
    let word = |grows: bool| if grows { "sleepers cost time" } else { "no significant impact" };
    let (Some(first), Some(answer)) = (first, sound) else {
        return (Change::Open, "Open: one of the two methods gives no answer in this record.".to_owned());
    };
    let grows = match answer {
        Answer::Grows | Answer::Cliff => true,
        Answer::Constant | Answer::Beyond | Answer::Falls => false,
        Answer::Varies | Answer::Open => {
            let is = if answer == Answer::Varies { "varies without growing" } else { "is not resolved" };
            let text = format!("Open: {} by the first test; the sound test {is} on this machine today.", word(first));
            return (Change::Open, text);
        }
    };
    if !first && matches!(naive, Some(Answer::Grows | Answer::Cliff)) {
        let text = format!(
            "The method changes the conclusion: the error bars of the first test show no significant impact, the \
             corrected method shows that the same test grows. The sound test: {}.",
            answer.word()
        );
        return (Change::Changes, text);
    }
    let also = second.map_or(String::new(), |second| format!(" The study's second test: {}.", word(second)));
    let text = match (first == grows, answer) {
        (true, Answer::Falls) => "The method does not change the conclusion: sleepers cost no time by either, and by \
                                  the corrected method the cost falls."
            .to_owned(),
        (true, _) => format!("The method does not change the conclusion: {} by both.", word(first)),
        (false, _) => format!(
            "The method changes the conclusion: {} by the first test, {} by the corrected method.",
            word(first),
            answer.word()
        ),
    };
    (if first == grows { Change::Stays } else { Change::Changes }, text + &also)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: sleepers cost time if the sound test grows or has a cliff. A falling cost does not count as such, and
    /// one that varies or is not resolved gives no answer.
    #[test]
    fn only_growth_says_that_sleepers_cost_time() {
        let rows = [
            (true, Answer::Constant, Change::Changes, "sleepers cost time by the first test, O(1) by the"),
            (true, Answer::Falls, Change::Changes, "sleepers cost time by the first test, a falling cost by the"),
            (true, Answer::Grows, Change::Stays, "sleepers cost time by both"),
            (true, Answer::Cliff, Change::Stays, "sleepers cost time by both"),
            (true, Answer::Varies, Change::Open, "Open: sleepers cost time by the first test; the sound test varies"),
            (true, Answer::Open, Change::Open, "the sound test is not resolved"),
            (false, Answer::Constant, Change::Stays, "no significant impact by both"),
            (false, Answer::Falls, Change::Stays, "by the corrected method the cost falls"),
            (false, Answer::Grows, Change::Changes, "no significant impact by the first test, growth by the"),
            (false, Answer::Cliff, Change::Changes, "no significant impact by the first test, a cliff by the"),
            (false, Answer::Varies, Change::Open, "Open: no significant impact by the first test"),
            (false, Answer::Open, Change::Open, "Open: no significant impact by the first test"),
        ];
        for (first, sound, change, text) in rows {
            let said = conclusion([Some(first), None], [None, Some(sound)]);
            assert!(said.0 == change && said.1.contains(text), "{first} {sound:?}: {said:?}");
        }
        // The same first test: its error bars show no difference, but it grows or has a cliff.
        for naive in [Answer::Grows, Answer::Cliff] {
            let said = conclusion([Some(false), None], [Some(naive), Some(Answer::Constant)]);
            assert!(said.0 == Change::Changes && said.1.contains("the same test grows"), "{said:?}");
        }
    }
}
