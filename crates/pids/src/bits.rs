//! Bitmaps of the numbers in use, read in words of 64 bits.

use crate::Id;

/// Bits of a word.
const WORD: Id = 64;

/// A bitmap with one bit for each number.
#[derive(Debug)]
pub(crate) struct Bits(Vec<u64>);

impl Bits {
    /// Returns a bitmap for the numbers below `end`, with all bits clear.
    pub(crate) fn new(end: Id) -> Self {
        Self(vec![0; end.div_ceil(WORD) as usize])
    }

    pub(crate) fn has(&self, id: Id) -> bool {
        self.0[(id / WORD) as usize] >> (id % WORD) & 1 == 1
    }

    pub(crate) fn set(&mut self, id: Id) {
        self.0[(id / WORD) as usize] |= 1 << (id % WORD);
    }

    pub(crate) fn clear(&mut self, id: Id) {
        self.0[(id / WORD) as usize] &= !(1 << (id % WORD));
    }

    /// Returns the first clear bit in `from..end`, and the number of words read.
    pub(crate) fn first_clear(&self, from: Id, end: Id) -> (Option<Id>, u64) {
        let (mut at, mut read) = (from, 0);
        while at < end {
            let clear = !self.0[(at / WORD) as usize] >> (at % WORD);
            read += 1;
            if clear != 0 {
                let found = at + clear.trailing_zeros();
                return ((found < end).then_some(found), read);
            }
            at = (at / WORD + 1) * WORD;
        }
        (None, read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_clear_bit_is_found_and_the_words_counted() {
        let mut bits = Bits::new(300);
        (0..200).for_each(|id| bits.set(id));
        bits.clear(3);
        assert_eq!(bits.first_clear(0, 300), (Some(3), 1));
        assert_eq!(bits.first_clear(4, 300), (Some(200), 4));
        assert_eq!(bits.first_clear(100, 200), (None, 3), "200 is in the third word, beyond the end");
        assert_eq!(bits.first_clear(100, 192), (None, 2));
    }
}
