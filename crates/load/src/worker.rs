//! A worker: one thread, one event loop, a share of the load.
//!
//! A worker receives everything over its link and stores nothing. It exits when the controller does.

use crate::clock::SystemClock;
use crate::connections::Connections;
use crate::error::{Error, Result};
use crate::idle_load::IdleLoad;
use crate::link::Link;
use crate::message::{Command, Report};
use crate::plan::{Load, PROTOCOL, Plan};
use crate::request_loop::RequestLoop;
use landau_reactor::Reactor;
use landau_sys::limits::{Resource, raise};
use std::os::unix::net::UnixStream;

/// The argument that makes this program a worker. It is not meant for users.
pub const ARGUMENT: &str = "__load_worker";

/// Runs a worker if the program was started as one, with the link as standard input, and returns the exit status.
pub fn main() -> Option<u8> {
    if std::env::args_os().nth(1).is_none_or(|word| word != ARGUMENT) {
        return None;
    }
    let Ok(link) = landau_sys::descriptor::inherited(0).map(UnixStream::from) else { return Some(2) };
    Some(u8::from(work(link).is_err()))
}

/// Executes the commands that arrive over a link until the load is done or the controller exits.
///
/// # Errors
///
/// The reason why the load cannot run, which the worker has also reported to the controller.
pub fn work(stream: UnixStream) -> Result<()> {
    let mut link = Link::new(stream);
    let result = serve(&mut link);
    if let Err(error) = &result {
        // The controller may have exited.
        let _ = link.send(&Report::Failed { reason: error.to_string() });
    }
    result
}

fn serve(link: &mut Link) -> Result<()> {
    link.send(&Report::Hello { version: PROTOCOL, process: std::process::id() })?;
    let plan = match link.receive::<Command>()? {
        Some(Command::Plan(plan)) => *plan,
        Some(_) => return Err(Error::Plan("the first command must be a plan".to_owned())),
        None => return Ok(()),
    };
    check(&plan)?;
    if let Some(cpu) = plan.cpu {
        let pinned = landau_sys::system::pin(&[cpu]);
        // A system without pinning runs the load unpinned; the facts about the host say so.
        if let (Err(error), true) = (pinned, cfg!(target_os = "linux")) {
            return Err(Error::Plan(format!("--pin {cpu}: {error}")));
        }
    }
    raise(Resource::Descriptors)?;
    let mut reactor = Reactor::new(plan.backend.parse()?)?;
    let clock = match plan.load {
        Load::Open { .. } => SystemClock::precise(&mut reactor)?,
        Load::Closed | Load::Idle => SystemClock::coarse(),
    };
    let mut connections = Connections::new(&plan, reactor, clock)?;
    connections.watch_controller(link)?;
    match plan.load {
        Load::Closed | Load::Open { .. } => RequestLoop::new(&plan, connections, link).run(),
        Load::Idle => IdleLoad::new(&plan, connections, link).run(),
    }
}

/// Returns an error for an invalid plan, which may come from another program.
fn check(plan: &Plan) -> Result<()> {
    let invalid = |reason: &str| Err(Error::Plan(reason.to_owned()));
    if plan.version != PROTOCOL {
        return invalid(&format!(
            "the controller speaks version {} of the protocol, this worker version {PROTOCOL}",
            plan.version
        ));
    }
    if plan.origins.is_empty() || plan.origins.iter().any(|origin| origin.requests.is_empty()) {
        return invalid("the plan has a server without requests, or no server");
    }
    if plan.origins.iter().any(|origin| origin.order.iter().any(|&one| one as usize >= origin.requests.len())) {
        return invalid("the order of requests refers to a request that does not exist");
    }
    match plan.load {
        Load::Open { per_second, .. } if !(per_second > 0.0 && per_second.is_finite()) => {
            invalid("the rate must be above 0")
        }
        Load::Open { .. } if plan.pipeline > 1 && !plan.http2 => invalid("an open loop does not pipeline"),
        _ if plan.per_connection == Some(0) => invalid("a connection must carry at least one request"),
        _ => Ok(()),
    }
}
