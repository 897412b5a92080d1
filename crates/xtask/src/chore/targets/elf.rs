//! The identity of an ELF file: its machine, its target system, and the interpreter that starts it.
//!
//! A linker with the wrong target also produces a file without an error. The three places that identify a program's
//! system are therefore read back: the ABI byte of the header (FreeBSD fills it in), the note with the vendor's name
//! (all three BSDs have one, two of them with the version), and the interpreter's path.

use anyhow::{Context, Result, anyhow, bail};
use object::elf::{ELFOSABI_FREEBSD, ELFOSABI_NONE, EM_X86_64, FileHeader64, NoteType};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, U32};
use std::fmt;

/// The type of the note with the system's version, on all of the BSDs.
const IDENT: NoteType = NoteType(1);

/// Target systems of linked programs.
#[allow(clippy::enum_variant_names, reason = "that is what they are called")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum System {
    FreeBsd,
    NetBsd,
    OpenBsd,
}

impl System {
    /// All systems.
    pub(super) const ALL: [Self; 3] = [Self::FreeBsd, Self::NetBsd, Self::OpenBsd];

    /// Returns the name of the system, which is also the name in its note.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::FreeBsd => "FreeBSD",
            Self::NetBsd => "NetBSD",
            Self::OpenBsd => "OpenBSD",
        }
    }

    /// Returns the paths of the program interpreter. NetBSD's has two paths: GCC and LLVM differ.
    fn interpreters(self) -> &'static [&'static str] {
        match self {
            Self::FreeBsd => &["/libexec/ld-elf.so.1"],
            Self::NetBsd => &["/usr/libexec/ld.elf_so", "/libexec/ld.elf_so"],
            Self::OpenBsd => &["/usr/libexec/ld.so"],
        }
    }

    /// Decodes the version number of the note. Its decimal digits are M mm Rxx for FreeBSD and MM mm 00 pp 00 for
    /// NetBSD; OpenBSD has none.
    fn version(self, number: u32) -> String {
        match self {
            Self::FreeBsd => format!("{}.{}", number / 100_000, number / 1_000 % 100),
            Self::NetBsd => format!("{}.{}", number / 100_000_000, number / 1_000_000 % 100),
            Self::OpenBsd => String::new(),
        }
    }
}

/// The identity of an ELF file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    /// The system in the vendor's note.
    pub(super) system: System,
    /// The version in the vendor's note; empty if the vendor does not state one.
    pub(super) version: String,
    /// The path of the program interpreter.
    pub(super) interpreter: String,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = [self.system.name(), &self.version].join(" ");
        write!(f, "{}, {}", name.trim_end(), self.interpreter)
    }
}

/// Returns the identity of an x86-64 program. Inconsistent information is an error.
pub(super) fn identity(bytes: &[u8]) -> Result<Identity> {
    let header = FileHeader64::<Endianness>::parse(bytes).context("not a 64-bit ELF file")?;
    let endian = header.endian().context("the header specifies no byte order")?;
    let machine = header.e_machine(endian);
    if machine != EM_X86_64 {
        bail!("the header names machine {}, not x86-64", machine.0);
    }
    let (mut interpreter, mut found) = (None, None);
    for segment in header.program_headers(endian, bytes).context("read the program headers")? {
        if let Some(path) = segment.interpreter(endian, bytes).context("read the interpreter's path")? {
            interpreter = Some(String::from_utf8_lossy(path).into_owned());
        }
        let Some(mut notes) = segment.notes(endian, bytes).context("read the notes")? else { continue };
        while let Some(note) = notes.next().context("read a note")? {
            let system = System::ALL.into_iter().find(|system| system.name().as_bytes() == note.name());
            if let Some(system) = system.filter(|_| note.n_type(endian) == IDENT) {
                found = Some((system, system.version(number(note.desc(), endian)?)));
            }
        }
    }
    let (system, version) = found.ok_or_else(|| anyhow!("no note identifies FreeBSD, NetBSD or OpenBSD"))?;
    let interpreter = interpreter.ok_or_else(|| anyhow!("it specifies no interpreter"))?;
    if !system.interpreters().contains(&interpreter.as_str()) {
        bail!("the note says {}, but the interpreter is {interpreter}", system.name());
    }
    let abi = header.e_ident.os_abi;
    // FreeBSD's kernel checks the note first. zig's linker leaves the byte at 0; FreeBSD's linker fills it in.
    if abi != ELFOSABI_NONE && (abi, system) != (ELFOSABI_FREEBSD, System::FreeBsd) {
        bail!("the note says {}, but the header's ABI is {}", system.name(), abi.0);
    }
    Ok(Identity { system, version, interpreter })
}

