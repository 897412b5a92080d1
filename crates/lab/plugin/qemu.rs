//! The required part of qemu's plugin interface, declared here so that building landau needs no qemu headers.
//!
//! There are two versions: 1, for qemu up to 8.2, where a counter is a variable of the plugin; and 3, for qemu 9.1 and
//! later, where counters belong to qemu, one for each CPU.

use alloc::vec::Vec;
use core::ffi::{c_int, c_uint, c_void};

/// qemu's name for this plugin.
pub(crate) type PluginId = u64;

/// Information about qemu; not used.
#[repr(C)]
pub struct Information {
    _private: [u8; 0],
}

/// A block of translated instructions; valid during the callback that received it.
#[repr(C)]
pub struct Block {
    _private: [u8; 0],
}

/// An instruction of a block; valid as long as the block.
#[repr(C)]
pub struct Instruction {
    _private: [u8; 0],
}

type OnTranslation = extern "C" fn(PluginId, *mut Block);
type OnExecution = extern "C" fn(c_uint, *mut c_void);
type OnExit = extern "C" fn(PluginId, *mut c_void);

unsafe extern "C" {
    fn qemu_plugin_register_vcpu_tb_trans_cb(id: PluginId, call: OnTranslation);
    fn qemu_plugin_register_atexit_cb(id: PluginId, call: OnExit, data: *mut c_void);
    fn qemu_plugin_register_vcpu_insn_exec_cb(
        instruction: *mut Instruction,
        call: OnExecution,
        flags: c_int,
        data: *mut c_void,
    );
    fn qemu_plugin_tb_n_insns(block: *const Block) -> usize;
    fn qemu_plugin_tb_get_insn(block: *const Block, index: usize) -> *mut Instruction;
    fn qemu_plugin_insn_vaddr(instruction: *const Instruction) -> u64;
}

/// No register is read or written by a callback: `QEMU_PLUGIN_CB_NO_REGS`.
const NO_REGISTERS: c_int = 0;

/// `QEMU_PLUGIN_INLINE_ADD_U64`.
const ADD: c_int = 0;

/// Registers a callback for every translated block.
pub(crate) fn on_translation(id: PluginId, call: OnTranslation) {
    // SAFETY: `id` is what qemu gave to `qemu_plugin_install`, which is what calls this.
    unsafe { qemu_plugin_register_vcpu_tb_trans_cb(id, call) };
}

/// Registers a callback for qemu's exit.
pub(crate) fn on_exit(id: PluginId, call: OnExit) {
    // SAFETY: as in `on_translation`.
    unsafe { qemu_plugin_register_atexit_cb(id, call, core::ptr::null_mut()) };
}

/// Registers a callback for every execution of an instruction, before it is counted. Callbacks of one instruction run
/// in the order of registration.
pub(crate) fn on_execution(instruction: *mut Instruction, call: OnExecution, data: u64) {
    let data = data as usize as *mut c_void;
    // SAFETY: `instruction` comes from `instructions`, within the callback that gave the block. `data` is a number
    // that is never dereferenced.
    unsafe { qemu_plugin_register_vcpu_insn_exec_cb(instruction, call, NO_REGISTERS, data) };
}

/// Returns the instructions of a block, in order.
pub(crate) fn instructions(block: *mut Block) -> Vec<*mut Instruction> {
    // SAFETY: `block` is what qemu gave to the callback that calls this.
    let count = unsafe { qemu_plugin_tb_n_insns(block) };
    // SAFETY: as above, and the index is below the count.
    (0..count).map(|index| unsafe { qemu_plugin_tb_get_insn(block, index) }).collect()
}

/// Returns the address of an instruction in the guest.
pub(crate) fn address(instruction: *mut Instruction) -> u64 {
    // SAFETY: `instruction` comes from `instructions`, within the callback that gave the block.
    unsafe { qemu_plugin_insn_vaddr(instruction) }
}

pub(crate) use version::{bytes, count, counted, prepare};

#[cfg(not(per_processor))]
mod version {
    //! Version 1: the counter is a variable of the plugin.

    use super::{ADD, Instruction};
    use core::ffi::{c_int, c_uint, c_void};
    use core::sync::atomic::{AtomicU64, Ordering};

    /// qemu reads this: the version that the plugin was written for.
    #[unsafe(no_mangle)]
    #[allow(non_upper_case_globals, reason = "the name is qemu's")]
    pub static qemu_plugin_version: c_int = 1;

    /// The number of the guest's instructions. The translated code adds to it; only the emulating thread writes and
    /// reads it.
    static COUNTER: AtomicU64 = AtomicU64::new(0);

