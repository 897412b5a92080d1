//! Pairs the plans of a run that measures two sides alternately. Their cases get the same numbers, so that each pass of
//! one side has a counterpart.

use crate::{Plan, Planned};
use landau_record::schema::{Role, Skip};

/// Keeps in both plans only the cases that both have, and gives them the same numbers.
pub fn pair(base: &mut Plan, new: &mut Plan) {
    let (of_base, of_new) = (keys(base), keys(new));
    retain(base, &of_base, &of_new, (Role::New, &new.skips.clone()));
    retain(new, &of_new, &of_base, (Role::Base, &base.skips.clone()));
    let place = |of: &[Key], key: &Key| of.iter().position(|one| one == key);
    let mut cases: Vec<(Option<usize>, Planned)> =
        keys(new).iter().map(|key| place(&of_base, key)).zip(std::mem::take(&mut new.cases)).collect();
    cases.sort_by_key(|(place, _)| *place);
    new.cases = cases.into_iter().map(|(_, planned)| planned).collect();
    for plan in [base, new] {
        for (number, planned) in (0..).zip(&mut plan.cases) {
            planned.case.case = number;
        }
    }
}

/// Identifies a case on both sides: its label, and the number of cases before it with the same label; such cases differ
/// in size.
type Key = (String, usize);

fn keys(plan: &Plan) -> Vec<Key> {
    let labels: Vec<&str> = plan.cases.iter().map(|planned| planned.case.label.as_str()).collect();
    let before = |place: usize| labels[..place].iter().filter(|label| **label == labels[place]).count();
    (0..labels.len()).map(|place| (labels[place].to_owned(), before(place))).collect()
}

/// Skips the cases that the other side does not measure, with the reason that it gives.
fn retain(plan: &mut Plan, own: &[Key], others: &[Key], (other, their_skips): (Role, &[Skip])) {
    let cases = std::mem::take(&mut plan.cases);
    for (planned, key) in cases.into_iter().zip(own) {
        if others.contains(key) {
            plan.cases.push(planned);
            continue;
        }
        let label = planned.case.label;
        let why = their_skips.iter().find(|skip| skip.label == label).map(|skip| format!(": {}", skip.reason));
        let reason = format!("the {} side does not measure it{}", other.name(), why.unwrap_or_default());
        plan.skips.push(Skip { label, reason });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::REGISTRY;
    use crate::{Adaptive, Host, Request, Study};
    use landau_sys::clock::Clock;

    fn plan(settings: &[&str], varied: &[&str]) -> Plan {
        let owned = |words: &[&str]| words.iter().map(|&one| one.to_owned()).collect();
        let request = Request {
            names: Vec::new(),
            cases: Vec::new(),
            study: Study::Quick,
            pass_count: None,
            adaptive: Adaptive::Off,
            settings: owned(settings),
            varied: owned(varied),
            seed: 1,
            time_limit_s: None,
        };
        Plan::resolve(REGISTRY, &request, Host::default(), Clock::Gettime, None).unwrap()
    }

    fn cases(plan: &Plan) -> Vec<(u32, &str, &str)> {
        let row =
            |one: &crate::Planned| (one.case.case, one.case.label.clone(), one.settings.text("colour").to_owned());
        let rows: Vec<_> = plan.cases.iter().map(row).collect();
        rows.into_iter().map(|(case, label, colour)| (case, &*label.leak(), &*colour.leak())).collect()
    }

    /// The parameter in which the sides differ is not part of a label: both sides measure one case under one name.
    #[test]
    fn sides_that_differ_in_a_parameter_have_the_same_cases() {
        let mut base = plan(&[], &["fake.colour"]);
        let mut new = plan(&["fake.colour=blue"], &["fake.colour"]);
        pair(&mut base, &mut new);
        assert_eq!((cases(&base), cases(&new)), (vec![(0, "fake", "red")], vec![(0, "fake", "blue")]));
        // The study's own case with the other colour is skipped: the new side measures it.
        assert_eq!(base.skips[0].label, "fake colour=blue");
        assert!(base.skips[0].reason.contains("differ in `colour`"), "{:?}", base.skips);
    }

    #[test]
    fn a_case_of_one_side_is_skipped_with_the_reason_of_the_other() {
        let (mut base, mut new) = (plan(&[], &[]), plan(&[], &[]));
        let first = new.cases.remove(0);
        new.skips.push(Skip { label: first.case.label, reason: "it is not supported".to_owned() });
        pair(&mut base, &mut new);
        assert_eq!(cases(&base), [(0, "fake colour=blue", "blue")]);
        assert_eq!(cases(&base), cases(&new));
        assert_eq!(base.skips[0].reason, "the new side does not measure it: it is not supported");
    }
}
