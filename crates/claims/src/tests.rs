//! Tests of the grammar: the meaning of each claim, the positions of errors, and robustness against any text.

use super::*;
use proptest::prelude::*;

fn subject(benchmark: &str, words: &[&str], unit: Option<Unit>) -> Subject {
    Subject { benchmark: benchmark.to_owned(), words: words.iter().map(|word| (*word).to_owned()).collect(), unit }
}

#[test]
fn each_kind_of_claim_is_read() {
    use Assertion::{AtMost, Constant, Cost, Follows, Growth, NoCliff, NoLimit, NoRecurringOutlier, Ratio};
    let bind = || subject("bind", &[], None);
    let (ns, counted) = (Some(Unit::Ns), Some(Unit::Instructions));
    let fork = subject("fork", &["dynamic"], None);
    let table = [
        ("bind: O(1) within 10% to 10000", bind(), Constant { within: 0.1, to: Some(10_000) }),
        ("bind: O(1)", bind(), Constant { within: WITHIN, to: None }),
        ("bind:O( 1 )within 2.5 % to 10,000", bind(), Constant { within: 0.025, to: Some(10_000) }),
        ("bind: O(n log n)", bind(), Follows { law: Law::Linearithmic, to: None }),
        ("bind: O(√n) to 90", bind(), Follows { law: Law::Root, to: Some(90) }),
        ("bind: O(sqrt(n))", bind(), Follows { law: Law::Root, to: None }),
        ("bind: O(n log(n))", bind(), Follows { law: Law::Linearithmic, to: None }),
        ("mmap.close: grows at most O(n)", subject("mmap", &["close"], None), AtMost { law: Law::Linear, to: None }),
        ("bind: grows < 2x to 1_000", bind(), Growth { relation: Relation::Below, factor: 2.0, to: Some(1000) }),
        (
            "fork.dynamic: < 1.1x base at 3000",
            fork.clone(),
            Ratio { relation: Relation::Below, factor: 1.1, of: Reference::Base, n: 3000 },
        ),
        (
            "fork.dynamic: >= 1.5 × fork.linkage=static.run at 3000",
            fork,
            Ratio {
                relation: Relation::AtLeast,
                factor: 1.5,
                of: Reference::Subject(subject("fork", &["linkage=static", "run"], None)),
                n: 3000,
            },
        ),
        ("socket: no recurring outlier", subject("socket", &[], None), NoRecurringOutlier { below: None }),
        ("socket.*: no cliff below 5000", subject("socket", &["*"], None), NoCliff { below: Some(5000) }),
        ("socket: no limit below 10000", subject("socket", &[], None), NoLimit { below: Some(10_000) }),
        (
            "bind.instructions@900 < 2000",
            subject("bind", &[], counted),
            Cost { relation: Relation::Below, bound: 2000.0, n: 900 },
        ),
        (
            "bind.instructions: <= 2000 at 900",
            subject("bind", &[], counted),
            Cost { relation: Relation::AtMost, bound: 2000.0, n: 900 },
        ),
        (
            "bind.range=40000-42001.close: > 1.5us at 900",
            subject("bind", &["range=40000-42001", "close"], ns),
            Cost { relation: Relation::Above, bound: 1500.0, n: 900 },
        ),
    ];
    for (text, subject, assertion) in table {
        let claim = Claim { subject, assertion };
        assert_eq!(text.parse().as_ref(), Ok(&claim), "{text}");
        assert_eq!(claim.to_string().parse(), Ok(claim), "{text} is shown as another claim");
    }
}

#[test]
fn a_claim_is_shown_as_it_is_usually_written() {
    for text in [
        "bind: O(1) within 10% to 10000",
        "bind: O(1) within 7.5%",
        "fork.dynamic: < 1.1x base at 3000",
        "fork.dynamic: < 1.1x fork.static at 3000",
        "socket: no recurring outlier",
        "bind.close.ns@500 >= 900.5",
        "mmap.close: grows at most O(n)",
        "bind.instructions: O(n) to 900",
    ] {
        assert_eq!(text.parse::<Claim>().unwrap().to_string(), text);
    }
}

