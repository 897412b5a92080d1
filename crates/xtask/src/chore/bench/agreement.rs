//! Agreement between the verdicts of several records of one machine.
//!
//! Two records agree on a row if both have the same outcome. Disagreements are of three kinds of different weight. One
//! verdict is not resolved; or one is less specific than the other and both can be true, such as "flat within 10%" and
//! "changes by 5% to 15%"; or the two contradict each other.

use landau_stats::{Class, Outcome, Verdict};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The outcome of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    Flat,
    SmallRise,
    SmallFall,
    Grows,
    Falls,
    Varies,
    Cliff,
    Unresolved,
}

impl Said {
    pub(super) fn of(verdict: &Verdict) -> Self {
        let rises = verdict.all.growth.is_some_and(|growth| growth.value > 1.0);
        match (verdict.class(), &verdict.all.outcome) {
            (Class::Limit, _) => Self::Cliff,
            (_, Outcome::Flat { .. }) => Self::Flat,
            (_, Outcome::Small) if rises => Self::SmallRise,
            (_, Outcome::Small) => Self::SmallFall,
            (_, Outcome::Grows { .. }) => Self::Grows,
            (_, Outcome::Falls) => Self::Falls,
            (_, Outcome::Varies) => Self::Varies,
            (_, Outcome::Unresolved { .. }) => Self::Unresolved,
        }
    }

    /// Returns the relation between this verdict and another one on the same row.
    fn beside(self, other: Self) -> Relation {
        use Said::{Falls, Flat, Grows, SmallFall, SmallRise, Unresolved, Varies};
        match (self, other) {
            (a, b) if a == b => Relation::Same,
            (Unresolved, _) | (_, Unresolved) => Relation::Open,
            // A small change is between 5% and 15%. Flat costs change by up to 10%; growing and falling costs change by
            // more, as do parts of varying ones.
            (SmallRise, Flat | Grows | Varies)
            | (Flat | Grows | Varies, SmallRise)
            | (SmallFall, Flat | Falls | Varies)
            | (Flat | Falls | Varies, SmallFall) => Relation::Compatible,
            _ => Relation::Contradiction,
        }
    }
}

/// The relation between two verdicts on the same row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Same,
    Open,
    Compatible,
    Contradiction,
}

/// Returns the rows in which the records disagree, then the number of rows in which they agree.
pub(super) fn agreement(records: &[BTreeMap<String, Said>]) -> String {
    let Some(first) = records.first() else { return String::new() };
    let mut text = String::new();
    let (mut rows, mut unanimous, mut contradictory) = (0, 0, 0);
    let (mut verdicts, mut usual, mut unresolved, mut pairs) = (0, 0, 0, [0; 4]);
    for place in first.keys() {
        let of_row: Vec<Said> = records.iter().filter_map(|record| record.get(place)).copied().collect();
        let alike = |said: &Said| of_row.iter().filter(|other| *other == said).count();
        let before = pairs[Relation::Contradiction as usize];
        for (i, a) in of_row.iter().enumerate() {
            of_row[..i].iter().for_each(|b| pairs[a.beside(*b) as usize] += 1);
        }
        rows += 1;
        verdicts += of_row.len();
        usual += of_row.iter().map(alike).max().unwrap_or(0);
        unresolved += alike(&Said::Unresolved);
        contradictory += usize::from(pairs[Relation::Contradiction as usize] > before);
        if of_row.iter().all(|said| *said == of_row[0]) {
            unanimous += 1;
        } else {
            let _ = writeln!(text, "  {place}: {of_row:?}");
        }
    }
    let share = |part: usize, of: usize| 100.0 * part as f64 / of.max(1) as f64;
    let [same, open, compatible, contradiction] = pairs.map(|count| share(count, pairs.iter().sum()));
    format!(
        "rows on whose outcome not all {} records agree:\n{text}all records agree in {unanimous} of {rows} rows \
         ({:.1}%), and contradict each other in {contradictory} ({:.1}%)\ntwo records agree in {same:.1}% of the \
         pairs; in {open:.1}% one is not resolved, in {compatible:.1}% both can be true, in {contradiction:.1}% they \
         contradict each other\n{:.1}% of the verdicts are the usual one of their row; not resolved: {:.1}%",
        records.len(),
        share(unanimous, rows),
        share(contradictory, rows),
        share(usual, verdicts),
        share(unresolved, verdicts)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agreement_counts_rows_and_pairs() {
        let record = |a, b| BTreeMap::from([("x".to_owned(), a), ("y".to_owned(), b)]);
        let all = [
            record(Said::Flat, Said::Flat),
            record(Said::Flat, Said::Unresolved),
            record(Said::Flat, Said::SmallFall),
            record(Said::Flat, Said::Falls),
        ];
        let text = agreement(&all);
        assert!(text.contains("y: [Flat, Unresolved, SmallFall, Falls]") && !text.contains("x:"), "{text}");
        // Of the six pairs of y, three contain an unresolved verdict; flat and falls contradict each other.
        let expected = "all records agree in 1 of 2 rows (50.0%), and contradict each other in 1 (50.0%)\ntwo records \
                        agree in 50.0% of the pairs; in 25.0% one is not resolved, in 16.7% both can be true, in 8.3% \
                        they contradict each other\n62.5% of the verdicts are the usual one of their row; not \
                        resolved: 12.5%";
        assert!(text.ends_with(expected), "{text}");
    }

    #[test]
    fn directions_and_cliffs_contradict() {
        let of = |a: Said, b: Said| (a.beside(b), b.beside(a));
        for (a, b) in [(Said::Grows, Said::Falls), (Said::SmallRise, Said::SmallFall), (Said::Cliff, Said::Grows)] {
            assert_eq!(of(a, b), (Relation::Contradiction, Relation::Contradiction), "{a:?} {b:?}");
        }
        assert_eq!(of(Said::SmallFall, Said::Falls), (Relation::Compatible, Relation::Compatible));
        assert_eq!(of(Said::SmallRise, Said::Falls), (Relation::Contradiction, Relation::Contradiction));
    }
}
