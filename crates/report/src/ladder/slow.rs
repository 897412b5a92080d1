//! The slow calls among many sleepers, and what explains them.
//!
//! The study of 2004 observed that its costs spread more among more sleepers, but could not explain it. For each call,
//! the record has the canary and the RCU softirqs that began on its processor. Its window, which covers some
//! milliseconds, has the context switches, major page faults and stolen time.

use super::{Ladder, PHASE, Passes, at_share, median};
use crate::Analysis;
use crate::analysis::interference;
use crate::quantity::count;
use landau_record::schema::{Direction, Window};
use landau_record::{Pass, Series};
use landau_stats::Estimate;
use landau_stats::attribution::{Block, attribute};
use serde::Serialize;

/// A call is slow if it costs this many times the median of its block.
const SLOW: f64 = 1.5;
/// The canary is slow from this factor over its median in the block. Then everything is slow, as when another guest
/// uses the sibling thread of the core.
const SLOW_CANARY: f64 = 1.1;
/// Consecutive calls that make a block, both for medians and for the jackknife.
const PLACE: usize = 256;

/// The tags that a call may have. The first is left out if the record lacks it.
const TAGS: [&str; 5] = [
    "an RCU softirq in the call",
    "a canary slower by a tenth",
    "more context switches than usual",
    "a major page fault",
    "time stolen by the hypervisor",
];
/// The index of the first tag of the window. These tags are evaluated together: few of the window's calls were
/// interfered with.
const OF_WINDOW: usize = 2;
/// The possible causes of a slow call, by the first tag that it has.
const CAUSES: [&str; 4] = ["RCU softirqs", "a slower processor", "interference in the window", "nothing that was seen"];

