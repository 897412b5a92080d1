//! Synthetic lists: so many recipients over so many domains, uniform or by Zipf's law, the same for the same seed.

use crate::list::Record;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::fmt::Write;

/// The largest number of domains: each has 8 bytes in a table.
pub const MOST_DOMAINS: u32 = 10_000_000;

/// What a synthetic list is like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    /// The number of recipients.
    pub recipients: u64,
    /// The number of domains.
    pub domains: u32,
    /// The exponent of Zipf's law: domain k has a share proportional to 1/k^s. 0 means that all have the same share.
    pub zipf: f64,
    /// The seed of the draws.
    pub seed: u64,
}

/// A synthetic list: recipients `u1@d0007.example`, in the domains for which `landau sink dns` answers. The name
/// `example` is reserved (RFC 6761).
#[derive(Debug)]
pub struct Synthetic {
    shape: Shape,
    rng: ChaCha8Rng,
    /// The shares of domains 1 to k, added up.
    cumulated: Vec<f64>,
    made: u64,
    /// The digits of the number of a domain.
    digits: usize,
}

impl Synthetic {
    /// Returns the list of a shape.
    pub fn new(shape: Shape) -> Self {
        let mut sum = 0.0;
        let share = |k: u32| f64::from(k).powf(-shape.zipf);
        let cumulated = (1..=shape.domains.max(1)).map(|k| {
            sum += share(k);
            sum
        });
        let cumulated = cumulated.collect();
        let digits = shape.domains.max(1).ilog10() as usize + 1;
        Self { shape, rng: ChaCha8Rng::seed_from_u64(shape.seed), cumulated, made: 0, digits }
    }

    /// Writes the next recipient. Returns whether there was one.
    pub(crate) fn next(&mut self, record: &mut Record) -> bool {
        if self.made == self.shape.recipients {
            return false;
        }
        self.made += 1;
        let whole = self.cumulated.last().copied().unwrap_or(1.0);
        let drawn = self.rng.random::<f64>() * whole;
        let domain = 1 + self.cumulated.partition_point(|&sum| sum <= drawn).min(self.cumulated.len() - 1);
        record.set_address("");
        // Writing to a string cannot fail.
        let _ = write!(record.text_mut(), "u{}@d{domain:0width$}.example", self.made, width = self.digits);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(shape: Shape) -> Vec<u64> {
        let (mut list, mut record) = (Synthetic::new(shape), Record::default());
        let mut counts = vec![0; shape.domains as usize + 1];
        while list.next(&mut record) {
            let domain = record.address().split_once("@d").unwrap().1.strip_suffix(".example").unwrap();
            counts[domain.parse::<usize>().unwrap()] += 1;
        }
        counts
    }

    #[test]
    fn domains_have_the_shares_of_the_law() {
        let shape = Shape { recipients: 50_000, domains: 100, zipf: 0.0, seed: 7 };
        let uniform = counts(shape);
        assert_eq!((uniform[0], uniform.iter().sum::<u64>()), (0, 50_000));
        // 500 expected; the standard deviation is 22.
        assert!(uniform[1..].iter().all(|&count| (370..630).contains(&count)), "{uniform:?}");
        let zipf = counts(Shape { zipf: 1.0, ..shape });
        // The harmonic number of 100 is 5.187: 9,639 expected for the first and half of that for the second.
        assert!((9_100..10_200).contains(&zipf[1]) && (4_450..5_200).contains(&zipf[2]), "{:?}", &zipf[..3]);
        assert_eq!(counts(shape), uniform);
        assert_ne!(counts(Shape { seed: 8, ..shape }), uniform);
    }
}
