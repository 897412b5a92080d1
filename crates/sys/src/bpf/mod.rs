//! Linux's `bpf(2)`: maps, programs, and programs attached to raw tracepoints.
//!
//! A program is a list of [`Instruction`]s, which an [`Assembler`] writes. The kernel verifies a program before it
//! loads it: whatever the instructions are, the program ends, and it reads and writes only what it may. A raw
//! tracepoint is identified by name, so that no file of `tracefs` is needed. A program is detached when its [`Link`] is
//! dropped or the process ends, for whatever reason.

mod assembler;

pub use assembler::{Alu, Assembler, Helper, Instruction, Jump, Register, Size};

use crate::descriptor::own;
use crate::error::{Error, Result};
use std::ffi::CStr;
use std::os::fd::{AsRawFd, OwnedFd};

/// Byte offsets of the six arguments of a system call in the registers that `sys_enter` passes; `None` if they are not
/// known for this processor.
pub const ARGUMENTS: Option<[u16; 6]> = if cfg!(target_arch = "x86_64") {
    Some([112, 104, 96, 56, 72, 64])
} else if cfg!(target_arch = "aarch64") {
    Some([0, 8, 16, 24, 32, 40])
} else {
    None
};

/// The kind of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapKind {
    /// A hash table; it refuses more entries than its capacity.
    Hash,
    /// A hash table that drops the least recently used entry for a new one.
    LruHash,
    /// An array whose keys are numbers of 32 bits.
    Array,
}

/// Commands of `bpf`.
const MAP_CREATE: libc::c_int = 0;
const MAP_LOOKUP: libc::c_int = 1;
const MAP_UPDATE: libc::c_int = 2;
const MAP_NEXT_KEY: libc::c_int = 4;
const PROGRAM_LOAD: libc::c_int = 5;
const PROGRAM_RUN: libc::c_int = 10;
const RAW_TRACEPOINT_OPEN: libc::c_int = 17;

/// The type of a program for raw tracepoints.
const RAW_TRACEPOINT: u32 = 17;

/// The licence of programs: the helpers that read kernel memory require one that is compatible with the GPL.
const LICENSE: &CStr = c"Dual MIT/GPL";

#[repr(C)]
#[derive(Default)]
struct CreateMap {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    capacity: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct Element {
    map: u32,
    _unused: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct LoadProgram {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
}

/// The members of `BPF_PROG_TEST_RUN`.
#[repr(C)]
#[derive(Default)]
struct RunProgram {
    program: u32,
    result: u32,
    data_in_bytes: u32,
    data_out_bytes: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    context_bytes: u32,
    context_out_bytes: u32,
    context: u64,
    context_out: u64,
    flags: u32,
    processor: u32,
    batch: u32,
    _unused: u32,
}

#[repr(C)]
#[derive(Default)]
struct OpenRawTracepoint {
    name: u64,
    program: u32,
    _unused: u32,
}

/// Calls `bpf`.
///
/// # Safety
///
/// `attributes` has the type that the command expects, and the memory that it points to is as large as the command
/// states.
#[cfg(target_os = "linux")]
unsafe fn bpf<T>(command: libc::c_int, attributes: &mut T) -> libc::c_long {
    let bytes = std::mem::size_of::<T>() as libc::c_uint;
    // SAFETY: the structure is readable and writable, and the caller vouches for what it points to.
    unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attributes), bytes) }
}

/// The call does not exist here.
///
/// # Safety
///
/// Nothing is accessed.
#[cfg(not(target_os = "linux"))]
unsafe fn bpf<T>(_: libc::c_int, _: &mut T) -> libc::c_long {
    -1
}

fn result(call: &'static str, value: libc::c_long) -> Result<libc::c_int> {
    if cfg!(not(target_os = "linux")) {
        return Err(Error::unsupported(call));
    }
    if value < 0 { Err(Error::last(call)) } else { Ok(value as libc::c_int) }
}

/// A map: memory that programs and this process share.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
    key_bytes: usize,
    value_bytes: usize,
}

impl Map {
    /// Creates a map for keys and values of fixed lengths.
    ///
    /// # Errors
    ///
    /// EPERM without `CAP_BPF` (before Linux 5.8: `CAP_SYS_ADMIN`).
    pub fn new(kind: MapKind, key_bytes: u32, value_bytes: u32, capacity: u32) -> Result<Self> {
        let kind = match kind {
            MapKind::Hash => 1,
            MapKind::Array => 2,
            MapKind::LruHash => 9,
        };
        let mut attributes = CreateMap { kind, key_bytes, value_bytes, capacity, flags: 0 };
        // SAFETY: the command takes this structure, which has no pointers.
        let fd = result("bpf(BPF_MAP_CREATE)", unsafe { bpf(MAP_CREATE, &mut attributes) })?;
        Ok(Self { fd: own(fd), key_bytes: key_bytes as usize, value_bytes: value_bytes as usize })
    }

