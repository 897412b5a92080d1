//! Verdicts and tables of the measurements of `landau pids`: visits and time of an allocation among sleeping processes.

use crate::quantity::{FormatCost, Unit, count, digits, factor};
use crate::table::grid::{GAP, bold, line, needed, rule, used};
use crate::table::{Layout, without_cliff, wrapped};
use crate::text;
use landau_stats::{Annotation, AnnotationKind, Curve, Estimate, Options, Pass, judge};
use serde::Serialize;

/// One sample: the mean of many allocations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// The number of sleepers.
    pub n: u32,
    /// The visits of an allocation.
    pub visits: f64,
    /// The time of an allocation and of the end of a process, in nanoseconds.
    pub time_ns: f64,
}

/// An allocator, and the samples of its passes.
#[derive(Debug, Clone)]
pub struct Measured<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it does.
    pub about: &'a str,
    /// What is counted as a visit.
    pub counts: &'a str,
    /// The source that it follows.
    pub source: &'a str,
    /// What it reconstructs, if an original is lost.
    pub reconstructs: Option<&'a str>,
    /// The formula of the mean number of visits, and the mean at each n; absent if none is known of this workload.
    pub closed_form: Option<(&'a str, Vec<(u32, f64)>)>,
    /// The number of sleepers that would use up all numbers.
    pub capacity: f64,
    /// The samples, pass by pass.
    pub passes: Vec<Vec<Sample>>,
}

/// An allocator with its verdicts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Its name.
    pub allocator: String,
    /// What it does.
    pub about: String,
    /// What is counted as a visit.
    pub counts: String,
    /// The source that it follows.
    pub source: String,
    /// What it reconstructs, if an original is lost.
    pub reconstructs: Option<String>,
    /// The formula of the mean number of visits.
    pub closed_form: Option<String>,
    /// The points, by n.
    pub points: Vec<Point>,
    /// The verdict on the visits.
    pub visits: Growth,
    /// The verdict on the time.
    pub time: Growth,
}

/// What an allocation costs among n sleepers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Point {
    /// The number of sleepers.
    pub n: u32,
    /// Visits of an allocation, with a 95% confidence interval.
    pub visits: Estimate,
    /// The closed form's mean.
    pub closed_form: Option<f64>,
    /// Nanoseconds of an allocation and of the end of a process, with a 95% confidence interval.
    pub time_ns: Estimate,
}

/// How a cost grows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Growth {
    /// The outcome in words: "grows, O(n²)".
    pub outcome: String,
    /// The law, "O(n²)"; absent if none is named.
    pub law: Option<String>,
    /// Cost at the largest n over that at the smallest, by the fitted law, with a 90% confidence interval.
    pub growth: Option<Estimate>,
}

/// Judged costs are integers: thousandths of a nanosecond, and millionths of a visit.
const PER_NS: f64 = 1e3;
const PER_VISIT: f64 = 1e6;

/// Judges the samples of an allocator.
pub fn row(measured: &Measured<'_>) -> Row {
    let (visits, visits_at) = judged(measured, |sample| sample.visits, PER_VISIT);
    let (time, times_at) = judged(measured, |sample| sample.time_ns, PER_NS);
    let expected = measured.closed_form.as_ref();
    let at = |n: u32| expected.and_then(|(_, at)| at.iter().find(|(other, _)| *other == n).map(|one| one.1));
    let points = visits_at.iter().zip(&times_at).map(|(visits, time)| Point {
        n: visits.0 as u32,
        visits: visits.1,
        closed_form: at(visits.0 as u32),
        time_ns: time.1,
    });
    Row {
        allocator: measured.name.to_owned(),
        about: measured.about.to_owned(),
        counts: measured.counts.to_owned(),
        source: measured.source.to_owned(),
        reconstructs: measured.reconstructs.map(str::to_owned),
        closed_form: expected.map(|(formula, _)| (*formula).to_owned()),
        points: points.collect(),
        visits,
        time,
    }
}

