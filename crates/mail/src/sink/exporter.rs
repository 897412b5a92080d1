//! The counters over HTTP: `/metrics` for Prometheus, every other path as JSON.

use super::counters::Reading;
use super::page::{self, PROMETHEUS, Page, Serving};
use super::{Error, Listen};
use std::fmt::Write;

/// A running endpoint. It ends with the process, or when this is dropped.
#[derive(Debug)]
pub struct Exporting {
    /// Where it listens.
    pub address: Listen,
    _serving: Serving,
}

/// Serves counters at an address, in a separate thread.
pub fn export(listen: Listen, source: impl Fn() -> Vec<Reading> + Send + 'static) -> Result<Exporting, Error> {
    let serving = page::serve(listen, "counters", move |path| {
        let readings = source();
        Some(match path {
            b"/metrics" => Page { kind: PROMETHEUS, text: prometheus(&readings) },
            _ => Page { kind: "application/json", text: json(&readings) },
        })
    })?;
    Ok(Exporting { address: serving.address, _serving: serving })
}

/// Returns counters in the text format of Prometheus.
fn prometheus(readings: &[Reading]) -> String {
    let mut text = String::new();
    for Reading { name, about, value, is_gauge } in readings {
        let (kind, total) = if *is_gauge { ("gauge", "") } else { ("counter", "_total") };
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "# HELP landau_{name}{total} {about}\n# TYPE landau_{name}{total} {kind}\nlandau_{name}{total} {value}\n"
        );
    }
    text
}

fn json(readings: &[Reading]) -> String {
    let pairs = readings.iter().map(|one| (one.name.to_owned(), one.value.into()));
    let mut text = serde_json::Value::Object(pairs.collect()).to_string();
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    #[test]
    fn counters_are_served_in_both_forms() {
        let reading = |name, value, is_gauge| Reading { name, about: "what it counts", value, is_gauge };
        let source = move || vec![reading("recipients_deferred", 7, false), reading("messages_held", 3, true)];
        let exporting = export("127.0.0.1:0".parse().unwrap(), source).unwrap();
        let get = |request: &str| {
            let mut stream = TcpStream::connect(exporting.address.to_string()).unwrap();
            stream.write_all(format!("{request} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        };
        let metrics = get("GET /metrics");
        assert!(metrics.contains("\r\nContent-Type: text/plain; version=0.0.4"), "{metrics}");
        let counter = "# TYPE landau_recipients_deferred_total counter\nlandau_recipients_deferred_total 7\n";
        assert!(metrics.contains(counter), "{metrics}");
        assert!(metrics.ends_with("# TYPE landau_messages_held gauge\nlandau_messages_held 3\n"), "{metrics}");
        assert!(get("GET /").ends_with("\r\n\r\n{\"messages_held\":3,\"recipients_deferred\":7}\n"));
        assert!(get("HEAD /metrics").ends_with("\r\n\r\n"));
        assert!(get("DELETE /").starts_with("HTTP/1.1 405 "));
    }
}
