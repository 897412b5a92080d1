//! `linux-idr`: a tree with 64 branches at each node, and one bit for each branch that tells whether it has a free
//! number.
//!
//! Linux since 4.15, and still: `idr_alloc_cyclic()` searches from the last number on, and from 300 if that finds none.
//! The search descends where the bits allow it, and climbs where a node has no free number after the wanted one. A
//! number is in use while a process, group or session refers to its `struct pid`.
//!
//! A visit is a node whose bits are read on the way down. On the way up the search reads only the link to the parent of
//! a node, which is not counted. The model has all nodes from the start. The original allocates them, and its tree is
//! only as high as its largest number needs; the height is the same after the first pass.
//!
//! Source: Linux 6.18, `kernel/pid.c`, `alloc_pid()` and `free_pid()`; `lib/idr.c`, `idr_alloc_cyclic()`;
//! `lib/radix-tree.c`, `idr_get_free()`.

use super::linux_bitmap::RESERVED;
use crate::{Allocator, INIT, Id, Model};

pub(super) const MODEL: Model = Model {
    name: "linux-idr",
    about: "descends a tree to a free number (Linux since 4.15)",
    counts: "nodes of the tree",
    source: "Linux 6.18, kernel/pid.c, alloc_pid(), lib/idr.c, idr_alloc_cyclic()",
    reconstructs: None,
    low: RESERVED,
    includes_max: false,
    reserve: 0,
    sessions_hold: true,
    closed_form: None,
    new: |pid_max, _| Box::new(LinuxIdr::new(pid_max)),
};

/// Branches of a node, and the binary logarithm of that number.
const BRANCHES: Id = 64;
const SHIFT: u32 = 6;

#[derive(Debug)]
struct LinuxIdr {
    pid_max: Id,
    /// The number to search from.
    next: Id,
    /// The nodes of each level, leaves first: a bit for each branch with a free number.
    levels: Vec<Vec<u64>>,
    visits: u64,
}

impl LinuxIdr {
    fn new(pid_max: Id) -> Self {
        let mut levels = Vec::new();
        let mut width = pid_max;
        while width > 1 {
            width = width.div_ceil(BRANCHES);
            levels.push(vec![u64::MAX; width as usize]);
        }
        let mut tree = Self { pid_max, next: RESERVED, levels, visits: 0 };
        tree.place(INIT);
        tree
    }

    /// Finds the first free number from `from` on, possibly beyond the end.
    fn search(&mut self, from: Id) -> Option<Id> {
        let top = self.levels.len() - 1;
        let (mut level, mut at) = (top, from);
        loop {
            let node = (at >> (SHIFT * (level as u32 + 1))) as usize;
            let shift = SHIFT * level as u32;
            let branch = (at >> shift) % BRANCHES;
            self.visits += 1;
            let bits = *self.levels[level].get(node)? >> branch;
            if bits == 0 {
                // Continue after this node: climb to the first node that has a next branch, and descend regardless of
                // its bit.
                at = (node as Id + 1) << (shift + SHIFT);
                while level < top {
                    level += 1;
                    if !(at >> (SHIFT * level as u32)).is_multiple_of(BRANCHES) {
                        break;
                    }
                }
                if (at >> (SHIFT * (top as u32 + 1))) != 0 {
                    return None;
                }
                level -= 1;
                continue;
            }
            let ahead = bits.trailing_zeros();
            if ahead > 0 {
                at = ((at >> shift) + ahead) << shift;
            }
            if level == 0 {
                return Some(at);
            }
            level -= 1;
        }
    }
}

impl Allocator for LinuxIdr {
    fn allocate(&mut self) -> Option<Id> {
        let first = if self.next < self.pid_max { self.search(self.next) } else { None };
        let id =
            first.filter(|&id| id < self.pid_max).or_else(|| self.search(RESERVED)).filter(|&id| id < self.pid_max)?;
        self.place(id);
        self.next = id + 1;
        Some(id)
    }

    fn place(&mut self, id: Id) -> bool {
        let mut at = id;
        for nodes in &mut self.levels {
            let node = &mut nodes[(at / BRANCHES) as usize];
            *node &= !(1 << (at % BRANCHES));
            if *node != 0 {
                break;
            }
            at /= BRANCHES;
        }
        true
    }

    /// Sets the bit of a number, and the bits above it that change.
    fn release(&mut self, id: Id) {
        let mut at = id;
        for nodes in &mut self.levels {
            let node = &mut nodes[(at / BRANCHES) as usize];
            let was_full = *node == 0;
            *node |= 1 << (at % BRANCHES);
            if !was_full {
                break;
            }
            at /= BRANCHES;
        }
    }

    fn visits(&self) -> u64 {
        self.visits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three levels: a descent reads three nodes; behind a full leaf it climbs once and descends again.
    #[test]
    fn a_search_reads_the_nodes_on_its_path() {
        let mut tree = LinuxIdr::new(100_000);
        let reads = |tree: &mut LinuxIdr| {
            let before = tree.visits;
            (tree.allocate(), tree.visits - before)
        };
        assert_eq!(reads(&mut tree), (Some(300), 3));
        (320..384).for_each(|id| assert!(tree.place(id)));
        (301..319).for_each(|_| assert!(tree.allocate().is_some()));
        assert_eq!(reads(&mut tree), (Some(319), 3));
        // 320 to 383 is a full leaf. The bit above it is clear, so the leaf is not read.
        assert_eq!(reads(&mut tree), (Some(384), 3));
        (386..512).for_each(|id| assert!(tree.place(id)));
        tree.next = 386;
        // The leaf has 385 free, but nothing after 386: down to the next leaf, which is full, and to the one after it.
        assert_eq!(reads(&mut tree), (Some(512), 5));
    }

    /// 300,000 numbers make four levels. A node whose branches are all taken is read on the way, as in the original:
    /// after climbing, the bits of the node above it are not checked again.
    #[test]
    fn a_search_climbs_more_than_one_level() {
        let mut tree = LinuxIdr::new(300_000);
        let allocate = |tree: &mut LinuxIdr, next: Id| {
            let before = tree.visits;
            tree.next = next;
            (tree.allocate(), tree.visits - before)
        };
        assert_eq!(tree.levels.iter().map(Vec::len).collect::<Vec<_>>(), [4_688, 74, 2, 1]);
        assert_eq!(allocate(&mut tree, 70_000), (Some(70_000), 4));
        (4_090..8_192).for_each(|id| assert!(tree.place(id)));
        // Down four levels; up two, to the full node of 4,096 to 8,191; up again, and down two to 8,192.
        assert_eq!(allocate(&mut tree, 4_090), (Some(8_192), 7));
        (262_100..262_144).for_each(|id| assert!(tree.place(id)));
        // Up to the root and down its second branch.
        assert_eq!(allocate(&mut tree, 262_100), (Some(262_144), 7));
        // After the last number, the search restarts at the first one.
        assert_eq!(allocate(&mut tree, 300_000), (Some(300), 4));
    }
}