    /// Returns the value of a key; `None` if there is no such key.
    ///
    /// # Errors
    ///
    /// EINVAL if the key does not have the map's length.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.check(key)?;
        let mut value = vec![0; self.value_bytes];
        let mut attributes = self.element(key);
        attributes.value = value.as_mut_ptr() as u64;
        // SAFETY: the kernel reads as many bytes at `key` as the map's keys have, and writes as many to `value` as its
        // values have: no kind of map here has a value for each processor.
        match result("bpf(BPF_MAP_LOOKUP_ELEM)", unsafe { bpf(MAP_LOOKUP, &mut attributes) }) {
            Ok(_) => Ok(Some(value)),
            Err(error) if error.errno == libc::ENOENT => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sets the value of a key, unless `only_new` is set and the key has one.
    ///
    /// # Errors
    ///
    /// EINVAL if key or value do not have the map's lengths, EEXIST if a key that should be new has a value, E2BIG if
    /// the map is full.
    pub fn set(&self, key: &[u8], value: &[u8], only_new: bool) -> Result<()> {
        self.check(key)?;
        if value.len() != self.value_bytes {
            return Err(Error::invalid("bpf(BPF_MAP_UPDATE_ELEM)"));
        }
        let mut attributes = self.element(key);
        (attributes.value, attributes.flags) = (value.as_ptr() as u64, u64::from(only_new));
        // SAFETY: the kernel reads key and value, whose lengths were checked.
        result("bpf(BPF_MAP_UPDATE_ELEM)", unsafe { bpf(MAP_UPDATE, &mut attributes) }).map(drop)
    }

    /// Returns the keys of the map. Programs may add and remove keys meanwhile: those may be missing.
    ///
    /// # Errors
    ///
    /// The error of the system call.
    pub fn keys(&self) -> Result<Vec<Vec<u8>>> {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        loop {
            let mut next = vec![0; self.key_bytes];
            let mut attributes = Element { map: self.fd.as_raw_fd() as u32, ..Element::default() };
            attributes.key = keys.last().map_or(0, |key| key.as_ptr() as u64);
            attributes.value = next.as_mut_ptr() as u64;
            // SAFETY: the kernel reads a key of the map's length, or none where the address is null, and writes one.
            match result("bpf(BPF_MAP_GET_NEXT_KEY)", unsafe { bpf(MAP_NEXT_KEY, &mut attributes) }) {
                Ok(_) => keys.push(next),
                Err(error) if error.errno == libc::ENOENT => return Ok(keys),
                Err(error) => return Err(error),
            }
        }
    }

    fn check(&self, key: &[u8]) -> Result<()> {
        if key.len() == self.key_bytes { Ok(()) } else { Err(Error::invalid("bpf")) }
    }

    fn element(&self, key: &[u8]) -> Element {
        Element { map: self.fd.as_raw_fd() as u32, key: key.as_ptr() as u64, ..Element::default() }
    }
}

/// A program that the kernel has verified and loaded.
#[derive(Debug)]
pub struct Program(OwnedFd);

impl Program {
    /// Loads a program for raw tracepoints.
    ///
    /// # Errors
    ///
    /// EPERM without `CAP_BPF` and `CAP_PERFMON` (before Linux 5.8: `CAP_SYS_ADMIN`); EACCES or EINVAL if the verifier
    /// rejects the program.
    pub fn load(instructions: &[Instruction]) -> Result<Self> {
        let mut attributes = LoadProgram {
            kind: RAW_TRACEPOINT,
            count: instructions.len() as u32,
            instructions: instructions.as_ptr() as u64,
            license: LICENSE.as_ptr() as u64,
            ..LoadProgram::default()
        };
        // SAFETY: the kernel reads `count` instructions and a string that ends with a zero.
        let fd = result("bpf(BPF_PROG_LOAD)", unsafe { bpf(PROGRAM_LOAD, &mut attributes) })?;
        Ok(Self(own(fd)))
    }

    /// Returns the verifier's log of a program that it rejects; empty if it accepts the program.
    pub fn verifier_log(instructions: &[Instruction]) -> String {
        let mut log = vec![0_u8; 1 << 20];
        let mut attributes = LoadProgram {
            kind: RAW_TRACEPOINT,
            count: instructions.len() as u32,
            instructions: instructions.as_ptr() as u64,
            license: LICENSE.as_ptr() as u64,
            log_level: 1,
            log_bytes: log.len() as u32,
            log: log.as_mut_ptr() as u64,
        };
        // SAFETY: as in `load`; and the kernel writes at most as many bytes to the log as it has.
        let loaded = result("bpf(BPF_PROG_LOAD)", unsafe { bpf(PROGRAM_LOAD, &mut attributes) });
        if let Ok(fd) = loaded {
            drop(own(fd));
            return String::new();
        }
        let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
        String::from_utf8_lossy(&log[..end]).into_owned()
    }

