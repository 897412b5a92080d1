//! Validation of a load specification: contradictions, and values beyond what can be measured.

use crate::error::{Error, Result};
use crate::spec::LoadSpec;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Requests, or connections, per second: from one in a quarter of an hour to more than any machine can send.
const RATES: RangeInclusive<f64> = 0.001..=1e7;

/// The longest duration in hours: thirty days.
const LONGEST_H: u64 = 720;

/// The longest latency that the histograms can represent.
const LONGEST_LATENCY: Duration = Duration::from_secs(100);

/// Returns an error for a specification that no host can meet.
pub(crate) fn check(spec: &LoadSpec) -> Result<()> {
    request(spec)?;
    http2(spec)?;
    rates(spec)?;
    times(spec)?;
    cpus(&spec.cpus)
}

fn invalid(reason: impl Into<String>) -> Result<()> {
    Err(Error::Plan(reason.into()))
}

fn request(spec: &LoadSpec) -> Result<()> {
    let is_token = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
    };
    if spec.urls.is_empty() {
        return invalid("the URL is missing");
    }
    if !is_token(&spec.method) || spec.method == "CONNECT" {
        return invalid(format!("--method {}: not a supported HTTP method", spec.method));
    }
    for header in &spec.headers {
        let name = header.split_once(':').map(|(name, _)| name).filter(|name| is_token(name));
        if name.is_none() || header.bytes().any(|byte| byte == b'\r' || byte == b'\n' || byte == 0) {
            return invalid(format!("--header {header:?}: not a header field; write -H 'Name: value'"));
        }
    }
    Ok(())
}

/// Connection-specific fields of HTTP/1.1 (RFC 9113 section 8.2.2).
const OF_CONNECTION: [&str; 5] = ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

fn http2(spec: &LoadSpec) -> Result<()> {
    if !spec.http2 {
        return Ok(());
    }
    if spec.idle.is_some() {
        return invalid("--http2 cannot be combined with --idle, whose connections use HTTP/1.1; omit one of the two");
    }
    let is_of_connection = |header: &&String| {
        let name = header.split(':').next().unwrap_or_default().to_ascii_lowercase();
        OF_CONNECTION.contains(&&*name)
    };
    match spec.headers.iter().find(is_of_connection) {
        Some(header) => invalid(format!("--header {header:?}: HTTP/2 does not allow this field; omit it")),
        None => Ok(()),
    }
}

fn rates(spec: &LoadSpec) -> Result<()> {
    for (option, rate, what) in
        [("--rate", spec.rate, "requests"), ("--connect-rate", spec.connect_rate, "connections")]
    {
        if let Some(rate) = rate.filter(|rate| !RATES.contains(rate)) {
            let (least, most) = (RATES.start(), RATES.end());
            return invalid(format!("{option} {rate:?}: must be from {least} to {most} {what} per second"));
        }
    }
    if spec.rate.is_some() && spec.pipeline > 1 && !spec.http2 {
        return invalid(
            "--pipeline requires a closed loop: an open loop (--rate) sends each request on a free connection",
        );
    }
    Ok(())
}

fn times(spec: &LoadSpec) -> Result<()> {
    if spec.timeout > LONGEST_LATENCY || spec.timeout.is_zero() {
        return invalid("--timeout must be above 0 and at most 100s, the longest latency of a histogram");
    }
    let longest = Duration::from_secs(LONGEST_H * 3600);
    if spec.duration.is_some_and(|time| time.is_zero() || time > longest) {
        return invalid(format!("--duration must be above 0 and at most {LONGEST_H}h"));
    }
    let settle = spec.idle.as_ref().map(|idle| idle.settle);
    for (option, time) in [("--warm-up", Some(spec.warm_up)), ("--settle", settle)] {
        if time.is_some_and(|time| time > longest) {
            return invalid(format!("{option} must be at most {LONGEST_H}h"));
        }
    }
    if spec.duration.is_none() && spec.request_count.is_none() && spec.idle.is_none() {
        return invalid("the run has no end: add --duration or --requests");
    }
    Ok(())
}

fn cpus(wanted: &[u32]) -> Result<()> {
    let allowed = landau_sys::system::processors();
    let Some(one) = wanted.iter().find(|one| !allowed.contains(one)) else { return Ok(()) };
    let list: Vec<String> = allowed.iter().map(ToString::to_string).collect();
    invalid(format!("--pin {one}: this process may not run on CPU {one}; choose from {}", list.join(", ")))
}