/// Guards against an error with a wrong position, or without the expected text.
#[test]
fn an_error_says_where_it_is_and_what_is_expected() {
    let table = [
        ("", 1, "the name of a benchmark", "the end of the claim"),
        ("bind", 5, "`:` and an assertion", "the end of the claim"),
        ("bind.ns", 8, "`:`, or `@` and a number of objects", "the end of the claim"),
        ("bind: O(m)", 7, "O(1), O(log n), O(sqrt n), O(n)", "`O(m)`"),
        ("bind: O(n", 7, "O(1), O(log n)", "`O(n`"),
        ("bind: O(1) within 0%", 19, "a percentage above 0% and below 100%", "`0%`"),
        ("bind: O(1) within 10 to 5", 19, "a percentage", "`10`"),
        ("bind: O(n) within 10%", 12, "the end of the claim", "`within`"),
        ("bind: O(1) to 0", 15, "a number of objects from 1", "`0`"),
        ("bind: O(1) to 4294967296", 15, "a number of objects from 1", "`4294967296`"),
        ("bind: O(1) to 2.5", 15, "a number of objects from 1", "`2.5`"),
        ("bind: no", 9, "`cliff`, `limit` or `recurring outlier`", "the end of the claim"),
        ("bind: no cliffs", 10, "`cliff`, `limit` or `recurring outlier`", "`cliffs`"),
        ("bind: < 5 at 3", 11, "`ns`, `us`, `ms`, `s`, `instructions`, or `x` and a curve", "`at`"),
        ("bind: < 5us", 12, "`at`", "the end of the claim"),
        ("bind: < 0x base at 3", 9, "a factor above 0", "`0x`"),
        ("bind: < 2x at 3", 12, "`base` or another curve", "`at`"),
        ("bind.instructions: < 5us at 3", 23, "the unit of the subject", "`us`"),
        ("bind: < 1,1x base at 3", 9, "a cost such as 2us", "`1,1x`"),
        ("bind: O(1) within 2,5%", 19, "a percentage", "`2,5%`"),
        ("bind: O(1) to 1,0,0", 15, "a number of objects", "`1,0,0`"),
        ("bind: O(1) to 1,000,", 15, "a number of objects", "`1,000,`"),
        ("bind: grows 2x", 13, "`at most` and a law", "`2x`"),
        ("bind: grows < 2 to 5", 17, "`x`", "`to`"),
        ("bind.ms@5 < 3", 8, "`:` and an assertion", "`@5`"),
        ("bind.ns@0 < 3", 9, "a number of objects from 1", "`0`"),
        ("bind.ns@5 = 3", 11, "`<`, `<=`, `>` or `>=`", "`=`"),
        (".ns@5 < 3", 1, "the name of a benchmark", "`.ns@5`"),
        ("bind.=5: O(1)", 6, "SETTING=VALUE", "`=5:`"),
        ("bind..close: O(1)", 6, "a phase, a setting or a unit", "`.close:`"),
        ("bind. close: O(1)", 6, "a phase, a setting or a unit", "`close:`"),
        ("bind: no cliff 5", 16, "the end of the claim", "`5`"),
        ("bind: O(1) \u{1b}[2J", 12, "the end of the claim", "`\u{fffd}[2J`"),
    ];
    for (text, column, expected, found) in table {
        let error = text.parse::<Claim>().unwrap_err();
        assert_eq!((error.column, error.found.as_str()), (column, found), "{text}: {error}");
        assert!(error.expected.starts_with(expected), "{text}: {error}");
    }
    assert_eq!(
        "bind: O(1) to x".parse::<Claim>().unwrap_err().to_string(),
        "line 1, column 15: expected a number of objects from 1 to 4,294,967,295, found `x`"
    );
}

#[test]
fn lines_have_comments_and_every_error_is_returned() {
    let text = "# Growth\n\nbind: O(1) to 9000   # to half of the ports\n\tsocket: no cliff\n";
    let claims = parse_lines(text).unwrap();
    let shown: Vec<(usize, String)> = claims.iter().map(|one| (one.line, one.claim.to_string())).collect();
    assert_eq!(shown, [(3, "bind: O(1) within 10% to 9000".to_owned()), (4, "socket: no cliff".to_owned())]);
    assert_eq!(claims[0].text, "bind: O(1) to 9000", "shown as it was typed");
    let errors = parse_lines("bind O(1)\nbind: O(1)\nbind: O(x)\n").unwrap_err();
    let places: Vec<(usize, usize)> = errors.iter().map(|one| (one.line, one.column)).collect();
    assert_eq!(places, [(1, 6), (3, 7)]);
}

/// The cost at an n is based on calls within 1% of it.
#[test]
fn what_is_measured_ends_beyond_the_n() {
    let steps = |text: &str| text.parse::<Claim>().unwrap().steps();
    assert_eq!(steps("bind: < 2us at 10000"), Some(10_100));
    assert_eq!(steps("bind: no limit below 10"), Some(11));
    // A jump is visible in the calls beyond it.
    assert_eq!(steps("bind: no cliff below 900"), Some(932));
    assert_eq!(steps("bind: no cliff below 10"), Some(64), "fewer are too few to judge");
    assert_eq!(steps("bind: no cliff"), None);
}