    /// Runs the program once, now, with `arguments` in place of those of a tracepoint. Returns its result.
    ///
    /// # Errors
    ///
    /// EINVAL if the program reads more arguments. Linux before 5.10 cannot run such programs (ENOTSUPP, 524).
    pub fn run(&self, arguments: &[u64]) -> Result<u32> {
        let mut attributes = RunProgram {
            program: self.0.as_raw_fd() as u32,
            context_bytes: size_of_val(arguments) as u32,
            context: arguments.as_ptr() as u64,
            ..RunProgram::default()
        };
        // SAFETY: the kernel reads `context_bytes` bytes at `context`.
        result("bpf(BPF_PROG_TEST_RUN)", unsafe { bpf(PROGRAM_RUN, &mut attributes) })?;
        Ok(attributes.result)
    }

    /// Attaches the program to a raw tracepoint until the link is dropped.
    ///
    /// # Errors
    ///
    /// ENOENT if the kernel has no tracepoint of that name.
    pub fn attach(&self, tracepoint: &CStr) -> Result<Link> {
        let program = self.0.as_raw_fd() as u32;
        let mut attributes = OpenRawTracepoint { name: tracepoint.as_ptr() as u64, program, _unused: 0 };
        // SAFETY: the kernel reads a string that ends with a zero.
        let opened = unsafe { bpf(RAW_TRACEPOINT_OPEN, &mut attributes) };
        Ok(Link { _link: own(result("bpf(BPF_RAW_TRACEPOINT_OPEN)", opened)?) })
    }
}

/// A program that is attached to its tracepoint.
#[derive(Debug)]
pub struct Link {
    _link: OwnedFd,
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    /// Returns a map. If the kernel refuses this user, prints a message and returns `None`: there is nothing to test.
    fn map(kind: MapKind) -> Option<Map> {
        match Map::new(kind, 4, 8, 4) {
            Ok(map) => Some(map),
            Err(error) if error.is_not_permitted() || error.is_unsupported() => {
                eprintln!("skipped: {error}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn a_map_keeps_what_it_is_given_and_refuses_other_lengths() {
        let Some(map) = map(MapKind::Hash) else { return };
        map.set(&1_u32.to_ne_bytes(), &7_u64.to_ne_bytes(), true).unwrap();
        assert_eq!(map.get(&1_u32.to_ne_bytes()).unwrap(), Some(7_u64.to_ne_bytes().to_vec()));
        assert_eq!(map.get(&2_u32.to_ne_bytes()).unwrap(), None);
        assert_eq!(map.set(&1_u32.to_ne_bytes(), &8_u64.to_ne_bytes(), true).unwrap_err().errno, libc::EEXIST);
        assert!(map.set(&[1], &[0; 8], false).is_err() && map.set(&[0; 4], &[0; 9], false).is_err());
        for key in 2_u32..5 {
            map.set(&key.to_ne_bytes(), &[0; 8], true).unwrap();
        }
        assert_eq!(map.set(&9_u32.to_ne_bytes(), &[0; 8], true).unwrap_err().errno, libc::E2BIG);
        assert_eq!(map.keys().unwrap().len(), 4);
    }

    #[test]
    fn a_program_counts_the_calls_of_a_tracepoint() {
        let Some(map) = map(MapKind::Array) else { return };
        let mut code = Assembler::new();
        code.store_imm(Size::Word, -4, 0).map(Register::R1, &map).frame(Register::R2, -4).call(Helper::MapLookup);
        code.jump_imm(Jump::Eq, Register::R0, 0, "out").set(Register::R1, 1);
        code.add_to_memory(Size::Double, Register::R0, 0, Register::R1);
        code.label("out").set(Register::R0, 0).exit();
        let code = code.finish();
        assert_eq!(Program::verifier_log(&code), "");
        let link = Program::load(&code).unwrap().attach(c"sys_enter").unwrap();
        let count = || u64::from_ne_bytes(map.get(&[0; 4]).unwrap().unwrap().try_into().unwrap());
        crate::process::parent_id();
        let counted = count();
        assert!(counted > 0);
        drop(link);
        assert_eq!(Program::load(&code).unwrap().attach(c"no_such_tracepoint").unwrap_err().errno, libc::ENOENT);
    }

    #[test]
    fn a_program_runs_with_the_arguments_that_it_is_given() {
        if map(MapKind::Array).is_none() {
            return;
        }
        let mut code = Assembler::new();
        code.load(Size::Double, Register::R0, Register::R1, 8).alu_imm(Alu::Add, Register::R0, 1).exit();
        let program = Program::load(&code.finish()).unwrap();
        match program.run(&[7, 41]) {
            Ok(result) => assert_eq!(result, 42),
            // Before Linux 5.10.
            Err(error) => assert_eq!(error.errno, 524, "{error}"),
        }
        assert!(program.run(&[7]).is_err());
    }

    #[test]
    fn what_the_verifier_rejects_is_explained() {
        if map(MapKind::Array).is_none() {
            return;
        }
        let mut code = Assembler::new();
        // Register 5 has no value.
        code.copy(Register::R0, Register::R5).exit();
        let code = code.finish();
        assert!(Program::load(&code).is_err() && Program::verifier_log(&code).contains("R5"));
    }
}
