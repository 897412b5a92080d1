//! What a run shows while it lasts: a bar with the time left on a terminal, nothing in a pipe.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use landau_engine::{Event, Observer};
use landau_record::schema::{Outcome, PassEnd};
use std::io::IsTerminal;
use std::time::Duration;

/// Shows a run on standard error.
pub(crate) struct Progress {
    bar: ProgressBar,
    /// What must be seen even without a terminal: failures and whatever was left out.
    quiet: bool,
}

impl Progress {
    /// A bar where standard error is a terminal and the user did not ask for silence.
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
        Self { bar, quiet }
    }

    /// A line above the bar; in a pipe a line on standard error.
    pub(crate) fn line(&self, text: &str) {
        if self.bar.is_hidden() {
            if !self.quiet {
                crate::status::tell(text);
            }
        } else {
            self.bar.println(text);
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
                self.bar.set_message(format!("waiting up to {} s: {reason}", left.as_secs()));
            }
            Event::PassStarted { label, left, .. } => {
                self.bar.set_prefix(left.map_or("…".to_owned(), time_left));
                self.bar.set_message((*label).to_owned());
            }
            Event::Progress { .. } => self.bar.tick(),
            Event::PassEnded { label, end } => self.ended(label, end),
            Event::Cut(cut) => {
                self.line(&format!("{}: passes left out: {}; {}", cut.label, cut.pass_count, cut.reason));
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

fn time_left(left: Duration) -> String {
    match left.as_secs() {
        0..=1 => "a second left".to_owned(),
        seconds @ 2..=99 => format!("{seconds} s left"),
        seconds => format!("{} min left", seconds.div_ceil(60)),
    }
}
