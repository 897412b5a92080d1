//! The output of `landau mail`: progress while it runs, and the report at its end.

pub(crate) mod page;
pub(crate) mod relay;
pub(crate) mod starttls;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use landau_mail::{Observer, Outcome, Progress, Tally};
use landau_report::quantity::{bytes, count, duration};
use std::fmt::Write;
use std::io::IsTerminal;
use std::time::Instant;

/// Maximum number of reasons that are listed.
const REASONS: usize = 10;

/// Shows the progress of a delivery on standard error.
pub(crate) struct Live {
    bar: ProgressBar,
    /// Time and recipients of the last report.
    last: Option<(Instant, u64)>,
}

impl Live {
    /// Returns a progress bar; it is visible if standard error is a terminal and `quiet` is false. `recipients` is the
    /// length of the list, if it is known.
    pub(crate) fn new(quiet: bool, recipients: Option<u64>) -> Self {
        let is_shown = !quiet && std::io::stderr().is_terminal();
        let target = if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(recipients, target);
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {wide_msg}") {
            bar.set_style(style.progress_chars("━╸ "));
        }
        Self { bar, last: None }
    }
}

impl Observer for Live {
    fn progress(&mut self, progress: &Progress) {
        if self.bar.is_hidden() {
            return;
        }
        let (now, done) = (Instant::now(), progress.recipients.done);
        let (then, before) = self.last.replace((now, done)).unwrap_or((now, done));
        let seconds = now.duration_since(then).as_secs_f64();
        let rate = if seconds > 0.0 { (done - before) as f64 / seconds } else { 0.0 };
        self.bar.set_position(done);
        let open = count(f64::from(progress.open));
        self.bar.set_message(format!(
            "{} · {}/s · {open} connections",
            tally(&progress.recipients),
            count(rate.round())
        ));
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn tally(recipients: &Tally) -> String {
    let Tally { done, deferred, failed, left } = *recipients;
    let [done, deferred, failed, left] = [done, deferred, failed, left].map(|number| count(number as f64));
    format!("{done} done · {deferred} deferred · {failed} failed · {left} left")
}

/// Returns the report of a delivery.
pub(crate) fn text(outcome: &Outcome) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let done = outcome.mode.success();
    let _ = writeln!(text, "{} recipients: {}", count(outcome.recipients.sum() as f64), tally(&outcome.recipients));
    let _ = writeln!(
        text,
        "{} {done} in {} · {}/s · {} connections, up to {} at a time",
        count(outcome.done_now() as f64),
        duration(outcome.elapsed_ns as f64),
        count(outcome.per_second().round()),
        count(outcome.connections as f64),
        count(f64::from(outcome.most_open))
    );
    if let Some(each) = outcome.cpu_ns_each() {
        let (sends, receives) = outcome.calls;
        let per = |calls: u64| format!("{:.2}", calls as f64 / outcome.done_now() as f64);
        let _ = writeln!(
            text,
            "per recipient {done}: {} of processor time, {} sends, {} receives; {} sent in all",
            duration(each),
            per(sends),
            per(receives),
            bytes(outcome.sent_bytes)
        );
    }
    if let Some(row) = outcome.domains.first().filter(|_| outcome.domain_count > 1 && outcome.elapsed_ns > 0) {
        let share = row.own_ns() as f64 / outcome.elapsed_ns as f64;
        let _ = writeln!(
            text,
            "largest domain: {}, {} recipients, {} from its first attempt to its last recipient ({:.0}% of the run)",
            row.domain,
            count(row.recipients.sum() as f64),
            duration(row.own_ns() as f64),
            100.0 * share
        );
    }
    phases(&mut text, outcome);
    reasons(&mut text, "deferred or failed", &outcome.reasons);
    reasons(&mut text, "connections refused or lost", &outcome.lost);
    for note in &outcome.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

fn phases(text: &mut String, outcome: &Outcome) {
    if outcome.phases.all().iter().all(|(_, times)| times.count() == 0) {
        return;
    }
    let _ = writeln!(text, "\n{:<12}{:>12}{:>10}{:>10}{:>10}{:>10}", "time to", "count", "p50", "p90", "p99", "max");
    for (name, times) in outcome.phases.all().into_iter().filter(|(_, times)| times.count() > 0) {
        let _ = write!(text, "{name:<12}{:>12}", count(times.count() as f64));
        let quantiles = [0.5, 0.9, 0.99].map(|share| times.quantile_ns(share));
        for ns in quantiles.into_iter().chain([times.max_ns()]) {
            let _ = write!(text, "{:>10}", duration(ns as f64));
        }
        text.push('\n');
    }
}

fn reasons(text: &mut String, title: &str, all: &[(String, u64)]) {
    if all.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{title}:");
    for (reason, number) in all.iter().take(REASONS) {
        let _ = writeln!(text, "{:>12} × {reason}", count(*number as f64));
    }
    if all.len() > REASONS {
        let rest: u64 = all[REASONS..].iter().map(|(_, number)| number).sum();
        let _ = writeln!(text, "{:>12} × {} other reasons", count(rest as f64), all.len() - REASONS);
    }
}