/// The slow calls of a case among the last fifth of the sleepers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Slow {
    /// The name of the step.
    pub name: String,
    /// The spread: the 90th percentile over the median, of the first fifth and of the last.
    pub spread: [f64; 2],
    /// The number of slow calls in the last fifth, and of all calls in it.
    pub calls: [usize; 2],
    /// The tags: the name, its share of the slow calls, and its share of the others.
    pub tags: Vec<(&'static str, f64, f64)>,
    /// The share of the slow calls that each cause explains beyond coincidence, 95%; the last is the unexplained share.
    pub explained: Vec<(&'static str, Estimate)>,
}

/// A call of the last fifth.
struct Call {
    is_slow: bool,
    tags: [bool; TAGS.len()],
}

impl Call {
    /// Returns the index of the call's cause in [`CAUSES`].
    fn cause(&self) -> usize {
        self.tags.iter().position(|has| *has).map_or(CAUSES.len() - 1, |tag| tag.min(OF_WINDOW))
    }
}

impl Slow {
    /// Returns what the slow calls among the largest number of sleepers have in common; `None` if there are no slow
    /// calls.
    pub(super) fn of(case: &Passes<'_>, analysis: &Analysis<'_>, name: &str) -> Option<Self> {
        let largest = case.study.largest_n();
        let (few, many) = (largest / 5, largest - largest / 5);
        let passes = analysis.record.passes_of(case.study.case.case);
        let counted: Vec<(&Pass, &Series)> = passes
            .into_iter()
            .filter(|pass| case.phase.rounds.contains(&pass.start.round))
            .filter_map(|pass| Some((pass, pass.series.get(PHASE)?)))
            .collect();
        let has_softirqs = counted.iter().all(|(pass, _)| up(&pass.windows).all(|window| softirqs(window).is_some()));
        let (mut ratios, mut blocks) = ([Vec::new(), Vec::new()], Vec::new());
        for (pass, lane) in counted {
            let tags = tags(pass, lane);
            for (place, costs) in lane.costs.chunks(PLACE).enumerate() {
                let costs: Vec<f64> = costs.iter().map(|cost| *cost as f64).collect();
                let middle = median(&costs).max(1.0);
                let mut block = Vec::new();
                for (index, cost) in (PLACE * place..).zip(costs) {
                    if lane.n[index] <= few {
                        ratios[0].push(cost / middle);
                    } else if lane.n[index] > many {
                        ratios[1].push(cost / middle);
                        block.push(Call { is_slow: cost > SLOW * middle, tags: tags[index] });
                    }
                }
                if !block.is_empty() {
                    blocks.push(block);
                }
            }
        }
        let calls: Vec<&Call> = blocks.iter().flatten().collect();
        let slow = calls.iter().filter(|call| call.is_slow).count();
        if slow == 0 || ratios[0].is_empty() {
            return None;
        }
        let left_out = usize::from(!has_softirqs);
        let share = |tag: usize, of_slow: bool| {
            let of = calls.iter().filter(|call| call.is_slow == of_slow);
            of.clone().filter(|call| call.tags[tag]).count() as f64 / of.count().max(1) as f64
        };
        let explained = attribute(&blocks.iter().map(|calls| block(calls, left_out)).collect::<Vec<Block>>());
        let p90 = |values: &[f64]| at_share(values, 0.9);
        Some(Self {
            name: name.to_owned(),
            spread: [p90(&ratios[0]), p90(&ratios[1])],
            calls: [slow, calls.len()],
            tags: (left_out..TAGS.len()).map(|tag| (TAGS[tag], share(tag, true), share(tag, false))).collect(),
            explained: CAUSES[left_out..].iter().copied().zip(explained).collect(),
        })
    }

    /// Returns whether RCU softirqs were counted with the calls.
    pub(crate) fn has_softirqs(&self) -> bool {
        self.tags.first().is_some_and(|tag| tag.0 == TAGS[0])
    }

    /// Describes what explains the slow calls, in a sentence.
    pub(crate) fn sentence(&self) -> String {
        let percent = |value: f64| format!("{:.0}", 100.0 * value);
        let causes: Vec<String> = self
            .explained
            .iter()
            .map(|(name, share)| {
                let interval = if share.low.is_finite() { Ladder::interval(*share, percent) } else { String::new() };
                format!("{name} {}%{interval}", percent(share.value))
            })
            .collect();
        let [slow, all] = self.calls.map(|calls| count(calls as f64));
        let what = match &causes[..] {
            [] => return format!("{}: all of the last {all} calls are slow.", self.name),
            [causes @ .., last] => format!("{}, {last}", causes.join(", ")),
        };
        format!("{}: {slow} of the last {all} calls are slow. Explained by: {what}.", self.name)
    }
}

/// Counts the calls of a block by cause, except the first `left_out` causes.
fn block(calls: &[Call], left_out: usize) -> Block {
    let mut block = Block { slow: vec![0; CAUSES.len() - left_out], others: vec![0; CAUSES.len() - left_out] };
    for call in calls {
        let counts = if call.is_slow { &mut block.slow } else { &mut block.others };
        counts[call.cause() - left_out] += 1;
    }
    block
}

fn up(windows: &[Window]) -> impl Iterator<Item = &Window> {
    windows.iter().filter(|window| window.direction == Direction::Up)
}

/// Returns the softirqs of each call of a window.
fn softirqs(window: &Window) -> Option<&[u32]> {
    window.calls.as_ref()?.rcu_softirqs.as_deref()
}

/// Returns which of [`TAGS`] each call of a pass has. A call whose window is not in the record has none.
fn tags(pass: &Pass, lane: &Series) -> Vec<[bool; TAGS.len()]> {
    let mut tags = vec![[false; TAGS.len()]; lane.n.len()];
    let canaries = canaries(&pass.windows, lane.n.len());
    // If calls have no separate canary, few windows contain many canary calls, so these are compared with the whole
    // pass.
    let has_own = up(&pass.windows).all(|window| window.calls.is_some());
    let compared = if has_own { PLACE } else { canaries.len().max(1) };
    for (place, costs) in canaries.chunks(compared).enumerate() {
        let usual = median(costs);
        for (index, cost) in (compared * place..).zip(costs) {
            tags[index][1] = *cost > SLOW_CANARY * usual;
        }
    }
    let seen = interference(&pass.windows);
    for (window, seen) in pass.windows.iter().zip(seen).filter(|(window, _)| window.direction == Direction::Up) {
        let calls = (0..window.count as usize).map(|step| (step, window.first as usize + step - 1));
        for (step, index) in calls.filter(|(_, index)| *index < lane.n.len()) {
            tags[index][0] = softirqs(window).is_some_and(|counts| counts[step] > 0);
            tags[index][OF_WINDOW..].copy_from_slice(&[seen.preempted, seen.faulted, seen.stolen]);
        }
    }
    tags
}

/// Returns the canary of each call: its own, or, in a record without these, that of its window. A window without a
/// canary call uses the one before it.
fn canaries(windows: &[Window], count: usize) -> Vec<f64> {
    let costs = |values: &[u64]| values.iter().map(|cost| *cost as f64).collect::<Vec<f64>>();
    let all: Vec<f64> = up(windows).flat_map(|window| costs(window.canary.values())).collect();
    let mut last = median(&all);
    let mut canaries = Vec::new();
    for window in up(windows) {
        let own = costs(window.canary.values());
        last = if own.is_empty() { last } else { median(&own) };
        match &window.calls {
            Some(calls) => canaries.extend(costs(calls.canary.values())),
            None => canaries.extend(vec![last; window.count as usize]),
        }
    }
    canaries.truncate(count);
    canaries
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::tests::record;
    use crate::ladder::{Ladder, STEPS, of};
    use landau_record::Record;
    use landau_record::schema::{CallTags, Canary};

    fn ladder(record: &Record) -> Ladder {
        of(&Analysis::of(record)).unwrap()
    }

    /// Returns whether the numbers are close to the expected ones.
    fn are(numbers: impl IntoIterator<Item = f64>, expected: &[f64]) -> bool {
        let numbers: Vec<f64> = numbers.into_iter().collect();
        numbers.len() == expected.len() && numbers.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9)
    }

    /// A record whose calls have no tags. The slow calls are in a window with a slow canary and with stolen time, which
    /// was read in the next window.
    #[test]
    fn what_the_windows_of_slow_calls_saw_is_told_apart_from_the_others() {
        let ladder = ladder(&record(1, 0.01));
        assert_eq!(ladder.slow.iter().map(|slow| slow.name.as_str()).collect::<Vec<_>>(), [STEPS[0].0, STEPS[3].0]);
        for slow in &ladder.slow {
            let passes = slow.calls[1] / 400;
            assert_eq!(slow.calls, [20 * passes, 400 * passes]);
            assert!(slow.spread.iter().all(|spread| (1.0..1.1).contains(spread)), "{slow:?}");
            assert_eq!(slow.tags.iter().map(|tag| tag.0).collect::<Vec<_>>(), TAGS[1..]);
            assert!(are(slow.tags.iter().map(|tag| tag.1), &[1.0, 0.0, 0.0, 1.0]), "{slow:?}");
            let others = [180.0 / 380.0, 100.0 / 380.0, 100.0 / 380.0, 180.0 / 380.0];
            assert!(are(slow.tags.iter().map(|tag| tag.2), &others), "{slow:?}");
            assert_eq!(slow.explained.iter().map(|one| one.0).collect::<Vec<_>>(), CAUSES[1..]);
            assert!(are(slow.explained.iter().map(|one| one.1.value), &[1.0, 0.0, 0.0]), "{slow:?}");
        }
    }

    /// Every tenth of the last 400 calls is slow. Of these 40 calls, 12 have a softirq, 9 have a slow canary, and 10
    /// have a page fault in their window, which 90 others have, too; 9 have nothing. The fault explains (10/19 -
    /// 90/360) / (1 - 90/360) of the 19 that have neither of the first two.
    fn tagged() -> Record {
        let mut record = record(1, 0.01);
        for pass in &mut record.passes {
            let lane = pass.series.get_mut(PHASE).unwrap();
            for (n, cost) in lane.n.iter().zip(&mut lane.costs) {
                *cost = if *n > 1_600 && n % 10 == 0 { 400_000 } else { 100_000 + u64::from(*n) };
            }
            for window in &mut pass.windows {
                let is_faulted = window.first == 1_601;
                (window.preempted, window.steal_ms, window.steal_windows) = (0, 0, None);
                window.faults = [0, u32::from(is_faulted)];
                let slow = |n: u32| (window.first > 1_601).then(|| n / 10 - 170).filter(|_| n.is_multiple_of(10));
                let numbers = || window.first..window.first + window.count;
                let has_softirq = |n| slow(n).is_some_and(|number| number <= 12);
                let has_canary = |n| slow(n).is_some_and(|number| (13..=21).contains(&number));
                window.calls = Some(CallTags {
                    rcu_softirqs: Some(numbers().map(|n| 2 * u32::from(has_softirq(n))).collect()),
                    canary: Canary::Ns(
                        numbers().map(|n| if has_canary(n) { 230 } else { 170 + u64::from(n % 9) }).collect(),
                    ),
                });
            }
        }
        record
    }

    #[test]
    fn slow_calls_are_attributed_by_the_tags_of_calls() {
        let ladder = ladder(&tagged());
        for slow in &ladder.slow {
            assert_eq!(slow.calls[1], 10 * slow.calls[0]);
            assert!(are(slow.tags.iter().map(|tag| tag.1), &[0.3, 0.225, 0.0, 0.25, 0.0]), "{slow:?}");
            assert!(are(slow.tags.iter().map(|tag| tag.2), &[0.0, 0.0, 0.0, 0.25, 0.0]), "{slow:?}");
            let window = 19.0 / 40.0 * (10.0 / 19.0 - 0.25) / 0.75;
            let rest = 19.0 / 40.0 - window;
            assert!(are(slow.explained.iter().map(|one| one.1.value), &[0.3, 0.225, window, rest]), "{slow:?}");
            assert!(slow.explained.iter().all(|one| one.1.low < one.1.value && one.1.value < one.1.high), "{slow:?}");
        }
        let text = ladder.slow[0].sentence();
        assert!(text.starts_with("naive: 160 of the last 1,600 calls are slow."), "{text}");
        assert!(text.contains("RCU softirqs 30% (") && text.contains("nothing that was seen"), "{text}");
    }

    /// Guards against reporting "no softirq" if none could be observed.
    #[test]
    fn softirqs_that_were_not_counted_are_no_tag() {
        let mut record = tagged();
        let last = record.passes.last_mut().unwrap().windows.last_mut().unwrap();
        last.calls.as_mut().unwrap().rcu_softirqs = None;
        let ladder = ladder(&record);
        let of = |step: usize| (ladder.slow[step].tags.len(), ladder.slow[step].explained.len());
        // The last pass is of another case.
        assert_eq!((of(0), of(1)), ((5, 4), (5, 4)));
        let windows = record.passes.iter_mut().flat_map(|pass| &mut pass.windows);
        windows.for_each(|window| window.calls.as_mut().unwrap().rcu_softirqs = None);
        let ladder = self::ladder(&record);
        assert!(ladder.slow.iter().all(|slow| slow.tags.len() == 4 && slow.explained.len() == 3));
        assert!(ladder.slow.iter().all(|slow| slow.explained[0].0 == "a slower processor"));
    }
}
