//! Identifies a file by its content: a kernel, or something else that was given as one.
//!
//! The most frequent cause of a boot without output is a wrong kind of image, so it is reported before anything boots.

use crate::compression::Compression;
use crate::kernel::{Disk, Error, Kind};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

mod elf;

/// The values that `--kernel` accepts.
pub const ACCEPTED: &str = "--kernel takes a bzImage or vmlinux of Linux for x86-64, a Debian kernel package (.deb), \
                          debian:VERSION, or host";

/// The result of [`inspect`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The kind of the file.
    pub kind: Kind,
    /// The release that a kernel reports, such as `6.1.0-53-cloud-amd64`.
    pub release: Option<String>,
}

impl Found {
    fn only(kind: Kind) -> Self {
        Self { kind, release: None }
    }

    fn other(description: impl Into<String>) -> Self {
        Self::only(Kind::Other(description.into()))
    }

    /// Returns why qemu cannot boot this as a kernel, and what to do; `None` if it can.
    pub fn refusal(&self) -> Option<String> {
        let is = match &self.kind {
            Kind::BzImage | Kind::Vmlinux { pvh: true } | Kind::CompressedVmlinux(_) | Kind::Deb => return None,
            Kind::Running | Kind::Remote => "no file",
            Kind::Vmlinux { pvh: false } => {
                return Some(
                    "this is a vmlinux without PVH entry point (CONFIG_PVH), which qemu cannot boot; give the bzImage \
                     of the same build (arch/x86/boot/bzImage)"
                        .to_owned(),
                );
            }
            Kind::Uml => {
                return Some("this is user-mode Linux, a program that qemu cannot boot; add --platform uml".to_owned());
            }
            Kind::DiskImage(disk) => {
                let form = if *disk == Disk::Qcow2 { "a qcow2 disk image" } else { "a raw disk image" };
                return Some(format!("this is {form}, not a kernel; to boot it, give it as image:FILE"));
            }
            Kind::Other(description) => description,
        };
        Some(format!("this is {is}; {ACCEPTED}"))
    }
}

/// The number of bytes of a file that are read to identify it.
const HEAD_BYTES: u64 = 64 << 10;

/// Identifies a file.
pub fn inspect(path: &Path) -> Result<Found, Error> {
    let failed = |error| Error::io(path, error);
    let about = std::fs::metadata(path).map_err(failed)?;
    if about.is_dir() {
        return Ok(Found::other(folder(path)));
    }
    if !about.is_file() {
        return Ok(Found::other("a device, pipe or socket"));
    }
    let mut file = File::open(path).map_err(failed)?;
    let mut head = Vec::new();
    file.by_ref().take(HEAD_BYTES).read_to_end(&mut head).map_err(failed)?;
    if let Some(found) = by_head(&head, about.len()) {
        return Ok(found);
    }
    if head.starts_with(b"\x7fELF") {
        return elf::inspect(&mut file, &head).map_err(failed);
    }
    if let Some(compression) = Compression::of(&head) {
        file.seek(SeekFrom::Start(0)).map_err(failed)?;
        return Ok(compressed(compression, &compression.first(file, HEAD_BYTES)));
    }
    Ok(disk(&head).unwrap_or_else(|| Found::other(unknown(&head, about.len()))))
}

/// Describes a directory, which may be a kernel's build tree.
fn folder(path: &Path) -> String {
    let built = path.join("arch/x86/boot/bzImage");
    if built.is_file() {
        return format!("a kernel's build tree, whose image is {}", built.display());
    }
    if path.join("Kconfig").is_file() && path.join("arch/x86").is_dir() {
        return "a kernel's source tree without a bzImage (run make bzImage)".to_owned();
    }
    "a directory".to_owned()
}

/// Identifies a file by fixed bytes near its beginning.
fn by_head(head: &[u8], len: u64) -> Option<Found> {
    let at = |offset: usize, magic: &[u8]| head.get(offset..offset + magic.len()) == Some(magic);
    if at(0x202, b"HdrS") && at(510, b"\x55\xaa") {
        return Some(bz_image(head, len));
    }
    let description = if at(56, b"ARM\x64") {
        "a kernel for aarch64 (arm64): the wrong architecture"
    } else if at(56, b"RSC\x05") {
        "a kernel for RISC-V: the wrong architecture"
    } else if at(4, b"zimg") && at(0, b"MZ") {
        "a kernel inside a compressed EFI program (zboot)"
    } else if at(0, b"\x27\x05\x19\x56") {
        "a U-Boot image (uImage)"
    } else if at(0, b"\xd0\x0d\xfe\xed") {
        "a device tree or FIT image"
    } else if at(0, b"MZ") {
        "an EFI or Windows program"
    } else if at(0, b"070701") || at(0, b"070702") || at(0, b"070707") || at(0, b"\xc7\x71") {
        "an uncompressed initramfs (cpio archive)"
    } else if at(0, b"!<arch>\ndebian") {
        return Some(Found::only(Kind::Deb));
    } else if at(0, b"!<arch>\n") {
        "an ar archive, but not a Debian package (a static library?)"
    } else if at(0, b"\xed\xab\xee\xdb") {
        "an RPM package; unpack it (rpm2cpio FILE | cpio -id) and give the vmlinuz in it"
    } else if at(257, b"ustar") {
        "a tar archive; unpack it and give the kernel in it"
    } else if at(0, b"PK\x03\x04") {
        "a zip archive"
    } else if at(0, b"QFI\xfb") {
        return Some(Found::only(Kind::DiskImage(Disk::Qcow2)));
    } else if at(0, b"KDMV") || at(0, b"vhdxfile") || at(0, b"conectix") || at(64, b"\x7f\x10\xda\xbe") {
        "a disk image of another hypervisor (convert it: qemu-img convert -O qcow2)"
    } else {
        return None;
    };
    Some(Found::other(description))
}

