//! The processes of a model, with their groups and sessions, and the end of the last use of a number.

use crate::{Allocator, INIT, Id, Model, Use};

/// The reason why a process was not created or a number not assigned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// A process, a group or a session uses the number, or it is outside the range.
    #[error("the number is in use or out of range")]
    Busy,
    /// The original cannot give a process a chosen number.
    #[error("this allocator gives no process a chosen number")]
    Unsupported,
    /// All numbers are in use.
    #[error("all process identifiers are in use")]
    Full,
}

/// The state of a number.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    /// Whether a process has it.
    is_process: bool,
    /// The group and the session of that process.
    group: Id,
    session: Id,
    /// The number of members of the group and of the session with this number.
    group_members: u32,
    session_members: u32,
}

/// The processes of a model. A new process joins the group and session of its parent.
#[derive(Debug)]
pub struct Processes {
    model: &'static Model,
    allocator: Box<dyn Allocator>,
    pid_max: Id,
    entries: Vec<Entry>,
    in_use: u32,
}

impl Processes {
    /// Returns the set of processes that contains only [`INIT`].
    pub fn new(model: &'static Model, pid_max: Id, seed: u64) -> Self {
        let allocator = (model.new)(pid_max, seed);
        let entries = vec![Entry::default(); pid_max as usize + 1];
        let mut processes = Self { model, allocator, pid_max, entries, in_use: 0 };
        processes.enter(INIT, INIT, INIT);
        processes
    }

    /// Creates a process.
    pub fn fork(&mut self, parent: Id) -> Result<Id, Refused> {
        if self.is_full() {
            return Err(Refused::Full);
        }
        let id = self.allocator.allocate().ok_or(Refused::Full)?;
        self.make_room(id);
        let Entry { group, session, .. } = self.entries[parent as usize];
        self.enter(id, group, session);
        Ok(id)
    }

    /// Creates a process with a chosen number.
    pub fn place(&mut self, parent: Id, id: Id) -> Result<(), Refused> {
        let is_inside = (self.model.low..=self.model.high(self.pid_max)).contains(&id);
        if self.is_full() {
            return Err(Refused::Full);
        }
        if !is_inside || self.is_used(id) {
            return Err(Refused::Busy);
        }
        if !self.allocator.place(id) {
            return Err(Refused::Unsupported);
        }
        let Entry { group, session, .. } = self.entries[parent as usize];
        self.enter(id, group, session);
        Ok(())
    }

    /// Moves a process to the group with its own number, creating it if needed. Returns false if the process leads a
    /// session.
    pub fn setpgid(&mut self, process: Id) -> bool {
        let Entry { group, session, .. } = self.entries[process as usize];
        if session == process {
            return false;
        }
        if group != process {
            self.move_to(process, process, session);
        }
        true
    }

    /// Makes a process the leader of a new session and group. Returns false if one of them exists.
    pub fn setsid(&mut self, process: Id) -> bool {
        let entry = self.entries[process as usize];
        if entry.group_members > 0 || entry.session_members > 0 {
            return false;
        }
        self.move_to(process, process, process);
        true
    }

    /// Ends a process and reaps it.
    pub fn exit(&mut self, process: Id) {
        let Entry { group, session, .. } = self.entries[process as usize];
        self.entries[process as usize].is_process = false;
        self.allocator.exit(process, !self.is_used(process));
        self.settle(process);
        self.leave(group, Use::Group);
        self.leave(session, Use::Session);
    }

    /// Returns whether a process has the number.
    pub fn is_process(&self, id: Id) -> bool {
        self.entries.get(id as usize).is_some_and(|entry| entry.is_process)
    }

    /// Returns whether the number must not be given to a new process.
    pub fn is_used(&self, id: Id) -> bool {
        self.entries.get(id as usize).is_some_and(|entry| {
            let is_session = self.model.sessions_hold && entry.session_members > 0;
            entry.is_process || entry.group_members > 0 || is_session
        })
    }

    /// Returns whether the maximum of numbers is in use.
    pub fn is_full(&self) -> bool {
        self.in_use >= self.capacity()
    }

    /// Returns how many numbers from [`Model::low`] on can be in use at a time.
    pub fn capacity(&self) -> u32 {
        self.model.capacity(self.pid_max)
    }

    /// Returns how many numbers from [`Model::low`] on are in use.
    pub fn in_use(&self) -> u32 {
        self.in_use
    }

    /// Returns the number of visits of all allocations so far, in the unit of [`Model::counts`].
    pub fn visits(&self) -> u64 {
        self.allocator.visits()
    }

    /// Returns the model.
    pub fn model(&self) -> &'static Model {
        self.model
    }

    fn enter(&mut self, id: Id, group: Id, session: Id) {
        self.entries[id as usize].is_process = true;
        self.in_use += u32::from(id >= self.model.low);
        self.entries[id as usize].group = group;
        self.entries[id as usize].session = session;
        self.entries[group as usize].group_members += 1;
        self.entries[session as usize].session_members += 1;
        self.allocator.join(id, group, session);
    }

    /// Moves a process into a group and a session, and creates those that do not exist.
    fn move_to(&mut self, process: Id, group: Id, session: Id) {
        let old = self.entries[process as usize];
        let entry = &mut self.entries[process as usize];
        (entry.group, entry.session) = (group, session);
        self.allocator.join(process, group, session);
        if group != old.group {
            self.arrive(group, Use::Group);
            self.leave(old.group, Use::Group);
        }
        if session != old.session {
            self.arrive(session, Use::Session);
            self.leave(old.session, Use::Session);
        }
    }

    fn arrive(&mut self, id: Id, of: Use) {
        let members = self.members(id, of);
        *members += 1;
        if *members == 1 && self.holds(of) {
            self.allocator.begin(id, of);
        }
    }

    fn leave(&mut self, id: Id, of: Use) {
        let members = self.members(id, of);
        *members -= 1;
        if *members == 0 && self.holds(of) {
            let is_free = !self.is_used(id);
            self.allocator.end(id, of, is_free);
            self.settle(id);
        }
    }

    /// Counts a number as free if nothing uses it.
    fn settle(&mut self, id: Id) {
        self.in_use -= u32::from(id >= self.model.low && !self.is_used(id));
    }

    fn holds(&self, of: Use) -> bool {
        of == Use::Group || self.model.sessions_hold
    }

    fn members(&mut self, id: Id, of: Use) -> &mut u32 {
        let entry = &mut self.entries[id as usize];
        match of {
            Use::Group => &mut entry.group_members,
            Use::Session => &mut entry.session_members,
        }
    }

    /// Makes room for a number beyond `pid_max`, which a growing table may allocate.
    fn make_room(&mut self, id: Id) {
        if self.entries.len() <= id as usize {
            self.entries.resize(id as usize * 2, Entry::default());
        }
    }
}