/// Judges one kind of cost. Returns its growth, and the cost at each n.
fn judged(measured: &Measured<'_>, cost: impl Fn(&Sample) -> f64, scale: f64) -> (Growth, Vec<(f64, Estimate)>) {
    let pass = |samples: &Vec<Sample>| Pass {
        n: samples.iter().map(|sample| sample.n).collect(),
        costs: samples.iter().map(|sample| (cost(sample) * scale).round() as u64).collect(),
        clean: vec![true; samples.len()],
    };
    let capacity =
        Annotation { name: "all numbers in use".to_owned(), n: measured.capacity, kind: AnnotationKind::Capacity };
    let curve = Curve { passes: measured.passes.iter().map(pass).collect(), annotations: vec![capacity] };
    let all = judge(&curve, None, &Options::default()).all;
    let growth =
        Growth { outcome: without_cliff(&all), law: text::symbol_of(&all).map(str::to_owned), growth: all.growth };
    (growth, all.points.iter().map(|point| (point.n, point.cost.map(|cost| cost / scale))).collect())
}

/// The number of columns of a table: this many numbers of sleepers fit a terminal of 100 columns.
const COLUMNS: usize = 5;

/// Lays out rows: a table of visits, one of times, the closed forms, and what is counted as a visit. `around_ns` is the
/// time with an allocator that searches nothing.
pub fn render(rows: &[Row], workload: &str, around_ns: f64, layout: Layout) -> String {
    let columns = columns(rows);
    let visits = |point: &Point| with_margin(&digits(point.visits.value), point.visits);
    let times = |point: &Point| with_margin(&Unit::Time.cost(point.time_ns.value), point.time_ns);
    let mut text = format!("Among n sleeping processes: {workload}.\n\n");
    text.push_str(&table("Visits of an allocation", rows, &columns, visits, |row| &row.visits, layout));
    text.push_str("\n\n");
    text.push_str(&table("Time of an allocation and an exit", rows, &columns, times, |row| &row.time, layout));
    text.push('\n');
    let paragraphs = rows.iter().filter_map(closed_form).chain([legend(rows, around_ns)]);
    for paragraph in paragraphs {
        text.extend(["\n", &wrapped(&paragraph, layout), "\n"]);
    }
    text
}

/// Returns the numbers of sleepers that a table shows: at most five, including the smallest and the largest.
fn columns(rows: &[Row]) -> Vec<u32> {
    let mut all: Vec<u32> = rows.iter().flat_map(|row| row.points.iter().map(|point| point.n)).collect();
    all.sort_unstable();
    all.dedup();
    // The largest n of an allocator that was not measured further is shown, too.
    let mut ends: Vec<u32> = rows.iter().filter_map(|row| row.points.last()).map(|point| point.n).collect();
    ends.push(all.first().copied().unwrap_or_default());
    ends.sort_unstable();
    ends.dedup();
    let others: Vec<u32> = all.iter().copied().filter(|n| !ends.contains(n)).collect();
    let room = COLUMNS.saturating_sub(ends.len()).min(others.len());
    let spread = (1..=room).map(|i| others[(i * others.len() / (room + 1)).min(others.len() - 1)]);
    let mut columns: Vec<u32> = ends.iter().copied().take(COLUMNS).chain(spread).collect();
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// The narrowest column of outcomes; if the terminal is narrower, lines exceed its width.
const OUTCOME_MIN: usize = 8;

fn table<'a>(
    title: &str,
    rows: &'a [Row],
    columns: &[u32],
    cell: impl Fn(&Point) -> String,
    growth: impl Fn(&'a Row) -> &'a Growth,
    layout: Layout,
) -> String {
    let head = std::iter::once(title.to_owned()).chain(columns.iter().map(|n| format!("n = {}", count(f64::from(*n)))));
    let head: Vec<String> = head.chain(["Outcome".to_owned()]).collect();
    let cells = |row: &'a Row| -> Vec<String> {
        let at = |n: &u32| row.points.iter().find(|point| point.n == *n).map_or("–".to_owned(), &cell);
        let named = std::iter::once(row.allocator.clone()).chain(columns.iter().map(at));
        named.chain([growth(row).outcome.clone()]).collect()
    };
    let lines: Vec<Vec<String>> = rows.iter().map(cells).collect();
    let mut widths = needed(lines.iter().chain([&head]).map(Vec::as_slice));
    // The title has a separate line, and the outcome gets the width that the other columns leave.
    widths[0] = rows.iter().map(|row| row.allocator.chars().count()).max().unwrap_or(0);
    if let Some((last, others)) = widths.split_last_mut() {
        *last = (*last).min(usize::from(layout.width).saturating_sub(used(others) + GAP)).max(OUTCOME_MIN);
    }
    let blank: Vec<String> = std::iter::once(String::new()).chain(head[1..].iter().cloned()).collect();
    let mut text = vec![bold(title, layout), bold(&line(&blank, &widths), layout), rule(&widths, layout)];
    text.extend(lines.iter().map(|cells| line(cells, &widths)));
    text.join("\n")
}

