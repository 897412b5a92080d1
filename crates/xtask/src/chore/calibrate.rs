//! `calibrate`: measures how often verdicts on synthetic series of known truth are correct, and checks the targets.
//!
//! `calibrate --write` writes the table to METHODOLOGY.md. Its caption is the command; `tidy` checks that it matches
//! the constants below.

use crate::program::Program;
use crate::workspace;
use anyhow::{Context, Result};
use landau_stats::Class;
use landau_stats::confusion::{Plan, Row, Score, Tally, calibrate, calibrate_drawn, groups, markdown, total};
use landau_stats::promises::{Promises, promises};
use landau_stats::shares::{Share, turned_by_chance};
use landau_stats::tail_calibration::{self, TailTally};

/// The number of series for each truth, noise and length in the published table.
const TRIALS: usize = 6;
/// The seed of the first series of that table.
const SEED: u64 = 2026;
/// The number of passes of a quick study, and of those of the full study that are added to every fourth series.
const PASSES: usize = 5;
const MORE_PASSES: usize = 4;

/// The target of a row, in percent: the minimum share of correct verdicts and rivals, and the maximum share of wrong
/// ones.
#[derive(Clone, Copy)]
struct Target {
    good: f64,
    wrong: f64,
}

/// The target of the rows without a separate one.
const TARGET: Target = Target { good: 97.0, wrong: 1.0 };
/// The rows whose share of correct verdicts has no target: in five passes, a change so near the margin is often not
/// resolved.
const OPEN_ROWS: [&str; 5] = [
    "rise within the margin",
    "fall within the margin",
    "rise beyond the margin",
    "fall beyond the margin",
    "near the margin",
];
/// The rows that miss their target, with the shares that they must reach instead. METHODOLOGY.md explains why.
const KNOWN: &[(&str, Target)] =
    &[("mixture", Target { good: 73.0, ..TARGET }), ("mixture, long stays", Target { good: 5.0, ..TARGET })];
/// Further misses that are excused in the published table, but not with other trials and seeds: in a row of 96 series,
/// one series is already more than 1%.
const OF_TABLE: Excused = Excused {
    rows: &[("rise beyond the margin", Target { good: 0.0, wrong: 1.1 }), ("root", Target { wrong: 1.1, ..TARGET })],
    turned: 2,
    tails: &[("×3, tail ×3", 64.0)],
    tail_coverage_max: COVERAGE.1,
};
/// Misses that are excused in addition to the known ones.
struct Excused {
    rows: &'static [(&'static str, Target)],
    /// The maximum excess of verdicts that become wrong with more passes over those that become correct.
    turned: usize,
    /// The rows of 99th percentiles whose intervals contain the truth less often, with the share that they must reach.
    tails: &'static [(&'static str, f64)],
    /// The maximum share over all rows of 99th percentiles.
    tail_coverage_max: f64,
}
/// Excuses nothing.
const NOTHING: Excused = Excused { rows: &[], turned: 0, tails: &[], tail_coverage_max: COVERAGE.1 };
/// The minimum share of shapes outside the dictionary that are flagged, in percent.
const FLAGGED: f64 = 99.0;
/// Maximum share of flat truths that are called growing, falling or varying, and of curves with a false recurring
/// outlier, in percent.
const FALSE_MAX: f64 = 1.0;
/// Limits of the share of growth intervals that contain the truth, over all rows, in percent.
const COVERAGE: (f64, f64) = (87.0, 93.0);

/// The 99th percentiles that change much, and the minimum share of them that must be reported as changed, in percent.
const FOUND: (&[&str], f64) = (&["flat, tail ×2", "flat, tail ×3", "flat, tail ×2 by a step", "×3, tail ×3"], 60.0);
/// Minimum share of the intervals of a row of 99th percentiles that contain the truth, in percent. It is low because a
/// row has few series.
const ROW_COVERAGE_MIN: f64 = 75.0;

/// The number of series for each truth near the margin, noise and length whose promised passes are run.
const PROMISE_TRIALS: usize = 20;
/// Minimum share of the promises of further passes that are kept.
const KEPT_MIN: f64 = 0.8;

const DOCUMENT: &str = "METHODOLOGY.md";
const BEGIN: &str = "<!-- calibrate:begin -->";
const END: &str = "<!-- calibrate:end -->";

/// Arguments of `calibrate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Series of each truth, noise and length
    #[arg(long, default_value_t = TRIALS)]
    trials: usize,
    /// Seed of the first series
    #[arg(long, default_value_t = SEED)]
    seed: u64,
    /// Judge only truths whose name contains this, for example "step ×2" or "10000 0.05"; "promises", "tails": only
    /// the promises of further passes, or only the 99th percentiles
    #[arg(long, default_value = "")]
    only: String,
    /// Draw the parameters of the truths from the seed, instead of those of the published table
    #[arg(long)]
    drawn: bool,
    /// List every truth, noise and length, with what was wrong
    #[arg(long)]
    full: bool,
    /// Write the table into METHODOLOGY.md
    #[arg(long, conflicts_with = "drawn")]
    write: bool,
}

