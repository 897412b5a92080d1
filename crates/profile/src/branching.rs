//! The branching of the growth of a call: the last function through which nearly all growth passes, and the shares of
//! the functions that it calls.
//!
//! Which helpers of a function have their own symbol depends on the compiler and on the kernel's configuration: a lock
//! is one instruction or four functions. The share of a function including everything that it calls depends much less
//! on that, and these shares add up to the whole. So two kernels, or a time and a count, are compared by these shares
//! first.

use landau_record::schema::{Branching, Part};
use std::collections::BTreeMap;

/// Minimum share of the growth that passes through a function before the growth branches.
const PASSING: f64 = 0.9;

/// Minimum share of the growth that such a function passes on to its callees; a function that keeps more is the source
/// of the growth.
const PASSED_ON: f64 = 0.5;

/// Minimum share of a part that is listed.
const LISTED: f64 = 0.005;

/// Returns the functions, outermost first, through which nearly all of the growth passes and which pass it on; empty if
/// the growth branches at once. `growths` has the growth of each call chain, excluding that of longer chains.
pub(crate) fn trunk(growths: &BTreeMap<Vec<u32>, f64>) -> Vec<u32> {
    let whole: f64 = growths.values().sum();
    let mut trunk: Vec<u32> = Vec::new();
    if whole <= 0.0 {
        return trunk;
    }
    loop {
        let mut next: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
        for (chain, growth) in growths.iter().filter(|(chain, _)| chain.starts_with(&trunk)) {
            if let Some(function) = chain.get(trunk.len()) {
                let (all, own) = next.entry(*function).or_default();
                *all += growth;
                *own += if chain.len() == trunk.len() + 1 { *growth } else { 0.0 };
            }
        }
        let largest = next.into_iter().max_by(|a, b| a.1.0.total_cmp(&b.1.0));
        match largest {
            Some((function, (all, own))) if all >= PASSING * whole && all - own >= PASSED_ON * whole => {
                trunk.push(function);
            }
            _ => return trunk,
        }
    }
}

/// Returns the part to which a chain belongs: the last function of the trunk, or the one that it calls. `None` if the
/// chain is not in the trunk.
pub(crate) fn part(trunk: &[u32], chain: &[u32]) -> Option<u32> {
    let last = trunk.last()?;
    chain.starts_with(trunk).then(|| *chain.get(trunk.len()).unwrap_or(last))
}

/// Divides a growth that is known exactly. Returns `None` if it branches at once.
pub fn divide<'a>(growths: &BTreeMap<Vec<u32>, f64>, name: impl Fn(u32) -> &'a str) -> Option<Branching> {
    let trunk = trunk(growths);
    let whole: f64 = growths.values().sum();
    let mut sums: BTreeMap<u32, f64> = BTreeMap::new();
    for (chain, growth) in growths {
        if let Some(part) = part(&trunk, chain) {
            *sums.entry(part).or_default() += growth;
        }
    }
    let of = |(function, sum): (u32, f64)| Part {
        name: name(function).to_owned(),
        share: sum / whole,
        interval: None,
        places: None,
    };
    let parts = sums.into_iter().map(of).collect();
    Some(Branching { function: name(*trunk.last()?).to_owned(), parts: listed(parts) })
}

/// Returns the parts in descending order of their shares, without negligible ones.
pub(crate) fn listed(mut parts: Vec<Part>) -> Vec<Part> {
    parts.retain(|part| part.share.abs() >= LISTED);
    parts.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| a.name.cmp(&b.name)));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(function: u32) -> &'static str {
        ["entry", "poll", "visit", "lock", "free"][function as usize]
    }

    #[test]
    fn the_growth_is_divided_where_it_branches_and_helpers_belong_to_their_callers() {
        let growths = BTreeMap::from([
            (vec![0], 1.0),
            (vec![0, 1], 10.0),
            (vec![0, 1, 2], 30.0),
            (vec![0, 1, 2, 3], 20.0),
            (vec![0, 1, 4], 35.0),
            (vec![0, 1, 4, 3], 4.0),
        ]);
        let found = divide(&growths, name).unwrap();
        assert_eq!(found.function, "poll");
        let parts: Vec<(&str, f64)> = found.parts.iter().map(|part| (part.name.as_str(), part.share)).collect();
        assert_eq!(parts, [("visit", 0.5), ("free", 0.39), ("poll", 0.1)]);
    }

    /// Guards against choosing a function that keeps the growth as the place where it branches: that function would
    /// have a single part.
    #[test]
    fn a_function_that_keeps_the_growth_is_a_part_of_its_caller() {
        let growths = BTreeMap::from([(vec![0, 1], 3.0), (vec![0, 1, 2], 97.0), (vec![0, 1, 2, 3], 0.0)]);
        let found = divide(&growths, name).unwrap();
        assert_eq!((found.function.as_str(), found.parts[0].name.as_str()), ("poll", "visit"));
    }

    #[test]
    fn what_branches_at_once_or_does_not_grow_has_no_trunk() {
        assert_eq!(divide(&BTreeMap::from([(vec![0, 1], 50.0), (vec![2, 1], 50.0)]), name), None);
        assert_eq!(divide(&BTreeMap::from([(vec![0, 1], -5.0)]), name), None);
        assert_eq!(divide(&BTreeMap::new(), name), None);
    }
}
