//! ELF files: a Linux kernel, user-mode Linux, or another program.

use super::Found;
use crate::kernel::Kind;
use object::Endianness;
use object::elf::{
    EM_386, EM_AARCH64, EM_ARM, EM_LOONGARCH, EM_MIPS, EM_PPC64, EM_RISCV, EM_S390, EM_SPARCV9, EM_X86_64, ET_CORE,
    ET_EXEC, ET_REL, FileHeader32, FileHeader64, Machine, NoteType, PT_LOAD, PT_NOTE, ProgramHeader64,
};
use object::read::elf::{FileHeader, NoteIterator, ProgramHeader};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

/// Linux for x86-64 links itself above this address, programs below it.
const KERNEL_SPACE: u64 = 0xffff_8000_0000_0000;

/// Every Linux kernel contains this, followed by its release.
const BANNER: &[u8] = b"Linux version ";

/// A part of the names of symbols and drivers of user-mode Linux. Other programs that contain the banner do not contain
/// it.
const UML: &[u8] = b"uml_";

/// The type of Xen's note with the PVH entry point (`XEN_ELFNOTE_PHYS32_ENTRY`).
const PVH_ENTRY: NoteType = NoteType(18);

type Header = FileHeader64<Endianness>;

/// Returns the header and the program headers, if they are for x86-64.
fn parse(head: &[u8]) -> Option<(&Header, Endianness, &[ProgramHeader64<Endianness>])> {
    let header = Header::parse(head).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, head).ok()?;
    (endian == Endianness::Little && header.e_machine(endian) == EM_X86_64).then_some((header, endian, segments))
}

/// Returns whether the first bytes of a file are those of a kernel for x86-64.
pub(super) fn is_linux(head: &[u8]) -> bool {
    parse(head).is_some_and(|(_, endian, segments)| is_in_kernel_space(endian, segments))
}

fn is_in_kernel_space(endian: Endianness, segments: &[ProgramHeader64<Endianness>]) -> bool {
    segments.iter().any(|one| one.p_type(endian) == PT_LOAD && one.p_vaddr(endian) >= KERNEL_SPACE)
}

/// Identifies an ELF file.
pub(super) fn inspect(file: &mut File, head: &[u8]) -> io::Result<Found> {
    let Some((header, endian, segments)) = parse(head) else { return Ok(Found::other(foreign(head))) };
    let kind = header.e_type(endian);
    if kind == ET_REL {
        return Ok(Found::other("an object file or kernel module"));
    }
    if kind == ET_CORE {
        return Ok(Found::other("a core dump"));
    }
    let release = find(file, BANNER)?.and_then(|text| release(&text));
    if is_in_kernel_space(endian, segments) {
        if release.is_none() {
            return Ok(Found::other("an ELF kernel that is not Linux; to boot a disk image give image:FILE"));
        }
        return Ok(Found { kind: Kind::Vmlinux { pvh: has_pvh(file, endian, segments)? }, release });
    }
    // User-mode Linux has a fixed address. A position-independent program may contain the same text, as this one does.
    if release.is_some() && kind == ET_EXEC && find(file, UML)?.is_some() {
        return Ok(Found { kind: Kind::Uml, release });
    }
    Ok(Found::other("an ELF program or library, not a kernel"))
}

/// Returns the word after the banner, if it looks like a release.
fn release(text: &[u8]) -> Option<String> {
    let end = text.iter().position(|&byte| byte <= b' ' || byte > b'~')?;
    let word = String::from_utf8(text[..end].to_vec()).ok()?;
    let is_release = word.split_once('.').is_some_and(|(major, _)| major.parse::<u8>().is_ok());
    is_release.then_some(word)
}

/// Returns the bytes after the first occurrence of `what`; an occurrence of the banner must have a release after it.
fn find(file: &mut File, what: &[u8]) -> io::Result<Option<Vec<u8>>> {
    const AFTER: usize = 128;
    file.seek(SeekFrom::Start(0))?;
    let mut window = Vec::new();
    loop {
        let kept = window.len();
        let read = file.by_ref().take(1 << 20).read_to_end(&mut window)?;
        let mut from = 0;
        while let Some(at) = position(&window[from..], what) {
            let after = from + at + what.len();
            let rest = &window[after..window.len().min(after + AFTER)];
            if what != BANNER || release(rest).is_some() {
                return Ok(Some(rest.to_vec()));
            }
            from = after;
        }
        if read == 0 {
            return Ok(None);
        }
        let overlap = (what.len() + AFTER).min(kept + read);
        window.drain(..window.len() - overlap);
    }
}

/// Returns the position of the first occurrence of `what`.
fn position(bytes: &[u8], what: &[u8]) -> Option<usize> {
    let first = *what.first()?;
    let mut from = 0;
    while let Some(at) = bytes[from..].iter().position(|&byte| byte == first) {
        if bytes[from + at..].starts_with(what) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

/// Returns whether Xen's note gives the PVH entry point.
fn has_pvh(file: &mut File, endian: Endianness, segments: &[ProgramHeader64<Endianness>]) -> io::Result<bool> {
    const MOST_BYTES: u64 = 1 << 20;
    for segment in segments.iter().filter(|one| one.p_type(endian) == PT_NOTE) {
        file.seek(SeekFrom::Start(segment.p_offset(endian)))?;
        let mut bytes = Vec::new();
        file.by_ref().take(segment.p_filesz(endian).min(MOST_BYTES)).read_to_end(&mut bytes)?;
        let Ok(mut notes) = NoteIterator::<Header>::new(endian, segment.p_align(endian), &bytes) else { continue };
        while let Ok(Some(note)) = notes.next() {
            if note.n_type(endian) == PVH_ENTRY && note.name() == b"Xen" {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Describes an ELF file that is not for x86-64.
fn foreign(head: &[u8]) -> String {
    const MACHINES: &[(Machine, &str)] = &[
        (EM_386, "32-bit x86"),
        (EM_MIPS, "MIPS"),
        (EM_PPC64, "POWER"),
        (EM_S390, "s390"),
        (EM_ARM, "32-bit ARM"),
        (EM_SPARCV9, "SPARC"),
        (EM_X86_64, "the x32 ABI"),
        (EM_AARCH64, "aarch64 (arm64)"),
        (EM_RISCV, "RISC-V"),
        (EM_LOONGARCH, "LoongArch"),
    ];
    let machine = machine::<Header>(head).or_else(|| machine::<FileHeader32<Endianness>>(head));
    let name = MACHINES.iter().find(|(one, _)| Some(*one) == machine).map_or("another machine", |(_, name)| name);
    format!("an ELF file for {name}: the wrong architecture")
}

fn machine<Elf: FileHeader<Endian = Endianness>>(head: &[u8]) -> Option<Machine> {
    let header = Elf::parse(head).ok()?;
    Some(header.e_machine(header.endian().ok()?))
}
