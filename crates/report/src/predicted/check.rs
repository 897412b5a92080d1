//! The sum of a server's calls, compared with the processor time that it used.
//!
//! `connect` and `request` start a server and read its processor time at both ends of a pass. The system calls that it
//! makes for each step are known. Their sum over the n of a pass should equal the time that it used.

use super::{CALLS, curve, sum::parse};
use crate::divided::listed;
use crate::{Analysis, CaseStudy};
use landau_record::schema::{Case, Fact};
use landau_stats::Estimate;
use serde::Serialize;

/// A server, compared with the sum of its calls.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Checked {
    /// The record, from 0.
    pub record: usize,
    /// The label of the case.
    pub case: String,
    /// The server.
    pub server: String,
    /// The calls of one step.
    pub sum: String,
    /// The sum of their costs, averaged over the n of a pass, ns.
    pub predicted_ns: f64,
    /// The processor time of the server per step: the mean over the passes with its range, ns.
    pub used_ns: Estimate,
    /// `used_ns` over `predicted_ns`.
    pub ratio: f64,
    /// Whether they differ by more than a fifth of the time used.
    pub misses: bool,
}

/// A prediction misses if it differs from the time used by more than this share of it.
const TOLERATED: f64 = 0.2;

/// The calls of a server that accepts a connection.
const ACCEPTS: &str = "accept+epoll_ctl+epoll_wait";

/// The calls for a request, as strace shows them for `landau serve` (a small file, from its cache), and for nginx 1.22
/// with `sendfile on`. nginx's fstat is left out, because no benchmark measures it.
const REQUESTS: &[(&str, &str)] =
    &[("landau", "epoll_wait+recv+send"), ("nginx", "epoll_wait+recv+open+send_header+sendfile+open.close")];

/// The calls among these that send the file, so that their cost depends on its size.
const SENDS: &[&str] = &["send", "sendfile"];

/// Returns the servers whose calls are known and measured, and sentences about the others, with the reason why they are
/// not compared.
pub(super) fn servers(analyses: &[Analysis<'_>]) -> (Vec<Checked>, Vec<String>) {
    let mut servers = Vec::new();
    // Reasons, and the labels of their cases.
    let mut left_out: Vec<(String, Vec<String>)> = Vec::new();
    for (record, analysis) in analyses.iter().enumerate() {
        for study in &analysis.cases {
            match server(record, study, analyses) {
                Some(Ok(checked)) => servers.push(checked),
                Some(Err(why)) => {
                    let label = study.case.label.clone();
                    match left_out.iter_mut().find(|(other, _)| *other == why) {
                        Some((_, labels)) if labels.contains(&label) => {}
                        Some((_, labels)) => labels.push(label),
                        None => left_out.push((why, vec![label])),
                    }
                }
                None => {}
            }
        }
    }
    let sentence = |(why, labels): (String, Vec<String>)| {
        let verb = if labels.len() == 1 { "is" } else { "are" };
        format!("{} {verb} not compared: {why}.", listed(&labels))
    };
    (servers, left_out.into_iter().map(sentence).collect())
}

/// Returns `None` for a case without a server, or the reason why its server is not compared.
fn server(record: usize, study: &CaseStudy<'_>, analyses: &[Analysis<'_>]) -> Option<Result<Checked, String>> {
    match study.case.benchmark.as_str() {
        "connect" => Some(compared(record, study, 1, analyses)),
        // The new connection has one response before the timed one.
        "request" => Some(compared(record, study, 2, analyses)),
        _ => None,
    }
}

/// Compares the server of a case, which answers `requests` requests per step, or returns why it cannot be compared.
fn compared(record: usize, study: &CaseStudy<'_>, requests: u32, analyses: &[Analysis<'_>]) -> Result<Checked, String> {
    let case = study.case;
    let (server, calls) = known(case)?;
    let facts = study.facts.get("server_processor_time_per_step").into_iter().flatten();
    let used: Vec<f64> = facts.filter_map(|fact| ns(fact)).collect();
    if used.is_empty() {
        return Err("the record has no processor time of the server".to_owned());
    }
    let mean = used.iter().sum::<f64>() / used.len() as f64;
    let range = used.iter().fold((mean, mean), |(low, high), x| (low.min(*x), high.max(*x)));
    let sum = sum_of(case, calls, requests, analyses)?;
    let predicted_ns = averaged(&sum, f64::from(study.largest_n()), analyses)?;
    Ok(Checked {
        record,
        case: case.label.clone(),
        server: server.to_owned(),
        sum,
        predicted_ns,
        used_ns: Estimate { value: mean, low: range.0, high: range.1 },
        ratio: mean / predicted_ns,
        misses: (mean - predicted_ns).abs() > TOLERATED * mean,
    })
}

