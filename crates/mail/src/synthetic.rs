//! Synthetic lists: recipients distributed over domains, uniformly or by Zipf's law. The same seed gives the same list.

use crate::list::Record;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::fmt::Write;

/// Maximum number of domains: each takes 8 bytes in a table.
pub const MOST_DOMAINS: u32 = 10_000_000;

/// The shape of a synthetic list.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    /// The number of recipients.
    pub recipients: u64,
    /// The number of domains.
    pub domains: u32,
    /// The exponent of Zipf's law: domain k has a share proportional to 1/k^s. 0 means that all have the same share.
    pub zipf: f64,
    /// The seed of the random draws.
    pub seed: u64,
}

/// A synthetic list: recipients `u1@d0007.example`, in the domains served by `landau sink dns`. The name `example` is
/// reserved (RFC 6761).
#[derive(Debug)]
pub struct Synthetic {
    shape: Shape,
    rng: ChaCha8Rng,
    /// The cumulative shares of domains 1 to k; empty if all have the same share.
    cumulated: Vec<f64>,
    /// The recipients are in the domains from 1 to this one.
    used: u32,
    made: u64,
    /// The number of digits in the number of a domain.
    digits: usize,
}

impl Synthetic {
    /// Returns the list with this shape.
    pub fn new(shape: Shape) -> Self {
        let mut sum = 0.0;
        let share = |k: u32| f64::from(k).powf(-shape.zipf);
        let used = shape.domains.max(1);
        let listed = if shape.zipf == 0.0 { 0 } else { used };
        let cumulated = (1..=listed).map(|k| {
            sum += share(k);
            sum
        });
        let cumulated = cumulated.collect();
        let digits = used.ilog10() as usize + 1;
        Self { shape, rng: ChaCha8Rng::seed_from_u64(shape.seed), cumulated, used, made: 0, digits }
    }

    /// Distributes the following recipients over the first `count` domains of the shape.
    pub(crate) fn use_domains(&mut self, count: u32) {
        self.used = count.clamp(1, self.shape.domains.max(1));
    }

    /// Draws the number of a domain.
    fn draw(&mut self) -> usize {
        let (drawn, used) = (self.rng.random::<f64>(), self.used as usize);
        let Some(known) = self.cumulated.get(..used) else { return 1 + ((drawn * used as f64) as usize).min(used - 1) };
        let whole = known.last().copied().unwrap_or(1.0);
        1 + known.partition_point(|&sum| sum <= drawn * whole).min(used - 1)
    }

    /// Writes the next recipient. Returns whether there was one.
    pub(crate) fn next(&mut self, record: &mut Record) -> bool {
        if self.made == self.shape.recipients {
            return false;
        }
        self.made += 1;
        let domain = self.draw();
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

    #[test]
    fn recipients_come_from_the_domains_in_use() {
        for zipf in [0.0, 1.0] {
            let mut list = Synthetic::new(Shape { recipients: u64::MAX, domains: 100, zipf, seed: 7 });
            let mut record = Record::default();
            for (used, most) in [(1, 1), (3, 3), (100, 100), (1_000, 100)] {
                list.use_domains(used);
                let mut found = std::collections::BTreeSet::new();
                for _ in 0..5_000 {
                    assert!(list.next(&mut record));
                    let domain = record.address().split_once("@d").unwrap().1.strip_suffix(".example").unwrap();
                    found.insert(domain.parse::<u32>().unwrap());
                }
                assert_eq!((found.len() as u32, found.first(), found.last()), (most, Some(&1), Some(&most)));
            }
        }
    }
}
