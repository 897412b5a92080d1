//! How the growth of a call divides among functions, in sentences shared by both kinds of explanation.

use crate::quantity::percent;
use landau_record::schema::{Branching, Part};

/// Maximum number of functions that a sentence names.
pub(crate) const NAMED: usize = 3;

/// Describes where the growth branches and where its largest parts are: "The growth passes through `do_sys_poll`: 43%
/// (42% to 44%) is in `pipe_poll` and 37.6% (37% to 38%) in `poll_freewait`, each with its callees, and 6.1% (5.7% to
/// 6.5%) in `do_sys_poll` itself." (without the backticks). Returns nothing if no part is certain.
pub(crate) fn divided(branching: &Branching) -> Option<String> {
    let function = &branching.function;
    let certain = branching.parts.iter().filter(|part| is_certain(part));
    let (itself, called): (Vec<&Part>, Vec<&Part>) = certain.partition(|part| part.name == *function);
    if itself.is_empty() && called.is_empty() {
        return None;
    }
    let named = &called[..called.len().min(NAMED)];
    let one = |(index, part): (usize, &&Part)| {
        format!("{}{} in {}", share(part), if index == 0 { " is" } else { "" }, part.name)
    };
    let callees = if named.len() > 1 { ", each with its callees" } else { " with its callees" };
    let mut text = format!("The growth passes through {function}: ");
    if !named.is_empty() {
        text.extend([&listed(&named.iter().enumerate().map(one).collect::<Vec<_>>()), callees]);
    }
    for part in &itself {
        let and = if named.is_empty() { "" } else { ", and " };
        text.extend([and, &share(part), " in ", function, " itself"]);
    }
    let told = named.iter().chain(&itself).map(|part| part.share).sum::<f64>();
    if 1.0 - told >= 0.01 {
        text.extend(["; the others have ", &percent(1.0 - told)]);
    }
    Some(text + ".")
}

/// Names the parts, among the first ones and just after them, whose order is not known, one sentence for each group.
pub(crate) fn undecided(parts: &[(&str, Option<[u32; 2]>)]) -> Vec<String> {
    let mut found = Vec::new();
    let mut from = 0;
    while from < parts.len().min(NAMED) {
        let mut to = from;
        // Each part may take the place of one before it, so their order is undecided up to there.
        while let Some((_, Some([first, _]))) = parts.get(to + 1)
            && (*first as usize) <= (to + 1).min(NAMED)
        {
            to += 1;
        }
        if to > from {
            let names: Vec<String> = parts[from..=to].iter().map(|(name, _)| (*name).to_owned()).collect();
            // A part that cannot take each of these places certainly comes before or after another one.
            let is_open = |places: [u32; 2]| places[0] as usize <= from + 1 && places[1] as usize > to;
            let said = if parts[from..=to].iter().all(|(_, places)| places.is_some_and(is_open)) {
                "is not known: the interval of their difference contains 0"
            } else {
                "is not fully known: for some of them, the interval of the difference contains 0"
            };
            found.push(format!("The order of {} {said}.", listed(&names)));
        }
        from = to + 1;
    }
    found
}

/// Describes the undecided order of the functions that are called where the growth branches.
pub(crate) fn undecided_parts(branching: &Branching) -> Vec<String> {
    let called = branching.parts.iter().filter(|part| part.name != branching.function && is_certain(part));
    undecided(&called.map(|part| (part.name.as_str(), part.places)).collect::<Vec<_>>())
}

/// Returns whether a part certainly grows.
fn is_certain(part: &Part) -> bool {
    part.share > 0.0 && part.interval.is_none_or(|[low, _]| low > 0.0)
}

fn share(part: &Part) -> String {
    match part.interval {
        Some([low, high]) => format!("{} ({} to {})", percent(part.share), percent(low), percent(high)),
        None => percent(part.share),
    }
}

/// Joins the parts of a sentence: "a, b and c".
pub(crate) fn listed(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [some @ .., last] => format!("{} and {last}", some.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, share: f64, interval: Option<[f64; 2]>, places: Option<[u32; 2]>) -> Part {
        Part { name: name.to_owned(), share, interval, places }
    }

    #[test]
    fn the_largest_parts_are_named_with_their_shares() {
        let parts = vec![
            part("visit", 0.5, Some([0.4, 0.6]), Some([1, 1])),
            part("free", 0.25, Some([0.2, 0.3]), Some([2, 2])),
            part("lock", 0.125, Some([0.1, 0.15]), Some([3, 3])),
            part("poll", 0.12, Some([0.1, 0.14]), None),
            // A part that may also fall is not named.
            part("perhaps", 0.005, Some([-0.01, 0.02]), Some([4, 4])),
        ];
        let branching = Branching { function: "poll".to_owned(), parts };
        assert_eq!(
            divided(&branching).unwrap(),
            "The growth passes through poll: 50% (40% to 60%) is in visit, 25% (20% to 30%) in free and 12.5% (10% to \
             15%) in lock, each with its callees, and 12% (10% to 14%) in poll itself."
        );
        assert!(undecided_parts(&branching).is_empty());
        let mut open = branching;
        (open.parts[1].places, open.parts[2].places) = (Some([2, 3]), Some([2, 3]));
        assert_eq!(
            undecided_parts(&open),
            ["The order of free and lock is not known: the interval of their difference contains 0."]
        );
    }

    #[test]
    fn a_count_has_no_interval_and_the_function_itself_is_a_part() {
        let parts = vec![part("visit", 0.846, None, None), part("wait", 0.154, None, None)];
        let branching = Branching { function: "wait".to_owned(), parts };
        assert_eq!(
            divided(&branching).unwrap(),
            "The growth passes through wait: 84.6% is in visit with its callees, and 15.4% in wait itself."
        );
        assert!(undecided_parts(&branching).is_empty());
    }

    #[test]
    fn nothing_is_said_where_no_part_is_certain() {
        let parts =
            vec![part("visit", 0.6, Some([-0.1, 1.3]), Some([1, 2])), part("wait", 0.4, Some([0.0, 0.8]), None)];
        let branching = Branching { function: "wait".to_owned(), parts };
        assert_eq!(divided(&branching), None);
        assert!(undecided_parts(&branching).is_empty());
    }

    #[test]
    fn an_order_is_open_as_far_as_each_may_have_the_place_before() {
        let of = |places: &[[u32; 2]]| {
            let names = ["a", "b", "c", "d", "e"];
            let parts: Vec<_> = places.iter().zip(names).map(|(places, name)| (name, Some(*places))).collect();
            undecided(&parts)
        };
        assert!(of(&[[1, 1], [2, 2], [3, 3], [4, 5], [4, 5]]).is_empty(), "only what concerns the first three is said");
        assert_eq!(of(&[[1, 2], [1, 2], [3, 4], [3, 4]]).len(), 2);
        assert!(of(&[[1, 1], [2, 4], [2, 4], [2, 4], [5, 5]])[0].starts_with("The order of b, c and d is not known"));
        // A part that cannot be among the first three is not named.
        let found = of(&[[1, 1], [2, 3], [2, 4], [3, 5], [4, 5]]);
        // Two parts certainly exceed d.
        assert!(found[0].starts_with("The order of b, c and d is not fully known"), "{found:?}");
    }
}
