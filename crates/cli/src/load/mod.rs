//! What a load shows while it lasts and when it is over.

mod recorder;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use landau_load::gate::{Gate, Standing};
use landau_load::plan::Load;
use landau_load::schedule::Arrivals;
use landau_load::{Histogram, Observer, Outcome, Progress, Step};
use landau_report::quantity::{bytes, count, digits, duration};
use std::fmt::Write;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

pub(crate) use recorder::{Opening, Recorder};

/// Shows a load on standard error while it lasts.
pub(crate) struct Live {
    bar: ProgressBar,
    quiet: bool,
    begun: Option<Instant>,
    last: Option<(Instant, u64)>,
}

impl Live {
    /// A bar where standard error is a terminal and the user did not ask for silence; how long the load lasts, if that
    /// is known.
    pub(crate) fn new(quiet: bool, length: Option<Duration>) -> Self {
        let shown = !quiet && std::io::stderr().is_terminal();
        let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(length.map(|length| length.as_millis() as u64), target);
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {wide_msg}") {
            bar.set_style(style.progress_chars("━╸ "));
        }
        Self { bar, quiet, begun: None, last: None }
    }

    /// A line above the bar; in a pipe a line on standard error.
    pub(crate) fn line(&self, text: &str) {
        if !self.bar.is_hidden() {
            self.bar.println(text);
        } else if !self.quiet {
            crate::status::tell(text);
        }
    }
}

impl Observer for Live {
    fn progress(&mut self, progress: &Progress) {
        let now = Instant::now();
        let begun = *self.begun.get_or_insert(now);
        let (then, before) = self.last.replace((now, progress.answers)).unwrap_or((begun, 0));
        let seconds = now.duration_since(then).as_secs_f64();
        let rate = if seconds > 0.0 { progress.answers.saturating_sub(before) as f64 / seconds } else { 0.0 };
        self.bar.set_position(now.duration_since(begun).as_millis() as u64);
        let mut words = format!(
            "{} answers · {}/s · {} connections",
            count(progress.answers as f64),
            count(rate.round()),
            count(f64::from(progress.open))
        );
        if progress.waiting > 0 {
            words.extend([" · ", &count(progress.waiting as f64), " waiting"]);
        }
        if progress.failures > 0 {
            words.extend([" · ", &count(progress.failures as f64), " failures"]);
        }
        self.bar.set_message(words);
    }

    fn grown(&mut self, open: u64, to: u32) {
        self.bar.set_length(u64::from(to));
        self.bar.set_position(open);
        self.bar.set_message(format!("{} of {} connections", count(open as f64), count(f64::from(to))));
    }

    fn step(&mut self, step: &Step) {
        if !self.bar.is_hidden() {
            self.bar.println(step_line(step));
        }
    }

    fn note(&mut self, text: &str) {
        self.line(text);
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// What came of it, for a person.
pub(crate) fn text(outcome: &Outcome, urls: &[String]) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{} · {}", load(outcome), urls.join(" "));
    if outcome.load == Load::Crowd {
        crowd(&mut text, outcome);
    } else {
        summary(&mut text, outcome);
        phases(&mut text, outcome);
    }
    failures(&mut text, outcome);
    gates(&mut text, outcome);
    text
}

fn load(outcome: &Outcome) -> String {
    let workers = match outcome.worker_count {
        1 => "1 worker".to_owned(),
        many => format!("{many} workers"),
    };
    let kind = match outcome.load {
        Load::Closed => "closed loop".to_owned(),
        Load::Open { per_second, arrivals } => {
            let how = if arrivals == Arrivals::Poisson { "at random" } else { "evenly" };
            format!("open loop, {} requests/s {how}", digits(per_second))
        }
        Load::Crowd => "growing crowd of idle connections".to_owned(),
    };
    format!("{kind} · {workers}")
}

fn summary(text: &mut String, outcome: &Outcome) {
    let tally = &outcome.tally;
    let seconds = tally.elapsed_ns as f64 / 1e9;
    let rate = if seconds > 0.0 { tally.bytes as f64 / seconds } else { 0.0 };
    let _ = writeln!(
        text,
        "{} answers in {} · {}/s · {}/s · {} connections made",
        count(tally.answers as f64),
        duration(tally.elapsed_ns as f64),
        count(outcome.per_second().round()),
        bytes(rate as u64),
        count(tally.connections as f64)
    );
    if let Some(each) = outcome.processor_ns_per_answer() {
        let share = |part: u64| digits(100.0 * part as f64 / tally.processor_total_ns().max(1) as f64);
        let _ = writeln!(
            text,
            "generator: {} of processor each ({}% of it in the kernel); busiest worker at {}% of a processor",
            duration(each),
            share(tally.processor_ns[1]),
            digits(outcome.busiest * 100.0)
        );
    }
    let _ = writeln!(text, "from: {}", outcome.sources);
    let statuses: Vec<String> =
        tally.statuses.iter().map(|(status, number)| format!("{} × {status}", count(*number as f64))).collect();
    if !statuses.is_empty() {
        let _ = writeln!(text, "status: {}", statuses.join(", "));
    }
}

const COLUMNS: [&str; 8] = ["count", "min", "p50", "p90", "p99", "p99.9", "p99.99", "max"];

fn phases(text: &mut String, outcome: &Outcome) {
    let _ = write!(text, "\n{:<22}", "");
    for column in COLUMNS {
        let _ = write!(text, "{column:>10}");
    }
    text.push('\n');
    for (_, words, _, histogram) in outcome.tally.phases.all() {
        if histogram.count() > 0 {
            row(text, words, histogram);
        }
    }
}

fn row(text: &mut String, words: &str, histogram: &Histogram) {
    let _ = write!(text, "{words:<22}{:>10}", count(histogram.count() as f64));
    let of = |share: f64| histogram.quantile_ns(share);
    for ns in [histogram.min_ns(), of(0.5), of(0.9), of(0.99), of(0.999), of(0.9999), histogram.max_ns()] {
        let _ = write!(text, "{:>10}", duration(ns as f64));
    }
    text.push('\n');
}

/// The median of one member of samples.
fn median<const N: usize>(samples: &[[u64; N]], member: usize) -> f64 {
    let mut values: Vec<u64> = samples.iter().map(|sample| sample[member]).collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0) as f64
}

