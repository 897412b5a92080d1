//! `fork`: the server forks a child for each connection.

use super::{Architecture, Listeners, Result, Start};
use crate::room::Children;
use landau_sys::child::Forker;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "fork",
    about: "the server forks a child for each connection",
    has_pool: false,
    has_children: true,
    has_backends: false,
    listeners: Listeners::One,
    serve,
};

fn serve(start: &Start) -> Result<()> {
    let (listener, mut children) = (start.blocking_listener()?, Children::new(start));
    let forker = Forker::new()?;
    loop {
        let Ok((connection, _)) = listener.accept() else { continue };
        children.make_room();
        // A child that cannot be forked closes its connection without a reply, which the client counts.
        if forker.fork(|| start.workload.serve(connection)).is_ok() {
            children.add();
        }
    }
}
