//! The connections by ID, and their number in each state.

use crate::connection::{Connection, State};

/// Connections by ID. IDs of closed connections are reused.
#[derive(Debug, Default)]
pub(super) struct Table {
    slots: Vec<Option<Connection>>,
    free: Vec<u32>,
    /// Number of connections in state `Open`.
    pub(super) open: u32,
    /// Number of connections in a handshake.
    pub(super) opening: u32,
}

impl Table {
    /// Returns the number of connections in state `Closing`.
    #[inline]
    pub(super) fn closing(&self) -> u32 {
        (self.slots.len() - self.free.len()) as u32 - self.open - self.opening
    }

    /// Returns the ID of the next connection that will be inserted.
    pub(super) fn next_id(&self) -> u32 {
        self.free.last().copied().unwrap_or(self.slots.len() as u32)
    }

    /// Inserts a connection in a handshake.
    pub(super) fn insert(&mut self, connection: Connection) {
        match self.free.pop() {
            Some(id) => self.slots[id as usize] = Some(connection),
            None => self.slots.push(Some(connection)),
        }
        self.opening += 1;
    }

    #[inline]
    pub(super) fn get(&self, id: u32) -> Option<&Connection> {
        self.slots.get(id as usize)?.as_ref()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut Connection> {
        self.slots.get_mut(id as usize)?.as_mut()
    }

    /// Removes a connection with its requests in flight.
    pub(super) fn remove(&mut self, id: u32) -> Option<Connection> {
        let connection = self.slots.get_mut(id as usize)?.take()?;
        match connection.state {
            State::Connecting | State::Securing => self.opening -= 1,
            State::Open => self.open -= 1,
            State::Closing => {}
        }
        self.free.push(id);
        Some(connection)
    }

    /// Returns the IDs of the connections that `which` accepts.
    pub(super) fn ids_of(&self, which: impl Fn(&Connection) -> bool) -> Vec<u32> {
        (0..self.slots.len() as u32).filter(|&id| self.get(id).is_some_and(&which)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use landau_sys::stream::unix_stream;

    #[test]
    fn connections_that_are_neither_open_nor_in_a_handshake_are_closing() {
        let mut table = Table::default();
        for id in 0..3 {
            table.insert(Connection::new(unix_stream().unwrap(), 0, 0));
            assert_eq!((table.opening, table.closing()), (id + 1, 0));
        }
        for id in [0, 1] {
            table.get_mut(id).unwrap().state = State::Open;
            table.opening -= 1;
            table.open += 1;
        }
        assert_eq!(table.closing(), 0);
        table.get_mut(1).unwrap().state = State::Closing;
        table.open -= 1;
        assert_eq!(table.closing(), 1);
        table.remove(0);
        assert_eq!(table.closing(), 1);
        table.remove(1);
        table.remove(2);
        assert_eq!((table.open, table.opening, table.closing()), (0, 0, 0));
    }
}
