//! The environment of the run, and the record: how to repeat the run, download the record and verify it.

use crate::page::{EmbeddedRecord, View};
use crate::quantity::{FormatCost, bytes, digits};
use crate::{unit_name, unit_of};
use landau_record::Record;
use landau_record::schema::{Host, Lab, Unit};
use maud::{Markup, html};
use std::collections::BTreeMap;

/// Renders the closing sections.
pub(crate) fn render(view: &View<'_>, embedded: &[EmbeddedRecord]) -> Markup {
    let are_named = view.sources.len() > 1;
    html! {
        section #host aria-labelledby="host-heading" {
            h2 #host-heading { "Environment" }
            @for (source, name) in view.sources.iter().zip(&view.names) {
                @if are_named { h3 { (name) } }
                (environment(source.analysis.record))
            }
        } "\n"
        section #record aria-labelledby="record-heading" {
            h2 #record-heading { "Record" }
            @for (index, (source, file)) in view.sources.iter().zip(embedded).enumerate() {
                @if are_named { h3 { (file.file_name) } }
                (record(source.analysis.record, index, file))
            }
        } "\n"
    }
}

fn environment(record: &Record) -> Markup {
    let host = &record.host;
    let lab = record.lab.as_ref().map(lab_rows).unwrap_or_default();
    let rows = lab.into_iter().chain(host_rows(record)).filter(|(_, value)| !value.is_empty());
    let limit = |value: u64| if value == u64::MAX { "unlimited".to_owned() } else { digits(value as f64) };
    html! {
        table.facts { tbody {
            @for (name, value) in rows { tr { th scope="row" { (name) } td { (value) } } }
        } }
        (fold("Resource limits of the workers", host.limits.iter().map(|(name, &value)| (name, limit(value)))))
        (fold("State of the host at the start", host.leftovers.iter().map(|(name, &value)| (name, digits(value)))))
        (fold("Kernel settings", texts(&host.sysctls)))
        (fold("CPU vulnerability mitigations", texts(&host.mitigations)))
    }
}

fn texts(map: &BTreeMap<String, String>) -> impl Iterator<Item = (&String, String)> {
    map.iter().map(|(name, value)| (name, value.clone()))
}

fn host_rows(record: &Record) -> Vec<(&'static str, String)> {
    let host = &record.host;
    let caches: Vec<String> =
        host.caches.iter().map(|cache| format!("L{} {}", cache.level, bytes(cache.bytes))).collect();
    vec![
        ("System", format!("{} {} {}", host.system, host.release, host.machine)),
        ("Build", host.version.clone()),
        ("Distribution", host.distribution.clone()),
        ("Processor", processor(host)),
        ("Caches", caches.join(", ")),
        (
            "Memory",
            format!("{}, {} available at the start", bytes(host.memory_bytes), bytes(host.memory_available_bytes)),
        ),
        ("Page size", bytes(host.page_bytes)),
        ("Virtualisation", host.virtualization.clone()),
        ("Clock", clock(record)),
        ("Privileges", host.privilege.clone()),
    ]
}

fn processor(host: &Host) -> String {
    let pinned =
        host.pinned_processor.map_or("workers not pinned".to_owned(), |cpu| format!("workers pinned to CPU {cpu}"));
    format!("{}, {} available, {pinned}", host.processor, host.processor_count)
}

fn clock(record: &Record) -> String {
    let (clock, unit) = (&record.host.clock, unit_of(record));
    let counts = if record.unit() == Unit::Ns { String::new() } else { format!(" (counts {})", unit_name(record)) };
    format!(
        "{}{counts}: overhead {} (never subtracted), resolution {}",
        clock.name,
        unit.cost(*clock.timer_overhead.values()),
        unit.cost(*clock.quantum.values())
    )
}

/// Returns the rows about the platform of the lab.
fn lab_rows(lab: &Lab) -> Vec<(&'static str, String)> {
    let kernel = lab.kernel.as_ref().map_or(String::new(), |kernel| {
        format!("{}: {} (SHA-256 {}), from {}", kernel.name, kernel.file, kernel.sha256, kernel.origin)
    });
    let emulator = lab.emulator.as_ref();
    let program = if lab.program_sha256.is_empty() { String::new() } else { format!("SHA-256 {}", lab.program_sha256) };
    vec![
        ("Lab platform", lab.platform.clone()),
        ("Kernel", kernel),
        ("Kernel command line", lab.command_line.clone()),
        ("Emulator", emulator.map_or(String::new(), |one| format!("{} {}", one.name, one.version))),
        ("Emulator arguments", emulator.map_or(String::new(), |one| one.arguments.join(" "))),
        ("Emulated processor", lab.processor.clone()),
        ("Emulated memory", lab.memory_mib.map_or(String::new(), |mib| format!("{mib} MiB"))),
        ("Program", program),
    ]
}