    unsafe extern "C" {
        fn qemu_plugin_insn_data(instruction: *const Instruction) -> *const u8;
        fn qemu_plugin_insn_size(instruction: *const Instruction) -> usize;
        fn qemu_plugin_register_vcpu_insn_exec_inline(
            instruction: *mut Instruction,
            operation: c_int,
            counter: *mut c_void,
            amount: u64,
        );
    }

    /// Does nothing: the counter already exists.
    pub(crate) fn prepare() -> bool {
        true
    }

    /// Makes an instruction add one to the counter whenever it is executed.
    pub(crate) fn count(instruction: *mut Instruction) {
        // SAFETY: `instruction` comes from `instructions`, within the callback that gave the block; the counter is a
        // word that lives as long as the process.
        unsafe { qemu_plugin_register_vcpu_insn_exec_inline(instruction, ADD, COUNTER.as_ptr().cast(), 1) };
    }

    /// Returns the counter.
    pub(crate) fn counted(_processor: c_uint) -> u64 {
        COUNTER.load(Ordering::Relaxed)
    }

    /// Returns the bytes of an instruction, at most 16, in `buffer`.
    pub(crate) fn bytes(instruction: *mut Instruction, buffer: &mut [u8; 16]) -> &[u8] {
        // SAFETY: `instruction` comes from `instructions`, within the callback that gave the block.
        let size = unsafe { qemu_plugin_insn_size(instruction) }.min(buffer.len());
        // SAFETY: as above.
        let data = unsafe { qemu_plugin_insn_data(instruction) };
        // SAFETY: qemu keeps `size` bytes there during the callback, and `buffer` has room for them.
        unsafe { core::ptr::copy_nonoverlapping(data, buffer.as_mut_ptr(), size) };
        &buffer[..size]
    }
}

#[cfg(per_processor)]
mod version {
    //! Version 3: the counter is qemu's, one for each processor.

    use super::{ADD, Instruction};
    use core::ffi::{c_int, c_uint, c_void};
    use core::ptr::null_mut;
    use core::sync::atomic::{AtomicPtr, Ordering};

    /// qemu reads this: the version that the plugin was written for.
    #[unsafe(no_mangle)]
    #[allow(non_upper_case_globals, reason = "the name is qemu's")]
    pub static qemu_plugin_version: c_int = 3;

    /// A word in each row of a table that has one row for each processor.
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Counter {
        table: *mut c_void,
        offset: usize,
    }

    /// The table; qemu creates it in [`prepare`].
    static TABLE: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

    unsafe extern "C" {
        fn qemu_plugin_scoreboard_new(row_bytes: usize) -> *mut c_void;
        fn qemu_plugin_u64_get(counter: Counter, processor: c_uint) -> u64;
        fn qemu_plugin_insn_data(instruction: *const Instruction, to: *mut c_void, size: usize) -> usize;
        fn qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(
            instruction: *mut Instruction,
            operation: c_int,
            counter: Counter,
            amount: u64,
        );
    }

    fn counter() -> Counter {
        Counter { table: TABLE.load(Ordering::Relaxed), offset: 0 }
    }

    /// Makes qemu create the table.
    pub(crate) fn prepare() -> bool {
        // SAFETY: the function takes a size and may be called while the plugin is installed.
        let table = unsafe { qemu_plugin_scoreboard_new(8) };
        TABLE.store(table, Ordering::Relaxed);
        !table.is_null()
    }

    /// Makes an instruction add one to the counter whenever it is executed.
    pub(crate) fn count(instruction: *mut Instruction) {
        // SAFETY: `instruction` comes from `instructions`, within the callback that gave the block; the table was made
        // in `prepare` and is never freed.
        unsafe { qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(instruction, ADD, counter(), 1) };
    }

    /// Returns the counter.
    pub(crate) fn counted(processor: c_uint) -> u64 {
        // SAFETY: the table was made in `prepare`; qemu gave the processor's number to the callback that asks.
        unsafe { qemu_plugin_u64_get(counter(), processor) }
    }

    /// Returns the bytes of an instruction, at most 16, in `buffer`.
    pub(crate) fn bytes(instruction: *mut Instruction, buffer: &mut [u8; 16]) -> &[u8] {
        let room = buffer.len();
        // SAFETY: `instruction` comes from `instructions`, within the callback that gave the block; qemu writes at most
        // `room` bytes.
        let size = unsafe { qemu_plugin_insn_data(instruction, buffer.as_mut_ptr().cast(), room) };
        &buffer[..size.min(room)]
    }
}
