//! Chains of calls, and how many instructions each function executed in each.
//!
//! Which function runs is always known: it is where the block stands. By which chain of calls it was reached is
//! followed from block to block: a block that ended in a call is followed by a callee, one that ended in a return by
//! somebody further up, and an entry of the kernel (system call, fault, interrupt) is put on top of what it
//! interrupted. What jumps elsewhere takes its caller's place, as a tail call does; the thunks that stand in for
//! indirect calls come out right by the same rule. After a switch to another task the chain is that of the task that
//! was left, until the next system call: functions are right there, chains are not.

use crate::output::Output;
use crate::symbols::USER;
use alloc::vec::Vec;

/// A symbol where the kernel is entered: system call, fault, interrupt.
pub(crate) const ENTRY: u32 = 1;

/// A symbol where a page fault enters: the instruction that failed was counted and will be again.
pub(crate) const FAULT: u32 = 2;

/// Chains longer than this are not followed further.
const DEEPEST: u32 = 250;

/// More nodes than any lap of a kernel needs; beyond, chains are cut short and the output says so.
const MOST_NODES: usize = 1 << 20;

/// How a block goes on at its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Exit {
    /// Anywhere else: a jump, or simply the next block.
    Jump,
    /// A call.
    Call,
    /// A return from a call.
    Return,
    /// A return from an entry of the kernel.
    Leave,
}

/// A piece of translated code that belongs to one function.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    pub(crate) function: u32,
    /// [`ENTRY`], [`FAULT`].
    pub(crate) traits: u32,
    /// Whether it is the function's first instruction.
    pub(crate) is_start: bool,
    /// Its instructions.
    pub(crate) length: u32,
    pub(crate) exit: Exit,
}

impl Exit {
    /// What an instruction's bytes say.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let is_prefix = |byte: u8| matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x40..=0x4f | 0x64..=0x67 | 0xf2 | 0xf3);
        let start = bytes.iter().position(|&byte| !is_prefix(byte)).unwrap_or(0);
        match bytes[start..] {
            [0xe8, ..] => Self::Call,
            // The middle bits of the second byte select the operation: 2 and 3 are calls.
            [0xff, operands, ..] if matches!(operands >> 3 & 7, 2 | 3) => Self::Call,
            [0xc2 | 0xc3 | 0xca | 0xcb, ..] => Self::Return,
            [0xcf, ..] | [0x0f, 0x07 | 0x35, ..] => Self::Leave,
            _ => Self::Jump,
        }
    }
}

impl Block {
    /// All of it in one word, which qemu hands to the callback.
    pub(crate) fn pack(self) -> u64 {
        let exit = match self.exit {
            Exit::Jump => 0,
            Exit::Call => 1,
            Exit::Return => 2,
            Exit::Leave => 3,
        };
        u64::from(self.function)
            | u64::from(self.length & 0xffff) << 32
            | exit << 48
            | u64::from(self.traits & 3) << 50
            | u64::from(self.is_start) << 52
    }

    /// The word's block.
    pub(crate) fn unpack(word: u64) -> Self {
        let exit = match word >> 48 & 3 {
            1 => Exit::Call,
            2 => Exit::Return,
            3 => Exit::Leave,
            _ => Exit::Jump,
        };
        Self {
            function: word as u32,
            length: (word >> 32 & 0xffff) as u32,
            exit,
            traits: (word >> 50 & 3) as u32,
            is_start: word >> 52 & 1 == 1,
        }
    }
}

/// A function in a chain of calls.
struct Node {
    parent: u32,
    function: u32,
    depth: u32,
    first_child: u32,
    next_sibling: u32,
    /// Instructions of this lap.
    count: u64,
}

/// The first node: the measured program.
const ROOT: u32 = 0;

/// All chains that were met, and where in them the guest is.
pub(crate) struct Tree {
    nodes: Vec<Node>,
    /// Nodes that have a count.
    touched: Vec<u32>,
    top: u32,
    /// The block that runs, and the counter when it was entered.
    block: Block,
    entered: u64,
    /// The counter when something was last given to a node.
    settled: u64,
}