pub(crate) fn run(args: &Args) -> Result<bool> {
    // Thousands of curves are fitted, each hundreds of times; that is too slow without optimisation.
    if cfg!(debug_assertions) {
        return run_optimised(args);
    }
    let plan = Plan { trials: args.trials, seed: args.seed, passes: PASSES, more_passes: MORE_PASSES };
    let rows = if args.drawn { calibrate_drawn(&plan, &args.only) } else { calibrate(&plan, &args.only) };
    if args.full {
        for row in &rows {
            print_row(row);
        }
    }
    let table = groups(&rows);
    let drawn = if args.drawn { " --drawn" } else { "" };
    let mut text = format!("{}\n\n{}", caption_of(args.trials, args.seed, drawn), markdown(&table).trim_end());
    text.extend(["\n\n", &statements_markdown(&table)]);
    let is_published = (args.trials, args.seed, args.drawn) == (TRIALS, SEED, false);
    let excused = if is_published { &OF_TABLE } else { &NOTHING };
    let mut misses = misses(&table, excused);
    if args.only.is_empty() || args.only == PROMISES {
        let promised = promises(PROMISE_TRIALS, args.seed);
        text.extend(["\n\n", &promises_markdown(&promised)]);
        misses.extend(broken(&promised));
    }
    if args.only.is_empty() || args.only == TAILS {
        let tails = tail_calibration::tally(args.trials, args.seed);
        text.extend(["\n\n", tail_calibration::markdown(&tails).trim_end()]);
        misses.extend(misses_of_tails(&tails, excused));
    }
    println!("{text}");
    for miss in &misses {
        println!("missed: {miss}");
    }
    if misses.is_empty() {
        println!("no target is missed beyond the limits listed in calibrate.rs");
    }
    if args.write {
        let document = workspace::read(DOCUMENT)?;
        let new = with_table(&document, &text).with_context(|| format!("{DOCUMENT} has no `{BEGIN}` or no `{END}`"))?;
        std::fs::write(workspace::root().join(DOCUMENT), new).with_context(|| format!("write {DOCUMENT}"))?;
    }
    Ok(misses.is_empty())
}

/// Prints a row with its classes (flat, small change, material, limit, not resolved) and its wrong verdicts.
fn print_row(row: &Row) {
    let tally = &row.tally;
    println!(
        "{} {}, n to {}, noise {}: right {:.0}%, or rival {:.0}%, wrong {:.0}%; classes {:?}; interval holds {:.0}%",
        row.group,
        row.detail,
        row.calls,
        row.noise,
        100.0 * tally.share(Score::Right),
        100.0 * tally.good(),
        100.0 * tally.share(Score::Wrong),
        tally.classes,
        100.0 * tally.coverage()
    );
    for (text, count) in &tally.wrong {
        println!("    {count} × {text}");
    }
}

fn run_optimised(args: &Args) -> Result<bool> {
    let mut cargo =
        Program::cargo().args(["run", "--quiet", "--profile", "ci", "--package", "xtask", "--", "calibrate"]);
    cargo = cargo.args(["--trials", &args.trials.to_string(), "--seed", &args.seed.to_string(), "--only", &args.only]);
    for (is_given, flag) in [(args.drawn, "--drawn"), (args.full, "--full"), (args.write, "--write")] {
        if is_given {
            cargo = cargo.arg(flag);
        }
    }
    Ok(cargo.status()?.success())
}

/// Returns the command that generates the published table.
pub(crate) fn command() -> String {
    command_of(TRIALS, SEED)
}

/// Returns the first line of the published table.
pub(crate) fn caption() -> String {
    caption_of(TRIALS, SEED, "")
}

fn command_of(trials: usize, seed: u64) -> String {
    format!("cargo xtask calibrate --trials {trials} --seed {seed}")
}

fn caption_of(trials: usize, seed: u64, drawn: &str) -> String {
    format!("Made by `{}{drawn}`; shares in percent.", command_of(trials, seed))
}

/// The name of the table of promises in `--only`.
const PROMISES: &str = "promises";

/// The name of the table of 99th percentiles in `--only`.
const TAILS: &str = "tails";