fn step_line(step: &Step) -> String {
    format!(
        "{:>11}{:>12}{:>12}{:>12}{:>12}{:>12}{:>11}",
        count(step.open as f64),
        duration(median(&step.old_ns, 0)),
        duration(median(&step.old_ns, 1)),
        duration(median(&step.fresh_ns, 0)),
        duration(median(&step.fresh_ns, 1)),
        duration(median(&step.fresh_ns, 2)),
        duration(step.grown_ms as f64 * 1e6)
    )
}

/// The same sizes of all passes put together: their samples, the fewest that stood, and the longest that it took.
fn together(steps: &[Step]) -> Vec<Step> {
    let mut sizes: Vec<Step> = Vec::new();
    for step in steps {
        match sizes.iter_mut().find(|size| size.n == step.n) {
            None => sizes.push(step.clone()),
            Some(size) => {
                size.old_ns.extend(&step.old_ns);
                size.fresh_ns.extend(&step.fresh_ns);
                size.open = size.open.min(step.open);
                size.grown_ms = size.grown_ms.max(step.grown_ms);
            }
        }
    }
    sizes
}

fn crowd(text: &mut String, outcome: &Outcome) {
    let _ = writeln!(text, "from: {}", outcome.sources);
    let _ = writeln!(text, "\nmedians of a request on an old idle connection, and on a new one:");
    let _ = writeln!(
        text,
        "{:>11}{:>12}{:>12}{:>12}{:>12}{:>12}{:>11}",
        "idle", "first byte", "last byte", "handshake", "first byte", "last byte", "grown in"
    );
    for step in together(&outcome.steps) {
        text.push_str(&step_line(&step));
        text.push('\n');
    }
    let largest = outcome.steps.iter().max_by_key(|step| step.open).filter(|step| step.open >= 1000);
    if let Some(step) = largest {
        let each = |before: u64, after: u64| after.saturating_sub(before) as f64 / step.open as f64;
        let _ = writeln!(
            text,
            "kernel memory: {} of slab for each connection{}",
            bytes(each(outcome.memory.slab_bytes, step.memory.slab_bytes) as u64),
            if outcome.is_local { ", both ends" } else { "" }
        );
        if let (Some(before), Some(after)) = (outcome.memory.server_bytes, step.memory.server_bytes) {
            let each = bytes(each(before, after) as u64);
            let _ = writeln!(text, "user memory: {each} of the server for each connection");
        }
    }
}

fn failures(text: &mut String, outcome: &Outcome) {
    for (failure, number) in &outcome.tally.failures {
        let detail = outcome.tally.details.get(failure).map(|detail| format!(" ({detail})")).unwrap_or_default();
        let _ = writeln!(text, "failed: {} × {}{detail}", count(*number as f64), failure.words());
    }
    if !outcome.counters.is_empty() {
        let words: Vec<String> = outcome.counters.iter().map(|(name, by)| format!("{name} +{by}")).collect();
        let _ = writeln!(text, "this host's counters meanwhile: {}", words.join(", "));
    }
}

fn gates(text: &mut String, outcome: &Outcome) {
    text.push('\n');
    let held: Vec<&str> =
        outcome.gates.iter().filter(|gate| gate.standing == Standing::Held).map(|gate| gate.name).collect();
    if !held.is_empty() {
        let _ = writeln!(text, "gates that held: {}", held.join(", "));
    }
    for remark in outcome.gates.iter().filter_map(Gate::remark) {
        let _ = writeln!(text, "{remark}");
    }
}
