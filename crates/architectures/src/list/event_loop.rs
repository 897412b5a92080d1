//! `event-loop`: one thread serves all connections with nonblocking calls, and waits for events on any of them.

use super::{Architecture, Listeners, Result, Workload};
use crate::Error;
use landau_reactor::{Backend, Interest, Reactor, Token};
use landau_sys::stream;
use std::os::fd::{AsRawFd, OwnedFd};

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "event-loop",
    about: "one thread serves all connections with nonblocking calls",
    has_pool: false,
    has_children: false,
    has_backends: true,
    listeners: Listeners::One,
    serve: |start| run(&start.listener, start.workload, start.backend),
};

/// The listener's token: no connection has so high a descriptor.
const LISTENER: Token = Token(u32::MAX - 1);

/// Serves the connections of a nonblocking listener in this thread.
pub(super) fn run(listener: &OwnedFd, workload: Workload, backend: Backend) -> Result<()> {
    let mut reactor = Reactor::new(backend)?;
    reactor.register_nonblocking(listener, LISTENER, Interest::READABLE)?;
    // By descriptor.
    let mut connections: Vec<Option<OwnedFd>> = Vec::new();
    loop {
        reactor.wait(None)?;
        while let Some(event) = reactor.next_event() {
            if event.token == LISTENER {
                accept(&mut reactor, listener, workload, &mut connections)?;
                continue;
            }
            let Some(place) = connections.get_mut(event.token.0 as usize) else { continue };
            match place.as_ref().map(Workload::answer) {
                Some(true) => {
                    // A request is shorter than the buffer, so everything was read. Without this call, an
                    // edge-triggered backend would report it forever.
                    if let Some(connection) = place {
                        reactor.clear_readiness(connection, Interest::READABLE);
                    }
                }
                Some(false) => {
                    if let Some(ended) = place.take() {
                        reactor.close(ended)?;
                    }
                }
                None => {}
            }
        }
    }
}

/// Accepts all pending connections.
fn accept(
    reactor: &mut Reactor,
    listener: &OwnedFd,
    workload: Workload,
    connections: &mut Vec<Option<OwnedFd>>,
) -> Result<()> {
    loop {
        match stream::accept(listener) {
            Ok(connection) => {
                let Some(kept) = workload.welcome(connection) else { continue };
                let index = kept.as_raw_fd() as usize;
                reactor.register_nonblocking(&kept, Token(index as u32), Interest::READABLE)?;
                if connections.len() <= index {
                    connections.resize_with(index + 1, || None);
                }
                connections[index] = Some(kept);
            }
            Err(error) if error.is_would_block() => {
                reactor.clear_readiness(listener, Interest::READABLE);
                return Ok(());
            }
            Err(error) if error.is_transient_in_accept() => {}
            Err(error) => return Err(Error::System(error)),
        }
    }
}
