//! ELF files: a Linux kernel, user-mode Linux, or some other program.

use super::{Found, Kind, number};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

/// Linux links itself above this address on x86-64; programs lie below.
const KERNEL_SPACE: u64 = 0xffff_8000_0000_0000;
/// `PT_LOAD` and `PT_NOTE` of the program headers.
const LOAD: u64 = 1;
const NOTE: u64 = 4;
/// What every Linux kernel holds, followed by its release.
const BANNER: &[u8] = b"Linux version ";
/// Part of symbols and drivers of user-mode Linux, not of programs that happen to hold the banner.
const UML: &[u8] = b"uml_";

/// `ET_EXEC`: user-mode Linux stands at a fixed address. A program that can lie anywhere may hold the same words, as
/// this one does.
const FIXED: u64 = 2;

/// One program header.
#[derive(Clone, Copy)]
struct Segment {
    is: u64,
    offset: u64,
    address: u64,
    len: u64,
}

/// The program headers, as far as they lie in `head`; `None` for what is not ELF for x86-64.
fn segments(head: &[u8]) -> Option<Vec<Segment>> {
    let is_x86_64 = head.starts_with(b"\x7fELF\x02\x01") && number::<2>(head, 18)? == 62;
    let (start, size) = (number::<8>(head, 32)? as usize, number::<2>(head, 54)? as usize);
    let count = number::<2>(head, 56)? as usize;
    let segment = |at: usize| {
        let (is, offset) = (number::<4>(head, at)?, number::<8>(head, at + 8)?);
        Some(Segment { is, offset, address: number::<8>(head, at + 16)?, len: number::<8>(head, at + 32)? })
    };
    is_x86_64.then(|| (0..count).filter_map(|index| segment(start.checked_add(index * size)?)).collect())
}

/// Whether the first bytes are those of a kernel for x86-64.
pub(super) fn is_linux(head: &[u8]) -> bool {
    segments(head).is_some_and(|all| all.iter().any(|one| one.is == LOAD && one.address >= KERNEL_SPACE))
}

/// An ELF file, looked through for what Linux holds.
pub(super) fn inspect(file: &mut File, head: &[u8]) -> io::Result<Found> {
    let Some(segments) = segments(head) else { return Ok(Found::other(foreign(head))) };
    match number::<2>(head, 16) {
        Some(1) => return Ok(Found::other("an object file or kernel module")),
        Some(4) => return Ok(Found::other("a core dump")),
        _ => {}
    }
    let release = find(file, BANNER)?.and_then(|text| release(&text));
    if is_linux(head) {
        if release.is_none() {
            return Ok(Found::other("an ELF kernel that is not Linux; to boot a whole system give image:FILE"));
        }
        return Ok(Found { kind: Kind::Vmlinux { pvh: has_pvh(file, &segments)? }, release });
    }
    if release.is_some() && number::<2>(head, 16) == Some(FIXED) && find(file, UML)?.is_some() {
        return Ok(Found { kind: Kind::Uml, release });
    }
    Ok(Found::other("an ELF program or library, not a kernel"))
}

/// The word after the banner, where it looks like a release.
fn release(text: &[u8]) -> Option<String> {
    let end = text.iter().position(|&byte| byte <= b' ' || byte > b'~')?;
    let word = String::from_utf8(text[..end].to_vec()).ok()?;
    let is_release = word.split_once('.').is_some_and(|(major, _)| major.parse::<u8>().is_ok());
    is_release.then_some(word)
}

/// The bytes after the first place that holds `what` and, for the banner, a digit after it.
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

/// Where `what` first stands.
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

/// Whether a note gives the entry for hypervisors: Xen's, of type 18.
fn has_pvh(file: &mut File, segments: &[Segment]) -> io::Result<bool> {
    const MOST_BYTES: u64 = 1 << 20;
    for segment in segments.iter().filter(|one| one.is == NOTE) {
        file.seek(SeekFrom::Start(segment.offset))?;
        let mut notes = Vec::new();
        file.by_ref().take(segment.len.min(MOST_BYTES)).read_to_end(&mut notes)?;
        if notes_hold_pvh(&notes) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn notes_hold_pvh(notes: &[u8]) -> bool {
    const PHYS32_ENTRY: u64 = 18;
    let padded = |len: u64| (len as usize).next_multiple_of(4);
    let mut at = 0;
    while let (Some(name), Some(text), Some(is)) =
        (number::<4>(notes, at), number::<4>(notes, at + 4), number::<4>(notes, at + 8))
    {
        if is == PHYS32_ENTRY && notes[at + 12..].starts_with(b"Xen\0") {
            return true;
        }
        at += 12 + padded(name) + padded(text);
    }
    false
}

/// An ELF file that is not for x86-64.
fn foreign(head: &[u8]) -> String {
    const MACHINES: &[(u64, &str)] = &[
        (3, "32-bit x86"),
        (8, "MIPS"),
        (21, "POWER"),
        (22, "s390"),
        (40, "32-bit ARM"),
        (43, "SPARC"),
        (62, "the x32 ABI"),
        (183, "aarch64 (arm64)"),
        (243, "RISC-V"),
        (258, "LoongArch"),
    ];
    let is_big = head.get(5) == Some(&2);
    let machine = number::<2>(head, 18).map(|word| if is_big { word >> 8 | (word & 0xff) << 8 } else { word });
    let name = MACHINES.iter().find(|(number, _)| Some(*number) == machine).map_or("another machine", |(_, name)| name);
    format!("an ELF file for {name}: the wrong architecture")
}
