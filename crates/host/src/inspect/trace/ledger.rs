//! Records what tasks did on connections, from each of their system calls. A collector that stops them at each call
//! uses it.
//!
//! It counts in the same way as the programs in the kernel ([`super::program`]), so that the rules apply to both.

use super::{BORN, IS_BORN, IS_ENDED, IS_EXECUTED, IS_THREAD, Task, Trace};
use crate::inspect::calls::{About, Action, ZERO_COPY};
use std::collections::{BTreeMap, HashMap};

/// The object that a descriptor refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// Nothing: it is not open.
    Closed,
    /// Something other than a socket.
    File,
    Unix,
    /// A socket without a port of the server.
    Socket,
    /// A UDP socket with a port of the server.
    Datagram,
    Listener,
    /// A connection of the server, by the inode of its socket.
    Connection(u64),
}

impl Target {
    fn about(self) -> About {
        match self {
            Self::Closed => About::Closed,
            Self::File => About::File,
            Self::Unix => About::Unix,
            Self::Socket => About::Socket,
            Self::Datagram => About::Datagram,
            Self::Listener => About::Listener,
            Self::Connection(_) => About::Connection,
        }
    }
}

/// The effect of a call, as far as it concerns the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    Nothing,
    /// It waits for events of several descriptors.
    Wait,
    /// It accepts from a listening socket of the server.
    Accept,
    /// It sends to something other than a connection of the server.
    Elsewhere,
    /// It receives from a connection.
    Receive(u64),
    /// It sends to a connection.
    Send(u64),
    /// It closes a connection.
    Close(u64),
}

/// `EPOLL_CTL_DEL`, and `EPOLLET` among the events.
const REMOVE: u64 = 2;
const EDGE: u32 = 1 << 31;

/// Returns the subject and the effect of a call. `target` resolves a descriptor. `events` reads the events at this
/// address that epoll is to watch.
pub(super) fn meaning(
    action: Option<Action>,
    arguments: &[u64; 6],
    target: impl FnOnce(u32) -> Target,
    events: impl FnOnce(u64) -> Option<u32>,
) -> (About, Effect) {
    let value = |argument: u8| arguments[usize::from(argument)];
    let descriptor = match action {
        None => return (About::Nothing, Effect::Nothing),
        Some(Action::Wait) => return (About::Nothing, Effect::Wait),
        Some(Action::Poll(count)) if value(count) > 1 => return (About::Several, Effect::Wait),
        Some(Action::Poll(_)) => return (About::One, Effect::Nothing),
        Some(Action::Select(count)) => {
            return (About::Nothing, if value(count) == 0 { Effect::Nothing } else { Effect::Wait });
        }
        Some(Action::EpollControl) => value(2),
        Some(
            Action::Receive(fd) | Action::Send(fd) | Action::SendFlags(fd, _) | Action::Accept(fd) | Action::Close(fd),
        ) => value(fd),
    };
    let target = target(descriptor as u32);
    let about = target.about();
    match (action, target) {
        (Some(Action::Accept(_)), Target::Listener) => (about, Effect::Accept),
        (Some(Action::Receive(_)), Target::Connection(inode)) => (about, Effect::Receive(inode)),
        (Some(Action::SendFlags(_, flags)), Target::Connection(inode)) if value(flags) & ZERO_COPY != 0 => {
            (About::ZeroCopy, Effect::Send(inode))
        }
        (Some(Action::Send(_) | Action::SendFlags(..)), Target::Connection(inode)) => (about, Effect::Send(inode)),
        (Some(Action::Send(_) | Action::SendFlags(..)), Target::File | Target::Unix | Target::Socket) => {
            (about, Effect::Elsewhere)
        }
        (Some(Action::Close(_)), Target::Connection(inode)) => (about, Effect::Close(inode)),
        (Some(Action::EpollControl), Target::Connection(_)) => {
            let is_edge = (value(1) != REMOVE).then(|| events(value(3))).flatten().map(|events| events & EDGE != 0);
            let about = is_edge.map_or(About::Nothing, |edge| if edge { About::Edge } else { About::Level });
            (about, Effect::Nothing)
        }
        _ => (about, Effect::Nothing),
    }
}

