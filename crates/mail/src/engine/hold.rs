//! Connections that are open and wait: a benchmark opens them ahead of time, and sets how many of them work. In other
//! runs every connection works.

use super::{Connection, Engine, Input, Network};

/// Whether a connection has transactions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Work {
    /// It did not ask for any yet.
    #[default]
    None,
    /// It waits.
    Held,
    /// It has.
    Busy,
}

/// How many connections work.
#[derive(Debug)]
pub(super) struct Hold {
    /// The most of them.
    most: u32,
    busy: u32,
    /// Those that wait, and some of those that waited and were closed.
    held: Vec<u32>,
}

impl Default for Hold {
    fn default() -> Self {
        Self { most: u32::MAX, busy: 0, held: Vec::new() }
    }
}

impl Hold {
    /// Returns whether a connection may have a transaction; otherwise it waits.
    #[inline]
    pub(super) fn permits(&mut self, work: &mut Work) -> bool {
        if *work == Work::Busy {
            return true;
        }
        let may_work = self.busy < self.most;
        self.busy += u32::from(may_work);
        *work = if may_work { Work::Busy } else { Work::Held };
        may_work
    }

    /// Notes that a connection ended.
    pub(super) fn ended(&mut self, work: Work) {
        self.busy -= u32::from(work == Work::Busy);
    }
}

impl<N: Network, I: Input> Engine<N, I> {
    /// Keeps a connection after an event. One that waits has all the time of the run.
    #[inline]
    pub(super) fn keep(&mut self, id: u32, connection: Box<Connection>) {
        if connection.work == Work::Held {
            self.hold.held.push(id);
            self.network.clear_deadline(id);
        }
        self.connections[id as usize] = Some(connection);
    }

    /// Sets how many connections work. Those that wait begin at once.
    pub(crate) fn set_busy(&mut self, most: u32) {
        self.hold.most = most;
        while self.hold.busy < most
            && let Some(id) = self.hold.held.pop()
        {
            let Some(mut connection) = self.connections[id as usize].take() else { continue };
            if connection.work != Work::Held {
                self.connections[id as usize] = Some(connection);
                continue;
            }
            self.next_transaction(&mut connection);
            match self.flush(id, &mut connection) {
                Ok(()) => self.keep(id, connection),
                Err(end) => self.end(id, &mut connection, end),
            }
        }
    }
}