/// Returns the server of a case and its calls per request, or why they are not known.
fn known(case: &Case) -> Result<(&'static str, &'static str), String> {
    let setting = |name: &str| case.settings.get(name).map_or("none", String::as_str);
    if setting("url") != "none" || setting("command") != "none" {
        return Err("the calls of a server specified by url or command are not known".to_owned());
    }
    let Some(&(server, calls)) = REQUESTS.iter().find(|(name, _)| *name == setting("server")) else {
        let names: Vec<String> = REQUESTS.iter().map(|(name, _)| (*name).to_owned()).collect();
        return Err(format!("only the calls of {} are known", listed(&names)));
    };
    if server == "landau" && setting("backend") != "epoll" {
        return Err("the calls of landau are known with backend=epoll only".to_owned());
    }
    Ok((server, calls))
}

/// Returns the sum of the calls per step, or why it is not known.
fn sum_of(case: &Case, calls: &str, requests: u32, analyses: &[Analysis<'_>]) -> Result<String, String> {
    if case.settings.get("connections").is_some_and(|kept| kept == "silent") {
        return Err(
            "with connections=silent each step also closes the timed connection and accepts a silent one in its place, \
             and no sum includes these calls"
                .to_owned(),
        );
    }
    let term = |call: &str| {
        let name = if SENDS.contains(&call) { of_size(call, case, analyses)? } else { call.to_owned() };
        Ok(format!("{requests}*{name}"))
    };
    let of_requests = calls.split('+').map(term).collect::<Result<Vec<_>, String>>()?;
    Ok(format!("{ACCEPTS}+{}", of_requests.join("+")).replace("+1*", "+"))
}

/// Returns the name of the curve of a call that sends as many bytes as the file of a case has: the curve that the
/// call's name selects, or that of a case with such a response.
fn of_size(call: &str, case: &Case, analyses: &[Analysis<'_>]) -> Result<String, String> {
    let file = case.settings.get("file");
    let (_, (study, _)) = curve(call, analyses)?;
    let response = study.case.settings.get("response");
    if response == file {
        return Ok(call.to_owned());
    }
    let name = |setting: Option<&String>| setting.map_or("of unknown size", String::as_str).to_owned();
    let (file, response) = (name(file), name(response));
    let other = format!("{CALLS}.response={file}.{call}");
    match curve(&other, analyses) {
        Ok(_) => Ok(other),
        Err(_) => Err(format!(
            "the file is {file}, and {call} was measured with {response} only (--set {CALLS}.response, up to 64KiB)"
        )),
    }
}

fn ns(fact: &Fact) -> Option<f64> {
    match fact {
        Fact::Number { value, .. } => Some(*value),
        Fact::Text(_) => None,
    }
}

/// The number of values of n over which a sum is averaged.
const PLACES: usize = 32;

/// Returns the mean cost of a sum from 1 to `last` objects.
fn averaged(sum: &str, last: f64, analyses: &[Analysis<'_>]) -> Result<f64, String> {
    let mut total = 0.0;
    for term in parse(sum)? {
        let (_, (_, phase)) = curve(&term.name, analyses)?;
        let measured_to = super::reached(&phase.curve, phase.verdict.all.unit);
        for place in 0..PLACES {
            let n = (last * (place as f64 + 0.5) / PLACES as f64).max(1.0);
            let at = super::at(&phase.verdict.all, measured_to, n).map_err(|why| format!("{}: {why}", term.name))?;
            total += term.times * at.cost.value / PLACES as f64;
        }
    }
    Ok(total)
}
