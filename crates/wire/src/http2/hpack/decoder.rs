//! Decoding of header blocks.

use super::table::Dynamic;
use super::{huffman, integer};

/// A header block is invalid; the connection must end, because the tables no longer agree (RFC 9113 section 4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// Decodes the header blocks of a connection in order.
#[derive(Debug)]
pub struct Decoder {
    table: Dynamic,
    /// The maximum size of the table that the peer may request.
    most: usize,
}

impl Decoder {
    /// Creates the decoder for a peer that is allowed a table of `most` bytes (4,096 by default).
    pub fn new(most: usize) -> Self {
        Self { table: Dynamic::new(most), most }
    }

    /// Returns the memory usage of the table, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.table.memory_bytes()
    }

    /// Decodes a whole block and calls `each` with the name and the value of each field. `scratch` is a buffer for
    /// Huffman-coded strings.
    #[inline]
    pub fn decode(
        &mut self,
        block: &[u8],
        scratch: &mut Vec<u8>,
        mut each: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), Malformed> {
        let (mut rest, mut is_begun) = (block, false);
        while let Some(&first) = rest.first() {
            rest = if first & 0x80 != 0 {
                let (index, rest) = integer::read(rest, 7).ok_or(Malformed("invalid index"))?;
                let (name, value) = self.table.get(index).ok_or(Malformed("index beyond the table"))?;
                each(name, value);
                rest
            } else if first & 0xe0 == 0x20 {
                if is_begun {
                    return Err(Malformed("the table is resized within a block"));
                }
                let (size, rest) = integer::read(rest, 5).ok_or(Malformed("invalid table size"))?;
                if size > self.most {
                    return Err(Malformed("the table is larger than allowed"));
                }
                self.table.resize(size);
                rest
            } else {
                self.literal(rest, scratch, &mut each)?
            };
            is_begun |= first & 0xe0 != 0x20;
        }
        Ok(())
    }

    /// Decodes a field that is not in the tables. Returns the rest of the block.
    fn literal<'a>(
        &mut self,
        block: &'a [u8],
        scratch: &mut Vec<u8>,
        each: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<&'a [u8], Malformed> {
        let is_indexed = block[0] & 0x40 != 0;
        let bits = if is_indexed { 6 } else { 4 };
        let (index, rest) = integer::read(block, bits).ok_or(Malformed("invalid index"))?;
        scratch.clear();
        let (name, rest) = match index {
            0 => Text::read(rest, scratch)?,
            index => {
                let (name, _) = self.table.get(index).ok_or(Malformed("index beyond the table"))?;
                scratch.extend_from_slice(name);
                (Text::Decoded(0, scratch.len()), rest)
            }
        };
        let (value, rest) = Text::read(rest, scratch)?;
        let (name, value) = (name.of(scratch), value.of(scratch));
        if is_indexed {
            self.table.insert([name, value].concat().into(), name.len());
        }
        each(name, value);
        Ok(rest)
    }
}

/// A string, either verbatim in the block or decoded into a buffer.
#[derive(Clone, Copy)]
enum Text<'a> {
    Plain(&'a [u8]),
    Decoded(usize, usize),
}

impl<'a> Text<'a> {
    /// Reads a string. Returns it and the rest of the block.
    fn read(bytes: &'a [u8], scratch: &mut Vec<u8>) -> Result<(Self, &'a [u8]), Malformed> {
        let is_coded = bytes.first().is_some_and(|byte| byte & 0x80 != 0);
        let (len, rest) = integer::read(bytes, 7).ok_or(Malformed("invalid string length"))?;
        let (text, rest) = rest.split_at_checked(len).ok_or(Malformed("a string is longer than the block"))?;
        if !is_coded {
            return Ok((Self::Plain(text), rest));
        }
        let start = scratch.len();
        huffman::decode(text, scratch).map_err(|huffman::Malformed| Malformed("invalid Huffman-coded string"))?;
        Ok((Self::Decoded(start, scratch.len()), rest))
    }

    fn of(self, scratch: &'a [u8]) -> &'a [u8] {
        match self {
            Self::Plain(text) => text,
            Self::Decoded(start, end) => &scratch[start..end],
        }
    }
}