fn number(description: &[u8], endian: Endianness) -> Result<u32> {
    let (number, _) =
        object::pod::from_bytes::<U32<Endianness>>(description).map_err(|()| anyhow!("the note contains no number"))?;
    Ok(number.get(endian))
}

#[cfg(test)]
mod unit {
    use super::*;

    /// Returns the bytes of a program header: type, offset and size in the file.
    fn segment(kind: u32, at: usize, size: usize) -> Vec<u8> {
        let words = [at, at, at, size, size, 4];
        let flags: u32 = 4;
        [kind, flags]
            .iter()
            .flat_map(|half| half.to_le_bytes())
            .chain(words.iter().flat_map(|w| w.to_le_bytes()))
            .collect()
    }

    /// Returns an ELF file with an interpreter and one note.
    fn file(abi: u8, machine: u16, interpreter: &str, name: &str, kind: u32, number: u32) -> Vec<u8> {
        let path = [interpreter.as_bytes(), &[0]].concat();
        let mut note: Vec<u8> = [name.len() as u32 + 1, 4, kind].iter().flat_map(|word| word.to_le_bytes()).collect();
        note.extend_from_slice(name.as_bytes());
        note.resize(note.len().next_multiple_of(4) + if name.len().is_multiple_of(4) { 4 } else { 0 }, 0);
        note.extend_from_slice(&number.to_le_bytes());
        let (headers, notes_at) = (64_usize, 64 + 2 * 56);
        let mut bytes = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, abi, 0, 0, 0, 0, 0, 0, 0, 0];
        bytes.extend_from_slice(&3_u16.to_le_bytes());
        bytes.extend_from_slice(&machine.to_le_bytes());
        bytes.extend_from_slice(&1_u32.to_le_bytes());
        for word in [0, headers, 0] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(&0_u32.to_le_bytes());
        for half in [64_u16, 56, 2, 64, 0, 0] {
            bytes.extend_from_slice(&half.to_le_bytes());
        }
        bytes.extend(segment(4, notes_at, note.len()));
        bytes.extend(segment(3, notes_at + note.len(), path.len()));
        bytes.extend(note);
        bytes.extend(path);
        bytes
    }

    #[test]
    fn each_system_is_known_by_its_note_and_its_interpreter() {
        let says = |abi, path, name, number| identity(&file(abi, 62, path, name, 1, number)).unwrap().to_string();
        assert_eq!(says(9, "/libexec/ld-elf.so.1", "FreeBSD", 1_400_097), "FreeBSD 14.0, /libexec/ld-elf.so.1");
        assert_eq!(says(0, "/libexec/ld-elf.so.1", "FreeBSD", 1_400_500), "FreeBSD 14.0, /libexec/ld-elf.so.1");
        assert_eq!(says(0, "/usr/libexec/ld.elf_so", "NetBSD", 1_001_000_000), "NetBSD 10.1, /usr/libexec/ld.elf_so");
        assert_eq!(says(0, "/libexec/ld.elf_so", "NetBSD", 1_001_000_000), "NetBSD 10.1, /libexec/ld.elf_so");
        assert_eq!(says(0, "/usr/libexec/ld.so", "OpenBSD", 0), "OpenBSD, /usr/libexec/ld.so");
    }

    #[test]
    fn what_does_not_fit_together_is_an_error() {
        let refuses = |bytes: &[u8], word: &str| {
            let error = format!("{:#}", identity(bytes).unwrap_err());
            assert!(error.contains(word), "{error}");
        };
        refuses(b"#!/bin/sh\n", "not a 64-bit ELF");
        refuses(&file(9, 183, "/libexec/ld-elf.so.1", "FreeBSD", 1, 1_400_097), "machine 183");
        refuses(&file(9, 62, "/lib64/ld-linux-x86-64.so.2", "FreeBSD", 1, 1_400_097), "the interpreter is /lib64");
        refuses(&file(9, 62, "/usr/libexec/ld.so", "OpenBSD", 1, 0), "the header's ABI is 9");
        refuses(&file(3, 62, "/libexec/ld-elf.so.1", "FreeBSD", 1, 1_400_097), "the header's ABI is 3");
        refuses(&file(0, 62, "/usr/libexec/ld.so", "GNU", 1, 0), "no note");
        refuses(&file(0, 62, "/usr/libexec/ld.so", "OpenBSD", 2, 0), "no note");
    }

    #[test]
    fn a_file_torn_anywhere_is_an_error_and_no_panic() {
        let whole = file(9, 62, "/libexec/ld-elf.so.1", "FreeBSD", 1, 1_400_097);
        for end in 0..whole.len() - 1 {
            assert!(identity(&whole[..end]).is_err(), "{end}");
        }
    }
}
