//! The simulated network and its clock, which jumps to the time of the next event.

use super::names::NameServer;
use super::server::{Peer, Piece};
use super::{SECOND, World};
use crate::error::Result;
use crate::network::{Network, Ready};
use landau_sys::{Error, Result as SystemResult};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// A connection.
#[derive(Debug)]
struct Link {
    /// When `connect` has a result, and whether it succeeds.
    established: (u64, bool),
    is_established: bool,
    peer: Peer,
    /// The pieces sent by the server, with their times of arrival.
    arriving: VecDeque<Piece>,
    watches_writing: bool,
    /// When more can be sent.
    writable_ns: u64,
    deadline_ns: u64,
}

/// The network of an engine.
#[derive(Debug)]
pub(super) struct Virtual {
    world: Rc<RefCell<World>>,
    /// The name server, and the number of the socket for queries to it.
    names: Option<(u32, NameServer)>,
    links: Vec<Option<Link>>,
    events: VecDeque<Ready>,
}

fn error(call: &'static str, kind: std::io::ErrorKind) -> Error {
    // The numbers of Linux; the engine checks only the kinds.
    let errno = match kind {
        std::io::ErrorKind::WouldBlock => 11,
        std::io::ErrorKind::ConnectionRefused => 111,
        _ => 104,
    };
    Error { call, errno }
}

impl Virtual {
    pub(super) fn new(world: Rc<RefCell<World>>) -> Self {
        Self { world, names: None, links: Vec::new(), events: VecDeque::new() }
    }

    /// Collects the connections that are ready now.
    fn collect(&mut self) {
        let now_ns = self.world.borrow().now_ns;
        if let Some((id, names)) = &self.names
            && names.arriving.front().is_some_and(|(at_ns, _)| *at_ns <= now_ns)
        {
            self.events.push_back(Ready { id: *id, is_readable: true, is_writable: false, is_deadline: false });
        }
        for (id, link) in self.links.iter_mut().enumerate() {
            let Some(link) = link else { continue };
            let is_connected = link.is_established;
            let result = !is_connected && link.established.0 <= now_ns;
            let ready = Ready {
                id: id as u32,
                is_readable: is_connected && link.arriving.front().is_some_and(|piece| piece.at_ns <= now_ns),
                is_writable: result || (is_connected && link.watches_writing && link.writable_ns <= now_ns),
                is_deadline: link.deadline_ns <= now_ns,
            };
            if ready.is_deadline {
                link.deadline_ns = u64::MAX;
            }
            if ready.is_readable || ready.is_writable || ready.is_deadline {
                self.events.push_back(ready);
            }
        }
    }

    fn next_ns(&self) -> u64 {
        let times = self.links.iter().flatten().flat_map(|link| {
            let arrival = link.arriving.front().filter(|_| link.is_established).map(|piece| piece.at_ns);
            let result = (!link.is_established).then_some(link.established.0);
            let room = (link.is_established && link.watches_writing).then_some(link.writable_ns);
            [arrival, result, room, Some(link.deadline_ns)].into_iter().flatten()
        });
        let datagram_ns = self.names.iter().find_map(|(_, names)| names.arriving.front().map(|(at_ns, _)| *at_ns));
        times.chain(datagram_ns).min().unwrap_or(u64::MAX)
    }

    fn link(&mut self, id: u32) -> &mut Link {
        self.links[id as usize].as_mut().expect("an open connection")
    }
}

impl Network for Virtual {
    fn now_ns(&self) -> u64 {
        self.world.borrow().now_ns
    }

    fn unix_ms(&self) -> u64 {
        self.now_ns() / 1_000_000
    }

    fn connect(&mut self, id: u32, server: SocketAddr) -> SystemResult<()> {
        let mut world = self.world.borrow_mut();
        let now_ns = world.now_ns;
        if world.open >= world.descriptors {
            // EMFILE has no kind.
            return Err(Error { call: "socket", errno: 24 });
        }
        if world.chance(0.05) {
            return Err(error("connect", std::io::ErrorKind::ConnectionRefused));
        }
        let delay_ns = if world.chance(0.05) { u64::MAX / 2 } else { world.below(SECOND / 10) };
        let is_up = !world.chance(0.1);
        let mut arriving = VecDeque::new();
        let peer = Peer::new(server, &mut world, now_ns + delay_ns, &mut arriving);
        world.open += 1;
        world.most_open = world.most_open.max(world.open);
        drop(world);
        let index = id as usize;
        if index >= self.links.len() {
            self.links.resize_with(index + 1, || None);
        }
        assert!(self.links[index].is_none(), "the number {id} is in use");
        self.links[index] = Some(Link {
            established: (now_ns + delay_ns, is_up),
            is_established: false,
            peer,
            arriving,
            watches_writing: false,
            writable_ns: 0,
            deadline_ns: u64::MAX,
        });
        Ok(())
    }

