//! `thread`: the server creates a thread for each connection.

use super::{Architecture, Listeners, Result, Start};
use crate::room::Threads;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "thread",
    about: "the server creates a thread for each connection",
    has_pool: false,
    has_children: false,
    has_backends: false,
    listeners: Listeners::One,
    serve,
};

fn serve(start: &Start) -> Result<()> {
    let (listener, threads, workload) = (start.blocking_listener()?, Threads::new(start.most), start.workload);
    loop {
        let Ok((connection, _)) = listener.accept() else { continue };
        let place = threads.take();
        // A thread that cannot be created closes its connection without a reply, which the client counts.
        let _ = std::thread::Builder::new().spawn(move || {
            workload.serve(connection);
            drop(place);
        });
    }
}
