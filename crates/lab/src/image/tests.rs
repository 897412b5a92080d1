//! Files of every kind, made by hand.
#![allow(clippy::unwrap_used, reason = "a test ends where its premise fails")]

use super::*;
use std::io::Write;

/// Returns the smallest file whose header is that of a bzImage.
pub(crate) fn bz_image_bytes(release: &str) -> Vec<u8> {
    let mut bytes = vec![0; 5 * 512 + 16 * 16];
    let mut put = |at: usize, what: &[u8]| bytes[at..at + what.len()].copy_from_slice(what);
    put(0x1f1, &[4]);
    put(0x1f4, &16_u32.to_le_bytes());
    put(510, b"\x55\xaa");
    put(0x202, b"HdrS");
    put(0x206, &0x20f_u16.to_le_bytes());
    put(0x20e, &0x300_u16.to_le_bytes());
    put(0x211, &[1]);
    put(0x236, &[1]);
    put(0x500, format!("{release} (someone@somewhere) #1 SMP\0").as_bytes());
    bytes
}

/// Returns an ELF file for x86-64 with a segment at `address`, a note segment, and some text.
pub(crate) fn elf_bytes(address: u64, note: &[u8], text: &str) -> Vec<u8> {
    let mut bytes = vec![0; 64 + 2 * 56];
    let mut put = |at: usize, what: &[u8]| bytes[at..at + what.len()].copy_from_slice(what);
    put(0, b"\x7fELF\x02\x01\x01");
    put(16, &2_u16.to_le_bytes());
    put(18, &62_u16.to_le_bytes());
    put(32, &64_u64.to_le_bytes());
    put(54, &56_u16.to_le_bytes());
    put(56, &2_u16.to_le_bytes());
    put(64, &1_u32.to_le_bytes());
    put(64 + 16, &address.to_le_bytes());
    put(120, &4_u32.to_le_bytes());
    put(120 + 8, &176_u64.to_le_bytes());
    put(120 + 32, &(note.len() as u64).to_le_bytes());
    bytes.extend_from_slice(note);
    bytes.extend_from_slice(text.as_bytes());
    bytes.extend_from_slice(&[0; 200]);
    bytes
}

pub(crate) fn note(name: &[u8], is: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [4_u32, 4, is] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.extend_from_slice(name);
    bytes.extend_from_slice(&[0; 4]);
    bytes
}

fn found(bytes: &[u8]) -> Found {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    inspect(file.path()).unwrap()
}

fn described(bytes: &[u8]) -> String {
    match found(bytes).kind {
        Kind::Other(description) => description,
        kind => panic!("{kind:?}"),
    }
}

