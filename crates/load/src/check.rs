//! What a wish must not be: a contradiction, or beyond what can be measured. Each refusal says what would be right.

use crate::error::{Error, Result};
use crate::job::Wish;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Requests, or connections, a second: from one in a quarter of an hour to more than any machine makes.
const RATES: RangeInclusive<f64> = 0.001..=1e7;

/// The longest of the times that are waited or measured: thirty days.
const LONGEST_H: u64 = 720;

/// The longest latency that is told apart.
const LONGEST_LATENCY: Duration = Duration::from_secs(100);

/// Refuses what cannot be meant.
pub(crate) fn wish(wish: &Wish) -> Result<()> {
    request(wish)?;
    rates(wish)?;
    times(wish)?;
    processors(&wish.pins)?;
    let unknown = wish.waived.iter().find(|name| !crate::gate::GATES.iter().any(|(known, _)| known == name));
    if let Some(name) = unknown {
        let known: Vec<&str> = crate::gate::GATES.iter().map(|(known, _)| *known).collect();
        return Err(Error::Plan(format!("no gate is called {name}; there are {}", known.join(", "))));
    }
    Ok(())
}

fn wrong(reason: impl Into<String>) -> Result<()> {
    Err(Error::Plan(reason.into()))
}

/// What is asked for.
fn request(wish: &Wish) -> Result<()> {
    let is_token = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
    };
    if wish.urls.is_empty() {
        return wrong("no URL");
    }
    if !is_token(&wish.method) || wish.method == "CONNECT" {
        return wrong(format!("{} is no method that can be asked for here", wish.method));
    }
    for header in &wish.headers {
        let name = header.split_once(':').map(|(name, _)| name).filter(|name| is_token(name));
        if name.is_none() || header.bytes().any(|byte| byte == b'\r' || byte == b'\n' || byte == 0) {
            return wrong(format!("{header:?} is no header field; write -H 'Name: value'"));
        }
    }
    Ok(())
}

/// How often.
fn rates(wish: &Wish) -> Result<()> {
    for (option, rate, what) in
        [("--rate", wish.rate, "requests"), ("--connect-rate", wish.connect_rate, "connections")]
    {
        if let Some(rate) = rate.filter(|rate| !RATES.contains(rate)) {
            let (least, most) = (RATES.start(), RATES.end());
            return wrong(format!("{option} {rate:?} is not from {least} to {most} {what} a second"));
        }
    }
    if wish.rate.is_some() && wish.pipeline > 1 {
        return wrong("--pipeline belongs to a closed loop: in an open one each request finds a connection of its own");
    }
    Ok(())
}

/// How long.
fn times(wish: &Wish) -> Result<()> {
    if wish.timeout > LONGEST_LATENCY || wish.timeout.is_zero() {
        return wrong("--timeout is above 0 and at most 100 seconds: that is the longest latency that is told apart");
    }
    let longest = Duration::from_secs(LONGEST_H * 3600);
    if wish.duration.is_some_and(|time| time.is_zero() || time > longest) {
        return wrong(format!("--duration is above 0 and at most {LONGEST_H}h"));
    }
    let settle = wish.crowd.as_ref().map(|crowd| crowd.settle);
    for (option, time) in [("--warm-up", Some(wish.warm_up)), ("--settle", settle)] {
        if time.is_some_and(|time| time > longest) {
            return wrong(format!("{option} is at most {LONGEST_H}h"));
        }
    }
    if wish.duration.is_none() && wish.request_count.is_none() && wish.crowd.is_none() {
        return wrong("neither --duration nor --requests: when should it end?");
    }
    Ok(())
}

/// Where.
fn processors(pins: &[u32]) -> Result<()> {
    let allowed = landau_sys::system::processors();
    let Some(one) = pins.iter().find(|one| !allowed.contains(one)) else { return Ok(()) };
    let list: Vec<String> = allowed.iter().map(ToString::to_string).collect();
    let list = list.join(", ");
    wrong(format!("--pin {one}: processor {one} is not among those this process may run on: {list}"))
}
