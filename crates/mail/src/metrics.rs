//! `/metrics` for Prometheus, served by a separate thread. The engine writes the page while it runs; the thread only
//! sends it.

use crate::engine::Progress;
use crate::error::{Error, Result};
use crate::sink::Listen;
use crate::sink::page::{self, PROMETHEUS, Page, Serving};
use crate::stats::Stats;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

/// The number of reasons on the page.
const REASONS: usize = 20;

/// The endpoint. It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Exporter {
    page: Arc<Mutex<String>>,
    #[cfg_attr(not(test), expect(dead_code, reason = "it serves until it is dropped"))]
    serving: Serving,
}

impl Exporter {
    /// Serves the page at an address.
    pub(crate) fn start(listen: Listen) -> Result<Self> {
        let page = Arc::<Mutex<String>>::default();
        let served = Arc::clone(&page);
        let serving = page::serve(listen, "metrics", move |path| {
            let text = || served.lock().unwrap_or_else(PoisonError::into_inner).clone();
            (path == b"/metrics").then(|| Page { kind: PROMETHEUS, text: text() })
        });
        Ok(Self { page, serving: serving.map_err(Error::Metrics)? })
    }

    /// Replaces the page, if no client is being answered.
    pub(crate) fn update(&self, page: impl FnOnce() -> String) {
        if let Ok(mut held) = self.page.try_lock() {
            *held = page();
        }
    }
}

/// Returns the page (text format of Prometheus, version 0.0.4).
pub(crate) fn page(progress: &Progress, stats: &Stats) -> String {
    let mut out = String::new();
    let tally = progress.recipients;
    let states = [("done", tally.done), ("deferred", tally.deferred), ("failed", tally.failed), ("left", tally.left)];
    describe(&mut out, "recipients", "gauge", "Recipients that were read, by state.");
    for (state, value) in states {
        line(&mut out, "recipients", &[("state", state)], value as f64);
    }
    for (name, kind, about, value) in [
        ("active_recipients", "gauge", "Recipients in memory.", progress.active),
        ("connections", "gauge", "Connections, including those being established.", u64::from(progress.open)),
        ("connections_total", "counter", "Connections that were greeted.", stats.connections),
        ("encrypted_connections_total", "counter", "Connections that were encrypted.", stats.encrypted),
        ("attempts_total", "counter", "Delivery attempts.", stats.attempts),
        ("sent_bytes_total", "counter", "Bytes sent.", stats.sent_bytes),
        ("bounces_total", "counter", "Reports about failed recipients.", stats.bounces),
    ] {
        describe(&mut out, name, kind, about);
        line(&mut out, name, &[], value as f64);
    }
    describe(&mut out, "phase_seconds", "summary", "Durations of the phases of connections and transactions.");
    for (phase, times) in stats.phases.all().into_iter().filter(|(_, times)| times.count() > 0) {
        for (label, share) in [("0.5", 0.5), ("0.9", 0.9), ("0.99", 0.99), ("1", 1.0)] {
            let seconds = times.quantile_ns(share) as f64 / 1e9;
            line(&mut out, "phase_seconds", &[("phase", phase), ("quantile", label)], seconds);
        }
        line(&mut out, "phase_seconds_count", &[("phase", phase)], times.count() as f64);
    }
    for (name, about, reasons) in [
        ("refusals_total", "Deferrals and failures of recipients, by reason (the most frequent only).", &stats.reasons),
        ("lost_connections_total", "Connections refused or lost, by reason (the most frequent only).", &stats.lost),
    ] {
        describe(&mut out, name, "counter", about);
        for (reason, count) in reasons.sorted().into_iter().take(REASONS) {
            line(&mut out, name, &[("reason", &reason)], count as f64);
        }
    }
    out
}

fn describe(out: &mut String, name: &str, kind: &str, about: &str) {
    // Writing to a string cannot fail.
    let _ = write!(out, "# HELP landau_mail_{name} {about}\n# TYPE landau_mail_{name} {kind}\n");
}

fn line(out: &mut String, name: &str, labels: &[(&str, &str)], value: f64) {
    let _ = write!(out, "landau_mail_{name}");
    for (index, (label, text)) in labels.iter().enumerate() {
        let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace(['\n', '\r'], " ");
        let _ = write!(out, "{}{label}=\"{escaped}\"", if index == 0 { '{' } else { ',' });
    }
    let _ = writeln!(out, "{} {value}", if labels.is_empty() { "" } else { "}" });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpStream;

    #[test]
    fn the_page_has_what_was_counted() {
        let mut stats = Stats { connections: 3, ..Stats::default() };
        stats.phases.connected(2_000_000_000);
        stats.reasons.count("450 \"busy\" \\ later");
        let mut progress = Progress::default();
        progress.recipients.done = 12;
        let page = page(&progress, &stats);
        for text in [
            "# TYPE landau_mail_recipients gauge\nlandau_mail_recipients{state=\"done\"} 12\n",
            "landau_mail_connections_total 3\n",
            "landau_mail_phase_seconds_count{phase=\"connect\"} 1\n",
            "landau_mail_refusals_total{reason=\"450 \\\"busy\\\" \\\\ later\"} 1\n",
        ] {
            assert!(page.contains(text), "{text} in {page}");
        }
        assert!(page.lines().all(|line| line.starts_with("# ") || line.starts_with("landau_mail_")), "{page}");
    }

    #[test]
    fn the_page_is_served_until_the_end() {
        let exporter = Exporter::start("127.0.0.1:0".parse().unwrap()).unwrap();
        exporter.update(|| "a 1\n".to_owned());
        let address = exporter.serving.address.to_string();
        let get = |request: &str| {
            let mut stream = TcpStream::connect(&address).unwrap();
            std::io::Write::write_all(&mut stream, format!("{request} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())
                .unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        };
        assert!(get("GET /metrics").ends_with("\r\n\r\na 1\n") && get("GET /metrics?x").ends_with("a 1\n"));
        assert!(get("HEAD /metrics").ends_with("\r\n\r\n"));
        assert!(get("GET /").starts_with("HTTP/1.1 404 ") && get("DELETE /metrics").starts_with("HTTP/1.1 405 "));
        assert!(matches!(Exporter::start(address.parse().unwrap()), Err(Error::Metrics(_))), "the address is taken");
    }
}
