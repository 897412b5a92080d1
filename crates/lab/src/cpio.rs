//! Writes an initramfs: a cpio archive in the `newc` format (kernel documentation, "initramfs buffer format"). Equal
//! content gives equal bytes.

/// An archive under construction.
#[derive(Debug, Default)]
pub struct Archive {
    bytes: Vec<u8>,
    inode: u32,
    folders: Vec<String>,
}

const FOLDER: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const CHARACTER: u32 = 0o020_000;

impl Archive {
    /// Returns an empty archive.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a directory and its parents, unless they exist. The path has no leading slash.
    pub fn folder(&mut self, path: &str) {
        if path.is_empty() || self.folders.iter().any(|one| one == path) {
            return;
        }
        if let Some((above, _)) = path.rsplit_once('/') {
            self.folder(above);
        }
        self.entry(path, FOLDER | 0o755, (0, 0), &[]);
        self.folders.push(path.to_owned());
    }

    /// Adds a file with its permissions, and its parent directories.
    pub fn file(&mut self, path: &str, permissions: u32, content: &[u8]) {
        if let Some((above, _)) = path.rsplit_once('/') {
            self.folder(above);
        }
        self.entry(path, FILE | permissions, (0, 0), content);
    }

    /// Adds a character device.
    pub fn device(&mut self, path: &str, permissions: u32, major: u32, minor: u32) {
        if let Some((above, _)) = path.rsplit_once('/') {
            self.folder(above);
        }
        self.entry(path, CHARACTER | permissions, (major, minor), &[]);
    }

    /// Returns the finished archive.
    pub fn finish(mut self) -> Vec<u8> {
        self.inode = 0;
        self.entry("TRAILER!!!", 0, (0, 0), &[]);
        self.bytes
    }

    fn entry(&mut self, path: &str, mode: u32, device: (u32, u32), content: &[u8]) {
        self.inode += 1;
        let name_len = path.len() as u32 + 1;
        // Magic, inode, mode, user, group, links, time, size, device of the file, device, length of the name, checksum.
        let numbers = [self.inode, mode, 0, 0, 1, 0, content.len() as u32, 0, 0, device.0, device.1, name_len, 0];
        self.bytes.extend_from_slice(b"070701");
        for number in numbers {
            self.bytes.extend_from_slice(format!("{number:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    #[test]
    fn equal_content_gives_equal_aligned_bytes() {
        let make = || {
            let mut archive = Archive::new();
            archive.file("a/b/c", 0o644, b"hello");
            archive.device("dev/console", 0o600, 5, 1);
            archive.finish()
        };
        assert_eq!(make(), make());
        assert_eq!(make().len() % 4, 0);
    }

    #[test]
    fn cpio_reads_it() {
        let mut archive = Archive::new();
        archive.file("a/b/c", 0o640, b"hello\n");
        archive.file("init", 0o755, &vec![7; 100_001]);
        let folder = tempfile::tempdir().unwrap();
        let Ok(mut reader) =
            Command::new("cpio").args(["-i", "--quiet", "-d"]).current_dir(folder.path()).stdin(Stdio::piped()).spawn()
        else {
            eprintln!("skipped: there is no cpio here (Debian: cpio)");
            return;
        };
        reader.stdin.take().unwrap().write_all(&archive.finish()).unwrap();
        assert!(reader.wait().unwrap().success());
        assert_eq!(std::fs::read(folder.path().join("a/b/c")).unwrap(), b"hello\n");
        assert_eq!(std::fs::read(folder.path().join("init")).unwrap().len(), 100_001);
    }
}
