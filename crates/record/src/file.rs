//! Reads a record or a report into memory. A file that is plainly neither is not read to its end, because it may be
//! endless, such as `/dev/zero`.

use crate::Error;
use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// The number of bytes that are read before the file is recognised as a record, a report or neither.
const HEAD_BYTES: u64 = 64 << 10;

/// The first bytes of every file that gzip wrote (RFC 1952, 2.3.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The maximum inflated size of a compressed file, in bytes: a file of a few megabytes can hold more than fits in
/// memory.
const INFLATED_MAX: u64 = 2 << 30;

/// Reads a whole file that begins like a record (`{`) or a report (`<`), and decompresses it if it is gzip-compressed.
/// Of any other file it reads only the first 64 KiB, in which [`crate::Record::parse`] finds what is wrong. Of a run of
/// zero bytes it keeps at most 192 KiB: no text contains them, and a hole in a sparse file may be larger than memory.
///
/// # Errors
///
/// Fails if the file cannot be read or decompressed, if it is larger than 64 KiB and begins with neither character, or
/// if it is compressed and inflates to more than 2 GiB.
pub fn read_file(path: &Path) -> Result<Vec<u8>, Error> {
    read_within(path, INFLATED_MAX)
}

/// Reads a file as [`read_file`] does, with this limit on the inflated size of a compressed file, in bytes.
fn read_within(path: &Path, inflated_max: u64) -> Result<Vec<u8>, Error> {
    let mut file = BufReader::new(File::open(path).map_err(|source| unread(path, source))?);
    if !is_compressed(&mut file, path)? {
        return read(file, path);
    }
    let mut inflated = MultiGzDecoder::new(file).take(inflated_max.saturating_add(1));
    let bytes = read(&mut inflated, path)?;
    if inflated.limit() == 0 {
        let gib = inflated_max.div_ceil(1 << 30);
        let reason =
            format!("larger than {gib} GiB when decompressed; if it is a record, decompress it first (gunzip)");
        return Err(Error::Malformed { path: path.display().to_string(), line: 1, reason });
    }
    Ok(bytes)
}

/// Returns whether gzip compressed the file, without reading on.
pub(crate) fn is_compressed(file: &mut impl BufRead, path: &Path) -> Result<bool, Error> {
    Ok(file.fill_buf().map_err(|source| unread(path, source))?.starts_with(&GZIP))
}

fn read(mut from: impl Read, path: &Path) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    from.by_ref().take(HEAD_BYTES).read_to_end(&mut bytes).map_err(|source| unread(path, source))?;
    if matches!(bytes.trim_ascii_start().first(), Some(b'{' | b'<')) {
        let (mut part, mut was_hole) = (Vec::new(), false);
        while from.by_ref().take(HEAD_BYTES).read_to_end(&mut part).map_err(|source| unread(path, source))? > 0 {
            let is_hole = part.iter().all(|&byte| byte == 0);
            if !(is_hole && was_hole) {
                bytes.extend_from_slice(&part);
            }
            was_hole = is_hole;
            part.clear();
        }
    } else if bytes.len() as u64 == HEAD_BYTES {
        let reason = "not a Landau record: it does not begin with `{`".to_owned();
        return Err(Error::Malformed { path: path.display().to_string(), line: 1, reason });
    }
    Ok(bytes)
}

fn unread(path: &Path, source: std::io::Error) -> Error {
    Error::Io { action: "read", path: path.display().to_string(), source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[cfg(unix)]
    #[test]
    fn an_endless_file_is_an_error() {
        let error = read_file(Path::new("/dev/zero")).unwrap_err();
        assert!(error.to_string().contains("not a Landau record"), "{error}");
    }

    /// Guards against allocating memory for a hole in a sparse file, and against losing the bytes after it.
    #[test]
    fn a_hole_is_shortened_and_what_follows_it_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "{").unwrap();
        let mut file = File::options().append(true).open(&path).unwrap();
        file.set_len(1 << 26).unwrap();
        file.write_all(b"end").unwrap();
        let bytes = read_file(&path).unwrap();
        assert!(bytes.len() as u64 <= 4 * HEAD_BYTES && bytes.ends_with(b"\0end"), "{}", bytes.len());
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

    #[test]
    fn compressed_records_are_read_decompressed_and_no_endless_one() {
        use std::io::Write;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file.gz");
        let pack = |text: &str| {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gzip.write_all(text.as_bytes()).unwrap();
            gzip.finish().unwrap()
        };
        let text = "{".repeat(200_000);
        std::fs::write(&path, pack(&text)).unwrap();
        assert_eq!(read_file(&path).unwrap(), text.as_bytes());
        std::fs::write(&path, pack(&"\0".repeat(200_000))).unwrap();
        assert!(read_file(&path).unwrap_err().to_string().contains("not a Landau record"));
        // A truncated file is an error, like any file that cannot be read.
        let packed = pack(&text);
        std::fs::write(&path, &packed[..packed.len() / 2]).unwrap();
        assert!(read_file(&path).unwrap_err().to_string().contains("file.gz"));
    }

    /// Guards against a small file that uses up all memory or, if it inflates to zero bytes, takes forever.
    #[test]
    fn a_compressed_file_is_inflated_up_to_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file.gz");
        for text in ["{".repeat(200_000), format!("{{{}", "\0".repeat(199_999))] {
            let mut gzip = flate2::write::GzEncoder::new(File::create(&path).unwrap(), flate2::Compression::fast());
            gzip.write_all(text.as_bytes()).unwrap();
            gzip.finish().unwrap();
            assert!(std::fs::metadata(&path).unwrap().len() < 2_000);
            assert!(read_within(&path, 200_000).is_ok());
            let error = read_within(&path, 199_999).unwrap_err().to_string();
            assert!(error.contains("GiB when decompressed"), "{error}");
        }
        // The limit applies only to compressed files.
        std::fs::write(&path, "{".repeat(200_000)).unwrap();
        assert!(read_within(&path, 1_000).is_ok());
    }
}