/// Returns the missed targets of the 99th percentiles.
fn misses_of_tails(tallies: &[TailTally], excused: &Excused) -> Vec<String> {
    let mut found = Vec::new();
    for one in tallies {
        let changes = one.share(one.false_changes).percent();
        if changes > FALSE_MAX {
            found.push(format!("{}: {changes:.1}% falsely change, at most {FALSE_MAX}%", one.truth));
        }
        let flat = one.share(one.false_flat).percent();
        if flat > FALSE_MAX {
            found.push(format!("{}: {flat:.1}% are falsely flat, at most {FALSE_MAX}%", one.truth));
        }
        let changes = one.share(one.classes[Class::Material as usize]).percent();
        if one.judged > 0 && FOUND.0.contains(&one.truth.as_str()) && changes < FOUND.1 {
            found.push(format!("{}: {changes:.1}% are reported to change, at least {}%", one.truth, FOUND.1));
        }
        let covered = one.share(one.covered);
        let known = excused.tails.iter().find(|(name, _)| *name == one.truth);
        let least = known.map_or(ROW_COVERAGE_MIN, |(_, share)| *share);
        if one.judged > 0 && covered.percent() < least {
            found.push(format!("{}: {covered}% of the intervals contain the truth, at least {least}%", one.truth));
        }
    }
    let mut all = TailTally::default();
    for one in tallies {
        all.add(one);
    }
    let covered = all.share(all.covered);
    let (least, most) = (COVERAGE.0, excused.tail_coverage_max);
    if all.judged > 0 && !(least..=most).contains(&covered.percent()) {
        found
            .push(format!("{covered}% of the intervals of 99th percentiles contain the truth, not {least} to {most}%"));
    }
    found
}

/// Returns the table of promises as Markdown.
fn promises_markdown(promised: &Promises) -> String {
    let (median, needed) = promised.medians().unwrap_or_default();
    format!(
        "| series whose passes differ too much | promises of further passes | kept | median promise | median need |\n\
         |--:|--:|--:|--:|--:|\n| {} | {} | {:.1} | {median} | {needed} |",
        promised.open,
        promised.made.len(),
        100.0 * promised.share_kept()
    )
}

/// Returns what is wrong with the promises.
fn broken(promised: &Promises) -> Option<String> {
    let kept = promised.share_kept();
    let is_broken = !promised.made.is_empty() && kept < KEPT_MIN;
    is_broken.then(|| format!("{:.1}% of the promises are kept, at least {:.0}%", 100.0 * kept, 100.0 * KEPT_MIN))
}

/// Returns the text between the markers of a document.
pub(crate) fn table_in(document: &str) -> Option<&str> {
    let (_, rest) = document.split_once(BEGIN)?;
    rest.split_once(END).map(|(table, _)| table)
}

fn with_table(document: &str, table: &str) -> Option<String> {
    let (head, rest) = document.split_once(BEGIN)?;
    let (_, tail) = rest.split_once(END)?;
    Some(format!("{head}{BEGIN}\n{table}\n{END}{tail}"))
}

/// Returns the target of a row.
fn target_of(row: &str, excused: &Excused) -> Target {
    let of_issue = match row {
        "outside" => Target { good: FLAGGED, ..TARGET },
        row if OPEN_ROWS.contains(&row) => Target { good: 0.0, ..TARGET },
        _ => TARGET,
    };
    KNOWN.iter().chain(excused.rows).find(|(name, _)| *name == row).map_or(of_issue, |(_, target)| *target)
}