/// The last visit of a connection.
#[derive(Debug, Clone, Copy)]
struct Visit {
    task: u32,
    process: u32,
    sends: bool,
    is_closed: bool,
    slice: u64,
}

/// The tasks of a server and the connections that they visited.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Each task with the connection that it visited last.
    tasks: BTreeMap<u32, (Task, Option<u64>)>,
    connections: HashMap<u64, Visit>,
    /// Calls by group, number and subject.
    calls: BTreeMap<(u32, u16, About), u64>,
    replies: u64,
    established: u64,
    forks: u64,
    threads: u64,
    executions: u64,
    /// The current time slice, in which calls are counted.
    slice: u64,
}

impl Ledger {
    /// Adds a task that existed when the window began.
    pub(super) fn add(&mut self, tid: u32, process: u32, parent: u32) {
        self.tasks.entry(tid).or_insert((Task { process, group: process, parent, ..Task::default() }, None));
    }

    /// Returns whether a task is known and has not ended.
    pub(super) fn knows(&self, tid: u32) -> bool {
        self.tasks.get(&tid).is_some_and(|(task, _)| !task.is(IS_ENDED))
    }

    /// Adds a task that another one created; `is_counted` is true if calls are being counted.
    pub(super) fn born(&mut self, tid: u32, process: u32, parent: u32, now_ns: u64, is_counted: bool) {
        let is_thread = tid != process;
        let group = self.tasks.get(if is_thread { &process } else { &parent }).map(|(above, _)| above.group);
        // A thread whose process has another first thread by now belongs to the group of its siblings.
        let sibling = || self.tasks.values().find(|(task, _)| task.process == process).map(|(task, _)| task.group);
        let group = group.or_else(sibling).unwrap_or(parent);
        let (group, flags) = if is_thread { (group, IS_BORN | IS_THREAD) } else { (group | BORN, IS_BORN) };
        let parent = if is_thread { process } else { parent };
        let task = Task { process, group, parent, flags, born_ns: now_ns, ..Task::default() };
        self.tasks.insert(tid, (task, None));
        *(if is_thread { &mut self.threads } else { &mut self.forks }) += u64::from(is_counted);
    }

    /// Records that a task executed a program. From then on, its number is that of its process.
    pub(super) fn executed(&mut self, tid: u32, is_counted: bool) {
        if let Some((task, _)) = self.tasks.get_mut(&tid) {
            task.flags |= IS_EXECUTED;
            self.executions += u64::from(is_counted);
        }
    }

    /// Records that a task that may have ended exists again: another thread of its process took over its number.
    pub(super) fn goes_on(&mut self, tid: u32) {
        if let Some((task, _)) = self.tasks.get_mut(&tid) {
            task.flags &= !IS_ENDED;
            task.ended_ns = 0;
        }
    }

    /// Records the end of a task.
    pub(super) fn ended(&mut self, tid: u32, now_ns: u64) {
        if let Some((task, _)) = self.tasks.get_mut(&tid).filter(|(task, _)| !task.is(IS_ENDED)) {
            task.flags |= IS_ENDED;
            task.ended_ns = now_ns;
        }
    }

    /// Begins the next time slice: a connection that was open at the end of the last one may have been closed since.
    pub(super) fn begin_slice(&mut self) {
        self.slice += 1;
    }

    /// Records an accepted connection.
    pub(super) fn accepted(&mut self) {
        self.established += 1;
    }

    /// Counts a call.
    pub(super) fn call(&mut self, tid: u32, number: u16, about: About, effect: Effect) {
        let Some((task, _)) = self.tasks.get_mut(&tid) else { return };
        *self.calls.entry((task.group, number, about)).or_default() += 1;
        match effect {
            Effect::Nothing => {}
            Effect::Wait => task.waits += 1,
            Effect::Accept => task.accepts += 1,
            Effect::Elsewhere => task.elsewhere += 1,
            Effect::Receive(inode) => self.visit(tid, inode, false),
            Effect::Send(inode) => self.visit(tid, inode, true),
            Effect::Close(inode) => {
                if let Some(visit) = self.connections.get_mut(&inode) {
                    visit.is_closed = true;
                }
            }
        }
    }

