//! The sum of a server's calls against the processor time that it used.
//!
//! `connect` and `request` start a server and read its processor time at both ends of a pass. What it makes for each
//! step is known from its system calls; their sum over the n of a pass should be what it used.

use super::{curve, sum::parse};
use crate::{Analysis, CaseStudy};
use landau_record::schema::Fact;
use landau_stats::Estimate;
use serde::Serialize;

/// A server beside the sum of its calls.
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
    /// The processor time of the server for a step: the mean over the passes with its range, ns.
    pub used_ns: Estimate,
    /// `used_ns` over `predicted_ns`.
    pub ratio: f64,
    /// Whether they differ by more than a fifth of what was used.
    pub misses: bool,
}

/// A prediction that differs by more than this share of what was used misses.
const TOLERATED: f64 = 0.2;

/// The calls of a server that accepts a connection.
const ACCEPTS: &str = "accept+epoll_ctl+epoll_wait";

/// The calls for a request, as strace shows them of `landau serve` (a small file, from its cache), and of nginx 1.22
/// with `sendfile on`. Its fstat is left out, as no benchmark measures it.
const REQUESTS: &[(&str, &str)] =
    &[("landau", "epoll_wait+recv+send"), ("nginx", "epoll_wait+recv+open+send_header+sendfile+open.close")];

/// Returns the servers whose calls are known and measured, and a sentence for each that cannot be compared.
pub(super) fn servers(analyses: &[Analysis<'_>]) -> (Vec<Checked>, Vec<String>) {
    let (mut servers, mut not_compared) = (Vec::new(), Vec::new());
    for (record, analysis) in analyses.iter().enumerate() {
        for case in &analysis.cases {
            match server(record, case, analyses) {
                Some(Ok(checked)) => servers.push(checked),
                Some(Err(why)) => not_compared.push(format!("{} is not compared: {why}.", case.case.label)),
                None => {}
            }
        }
    }
    (servers, not_compared)
}

/// Returns nothing for a case of no server, or of one whose calls are not known.
fn server(record: usize, study: &CaseStudy<'_>, analyses: &[Analysis<'_>]) -> Option<Result<Checked, String>> {
    let case = study.case;
    let requests = match case.benchmark.as_str() {
        "connect" => 1,
        // The new connection has one response before the timed one.
        "request" => 2,
        _ => return None,
    };
    let setting = |name: &str| case.settings.get(name).map_or("none", String::as_str);
    let (server, calls) = REQUESTS.iter().find(|(name, _)| *name == setting("server"))?;
    let is_epoll = *server != "landau" || setting("backend") == "epoll";
    if setting("url") != "none" || setting("command") != "none" || !is_epoll {
        return None;
    }
    let facts = study.facts.get("server_processor_time_per_step")?;
    let used: Vec<f64> = facts.iter().filter_map(|fact| ns(fact)).collect();
    if used.is_empty() {
        return None;
    }
    let mean = used.iter().sum::<f64>() / used.len() as f64;
    let range = used.iter().fold((mean, mean), |(low, high), x| (low.min(*x), high.max(*x)));
    let of_requests: Vec<String> = calls.split('+').map(|call| format!("{requests}*{call}")).collect();
    let sum = format!("{ACCEPTS}+{}", of_requests.join("+")).replace("+1*", "+");
    let checked = averaged(&sum, f64::from(study.largest_n()), analyses).map(|predicted_ns| Checked {
        record,
        case: case.label.clone(),
        server: (*server).to_owned(),
        sum,
        predicted_ns,
        used_ns: Estimate { value: mean, low: range.0, high: range.1 },
        ratio: mean / predicted_ns,
        misses: (mean - predicted_ns).abs() > TOLERATED * mean,
    });
    Some(checked)
}

fn ns(fact: &Fact) -> Option<f64> {
    match fact {
        Fact::Number { value, .. } => Some(*value),
        Fact::Text(_) => None,
    }
}

/// The number of n at which a sum is evaluated for its average.
const PLACES: usize = 32;

/// Returns the mean cost of a sum from 1 to `last` objects.
fn averaged(sum: &str, last: f64, analyses: &[Analysis<'_>]) -> Result<f64, String> {
    let mut total = 0.0;
    for term in parse(sum)? {
        let (_, (_, phase)) = curve(&term.name, analyses)?;
        let measured_to = super::largest_n(&phase.curve);
        for place in 0..PLACES {
            let n = (last * (place as f64 + 0.5) / PLACES as f64).max(1.0);
            let at = super::at(&phase.verdict.all, measured_to, n).map_err(|why| format!("{}: {why}", term.name))?;
            total += term.times * at.cost.value / PLACES as f64;
        }
    }
    Ok(total)
}