fn at(offset: usize, magic: &[u8]) -> Vec<u8> {
    let mut bytes = vec![1; 70_000];
    bytes[offset..offset + magic.len()].copy_from_slice(magic);
    bytes
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_bz_image_has_a_release() {
    let bytes = bz_image_bytes("6.1.0-53-cloud-amd64");
    let whole = found(&bytes);
    assert_eq!(whole, Found { kind: Kind::BzImage, release: Some("6.1.0-53-cloud-amd64".to_owned()) });
    assert_eq!(whole.refusal(), None);
    assert!(described(&bytes[..bytes.len() - 1]).contains("a truncated bzImage: 2815 of 2816 bytes"));
    let mut narrow = bytes.clone();
    narrow[0x236] = 0;
    assert!(described(&narrow).contains("32-bit"));
}

#[test]
fn vmlinux_user_mode_linux_and_programs_are_distinguished() {
    let high = 0xffff_ffff_8100_0000;
    let banner = "%s Linux version %s\0Linux version 6.12.9 (a@b) #1";
    let pvh = [note(b"GNU\0", 3), note(b"Xen\0", 18)].concat();
    let kernel = found(&elf_bytes(high, &pvh, banner));
    assert_eq!(kernel, Found { kind: Kind::Vmlinux { pvh: true }, release: Some("6.12.9".to_owned()) });
    assert_eq!(kernel.refusal(), None);
    let plain = found(&elf_bytes(high, &note(b"GNU\0", 18), banner));
    assert_eq!(plain.kind, Kind::Vmlinux { pvh: false });
    assert!(plain.refusal().unwrap().contains("CONFIG_PVH"));
    let uml = found(&elf_bytes(0x6000_0000, &[], "Linux version 7.2.7 (a@b)\0virtio_uml_x"));
    assert_eq!(uml, Found { kind: Kind::Uml, release: Some("7.2.7".to_owned()) });
    assert!(uml.refusal().unwrap().contains("--platform uml"));
    assert!(described(&elf_bytes(0x40_0000, &[], "")).contains("ELF program"));
    assert!(described(&elf_bytes(high, &pvh, "FreeBSD 14")).contains("not Linux"));
    let packed = found(&gzip(&elf_bytes(high, &pvh, banner)));
    assert_eq!((packed.kind.clone(), packed.refusal()), (Kind::CompressedVmlinux(Compression::Gzip), None));
}

#[test]
fn a_release_across_two_reads_is_found() {
    for shift in 0..40 {
        let fill = "x".repeat((1 << 20) - 176 - 20 + shift);
        let bytes = elf_bytes(0xffff_ffff_8100_0000, &[], &format!("{fill}Linux version 5.10.3 (a@b)"));
        assert_eq!(found(&bytes).release.as_deref(), Some("5.10.3"), "{shift}");
    }
}

#[test]
fn other_architectures_are_named() {
    assert!(described(&at(56, b"ARM\x64")).contains("aarch64"));
    assert!(described(&at(56, b"RSC\x05")).contains("RISC-V"));
    let mut arm = elf_bytes(0xffff_0000_8000_0000, &[], "Linux version 6.1 (");
    arm[18] = 183;
    assert!(described(&arm).contains("aarch64"));
    assert!(found(&arm).refusal().unwrap().contains("--kernel takes a bzImage"));
}

#[test]
fn other_files_are_described() {
    let cpio = at(0, b"070701");
    let cases: &[(Vec<u8>, &str)] = &[
        (gzip(&cpio), "a gzip-compressed initramfs"),
        (cpio, "an uncompressed initramfs"),
        (gzip(b"some text"), "a gzip-compressed file that contains a text file"),
        (b"BZh91AY".to_vec(), "bzip2-compressed data that landau cannot decompress"),
        (Vec::new(), "an empty file"),
        (vec![0; 100], "begins with zeros"),
        ("a note über kernels\n".repeat(9000).into_bytes(), "a text file"),
        (b"#!/bin/sh\nexit 0\n".to_vec(), "a script"),
        (b"!<arch>\n/               0".to_vec(), "an ar archive"),
        (at(0, b"\xed\xab\xee\xdb"), "an RPM package"),
        (at(257, b"ustar"), "a tar archive"),
        (at(0, b"MZ"), "an EFI"),
        (at(0, b"KDMV"), "another hypervisor"),
        (at(0x8001, b"CD001"), "ISO 9660"),
        (at(3, b"\x02\x03"), "of unknown kind"),
    ];
    for (bytes, expected) in cases {
        let description = described(bytes);
        assert!(description.contains(expected), "{description:?} lacks {expected:?}");
    }
}

#[test]
fn disks_and_packages_are_identified() {
    assert_eq!(found(b"!<arch>\ndebian-binary   ").kind, Kind::Deb);
    assert_eq!(found(&at(0, b"QFI\xfb")).kind, Kind::DiskImage(Disk::Qcow2));
    assert_eq!(found(&at(510, b"\x55\xaa")).kind, Kind::DiskImage(Disk::Raw));
    assert_eq!(found(&at(512, b"EFI PART")).kind, Kind::DiskImage(Disk::Raw));
    assert!(found(&at(510, b"\x55\xaa")).refusal().unwrap().contains("image:FILE"));
}

#[test]
fn directories_are_described_with_the_kernel_built_in_them() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(inspect(folder.path()).unwrap().kind, Kind::Other("a directory".to_owned()));
    std::fs::create_dir_all(folder.path().join("arch/x86/boot")).unwrap();
    std::fs::write(folder.path().join("arch/x86/boot/bzImage"), b"").unwrap();
    let refusal = inspect(folder.path()).unwrap().refusal().unwrap();
    assert!(refusal.contains("arch/x86/boot/bzImage"), "{refusal}");
    assert!(inspect(&folder.path().join("none")).unwrap_err().to_string().contains("No such file"));
    assert!(inspect(Path::new("/dev/null")).unwrap().refusal().unwrap().contains("device"));
}
