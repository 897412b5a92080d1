//! Call chains, and the number of instructions that each function executed in each.
//!
//! The current function is always known from the block's address. The call chain is tracked from block to block: a
//! block that ends in a call is followed by a callee, and one that ends in a return by a caller. A kernel entry (system
//! call, fault, interrupt) is a child of the function that it interrupted. If a function jumps to the start of another
//! one, or runs into it, that is a tail call: the other function is its child, and a return leaves both. A thunk for
//! indirect calls is replaced by the function that it jumps to. After a task switch, the chain remains that of the
//! previous task until the next system call: functions are then correct, but chains are not.

use super::output::Output;
use super::symbols::USER;
use alloc::vec::Vec;

/// The trait of a symbol that is a kernel entry: system call, fault, interrupt.
pub(crate) const ENTRY: u32 = 1;

/// The trait of a symbol that is the entry of page faults: the faulting instruction was counted and will be counted
/// again.
pub(crate) const FAULT: u32 = 2;

/// The trait of a symbol that only forwards a call or a return, or is a part of the kernel's exit.
pub(crate) const THUNK: u32 = 4;

/// The maximum length of a chain.
const DEEPEST: u32 = 250;

/// The maximum number of nodes, more than any timed call needs. Beyond it, chains are incomplete and the output says
/// so.
const MOST_NODES: usize = 1 << 20;

/// How a block ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Exit {
    /// A jump, or the next block.
    Jump,
    /// A call.
    Call,
    /// A return from a call.
    Return,
    /// A return from an interrupt, fault or system call.
    Leave,
}

/// Translated code that belongs to one function.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    pub(crate) function: u32,
    /// [`ENTRY`], [`FAULT`], [`THUNK`].
    pub(crate) traits: u32,
    /// Whether it is the function's first instruction.
    pub(crate) is_start: bool,
    /// Its instructions.
    pub(crate) length: u32,
    pub(crate) exit: Exit,
}

impl Exit {
    /// Returns how a block ends, from the bytes of its last instruction.
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
    /// Encodes the block as one number, which qemu passes to the callback.
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
            | u64::from(self.traits & 7) << 50
            | u64::from(self.is_start) << 53
    }

    /// Decodes a block.
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
            traits: (word >> 50 & 7) as u32,
            is_start: word >> 53 & 1 == 1,
        }
    }
}

/// A function in a call chain.
struct Node {
    parent: u32,
    function: u32,
    depth: u32,
    first_child: u32,
    next_sibling: u32,
    /// Whether its parent jumped to it instead of calling it, the last time that it was entered.
    is_jumped_to: bool,
    /// Instructions of the current timed call.
    count: u64,
}

impl Node {
    fn new(parent: u32, function: u32, depth: u32, next_sibling: u32) -> Self {
        Self { parent, function, depth, first_child: ROOT, next_sibling, is_jumped_to: false, count: 0 }
    }
}

/// The root: the measured program.
const ROOT: u32 = 0;

/// All call chains so far, and the guest's position in them.
pub(crate) struct Tree {
    nodes: Vec<Node>,
    /// The nodes with a count.
    touched: Vec<u32>,
    top: u32,
    /// The running block, and the counter at its entry.
    block: Block,
    entered: u64,
    /// The counter at the last attribution.
    settled: u64,
}

impl Tree {
    /// Returns a tree with only the root.
    pub(crate) fn new() -> Self {
        let block = Block { function: USER, traits: 0, is_start: false, length: 0, exit: Exit::Jump };
        let nodes = Vec::from([Node::new(ROOT, USER, 0, ROOT)]);
        Self { nodes, touched: Vec::new(), top: ROOT, block, entered: 0, settled: 0 }
    }

    /// Begins a timed call, in the measured program.
    pub(crate) fn begin(&mut self, now: u64) {
        self.clear();
        self.top = ROOT;
        self.block = Block { function: USER, traits: 0, is_start: false, length: 0, exit: Exit::Jump };
        self.entered = now;
        self.settled = now;
    }

    /// Ends a timed call and writes its counts.
    pub(crate) fn end(&mut self, now: u64, phase: u8, output: &mut Output) {
        self.settle(now);
        output.timed_call(phase, self.touched.len());
        for &node in &self.touched {
            output.count(node, self.nodes[node as usize].count);
        }
        output.write();
        self.clear();
    }

