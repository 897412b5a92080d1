//! The kernel functions in which a call spends its time, as sentences and as a table, for `landau explain` on the
//! running kernel and for the page.

use crate::divided::{self, NAMED};
use crate::quantity::{count, digits, duration, durations, factor, percent};
use crate::table::Layout;
use comfy_table::{Attribute, Cell, CellAlignment, ContentArrangement, Table};
use landau_record::schema::{Case, Instructions, Interval, Profile, ProfiledFunction};

/// Functions with a smaller share of the growth, or of a call that does not grow, are summed as "others".
const SHOWN: f64 = 0.01;

/// Minimum share of functions whose growth is not certain.
const SHOWN_IF_UNCERTAIN: f64 = 0.05;

/// Functions of a call that does not grow need this many samples: a single one is chance.
const SAMPLES: f64 = 5.0;

/// Maximum number of functions that are listed individually.
const MOST: usize = 20;

/// The functions that have a row, and the sum of the others.
pub(crate) struct Shown<'a> {
    pub(crate) functions: Vec<&'a ProfiledFunction>,
    /// The others: their number, their time per call at small and at large n, and their growth.
    pub(crate) rest: (usize, [f64; 2], f64),
}

impl<'a> Shown<'a> {
    pub(crate) fn of(profile: &'a Profile) -> Self {
        let total = profile.sampled_ns[1].max(f64::MIN_POSITIVE);
        let grows = profile.grows();
        let is_shown = |function: &&ProfiledFunction| {
            if !grows {
                let samples = function.ns[1] * profile.call_counts[1] as f64 / profile.sample_ns;
                return function.ns[1] / total >= SHOWN && samples.round() >= SAMPLES;
            }
            let least = if function.growth_ns.contains(0.0) { SHOWN_IF_UNCERTAIN } else { SHOWN };
            function.share.value.abs() >= least || is_part(profile, &function.name)
        };
        let mut functions: Vec<&ProfiledFunction> = profile.functions.iter().filter(is_shown).collect();
        if !grows {
            functions.sort_by(|a, b| b.ns[1].total_cmp(&a.ns[1]));
        }
        functions.truncate(MOST);
        let is_shown = |name: &str| functions.iter().any(|function| function.name == name);
        let mut rest = (0, [0.0; 2], 0.0);
        for function in own(profile).filter(|function| !is_shown(&function.name)) {
            rest.0 += 1;
            rest.1 = [0, 1].map(|side| rest.1[side] + function.ns[side]);
            rest.2 += function.growth_ns.value;
        }
        Self { functions, rest }
    }
}

/// Returns the functions that certainly account for a part of the growth, by their share; its interval is above 0.
/// Empty if the growth is too small to be compared with the sum.
pub fn growing(profile: &Profile) -> impl Iterator<Item = &ProfiledFunction> {
    let is_certain = |one: &&ProfiledFunction| one.share.low > 0.0 && one.share.value >= SHOWN;
    profile.functions.iter().filter(move |one| profile.is_judged() && is_certain(one)).take(8)
}

/// Returns whether a function is among the largest parts of the growth.
fn is_part(profile: &Profile, name: &str) -> bool {
    let parts = profile.branching.iter().flat_map(|branching| branching.parts.iter().take(NAMED));
    profile.is_judged() && parts.into_iter().any(|part| part.name == name)
}

/// Returns the functions that were sampled themselves, not only in their callees.
fn own(profile: &Profile) -> impl Iterator<Item = &ProfiledFunction> {
    profile.functions.iter().filter(|function| function.ns.iter().any(|ns| *ns > 0.0))
}

