//! The code of the running kernel, read by a BPF program: `/proc/kcore` does not exist on every kernel.

use crate::bpf::{Assembler, Helper, Jump, Program, Register, Size};
use crate::error::Result;

/// A reader of the kernel's memory.
#[derive(Debug)]
pub struct KernelText(Program);

impl KernelText {
    /// Loads the program that reads.
    ///
    /// # Errors
    ///
    /// EPERM without `CAP_BPF` and `CAP_PERFMON` (before Linux 5.8: `CAP_SYS_ADMIN`); EINVAL before Linux 5.5, and on a
    /// kernel that is locked down.
    pub fn open() -> Result<Self> {
        let mut code = Assembler::new();
        code.load(Size::Double, Register::R3, Register::R1, 0);
        code.frame(Register::R1, -8).set(Register::R2, 4).call(Helper::ReadKernel);
        code.jump_imm(Jump::Ne, Register::R0, 0, "unreadable");
        code.load(Size::Word, Register::R0, Register::R10, -8).exit();
        code.label("unreadable").set(Register::R0, 0).exit();
        Ok(Self(Program::load(&code.finish())?))
    }

    /// Returns the four bytes at an address; 0 if they cannot be read.
    ///
    /// # Errors
    ///
    /// ENOTSUPP (524) before Linux 5.10.
    pub fn word(&self, address: u64) -> Result<u32> {
        self.0.run(&[address])
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// The kernel's code differs from one kernel to another, but is not all zeros, and the first page is not mapped.
    #[test]
    fn the_code_of_the_kernel_is_read() {
        let symbols = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
        let line = symbols.lines().find(|line| line.ends_with(" T _raw_spin_lock"));
        let address = line.and_then(|line| u64::from_str_radix(line.split(' ').next()?, 16).ok()).unwrap_or(0);
        let read = || KernelText::open().and_then(|text| Ok((text.word(address)?, text)));
        let (word, text) = match read() {
            Ok(read) if address != 0 => read,
            found => return eprintln!("skipped: {found:?}, _raw_spin_lock at {address:#x}"),
        };
        assert_ne!(word, 0);
        assert_eq!(text.word(16).unwrap(), 0);
    }
}
