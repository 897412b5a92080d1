//! Instructions of a BPF program, and labels to jump to.
//!
//! Source: RFC 9669, "BPF Instruction Set Architecture".

use super::Map;
use std::collections::HashMap;
use std::os::fd::AsRawFd;

/// An instruction in the kernel's encoding.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    code: u8,
    /// Destination in the low four bits, source in the high ones.
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// A register. R0 holds results; R1 to R5 hold arguments and are clobbered by a call; R6 to R9 are preserved across
/// calls; R10 is the end of the stack frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Register {
    /// Result.
    R0,
    /// First argument.
    R1,
    /// Second argument.
    R2,
    /// Third argument.
    R3,
    /// Fourth argument.
    R4,
    /// Fifth argument.
    R5,
    /// Preserved across calls.
    R6,
    /// Preserved across calls.
    R7,
    /// Preserved across calls.
    R8,
    /// Preserved across calls.
    R9,
    /// The end of the stack frame; read-only.
    R10,
}

/// The number of bytes that are loaded or stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// 1 byte.
    Byte = 0x10,
    /// 2 bytes.
    Half = 0x08,
    /// 4 bytes.
    Word = 0x00,
    /// 8 bytes.
    Double = 0x18,
}

/// A 64-bit arithmetic operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alu {
    /// Addition.
    Add = 0x00,
    /// Bitwise or.
    Or = 0x40,
    /// Bitwise and.
    And = 0x50,
    /// Shift to the left.
    ShiftLeft = 0x60,
    /// Shift to the right, unsigned.
    ShiftRight = 0x70,
}

/// An unsigned 64-bit condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Jump {
    /// Equal.
    Eq = 0x10,
    /// Greater.
    Gt = 0x20,
    /// Greater or equal.
    Ge = 0x30,
    /// Any bit in common.
    Set = 0x40,
    /// Not equal.
    Ne = 0x50,
}

/// A function of the kernel that programs may call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Helper {
    /// `bpf_map_lookup_elem(map, key)`: the address of the value, or 0.
    MapLookup = 1,
    /// `bpf_map_update_elem(map, key, value, flags)`.
    MapUpdate = 2,
    /// `bpf_ktime_get_ns()`: `CLOCK_MONOTONIC`.
    Time = 5,
    /// `bpf_get_current_pid_tgid()`: the process in the high half, the thread in the low one.
    ThreadId = 14,
    /// `bpf_get_current_task()`: the address of the thread's `task_struct`.
    Task = 35,
    /// `bpf_probe_read_user(to, bytes, from)`.
    ReadUser = 112,
    /// `bpf_probe_read_kernel(to, bytes, from)`.
    ReadKernel = 113,
}

const LOAD: u8 = 0x61;
const STORE_IMM: u8 = 0x62;
const STORE: u8 = 0x63;
const ATOMIC: u8 = 0xc3;
const SET: u8 = 0xb7;
const COPY: u8 = 0xbf;
const ALU_IMM: u8 = 0x07;
const ALU: u8 = 0x0f;
const JUMP_IMM: u8 = 0x05;
const JUMP: u8 = 0x0d;
const ALWAYS: u8 = 0x05;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
/// Sets a register to a value that is encoded in two instructions; with source 1, the value is the descriptor of a map.
const SET_WIDE: u8 = 0x18;

/// Writes a program.
#[derive(Debug, Default)]
pub struct Assembler {
    code: Vec<Instruction>,
    labels: HashMap<String, usize>,
    /// Jumps whose distance is not known yet.
    jumps: Vec<(usize, String)>,
}

impl Assembler {
    /// Returns an empty program.
    pub fn new() -> Self {
        Self::default()
    }

    fn add(&mut self, code: u8, to: Register, from: u8, offset: i16, immediate: i32) -> &mut Self {
        self.code.push(Instruction { code, registers: to as u8 | from << 4, offset, immediate });
        self
    }

    /// `to = value`, sign-extended.
    pub fn set(&mut self, to: Register, value: i32) -> &mut Self {
        self.add(SET, to, 0, 0, value)
    }

    /// `to = from`.
    pub fn copy(&mut self, to: Register, from: Register) -> &mut Self {
        self.add(COPY, to, from as u8, 0, 0)
    }

    /// `to = R10 + offset`: an address in the stack frame.
    pub fn frame(&mut self, to: Register, offset: i16) -> &mut Self {
        self.copy(to, Register::R10).alu_imm(Alu::Add, to, i32::from(offset))
    }