    fn connect_datagrams(&mut self, id: u32, _: SocketAddr) -> SystemResult<()> {
        if self.world.borrow_mut().chance(0.1) {
            return Err(error("socket", std::io::ErrorKind::ConnectionRefused));
        }
        self.names = Some((id, NameServer::default()));
        Ok(())
    }

    fn established(&mut self, id: u32) -> SystemResult<()> {
        let link = self.link(id);
        link.is_established = true;
        if link.established.1 { Ok(()) } else { Err(error("connect", std::io::ErrorKind::ConnectionRefused)) }
    }

    fn receive(&mut self, id: u32, buffer: &mut [u8]) -> SystemResult<usize> {
        let now_ns = self.now_ns();
        if let Some((_, names)) = self.names.as_mut().filter(|(own, _)| *own == id) {
            let datagram = names.arriving.pop_front_if(|(at_ns, _)| *at_ns <= now_ns);
            let (_, bytes) = datagram.ok_or_else(|| error("recv", std::io::ErrorKind::WouldBlock))?;
            buffer[..bytes.len()].copy_from_slice(&bytes);
            return Ok(bytes.len());
        }
        let world = Rc::clone(&self.world);
        let link = self.link(id);
        let Some(piece) = link.arriving.pop_front_if(|piece| piece.at_ns <= now_ns) else {
            return Err(error("recv", std::io::ErrorKind::WouldBlock));
        };
        if piece.is_reset {
            link.arriving.push_front(piece);
            return Err(error("recv", std::io::ErrorKind::ConnectionReset));
        }
        if piece.bytes.is_empty() {
            link.arriving.push_front(piece);
            return Ok(0);
        }
        for &recipient in &piece.finals.recipients {
            world.borrow_mut().is_final[recipient as usize] = true;
        }
        world.borrow_mut().senders.over.extend(piece.finals.report);
        buffer[..piece.bytes.len()].copy_from_slice(&piece.bytes);
        Ok(piece.bytes.len())
    }

    fn send(&mut self, id: u32, buffers: &[IoSlice<'_>]) -> SystemResult<usize> {
        let world = Rc::clone(&self.world);
        let mut world = world.borrow_mut();
        let now_ns = world.now_ns;
        if let Some((_, names)) = self.names.as_mut().filter(|(own, _)| *own == id) {
            names.receive(&buffers[0], &mut world);
            return Ok(buffers[0].len());
        }
        let link = self.link(id);
        if link.peer.is_gone {
            return Err(error("sendmsg", std::io::ErrorKind::ConnectionReset));
        }
        if link.writable_ns > now_ns || world.chance(0.1) {
            link.writable_ns = link.writable_ns.max(now_ns + 1 + world.below(SECOND / 100));
            return Err(error("sendmsg", std::io::ErrorKind::WouldBlock));
        }
        let bytes: Vec<u8> = buffers.iter().flat_map(|slice| slice.iter().copied()).collect();
        assert!(!bytes.is_empty(), "nothing to send");
        let count = if world.chance(0.3) { 1 + world.below(bytes.len() as u64) as usize } else { bytes.len() };
        link.peer.receive(&bytes[..count], &mut world, &mut link.arriving);
        Ok(count)
    }

    fn watch_writing(&mut self, id: u32, is_watched: bool) {
        self.link(id).watches_writing = is_watched;
    }

    fn drained(&mut self, _: u32) {}

    fn set_deadline(&mut self, id: u32, delay: Duration) {
        let at_ns = self.now_ns().saturating_add(delay.as_nanos() as u64);
        self.link(id).deadline_ns = at_ns;
    }

    fn clear_deadline(&mut self, id: u32) {
        self.link(id).deadline_ns = u64::MAX;
    }

    fn close(&mut self, id: u32) {
        if self.links.get_mut(id as usize).and_then(Option::take).is_some() {
            self.world.borrow_mut().open -= 1;
        }
    }

    fn wait(&mut self, until_ns: u64) -> Result<()> {
        self.events.clear();
        self.collect();
        if self.events.is_empty() {
            let next_ns = self.next_ns().min(until_ns);
            let mut world = self.world.borrow_mut();
            world.now_ns = world.now_ns.max(next_ns);
            drop(world);
            self.collect();
        }
        Ok(())
    }

    fn next(&mut self) -> Option<Ready> {
        let ready = self.events.pop_front()?;
        // Handling an event takes time.
        self.world.borrow_mut().now_ns += 1_000;
        Some(ready)
    }
}
