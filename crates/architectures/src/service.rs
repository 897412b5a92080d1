//! The work of a server for a connection, the same in every architecture.

use landau_sys::process::thread_time_ns;
use landau_sys::stream;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// The reply: that of the server of 2001, terminated like an SMTP line.
pub const REPLY: &[u8] = landau_sys::fork_helper::REPLY;

/// The processor time of a request with [`Workload::Work`].
pub const WORK: Duration = Duration::from_nanos(landau_sys::fork_helper::WORK_NS);

/// The work of a server for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    /// Reply and close, without reading anything: the server of 2001.
    Busy,
    /// Keep the connection. For each segment that arrives, a request, work for [`WORK`] and reply.
    Work,
}

impl Workload {
    /// The names of all workloads.
    pub const NAMES: &'static [&'static str] = &["busy", "work"];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Returns the workload of that name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Busy, Self::Work].into_iter().find(|one| one.name() == name)
    }

    /// Serves a blocking connection until it ends. A client that has disconnected ends it.
    pub(crate) fn serve(self, mut connection: TcpStream) {
        match self {
            Self::Busy => {
                let _ = connection.write_all(REPLY);
            }
            Self::Work => {
                while matches!(connection.read(&mut [0; 64]), Ok(1..)) {
                    work();
                    if connection.write_all(REPLY).is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Serves a new nonblocking connection, and returns it if it stays open.
    pub(crate) fn welcome(self, connection: OwnedFd) -> Option<OwnedFd> {
        match self {
            Self::Busy => {
                // The reply always fits into an empty send buffer.
                let _ = stream::send(&connection, REPLY, false);
                None
            }
            Self::Work => Some(connection),
        }
    }

    /// Serves the data that has arrived on a nonblocking connection. Returns whether it stays open.
    pub(crate) fn answer(connection: &OwnedFd) -> bool {
        match stream::receive(connection, &mut [0; 64]) {
            Ok(1..) => {
                work();
                stream::send(connection, REPLY, false).is_ok()
            }
            Ok(0) => false,
            Err(error) => error.is_would_block(),
        }
    }
}

/// Uses [`WORK`] of processor time, however long other threads delay this one.
pub(crate) fn work() {
    let end_ns = thread_time_ns() + WORK.as_nanos() as u64;
    while thread_time_ns() < end_ns {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_has_the_name_that_selects_it() {
        for name in Workload::NAMES {
            assert_eq!(Workload::named(name).unwrap().name(), *name);
        }
        assert_eq!(Workload::named("idle"), None);
    }
}
