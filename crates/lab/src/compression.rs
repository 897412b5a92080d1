//! Identifies compressed data and decompresses it: kernels, initramfs archives, and the parts of Debian packages.

use std::io::{self, Read};

/// A compression format, identified by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// gzip: deflate with a header.
    Gzip,
    /// xz: LZMA2 with checks.
    Xz,
    /// Zstandard.
    Zstd,
    /// bzip2: identified, but not decompressed.
    Bzip2,
    /// The old format of LZMA: identified, but not decompressed.
    Lzma,
    /// LZ4, in frames or as the kernel uses it: identified, but not decompressed.
    Lz4,
}

impl Compression {
    /// Returns the format of a file that begins with these bytes.
    pub fn of(head: &[u8]) -> Option<Self> {
        const MAGIC: &[(&[u8], Compression)] = &[
            (b"\x1f\x8b\x08", Compression::Gzip),
            (b"\xfd7zXZ\0", Compression::Xz),
            (b"\x28\xb5\x2f\xfd", Compression::Zstd),
            (b"BZh", Compression::Bzip2),
            (b"\x5d\0\0", Compression::Lzma),
            (b"\x04\x22\x4d\x18", Compression::Lz4),
            (b"\x02\x21\x4c\x18", Compression::Lz4),
        ];
        MAGIC.iter().find(|(magic, _)| head.starts_with(magic)).map(|(_, compression)| *compression)
    }

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Xz => "xz",
            Self::Zstd => "zstd",
            Self::Bzip2 => "bzip2",
            Self::Lzma => "lzma",
            Self::Lz4 => "lz4",
        }
    }

    /// Returns a reader of the decompressed data; `None` for a format that is only identified.
    pub fn reader<'a>(self, data: impl Read + 'a) -> Option<io::Result<Box<dyn Read + 'a>>> {
        Some(Ok(match self {
            Self::Gzip => Box::new(flate2::read::MultiGzDecoder::new(data)),
            Self::Xz => Box::new(lzma_rust2::XzReader::new(data, true)),
            Self::Zstd => match ruzstd::decoding::StreamingDecoder::new(data) {
                Ok(reader) => Box::new(reader),
                Err(error) => return Some(Err(io::Error::new(io::ErrorKind::InvalidData, error))),
            },
            Self::Bzip2 | Self::Lzma | Self::Lz4 => return None,
        }))
    }

    /// Returns the first bytes of the decompressed data, as many as there are before an error; nothing for a format
    /// that is only identified.
    pub fn first(self, data: impl Read, count: u64) -> Vec<u8> {
        let mut first = Vec::new();
        if let Some(Ok(reader)) = self.reader(data) {
            let mut bytes = reader.take(count);
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = bytes.read(&mut buffer) {
                first.extend_from_slice(&buffer[..read]);
            }
        }
        first
    }
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used, reason = "a test ends where its premise fails")]

    use super::*;
    use std::io::Write;

    /// Returns `bytes` in each format that can be decompressed.
    pub(crate) fn compressed(bytes: &[u8]) -> Vec<(Compression, Vec<u8>)> {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(bytes).unwrap();
        let mut xz = lzma_rust2::XzWriter::new(Vec::new(), lzma_rust2::XzOptions::with_preset(0)).unwrap();
        xz.write_all(bytes).unwrap();
        let zstd = ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest);
        vec![
            (Compression::Gzip, gzip.finish().unwrap()),
            (Compression::Xz, xz.finish().unwrap()),
            (Compression::Zstd, zstd),
        ]
    }

    #[test]
    fn compressed_data_is_restored() {
        let text = b"a kernel, a kernel, and a kernel".repeat(1000);
        for (compression, bytes) in compressed(&text) {
            assert_eq!(Compression::of(&bytes), Some(compression));
            let mut out = Vec::new();
            compression.reader(&bytes[..]).unwrap().unwrap().read_to_end(&mut out).unwrap();
            assert_eq!(out, text, "{compression:?}");
            assert_eq!(compression.first(&bytes[..], 5), b"a ker");
        }
    }

    #[test]
    fn truncated_data_is_an_error() {
        let text: Vec<u8> = (0..40_000_u32).flat_map(|n| (n * n).to_le_bytes()).collect();
        for (compression, bytes) in compressed(&text) {
            let truncated = &bytes[..bytes.len() / 2];
            let read =
                compression.reader(truncated).unwrap().and_then(|mut reader| reader.read_to_end(&mut Vec::new()));
            assert!(read.is_err(), "{compression:?}");
        }
    }
}
