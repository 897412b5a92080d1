//! `exec`: a program is executed for each connection, as by inetd.
//!
//! The program is the fork helper with another argument: small and dynamically linked.
//! The connection is its standard input and output. It is executed with `posix_spawn`, which copies no memory of the
//! server.

use super::{Architecture, Listeners, Result, Start, Workload};
use crate::Error;
use crate::room::Children;
use landau_sys::fork_helper::Responder;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "exec",
    about: "the server executes a program for each connection",
    has_pool: false,
    has_children: true,
    has_backends: false,
    listeners: Listeners::One,
    serve,
};

fn serve(start: &Start) -> Result<()> {
    let responder = Responder::new("dynamic").map_err(Error::Unsupported)?;
    let (listener, mut children) = (start.blocking_listener()?, Children::new(start));
    loop {
        let Ok((connection, _)) = listener.accept() else { continue };
        children.make_room();
        // A program that cannot be started closes its connection without a reply, which the client counts.
        if responder.start(connection.into(), start.workload == Workload::Work).is_ok() {
            children.add();
        }
    }
}
