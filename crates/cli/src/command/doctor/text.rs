//! The answer as text: the verdict, then the limits, then the conditions that distort times.

use crate::terminal::{self, bullet, labelled, wrapped};
use landau_host::noise::Noise;
use landau_host::{Answer, Condition, Counter, Effect, Process, Remedy, Report, Row, bytes, counted, grouped};
use std::fmt::Write;

pub(super) fn render(report: &Report, long: bool) -> String {
    let mut text = String::new();
    for answer in &report.answers {
        answered(&mut text, answer, report);
    }
    report.process.iter().for_each(|process| program(&mut text, process));
    limits(&mut text, report, long);
    conditions(&mut text, &report.conditions, long);
    report.noise.iter().for_each(|noise| interference(&mut text, noise));
    if let Some(measured) = &report.connection {
        let sentence = format!(
            "A connection takes {} bytes of kernel memory at each end ({} connections opened here, {}).",
            grouped(measured.bytes_each),
            grouped(measured.connections),
            measured.source
        );
        let _ = writeln!(text, "\n{}", wrapped(&sentence, 0));
    }
    if !report.unread.is_empty() {
        text.push_str("\nNot read:\n");
        report.unread.iter().for_each(|one| text.push_str(&bullet(&format!("{}: {}", one.what, one.why))));
    }
    if !long {
        text.push_str("\n--long shows each limit with its evidence, remedy and risk; --json all of it.\n");
    }
    text
}

/// Appends the answer to one demand: the sentence and, if the size does not fit, the remedy.
fn answered(text: &mut String, answer: &Answer, report: &Report) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{}", wrapped(&format!("{}.", answer.sentence), 0));
    let row = report.limits.iter().find(|row| Some(&row.limit) == answer.limit.as_ref());
    if let (Some(false), Some(row)) = (answer.fits, row) {
        labelled(text, "why", &row.evidence);
        labelled(text, "owner", &row.owner);
        remedy(text, &answer.remedy);
        answer.instead.iter().for_each(|instead| labelled(text, "instead", instead));
    }
    for warning in &answer.warnings {
        text.push_str(&bullet(warning));
    }
}

fn remedy(text: &mut String, remedy: &Remedy) {
    for (label, part) in [("now", &remedy.now), ("for good", &remedy.for_good), ("risk", &remedy.risk)] {
        if let Some(part) = part {
            labelled(text, label, part);
        }
    }
}

/// Returns a number with what it counts, or that it is unknown.
fn counted_if_known(number: Option<u64>, one: &str, more: &str) -> String {
    number.map_or(format!("unknown {more}"), |number| counted(number, one, more))
}

fn program(text: &mut String, process: &Process) {
    let sentence = format!(
        "Process {} ({}): {}, {}, {}, {}.",
        process.pid,
        process.program,
        counted(process.threads, "thread", "threads"),
        counted_if_known(process.descriptors, "descriptor", "descriptors"),
        counted_if_known(process.mappings, "mapping", "mappings"),
        counted_if_known(process.connections, "established connection", "established connections")
    );
    let _ = writeln!(text, "\n{}", wrapped(&sentence, 0));
    for listener in &process.listeners {
        let waiting = counted(listener.waiting, "connection waits", "connections wait");
        // The kernel refuses a connection only when the accept queue holds more than the backlog.
        let most = listener.backlog.map_or(String::new(), |most| format!(", at most {}", grouped(most + 1)));
        let dropped = listener.drops.filter(|&drops| drops > 0).map_or(String::new(), |drops| {
            format!("; {} dropped", counted(drops, "packet of a handshake", "packets of handshakes"))
        });
        let _ = writeln!(text, "    port {}: {waiting} for accept(){most}{dropped}", listener.port);
    }
}

/// Returns the counters that are not 0, as "`ListenDrops` 3".
fn moved(counters: &[Counter]) -> String {
    let moved = counters.iter().filter(|counter| counter.value > 0);
    moved.map(|counter| format!("{} {}", counter.name, grouped(counter.value))).collect::<Vec<_>>().join(", ")
}

