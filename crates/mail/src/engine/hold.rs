//! Held connections: a benchmark opens connections in advance, and sets how many of them are busy. In other runs no
//! connection is held.

use super::{Connection, Engine, Input, Network};

/// Whether a connection has transactions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Work {
    /// It has not asked for one yet.
    #[default]
    None,
    /// It is open and waits.
    Held,
    /// It has transactions.
    Busy,
}

/// The limit of busy connections.
#[derive(Debug)]
pub(super) struct Hold {
    /// Maximum number of busy connections.
    most: u32,
    busy: u32,
    /// The held connections, and some that were held and are closed.
    held: Vec<u32>,
}

impl Default for Hold {
    fn default() -> Self {
        Self { most: u32::MAX, busy: 0, held: Vec::new() }
    }
}

impl Hold {
    /// Returns whether a connection may have a transaction; otherwise it is held.
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

    /// Records the end of a connection.
    pub(super) fn ended(&mut self, work: Work) {
        self.busy -= u32::from(work == Work::Busy);
    }
}

impl<N: Network, I: Input> Engine<N, I> {
    /// Keeps a connection after an event. A held connection has no deadline.
    #[inline]
    pub(super) fn keep(&mut self, id: u32, connection: Box<Connection>) {
        if connection.work == Work::Held {
            self.hold.held.push(id);
            self.network.clear_deadline(id);
        }
        self.connections[id as usize] = Some(connection);
    }

    /// Sets the maximum number of busy connections. Held connections begin at once, up to that number.
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
