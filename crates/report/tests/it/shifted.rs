//! Claims over a base whose curves differ from those of the record beyond the known variation of their benchmarks.

use crate::support::Shape;
use crate::{SLOW, USUAL, curves};
use landau_record::Record;
use landau_record::schema::Direction;
use landau_report::claims::{Answer, Base, Checked, Shifted, Source, check};
use landau_report::{Analysis, Comparisons};

/// Returns the answer to a claim about a record over a base, and the shift that was added.
fn over(text: &str, base: &Analysis<'_>, other: &Analysis<'_>) -> (Checked, Option<Shifted>) {
    let placed = landau_claims::parse_lines(text).unwrap().remove(0);
    let source = Source { analysis: other, name: "new" };
    let base = Base::of(Source { analysis: base, name: "old" }, source);
    (check(&placed, source, Some(&base)), base.shifted("new"))
}

/// Returns the record as if from another kernel, which may change every curve.
fn of_another_kernel(record: &Record) -> Record {
    let mut record = record.clone();
    record.host.release = "6.19.0".into();
    record
}

const BELOW: &str = "dup: < 1.1x base at 300";

/// Guards against a claim that the state of the machine refutes or proves: a difference in most curves is no evidence
/// about one of them.
#[test]
fn a_claim_over_the_base_allows_for_a_shift() {
    let (base, slow) = (curves(5, 1, 24, |_| USUAL), curves(5, 2, 24, |_| SLOW));
    let changed = of_another_kernel(&slow);
    let [base, slow, changed] = [&base, &slow, &changed].map(Analysis::of);
    let [shift] = Comparisons::of(&[&base, &slow]).shifts[..] else { panic!("the comparison finds none") };
    for (claim, without) in [(BELOW, Answer::Fail), ("dup: > 1.1x base at 300", Answer::Pass)] {
        let (checked, shifted) = over(claim, &base, &slow);
        assert_eq!(checked.answer, Answer::Inconclusive, "{checked:?}");
        assert_eq!(checked.settle.as_deref(), Some("measure both sides in turn with landau run --against"));
        let shifted = shifted.unwrap();
        let found = [shifted.ratio, shifted.deviation].map(f64::to_bits);
        assert_eq!((shifted.curves, found), (24, [shift.ratio, shift.deviation].map(f64::to_bits)), "{shifted:?}");
        let expected = "From old to new the costs of 24 curves differ by more than their benchmarks usually do";
        assert!(shifted.text.starts_with(expected) && shifted.text.contains(" ratio to the base. "), "{shifted:?}");
        // If the records state why they differ, the ratio decides.
        let (checked, shifted) = over(claim, &base, &changed);
        assert_eq!((checked.answer, checked.settle, shifted), (without, None, None));
    }
    assert_eq!(over("dup: < 1us at 300", &base, &slow).0.answer, Answer::Fail, "it needs no base");
}

/// Guards against a shift that hides a difference that it does not explain, or that is added if too few curves can show
/// one.
#[test]
fn a_claim_fails_by_what_a_shift_does_not_explain() {
    let moved = |i: usize| if i == 0 { ("dup", Direction::Up, (|_, _| 60_000.0) as fn(u32, u32) -> f64) } else { SLOW };
    for (count, is_shifted) in [(24, true), (19, false)] {
        let (base, slow) = (curves(5, 1, count, |_| USUAL), curves(5, 2, count, moved));
        let (checked, shifted) = over(BELOW, &Analysis::of(&base), &Analysis::of(&slow));
        assert_eq!((checked.answer, shifted.is_some()), (Answer::Fail, is_shifted), "{checked:?}");
    }
}

/// Guards against a decision that becomes more certain because a known variance has more degrees of freedom than two
/// passes.
#[test]
fn a_shift_makes_no_claim_surer() {
    const SPREAD: Shape = ("dup", Direction::Up, |_, round| if round == 0 { 3000.0 } else { 3900.0 });
    const SLOWER: Shape = ("dup", Direction::Up, |_, _| 3600.0);
    let (base, new) = (curves(2, 1, 24, |_| USUAL), curves(2, 2, 24, |i| if i == 0 { SPREAD } else { SLOWER }));
    let of_base = Analysis::of(&base);
    let width = |new: &Record, is_shifted: bool| {
        let (checked, shifted) = over(BELOW, &of_base, &Analysis::of(new));
        let ratio = checked.curves[0].value.unwrap();
        assert_eq!(shifted.is_some(), is_shifted);
        (ratio.high / ratio.low).ln()
    };
    let (with, without) = (width(&new, true), width(&of_another_kernel(&new), false));
    assert!(with >= without, "{with} {without}");
}
