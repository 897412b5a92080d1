//! The initramfs of a guest: the program that measures as its init, the libraries it needs, and its job.

use crate::cpio::Archive;
use crate::error::{Error, io};
use crate::job::{JOB_PATH, Job};
use object::Endianness;
use object::elf::{FileHeader64, ProgramHeader64};
use object::read::elf::{FileHeader, ProgramHeader};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the initramfs for a job; `program` becomes the guest's init.
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

/// Returns the program headers of a 64-bit ELF file.
fn segments(bytes: &[u8]) -> Option<(Endianness, &[ProgramHeader64<Endianness>])> {
    let header = FileHeader64::<Endianness>::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    Some((endian, header.program_headers(endian, bytes).ok()?))
}

/// Returns the part of an executable that is loaded. Debugging information comes after it, and would only delay the
/// guest, which unpacks it.
fn loaded_part(bytes: &[u8]) -> &[u8] {
    let end_of = |(endian, all): (Endianness, &[ProgramHeader64<Endianness>])| {
        all.iter().filter_map(|one| one.p_offset(endian).checked_add(one.p_filesz(endian))).max()
    };
    let end = segments(bytes).and_then(end_of).and_then(|end| usize::try_from(end).ok());
    end.and_then(|end| bytes.get(..end)).unwrap_or(bytes)
}

/// Returns the dynamic loader of a program; `None` if it is linked statically.
fn loader(bytes: &[u8]) -> Option<PathBuf> {
    let (endian, all) = segments(bytes)?;
    let path = all.iter().find_map(|one| one.interpreter(endian, bytes).ok().flatten())?;
    Some(PathBuf::from(String::from_utf8_lossy(path).into_owned()))
}

/// Returns the loader and the libraries of a program, at the paths where the loader looks for them.
fn libraries(program: &Path, bytes: &[u8]) -> Result<Vec<PathBuf>, Error> {
    let Some(loader) = loader(bytes) else {
        return Ok(Vec::new());
    };
    let listed = Command::new(&loader).arg("--list").arg(program).output();
    let listed = listed.map_err(|source| io("start", &loader, source))?;
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    if !listed.status.success() {
        return Err(Error::Guest(format!("{} --list does not list the libraries of landau: {text}", loader.display())));
    }
    let mut found: Vec<PathBuf> = text.lines().filter_map(library_of).collect();
    found.push(loader);
    found.sort();
    found.dedup();
    Ok(found)
}

/// Returns the path in a line such as `libm.so.6 => /lib/libm.so.6 (0x7f…)`.
fn library_of(line: &str) -> Option<PathBuf> {
    let (_, path) = line.split_once("=> ")?;
    let path = path.rsplit_once(" (").map_or(path, |(path, _)| path).trim();
    path.starts_with('/').then(|| PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loaded_part_of_this_test_runs() {
        let own = std::env::current_exe().unwrap();
        let bytes = std::fs::read(&own).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (part, short) = (folder.path().join("part"), folder.path().join("short"));
        std::fs::write(&part, loaded_part(&bytes)).unwrap();
        assert!(loaded_part(&bytes).len() < bytes.len());
        // A child process of another test may hold a file open that this process has open for writing, and the kernel
        // does not execute such a file.
        assert!(Command::new("install").args([&part, &short]).status().unwrap().success());
        let listed = Command::new(&short).arg("--list").output().unwrap();
        assert!(String::from_utf8_lossy(&listed.stdout).contains("the_loaded_part_of_this_test_runs"));
    }

    #[test]
    fn every_library_is_a_file() {
        let own = std::env::current_exe().unwrap();
        let found = libraries(&own, &std::fs::read(&own).unwrap()).unwrap();
        assert!(found.iter().all(|path| path.is_file()), "{found:?}");
        assert!(found.iter().any(|path| path.to_string_lossy().contains("libc")), "{found:?}");
    }
}