impl Tree {
    /// The measured program alone.
    pub(crate) fn new() -> Self {
        let root = Node { parent: ROOT, function: USER, depth: 0, first_child: ROOT, next_sibling: ROOT, count: 0 };
        let block = Block { function: USER, traits: 0, is_start: false, length: 0, exit: Exit::Jump };
        Self { nodes: Vec::from([root]), touched: Vec::new(), top: ROOT, block, entered: 0, settled: 0 }
    }

    /// A lap begins, in the measured program.
    pub(crate) fn begin(&mut self, now: u64) {
        self.clear();
        self.top = ROOT;
        self.block = Block { function: USER, traits: 0, is_start: false, length: 0, exit: Exit::Jump };
        self.entered = now;
        self.settled = now;
    }

    /// A lap ends: its counts go out.
    pub(crate) fn end(&mut self, now: u64, phase: u8, output: &mut Output) {
        self.settle(now);
        output.lap(phase, self.touched.len());
        for &node in &self.touched {
            output.count(node, self.nodes[node as usize].count);
        }
        output.write();
        self.clear();
    }

    /// A block is entered.
    pub(crate) fn enter(&mut self, now: u64, block: Block, output: &mut Output) {
        let is_whole = now - self.entered >= u64::from(self.block.length);
        // An instruction that could not reach its memory was counted, though it has not happened; it will be counted
        // once more when it does.
        let failed = u64::from(block.traits & FAULT != 0 && block.is_start && !is_whole);
        self.settle(now - failed);
        self.settled = now;
        let exit = if is_whole { self.block.exit } else { Exit::Jump };
        self.top = self.next(block, exit, output);
        self.block = block;
        self.entered = now;
    }

    /// Where a block leads that follows the current one.
    fn next(&mut self, block: Block, exit: Exit, output: &mut Output) -> u32 {
        let Node { parent, function, depth, .. } = self.nodes[self.top as usize];
        if block.function == USER {
            return ROOT;
        }
        let is_back = matches!(exit, Exit::Return | Exit::Leave) && !block.is_start;
        let is_entry = block.traits & ENTRY != 0 && block.function != function && !is_back;
        if is_entry || self.top == ROOT || (exit == Exit::Call && depth < DEEPEST) {
            return self.child(self.top, block.function, output);
        }
        match exit {
            _ if is_back => {
                let back = self.above(parent, block.function);
                back.unwrap_or_else(|| self.child(parent, block.function, output))
            }
            // Something was put on the stack for this return to find, as the thunks do: the two of them are gone.
            Exit::Return => {
                let caller = self.nodes[parent as usize].parent;
                self.child(if parent == ROOT { ROOT } else { caller }, block.function, output)
            }
            _ if block.function == function => self.top,
            _ => self.child(parent, block.function, output),
        }
    }

    /// The nearest node of a function from `node` upwards.
    fn above(&self, mut node: u32, function: u32) -> Option<u32> {
        while node != ROOT {
            if self.nodes[node as usize].function == function {
                return Some(node);
            }
            node = self.nodes[node as usize].parent;
        }
        None
    }

    /// The node of a function that `parent` calls.
    fn child(&mut self, parent: u32, function: u32, output: &mut Output) -> u32 {
        let Node { first_child, depth, .. } = self.nodes[parent as usize];
        let mut node = first_child;
        while node != ROOT {
            if self.nodes[node as usize].function == function {
                return node;
            }
            node = self.nodes[node as usize].next_sibling;
        }
        if self.nodes.len() >= MOST_NODES {
            output.overflow();
            return parent;
        }
        let node = self.nodes.len() as u32;
        let (depth, next_sibling) = (depth + 1, first_child);
        self.nodes.push(Node { parent, function, depth, first_child: ROOT, next_sibling, count: 0 });
        self.nodes[parent as usize].first_child = node;
        output.node(parent, function);
        node
    }

    /// Gives what was counted since the last time to where the guest is.
    fn settle(&mut self, now: u64) {
        let count = now.saturating_sub(self.settled);
        self.settled = now;
        let node = &mut self.nodes[self.top as usize];
        if node.count == 0 && count > 0 {
            self.touched.push(self.top);
        }
        node.count += count;
    }

    fn clear(&mut self) {
        for &node in &self.touched {
            self.nodes[node as usize].count = 0;
        }
        self.touched.clear();
    }
}