/// Returns the little-endian number of `N` bytes at an offset.
fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let slice = bytes.get(at..at.checked_add(N)?)?;
    Some(slice.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte)))
}

/// Reads the header of the x86 boot protocol: whether the kernel is 64-bit and complete, and its release.
fn bz_image(head: &[u8], len: u64) -> Found {
    const LOADED_HIGH: u64 = 1;
    const KERNEL_64: u64 = 1;
    let protocol = number::<2>(head, 0x206).unwrap_or(0);
    if number::<1>(head, 0x211).unwrap_or(0) & LOADED_HIGH == 0 {
        return Found::other("a zImage or other old x86 kernel");
    }
    if protocol < 0x20c || number::<2>(head, 0x236).unwrap_or(0) & KERNEL_64 == 0 {
        return Found::other("a bzImage for 32-bit x86: the wrong architecture");
    }
    let sectors = number::<1>(head, 0x1f1).unwrap_or(4).max(1);
    let whole = (sectors + 1) * 512 + number::<4>(head, 0x1f4).unwrap_or(0) * 16;
    if len < whole {
        return Found::other(format!("a truncated bzImage: {len} of {whole} bytes"));
    }
    let release = number::<2>(head, 0x20e).filter(|&at| at != 0).and_then(|at| {
        let text = head.get(at as usize + 0x200..)?;
        let end = text.iter().position(|&byte| byte == b' ' || byte == 0)?;
        String::from_utf8(text[..end].to_vec()).ok().filter(|text| !text.is_empty())
    });
    Found { kind: Kind::BzImage, release }
}

/// Identifies compressed data by the first bytes that it decompresses to.
fn compressed(compression: Compression, inside: &[u8]) -> Found {
    let how = compression.name();
    if elf::is_linux(inside) {
        return Found::only(Kind::CompressedVmlinux(compression));
    }
    if inside.is_empty() {
        return Found::other(format!("{how}-compressed data that landau cannot decompress"));
    }
    let what = match by_head(inside, u64::MAX) {
        Some(Found { kind: Kind::BzImage, .. }) => "bzImage; decompress it first".to_owned(),
        Some(Found { kind: Kind::Deb, .. }) => "Debian package; decompress it first".to_owned(),
        Some(Found { kind: Kind::DiskImage(_), .. }) => "disk image".to_owned(),
        Some(Found { kind: Kind::Other(what), .. }) if what.contains("initramfs") => "initramfs".to_owned(),
        Some(Found { kind: Kind::Other(what), .. }) => format!("file that contains {what}"),
        _ if disk(inside).is_some() => "disk image".to_owned(),
        _ => format!("file that contains {}", unknown(inside, inside.len() as u64)),
    };
    let article = if how == "xz" || how.starts_with('l') { "an" } else { "a" };
    Found::other(format!("{article} {how}-compressed {what}"))
}

/// Identifies a raw disk image by its partition table or file system.
fn disk(head: &[u8]) -> Option<Found> {
    let at = |offset: usize, magic: &[u8]| head.get(offset..offset + magic.len()) == Some(magic);
    if at(0x8001, b"CD001") {
        return Some(Found::other("a CD or DVD image (ISO 9660)"));
    }
    let is_disk = at(510, b"\x55\xaa") || at(512, b"EFI PART") || at(1080, b"\x53\xef");
    is_disk.then(|| Found::only(Kind::DiskImage(Disk::Raw)))
}

/// Describes anything else: nothing, text, or bytes.
fn unknown(head: &[u8], len: u64) -> String {
    if len == 0 {
        return "an empty file".to_owned();
    }
    if head.iter().all(|&byte| byte == 0) {
        return format!("a file of {len} bytes that begins with zeros");
    }
    let is_text = |byte: &u8| *byte >= b' ' || matches!(byte, b'\n' | b'\t' | b'\r' | 0x0c | 0x1b);
    let text = std::str::from_utf8(head).or_else(|error| std::str::from_utf8(&head[..error.valid_up_to()]));
    match text {
        Ok(text) if text.starts_with("#!") => "a script".to_owned(),
        Ok(text) if text.len() + 4 > head.len() && text.as_bytes().iter().all(is_text) => "a text file".to_owned(),
        _ => format!("a file of {len} bytes of unknown kind"),
    }
}

#[cfg(test)]
pub(crate) mod tests;