    /// Enters a block.
    pub(crate) fn enter(&mut self, now: u64, block: Block, output: &mut Output) {
        let is_whole = now - self.entered >= u64::from(self.block.length);
        // An instruction that caused a page fault was counted without being executed; it will be counted again.
        let failed = u64::from(block.traits & FAULT != 0 && block.is_start && !is_whole);
        self.settle(now - failed);
        self.settled = now;
        let exit = if is_whole { self.block.exit } else { Exit::Jump };
        self.top = self.next(block, exit, output);
        self.block = block;
        self.entered = now;
    }

    /// Returns the node of a block that follows the current one.
    fn next(&mut self, block: Block, exit: Exit, output: &mut Output) -> u32 {
        let Node { parent, function, depth, is_jumped_to, .. } = self.nodes[self.top as usize];
        if block.function == USER {
            return ROOT;
        }
        let is_back = matches!(exit, Exit::Return | Exit::Leave) && !block.is_start;
        let is_entry = block.traits & ENTRY != 0 && block.function != function && !is_back;
        if is_entry || self.top == ROOT || (exit == Exit::Call && depth < DEEPEST) {
            return self.child(self.top, block.function, false, output);
        }
        match exit {
            _ if is_back => {
                let caller = self.caller(self.top);
                let back = self.above(caller, block.function);
                back.unwrap_or_else(|| self.child(caller, block.function, false, output))
            }
            // A return to an address that was pushed, as thunks do: leaves both the thunk and its caller.
            Exit::Return => {
                let Node { parent: caller, is_jumped_to, .. } = self.nodes[parent as usize];
                self.child(caller, block.function, is_jumped_to, output)
            }
            _ if block.function == function => self.top,
            Exit::Jump => {
                // The entries and exits of the kernel consist of parts with names of their own.
                let is_tail_call = block.is_start && self.block.traits & (ENTRY | THUNK) == 0 && depth < DEEPEST;
                let before = self.jumped_before(block.function);
                let (above, is_jumped_to) = if is_tail_call { (self.top, true) } else { (parent, is_jumped_to) };
                before.unwrap_or_else(|| self.child(above, block.function, is_jumped_to, output))
            }
            _ => self.child(parent, block.function, is_jumped_to, output),
        }
    }

    /// Returns the node of a function among those that led to the current one by jumps: functions may jump in a circle.
    fn jumped_before(&self, function: u32) -> Option<u32> {
        let mut node = self.top;
        while self.nodes[node as usize].is_jumped_to {
            node = self.nodes[node as usize].parent;
            if self.nodes[node as usize].function == function {
                return Some(node);
            }
        }
        None
    }

    /// Returns the node to which a return from `node` leads.
    fn caller(&self, mut node: u32) -> u32 {
        while self.nodes[node as usize].is_jumped_to {
            node = self.nodes[node as usize].parent;
        }
        self.nodes[node as usize].parent
    }

    /// Returns the nearest node of a function, from `node` towards the root.
    fn above(&self, mut node: u32, function: u32) -> Option<u32> {
        while node != ROOT {
            if self.nodes[node as usize].function == function {
                return Some(node);
            }
            node = self.nodes[node as usize].parent;
        }
        None
    }

    /// Returns the node of a function that `parent` calls or jumps to.
    fn child(&mut self, parent: u32, function: u32, is_jumped_to: bool, output: &mut Output) -> u32 {
        let Node { first_child, depth, .. } = self.nodes[parent as usize];
        let mut node = first_child;
        while node != ROOT && self.nodes[node as usize].function != function {
            node = self.nodes[node as usize].next_sibling;
        }
        if node == ROOT {
            if self.nodes.len() >= MOST_NODES {
                output.overflow();
                return parent;
            }
            node = self.nodes.len() as u32;
            self.nodes.push(Node::new(parent, function, depth + 1, first_child));
            self.nodes[parent as usize].first_child = node;
            output.node(parent, function);
        }
        self.nodes[node as usize].is_jumped_to = is_jumped_to;
        node
    }

    /// Attributes the instructions since the last attribution to the current node.
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