/// Returns the mark of a row: × if its limit prevents the load asked for, ~ if it degrades it.
fn mark(row: &Row, answers: &[Answer]) -> &'static str {
    let exceeded = |effect: Effect| {
        row.bounds.iter().filter(|bound| bound.effect == effect).any(|bound| {
            let mut asked = answers.iter().filter(|answer| answer.kind == bound.kind).filter_map(|answer| answer.asked);
            asked.any(|asked| asked > bound.at_most)
        })
    };
    match (exceeded(Effect::Stops), exceeded(Effect::Bends)) {
        (true, _) => "×",
        (false, true) => "~",
        (false, false) => " ",
    }
}

/// Returns the tightest bound of a row in words.
fn at_most(row: &Row) -> String {
    let tightest = row.bounds.iter().min_by_key(|bound| bound.at_most);
    tightest.map_or("–".to_owned(), |bound| format!("{} {}", grouped(bound.at_most), bound.unit))
}

fn limits(text: &mut String, report: &Report, long: bool) {
    let shown: Vec<&Row> =
        report.limits.iter().filter(|row| long || !row.bounds.is_empty() || !moved(&row.counters).is_empty()).collect();
    let columns = usize::from(terminal::layout().width);
    // A cell longer than its share of the line does not widen the column; it shifts the rest of its own line.
    let width = |of: &dyn Fn(&Row) -> String, most: usize| {
        shown.iter().map(|row| of(row).chars().count()).filter(|&len| len <= most).max().unwrap_or(0)
    };
    let limit_width = width(&|row| row.limit.clone(), columns * 2 / 5).max(5);
    let most_width = width(&at_most, columns / 3).max(7);
    text.push_str("\nLimits, the tightest first (× prevents the load asked for, ~ degrades it):\n");
    let _ = writeln!(text, "  {:limit_width$}  {:most_width$}  VALUE", "LIMIT", "AT MOST");
    for row in shown {
        let format = if row.is_bytes { bytes } else { grouped };
        let used = row.in_use.map_or(String::new(), |used| format!(", {} in use", format(used)));
        let value = format!("{}{used}", row.value);
        let line = format!("{} {:limit_width$}  {:most_width$}", mark(row, &report.answers), row.limit, at_most(row));
        if line.chars().count() + 2 + value.chars().count() <= columns {
            let _ = writeln!(text, "{line}  {value}");
        } else {
            let _ = writeln!(text, "{}", line.trim_end());
            labelled(text, "value", &value);
        }
        let moved = moved(&row.counters);
        if !moved.is_empty() {
            labelled(text, "counted", &moved);
        }
        if long {
            labelled(text, "why", &row.evidence);
            labelled(text, "owner", &row.owner);
            remedy(text, &row.remedy);
        }
    }
}

fn conditions(text: &mut String, conditions: &[Condition], long: bool) {
    text.push_str("\nConditions (! affects times):\n");
    let width = conditions.iter().map(|one| one.name.chars().count()).max().unwrap_or(0);
    for one in conditions {
        let mark = if one.bends { "!" } else { " " };
        let line = format!("{}: {}", one.value, one.effect);
        let _ = writeln!(text, "{mark} {:width$}  {}", one.name, wrapped(&line, width + 4));
        if long {
            remedy(text, &one.remedy);
        }
    }
}

fn interference(text: &mut String, noise: &Noise) {
    let sentence = format!(
        "Interference now: in {:.0} ms, getppid() took {:.0} ns, ±{:.2}% from pass to pass. The smallest effect that \
         two full runs would detect is {:.1}%. The longest interruption took {} µs; all of them took {:.2}% of the \
         time.",
        noise.elapsed_ms,
        noise.canary_ns,
        noise.spread_percent,
        noise.smallest_effect_percent,
        grouped(noise.longest_gap_us.round() as u64),
        noise.taken_percent
    );
    let _ = writeln!(text, "\n{}", wrapped(&sentence, 0));
}
