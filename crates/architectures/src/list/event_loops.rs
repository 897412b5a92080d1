//! `event-loops`: an event loop on each processor, each with its own listener (`SO_REUSEPORT`): the kernel
//! distributes the connections over them.

use super::{Architecture, Result, Start, event_loop};
use crate::{Error, listen};
use landau_sys::system;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "event-loops",
    about: "an event loop on each processor, with its own listener",
    has_pool: false,
    has_children: false,
    has_backends: true,
    serve,
};

fn serve(start: &Start) -> Result<()> {
    let processors = system::processors_of(std::process::id()).unwrap_or_default();
    let (workload, backend) = (start.workload, start.backend);
    let run = move |listener, processor: Option<u32>| {
        if let Some(processor) = processor {
            // Where threads cannot be pinned, the scheduler distributes them.
            let _ = system::pin(&[processor]);
        }
        event_loop::run(&listener, workload, backend)
    };
    let mut others = Vec::new();
    for &processor in processors.iter().skip(1) {
        let listener = listen(start.address)?;
        let other = std::thread::Builder::new().spawn(move || run(listener, Some(processor)));
        others.push(other.map_err(|error| landau_sys::Error::from_io("pthread_create", &error))?);
    }
    let first = start.listener.try_clone().map_err(|error| landau_sys::Error::from_io("dup", &error))?;
    run(first, processors.first().copied())?;
    for other in others {
        other.join().map_err(|_| Error::Unsupported("an event loop panicked".to_owned()))??;
    }
    Ok(())
}
