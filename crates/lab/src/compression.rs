//! Identifies compressed data and decompresses it: kernels, initramfs archives, and the parts of Debian packages.

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
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
            Self::Zstd => match ZstdReader::new(data) {
                Ok(reader) => Box::new(reader),
                Err(error) => return Some(Err(error)),
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

/// A reader of every frame of Zstandard data, which compares the checksum of each frame that has one.
struct ZstdReader<R> {
    data: R,
    decoder: FrameDecoder,
    has_frame: bool,
}

impl<R: Read> ZstdReader<R> {
    fn new(data: R) -> io::Result<Self> {
        let mut reader = Self { data, decoder: FrameDecoder::new(), has_frame: false };
        reader.has_frame = reader.next_frame()?;
        Ok(reader)
    }

    /// Reads the header of the next frame with data; returns whether there is one.
    fn next_frame(&mut self) -> io::Result<bool> {
        loop {
            // Without another byte the data has ended; with one, there must be a header.
            let mut first = Vec::with_capacity(1);
            self.data.by_ref().take(1).read_to_end(&mut first)?;
            if first.is_empty() {
                return Ok(false);
            }
            let length = match self.decoder.init(first.as_slice().chain(&mut self.data)) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    u64::from(length)
                }
                Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
            };
            if io::copy(&mut self.data.by_ref().take(length), &mut io::sink())? < length {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Compares the checksums of a frame that was read to its end.
    fn check(&self) -> io::Result<()> {
        match (self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum()) {
            (Some(expected), Some(found)) if expected != found => {
                let what = format!("the checksum of the content is {found:08x}, not {expected:08x}");
                Err(io::Error::new(io::ErrorKind::InvalidData, what))
            }
            _ => Ok(()),
        }
    }
}

impl<R: Read> Read for ZstdReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.has_frame {
            if self.decoder.can_collect() > 0 {
                return self.decoder.read(buffer);
            }
            if self.decoder.is_finished() {
                self.check()?;
                self.has_frame = self.next_frame()?;
            } else {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.data, one).map_err(io::Error::other)?;
            }
        }
        Ok(0)
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

    /// "a kernel, a kernel, and a kernel", of `zstd --check`.
    const WITH_CHECKSUM: [u8; 33] = *b"\x28\xb5\x2f\xfd\x24\x20\xa5\x00\x00\x60a kernel, nd\x02\x001\x0b\xae\x51\x90\
                                      \xd5\x0a\xa1\x67";

    fn read(bytes: &[u8]) -> io::Result<String> {
        let mut text = String::new();
        Compression::Zstd.reader(bytes).unwrap()?.read_to_string(&mut text).map(|_| text)
    }

    /// Guards against booting a damaged kernel: ruzstd computes the checksum, but leaves the comparison to the caller.
    #[test]
    fn the_checksum_of_zstd_is_compared() {
        assert_eq!(read(&WITH_CHECKSUM).unwrap(), "a kernel, a kernel, and a kernel");
        // Damages a letter, and the checksum itself.
        for at in [12, 32] {
            let mut damaged = WITH_CHECKSUM;
            damaged[at] ^= 1;
            let said = read(&damaged).unwrap_err().to_string();
            assert!(said.contains("the checksum of the content is "), "{at}: {said}");
        }
    }

    /// Guards against a kernel truncated after the first frame: `zstd` itself joins frames, and `pzstd` writes several.
    #[test]
    fn every_frame_of_zstd_is_read() {
        let first = b"\x28\xb5\x2f\xfd\x24\x06\x31\0\0first \xd2\xfd\xb5\x11";
        let second = b"\x28\xb5\x2f\xfd\x24\x06\x31\0\0second\x37\0\x5e\x4d";
        let skipped = b"\x50\x2a\x4d\x18\x03\0\0\0xyz";
        assert_eq!(read(&[&first[..], skipped, second, skipped].concat()).unwrap(), "first second");
        assert!(read(&[&first[..], &skipped[..10]].concat()).is_err());
        assert!(read(&[&first[..], &second[..18]].concat()).is_err());
        assert!(read(&[&first[..], b"?"].concat()).is_err());
    }
}
