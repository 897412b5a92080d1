//! Compressed data: which compression bytes are in, and a reader that undoes it.
//!
//! Kernels, initramfs archives and the parts of a Debian package come in any of these.

use std::io::{self, Read};

/// A compression that is known by the first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// gzip: deflate with a header.
    Gzip,
    /// xz: LZMA2 with checks.
    Xz,
    /// Zstandard.
    Zstd,
    /// bzip2: named, but not undone.
    Bzip2,
    /// The old form of LZMA: named, but not undone.
    Lzma,
    /// LZ4, in frames or as the kernel uses it: named, but not undone.
    Lz4,
}

impl Compression {
    /// The compression that these first bytes of a file belong to.
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

    /// What it is called.
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

    /// A reader of what `packed` holds; `None` for a compression that is only known by name.
    pub fn reader<'a>(self, packed: impl Read + 'a) -> Option<io::Result<Box<dyn Read + 'a>>> {
        Some(Ok(match self {
            Self::Gzip => Box::new(flate2::read::MultiGzDecoder::new(packed)),
            Self::Xz => Box::new(lzma_rust2::XzReader::new(packed, true)),
            Self::Zstd => match ruzstd::decoding::StreamingDecoder::new(packed) {
                Ok(reader) => Box::new(reader),
                Err(error) => return Some(Err(io::Error::new(io::ErrorKind::InvalidData, error))),
            },
            Self::Bzip2 | Self::Lzma | Self::Lz4 => return None,
        }))
    }

    /// The first bytes of what `packed` holds, as many as come out before an error; nothing where it cannot be undone.
    pub fn first(self, packed: impl Read, count: u64) -> Vec<u8> {
        let mut first = Vec::new();
        if let Some(Ok(reader)) = self.reader(packed) {
            let mut bytes = reader.take(count);
            let mut piece = [0; 4096];
            while let Ok(read @ 1..) = bytes.read(&mut piece) {
                first.extend_from_slice(&piece[..read]);
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

    /// `bytes` in each compression that is undone.
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
    fn what_is_packed_comes_out_again() {
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
    fn what_is_torn_is_an_error() {
        let text: Vec<u8> = (0..40_000_u32).flat_map(|n| (n * n).to_le_bytes()).collect();
        for (compression, bytes) in compressed(&text) {
            let torn = &bytes[..bytes.len() / 2];
            let read = compression.reader(torn).unwrap().and_then(|mut reader| reader.read_to_end(&mut Vec::new()));
            assert!(read.is_err(), "{compression:?}");
        }
    }
}
