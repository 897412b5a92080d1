//! Files, packages, and the cache.
#![allow(clippy::unwrap_used, reason = "a test ends where its premise fails")]

use super::*;
use crate::compression::tests::compressed;
use crate::deb::tests::package;
use crate::image::tests::{bz_image_bytes, elf_bytes, note};

const CONTROL: &str = "Package: linux-image-6.1.0-9-amd64\nVersion: 6.1.27-1\nArchitecture: amd64\n";

fn get(word: &Path, cache: &Path) -> Result<Kernel, Error> {
    obtain(word.to_str().unwrap(), cache, &mut |_| {})
}

#[test]
fn the_running_kernel_has_no_file() {
    assert!(matches!(obtain("host", Path::new("/nowhere"), &mut |_| {}), Err(Error::NoFile(_))));
}

#[test]
fn a_kernel_in_a_file_is_not_copied() {
    let folder = tempfile::tempdir().unwrap();
    let (image, cache) = (folder.path().join("vmlinuz-6.1"), folder.path().join("cache"));
    std::fs::write(&image, bz_image_bytes("6.1.9")).unwrap();
    std::fs::write(folder.path().join("config-6.1"), "CONFIG_X=y\n").unwrap();
    std::fs::write(folder.path().join("System.map-6.1"), "a stand-in").unwrap();
    let kernel = get(&image, &cache).unwrap();
    assert_eq!((kernel.name.as_str(), &kernel.image, kernel.kind), ("6.1.9", &image, Kind::BzImage));
    assert_eq!(kernel.config, Some(folder.path().join("config-6.1")));
    assert_eq!((kernel.system_map, kernel.sha256.len()), (None, 64));
    assert!(!cache.exists());
}

#[test]
fn a_package_is_unpacked_again_only_if_the_copy_changed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, cache) = (folder.path().join("a.deb"), folder.path().join("cache"));
    let files: &[(&str, &[u8])] = &[("boot/vmlinuz-6.1", &bz_image_bytes("6.1.9")), ("boot/config-6.1", b"X=y")];
    std::fs::write(&path, package(CONTROL, files, 1)).unwrap();
    let kernel = get(&path, &cache).unwrap();
    assert!(kernel.image.starts_with(&cache) && kernel.config.is_some());
    assert!(kernel.origin.starts_with("linux-image-6.1.0-9-amd64 6.1.27-1"), "{}", kernel.origin);
    std::fs::write(&kernel.image, "changed").unwrap();
    assert_eq!(get(&path, &cache).unwrap(), kernel);
    assert_eq!(std::fs::read_dir(cache.join("files")).unwrap().count(), 1, "a draft was left behind");
}

#[test]
fn a_damaged_package_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (path, cache) = (folder.path().join("a.deb"), folder.path().join("cache"));
    std::fs::write(&path, package(CONTROL, &[("boot/vmlinuz-6.1", b"text")], 1)).unwrap();
    assert!(get(&path, &cache).unwrap_err().to_string().contains("a text file"));
    assert_eq!(std::fs::read_dir(cache.join("files")).unwrap().count(), 0);
}

#[test]
fn a_compressed_vmlinux_is_unpacked() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = elf_bytes(0xffff_ffff_8100_0000, &note(b"Xen\0", 18), "Linux version 6.12.9 (a@b) #1");
    for (compression, data) in compressed(&bytes) {
        let path = folder.path().join(compression.name());
        std::fs::write(&path, data).unwrap();
        let kernel = get(&path, &folder.path().join("cache")).unwrap();
        assert_eq!(kernel.kind, Kind::Vmlinux { pvh: true });
        assert_eq!((std::fs::read(kernel.image).unwrap(), kernel.release), (bytes.clone(), Some("6.12.9".to_owned())));
    }
}

#[test]
fn a_wrong_file_is_described() {
    let folder = tempfile::tempdir().unwrap();
    let said = get(folder.path(), folder.path()).unwrap_err().to_string();
    assert!(said.contains("this is a directory; --kernel takes a bzImage"), "{said}");
    let said = get(&folder.path().join("none"), folder.path()).unwrap_err().to_string();
    assert!(said.contains("there is no kernel `") && said.contains("none`: no such file"), "{said}");
}

/// Guards against two images with the same name counting as one given twice, and against records that do not identify
/// the image.
#[test]
fn a_disk_image_has_a_checksum() {
    let folder = tempfile::tempdir().unwrap();
    let images = ["a", "b"].map(|name| {
        let path = folder.path().join(name).join("disk.qcow2");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, [&b"QFI\xfb"[..], name.as_bytes(), &[0; 1024]].concat()).unwrap();
        on_disk(&path, &mut |_| {}).unwrap()
    });
    assert_eq!((images[0].name.as_str(), images[1].name.as_str()), ("disk.qcow2", "disk.qcow2"));
    assert!(images.iter().all(|image| image.sha256.len() == 64) && images[0].sha256 != images[1].sha256);
}
