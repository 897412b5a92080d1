//! Random draws that depend only on their keys.
//!
//! If a receiver drew from one sequence, the treatment of each client would depend on the order of arrival. Here every
//! draw has a key (the seed, a purpose, and the subject of the draw: an address or the number of a connection). So
//! equal runs have equal draws, however their connections interleave.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// The purpose of a draw. The numbers are part of the meaning of a seed: never reuse one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Purpose {
    Latency = 1,
    Reset = 2,
    HalfClose = 3,
    Silence = 4,
    Temporary = 5,
    Permanent = 6,
    Text = 7,
    Status = 8,
    DomainKind = 9,
    Site = 10,
    Hosts = 11,
    Preference = 12,
    Truncation = 13,
    Loss = 14,
    Family = 15,
}

/// The source of all draws of a sink.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Draws {
    seed: u64,
}

impl Draws {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Returns a number that is uniform in [0, 1).
    pub(crate) fn uniform(self, purpose: Purpose, key: u64, index: u64) -> f64 {
        let mut bytes = [0; 32];
        for (place, word) in bytes.chunks_exact_mut(8).zip([self.seed, purpose as u64, key, index]) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let word = ChaCha8Rng::from_seed(bytes).next_u64();
        (word >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns whether a draw falls into a share of all draws: never for 0, always for 1.
    pub(crate) fn falls_in(self, share: f64, purpose: Purpose, key: u64) -> bool {
        share > 0.0 && self.uniform(purpose, key, 0) < share
    }
}

/// Returns the key of a text: 64-bit FNV-1a, which is specified, so that a seed has the same meaning everywhere. Parts
/// are separated, so that `ab` and `c` differ from `a` and `bc`.
pub(crate) fn key(parts: &[&[u8]]) -> u64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    parts.iter().fold(0xcbf2_9ce4_8422_2325, |hash, part| mix(part.iter().copied().fold(hash, mix), 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_depends_on_its_key_alone() {
        let draws = Draws::new(7);
        let first = draws.uniform(Purpose::Latency, 1, 0);
        draws.uniform(Purpose::Reset, 9, 9);
        assert!((draws.uniform(Purpose::Latency, 1, 0) - first).abs() < f64::EPSILON);
        for other in [
            Draws::new(8).uniform(Purpose::Latency, 1, 0),
            draws.uniform(Purpose::Reset, 1, 0),
            draws.uniform(Purpose::Latency, 2, 0),
            draws.uniform(Purpose::Latency, 1, 1),
        ] {
            assert!((other - first).abs() > f64::EPSILON);
        }
        assert_ne!(key(&[b"ab", b"c"]), key(&[b"a", b"bc"]));
    }

    #[test]
    fn a_share_is_the_fraction_of_keys() {
        let draws = Draws::new(1);
        let count = |share| (0..10_000).filter(|&key| draws.falls_in(share, Purpose::Permanent, key)).count();
        assert_eq!((count(0.0), count(1.0)), (0, 10_000));
        // Five standard deviations of a binomial distribution are 150.
        assert!((850..1150).contains(&count(0.1)), "{}", count(0.1));
    }
}
