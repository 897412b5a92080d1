//! The machine, the clock, the command that repeats the run, and the record to take along.

use crate::page::{Parcel, View, escape};
use crate::quantity::{bytes, digits};
use crate::{unit_name, unit_of};
use landau_record::Record;
use landau_record::schema::{Lab, Unit};
use std::fmt::Write;

/// The closing sections.
pub(crate) fn render(view: &View<'_>, parcels: &[Parcel]) -> String {
    let mut html = String::from(
        "<section id=\"host\" aria-labelledby=\"host-heading\"><h2 id=\"host-heading\">The machine</h2>\n",
    );
    for (source, name) in view.sources.iter().zip(&view.names) {
        if view.sources.len() > 1 {
            let _ = write!(html, "<h3>{}</h3>", escape(name));
        }
        html.push_str(&machine(source.analysis.record));
    }
    html.push_str(
        "</section>\n<section id=\"repeat\" aria-labelledby=\"repeat-heading\"><h2 \
     id=\"repeat-heading\">Repeat, verify, take along</h2>\n",
    );
    for (index, (source, parcel)) in view.sources.iter().zip(parcels).enumerate() {
        html.push_str(&repeat(source.analysis.record, index, parcel, view.sources.len() > 1));
    }
    html.push_str("</section>\n");
    html
}

fn machine(record: &Record) -> String {
    let host = &record.host;
    let caches: Vec<String> =
        host.caches.iter().map(|cache| format!("L{} {}", cache.level, bytes(cache.bytes))).collect();
    let clock = &host.clock;
    let pinned =
        host.pinned_processor.map_or("not pinned".to_owned(), |cpu| format!("workers pinned to processor {cpu}"));
    let rows = [
        ("System", format!("{} {} {}", host.system, host.release, host.machine)),
        ("Build", host.version.clone()),
        ("Distribution", host.distribution.clone()),
        ("Processor", format!("{} · {} to run on · {pinned}", host.processor, host.processor_count)),
        ("Caches", caches.join(", ")),
        (
            "Memory",
            format!("{}, {} available at the start", bytes(host.memory_bytes), bytes(host.memory_available_bytes)),
        ),
        ("Page", bytes(host.page_bytes)),
        ("Virtualisation", host.virtualization.clone()),
        (
            "Clock",
            format!(
                "{}{}: an empty lap takes {} (never subtracted), its smallest step is {}",
                clock.name,
                if record.unit() == Unit::Ns { String::new() } else { format!(" (counts {})", unit_name(record)) },
                unit_of(record).cost(*clock.timer_overhead.values()),
                unit_of(record).cost(*clock.quantum.values())
            ),
        ),
        ("Rights", host.privilege.clone()),
    ];
    let lab = record.lab.as_ref().map(lab_rows).unwrap_or_default();
    let mut html = String::from("<table class=\"facts\"><tbody>");
    for (name, value) in lab.iter().chain(&rows).filter(|(_, value)| !value.is_empty()) {
        let _ = write!(html, "<tr><th scope=\"row\">{name}</th><td>{}</td></tr>", escape(value));
    }
    html.push_str("</tbody></table>\n");
    let limits = host.limits.iter().map(|(name, &value)| {
        (name.clone(), if value == u64::MAX { "unlimited".to_owned() } else { digits(value as f64) })
    });
    let leftovers = host.leftovers.iter().map(|(name, &value)| (name.clone(), digits(value)));
    let plain = |map: &std::collections::BTreeMap<String, String>| map.clone().into_iter().collect::<Vec<_>>();
    html.push_str(&fold("Limits of the workers", &limits.collect::<Vec<_>>()));
    html.push_str(&fold("What lay about at the start", &leftovers.collect::<Vec<_>>()));
    html.push_str(&fold("Settings of the kernel", &plain(&host.sysctls)));
    html.push_str(&fold("Mitigations of the processor", &plain(&host.mitigations)));
    html
}

