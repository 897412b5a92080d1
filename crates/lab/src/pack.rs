//! The initramfs of a guest: this very program as its init, with the libraries it needs, and its job.

use crate::cpio::Archive;
use crate::error::{Error, io};
use crate::job::{JOB_PATH, Job};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The initramfs for a job. `program` is the executable that becomes the guest's init.
pub fn initramfs(program: &Path, job: &Job) -> Result<Vec<u8>, Error> {
    let mut archive = Archive::new();
    for folder in ["dev", "proc", "sys", "tmp", "run"] {
        archive.folder(folder);
    }
    archive.device("dev/console", 0o600, 5, 1);
    let bytes = std::fs::read(program).map_err(|source| io("read", program, source))?;
    archive.file("init", 0o755, loaded_part(&bytes));
    for library in libraries(program, &bytes)? {
        let content = std::fs::read(&library).map_err(|source| io("read", &library, source))?;
        let path = library.to_string_lossy();
        archive.file(path.trim_start_matches('/'), 0o755, &content);
    }
    let job = serde_json::to_vec(job).map_err(|error| Error::Guest(error.to_string()))?;
    archive.file(JOB_PATH, 0o644, &job);
    Ok(archive.finish())
}

/// A little-endian number of `N` bytes at a place of an ELF file.
fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let mut wide = [0; 8];
    wide[..N].copy_from_slice(bytes.get(at..at + N)?);
    Some(u64::from_le_bytes(wide))
}

/// The segments of a 64-bit ELF file: kind, offset, size in the file.
fn segments(bytes: &[u8]) -> Option<Vec<(u64, usize, usize)>> {
    if !bytes.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (table, size, count) = (number::<8>(bytes, 0x20)?, number::<2>(bytes, 0x36)?, number::<2>(bytes, 0x38)?);
    let segment = |index: u64| {
        let at = (table + index * size) as usize;
        Some((number::<4>(bytes, at)?, number::<8>(bytes, at + 8)? as usize, number::<8>(bytes, at + 0x20)? as usize))
    };
    (0..count).map(segment).collect()
}

/// The part of an executable that is loaded: debugging information stands behind it, and a guest that unpacks it
/// spends its time on nothing.
fn loaded_part(bytes: &[u8]) -> &[u8] {
    let end = segments(bytes).and_then(|all| all.iter().map(|&(_, offset, size)| offset + size).max());
    end.and_then(|end| bytes.get(..end)).unwrap_or(bytes)
}

/// The dynamic loader of a program; none if it is linked statically.
fn loader(bytes: &[u8]) -> Option<PathBuf> {
    const INTERPRETER: u64 = 3;
    let (_, offset, size) = segments(bytes)?.into_iter().find(|(kind, ..)| *kind == INTERPRETER)?;
    let text = bytes.get(offset..offset + size)?;
    Some(PathBuf::from(String::from_utf8_lossy(text).trim_end_matches('\0').to_owned()))
}

/// The loader and the libraries of a program, at the paths where the loader looks for them.
fn libraries(program: &Path, bytes: &[u8]) -> Result<Vec<PathBuf>, Error> {
    let Some(loader) = loader(bytes) else {
        return Ok(Vec::new());
    };
    let listed = Command::new(&loader).arg("--list").arg(program).output();
    let listed = listed.map_err(|source| io("start", &loader, source))?;
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    if !listed.status.success() {
        return Err(Error::Guest(format!("{} cannot tell what landau needs: {text}", loader.display())));
    }
    let mut found: Vec<PathBuf> = text.lines().filter_map(library_of).collect();
    found.push(loader);
    found.sort();
    found.dedup();
    Ok(found)
}

/// The path in a line such as `libm.so.6 => /lib/libm.so.6 (0x7f…)`.
fn library_of(line: &str) -> Option<PathBuf> {
    let (_, path) = line.split_once("=> ")?;
    let path = path.rsplit_once(" (").map_or(path, |(path, _)| path).trim();
    path.starts_with('/').then(|| PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_runs_from_what_is_packed_of_it() {
        let own = std::env::current_exe().unwrap();
        let bytes = std::fs::read(&own).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let short = folder.path().join("short");
        std::fs::copy(&own, &short).unwrap();
        std::fs::write(&short, loaded_part(&bytes)).unwrap();
        assert!(loaded_part(&bytes).len() < bytes.len());
        let listed = Command::new(&short).arg("--list").output().unwrap();
        assert!(String::from_utf8_lossy(&listed.stdout).contains("this_test_runs_from_what_is_packed_of_it"));
    }

    #[test]
    fn every_library_is_a_file() {
        let own = std::env::current_exe().unwrap();
        let found = libraries(&own, &std::fs::read(&own).unwrap()).unwrap();
        assert!(found.iter().all(|path| path.is_file()), "{found:?}");
        assert!(found.iter().any(|path| path.to_string_lossy().contains("libc")), "{found:?}");
    }
}
