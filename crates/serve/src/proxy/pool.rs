//! A worker's connections to upstream servers, including those kept for the next request.

use crate::rules::Upstream;
use std::sync::Arc;

/// The request that a connection to an upstream server is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    /// The number of the client's connection.
    pub(crate) number: u32,
    /// The stream of HTTP/2; 0 in a connection of HTTP/1.1.
    pub(crate) stream: u32,
}

impl Owner {
    /// Returns the owner for a client that uses HTTP/1.1.
    pub(crate) const fn of(number: u32) -> Self {
        Self { number, stream: 0 }
    }
}

/// A connection to an upstream server.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) upstream: Arc<Upstream>,
    /// The request that uses the connection; `None` if it is kept for the next one.
    pub(crate) owner: Option<Owner>,
    /// Whether it is being established.
    pub(crate) is_connecting: bool,
    /// Whether the connection was used for an earlier request.
    pub(crate) is_reused: bool,
}

/// The connections of a worker, by their numbers in the table of connections.
#[derive(Debug, Default)]
pub(crate) struct Upstreams {
    connections: Vec<Option<Box<Connection>>>,
    /// The kept connections, the most recent one last.
    idle: Vec<u32>,
}

impl Upstreams {
    pub(crate) fn put(&mut self, number: u32, connection: Connection) {
        let place = number as usize;
        if place >= self.connections.len() {
            self.connections.resize_with(place + 1, || None);
        }
        self.connections[place] = Some(Box::new(connection));
    }

    pub(crate) fn get(&mut self, number: u32) -> Option<&mut Connection> {
        self.connections.get_mut(number as usize)?.as_deref_mut()
    }

    pub(crate) fn remove(&mut self, number: u32) -> Option<Box<Connection>> {
        let connection = self.connections.get_mut(number as usize)?.take()?;
        if connection.owner.is_none() {
            self.idle.retain(|idle| *idle != number);
        }
        Some(connection)
    }

    /// Takes the most recently kept connection to an upstream server, for a client. A connection to an earlier address
    /// of the server's name is not taken.
    pub(crate) fn take_idle(&mut self, upstream: &Upstream, owner: Owner) -> Option<u32> {
        let connections = &mut self.connections;
        let is_to = |number: &u32| {
            let own = connections.get(*number as usize).and_then(Option::as_ref);
            own.is_some_and(|own| own.upstream.is_at_same_place(upstream))
        };
        let at = self.idle.iter().rposition(is_to)?;
        let number = self.idle.remove(at);
        let connection = self.get(number)?;
        (connection.owner, connection.is_reused) = (Some(owner), true);
        Some(number)
    }

    /// Keeps a connection for the next request; returns false if `most` are kept already.
    pub(crate) fn keep(&mut self, number: u32, most: usize) -> bool {
        let Some(upstream) = self.get(number).map(|connection| connection.upstream.clone()) else { return false };
        let is_same = |idle: &&u32| {
            let own = self.connections.get(**idle as usize).and_then(Option::as_ref);
            own.is_some_and(|own| own.upstream.is_at_same_place(&upstream))
        };
        if self.idle.iter().filter(is_same).count() >= most {
            return false;
        }
        if let Some(connection) = self.get(number) {
            connection.owner = None;
        }
        self.idle.push(number);
        true
    }

    /// Returns the connection that has been kept the longest.
    pub(crate) fn longest_idle(&self) -> Option<u32> {
        self.idle.first().copied()
    }

    /// Returns the kept connections.
    pub(crate) fn idle(&self) -> Vec<u32> {
        self.idle.clone()
    }
}