/// Formats a value with the half width of its interval: "1,027 ±1.2%".
fn with_margin(value: &str, estimate: Estimate) -> String {
    let margin = (estimate.high - estimate.low) / 2.0 / estimate.value * 100.0;
    match margin {
        // A model that always reads the same number has no interval.
        margin if margin.is_nan() || margin < 0.05 => value.to_owned(),
        margin if margin < 0.95 => format!("{value} ±{margin:.1}%"),
        margin if margin < 99.5 => format!("{value} ±{margin:.0}%"),
        _ => format!("{value} ±>99%"),
    }
}

/// Describes the ratio of the model's mean to that of the closed form, where it is smallest and largest.
fn closed_form(row: &Row) -> Option<String> {
    let formula = row.closed_form.as_ref()?;
    let ratio = |point: &Point| point.closed_form.map(|expected| (point.n, point.visits.value / expected));
    let ratios: Vec<(u32, f64)> = row.points.iter().filter_map(ratio).collect();
    let least = ratios.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let most = ratios.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let at = |(n, ratio): (u32, f64)| format!("{} (n = {})", factor(ratio), count(f64::from(n)));
    let name = &row.allocator;
    Some(format!("{name}: {formula} visits are expected; {} to {} of that were measured.", at(least), at(most)))
}

/// Explains visits and times, and which models are reconstructions.
fn legend(rows: &[Row], around_ns: f64) -> String {
    let counts: Vec<String> = rows.iter().map(|row| format!("{}: {}", row.allocator, row.counts)).collect();
    let lost =
        rows.iter().filter_map(|row| Some(format!(" {} reconstructs {}.", row.allocator, row.reconstructs.as_ref()?)));
    let lost: String = lost.collect();
    let around = Unit::Time.cost(around_ns);
    format!(
        "A visit is what the original would read to find a free number. {}. ±: half of the 95% interval of the passes. \
         The times include the work around the allocator: the bookkeeping of processes and groups, and the choice of \
         the process that ends. With an allocator that searches nothing, this takes {around}.{lost}",
        counts.join("; ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Five passes of two samples, each with its noise.
    fn measured(visits: impl Fn(f64) -> f64, noises: [f64; 5]) -> Measured<'static> {
        let sizes = [500, 700, 1_000, 1_500, 2_000, 3_000, 5_000, 7_000, 10_000];
        let sample = |n: u32, noise: f64| Sample { n, visits: visits(f64::from(n)) * noise, time_ns: 20.0 * noise };
        let pass = |noise: f64| sizes.iter().flat_map(|n| [sample(*n, noise), sample(*n, 2.0 - noise)]).collect();
        Measured {
            name: "model",
            about: "about",
            counts: "entries",
            source: "source",
            reconstructs: None,
            closed_form: None,
            capacity: 99_999.0,
            passes: noises.map(pass).to_vec(),
        }
    }

    #[test]
    fn a_square_and_a_constant_are_told_apart() {
        let scan = row(&Measured {
            closed_form: Some(("n²/pid_max", vec![(500, 2.4), (10_000, 1_000.0)])),
            ..measured(|n| n * n / 1e5, [1.001, 0.998, 1.002, 0.999, 1.0])
        });
        assert_eq!(scan.visits.law.as_deref(), Some("O(n²)"));
        assert_eq!((scan.points[0].n, scan.points[0].closed_form), (500, Some(2.4)));
        assert!((scan.points[0].visits.value - 2.5).abs() < 0.02, "{:?}", scan.points[0]);
        let constant = row(&measured(|_| 1.0, [1.0; 5]));
        assert_eq!(constant.visits.outcome, "flat");
        let text = render(&[scan, constant], "random", 9.0, Layout { width: 100, color: false });
        assert!(text.contains("model: n²/pid_max visits are expected; ×1"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
}