    /// `to = map`.
    pub fn map(&mut self, to: Register, map: &Map) -> &mut Self {
        self.add(SET_WIDE, to, 1, 0, map.fd.as_raw_fd());
        self.add(0, Register::R0, 0, 0, 0)
    }

    /// `to = to OPERATION value`.
    pub fn alu_imm(&mut self, operation: Alu, to: Register, value: i32) -> &mut Self {
        self.add(ALU_IMM | operation as u8, to, 0, 0, value)
    }

    /// `to = to OPERATION from`.
    pub fn alu(&mut self, operation: Alu, to: Register, from: Register) -> &mut Self {
        self.add(ALU | operation as u8, to, from as u8, 0, 0)
    }

    /// `to = memory[from + offset]`.
    pub fn load(&mut self, size: Size, to: Register, from: Register, offset: i16) -> &mut Self {
        self.add(LOAD | size as u8, to, from as u8, offset, 0)
    }

    /// `memory[to + offset] = from`.
    pub fn store(&mut self, size: Size, to: Register, offset: i16, from: Register) -> &mut Self {
        self.add(STORE | size as u8, to, from as u8, offset, 0)
    }

    /// `memory[R10 + offset] = value`.
    pub fn store_imm(&mut self, size: Size, offset: i16, value: i32) -> &mut Self {
        self.add(STORE_IMM | size as u8, Register::R10, 0, offset, value)
    }

    /// `memory[to + offset] += from`, atomically; 4 or 8 bytes.
    pub fn add_to_memory(&mut self, size: Size, to: Register, offset: i16, from: Register) -> &mut Self {
        self.add(ATOMIC | size as u8, to, from as u8, offset, 0)
    }

    /// Calls a function of the kernel.
    pub fn call(&mut self, helper: Helper) -> &mut Self {
        self.add(CALL, Register::R0, 0, 0, helper as i32)
    }

    /// Jumps to a label if a register and a sign-extended value satisfy a condition.
    pub fn jump_imm(&mut self, condition: Jump, register: Register, value: i32, label: &str) -> &mut Self {
        self.jumps.push((self.code.len(), label.to_owned()));
        self.add(JUMP_IMM | condition as u8, register, 0, 0, value)
    }

    /// Jumps to a label if two registers satisfy a condition.
    pub fn jump_if(&mut self, condition: Jump, first: Register, second: Register, label: &str) -> &mut Self {
        self.jumps.push((self.code.len(), label.to_owned()));
        self.add(JUMP | condition as u8, first, second as u8, 0, 0)
    }

    /// Jumps to a label.
    pub fn jump(&mut self, label: &str) -> &mut Self {
        self.jumps.push((self.code.len(), label.to_owned()));
        self.add(ALWAYS, Register::R0, 0, 0, 0)
    }

    /// Defines a label at the next instruction.
    pub fn label(&mut self, name: &str) -> &mut Self {
        let before = self.labels.insert(name.to_owned(), self.code.len());
        debug_assert!(before.is_none(), "label {name} twice");
        self
    }

    /// Ends the program; R0 is its result.
    pub fn exit(&mut self) -> &mut Self {
        self.add(EXIT, Register::R0, 0, 0, 0)
    }

    /// Returns the program.
    ///
    /// # Panics
    ///
    /// If a jump has an unknown label, or is longer than 32,767 instructions: the program is part of the source.
    pub fn finish(mut self) -> Vec<Instruction> {
        for (place, label) in &self.jumps {
            let target = self.labels.get(label).copied();
            let distance = target.and_then(|target| i16::try_from(target as isize - *place as isize - 1).ok());
            assert!(distance.is_some(), "no label {label} within reach");
            self.code[*place].offset = distance.unwrap_or(0);
        }
        self.code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_have_the_encoding_of_the_standard() {
        let mut code = Assembler::new();
        code.copy(Register::R6, Register::R1).jump_imm(Jump::Ne, Register::R6, 3, "end");
        code.load(Size::Double, Register::R2, Register::R6, 8).store(Size::Word, Register::R10, -4, Register::R2);
        code.label("end").alu_imm(Alu::Add, Register::R2, -4).exit();
        let words: Vec<u64> = code
            .finish()
            .iter()
            .map(|one| {
                u64::from(one.code)
                    | u64::from(one.registers) << 8
                    | u64::from(one.offset as u16) << 16
                    | u64::from(one.immediate as u32) << 32
            })
            .collect();
        assert_eq!(words, [0x16bf, 0x3_0002_0655, 0x0008_6279, 0xfffc_2a63, 0xffff_fffc_0000_0207, 0x95]);
    }
}
