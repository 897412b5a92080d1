//! A binary search for the first kernel of a series for which a claim no longer holds.

/// The result of testing a claim with one kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It holds; the evidence.
    Holds(String),
    /// It does not hold; the evidence.
    Fails(String),
    /// The kernel or the record cannot answer, for this reason.
    Unknown(String),
}

/// The answers so far, by position in the series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Search {
    answers: Vec<Option<Answer>>,
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// The claim holds up to the first position and not from the second on. The kernels between them cannot be tested.
    Between(usize, usize),
    /// The claim does not hold for the first kernel, or holds for the last: there is nothing to search for.
    WrongEnd(usize),
    /// The first or last kernel cannot be tested.
    UnknownEnd(usize),
}

impl Search {
    /// Returns a search over `count` kernels, at least two, beginning with the good one.
    pub fn new(count: usize) -> Self {
        Self { answers: vec![None; count.max(2)] }
    }

    /// Records the answer for a kernel.
    pub fn enter(&mut self, place: usize, answer: Answer) {
        if let Some(held) = self.answers.get_mut(place) {
            *held = Some(answer);
        }
    }

    /// Returns the kernel to test next, or the result. The ends come first: a search between wrong ends is meaningless.
    pub fn next(&self) -> Result<usize, Found> {
        let last = self.answers.len() - 1;
        for (end, is_right) in [(0, true), (last, false)] {
            match &self.answers[end] {
                None => return Ok(end),
                Some(Answer::Unknown(_)) => return Err(Found::UnknownEnd(end)),
                Some(answer) if matches!(answer, Answer::Holds(_)) != is_right => return Err(Found::WrongEnd(end)),
                Some(_) => {}
            }
        }
        let good = self.answers.iter().rposition(|one| matches!(one, Some(Answer::Holds(_)))).unwrap_or(0);
        let is_bad = |one: &Option<Answer>| matches!(one, Some(Answer::Fails(_)));
        let bad = self.answers.iter().skip(good).position(is_bad).map_or(last, |beyond| good + beyond);
        let middle = usize::midpoint(good, bad);
        let open = (good + 1..bad).filter(|&place| self.answers[place].is_none());
        // The untested kernel nearest to the middle: kernels that cannot be tested are skipped.
        open.min_by_key(|place| place.abs_diff(middle)).ok_or(Found::Between(good, bad))
    }

    /// Returns the answer for a kernel.
    pub fn answer(&self, place: usize) -> Option<&Answer> {
        self.answers.get(place)?.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches a series in which the claim fails from `bad` on and `unknown` cannot be tested; returns the number of
    /// steps too.
    fn search(count: usize, bad: usize, unknown: &[usize]) -> (Found, usize) {
        let mut search = Search::new(count);
        for steps in 0..=count {
            match search.next() {
                Err(found) => return (found, steps),
                Ok(place) => {
                    assert!(search.answer(place).is_none(), "{place} is tested twice");
                    search.enter(
                        place,
                        match place {
                            _ if unknown.contains(&place) => Answer::Unknown("it does not boot".to_owned()),
                            _ if place < bad => Answer::Holds(String::new()),
                            _ => Answer::Fails(String::new()),
                        },
                    );
                }
            }
        }
        panic!("the search does not end");
    }

    #[test]
    fn the_first_bad_kernel_is_found_at_any_position() {
        for count in 2..40 {
            for bad in 1..count {
                let (found, steps) = search(count, bad, &[]);
                assert_eq!(found, Found::Between(bad - 1, bad));
                assert!(steps <= 3 + count.ilog2() as usize + 1, "{steps} steps for {count}");
            }
        }
    }

    #[test]
    fn untestable_kernels_are_skipped() {
        assert_eq!(search(9, 5, &[4]).0, Found::Between(3, 5));
        assert_eq!(search(9, 5, &[3, 4, 5]).0, Found::Between(2, 6));
        assert_eq!(search(9, 2, &[4]).0, Found::Between(1, 2));
    }

    #[test]
    fn wrong_ends_are_reported() {
        assert_eq!(search(9, 0, &[]).0, Found::WrongEnd(0));
        assert_eq!(search(9, 9, &[]).0, Found::WrongEnd(8));
        assert_eq!(search(9, 3, &[8]).0, Found::UnknownEnd(8));
    }
}