/// Returns where the growth is, one sentence each: how it divides where it branches, and the functions with the largest
/// shares without their callees. These sentences are left out if the growth is too small to be explained. The last
/// sentence states whether a call executes more instructions or slower ones, if they were counted and a call takes
/// longer at large n.
pub fn lead(profile: &Profile) -> Vec<String> {
    let mut told = Vec::new();
    if let Some(branching) = profile.branching.as_ref().filter(|_| profile.is_judged()) {
        told.extend(divided::divided(branching));
        told.extend(divided::undecided_parts(branching));
    }
    let named: Vec<String> = growing(profile).take(NAMED).map(|one| format!("{} {}", one.name, shares(one))).collect();
    if !named.is_empty() {
        told.push(format!("Without callees, the largest shares are {}.", divided::listed(&named)));
        let certain: Vec<_> = growing(profile).map(|one| (one.name.as_str(), one.places)).collect();
        told.extend(divided::undecided(&certain));
    }
    let takes_longer = profile.measured_growth_ns.low > 0.0 && profile.adds_up();
    told.extend(profile.instructions.as_ref().filter(|_| takes_longer).map(work));
    told
}

/// A count or a time per instruction that changes by less than this factor counts as unchanged.
const UNCHANGED: f64 = 1.1;

/// Describes whether the time is due to more instructions, or to slower ones.
fn work(instructions: &Instructions) -> String {
    let Instructions { factor, time_factor, .. } = instructions;
    let each = ratio(time_factor, factor);
    let stays = |one: &Interval| one.low > 1.0 / UNCHANGED && one.high < UNCHANGED;
    // The instructions' share of the logarithm of the growth.
    let is_mostly_work = factor.value.ln() > 0.5 * time_factor.value.ln();
    let each_longer = format!(
        "each instruction takes {} times as long ({} to {}), as with more misses of the caches or the TLB, or with \
         waits",
        digits(each.value),
        digits(each.low),
        digits(each.high)
    );
    let meaning = if stays(factor) && each.low > 1.0 && !is_mostly_work {
        format!("a call executes about as many, but {each_longer}")
    } else if factor.low > 1.0 && stays(&each) && is_mostly_work {
        "the time grows with the work, each instruction takes about as long".to_owned()
    } else if factor.low > 1.0 && each.low > 1.0 {
        format!("a call executes more, and {each_longer}")
    } else if factor.low > 1.0 && each.high < 1.0 {
        "a call executes more, but each instruction takes less time at large n".to_owned()
    } else if factor.high < 1.0 && each.low > 1.0 {
        format!("a call executes fewer, but {each_longer}")
    } else if factor.low > 1.0 {
        "a call executes more; the intervals are too wide to say whether each takes longer as well".to_owned()
    } else if each.low > 1.0 {
        format!("{each_longer}; the intervals are too wide to say whether a call executes more as well")
    } else {
        "the intervals are too wide to say whether a call executes more or each instruction takes longer".to_owned()
    };
    format!("Instructions {}, time {}: {meaning}.", times(factor), times(time_factor))
}

/// Returns a factor with its interval: "×1.1 (1.08 to 1.12)".
fn times(one: &Interval) -> String {
    format!("{} ({} to {})", factor(one.value), digits(one.low), digits(one.high))
}

/// Returns the ratio of two factors that were measured independently: the squares of their relative errors add up.
fn ratio(one: &Interval, other: &Interval) -> Interval {
    let value = one.value / other.value;
    let error = |a: f64, b: f64| (a / one.value).ln().hypot((b / other.value).ln()).exp();
    Interval { value, low: value / error(one.low, other.high), high: value * error(one.high, other.low) }
}

/// Describes a function's growth: "`scan`: 12 µs to 90 µs a call, 80% (75% to 85%) of the growth".
pub fn words(function: &ProfiledFunction) -> String {
    let [low, high] = function.ns.map(duration);
    format!("{}: {low} to {high} a call, {} of the growth", function.name, shares(function))
}

/// Returns a share of the growth with its interval.
pub(crate) fn shares(function: &ProfiledFunction) -> String {
    let Interval { value, low, high } = function.share;
    format!("{} ({} to {})", percent(value), percent(low), percent(high))
}

/// Returns a time with its interval; a fall has a sign.
fn time(interval: &Interval) -> String {
    if interval.low >= 0.0 {
        return format!("{} ({})", duration(interval.value), durations(interval.low, interval.high));
    }
    format!("{} ({} to {})", signed(interval.value), signed(interval.low), signed(interval.high))
}

/// Returns a time that may be negative.
pub(crate) fn signed(ns: f64) -> String {
    if ns < 0.0 { format!("−{}", duration(-ns)) } else { duration(ns) }
}

