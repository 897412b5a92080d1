//! Reads a record or report into memory, unless the file is plainly neither and may be endless, such as `/dev/zero`.

use crate::Error;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The bytes that are read before the file is judged.
const HEAD_BYTES: u64 = 64 << 10;

/// Reads a whole file that begins as a record (`{`) or a report (`<`) does. Of any other file it reads only the first
/// 64 KiB, in which [`crate::Record::parse`] finds what is wrong.
///
/// # Errors
///
/// Fails if the file cannot be read, or if it is larger than 64 KiB and begins with neither character.
pub fn read_file(path: &Path) -> Result<Vec<u8>, Error> {
    let name = path.display().to_string();
    let io = |source| Error::Io { action: "read", path: name.clone(), source };
    let mut file = File::open(path).map_err(io)?;
    let mut bytes = Vec::new();
    file.by_ref().take(HEAD_BYTES).read_to_end(&mut bytes).map_err(io)?;
    if matches!(bytes.trim_ascii_start().first(), Some(b'{' | b'<')) {
        file.read_to_end(&mut bytes).map_err(io)?;
    } else if bytes.len() as u64 == HEAD_BYTES {
        let reason = "not a Landau record: it does not begin with `{`".to_owned();
        return Err(Error::Malformed { path: name, line: 1, reason });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn an_endless_file_is_an_error() {
        let error = read_file(Path::new("/dev/zero")).unwrap_err();
        assert!(error.to_string().contains("not a Landau record"), "{error}");
    }

    #[test]
    fn records_reports_and_short_files_are_read_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for (first, len) in [("{", 200_000), ("<", 200_000), ("x", 1000)] {
            let text = first.repeat(len);
            std::fs::write(&path, &text).unwrap();
            assert_eq!(read_file(&path).unwrap(), text.as_bytes());
        }
    }
}
