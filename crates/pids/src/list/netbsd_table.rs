//! `netbsd-table`: a table with one slot for each number, whose free slots form a list.
//!
//! NetBSD since 2003. The lowest bits of a number are its slot; the others count the uses of the slot. Free slots form
//! a queue threaded through the table, so an allocation takes the first and reads nothing else. A slot that a group
//! still uses joins the queue when the group ends; a session keeps its group. The table doubles when it is nearly full,
//! so that numbers are not reused soon. On doubling, each slot goes to one of the halves by the next bit of its number,
//! and the new free slots come first.
//!
//! A visit is a slot that is read; growing reads the whole table. The table finds a process or a group by its number in
//! one step, which is not counted here. It cannot give a process a chosen number, and its numbers scatter without help.
//! Workloads that place processes therefore differ only in the number of processes. Beyond `pid_max` processes the
//! model fails, as the original does beyond `maxproc`. Numbers exceed `pid_max` when the table does.
//!
//! Source: NetBSD 9, `sys/kern/kern_proc.c`, `proc_alloc_pid()`, `proc_free_pid()`, `pg_remove()` and
//! `expand_pid_table()`; by D. Laight (2003).

use crate::{Allocator, INIT, Id, Model, Use};

pub(super) const MODEL: Model = Model {
    name: "netbsd-table",
    about: "takes the first of a queue of free slots in a table (NetBSD since 2003)",
    counts: "slots of the table",
    source: "NetBSD 9, sys/kern/kern_proc.c, proc_alloc_pid()",
    reconstructs: None,
    low: 1,
    includes_max: true,
    reserve: 0,
    sessions_hold: true,
    closed_form: None,
    new: |pid_max, _| Box::new(NetbsdTable::new(pid_max)),
};

/// Slots at the start.
const SLOTS: Id = 32;

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    /// The process's number; 0 if there is none.
    process: Id,
    /// If there is no process: the next free slot in the lower bits, and the use count in the bits above.
    link: u32,
    /// The number of the group or session that uses the slot, and how many of the two do.
    group: Id,
    holds: u8,
}

#[derive(Debug)]
struct NetbsdTable {
    slots: Vec<Slot>,
    first_free: u32,
    last_free: u32,
    /// The `PID_MAX` of the original, and the current largest number.
    limit: Id,
    largest: Id,
    in_use: u32,
    in_use_max: u32,
    visits: u64,
}

impl NetbsdTable {
    fn new(pid_max: Id) -> Self {
        // A use count above the largest number, so that numbers start at 1.
        let empty = (pid_max + SLOTS) & !(SLOTS - 1);
        let mut slots: Vec<Slot> = (0..SLOTS).map(|i| Slot { link: empty + i + 1, ..Slot::default() }).collect();
        slots[SLOTS as usize - 1].link = empty;
        let mut table = Self {
            slots,
            first_free: 1,
            last_free: SLOTS - 1,
            limit: pid_max,
            largest: pid_max,
            in_use: 0,
            in_use_max: SLOTS - 2,
            visits: 0,
        };
        let first = table.allocate();
        debug_assert_eq!(first, Some(INIT));
        table.visits = 0;
        table
    }

    fn mask(&self) -> u32 {
        self.slots.len() as u32 - 1
    }

    /// Doubles the table.
    fn grow(&mut self) {
        let (size, mask) = (self.slots.len() as u32, self.mask());
        let mut slots = vec![Slot::default(); 2 * size as usize];
        for i in (0..size).rev() {
            let mut old = self.slots[i as usize];
            // A free slot stays in the lower half, so that links to it remain valid, unless a group uses it.
            let number = if i == 0 {
                0
            } else if old.process != 0 {
                old.process
            } else {
                let link = (old.link + size) & !size;
                old.link = link;
                if old.holds > 0 { old.group } else { link }
            };
            let own = i | (number & size);
            slots[own as usize] = old;
            // The slot in the other half is free and goes to the front of the queue.
            let other = (number ^ size) & !mask;
            let place = i | (other & size);
            slots[place as usize] = Slot { link: (other & !size) | self.first_free, ..Slot::default() };
            self.first_free = place;
        }
        self.visits += u64::from(size);
        self.slots = slots;
        if self.mask() > self.limit {
            self.largest = self.mask() * 2 + 1;
            self.in_use_max |= self.in_use_max << 1;
        } else {
            self.in_use_max <<= 1;
        }
    }

    /// Appends a slot to the queue of free ones.
    fn append(&mut self, slot: u32) {
        self.slots[self.last_free as usize].link |= slot;
        self.last_free = slot;
        self.in_use -= 1;
    }
}

impl Allocator for NetbsdTable {
    fn allocate(&mut self) -> Option<Id> {
        let mask = loop {
            if self.in_use < self.in_use_max {
                self.visits += 1;
                // The last free slot is never allocated: its link is the end of the queue.
                if self.slots[self.first_free as usize].link & self.mask() != 0 {
                    break self.mask();
                }
            }
            self.grow();
        };
        let slot = self.first_free;
        let link = self.slots[slot as usize].link;
        let mut id = (link & !mask) + mask + 1 + slot;
        if id > self.largest {
            id &= mask;
        }
        self.first_free = link & mask;
        self.slots[slot as usize].process = id;
        self.in_use += 1;
        Some(id)
    }

    fn place(&mut self, _id: Id) -> bool {
        false
    }

    fn exit(&mut self, process: Id, _is_free: bool) {
        let mask = self.mask();
        let slot = &mut self.slots[(process & mask) as usize];
        slot.link = process & !mask;
        slot.process = 0;
        if slot.holds == 0 {
            self.append(process & mask);
        }
    }

    fn begin(&mut self, id: Id, _of: Use) {
        let mask = self.mask();
        let slot = &mut self.slots[(id & mask) as usize];
        slot.group = id;
        slot.holds += 1;
    }

    fn end(&mut self, id: Id, _of: Use, is_free: bool) {
        let mask = self.mask();
        self.slots[(id & mask) as usize].holds -= 1;
        if is_free {
            self.append(id & mask);
        }
    }

    fn visits(&self) -> u64 {
        self.visits
    }
}