/// Returns the n of a range: "11–80".
pub(crate) fn range(profile: &Profile, side: usize) -> String {
    let [from, to] = profile.ranges[side].map(|n| count(n as f64));
    format!("n = {from}–{to}")
}

/// Compares the sum of the functions' growth with the measured growth.
pub fn sum(profile: &Profile) -> String {
    let (growth, sampled) = (&profile.measured_growth_ns, &profile.sampled_growth_ns);
    let part = match (profile.grows(), profile.is_judged()) {
        (false, _) => ", so no growth is proven".to_owned(),
        (true, true) => format!(", {}", percent(sampled.value / growth.value)),
        (true, false) => "; a growth below a quarter of the call is too small for samples to explain".to_owned(),
    };
    format!(
        "Measured growth without the profiler: {} a call; sum over {} functions: {}{part}. {} samples ({}), each for \
         {} of processor time; intervals of 95% from {} rounds{}",
        time(growth),
        own(profile).count(),
        time(sampled),
        count(profile.sample_count as f64),
        profile.event,
        duration(profile.sample_ns),
        profile.round_count,
        preempted(profile) + &counted(profile) + tail_calls(profile)
    )
}

/// Returns how many instructions a call executes; empty if they were not counted.
fn counted(profile: &Profile) -> String {
    let Some(instructions) = &profile.instructions else { return String::new() };
    let [low, high] = instructions.per_call.map(count);
    let samples = count(instructions.sample_count as f64);
    format!(
        ". A call executes {low} instructions at small n and {high} at large n, by {samples} samples of their counter"
    )
}

/// Returns a sentence on functions that are missing from the chains; empty if the kernel's code was read.
fn tail_calls(profile: &Profile) -> &'static str {
    if profile.shows_tail_calls {
        return "";
    }
    ". Functions that ended in a jump to another one (tail calls) are missing from the call chains, because the \
     kernel's code was not read (this needs root, Linux 5.10 on x86-64 or 64-bit Arm, and no lockdown)"
}

/// Returns in how many calls another task used the processor; empty if in none.
fn preempted(profile: &Profile) -> String {
    match profile.preempted_counts {
        None | Some([0, 0]) => String::new(),
        Some([recorded, sampled]) => format!(
            ". Other tasks interrupted {} calls without samples and {} with samples; their time is left out",
            count(recorded as f64),
            count(sampled as f64)
        ),
    }
}

/// Returns a function's share of the growth with its callees.
pub(crate) fn inclusive_share(function: &ProfiledFunction) -> String {
    function.inclusive.as_ref().map_or("–".to_owned(), |inclusive| percent(inclusive.share.value))
}

/// Returns a heading: the call, the kernel, and how the time grows.
pub fn head(profile: &Profile, case: &Case) -> String {
    let [low, high] = profile.measured_ns.map(duration);
    let (small, large) = (range(profile, 0), range(profile, 1));
    let (label, phase, source) = (&case.label, &profile.phase, &profile.source);
    format!("{label}, {phase}, Linux {source}: {low} at {small} and {high} at {large} ({})", case.axis)
}

/// Renders the profile as text for a terminal.
pub fn render(profile: &Profile, case: &Case, layout: Layout) -> String {
    let shown = Shown::of(profile);
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(layout.width);
    if !layout.color {
        table.force_no_tty();
    }
    let number = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let bold = |text: &str| if layout.color { Cell::new(text).add_attribute(Attribute::Bold) } else { Cell::new(text) };
    let names = ["function", "share of growth", "with callees", &range(profile, 0), &range(profile, 1), "growth"];
    table.set_header(names.map(bold));
    for function in &shown.functions {
        let [share, inclusive] = if profile.grows() {
            [shares(function), inclusive_share(function)]
        } else {
            ["–", "–"].map(str::to_owned)
        };
        let [low, high] = function.ns.map(duration);
        let growth = signed(function.growth_ns.value);
        let name = Cell::new(&function.name);
        table.add_row([name, number(share), number(inclusive), number(low), number(high), number(growth)]);
    }
    let (others, [low, high], growth) = &shown.rest;
    table.add_row([
        Cell::new(format!("{others} others")),
        Cell::new(""),
        Cell::new(""),
        number(duration(*low)),
        number(duration(*high)),
        number(signed(*growth)),
    ]);
    let lead: String = lead(profile).into_iter().map(|sentence| sentence + "\n").collect();
    format!("{}\n{lead}{table}\n{}", head(profile, case), sum(profile))
}

