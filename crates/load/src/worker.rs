//! A worker: one thread, one event loop, a slice of the load.
//!
//! It is told everything over its link and keeps nothing. When the controller is gone, so is the worker.

use crate::crowd::Crowd;
use crate::engine::{CONTROL, Engine};
use crate::error::{Error, Result};
use crate::link::{Link, Order, Report};
use crate::looped::Loop;
use crate::plan::{Load, PROTOCOL, Plan};
use landau_sys::limits::{Resource, raise};
use std::os::unix::net::UnixStream;

/// The word that makes this program a worker. It is not for users.
pub const ARGUMENT: &str = "__load_worker";

/// Runs a worker if the program was started as one: the exit status then. The link is standard input.
pub fn main() -> Option<u8> {
    if std::env::args_os().nth(1).is_none_or(|word| word != ARGUMENT) {
        return None;
    }
    // A server that closes while we write is an error to be counted, and no signal: `send` sees to that.
    let Ok(link) = landau_sys::descriptor::inherited(0).map(UnixStream::from) else { return Some(2) };
    Some(u8::from(work(link).is_err()))
}

/// Does what the other end of a link says, until it is done or the other end is gone.
pub fn work(stream: UnixStream) -> Result<()> {
    let mut link = Link::new(stream);
    let outcome = serve(&mut link);
    if let Err(error) = &outcome {
        // Where the controller is gone nobody wants to know.
        let _ = link.send(&Report::Failed { reason: error.to_string() });
    }
    outcome
}

fn serve(link: &mut Link) -> Result<()> {
    link.send(&Report::Hello { version: PROTOCOL, process: std::process::id() }).map_err(|error| lost(&error))?;
    let plan = match link.receive::<Order>().map_err(|error| lost(&error))? {
        Some(Order::Plan(plan)) => *plan,
        Some(_) => return Err(Error::Plan("the first order must be a plan".to_owned())),
        None => return Ok(()),
    };
    check(&plan)?;
    if let Some(processor) = plan.processor {
        let pinned = landau_sys::system::pin(&[processor]);
        // Where nothing can be pinned the load is made all the same; the host's facts say so.
        if let (Err(error), true) = (pinned, cfg!(target_os = "linux")) {
            return Err(Error::Plan(format!("--pin {processor}: {error}")));
        }
    }
    raise(Resource::Descriptors)?;
    let mut engine = Engine::new(&plan)?;
    engine.watch(link, CONTROL)?;
    match plan.load {
        Load::Closed | Load::Open { .. } => Loop::new(&plan, engine, link)?.run(),
        Load::Crowd => Crowd::new(&plan, engine, link).run(),
    }
}

/// A plan may come from elsewhere; what would make no sense is refused and not tried.
fn check(plan: &Plan) -> Result<()> {
    let wrong = |reason: &str| Err(Error::Plan(reason.to_owned()));
    if plan.version != PROTOCOL {
        return wrong(&format!("controller and worker are of different versions: {} and {PROTOCOL}", plan.version));
    }
    if plan.origins.is_empty() || plan.origins.iter().any(|origin| origin.requests.is_empty()) {
        return wrong("no request to make");
    }
    if plan.origins.iter().any(|origin| origin.order.iter().any(|&one| one as usize >= origin.requests.len())) {
        return wrong("the order of requests names one that is not there");
    }
    match plan.load {
        Load::Open { per_second, .. } if !(per_second > 0.0 && per_second.is_finite()) => wrong("a rate is above 0"),
        Load::Open { .. } if plan.pipeline > 1 => wrong("an open loop does not pipeline"),
        _ if plan.per_connection == Some(0) => wrong("a connection takes one request at least"),
        _ => Ok(()),
    }
}

/// The link is broken.
pub(crate) fn lost(error: &std::io::Error) -> Error {
    Error::Plan(format!("the link between controller and worker broke: {error}"))
}
