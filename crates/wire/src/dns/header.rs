//! The header of a message (RFC 1035 section 4.1.1).

/// The length of the header in bytes.
pub const BYTES: usize = 12;

/// The kind of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Opcode(pub u8);

impl Opcode {
    /// A standard query.
    pub const QUERY: Opcode = Opcode(0);
}

/// The result of a query. Results above 15 need EDNS (RFC 6891 section 6.1.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rcode(pub u16);

impl Rcode {
    /// No error.
    pub const NO_ERROR: Rcode = Rcode(0);
    /// The query was malformed.
    pub const FORMAT_ERROR: Rcode = Rcode(1);
    /// The server failed.
    pub const SERVER_FAILURE: Rcode = Rcode(2);
    /// The name does not exist (NXDOMAIN).
    pub const NAME_ERROR: Rcode = Rcode(3);
    /// The kind of query is not implemented.
    pub const NOT_IMPLEMENTED: Rcode = Rcode(4);
    /// The server does not answer this client or for this name.
    pub const REFUSED: Rcode = Rcode(5);
    /// The version of EDNS is not supported (RFC 6891 section 6.1.3).
    pub const BAD_VERSION: Rcode = Rcode(16);
}

/// The header of a message, without the counts of its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "they are the flags of RFC 1035, RFC 4035")]
pub struct Header {
    /// The number that an answer shares with its query.
    pub id: u16,
    /// QR: whether it is an answer.
    pub is_response: bool,
    /// The kind of query.
    pub opcode: Opcode,
    /// AA: whether the server is an authority for the name.
    pub is_authoritative: bool,
    /// TC: whether records are missing; retry over TCP.
    pub is_truncated: bool,
    /// RD: whether the client requests recursion.
    pub wants_recursion: bool,
    /// RA: whether the server offers recursion.
    pub offers_recursion: bool,
    /// AD: whether the server verified the data (RFC 4035 section 3.2.3).
    pub is_authentic: bool,
    /// CD: whether the client accepts unverified data (RFC 4035 section 3.2.2).
    pub is_unchecked: bool,
    /// The lower four bits of the result code.
    pub rcode: Rcode,
}

impl Header {
    /// Returns the header of a standard query with recursion.
    pub const fn query(id: u16) -> Header {
        Header {
            id,
            is_response: false,
            opcode: Opcode::QUERY,
            is_authoritative: false,
            is_truncated: false,
            wants_recursion: true,
            offers_recursion: false,
            is_authentic: false,
            is_unchecked: false,
            rcode: Rcode::NO_ERROR,
        }
    }

    /// Returns the header of an answer to a query with this header, with the same id, opcode, RD and CD.
    #[must_use]
    pub const fn response(&self, rcode: Rcode) -> Header {
        let Header { id, opcode, wants_recursion, is_unchecked, .. } = *self;
        Header { is_response: true, opcode, wants_recursion, is_unchecked, rcode, ..Header::query(id) }
    }

    /// Parses the header of a message, the rest of which may be malformed: enough to answer [`Rcode::FORMAT_ERROR`].
    /// Also returns the counts of questions, answers, authority records and additional records.
    pub fn parse(message: &[u8]) -> Option<(Header, [u16; 4])> {
        let bytes = message.first_chunk::<BYTES>()?;
        let word = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let flags = word(2);
        let has = |bit: u32| flags >> bit & 1 == 1;
        let header = Header {
            id: word(0),
            is_response: has(15),
            opcode: Opcode((flags >> 11 & 15) as u8),
            is_authoritative: has(10),
            is_truncated: has(9),
            wants_recursion: has(8),
            offers_recursion: has(7),
            is_authentic: has(5),
            is_unchecked: has(4),
            rcode: Rcode(flags & 15),
        };
        Some((header, [word(4), word(6), word(8), word(10)]))
    }

    /// Returns the header as bytes.
    pub(super) fn to_bytes(self, counts: [u16; 4]) -> [u8; BYTES] {
        let bit = |is_set: bool, bit: u32| u16::from(is_set) << bit;
        let flags = bit(self.is_response, 15)
            | u16::from(self.opcode.0 & 15) << 11
            | bit(self.is_authoritative, 10)
            | bit(self.is_truncated, 9)
            | bit(self.wants_recursion, 8)
            | bit(self.offers_recursion, 7)
            | bit(self.is_authentic, 5)
            | bit(self.is_unchecked, 4)
            | self.rcode.0 & 15;
        let words = [self.id, flags, counts[0], counts[1], counts[2], counts[3]];
        let mut bytes = [0; BYTES];
        for (place, word) in bytes.chunks_exact_mut(2).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_is_read_back() {
        for flags in 0..=u16::MAX {
            // Bit 6 is reserved: ignored, and written as zero.
            let [high, low] = (flags & !(1 << 6)).to_be_bytes();
            let bytes = [1, 2, high, low, 0, 3, 0, 4, 0, 5, 0, 6];
            let (header, counts) = Header::parse(&bytes).unwrap();
            assert_eq!((header.id, counts), (0x102, [3, 4, 5, 6]));
            assert_eq!(header.to_bytes(counts), bytes, "{flags:#x}");
        }
        assert_eq!(Header::parse(&[0; 11]), None);
    }

    #[test]
    fn a_response_repeats_what_rfc_1035_section_4_1_1_says() {
        let query = Header { is_unchecked: true, opcode: Opcode(2), is_authentic: true, ..Header::query(7) };
        let response = query.response(Rcode::NOT_IMPLEMENTED);
        let flags = (response.is_response, response.wants_recursion, response.is_unchecked, response.is_authentic);
        assert_eq!((response.id, response.opcode, response.rcode), (7, Opcode(2), Rcode::NOT_IMPLEMENTED));
        assert_eq!(flags, (true, true, true, false));
    }
}
