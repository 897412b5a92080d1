//! `event-loops`: an event loop on each processor, each with its own listener (`SO_REUSEPORT`): the kernel
//! distributes the connections over them.

use super::{Architecture, Listeners, Result, Start, event_loop};
use crate::{Error, processors};
use landau_sys::system;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "event-loops",
    about: "an event loop on each processor, with its own listener",
    has_pool: false,
    has_children: false,
    has_backends: true,
    listeners: Listeners::PerProcessor,
    serve,
};

fn serve(start: &Start) -> Result<()> {
    let (workload, backend) = (start.workload, start.backend);
    let run = move |listener, processor: Option<u32>| {
        if let Some(processor) = processor {
            // Where threads cannot be pinned, the scheduler distributes them.
            let _ = system::pin(&[processor]);
        }
        event_loop::run(&listener, workload, backend)
    };
    let first_processor = processors().first().copied();
    let mut others = Vec::new();
    for (listener, processor) in start.others.take() {
        let other = std::thread::Builder::new().spawn(move || run(listener, Some(processor)));
        others.push(other.map_err(|error| landau_sys::Error::from_io("pthread_create", &error))?);
    }
    let first = start.listener.try_clone().map_err(|error| landau_sys::Error::from_io("dup", &error))?;
    run(first, first_processor)?;
    for other in others {
        other.join().map_err(|_| Error::Unsupported("an event loop panicked".to_owned()))??;
    }
    Ok(())
}
