//! The Huffman code of strings (RFC 7541 appendix B).
//!
//! The code is canonical: codes of one length are consecutive, in the order of their symbols, and follow those of the
//! shorter lengths. So the lengths define the code, and the tables are computed from them.

/// The length of each symbol's code, in bits. The last symbol is the end of a string, which never occurs.
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28,
    28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12,
    10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6,
    5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22,
    22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20,
    22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28,
    27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28,
    27, 27, 27, 27, 27, 26, 30,
];

/// The end of a string.
const END: u16 = 256;

/// The length of the longest code, in bits.
const LONGEST: usize = 30;

/// The length of the shortest code, in bits.
const SHORTEST: usize = 5;

/// The code, in the formats that encoding and decoding need.
struct Tables {
    /// The code of each symbol.
    codes: [u32; 257],
    /// The symbols in the order of their codes.
    symbols: [u16; 257],
    /// For each length, the lower bound of the first 32 bits of longer codes.
    limits: [u64; LONGEST + 1],
    /// For each length, its first code.
    first: [u32; LONGEST + 1],
    /// For each length, the index of its first symbol.
    places: [u16; LONGEST + 1],
}

static TABLES: Tables = {
    let mut tables = Tables {
        codes: [0; 257],
        symbols: [0; 257],
        limits: [0; LONGEST + 1],
        first: [0; LONGEST + 1],
        places: [0; LONGEST + 1],
    };
    let (mut code, mut place, mut length) = (0_u32, 0, 1);
    while length <= LONGEST {
        code <<= 1;
        tables.first[length] = code;
        tables.places[length] = place;
        let mut symbol = 0;
        while symbol < 257 {
            if LENGTHS[symbol] as usize == length {
                tables.codes[symbol] = code;
                tables.symbols[place as usize] = symbol as u16;
                code += 1;
                place += 1;
            }
            symbol += 1;
        }
        tables.limits[length] = (code as u64) << (32 - length);
        length += 1;
    }
    tables
};

/// The bytes are not a string in this code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

/// Appends the string that these bytes encode.
pub fn decode(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    // The unused bits that were read, left-aligned.
    let (mut bits, mut count) = (0_u64, 0_usize);
    let mut rest = bytes.iter();
    loop {
        while count <= 32
            && let Some(&byte) = rest.next()
        {
            bits |= u64::from(byte) << (56 - count);
            count += 8;
        }
        let next = bits >> 32;
        let length = (SHORTEST..=LONGEST).find(|&length| next < TABLES.limits[length]);
        match length {
            Some(length) if length <= count => {
                let offset = (next >> (32 - length)) as u32 - TABLES.first[length];
                let symbol = TABLES.symbols[usize::from(TABLES.places[length]) + offset as usize];
                if symbol == END {
                    return Err(Malformed);
                }
                out.push(symbol as u8);
                bits <<= length;
                count -= length;
            }
            // The rest is padding: fewer than eight bits, all of them ones.
            _ if count < 8 && bits >> (64 - 8) == 0xff << (8 - count) & 0xff => return Ok(()),
            _ => return Err(Malformed),
        }
    }
}

/// Returns the length of a string in this code, in bytes.
pub fn encoded_len(text: &[u8]) -> usize {
    let bits: usize = text.iter().map(|&byte| usize::from(LENGTHS[usize::from(byte)])).sum();
    bits.div_ceil(8)
}

/// Appends a string in this code.
pub fn encode(text: &[u8], out: &mut Vec<u8>) {
    let (mut bits, mut count) = (0_u64, 0);
    for &byte in text {
        let length = LENGTHS[usize::from(byte)];
        bits = bits << length | u64::from(TABLES.codes[usize::from(byte)]);
        count += length;
        while count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    if count > 0 {
        out.push((bits << (8 - count)) as u8 | 0xff >> count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7541 appendix C.4 and C.6.
    #[test]
    fn examples_of_the_rfc() {
        let cases: [(&str, &[u8]); 5] = [
            ("www.example.com", b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff"),
            ("no-cache", b"\xa8\xeb\x10\x64\x9c\xbf"),
            ("custom-value", b"\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf"),
            ("302", b"\x64\x02"),
            (
                "Mon, 21 Oct 2013 20:13:21 GMT",
                b"\xd0\x7a\xbe\x94\x10\x54\xd4\x44\xa8\x20\x05\x95\x04\x0b\x81\x66\xe0\x82\xa6\x2d\x1b\xff",
            ),
        ];
        for (text, expected) in cases {
            let (mut encoded, mut decoded) = (Vec::new(), Vec::new());
            encode(text.as_bytes(), &mut encoded);
            assert_eq!((&encoded[..], encoded_len(text.as_bytes())), (expected, expected.len()), "{text}");
            assert_eq!((decode(expected, &mut decoded), &decoded[..]), (Ok(()), text.as_bytes()));
        }
    }

    #[test]
    fn every_pair_of_bytes_is_restored() {
        for pair in 0..=u16::MAX {
            let text = pair.to_be_bytes();
            let (mut encoded, mut decoded) = (Vec::new(), Vec::new());
            encode(&text, &mut encoded);
            assert_eq!((decode(&encoded, &mut decoded), &decoded[..]), (Ok(()), &text[..]));
        }
    }

    /// RFC 7541 section 5.2: padding of eight bits or more, padding that is not all ones, and the end of a string.
    #[test]
    fn invalid_strings_are_refused() {
        for bytes in
            [&b"\xff"[..], b"\x64\x02\xff", b"\x00", b"\xff\xff\xff\xff", b"\xff\xff\xff\xfc", b"\x1e", b"\xfe"]
        {
            assert_eq!(decode(bytes, &mut Vec::new()), Err(Malformed), "{bytes:?}");
        }
        assert_eq!(decode(b"", &mut Vec::new()), Ok(()));
        assert_eq!(decode(b"\x1f", &mut Vec::new()), Ok(()), "a and three ones");
    }
}
