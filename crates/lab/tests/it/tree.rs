//! The call chains of the plugin that counts instructions, from block to block.

#![allow(clippy::unused_self, reason = "the stub has the methods of the real output")]

/// The part of the plugin that follows the blocks. The plugin is built without the standard library, and is no crate
/// that a test could depend on.
#[path = "../../plugin/tree.rs"]
#[allow(dead_code, reason = "qemu's callbacks use the rest")]
mod chains;

mod symbols {
    pub(crate) const USER: u32 = 0;
}

mod output {
    use std::collections::BTreeMap;

    /// What the plugin would write: the nodes, and the counts of the last timed call.
    #[derive(Default)]
    pub(crate) struct Output {
        pub(crate) nodes: Vec<(u32, u32)>,
        pub(crate) counts: BTreeMap<u32, u64>,
    }

    impl Output {
        pub(crate) fn node(&mut self, parent: u32, function: u32) {
            self.nodes.push((parent, function));
        }

        pub(crate) fn timed_call(&mut self, _phase: u8, _pairs: usize) {
            self.counts.clear();
        }

        pub(crate) fn count(&mut self, node: u32, count: u64) {
            self.counts.insert(node, count);
        }

        pub(crate) fn overflow(&mut self) {
            panic!("the tree is full");
        }

        pub(crate) fn write(&mut self) {}
    }
}

use chains::{Block, ENTRY, Exit, THUNK, Tree};
use output::Output;

/// Functions of the kernel, by number.
const NAMES: [&str; 9] = ["user", "unknown", "entry", "a", "b", "c", "d", "thunk", "timer"];

fn number(name: &str) -> u32 {
    NAMES.iter().position(|one| *one == name).unwrap() as u32
}

/// Runs blocks of ten instructions, each `(function, whether it is the start, how the block ends)`, and returns the
/// chains with their instructions.
fn counted(blocks: &[(&str, bool, Exit)]) -> Vec<(String, u64)> {
    let (mut tree, mut output, mut now) = (Tree::new(), Output::default(), 0);
    tree.begin(now);
    for &(name, is_start, exit) in blocks {
        let traits = match name {
            "entry" | "timer" => ENTRY,
            "thunk" => THUNK,
            _ => 0,
        };
        tree.enter(now, Block { function: number(name), traits, is_start, length: 10, exit }, &mut output);
        now += 10;
    }
    tree.end(now, 0, &mut output);
    let path = |node: u32| {
        let (mut names, mut at) = (Vec::new(), node);
        while at != 0 {
            let (parent, function) = output.nodes[at as usize - 1];
            names.push(NAMES[function as usize]);
            at = parent;
        }
        names.reverse();
        names.join(" ")
    };
    output.counts.iter().map(|(&node, &count)| (path(node), count)).collect()
}

fn expect(blocks: &[(&str, bool, Exit)], wanted: &[(&str, u64)]) {
    let wanted: Vec<(String, u64)> = wanted.iter().map(|&(chain, count)| (chain.to_owned(), count)).collect();
    assert_eq!(counted(blocks), wanted);
}

use Exit::{Call, Jump, Leave, Return};

#[test]
fn a_function_that_ends_in_a_jump_is_the_caller_of_the_other_and_both_are_left() {
    let blocks =
        [("entry", true, Call), ("a", true, Call), ("b", true, Jump), ("c", true, Return), ("a", false, Return)];
    expect(&blocks, &[("entry", 10), ("entry a", 20), ("entry a b", 10), ("entry a b c", 10)]);
}

/// Guards against returning to the inner of two calls of a recursive function, which is the one that jumped.
#[test]
fn a_recursive_function_that_jumps_returns_to_the_outer_call() {
    let blocks = [
        ("entry", true, Call),
        ("a", true, Call),
        ("a", true, Jump),
        ("b", true, Return),
        ("a", false, Call),
        ("c", true, Return),
    ];
    expect(&blocks, &[("entry", 10), ("entry a", 20), ("entry a a", 10), ("entry a a b", 10), ("entry a c", 10)]);
}

#[test]
fn a_thunk_is_replaced_by_the_function_that_it_jumps_to() {
    // `a` calls through a thunk, and `b` ends in a jump through one.
    let blocks = [
        ("entry", true, Call),
        ("a", true, Call),
        ("thunk", true, Jump),
        ("b", true, Jump),
        ("thunk", true, Jump),
        ("c", true, Return),
        ("a", false, Return),
    ];
    let wanted = [
        ("entry", 10),
        ("entry a", 20),
        ("entry a thunk", 10),
        ("entry a b", 10),
        ("entry a b thunk", 10),
        ("entry a b c", 10),
    ];
    expect(&blocks, &wanted);
    // A return through a thunk.
    let blocks =
        [("entry", true, Call), ("a", true, Call), ("b", true, Jump), ("thunk", true, Return), ("a", false, Jump)];
    expect(&blocks, &[("entry", 10), ("entry a", 20), ("entry a b", 10), ("entry a b thunk", 10)]);
}

/// Guards against making the interrupted function a callee of the interrupt's last part.
#[test]
fn an_interrupt_before_the_first_instruction_of_a_function_changes_no_chain() {
    // The last part of the interrupt has a name of its own.
    let blocks = [
        ("entry", true, Call),
        ("a", true, Call),
        ("timer", true, Jump),
        ("d", false, Leave),
        ("b", true, Return),
        ("a", false, Return),
    ];
    let wanted = [("entry", 10), ("entry a", 20), ("entry a timer", 10), ("entry a d", 10), ("entry a b", 10)];
    expect(&blocks, &wanted);
}

#[test]
fn functions_that_jump_in_a_circle_make_no_longer_chain() {
    let mut blocks = vec![("entry", true, Call), ("a", true, Call), ("b", true, Jump)];
    for _ in 0..400 {
        blocks.extend([("c", true, Jump), ("d", true, Jump), ("b", true, Jump)]);
    }
    let b = 10 + 4_000;
    expect(
        &blocks,
        &[("entry", 10), ("entry a", 10), ("entry a b", b), ("entry a b c", 4_000), ("entry a b c d", 4_000)],
    );
}

#[test]
fn a_jump_back_into_the_middle_of_a_function_makes_no_longer_chain() {
    let mut blocks = vec![("entry", true, Call), ("a", true, Jump)];
    for _ in 0..400 {
        blocks.extend([("b", true, Jump), ("a", false, Jump)]);
    }
    expect(&blocks, &[("entry", 10), ("entry a", 10 + 4_000), ("entry a b", 4_000)]);
}

#[test]
fn a_block_is_packed_into_a_number_and_back() {
    let block = Block { function: u32::MAX, traits: THUNK, is_start: true, length: 0xffff, exit: Leave };
    let same = Block::unpack(block.pack());
    assert_eq!(
        (same.function, same.traits, same.is_start, same.length, same.exit),
        (u32::MAX, THUNK, true, 0xffff, Leave)
    );
    assert!(!Block::unpack(Block { is_start: false, ..block }.pack()).is_start);
}
