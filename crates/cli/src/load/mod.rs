//! The output of `landau load`: progress while it runs, and the report at its end.

mod recorder;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use landau_load::outcome::{GateResult, GateState};
use landau_load::plan::{Arrivals, Load};
use landau_load::{Failure, Histogram, Observer, Outcome, Progress, Step};
use landau_report::quantity::{bytes, count, digits, duration};
use std::fmt::Write;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

pub(crate) use recorder::{Opening, Recorder};

/// The minimum number of idle connections for a computation of the memory per connection.
const ENOUGH: u64 = 1000;

/// Shows the progress of a load on standard error.
pub(crate) struct Live {
    bar: ProgressBar,
    quiet: bool,
    began: Option<Instant>,
    /// Time and responses of the last report.
    last: Option<(Instant, u64)>,
}

impl Live {
    /// Returns a progress bar; it is visible if standard error is a terminal and `quiet` is false. `length` is the
    /// expected duration.
    pub(crate) fn new(quiet: bool, length: Option<Duration>) -> Self {
        let is_shown = !quiet && std::io::stderr().is_terminal();
        let target = if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(length.map(|length| length.as_millis() as u64), target);
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {wide_msg}") {
            bar.set_style(style.progress_chars("━╸ "));
        }
        Self { bar, quiet, began: None, last: None }
    }

    /// Prints a line on standard error, above the bar if there is one.
    pub(crate) fn line(&self, text: &str) {
        if !self.bar.is_hidden() {
            self.bar.println(crate::terminal::visible(text, false));
        } else if !self.quiet {
            crate::status::tell(text);
        }
    }
}

impl Observer for Live {
    fn progress(&mut self, progress: &Progress) {
        let now = Instant::now();
        let began = *self.began.get_or_insert(now);
        let (then, before) = self.last.replace((now, progress.responses)).unwrap_or((began, 0));
        let seconds = now.duration_since(then).as_secs_f64();
        let rate = if seconds > 0.0 { progress.responses.saturating_sub(before) as f64 / seconds } else { 0.0 };
        self.bar.set_position(now.duration_since(began).as_millis() as u64);
        let mut message = format!(
            "{} responses · {}/s · {} connections",
            count(progress.responses as f64),
            count(rate.round()),
            count(f64::from(progress.open))
        );
        if progress.waiting > 0 {
            message.extend([" · ", &count(progress.waiting as f64), " waiting"]);
        }
        if progress.failures > 0 {
            message.extend([" · ", &count(progress.failures as f64), " failures"]);
        }
        self.bar.set_message(message);
    }

    fn opening(&mut self, open: u64, to: u32) {
        self.bar.set_length(u64::from(to));
        self.bar.set_position(open);
        self.bar.set_message(format!("{} of {} connections", count(open as f64), count(f64::from(to))));
    }