/// Renders a table that is closed at first; nothing without rows.
fn fold<'a>(title: &str, rows: impl Iterator<Item = (&'a String, String)>) -> Markup {
    let mut rows = rows.peekable();
    html! {
        @if rows.peek().is_some() {
            details {
                summary { (title) }
                table.facts { tbody {
                    @for (name, value) in rows { tr { th scope="row" { code { (name) } } td { (value) } } }
                } }
            } "\n"
        }
    }
}

/// Returns the command that repeats a run on any host, with its seed if the command takes one.
fn repeating(command: &[String], seed: u64) -> String {
    let mut words: Vec<String> = command.iter().map(|word| quote(word)).collect();
    if words.len() == 1 {
        // The default command is the quick study. `run` is the same, but also takes a seed.
        words.push("run".to_owned());
    }
    if takes_seed(command) && !command.iter().any(|word| word == "--seed" || word.starts_with("--seed=")) {
        words.extend(["--seed".to_owned(), seed.to_string()]);
    }
    words.join(" ")
}

/// Returns whether a command takes a seed at its end. The run of `tune try` follows `--`. Other commands choose their
/// own seed.
fn takes_seed(command: &[String]) -> bool {
    let word = |index: usize| command.get(index).map(String::as_str);
    match (word(1), word(2)) {
        (None | Some("run" | "load"), _) | (Some("lab"), Some("run")) => true,
        (Some("tune"), Some("try")) => command.iter().any(|word| word == "--"),
        _ => false,
    }
}

fn record(record: &Record, index: usize, file: &EmbeddedRecord) -> Markup {
    let header = &record.header;
    let name = &file.file_name;
    html! {
        p {
            "This run began at " (header.started) " (landau " (header.landau) ", --study " (header.study) "). "
            @match (&record.end, &record.torn) {
                (Some(end), _) => { "Outcome of the run: " (end.outcome.name()) "." }
                (None, Some(_)) => { "It was killed while writing; everything before the truncated line is valid." }
                (None, None) => { "It was killed; everything written until then is valid." }
            }
        } "\n"
        p { "To repeat it:" }
        pre { code { (repeating(&header.command, header.seed)) } } "\n"
        p.take {
            @if file.content.is_some() {
                button.download type="button" data-record={ "record-" (index) } { "Download the record" }
                " " span { (name) ", " (bytes(file.size as u64)) ", embedded in this page" }
            } @else {
                a.download href=(name) download { (name) }
                " " span { (bytes(file.size as u64)) ", too large to embed; it is in the same folder as this page" }
            }
        } "\n"
        p { "SHA-256 " code.sum id={ "sum-" (index) } { (file.sha256) } } "\n"
        @if !record.notes.is_empty() {
            p { "Notes of the run:" }
            ul { @for note in &record.notes { li { (note) } } }
        }
        p { "To recompute every result on this page from the record's samples:" }
        pre { code { "landau verify " (quote(name)) } } "\n"
    }
}

/// Quotes a word for a shell if necessary.
fn quote(word: &str) -> String {
    let is_plain = !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c));
    if is_plain { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::{quote, repeating};

    #[test]
    fn the_repeating_command_is_valid_and_has_a_seed() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(repeating(&words("target/release/landau"), 7), "target/release/landau run --seed 7");
        assert_eq!(repeating(&words("landau run bind"), 7), "landau run bind --seed 7");
        assert_eq!(repeating(&words("landau explain bind"), 1), "landau explain bind");
        assert_eq!(repeating(&words("landau run --seed=5"), 5), "landau run --seed=5");
        assert_eq!(repeating(&words("landau lab run -k debian:6.1"), 7), "landau lab run -k debian:6.1 --seed 7");
        let (test, tried) = ("landau lab test --claim x k", "landau tune try idle -- run connect");
        assert_eq!(repeating(&words(test), 7), test);
        assert_eq!(repeating(&words(tried), 7), format!("{tried} --seed 7"));
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(
            [quote("a b"), quote("it's"), quote(""), quote("--set=x.y=1")],
            ["'a b'", "'it'\\''s'", "''", "--set=x.y=1"]
        );
    }
}
