//! `io_uring`: one thread submits whole operations to a completion ring, several with one system call.

use super::{Architecture, Listeners, Result, Start};

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "io_uring",
    about: "one thread submits accept, receive, send and close to a completion ring",
    has_pool: false,
    has_children: false,
    has_backends: false,
    listeners: Listeners::One,
    serve,
};

#[cfg(not(target_os = "linux"))]
fn serve(_: &Start) -> Result<()> {
    Err(crate::Error::Unsupported("only Linux has io_uring".to_owned()))
}

#[cfg(target_os = "linux")]
fn serve(start: &Start) -> Result<()> {
    linux::serve(start)
}

#[cfg(target_os = "linux")]
mod linux {
    use crate::service::{REPLY, work};
    use crate::{Result, Start, Workload};
    use landau_sys::bytes::Buffer;
    use landau_sys::ring::{Completion, Operations, Options};
    use std::os::fd::{AsRawFd, OwnedFd};

    /// The listener's number; those of connections are their descriptors.
    const LISTENER: u64 = 0;

    /// A ring and the connections with operations in flight, by descriptor.
    struct Server {
        ring: Operations,
        connections: Vec<Option<OwnedFd>>,
        workload: Workload,
    }

    pub(super) fn serve(start: &Start) -> Result<()> {
        let ring = Operations::new(Options::default())?;
        let mut server = Server { ring, connections: Vec::new(), workload: start.workload };
        let listener = start.listener.as_raw_fd();
        server.ring.accept(listener, LISTENER)?;
        loop {
            server.ring.wait(-1)?;
            while let Some(completion) = server.ring.next_completion() {
                match completion {
                    Completion::Accepted { result, has_more, .. } => {
                        match result {
                            Ok(connection) => server.welcome(connection)?,
                            Err(error) if error.is_transient_in_accept() => {}
                            Err(error) => return Err(error.into()),
                        }
                        if !has_more {
                            server.ring.accept(listener, LISTENER)?;
                        }
                    }
                    Completion::Received { user_data, result, has_more } => {
                        let request = result.map(|buffer| {
                            let is_empty = server.ring.bytes(&buffer).is_empty();
                            server.ring.recycle(buffer);
                            !is_empty
                        });
                        match request {
                            Ok(true) => server.answer(user_data, has_more)?,
                            // No provided buffer was free. Some are free again after the completions before this one
                            // were handled.
                            Err(error) if error.is_out_of_buffers() => server.receive(user_data)?,
                            _ => server.close(user_data)?,
                        }
                    }
                    // If the connection is kept, the receive in flight reports any error on it.
                    Completion::Sent { user_data, .. } if server.workload == Workload::Busy => {
                        server.close(user_data)?;
                    }
                    Completion::Sent { .. } | Completion::Closed { .. } | Completion::Polled { .. } => {}
                }
            }
        }
    }

    impl Server {
        fn welcome(&mut self, connection: OwnedFd) -> Result<()> {
            let number = connection.as_raw_fd() as usize;
            if self.connections.len() <= number {
                self.connections.resize_with(number + 1, || None);
            }
            self.connections[number] = Some(connection);
            match self.workload {
                Workload::Busy => self.reply(number as u64),
                Workload::Work => self.receive(number as u64),
            }
        }

        fn receive(&mut self, number: u64) -> Result<()> {
            self.ring.receive(number as i32, number).map(drop).map_err(Into::into)
        }

        fn answer(&mut self, number: u64, has_more: bool) -> Result<()> {
            work();
            self.reply(number)?;
            if has_more { Ok(()) } else { self.receive(number) }
        }

        fn reply(&mut self, number: u64) -> Result<()> {
            let reply = [(Buffer::Borrowed(REPLY), 0)];
            self.ring.send(number as i32, number, reply.into_iter()).map_err(Into::into)
        }

        fn close(&mut self, number: u64) -> Result<()> {
            match self.connections.get_mut(number as usize).and_then(Option::take) {
                Some(connection) => self.ring.close(connection, number).map(drop).map_err(Into::into),
                None => Ok(()),
            }
        }
    }
}
