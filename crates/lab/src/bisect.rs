//! Finding the first of a row of kernels of which a claim no longer holds.

use crate::metric::Answer;

/// What is known of the kernels, by their place in the row.
#[derive(Debug, Clone, PartialEq)]
pub struct Search {
    answers: Vec<Option<Answer>>,
}

/// What a search found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// The claim holds up to the first place and no longer from the second on. Places between them cannot be told.
    Between(usize, usize),
    /// The claim does not hold of the good end, or does of the bad one: there is nothing to search for.
    WrongEnd(usize),
    /// An end cannot be told.
    UnknownEnd(usize),
}

impl Search {
    /// A search over so many kernels, the good end first; at least two.
    pub fn new(count: usize) -> Self {
        Self { answers: vec![None; count.max(2)] }
    }

    /// Enters what was found of a kernel.
    pub fn enter(&mut self, place: usize, answer: Answer) {
        if let Some(held) = self.answers.get_mut(place) {
            *held = Some(answer);
        }
    }

    /// The kernel to ask next, or what was found. The ends come first: a search between wrong ends finds anything.
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
        // What cannot be told is gone round: the nearest to the middle that was not asked yet.
        open.min_by_key(|place| place.abs_diff(middle)).ok_or(Found::Between(good, bad))
    }

    /// What was found of a kernel.
    pub fn answer(&self, place: usize) -> Option<&Answer> {
        self.answers.get(place)?.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches a row in which the claim fails from `bad` on and `unknown` cannot be told; what was found, and steps.
    fn search(count: usize, bad: usize, unknown: &[usize]) -> (Found, usize) {
        let mut search = Search::new(count);
        for steps in 0..=count {
            match search.next() {
                Err(found) => return (found, steps),
                Ok(place) => {
                    assert!(search.answer(place).is_none(), "{place} is asked twice");
                    search.enter(
                        place,
                        match place {
                            _ if unknown.contains(&place) => Answer::Unknown("it does not boot".to_owned()),
                            _ if place < bad => Answer::Holds(1.0),
                            _ => Answer::Fails(2.0),
                        },
                    );
                }
            }
        }
        panic!("the search does not end");
    }

    #[test]
    fn the_first_bad_one_is_found_wherever_it_is() {
        for count in 2..40 {
            for bad in 1..count {
                let (found, steps) = search(count, bad, &[]);
                assert_eq!(found, Found::Between(bad - 1, bad));
                assert!(steps <= 3 + count.ilog2() as usize + 1, "{steps} steps for {count}");
            }
        }
    }

    #[test]
    fn what_cannot_be_told_is_gone_round() {
        assert_eq!(search(9, 5, &[4]).0, Found::Between(3, 5));
        assert_eq!(search(9, 5, &[3, 4, 5]).0, Found::Between(2, 6));
        assert_eq!(search(9, 2, &[4]).0, Found::Between(1, 2));
    }

    #[test]
    fn wrong_ends_are_told() {
        assert_eq!(search(9, 0, &[]).0, Found::WrongEnd(0));
        assert_eq!(search(9, 9, &[]).0, Found::WrongEnd(8));
        assert_eq!(search(9, 3, &[8]).0, Found::UnknownEnd(8));
    }
}