#[cfg(test)]
mod tests {
    use super::*;
    use landau_record::schema::{Branching, Part};

    fn interval(value: f64, low: f64, high: f64) -> Interval {
        Interval { value, low, high }
    }

    fn profile(growth: Interval) -> Profile {
        let function = |name: &str, ns: [f64; 2], growth_ns: Interval, share: Interval| ProfiledFunction {
            name: name.to_owned(),
            ns,
            growth_ns,
            share,
            places: Some([1, 3]),
            inclusive: None,
        };
        Profile {
            ranges: [[11, 80], [240, 320]],
            measured_ns: [2_000.0, 12_500.0],
            measured_growth_ns: growth,
            sampled_ns: [2_000.0, 12_000.0],
            sampled_growth_ns: interval(10_000.0, 9_000.0, 11_000.0),
            functions: vec![
                function("scan", [1_000.0, 11_000.0], interval(10_000.0, 9_000.0, 11_000.0), interval(1.0, 0.9, 1.1)),
                function("doubtful", [500.0, 700.0], interval(200.0, -100.0, 500.0), interval(0.02, -0.01, 0.05)),
                function("fixed", [500.0, 300.0], interval(-200.0, -300.0, -100.0), interval(-0.02, -0.03, -0.01)),
            ],
            sample_ns: 1_000.0,
            call_counts: [1_000, 1_000],
            shows_tail_calls: true,
            ..Profile::default()
        }
    }

    #[test]
    fn only_functions_whose_interval_is_above_zero_are_named() {
        let grown = profile(interval(10_500.0, 10_000.0, 11_000.0));
        let named: Vec<String> = growing(&grown).map(words).collect();
        assert_eq!(named, ["scan: 1 µs to 11 µs a call, 100% (90% to 110%) of the growth"]);
        assert!(sum(&grown).contains("sum over 3 functions: 10 µs (9–11 µs), 95.2%"), "{}", sum(&grown));
        assert!(grown.adds_up());
        let constant = profile(interval(50.0, -40.0, 140.0));
        assert_eq!(growing(&constant).count(), 0);
        assert!(sum(&constant).contains("no growth is proven"));
        assert!(constant.adds_up(), "there is no growth to add up to");
        let other = profile(interval(5_000.0, 4_900.0, 5_100.0));
        assert!(!other.adds_up(), "the samples show twice the growth of the times");
        let small = profile(interval(300.0, 200.0, 400.0));
        assert!(!small.is_judged() && growing(&small).count() == 0 && sum(&small).contains("too small"));
    }

    #[test]
    fn the_lead_says_where_the_growth_branches_if_it_is_explained() {
        let part = |name: &str, share: f64| {
            let interval = Some([share - 0.01, share + 0.01]);
            Part { name: name.to_owned(), share, interval, places: Some([1, 1]) }
        };
        let grown = Profile {
            branching: Some(Branching { function: "wait".to_owned(), parts: vec![part("scan", 0.98)] }),
            preempted_counts: Some([3, 1_000]),
            ..profile(interval(10_500.0, 10_000.0, 11_000.0))
        };
        assert_eq!(
            lead(&grown),
            [
                "The growth passes through wait: 98% (97% to 99%) is in scan with its callees; the others have 2%.",
                "Without callees, the largest shares are scan 100% (90% to 110%).",
            ]
        );
        assert!(
            sum(&grown).ends_with("interrupted 3 calls without samples and 1,000 with samples; their time is left out")
        );
        let unread = Profile { shows_tail_calls: false, ..grown.clone() };
        assert!(sum(&unread).contains("time is left out. Functions that ended in a jump"), "{}", sum(&unread));
        let constant = Profile { measured_growth_ns: interval(50.0, -40.0, 140.0), ..grown };
        assert!(lead(&constant).is_empty());
    }

