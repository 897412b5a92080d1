//! The descriptors of a process, from the links in `/proc/PID/fd`.

use crate::root::Root;
use std::io;

/// Returns the open descriptors in a directory such as `proc/PID/fd`, and what they refer to. Reading the links needs
/// the permissions of ptrace(2), which a process that may list the descriptors does not always have.
pub(crate) fn read_links(root: &Root, folder: &str) -> io::Result<Vec<(u32, String)>> {
    let mut links = Vec::new();
    for entry in std::fs::read_dir(root.path(folder))? {
        let entry = entry?;
        let Some(descriptor) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        match std::fs::read_link(entry.path()) {
            Ok(target) => links.push((descriptor, target.to_string_lossy().into_owned())),
            // It has been closed in the meantime.
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(links)
}

/// Returns the inode of the socket that the link of a descriptor refers to.
pub(crate) fn socket(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// Returns whether an error means that a process or a descriptor no longer exists.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    /// The errno of "No such process", for which the standard library has no name.
    const ESRCH: i32 = 3;
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(ESRCH)
}