/// The machine that the lab made.
fn lab_rows(lab: &Lab) -> Vec<(&'static str, String)> {
    let kernel = lab.kernel.as_ref().map_or(String::new(), |kernel| {
        format!("{}: {} (sha256 {}), from {}", kernel.name, kernel.file, kernel.sha256, kernel.origin)
    });
    let emulator = lab.emulator.as_ref();
    vec![
        ("Engine of the lab", lab.platform.clone()),
        ("Kernel", kernel),
        ("Its command line", lab.command_line.clone()),
        ("Emulator", emulator.map_or(String::new(), |one| format!("{} {}", one.name, one.version))),
        ("Its arguments", emulator.map_or(String::new(), |one| one.arguments.join(" "))),
        ("Processor model", lab.processor.clone()),
        ("Its memory", lab.memory_mib.map_or(String::new(), |mib| format!("{mib} MiB"))),
        (
            "Program",
            if lab.program_sha256.is_empty() { String::new() } else { format!("sha256 {}", lab.program_sha256) },
        ),
    ]
}

fn fold(title: &str, rows: &[(String, String)]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let rows: String = rows
        .iter()
        .map(|(name, value)| {
            format!("<tr><th scope=\"row\"><code>{}</code></th><td>{}</td></tr>", escape(name), escape(value))
        })
        .collect();
    format!("<details><summary>{title}</summary><table class=\"facts\"><tbody>{rows}</tbody></table></details>\n")
}

/// What a user types to make the same run once more: of the same seed, on whatever host that is then.
fn again(command: &[String], seed: u64) -> String {
    let mut words: Vec<String> = command.iter().map(|word| quote(word)).collect();
    if words.len() == 1 {
        // Without a word it is the quick study, which `run` does too, and takes a seed besides.
        words.push("run".to_owned());
    }
    if !command.iter().any(|word| word == "--seed" || word.starts_with("--seed=")) {
        words.extend(["--seed".to_owned(), seed.to_string()]);
    }
    words.join(" ")
}

fn repeat(record: &Record, index: usize, parcel: &Parcel, is_named: bool) -> String {
    let name = escape(&parcel.file_name);
    let heading = if is_named { format!("<h3>{name}</h3>") } else { String::new() };
    let place = if parcel.packed.is_some() {
        format!(
            "<button type=\"button\" class=\"download\" data-record=\"record-{index}\">Download the record</button> \
             <span>{name}, {}, inside this page</span>",
            bytes(parcel.size as u64)
        )
    } else {
        format!(
            "<a class=\"download\" href=\"{name}\" download>{name}</a> <span>{}, too large for this page: it lies \
             beside it</span>",
            bytes(parcel.size as u64)
        )
    };
    let notes: String = record.notes.iter().map(|note| format!("<li>{}</li>", escape(note))).collect();
    let notes = if notes.is_empty() { String::new() } else { format!("<p>Remarks of the run:</p><ul>{notes}</ul>") };
    let ending = match (&record.end, &record.torn) {
        (Some(end), _) => format!("The run ended: {}.", escape(&end.outcome)),
        (None, Some(_)) => "The run was killed while it wrote; all but the torn last line counts.".to_owned(),
        (None, None) => "The run was killed; what it had written by then counts.".to_owned(),
    };
    format!(
        "{heading}<p>This run began {} (landau {}, study {}). {ending}</p>\n<p>The command that repeats \
         it:</p><pre><code>{}</code></pre>\n\
         <p class=\"take\">{place}</p>\n<p>sha256 <code class=\"sum\" id=\"sum-{index}\">{}</code></p>\n{notes}\
         <p>Every figure here can be computed again from the samples in it:</p><pre><code>landau verify \
         {}</code></pre>\n",
        escape(&record.header.started),
        escape(&record.header.landau),
        escape(&record.header.study),
        escape(&again(&record.header.command, record.header.seed)),
        parcel.sha256,
        escape(&quote(&parcel.file_name)),
    )
}

/// A word as a shell takes it.
fn quote(word: &str) -> String {
    let is_plain = !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c));
    if is_plain { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::{again, quote};

    #[test]
    fn the_command_that_repeats_a_run_is_one_that_landau_takes() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(again(&words("target/release/landau"), 7), "target/release/landau run --seed 7");
        assert_eq!(again(&words("landau run bind"), 7), "landau run bind --seed 7");
        assert_eq!(again(&words("landau run --seed=5"), 5), "landau run --seed=5");
    }

    #[test]
    fn words_survive_a_shell() {
        assert_eq!(
            [quote("a b"), quote("it's"), quote(""), quote("--set=x.y=1")],
            ["'a b'", "'it'\\''s'", "''", "--set=x.y=1"]
        );
    }
}