    /// Records a visit of a connection by a task.
    fn visit(&mut self, tid: u32, inode: u64, sends: bool) {
        let Some((task, last)) = self.tasks.get_mut(&tid) else { return };
        let before = last.replace(inode);
        *(if sends { &mut task.sends } else { &mut task.receives }) += 1;
        let now = Visit { task: tid, process: task.process, sends, is_closed: false, slice: self.slice };
        let Some(visit) = self.connections.get_mut(&inode) else {
            let of_before = before.and_then(|before| self.connections.get(&before));
            let is_open = |visit: &Visit| !visit.is_closed && visit.slice == now.slice && visit.task == tid;
            task.overlaps += u32::from(of_before.is_some_and(is_open));
            task.connections += 1;
            self.connections.insert(inode, now);
            return;
        };
        if visit.task == tid {
            task.returns += u32::from(before != Some(inode));
        } else if visit.process == now.process {
            task.moves += 1;
        } else {
            task.handovers += 1;
        }
        self.replies += u64::from(sends && !visit.sends);
        *visit = Visit { is_closed: visit.is_closed, ..now };
    }

    /// Returns the number of sends on a connection that follow a receive.
    pub(super) fn replies(&self) -> u64 {
        self.replies
    }

    /// Returns the trace of the window.
    pub(super) fn finish(self) -> Trace {
        Trace {
            tasks: self.tasks.into_iter().map(|(tid, (task, _))| (tid, task)).collect(),
            calls: self.calls,
            established: self.established,
            established_counted: self.established,
            replies: self.replies,
            forks: self.forks,
            threads: self.threads,
            executions: self.executions,
            ..Trace::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITE: u16 = 1;

    /// Returns the subject and the effect of a call with these arguments, if each descriptor refers to `target`.
    fn means(action: Action, arguments: [u64; 6], target: Target) -> (About, Effect) {
        meaning(Some(action), &arguments, |_| target, |address| (address == 9).then_some(EDGE | 1))
    }

    #[test]
    fn a_call_means_what_its_descriptor_refers_to() {
        let (open, of) = (Target::Connection(7), [3, 0, 0, 0, 0, 0]);
        assert_eq!(means(Action::Receive(0), of, open), (About::Connection, Effect::Receive(7)));
        assert_eq!(means(Action::Send(0), of, open), (About::Connection, Effect::Send(7)));
        assert_eq!(means(Action::Close(0), of, open), (About::Connection, Effect::Close(7)));
        assert_eq!(means(Action::Accept(0), of, Target::Listener), (About::Listener, Effect::Accept));
        assert_eq!(means(Action::Receive(0), of, Target::File), (About::File, Effect::Nothing));
        assert_eq!(means(Action::Send(0), of, Target::File), (About::File, Effect::Elsewhere));
        assert_eq!(means(Action::Send(0), of, Target::Closed), (About::Closed, Effect::Nothing));
        let flags = [3, 0, 0, ZERO_COPY, 0, 0];
        assert_eq!(means(Action::SendFlags(0, 3), flags, open), (About::ZeroCopy, Effect::Send(7)));
        let third = |fd| {
            let found = |fd| if fd == 5 { open } else { Target::File };
            meaning(Some(Action::Send(2)), &[0, 0, fd, 0, 0, 0], found, |_| None)
        };
        assert_eq!(third(5).1, Effect::Send(7), "splice names where it sends to in its third argument");
        assert_eq!(third(6).1, Effect::Elsewhere);
    }

    #[test]
    fn waits_are_told_by_how_many_descriptors_they_wait_for() {
        let of = |action, value| means(action, [value, value, 0, 0, 0, 0], Target::File);
        assert_eq!(of(Action::Wait, 0), (About::Nothing, Effect::Wait));
        assert_eq!(of(Action::Poll(1), 1), (About::One, Effect::Nothing));
        assert_eq!(of(Action::Poll(1), 2), (About::Several, Effect::Wait));
        assert_eq!(of(Action::Select(0), 0), (About::Nothing, Effect::Nothing));
        assert_eq!(of(Action::Select(0), 9), (About::Nothing, Effect::Wait));
        let control =
            |operation, address| means(Action::EpollControl, [4, operation, 3, address, 0, 0], Target::Connection(7)).0;
        assert_eq!((control(1, 9), control(1, 8), control(REMOVE, 9)), (About::Edge, About::Nothing, About::Nothing));
    }

    /// Makes calls of tasks on connections: a positive number receives, a negative one sends.
    fn visited(ledger: &mut Ledger, visits: &[(u32, i64)]) {
        for (tid, connection) in visits {
            let inode = connection.unsigned_abs();
            let effect = if *connection > 0 { Effect::Receive(inode) } else { Effect::Send(inode) };
            ledger.call(*tid, WRITE, About::Connection, effect);
        }
    }

    fn ledger() -> Ledger {
        let mut ledger = Ledger::default();
        for (tid, process) in [(10, 10), (11, 10), (20, 20)] {
            ledger.add(tid, process, 1);
        }
        ledger.begin_slice();
        ledger
    }

    #[test]
    fn returns_moves_and_handovers_are_counted() {
        let mut one = ledger();
        visited(&mut one, &[(10, 1), (10, -1), (10, 2), (10, -2), (10, 1), (11, 2), (20, -2)]);
        let trace = one.finish();
        let of = |tid: u32| trace.tasks[&tid];
        let first = of(10);
        assert_eq!((first.connections, first.returns, first.overlaps), (2, 1, 1));
        assert_eq!((first.receives, first.sends), (3, 2));
        assert_eq!((of(11).moves, of(11).visits(), of(20).handovers), (1, 1, 1));
        assert_eq!((trace.replies, trace.calls[&(10, WRITE, About::Connection)]), (3, 6));
    }

    #[test]
    fn a_connection_that_was_closed_or_of_another_slice_is_not_overlapped() {
        let mut closed = ledger();
        visited(&mut closed, &[(10, 1)]);
        closed.call(10, 3, About::Connection, Effect::Close(1));
        visited(&mut closed, &[(10, 2)]);
        // It may have been closed since then.
        closed.begin_slice();
        visited(&mut closed, &[(10, 3)]);
        let task = closed.finish().tasks[&10];
        assert_eq!((task.connections, task.overlaps, task.returns), (3, 0, 0));
    }

    /// The first thread ended before another one of its process executed a program: that is not a fork.
    #[test]
    fn a_first_thread_whose_number_is_taken_over_is_there_again() {
        let mut taken = ledger();
        taken.ended(10, 5);
        taken.goes_on(10);
        taken.goes_on(99);
        assert!(taken.knows(10) && !taken.knows(99));
        taken.executed(10, true);
        let trace = taken.finish();
        assert_eq!((trace.tasks[&10].flags, trace.tasks[&10].ended_ns), (IS_EXECUTED, 0));
        assert_eq!((trace.forks, trace.executions), (0, 1));
    }

    #[test]
    fn tasks_that_are_made_belong_to_their_makers_group() {
        let mut made = ledger();
        made.born(12, 10, 1, 5, true);
        made.born(30, 30, 20, 6, true);
        made.born(31, 30, 20, 7, false);
        made.born(40, 40, 30, 8, true);
        made.executed(40, true);
        made.ended(40, 9);
        made.accepted();
        assert!(made.knows(30) && !made.knows(40) && !made.knows(99));
        let trace = made.finish();
        let of = |tid: u32| (trace.tasks[&tid].group, trace.tasks[&tid].parent, trace.tasks[&tid].flags);
        assert_eq!(of(12), (10, 10, IS_BORN | IS_THREAD));
        assert_eq!(of(30), (20 + BORN, 20, IS_BORN));
        assert_eq!(of(31), (20 + BORN, 30, IS_BORN | IS_THREAD));
        assert_eq!(of(40), (20 + BORN, 30, IS_BORN | IS_EXECUTED | IS_ENDED));
        assert_eq!((trace.tasks[&40].born_ns, trace.tasks[&40].ended_ns), (8, 9));
        // Thread 31 was created while calls were not counted.
        assert_eq!((trace.forks, trace.threads, trace.executions, trace.established), (2, 1, 1, 1));
    }
}
