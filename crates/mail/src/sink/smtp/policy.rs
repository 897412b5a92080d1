//! The refusal of recipients: by greylisting, temporarily, or permanently.
//!
//! The decision on a recipient depends on the seed and the address, not on the order of clients, so a ledger can be
//! compared with the decisions of a seed.

use super::profile::Recipients;
use super::texts::{self, Refusal};
use crate::sink::draw::{Draws, Purpose, key};
use crate::sink::recent::Recent;
use std::net::IpAddr;

/// The decision on a recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Accepted,
    Greylisted(Refusal),
    Temporary(Refusal),
    Permanent(Refusal),
}

/// The client, sender and recipient of a message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Triplet<'a> {
    pub(super) client: IpAddr,
    /// Empty for the null path.
    pub(super) sender: &'a str,
    pub(super) local: &'a str,
    /// In lower case.
    pub(super) domain: &'a str,
}

/// The recent history of recipients.
#[derive(Debug)]
pub(super) struct Policy {
    draws: Draws,
    /// The times at which triplets were first seen, by key.
    triplets: Recent<u32>,
    /// The numbers of attempts for temporarily refused recipients, by key.
    attempts: Recent<u32>,
}

impl Policy {
    pub(super) fn new(draws: Draws) -> Self {
        Self { draws, triplets: Recent::default(), attempts: Recent::default() }
    }

    /// Judges a recipient.
    pub(super) fn judge(&mut self, rules: &Recipients, triplet: &Triplet<'_>, now_ms: u32) -> Verdict {
        let recipient = key(&[triplet.local.as_bytes(), triplet.domain.as_bytes()]);
        if self.draws.falls_in(rules.permanent_share, Purpose::Permanent, recipient) {
            return Verdict::Permanent(texts::permanent(self.draws, recipient));
        }
        if !rules.greylist.is_zero() && self.is_greylisted(rules, triplet, now_ms) {
            return Verdict::Greylisted(texts::GREYLISTED);
        }
        if let Some(temporary) = rules.temporary
            && self.draws.falls_in(temporary.share, Purpose::Temporary, recipient)
        {
            let attempts = self.attempts.entry(recipient, 0);
            if *attempts < temporary.attempts {
                *attempts += 1;
                return Verdict::Temporary(texts::temporary(self.draws, recipient));
            }
        }
        Verdict::Accepted
    }

    fn is_greylisted(&mut self, rules: &Recipients, triplet: &Triplet<'_>, now_ms: u32) -> bool {
        let Triplet { client, sender, local, domain } = triplet;
        let address = client.to_string();
        let all = key(&[address.as_bytes(), sender.as_bytes(), local.as_bytes(), domain.as_bytes()]);
        let first_ms = *self.triplets.entry(all, now_ms);
        u128::from(now_ms.wrapping_sub(first_ms)) < rules.greylist.as_millis()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::smtp::profile::Temporary;
    use std::time::Duration;

    fn triplet(local: &str) -> Triplet<'_> {
        Triplet { client: IpAddr::from([127, 0, 0, 1]), sender: "s@x.example", local, domain: "d.example" }
    }

    #[test]
    fn a_triplet_is_greylisted_until_its_time_has_passed() {
        let rules = Recipients { greylist: Duration::from_secs(60), ..Recipients::default() };
        let mut policy = Policy::new(Draws::new(1));
        let start = u32::MAX - 10;
        let mut judge = |triplet: &Triplet<'_>, after: u32| policy.judge(&rules, triplet, start.wrapping_add(after));
        let greylisted = Verdict::Greylisted(texts::GREYLISTED);
        assert_eq!([judge(&triplet("a"), 0), judge(&triplet("a"), 59_999)], [greylisted; 2]);
        assert_eq!(judge(&triplet("a"), 60_000), Verdict::Accepted);
        for other in [triplet("b"), Triplet { sender: "", ..triplet("a") }] {
            assert_eq!(judge(&other, 60_000), greylisted);
        }
        assert_eq!(judge(&triplet("a"), 90_000), Verdict::Accepted);
    }

    #[test]
    fn a_share_of_recipients_succeeds_after_its_attempts_in_any_order() {
        let rules = Recipients { temporary: Some(Temporary { share: 0.3, attempts: 2 }), ..Recipients::default() };
        let names: Vec<String> = (0..1000).map(|number| format!("r{number}")).collect();
        let round = |policy: &mut Policy, order: &mut dyn Iterator<Item = &String>| {
            let is_refused = |name: &&String| policy.judge(&rules, &triplet(name), 0) != Verdict::Accepted;
            order.filter(is_refused).cloned().collect::<std::collections::BTreeSet<String>>()
        };
        let mut policy = Policy::new(Draws::new(1));
        let first = round(&mut policy, &mut names.iter());
        assert!((230..370).contains(&first.len()), "{}", first.len());
        assert_eq!(round(&mut policy, &mut names.iter().rev()), first);
        assert!(round(&mut policy, &mut names.iter()).is_empty());
        let mut again = Policy::new(Draws::new(1));
        assert_eq!(round(&mut again, &mut names.iter().rev()), first);
        assert_ne!(round(&mut Policy::new(Draws::new(2)), &mut names.iter()), first);
    }

    #[test]
    fn a_share_of_recipients_never_succeeds() {
        let rules = Recipients { permanent_share: 1.0, ..Recipients::default() };
        let mut policy = Policy::new(Draws::new(1));
        for _ in 0..3 {
            assert!(matches!(policy.judge(&rules, &triplet("a"), 0), Verdict::Permanent(_)));
        }
    }
}
