//! Progress on standard error: on a terminal, a bar with the time left; in a pipe, only failures and notes.

use crate::terminal::visible;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use landau_engine::{Event, Observer};
use landau_lab::kernel::Kernel;
use landau_lab::observer::KernelObserver;
use landau_lab::outcome::KernelOutcome;
use landau_record::schema::{Line, Outcome, PassEnd, Role};
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::Duration;

/// The progress of `landau run`.
pub(crate) struct Progress {
    bar: ProgressBar,
    /// Whether nothing is printed: neither a bar nor lines about failures and skipped cases.
    quiet: bool,
    /// The adaptive round and the number of unresolved curves, printed after the case's name.
    round: String,
}

impl Progress {
    /// Returns a bar, which is visible if standard error is a terminal and `quiet` is false.
    pub(crate) fn new(quiet: bool) -> Self {
        let shown = !quiet && std::io::stderr().is_terminal();
        let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        let coloured = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let template = if coloured {
            "{bar:24.cyan/dim} {pos:>4}/{len} passes · {prefix:.dim} · {wide_msg}"
        } else {
            "{bar:24} {pos:>4}/{len} passes · {prefix} · {wide_msg}"
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("━╸ "));
        }
        Self { bar, quiet, round: String::new() }
    }

    /// Prints a line above the bar, or to standard error if there is no bar.
    pub(crate) fn line(&self, text: &str) {
        if self.bar.is_hidden() {
            if !self.quiet {
                crate::status::tell(text);
            }
        } else {
            self.bar.println(visible(text, false));
        }
    }

    fn ended(&self, label: &str, end: &PassEnd) {
        self.bar.inc(1);
        match (&end.outcome, &end.error) {
            (Outcome::Failed, Some(error)) => self.line(&format!("{label}: failed: {error}")),
            (Outcome::Cut, _) => self.line(&format!("{label}: cut by the time limit")),
            _ => {}
        }
    }
}

impl Observer for Progress {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Started { pass_count } => self.bar.set_length(*pass_count as u64),
            Event::Skipped(skip) => self.line(&format!("{}: skipped, because {}", skip.label, skip.reason)),
            Event::Reduced { label, reason } => self.line(&format!("{label}: {reason}")),
            Event::Waiting { reason, left } => {
                let text = format!("waiting up to {} s: {reason}", left.as_secs());
                self.bar.set_message(visible(&text, false).into_owned());
            }
            Event::AdaptiveRound { round, pass_count, unresolved, of } => {
                self.bar.inc_length(*pass_count as u64);
                self.round = round_words(*round, *unresolved, *of);
            }
            Event::PassStarted { label, role, left, .. } => {
                self.bar.set_prefix(left.map_or("…".to_owned(), time_left));
                self.bar.set_message(visible(&pass_words(label, *role, &self.round), false).into_owned());
            }
            Event::Progress { .. } => self.bar.tick(),
            Event::PassEnded { label, end } => self.ended(label, end),
            Event::Cut(cut) => {
                self.line(&format!("{}: {} passes left out: {}", cut.label, cut.pass_count, cut.reason));
            }
            Event::Note(text) => self.line(&format!("note: {text}")),
            _ => {}
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// The progress of `landau lab run`: one bar for each kernel.
pub(crate) struct Kernels {
    all: MultiProgress,
    bars: BTreeMap<String, (ProgressBar, Mutex<Vec<String>>)>,
    quiet: bool,
}

impl Kernels {
    /// Returns the bars, which are visible if standard error is a terminal and `quiet` is false.
    pub(crate) fn new(quiet: bool, kernels: &[Kernel]) -> Self {
        let shown = !quiet && std::io::stderr().is_terminal();
        let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let all = MultiProgress::with_draw_target(target);
        let bar = |kernel: &Kernel| {
            let bar = all.add(ProgressBar::new(1));
            if let Ok(style) = ProgressStyle::with_template("{prefix:>28} {bar:24} {pos:>4}/{len} passes · {wide_msg}")
            {
                bar.set_style(style.progress_chars("━╸ "));
            }
            bar.set_prefix(visible(&kernel.name, false).into_owned());
            bar.set_message("queued");
            (kernel.name.clone(), (bar, Mutex::new(Vec::new())))
        };
        let bars = kernels.iter().map(bar).collect();
        Self { all, bars, quiet }
    }

