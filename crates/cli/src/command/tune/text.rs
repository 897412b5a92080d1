//! The answers of `landau tune` as text.

use crate::terminal::{bullet, labelled, wrapped};
use landau_report::tuned::{Answer, Effect, Trial};
use landau_tune::{Change, Journaled, Kept, Place, Plan, Status};
use std::fmt::Write;

/// Returns the message about the settings that a killed trial has left changed.
pub(super) fn left(left: &Journaled) -> String {
    let names: Vec<&str> = left.entries.iter().map(|entry| entry.name.as_str()).collect();
    format!(
        "landau: a trial of profile `{}` was killed and may have left settings changed ({}); restore them with: landau \
         tune restore",
        left.profile,
        names.join(", ")
    )
}

pub(super) fn plan(plan: &Plan) -> String {
    let about = plan.about.trim_end_matches('.');
    let name = &plan.profile;
    let mut text = if about.is_empty() { name.clone() } else { wrapped(&format!("{name}: {about}."), 0) };
    text.push('\n');
    if plan.changes.is_empty() {
        text.push_str("\nNothing would change here.\n");
    } else {
        text.push_str("\nWould change:\n");
    }
    plan.changes.iter().for_each(|change| changed(&mut text, change));
    if !plan.present.is_empty() {
        text.push_str("\nAlready set:\n");
    }
    for one in &plan.present {
        let source = one.source.as_ref().map_or(String::new(), |source| format!("; then: {source}"));
        text.push_str(&bullet(&format!("{} is {} ({} wanted{source})", one.name, one.now, one.wanted)));
    }
    if !plan.missing.is_empty() || !plan.unmapped.is_empty() {
        text.push_str("\nNot changed by Landau here:\n");
    }
    plan.missing.iter().for_each(|one| text.push_str(&bullet(&format!("{}: {}", one.name, one.why))));
    plan.unmapped.iter().for_each(|one| text.push_str(&bullet(&format!("{}: {}", one.tweak, one.why))));
    text
}

fn changed(text: &mut String, change: &Change) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "  {}  {} → {}", change.name, change.now, change.new);
    let tried = match change.tried {
        Place::Namespace => Some("in a network namespace, without changing the host"),
        Place::Host => Some("on the host only (--on-host, as root)"),
        Place::Nowhere => None,
    };
    let parts = [
        ("bounds", change.bounds),
        ("risk", change.risk),
        ("then", change.source.as_deref()),
        ("tried", tried),
        ("here", change.obstacle.as_deref()),
    ];
    for (label, part) in parts {
        if let Some(part) = part {
            labelled(text, label, part);
        }
    }
}

pub(super) fn answer(answer: &Answer) -> String {
    let mut text = format!("Profile {}:\n", answer.profile);
    for one in &answer.settings {
        let place = if one.on_host { "on the host" } else { "in a network namespace" };
        text.push_str(&bullet(&format!("{}: {} → {}, {place}", one.name, one.old, one.new)));
    }
    if answer.settings.is_empty() {
        text.push_str(&bullet("no setting: both sides are equal"));
    }
    for one in &answer.not_tried {
        text.push_str(&bullet(&format!("{} was not tried: {}", one.name, one.why)));
    }
    if let Some(whole) = answer.trials.first() {
        let _ = writeln!(text, "\nWith the profile: {}.", whole.text);
        curves(&mut text, whole);
    }
    if !answer.attribution.is_empty() {
        text.push_str("\nBy setting:\n");
        answer.attribution.iter().for_each(|one| text.push_str(&bullet(&format!("{}.", one.text))));
    }
    if !answer.complete {
        text.push_str("\nNot all passes completed: the trial was interrupted, or passes failed.\n");
    }
    if answer.not_restored.is_empty() {
        text.push_str("\nEvery setting has its value from before the trial.\n");
    } else {
        text.push_str("\nNot restored:\n");
        answer.not_restored.iter().for_each(|one| text.push_str(&bullet(one)));
        text.push_str("landau tune restore --force also restores values that another process has changed.\n");
    }
    if let Some(page) = &answer.page {
        let _ = writeln!(text, "report: {page}");
    }
    text
}

fn curves(text: &mut String, trial: &Trial) {
    for curve in trial.curves.iter().filter(|curve| curve.effect != Effect::Nothing) {
        text.push_str(&bullet(&format!("{} · {}: {}", curve.case, curve.phase, curve.text)));
    }
    for curve in trial.curves.iter().filter(|curve| curve.effect == Effect::Nothing) {
        text.push_str(&bullet(&format!("{} · {}: {}", curve.case, curve.phase, curve.text)));
    }
    trial.limits.iter().for_each(|limit| text.push_str(&bullet(&format!("{}: {}", limit.case, limit.text))));
}

pub(super) fn kept(kept: &[Kept], is_dry: bool) -> String {
    let mut text = String::new();
    for one in kept {
        let state = match (is_dry, one.unchanged) {
            (_, true) => "unchanged",
            (true, false) => "would be written",
            (false, false) => "written",
        };
        let _ = writeln!(text, "{}", wrapped(&format!("{} ({state}; {})", one.path.display(), one.effect), 4));
        one.text.lines().for_each(|line| {
            let _ = writeln!(text, "    {line}");
        });
    }
    if kept.is_empty() {
        text.push_str("the profile contains no setting to keep\n");
    }
    text
}

pub(super) fn status(status: &Status, all: bool) -> String {
    let mut text = String::new();
    let shown = status.settings.iter().filter(|row| {
        let has_file = row.distribution.is_some() || row.administrator.is_some();
        row.now.is_some() && (all || has_file || row.differs == Some(true))
    });
    for row in shown {
        let mark = if row.differs == Some(true) { "≠" } else { " " };
        let _ = writeln!(text, "{mark} {} is {}", row.name, row.now.as_deref().unwrap_or_default());
        let kernel = row.kernel_default.unwrap_or("computed from the memory size, or unknown");
        labelled(&mut text, "kernel", kernel);
        for (label, source) in [("package", &row.distribution), ("admin", &row.administrator)] {
            let Some(source) = source else { continue };
            let ours = if source.ours { ", by landau tune keep" } else { "" };
            let unlike = if row.now.as_deref() == Some(&source.value) { "" } else { "; it is not in effect" };
            labelled(&mut text, label, &format!("{} in {}{ours}{unlike}", source.value, source.file));
        }
    }
    if status.settings.iter().all(|row| row.now.is_none()) {
        text.push_str("no setting can be read: is /proc mounted?\n");
    } else if text.is_empty() {
        text.push_str("every setting that Landau knows has its default (--all prints them)\n");
    } else {
        let legend = "≠ differs from the distribution's default, or from the kernel's where it has none.";
        let _ = writeln!(text, "\n{}", wrapped(legend, 2));
    }
    if let Some(one) = &status.left {
        let _ = writeln!(text, "\n{}", left(one));
    }
    text
}
