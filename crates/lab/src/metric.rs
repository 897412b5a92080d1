//! Claims about a record: `bind.instructions@10000 < 2000`.

use landau_record::Record;
use landau_record::schema::Unit;
use std::fmt;
use std::str::FromStr;

/// How far a sample's n may be from the claim's, as a ratio.
const NEAR: f64 = 0.01;

/// A claim about the cost of a call at some n.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// The benchmark.
    pub benchmark: String,
    /// The phase; `None`: the one with the benchmark's name, or else the first.
    pub phase: Option<String>,
    /// The unit of the cost.
    pub unit: Unit,
    /// The n.
    pub n: u64,
    /// How the cost is compared with the bound.
    pub relation: Relation,
    /// The bound.
    pub bound: f64,
}

/// How a cost is compared with a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// `<`
    Below,
    /// `<=`
    AtMost,
    /// `>`
    Above,
    /// `>=`
    AtLeast,
}

/// The signs of the relations, the longer ones first.
const RELATIONS: [(&str, Relation); 4] =
    [("<=", Relation::AtMost), (">=", Relation::AtLeast), ("<", Relation::Below), (">", Relation::Above)];

/// The result of testing a claim.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// It holds, with this cost.
    Holds(f64),
    /// It does not hold, with this cost.
    Fails(f64),
    /// The record cannot answer, for this reason.
    Unknown(String),
}

impl Relation {
    fn holds(self, cost: f64, bound: f64) -> bool {
        match self {
            Relation::Below => cost < bound,
            Relation::AtMost => cost <= bound,
            Relation::Above => cost > bound,
            Relation::AtLeast => cost >= bound,
        }
    }

    fn sign(self) -> &'static str {
        RELATIONS.iter().find(|(_, one)| *one == self).map_or("?", |(sign, _)| sign)
    }
}

impl FromStr for Metric {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || {
            format!(
                "`{text}` is not a claim; write it like 'bind.instructions@10000 < 2000' or 'bind.close.ns@500 > 900'"
            )
        };
        let (sign, relation) = RELATIONS.iter().find(|(sign, _)| text.contains(sign)).ok_or_else(form)?;
        let (cost, bound) = text.split_once(sign).ok_or_else(form)?;
        let (path, n) = cost.trim().split_once('@').ok_or_else(form)?;
        let mut words: Vec<&str> = path.split('.').collect();
        let unit = match words.pop() {
            Some("instructions") => Unit::Instructions,
            Some("ns") => Unit::Ns,
            _ => return Err(form()),
        };
        let (benchmark, phase) = match words.as_slice() {
            [benchmark] => ((*benchmark).to_owned(), None),
            [benchmark, phase] => ((*benchmark).to_owned(), Some((*phase).to_owned())),
            _ => return Err(form()),
        };
        let n = n.trim().parse().ok().filter(|&n| n > 0).ok_or_else(form)?;
        let bound: f64 = bound.trim().parse().map_err(|_| form())?;
        if benchmark.is_empty() || !bound.is_finite() {
            return Err(form());
        }
        Ok(Self { benchmark, phase, unit, n, relation: *relation, bound })
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phase = self.phase.as_ref().map_or(String::new(), |phase| format!(".{phase}"));
        let (unit, sign) = (self.unit.name(), self.relation.sign());
        write!(f, "{}{phase}.{unit}@{} {sign} {}", self.benchmark, self.n, self.bound)
    }
}

impl Metric {
    /// Returns how many steps a benchmark must take to test the claim.
    pub fn steps(&self) -> u64 {
        (self.n as f64 * (1.0 + NEAR)).ceil() as u64
    }

    /// Returns the claim's phase, if it is among `names`.
    fn phase_of<'a>(&self, names: &[&'a str]) -> Option<&'a str> {
        let named = |wanted: &str| names.iter().copied().find(|name| *name == wanted);
        match &self.phase {
            Some(phase) => named(phase),
            None => named(&self.benchmark).or_else(|| names.first().copied()),
        }
    }

    /// Tests the claim with a record: the cost is the median of all samples, over all passes, whose n is within 1% of
    /// the claim's.
    pub fn test(&self, record: &Record) -> Answer {
        if record.unit() != self.unit {
            return Answer::Unknown(format!("the record counts {}, not {}", record.unit().name(), self.unit.name()));
        }
        let Some(case) = record.cases.iter().find(|case| case.benchmark == self.benchmark) else {
            let skip = record.skips.iter().find(|skip| skip.label.split(' ').next() == Some(&self.benchmark));
            let why = skip.map_or(String::new(), |skip| format!(": {}", skip.reason));
            return Answer::Unknown(format!("`{}` was not measured{why}", self.benchmark));
        };
        let names: Vec<&str> = case.phases.iter().map(|phase| phase.name.as_str()).collect();
        let Some(phase) = self.phase_of(&names) else {
            return Answer::Unknown(format!("`{}` has no such phase; it has {}", self.benchmark, names.join(", ")));
        };
        let near = |n: u32| (f64::from(n) - self.n as f64).abs() <= self.n as f64 * NEAR;
        let mut costs: Vec<u64> = record
            .passes_of(case.case)
            .iter()
            .filter_map(|pass| pass.series.get(phase))
            .flat_map(|lane| lane.n.iter().zip(&lane.costs).filter(|(n, _)| near(**n)).map(|(_, cost)| *cost))
            .collect();
        costs.sort_unstable();
        match costs.len() {
            0 => Answer::Unknown(format!("no pass reached n = {}", self.n)),
            len => {
                let cost = (costs[(len - 1) / 2] + costs[len / 2]) as f64 / 2.0;
                if self.relation.holds(cost, self.bound) { Answer::Holds(cost) } else { Answer::Fails(cost) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_parsed_and_printed() {
        for text in ["bind.instructions@10000 < 2000", "bind.close.ns@500 >= 900.5", "a.b.instructions@1 <= 0"] {
            assert_eq!(text.parse::<Metric>().unwrap().to_string(), text);
        }
        assert_eq!("bind.instructions@10000<2000".parse::<Metric>().unwrap().n, 10_000);
    }

    #[test]
    fn an_invalid_claim_is_refused_with_an_example() {
        for text in
            ["", "bind", "bind.ns@5", "bind.ms@5 < 3", "bind.ns@0 < 3", "bind.ns@5 < x", ".ns@5 < 3", "a.b.c.ns@1 < 2"]
        {
            let error = text.parse::<Metric>().unwrap_err();
            assert!(error.contains("bind.instructions@10000 < 2000"), "{text}: {error}");
        }
    }
}
