//! The descriptors of a process: links in `/proc/PID/fd`.

use crate::root::Root;
use std::io;

/// Returns the open descriptors in a folder such as `proc/PID/fd`, with what they refer to. To read that needs the
/// rights of ptrace(2); a process that may list the descriptors may lack them.
pub(crate) fn read_links(root: &Root, folder: &str) -> io::Result<Vec<(u32, String)>> {
    let mut links = Vec::new();
    for entry in std::fs::read_dir(root.path(folder))? {
        let entry = entry?;
        let Some(descriptor) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        match std::fs::read_link(entry.path()) {
            Ok(target) => links.push((descriptor, target.to_string_lossy().into_owned())),
            // It was closed since.
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(links)
}

/// Returns the inode of the socket to which a link of a descriptor refers.
pub(crate) fn socket(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// Whether an error says that a process or a descriptor is not there any more.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    /// The errno of "No such process", for which the standard library has no name.
    const ESRCH: i32 = 3;
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(ESRCH)
}
