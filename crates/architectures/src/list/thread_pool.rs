//! `thread-pool`: a fixed pool of threads, each of which accepts a connection, serves it and accepts the next.

use super::{Architecture, Listeners, Result, Start};
use landau_sys::Error;
use std::sync::Arc;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "thread-pool",
    about: "a pool of threads, each of which accepts and serves one connection after the other",
    has_pool: true,
    has_children: false,
    has_backends: false,
    listeners: Listeners::One,
    serve,
};

fn serve(start: &Start) -> Result<()> {
    let (listener, workload) = (Arc::new(start.blocking_listener()?), start.workload);
    let mut members = Vec::new();
    for _ in 0..start.pool {
        let listener = Arc::clone(&listener);
        let member = move || loop {
            if let Ok((connection, _)) = listener.accept() {
                workload.serve(connection);
            }
        };
        let member = std::thread::Builder::new().spawn(member);
        members.push(member.map_err(|error| Error::from_io("pthread_create", &error))?);
    }
    // The members serve until the process ends.
    for member in members {
        let _ = member.join();
    }
    Ok(())
}
