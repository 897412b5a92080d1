//! Packages made by hand, whole and damaged.
#![allow(clippy::unwrap_used, reason = "a test ends where its premise fails")]

use super::*;
use crate::compression::tests::compressed;
use crate::image::tests::bz_image_bytes;

/// A tar archive of some files.
fn tar_of(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, format!("./{name}"), *bytes).unwrap();
    }
    builder.into_inner().unwrap()
}

/// An `ar` archive of some files.
fn ar_of(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = b"!<arch>\n".to_vec();
    for (name, content) in members {
        let header = format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 100_644, content.len());
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(content);
        bytes.resize(bytes.len().next_multiple_of(2), b'\n');
    }
    bytes
}

const CONTROL: &str = "Package: linux-image-6.1.0-9-cloud-amd64\nVersion: 6.1.27-1\nArchitecture: amd64\n\
                       Depends: kmod, linux-base (>= 4) | x,\n initramfs-tools\nDescription: Linux\n with\n lines\n";

/// A package with data in the given compression, named as Debian names it.
pub(crate) fn package(control: &str, files: &[(&str, &[u8])], compression: usize) -> Vec<u8> {
    let pack = |files: &[(&str, &[u8])]| compressed(&tar_of(files)).swap_remove(compression).1;
    let (control, data) = (pack(&[("control", control.as_bytes())]), pack(files));
    let extension = ["gz", "xz", "zst"][compression];
    let names = [format!("control.tar.{extension}"), format!("data.tar.{extension}")];
    ar_of(&[("debian-binary", b"2.0\n"), (&names[0], &control), (&names[1], &data)])
}

fn written(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.deb");
    std::fs::write(&path, bytes).unwrap();
    (folder, path)
}

fn refused(bytes: &[u8]) -> String {
    let (folder, path) = written(bytes);
    extract_kernel(&path, folder.path()).unwrap_err().to_string()
}

#[test]
fn a_kernel_comes_out_of_each_compression() {
    let (kernel, map) = (bz_image_bytes("6.1.0-9-cloud-amd64"), "ffffffff81000000 T _text\n".repeat(1000));
    let files: &[(&str, &[u8])] = &[
        ("boot/System.map-6.1.0-9-cloud-amd64", map.as_bytes()),
        ("boot/config-6.1.0-9-cloud-amd64", b"CONFIG_X=y\n"),
        ("boot/vmlinuz-6.1.0-9-cloud-amd64", &kernel),
        ("lib/modules/6.1.0-9-cloud-amd64/kernel/a.ko", b"module"),
    ];
    for compression in 0..3 {
        let (folder, path) = written(&package(CONTROL, files, compression));
        let (package, contents) = extract_kernel(&path, folder.path()).unwrap();
        assert_eq!(package.name, "linux-image-6.1.0-9-cloud-amd64");
        assert_eq!((package.version.as_str(), package.architecture.as_str()), ("6.1.27-1", "amd64"));
        assert_eq!(package.depends, ["kmod", "linux-base", "initramfs-tools"]);
        assert_eq!(std::fs::read(contents.image.unwrap()).unwrap(), kernel);
        assert_eq!(std::fs::read(contents.config.unwrap()).unwrap(), b"CONFIG_X=y\n");
        assert_eq!(std::fs::read_to_string(contents.system_map.unwrap()).unwrap(), map);
    }
}

#[test]
fn the_newer_places_are_known_and_a_stand_in_for_symbols_is_left_out() {
    let kernel = bz_image_bytes("7.2.13");
    let files: &[(&str, &[u8])] = &[
        ("usr/lib/modules/7.2.13/vmlinuz", &kernel),
        ("usr/lib/modules/7.2.13/config", b"CONFIG_X=y\n"),
        ("usr/lib/modules/7.2.13/System.map", b"ffffffffffffffff B The real System.map is elsewhere\n"),
        ("usr/share/doc/vmlinuz", b"no kernel"),
    ];
    let (folder, path) = written(&package(CONTROL, files, 0));
    let contents = extract_kernel(&path, folder.path()).unwrap().1;
    assert_eq!(std::fs::read(contents.image.unwrap()).unwrap(), kernel);
    assert!(contents.config.is_some() && contents.system_map.is_none());
}

#[test]
fn a_package_without_a_kernel_says_where_it_is() {
    let control = "Package: linux-image-7.2.13-amd64\nVersion: 1\nArchitecture: amd64\n\
                   Depends: linux-base-7.2.13-amd64 (= 1), linux-binary-7.2.13-amd64 (= 1)\n";
    let said = refused(&package(control, &[("usr/share/doc/x", b"")], 1));
    assert!(said.contains("linux-binary-7.2.13-amd64"), "{said}");
    let said = refused(&package(&CONTROL.replace("linux-image-6.1.0-9-cloud-amd64", "hello"), &[], 1));
    assert!(said.contains("hello contains no kernel"), "{said}");
    let said = refused(&package(&CONTROL.replace("amd64\nDep", "arm64\nDep"), &[], 1));
    assert!(said.contains("arm64, the wrong architecture"), "{said}");
    let said = refused(&package(CONTROL, &[("boot/vmlinuz-1", b"not a kernel")], 1));
    assert!(said.contains("a text file"), "{said}");
}

#[test]
fn damage_is_named_wherever_it_is() {
    let noise: Vec<u8> = (0..60_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let kernel = bz_image_bytes("6.1");
    let files: &[(&str, &[u8])] = &[("boot/vmlinuz-6.1", &kernel), ("usr/share/noise", &noise)];
    let whole = package(CONTROL, files, 1);
    assert!(refused(&whole[..whole.len() - 9]).contains("truncated: data.tar.xz"));
    assert!(refused(&whole[..100]).contains("truncated"));
    assert!(refused(&whole[..40]).contains("truncated in the header at byte 8"));
    assert!(refused(b"hello").contains("ar archive"));
    assert!(refused(&ar_of(&[("debian-binary", b"2.0\n")])).contains("it has no control.tar"));
    // Flips one bit far behind the kernel, where only the checksum of the compression can detect it.
    let mut flipped = whole.clone();
    let at = whole.len() - 20_000;
    flipped[at] ^= 1;
    let said = refused(&flipped);
    assert!(said.contains("data.tar"), "{said}");
}

/// Guards against trusting a description before its archive has been read to the checksum at its end.
#[test]
fn the_checksum_of_the_description_is_compared() {
    let tar = tar_of(&[("control", CONTROL.as_bytes())]);
    // The start of the checksum of gzip, and the end of that of zstd.
    for (compression, from_end, name) in [(0, 8, "control.tar.gz"), (2, 1, "control.tar.zst")] {
        let mut control = compressed(&tar).swap_remove(compression).1;
        let read = |control: &[u8]| {
            let (_folder, path) = written(&ar_of(&[("debian-binary", b"2.0\n"), (name, control)]));
            read_control(&path)
        };
        assert!(read(&control).is_ok(), "{name}");
        let at = control.len() - from_end;
        control[at] ^= 1;
        let said = read(&control).unwrap_err().to_string();
        assert!(said.contains("control.tar: "), "{said}");
    }
}

#[test]
fn the_length_in_a_header_cannot_lead_astray() {
    let mut bytes = ar_of(&[("debian-binary", b"2.0\n")]);
    bytes[8 + 48..8 + 58].copy_from_slice(b"9999999999");
    assert!(refused(&bytes).contains("truncated: debian-binary"));
    bytes[8 + 48..8 + 58].copy_from_slice(b"-1        ");
    assert!(refused(&bytes).contains("invalid header at byte 8"));
}
