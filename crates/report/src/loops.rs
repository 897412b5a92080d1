//! Loops of creation and destruction: the cost while objects are created and while they are removed, over the same n.
//!
//! A phase of the destruction belongs to the phase of the creation that it undoes. Both are drawn as one closed loop,
//! and their distance halfway is stated as a number.

use crate::quantity::{FormatCost, count, digits};
use crate::{CaseStudy, PhaseStudy};
use landau_record::schema::Direction;
use landau_stats::Judgement;

/// Phases that undo another one. For other cases, the last phase of the destruction undoes the first of the creation.
const INVERSE: [(&str, &str); 2] = [("mmap", "munmap"), ("add", "delete")];

/// A phase of the creation and the one that undoes it, as indices into the case's phases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Loop {
    pub(crate) up: usize,
    pub(crate) down: usize,
}

/// Returns the loops of a case, in the order of the creation.
pub(crate) fn of(study: &CaseStudy<'_>) -> Vec<Loop> {
    let phases: Vec<(&str, Direction)> =
        study.phases.iter().map(|phase| (phase.phase.name.as_str(), phase.phase.direction)).collect();
    pairs(&phases)
}

fn pairs(phases: &[(&str, Direction)]) -> Vec<Loop> {
    let named = |name: &str, direction| phases.iter().position(|phase| *phase == (name, direction));
    let inverse = INVERSE
        .iter()
        .filter_map(|(up, down)| Some(Loop { up: named(up, Direction::Up)?, down: named(down, Direction::Down)? }));
    let mut loops: Vec<Loop> = inverse.collect();
    let up = phases.iter().position(|phase| phase.1 == Direction::Up);
    let down = phases.iter().rposition(|phase| phase.1 == Direction::Down);
    if let Some((up, down)) = up.zip(down) {
        let is_free = loops.iter().all(|one| one.up != up && one.down != down);
        loops.extend(is_free.then_some(Loop { up, down }));
    }
    loops.sort_by_key(|one| one.up);
    loops
}

/// Returns the colour of each phase; both sides of a loop have the same one.
pub(crate) fn tones(study: &CaseStudy<'_>) -> Vec<usize> {
    let loops = of(study);
    let side = |index: usize| loops.iter().find(|one| one.down == index).map_or(index, |one| one.up);
    (0..study.phases.len()).map(side).collect()
}

/// Describes the loops of a case, each with its distance halfway: "At n = 707, close costs 0.48 times as much as socket
/// (1.25 µs, 2.6 µs)."
pub(crate) fn text(study: &CaseStudy<'_>) -> String {
    let words = |one: Loop| halfway(&study.phases[one.up], &study.phases[one.down]);
    of(study).into_iter().filter_map(words).collect::<Vec<_>>().join(" ")
}

fn halfway(up: &PhaseStudy<'_>, down: &PhaseStudy<'_>) -> Option<String> {
    let (a, b) = (&up.verdict.all, &down.verdict.all);
    let (one, other) = (a.range?, b.range?);
    let (low, high) = (one.0.max(other.0), one.1.min(other.1));
    let n = (low * high).sqrt();
    let (above, below) = (at(a, n)?, at(b, n)?);
    Some(format!(
        "Halfway, at n = {}, {} (down) costs {} times as much as {} (up): {} and {}.",
        count(n),
        down.phase.name,
        digits(below / above),
        up.phase.name,
        a.unit.bare(below),
        a.unit.cost(above)
    ))
}

/// Returns the cost of a curve at an n between its points, interpolated in logarithms.
fn at(judged: &Judgement, n: f64) -> Option<f64> {
    let points = || judged.points.iter().filter(|point| point.judged && point.cost.value > 0.0);
    let (before, after) = (points().rfind(|point| point.n <= n)?, points().find(|point| point.n >= n)?);
    let span = (after.n / before.n).ln();
    let share = if span > 0.0 { (n / before.n).ln() / span } else { 0.0 };
    Some(before.cost.value * (after.cost.value / before.cost.value).powf(share))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Direction::{Down, Up};

    #[test]
    fn each_removal_is_beside_what_it_undoes() {
        let loops =
            |phases: &[(&str, Direction)]| pairs(phases).iter().map(|one| (one.up, one.down)).collect::<Vec<_>>();
        assert_eq!(loops(&[("socket", Up), ("bind", Up), ("close", Down)]), [(0, 2)]);
        let files = [("open", Up), ("mmap", Up), ("touch", Up), ("munmap", Down), ("close", Down)];
        assert_eq!(loops(&files), [(0, 4), (1, 3)]);
        assert_eq!(loops(&[("mmap", Up), ("touch", Up), ("munmap", Down)]), [(0, 2)]);
        assert_eq!(loops(&[("return", Up), ("byte", Up), ("kill", Down), ("reap", Down)]), [(0, 3)]);
        assert_eq!(loops(&[("close", Up), ("dup", Up)]), []);
    }
}
