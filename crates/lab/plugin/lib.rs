//! A qemu plugin that counts the guest's instructions by kernel function, exactly.
//!
//! `crates/lab/build.rs` compiles it, without the Rust standard library and without qemu's headers, and landau includes
//! it. `landau explain` writes it to a private directory and starts qemu with
//! `-plugin FILE,symbols=SYMBOLS,out=COUNTS`.
//!
//! qemu adds code to the translation that increments a counter for every instruction. So nothing is sampled, and only
//! the executed part of an interrupted block counts. At the first instruction of each block, a callback attributes the
//! instructions since the last callback to the function that ran and its call chain ([`tree`]). The measured program
//! executes a no-op that no compiler emits before and after each timed call (`crates/sys/src/marker.rs`); the counts
//! between the two are kept, and written at the second one ([`output`]).
//!
//! The plugin does not change the guest's clock: with `-icount` it only makes the host slower.
//!
//! There is one CPU, as `-icount` requires: everything here runs in the thread that emulates it.
#![no_std]

extern crate alloc;

mod library;
mod output;
mod qemu;
mod symbols;
mod tree;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ffi::{c_char, c_int, c_uint, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};
use output::Output;
use qemu::{Block as Translation, Information, Instruction, PluginId};
use symbols::Symbols;
use tree::{Block, Exit, Tree};

/// The state of the callbacks.
struct State {
    symbols: Symbols,
    tree: Tree,
    output: Output,
    is_lap: bool,
}

/// Set once by [`qemu_plugin_install`], and never freed.
static STATE: AtomicPtr<State> = AtomicPtr::new(null_mut());

/// The bytes of the no-op that serves as a mark, except the last one: `nop dword ptr [rax+rax+…]` with `LAN` as the
/// displacement.
const MARK: [u8; 7] = [0x0f, 0x1f, 0x84, 0x00, b'L', b'A', b'N'];

/// The last byte of a mark (`crates/sys/src/marker.rs`): a pass begins; a call of phase 0 to 31 begins; such a call
/// ends.
const PASS: u8 = 0x01;
const BEGIN: u8 = 0x20;
const END: u8 = 0x40;
const PHASES: u8 = 0x20;

/// The instructions of a block that belong to one function.
struct Section {
    first: usize,
    block: Block,
}

/// qemu calls this once, after loading the plugin. A result other than zero makes qemu exit with a message.
///
/// # Safety
/// `argv` contains `argc` NUL-terminated strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: PluginId,
    _information: *const Information,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    let (mut symbols, mut out) = (None, None);
    for index in 0..usize::try_from(argc).unwrap_or(0) {
        // SAFETY: the caller's promise: there are `argc` pointers.
        let word = unsafe { argv.add(index) };
        // SAFETY: as above: each is a string that ends with a zero byte, and qemu keeps it until this returns.
        let word = unsafe { library::string(word) };
        if word.starts_with(b"symbols=") {
            symbols = Symbols::read(&word[8..]);
        } else if word.starts_with(b"out=") {
            out = Output::create(&word[4..]);
        }
    }
    let (Some(symbols), Some(output)) = (symbols, out) else {
        library::complain(
            "landau's plugin: needs symbols=FILE (readable) and out=FILE (writable)\n",
        );
        return 1;
    };
    if !qemu::prepare() {
        return 1;
    }
    let state = State { symbols, tree: Tree::new(), output, is_lap: false };
    STATE.store(Box::into_raw(Box::new(state)), Ordering::Release);
    qemu::on_translation(id, translated);
    qemu::on_exit(id, ended);
    0
}

/// Returns the state, for the duration of a callback.
fn state() -> &'static mut State {
    // SAFETY: `qemu_plugin_install` stored a live box before it registered the first callback. Callbacks run one at a
    // time, in the thread of the only processor (at the exit, once that has stopped), none calls another, and each
    // takes this reference once.
    unsafe { &mut *STATE.load(Ordering::Acquire) }
}

/// Called after qemu translated a block: adds the counter to instructions, and callbacks to sections and marks.
extern "C" fn translated(_id: PluginId, translation: *mut Translation) {
    let state = state();
    let instructions = qemu::instructions(translation);
    let mut sections = sections(&state.symbols, &instructions).into_iter().peekable();
    for (index, &instruction) in instructions.iter().enumerate() {
        if let Some(section) = sections.next_if(|section| section.first == index) {
            qemu::on_execution(instruction, entered, section.block.pack());
        }
        if let Some(mark) = mark(instruction) {
            qemu::on_execution(instruction, marked, u64::from(mark));
        }
        qemu::count(instruction);
    }
}

/// Splits the instructions of a block into sections, one for each function.
fn sections(symbols: &Symbols, instructions: &[*mut Instruction]) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::with_capacity(2);
    let mut ends = 0;
    for (index, &instruction) in instructions.iter().enumerate() {
        let address = qemu::address(instruction);
        if sections.is_empty() || address >= ends {
            let symbol = symbols.find(address);
            ends = symbol.end;
            let block = Block {
                function: symbol.function,
                traits: symbol.traits,
                is_start: address == symbol.start,
                length: 0,
                exit: Exit::Jump,
            };
            sections.push(Section { first: index, block });
        }
        if let Some(section) = sections.last_mut() {
            section.block.length += 1;
        }
    }
    if let (Some(section), Some(&last)) = (sections.last_mut(), instructions.last()) {
        let mut bytes = [0; 16];
        section.block.exit = Exit::of(qemu::bytes(last, &mut bytes));
    }
    sections
}

/// Returns the last byte of a mark; `None` for any other instruction.
fn mark(instruction: *mut Instruction) -> Option<u8> {
    let mut bytes = [0; 16];
    let bytes = qemu::bytes(instruction, &mut bytes);
    (bytes.len() == 8 && bytes[..7] == MARK).then(|| bytes[7])
}

/// Called before a section of a block runs.
extern "C" fn entered(processor: c_uint, packed: *mut c_void) {
    let state = state();
    if state.is_lap {
        state.tree.enter(qemu::counted(processor), Block::unpack(packed as u64), &mut state.output);
    }
}

/// Called before the measured program executes a mark.
extern "C" fn marked(processor: c_uint, mark: *mut c_void) {
    let state = state();
    let now = qemu::counted(processor);
    match mark as usize as u8 {
        PASS => {
            state.is_lap = false;
            state.output.pass();
        }
        mark if (BEGIN..BEGIN + PHASES).contains(&mark) => {
            state.tree.begin(now);
            state.is_lap = true;
        }
        mark if state.is_lap && (END..END + PHASES).contains(&mark) => {
            state.tree.end(now, mark - END, &mut state.output);
            state.is_lap = false;
        }
        _ => {}
    }
}

/// Called before qemu exits.
extern "C" fn ended(_id: PluginId, _data: *mut c_void) {
    state().output.end();
}
