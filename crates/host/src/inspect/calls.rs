//! The meaning of a system call for a connection.

use landau_sys::syscalls::number_of;
use std::collections::BTreeMap;

/// The details examined at the start of a call, in addition to its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// It may receive from the descriptor in this argument.
    Receive(u8),
    /// It may send to the descriptor in this argument.
    Send(u8),
    /// It may send to the descriptor in the first argument named, with flags in the second.
    SendFlags(u8, u8),
    /// It accepts from the descriptor in this argument.
    Accept(u8),
    /// It waits for events.
    Wait,
    /// It waits for events of several descriptors, whose number is in this argument.
    Poll(u8),
    /// It waits for events of the descriptors below this argument.
    Select(u8),
    /// It changes the set of descriptors that an epoll instance watches.
    EpollControl,
    /// It closes the descriptor in this argument, or shuts down its sending side.
    Close(u8),
}

/// The examined calls, by name.
const ACTIONS: &[(&str, Action)] = &[
    ("accept", Action::Accept(0)),
    ("accept4", Action::Accept(0)),
    ("close", Action::Close(0)),
    // Java replaces a connection's descriptor by another file before it closes it.
    ("dup2", Action::Close(1)),
    ("dup3", Action::Close(1)),
    ("epoll_ctl", Action::EpollControl),
    ("epoll_pwait", Action::Wait),
    ("epoll_pwait2", Action::Wait),
    ("epoll_wait", Action::Wait),
    ("io_getevents", Action::Wait),
    ("io_uring_enter", Action::Wait),
    ("poll", Action::Poll(1)),
    ("ppoll", Action::Poll(1)),
    ("pselect6", Action::Select(0)),
    ("read", Action::Receive(0)),
    ("readv", Action::Receive(0)),
    ("recvfrom", Action::Receive(0)),
    ("recvmmsg", Action::Receive(0)),
    ("recvmsg", Action::Receive(0)),
    ("rt_sigtimedwait", Action::Wait),
    ("select", Action::Select(0)),
    ("sendfile", Action::Send(0)),
    ("sendmmsg", Action::SendFlags(0, 3)),
    ("sendmsg", Action::SendFlags(0, 2)),
    ("sendto", Action::SendFlags(0, 3)),
    ("shutdown", Action::Close(0)),
    ("splice", Action::Send(2)),
    ("write", Action::Send(0)),
    ("writev", Action::Send(0)),
];

/// Returns the actions, keyed by this processor's system call numbers.
pub(super) fn actions() -> BTreeMap<u32, Action> {
    ACTIONS.iter().filter_map(|(name, action)| Some((number_of(name)?, *action))).collect()
}

/// Returns whether a call with this name sends.
pub(super) fn sends(name: &str) -> bool {
    let of = |action: &Action| matches!(action, Action::Send(_) | Action::SendFlags(..));
    ACTIONS.iter().any(|(known, action)| *known == name && of(action))
}

/// `MSG_ZEROCOPY`.
pub(super) const ZERO_COPY: u64 = 0x0400_0000;

/// The first number of an `io_uring` operation, so that one table contains both.
pub(super) const RING: u16 = 512;

/// The `io_uring` operations on connections, by number; the others have no name here.
const OPERATIONS: &[(u8, &str)] = &[
    (1, "readv"),
    (2, "writev"),
    (6, "poll"),
    (9, "sendmsg"),
    (10, "recvmsg"),
    (13, "accept"),
    (19, "close"),
    (22, "read"),
    (23, "write"),
    (26, "send"),
    (27, "recv"),
    (30, "splice"),
    (34, "shutdown"),
    (47, "send_zc"),
    (48, "sendmsg_zc"),
];

/// Returns the name of an operation of `io_uring`.
pub(super) fn operation(number: u16) -> Option<&'static str> {
    OPERATIONS.iter().find(|(known, _)| u16::from(*known) + RING == number).map(|(_, name)| *name)
}

/// The subject of a call: what its descriptor refers to, or how it waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u16)]
pub(super) enum About {
    /// Nothing that is examined.
    Nothing = 0,
    /// A connection of the server.
    Connection = 1,
    /// A listening socket of the server.
    Listener = 2,
    /// A UDP socket with a port of the server.
    Datagram = 3,
    /// A Unix socket.
    Unix = 4,
    /// Another socket.
    Socket = 5,
    /// A file, a pipe, or anything else that is not a socket.
    File = 6,
    /// A closed descriptor.
    Closed = 7,
    /// One descriptor to wait for.
    One = 8,
    /// Several descriptors to wait for.
    Several = 9,
    /// A connection that is added to epoll edge-triggered.
    Edge = 10,
    /// A connection that is added to epoll level-triggered.
    Level = 11,
    /// A send to a connection without a copy of the data (`MSG_ZEROCOPY`).
    ZeroCopy = 12,
}

impl About {
    /// All values, in the order of their numbers.
    const ALL: [Self; 13] = [
        Self::Nothing,
        Self::Connection,
        Self::Listener,
        Self::Datagram,
        Self::Unix,
        Self::Socket,
        Self::File,
        Self::Closed,
        Self::One,
        Self::Several,
        Self::Edge,
        Self::Level,
        Self::ZeroCopy,
    ];

    pub(super) fn of(number: u16) -> Self {
        Self::ALL.get(usize::from(number)).copied().unwrap_or(Self::Nothing)
    }

    /// Returns whether it is a connection of the server.
    pub(super) fn is_connection(self) -> bool {
        matches!(self, Self::Connection | Self::ZeroCopy)
    }
}