/// Returns one sentence for each missed target.
fn misses(table: &[(&'static str, Tally)], excused: &Excused) -> Vec<String> {
    let mut found = Vec::new();
    for (name, tally) in table {
        let target = target_of(name, excused);
        let (good, wrong) = (tally.good_of_all(), tally.of_all(Score::Wrong));
        if good.percent() < target.good {
            found.push(format!("{name}: {good}% right or rival, at least {}%", target.good));
        }
        if wrong.percent() > target.wrong {
            found.push(format!("{name}: {wrong}% wrong, at most {}%", target.wrong));
        }
        let changes = Share { count: tally.false_changes, of: tally.flat };
        if changes.percent() > FALSE_MAX {
            found.push(format!("{name}: {changes}% of the flat truths change, at most {FALSE_MAX}%"));
        }
    }
    let all = total(table);
    for (what, share) in false_statements(&all) {
        if share.percent() > FALSE_MAX {
            found.push(format!("{share}% of the {what}, at most {FALSE_MAX}%"));
        }
    }
    if all.turned > all.mended + excused.turned {
        found.push(format!("with more passes {} verdicts become wrong, and {} become correct", all.turned, all.mended));
    }
    let coverage = 100.0 * all.coverage();
    if all.growths > 0 && !(COVERAGE.0..=COVERAGE.1).contains(&coverage) {
        found.push(format!("{coverage:.1}% of the intervals contain the truth, not 90 ± 3%"));
    }
    found
}

/// Returns the false statements, and the share of series about which each was made.
fn false_statements(all: &Tally) -> [(&'static str, Share); 2] {
    [
        ("flat truths are reported to change beyond the margin", Share { count: all.false_changes, of: all.flat }),
        ("curves have a false recurring outlier", Share { count: all.false_outliers, of: all.trials }),
    ]
}

/// Returns the shares of series with a false statement, as Markdown, with the test of further passes.
fn statements_markdown(table: &[(&'static str, Tally)]) -> String {
    let all = total(table);
    let mut text = "| what | share | count |\n|---|--:|--:|".to_owned();
    for (what, share) in false_statements(&all) {
        text.extend(["\n| ", what, " | ", &share.to_string(), &format!(" | {} of {} |", share.count, share.of)]);
    }
    let p = turned_by_chance(all.turned, all.mended);
    text + &format!(
        "\n| verdicts turn wrong rather than right with more passes | p = {p:.2} | {} against {} |",
        all.turned, all.mended
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_targets_are_reported() {
        let good = Tally {
            trials: 100,
            scores: [95, 4, 0, 0, 1],
            growths: 100,
            covered: 90,
            flat: 100,
            false_changes: 1,
            false_outliers: 1,
            turned: 3,
            mended: 1,
            ..Tally::default()
        };
        assert_eq!(misses(&[("step", good.clone())], &OF_TABLE), Vec::<String>::new());
        assert_eq!(misses(&[("step", good.clone())], &NOTHING).len(), 1, "verdicts that turn wrong");
        let of = |name, tally| misses(&[(name, tally)], &OF_TABLE).len();
        assert_eq!(of("outside", good.clone()), 0);
        assert_eq!(of("outside", Tally { scores: [98, 0, 0, 1, 1], ..good.clone() }), 1);
        assert_eq!(of("step", Tally { scores: [98, 0, 0, 0, 2], ..good.clone() }), 1);
        assert_eq!(of("step", Tally { scores: [90, 6, 3, 0, 1], ..good.clone() }), 1);
        // A known miss has a separate limit.
        assert_eq!(of("mixture", Tally { scores: [74, 0, 0, 25, 1], ..good.clone() }), 0);
        assert_eq!(of("mixture", Tally { scores: [70, 0, 0, 25, 5], ..good.clone() }), 2);
        assert_eq!(of("near the margin", Tally { scores: [50, 0, 0, 49, 1], ..good.clone() }), 0);
        assert_eq!(of("step", Tally { turned: 4, ..good.clone() }), 1);
        assert_eq!(of("step", Tally { false_outliers: 2, ..good.clone() }), 1);
        assert_eq!(of("step", Tally { covered: 80, ..good.clone() }), 1);
        // One miss in the row, and one over all rows.
        assert_eq!(of("step", Tally { false_changes: 2, ..good.clone() }), 2);
        let many = Tally { trials: 300, scores: [300, 0, 0, 0, 0], flat: 300, ..Tally::default() };
        assert_eq!(misses(&[("cliff", many), ("step", Tally { false_changes: 2, ..good })], &OF_TABLE).len(), 1);
    }

    #[test]
    fn missed_targets_of_tails_are_reported() {
        let good = TailTally { series: 200, judged: 200, covered: 180, ..TailTally::default() };
        let of = |one: TailTally| misses_of_tails(&[one], &NOTHING).len();
        assert_eq!(of(good.clone()), 0);
        assert_eq!(of(TailTally { false_changes: 3, ..good.clone() }), 1);
        assert_eq!(of(TailTally { false_flat: 3, ..good.clone() }), 1);
        // A miss over all rows, and one in a single row.
        assert_eq!(
            (of(TailTally { covered: 160, ..good.clone() }), of(TailTally { covered: 187, ..good.clone() })),
            (1, 1)
        );
        assert_eq!(of(TailTally { covered: 140, ..good.clone() }), 2);
        let double = |classes| of(TailTally { truth: "flat, tail ×2".to_owned(), classes, ..good.clone() });
        assert_eq!((double([0, 0, 130, 0, 70]), double([0, 0, 110, 0, 90])), (0, 1));
    }

    #[test]
    fn broken_promises_are_reported() {
        let of = |kept| Promises { open: 20, made: vec![(4, Some(2)), (6, None), (5, Some(9))], kept };
        assert_eq!(broken(&of(3)), None);
        assert!(broken(&of(2)).is_some() && broken(&Promises::default()).is_none());
        assert!(promises_markdown(&of(2)).ends_with("| 20 | 3 | 66.7 | 5 | 9 |"));
    }

    #[test]
    fn the_table_is_written_between_its_markers() {
        let document = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        let new = with_table(&document, "new").unwrap();
        assert_eq!(new, format!("a\n{BEGIN}\nnew\n{END}\nb\n"));
        assert_eq!(table_in(&new), Some("\nnew\n"));
        assert_eq!(with_table("no markers", "new"), None);
    }
}