#[test]
fn the_laws_are_in_order_of_growth() {
    assert!(Law::ALL.is_sorted());
}

/// Words and signs of the grammar, so that random texts resemble claims.
const PARTS: [&str; 40] = [
    "bind",
    "fork",
    ".",
    ":",
    "@",
    "<",
    "<=",
    ">",
    "O(1)",
    "O(n)",
    "O(",
    ")",
    "(",
    "within",
    "10%",
    "%",
    "to",
    "at",
    "most",
    "grows",
    "no",
    "cliff",
    "limit",
    "recurring",
    "outlier",
    "below",
    "base",
    "x",
    "×",
    "900",
    "1.5",
    "us",
    "ns",
    "instructions",
    "#",
    "√",
    "é",
    " ",
    "=",
    "99999999999999999999999",
];

fn law() -> impl Strategy<Value = Law> {
    prop::sample::select(Law::ALL.to_vec())
}

fn relation() -> impl Strategy<Value = Relation> {
    prop::sample::select(vec![Relation::Below, Relation::AtMost, Relation::Above, Relation::AtLeast])
}

fn a_subject() -> impl Strategy<Value = Subject> {
    let words = prop::collection::vec("[a-z]{3,8}(=[a-z0-9-]{1,8})?", 0..3);
    ("[a-z_]{5,12}", words).prop_map(|(benchmark, words)| Subject { benchmark, words, unit: None })
}

fn an_assertion() -> impl Strategy<Value = Assertion> {
    let n = || 1..u64::from(u32::MAX);
    let end = move || prop::option::of(n());
    let factor = || (1..100_000_u32).prop_map(|thousandths| f64::from(thousandths) / 1000.0);
    let reference = prop_oneof![Just(Reference::Base), a_subject().prop_map(Reference::Subject)];
    prop_oneof![
        ((1..999_u32), end()).prop_map(|(tenths, to)| Assertion::Constant { within: f64::from(tenths) / 1000.0, to }),
        (law(), end()).prop_map(|(law, to)| match law {
            Law::Constant => Assertion::AtMost { law, to },
            law => Assertion::Follows { law, to },
        }),
        (law(), end()).prop_map(|(law, to)| Assertion::AtMost { law, to }),
        (relation(), factor(), end()).prop_map(|(relation, factor, to)| Assertion::Growth { relation, factor, to }),
        (relation(), factor(), reference, n()).prop_map(|(relation, factor, of, n)| Assertion::Ratio {
            relation,
            factor,
            of,
            n
        }),
        end().prop_map(|below| Assertion::NoCliff { below }),
        end().prop_map(|below| Assertion::NoLimit { below }),
        end().prop_map(|below| Assertion::NoRecurringOutlier { below }),
    ]
}

proptest! {
    /// Any text yields a claim, or an error at a position inside the text.
    #[test]
    fn no_text_does_harm(text: String, parts in prop::collection::vec(prop::sample::select(PARTS.to_vec()), 0..24)) {
        for text in [text, parts.join(" "), parts.concat()] {
            match parse(&text, 7) {
                Ok(claim) => prop_assert_eq!(claim.to_string().parse::<Claim>(), Ok(claim)),
                Err(error) => {
                    prop_assert_eq!(error.line, 7);
                    prop_assert!((1..=text.chars().count() + 1).contains(&error.column), "{} in {}", error, text);
                    prop_assert!(!error.to_string().contains(char::is_control));
                }
            }
            let _ = parse_lines(&text);
        }
    }

    /// Guards against printing a claim as another one.
    #[test]
    fn a_claim_that_is_shown_is_read_as_the_same(subject in a_subject(), assertion in an_assertion()) {
        let claim = Claim { subject, assertion };
        let shown = claim.to_string();
        let same = |a: &Claim, b: &Claim| match (&a.assertion, &b.assertion) {
            (Assertion::Constant { within: x, to: to_x }, Assertion::Constant { within: y, to: to_y }) => {
                (x - y).abs() < 1e-12 && to_x == to_y && a.subject == b.subject
            }
            _ => a == b,
        };
        let read = shown.parse::<Claim>().map_err(|error| TestCaseError::fail(format!("{shown}: {error}")))?;
        prop_assert!(same(&read, &claim), "{} is read as {:?}", shown, read);
    }

    #[test]
    fn a_cost_is_shown_exactly(bound in 0.0..1e15_f64, n in 1..u64::from(u32::MAX), relation in relation()) {
        let subject = subject("bind", &["close"], Some(Unit::Ns));
        let claim = Claim { subject, assertion: Assertion::Cost { relation, bound, n } };
        prop_assert_eq!(claim.to_string().parse::<Claim>(), Ok(claim));
    }
}