    fn message(&self, kernel: &Kernel, text: &str) {
        if let Some((bar, _)) = self.bars.get(&kernel.name) {
            bar.set_message(visible(text, false).into_owned());
        }
    }

    fn line_for(&self, kernel: &Kernel, text: &str) {
        let text = format!("{}: {text}", kernel.name);
        let shown = self.bars.get(&kernel.name).is_some_and(|(bar, _)| !bar.is_hidden());
        if !shown && !self.quiet {
            crate::status::tell(&text);
        } else if shown {
            // If the terminal is gone, the record still holds the error.
            let _ = self.all.println(visible(&text, false));
        }
    }
}

impl KernelObserver for Kernels {
    fn started(&self, kernel: &Kernel) {
        self.message(kernel, "booting");
    }

    fn up(&self, kernel: &Kernel) {
        self.message(kernel, "booted; waiting for background work to end");
    }

    fn line(&self, kernel: &Kernel, line: &Line) {
        let Some((bar, labels)) = self.bars.get(&kernel.name) else {
            return;
        };
        match line {
            Line::Header(header) => bar.set_length(u64::from(header.pass_count * header.case_count)),
            Line::Case(case) => {
                if let Ok(mut labels) = labels.lock() {
                    labels.push(case.label.clone());
                }
            }
            Line::Pass(start) => {
                let label = labels.lock().ok().and_then(|labels| labels.get(start.case as usize).cloned());
                self.message(kernel, &label.unwrap_or_default());
            }
            Line::PassEnd(end) => {
                bar.inc(1);
                if let (Outcome::Failed, Some(error)) = (end.outcome, &end.error) {
                    self.line_for(kernel, &format!("a pass failed: {error}"));
                }
            }
            Line::Skip(skip) => self.line_for(kernel, &format!("{}: skipped, because {}", skip.label, skip.reason)),
            _ => {}
        }
    }

    fn restarted(&self, kernel: &Kernel, place: &str) {
        self.line_for(kernel, &format!("stopped in {place}; restarting it to see whether that recurs"));
    }

    fn ended(&self, kernel: &Kernel, outcome: &KernelOutcome) {
        if let Some((bar, _)) = self.bars.get(&kernel.name) {
            bar.finish_with_message(if outcome.record().is_some() { "done" } else { "failed" });
        }
    }
}

/// Returns the description of a pass: the case, the side if there are two, and the round.
fn pass_words(label: &str, role: Option<Role>, round: &str) -> String {
    let side = role.map_or(String::new(), |role| format!(" · {}", role.name()));
    format!("{label}{side}{round}")
}

/// Returns the description of an adaptive round, printed after the case's name.
fn round_words(round: u32, unresolved: usize, of: usize) -> String {
    format!(" · round {}, {unresolved} of {of} curves not resolved", round + 1)
}

/// Returns the time left as text: `42 s left`, `3 min left`.
fn time_left(left: Duration) -> String {
    match left.as_secs() {
        0..=1 => "1 s left".to_owned(),
        seconds @ 2..=99 => format!("{seconds} s left"),
        seconds => format!("{} min left", seconds.div_ceil(60)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_side_is_named_if_there_are_two() {
        assert_eq!(pass_words("bind family=v6", Some(Role::New), " · round 2"), "bind family=v6 · new · round 2");
        assert_eq!(pass_words("bind", None, ""), "bind");
    }

    /// The event counts rounds from 0, as records do; the text counts from 1.
    #[test]
    fn an_adaptive_round_is_named_with_what_is_left() {
        assert_eq!(round_words(6, 12, 96), " · round 7, 12 of 96 curves not resolved");
    }
}