    fn step(&mut self, step: &Step) {
        if !self.bar.is_hidden() {
            self.bar.println(step_line(step));
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Returns the report of an outcome.
pub(crate) fn text(outcome: &Outcome, urls: &[String]) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{} · {}", load(outcome), urls.join(" "));
    if outcome.load == Load::Idle {
        idle(&mut text, outcome);
    } else {
        summary(&mut text, outcome);
        if outcome.metrics.phases.service.count() > 0 || outcome.metrics.phases.latency.count() > 0 {
            phases(&mut text, outcome);
        }
    }
    if outcome.metrics.not_made > 0 {
        let not_made = count(outcome.metrics.not_made as f64);
        let _ = writeln!(text, "requests that were not made before the end of the run: {not_made}");
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
            let arrivals = match arrivals {
                Arrivals::Poisson => "Poisson arrivals",
                Arrivals::Constant => "constant intervals",
            };
            format!("open loop, {} requests/s, {arrivals}", digits(per_second))
        }
        Load::Idle => "idle connections".to_owned(),
    };
    format!("{kind} · {workers}")
}

fn summary(text: &mut String, outcome: &Outcome) {
    let metrics = &outcome.metrics;
    if metrics.responses == 0 {
        let reason = if metrics.connections == 0 { ": no connection was established" } else { "" };
        let _ = writeln!(text, "no responses{reason}");
        return;
    }
    let seconds = metrics.elapsed_ns as f64 / 1e9;
    let rate = if seconds > 0.0 { metrics.bytes as f64 / seconds } else { 0.0 };
    let _ = writeln!(
        text,
        "{} responses in {} · {} responses/s · {}/s · {} connections established",
        count(metrics.responses as f64),
        duration(metrics.elapsed_ns as f64),
        count(outcome.responses_per_second().round()),
        bytes(rate as u64),
        count(metrics.connections as f64)
    );
    if let Some(per_response) = outcome.cpu_ns_per_response() {
        let share = |part: u64| digits(100.0 * part as f64 / metrics.cpu_total_ns().max(1) as f64);
        let _ = writeln!(
            text,
            "generator: {} of CPU time per response, {}% of it in the kernel; busiest worker: {}% of a CPU, {}% in its \
             busiest second",
            duration(per_response),
            share(metrics.cpu_ns[1]),
            digits(outcome.busiest_worker_cpu_share * 100.0),
            metrics.busiest_percent().unwrap_or_default()
        );
    }
    if let Some(trend) = metrics.latency_series.trend() {
        let [growth, low, high] = [trend.growth_ns, trend.low_ns, trend.high_ns].map(signed);
        let _ = writeln!(text, "growth of the latency over the run: {growth} (99% interval: {low} to {high})");
    }
    let _ = writeln!(text, "source: {}", outcome.sources);
    let statuses: Vec<String> =
        metrics.statuses.iter().map(|(status, number)| format!("{} × {status}", count(*number as f64))).collect();
    let _ = writeln!(text, "status: {}", statuses.join(", "));
}

/// Returns a change in duration, with its sign.
fn signed(ns: f64) -> String {
    format!("{}{}", if ns < 0.0 { "−" } else { "+" }, duration(ns.abs()))
}

const COLUMNS: [&str; 8] = ["count", "min", "p50", "p90", "p99", "p99.9", "p99.99", "max"];

fn phases(text: &mut String, outcome: &Outcome) {
    let _ = write!(text, "\n{:<22}", "");
    for column in COLUMNS {
        let _ = write!(text, "{column:>10}");
    }
    text.push('\n');
    let phases = outcome.metrics.phases.all();
    for (_, label, _, histogram) in &phases {
        if histogram.count() > 0 {
            row(text, label, histogram);
        }
    }
    let censored = phases.iter().filter(|(_, _, _, histogram)| histogram.censored() > 0);
    let censored: Vec<String> =
        censored.map(|(_, label, _, histogram)| format!("{} × {label}", count(histogram.censored() as f64))).collect();
    if !censored.is_empty() {
        let _ = writeln!(text, "unanswered requests, counted with the time that they waited: {}", censored.join(", "));
    }
}

fn row(text: &mut String, label: &str, histogram: &Histogram) {
    let _ = write!(text, "{label:<22}{:>10}", count(histogram.count() as f64));
    let quantile = |share: f64| histogram.quantile_ns(share);
    let quantiles = [0.5, 0.9, 0.99, 0.999, 0.9999].map(quantile);
    for ns in [&[histogram.min_ns()], &quantiles[..], &[histogram.max_ns()]].concat() {
        let _ = write!(text, "{:>10}", duration(ns as f64));
    }
    text.push('\n');
}

/// Returns the median of one member of the samples, or a dash if there are none.
fn median<const N: usize>(samples: &[[u64; N]], member: usize) -> String {
    let mut values: Vec<u64> = samples.iter().map(|sample| sample[member]).collect();
    values.sort_unstable();
    values.get(values.len() / 2).map_or("–".to_owned(), |&ns| duration(ns as f64))
}

fn step_line(step: &Step) -> String {
    format!(
        "{:>11}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}",
        count(step.open as f64),
        median(&step.idle_ns, 0),
        median(&step.idle_ns, 1),
        median(&step.new_ns, 0),
        median(&step.new_ns, 1),
        median(&step.new_ns, 2),
        duration(step.setup_ms as f64 * 1e6)
    )
}

/// Combines the steps of all passes: their samples, the fewest open connections, and the longest setup time.
fn combined(steps: &[Step]) -> Vec<Step> {
    let mut all: Vec<Step> = Vec::new();
    for step in steps {
        match all.iter_mut().find(|one| one.n == step.n) {
            None => all.push(step.clone()),
            Some(one) => {
                one.idle_ns.extend(&step.idle_ns);
                one.new_ns.extend(&step.new_ns);
                one.open = one.open.min(step.open);
                one.setup_ms = one.setup_ms.max(step.setup_ms);
            }
        }
    }
    all
}

fn idle(text: &mut String, outcome: &Outcome) {
    let _ = writeln!(text, "source: {}", outcome.sources);
    let _ = writeln!(text, "\nmedian latency by number of idle connections:");
    let _ = writeln!(text, "{:>11}{:>24}{:>36}", "idle", "request on an idle one", "new connection");
    let _ = writeln!(
        text,
        "{:>11}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}",
        "connections", "first byte", "last byte", "handshake", "first byte", "last byte", "setup time"
    );
    for step in combined(&outcome.steps) {
        text.push_str(&step_line(&step));
        text.push('\n');
    }
    let largest = outcome.steps.iter().max_by_key(|step| step.open).filter(|step| step.open >= ENOUGH);
    if let Some(step) = largest {
        let each = |before: u64, after: u64| bytes((after.saturating_sub(before) as f64 / step.open as f64) as u64);
        let both = if outcome.is_local { " (both ends)" } else { "" };
        let slab = each(outcome.memory.slab_bytes, step.memory.slab_bytes);
        let _ = writeln!(text, "kernel memory per connection: {slab} of slab{both}");
        if let (Some(before), Some(after)) = (outcome.memory.server_bytes, step.memory.server_bytes) {
            let _ = writeln!(text, "server memory per connection: {}", each(before, after));
        }
    }
}

fn failures(text: &mut String, outcome: &Outcome) {
    // The reason of a gate lists its failures, which are not printed twice.
    let reasons: Vec<String> = outcome.gates.iter().filter_map(GateResult::remark).collect();
    let is_listed = |failure: &Failure| reasons.iter().any(|reason| reason.contains(failure.description()));
    for (failure, number) in outcome.metrics.failures.iter().filter(|(failure, _)| !is_listed(failure)) {
        let detail = outcome.metrics.failure_details.get(failure);
        let detail = detail.map(|detail| format!(" ({detail})")).unwrap_or_default();
        let _ = writeln!(text, "failed: {} × {}{detail}", count(*number as f64), failure.description());
    }
    if !outcome.counters.is_empty() {
        let counters: Vec<String> = outcome.counters.iter().map(|(name, by)| format!("{name} +{by}")).collect();
        let _ = writeln!(text, "kernel counters of this host during the run: {}", counters.join(", "));
    }
}

fn gates(text: &mut String, outcome: &Outcome) {
    text.push('\n');
    let passed = outcome.gates.iter().filter(|gate| gate.state == GateState::Passed);
    let passed: Vec<&str> = passed.map(|gate| gate.name).collect();
    if !passed.is_empty() {
        let _ = writeln!(text, "gates passed (no problem found): {}", passed.join(", "));
    }
    for remark in outcome.gates.iter().filter_map(GateResult::remark) {
        let _ = writeln!(text, "{remark}");
    }
}