    #[test]
    fn the_lead_says_whether_instructions_or_their_time_grow() {
        let of = |factor: [f64; 3], time: [f64; 3]| {
            let [factor, time_factor] = [factor, time].map(|[value, low, high]| interval(value, low, high));
            let per_call = [1_204.0, 1_204.0 * factor.value];
            let instructions = Some(Instructions { sample_count: 3_000, per_call, factor, time_factor });
            Profile { instructions, ..profile(interval(300.0, 200.0, 400.0)) }
        };
        let end = |factor, time| lead(&of(factor, time)).pop().unwrap();
        let steady = [1.0, 0.99, 1.01];
        assert_eq!(
            end(steady, [1.1, 1.08, 1.12]),
            "Instructions ×1 (0.99 to 1.01), time ×1.1 (1.08 to 1.12): a call executes about as many, but each \
             instruction takes 1.1 times as long (1.08 to 1.12), as with more misses of the caches or the TLB, or with \
             waits."
        );
        let meaning = |factor, time| end(factor, time).split_once(": ").unwrap().1.to_owned();
        let grown = [2.0, 1.98, 2.02];
        let of_work = "the time grows with the work, each instruction takes about as long.";
        assert_eq!(meaning(grown, [2.02, 1.98, 2.06]), of_work);
        // If both changes are below 10%, the margin does not decide which of them accounts for the growth.
        assert_eq!(meaning([1.085, 1.08, 1.09], [1.11, 1.10, 1.12]), of_work);
        assert!(
            meaning([1.01, 1.005, 1.015], [1.09, 1.08, 1.1]).starts_with("a call executes about as many, but each")
        );
        assert!(
            meaning(grown, [4.0, 3.9, 4.1])
                .starts_with("a call executes more, and each instruction takes 2 times as long (1.95 to 2.05)")
        );
        assert!(meaning(grown, [1.5, 1.4, 1.6]).starts_with("a call executes more, but each instruction takes less"));
        assert!(
            meaning([0.5, 0.49, 0.51], [1.5, 1.4, 1.6])
                .starts_with("a call executes fewer, but each instruction takes 3 times")
        );
        assert!(meaning([6.23, 5.42, 7.16], [6.49, 6.23, 6.76]).starts_with("a call executes more; the intervals"));
        assert!(meaning([1.3, 0.9, 1.8], [4.0, 3.9, 4.1]).starts_with("each instruction takes 3.08 times as long"));
        assert!(meaning([1.3, 0.8, 2.0], [1.5, 1.4, 1.6]).starts_with("the intervals are too wide"));
        let text = sum(&of(steady, [1.1, 1.08, 1.12]));
        let counts =
            "A call executes 1,204 instructions at small n and 1,204 at large n, by 3,000 samples of their counter";
        assert!(text.ends_with(counts), "{text}");
        // Nothing is reported about an unproven growth, about a fall, or if the samples do not add up.
        for growth in [interval(50.0, -40.0, 140.0), interval(-300.0, -400.0, -200.0), interval(5e3, 4.9e3, 5.1e3)] {
            let other = Profile { measured_growth_ns: growth, ..of(steady, steady) };
            assert!(!lead(&other).iter().any(|sentence| sentence.contains("Instructions")), "{growth:?}");
        }
    }

    #[test]
    fn a_profile_that_does_not_grow_lists_functions_by_time() {
        let constant = profile(interval(50.0, -40.0, 140.0));
        let names: Vec<&str> = Shown::of(&constant).functions.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["scan", "doubtful", "fixed"]);
        let few = Profile { call_counts: [5, 5], ..constant };
        let names: Vec<&str> = Shown::of(&few).functions.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["scan"], "3 samples are chance");
        let grown = profile(interval(10_500.0, 10_000.0, 11_000.0));
        let names: Vec<&str> = Shown::of(&grown).functions.iter().map(|one| one.name.as_str()).collect();
        assert_eq!((names, Shown::of(&grown).rest.0), (vec!["scan", "fixed"], 1));
    }
}
