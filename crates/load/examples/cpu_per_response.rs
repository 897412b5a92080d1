//! Prints the generator's CPU time per response in a closed loop, without the rest of the program. It is meant for
//! profiling, and for comparison with other generators.
//!
//! `cpu_per_response URL CONNECTIONS SECONDS [CPU]`
#![allow(clippy::print_stdout, reason = "an example prints")]

use landau_load::plan::Arrivals;
use landau_load::{Job, Launch, LoadSpec};
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [url, connections, seconds, rest @ ..] = words.as_slice() else {
        return Err("cpu_per_response URL CONNECTIONS SECONDS [CPU]".into());
    };
    let cpus = rest.iter().map(|word| word.parse()).collect::<Result<_, _>>()?;
    let spec = LoadSpec {
        urls: vec![url.clone()],
        allowed_hosts: Vec::new(),
        method: "GET".to_owned(),
        headers: Vec::new(),
        replay: None,
        insecure: false,
        ca_file: None,
        connections: connections.parse()?,
        pipeline: 1,
        http2: false,
        per_connection: None,
        rate: None,
        arrivals: Arrivals::Constant,
        idle: None,
        duration: Some(Duration::from_secs_f64(seconds.parse()?)),
        request_count: None,
        warm_up: Duration::ZERO,
        timeout: Duration::from_secs(10),
        connect_rate: None,
        workers: None,
        cpus,
        sources: Vec::new(),
        seed: 1,
        backend: std::env::var("BACKEND").unwrap_or_else(|_| landau_load::default_backend()),
        waived: Vec::new(),
    };
    let outcome = landau_load::run(&Job::resolve(&spec)?, &Launch::Thread, &mut (), &|| false)?;
    let each = outcome.cpu_ns_per_response().unwrap_or(0.0) / 1e3;
    println!(
        "{} responses, {:.0} responses/s, {each:.2} µs of CPU time per response",
        outcome.metrics.responses,
        outcome.responses_per_second()
    );
    Ok(())
}
