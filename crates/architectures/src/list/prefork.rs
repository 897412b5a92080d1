//! `prefork`: a fixed pool of processes, each of which accepts a connection, serves it and accepts the next.

use super::{Architecture, Listeners, Result, Start};
use landau_sys::child::{Forker, reap_any};
use landau_sys::system::set_parent_death_signal;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "prefork",
    about: "a pool of processes, each of which accepts and serves one connection after the other",
    has_pool: true,
    has_children: true,
    has_backends: false,
    listeners: Listeners::One,
    serve,
};

fn serve(start: &Start) -> Result<()> {
    let (listener, forker) = (start.blocking_listener()?, Forker::new()?);
    let parent = std::process::id().cast_signed();
    for _ in 0..start.pool {
        forker.fork(|| {
            // On systems without this signal, a member of the pool outlives the server.
            let _ = set_parent_death_signal(parent);
            loop {
                if let Ok((connection, _)) = listener.accept() {
                    start.workload.serve(connection);
                }
            }
        })?;
    }
    // A member that is killed from outside is not replaced: the pool becomes smaller. The server ends with the last
    // one.
    while reap_any(true)? {}
    Ok(())
}
