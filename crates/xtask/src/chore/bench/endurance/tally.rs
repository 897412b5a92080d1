//! Outcomes of the requests of each kind of client.

use super::clients::Kind;
use crate::client::Lost;
use landau_wire::http2::Code;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The number of losses that are kept with their times; later ones are only counted.
const LOSSES: usize = 20;

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The response was complete and equal to the file.
    Whole,
    /// The server refused the request for now.
    Refused,
    /// The client did not read its response, and the server closed the connection.
    Dropped,
    /// The response was lost or wrong.
    Lost(String),
    /// The client is hostile; any response counts as this.
    Hostile,
}

impl Outcome {
    /// Returns the outcome of a failure.
    pub(super) fn of(lost: Lost) -> Self {
        match lost {
            // Any other code means that a response failed.
            Lost::Refused(Code::REFUSED_STREAM | Code::ENHANCE_YOUR_CALM) => Self::Refused,
            // The server has no memory for a handshake, or no room for another connection.
            Lost::Unanswered(why) if why.contains("received fatal alert: InternalError") => Self::Refused,
            lost => Self::Lost(lost.to_string()),
        }
    }
}

/// Counts of one kind of client.
#[derive(Debug, Clone, Default)]
struct Counts {
    whole: u64,
    refused: u64,
    dropped: u64,
    hostile: u64,
    lost: u64,
}

/// A response that was lost or wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Loss {
    /// The time since the start of the clients.
    at: Duration,
    kind: Kind,
    why: String,
}

/// Counts of all kinds.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    counts: BTreeMap<Kind, Counts>,
    /// The first losses, in order of time.
    losses: Vec<Loss>,
}

impl Tally {
    /// Counts an attempt that ended at `at` after the start of the clients.
    pub(super) fn count(&mut self, kind: Kind, outcome: Outcome, at: Duration) {
        let counts = self.counts.entry(kind).or_default();
        match outcome {
            Outcome::Whole => counts.whole += 1,
            Outcome::Refused => counts.refused += 1,
            Outcome::Dropped => counts.dropped += 1,
            Outcome::Hostile => counts.hostile += 1,
            Outcome::Lost(why) => {
                counts.lost += 1;
                if self.losses.len() < LOSSES {
                    self.losses.push(Loss { at, kind, why });
                }
            }
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (&kind, from) in &other.counts {
            let to = self.counts.entry(kind).or_default();
            to.whole += from.whole;
            to.refused += from.refused;
            to.dropped += from.dropped;
            to.hostile += from.hostile;
            to.lost += from.lost;
        }
        self.losses.extend(other.losses.iter().cloned());
        self.losses.sort_by_key(|loss| loss.at);
        self.losses.truncate(LOSSES);
    }

    /// Returns the number of responses that were lost or wrong.
    pub(super) fn lost(&self) -> u64 {
        self.counts.values().map(|counts| counts.lost).sum()
    }

    /// Returns the number of responses that the server refused, or dropped because their client did not read them.
    pub(super) fn refused(&self) -> u64 {
        self.counts.values().map(|counts| counts.refused + counts.dropped).sum()
    }

    /// Returns which of these kinds of clients received no complete response. Kinds that expect none are left out.
    pub(super) fn without_answers(&self, kinds: &[Kind]) -> Vec<&'static str> {
        let has_none = |kind: &Kind| self.counts.get(kind).is_none_or(|counts| counts.whole == 0);
        let without = kinds.iter().copied().filter(|kind| *kind != Kind::Hostile && has_none(kind));
        let without: BTreeSet<Kind> = without.collect();
        without.into_iter().map(Kind::name).collect()
    }

    pub(super) fn print(&self) {
        for (kind, counts) in &self.counts {
            let Counts { whole, refused, dropped, hostile, lost } = counts;
            let name = kind.name();
            if *kind == Kind::Hostile {
                println!("     {name:34} {hostile:8} attempts");
                continue;
            }
            println!("     {name:34} {whole:8} complete {refused:7} refused {dropped:5} not read {lost:5} lost");
        }
        for Loss { at, kind, why } in &self.losses {
            println!("     lost at {:6.1} s by {}: {why}", at.as_secs_f64(), kind.name());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alert_before_the_handshake_is_a_refusal_and_a_reset_is_a_loss() {
        let alert = Lost::Unanswered("received fatal alert: InternalError".to_owned());
        assert_eq!(Outcome::of(alert), Outcome::Refused);
        assert_eq!(Outcome::of(Lost::Refused(Code::REFUSED_STREAM)), Outcome::Refused);
        assert!(matches!(Outcome::of(Lost::Refused(Code::INTERNAL_ERROR)), Outcome::Lost(_)));
        let mut tally = Tally::default();
        for lost in [Lost::Unanswered("Connection reset by peer".to_owned()), Lost::Cut("x".to_owned()), Lost::Silent] {
            tally.count(Kind::Kept, Outcome::of(lost), Duration::ZERO);
        }
        let mut sum = Tally::default();
        sum.add(&tally);
        sum.add(&tally);
        assert_eq!(sum.lost(), 6);
    }

    #[test]
    fn refused_and_dropped_answers_are_counted() {
        let mut tally = Tally::default();
        for outcome in [Outcome::Whole, Outcome::Refused, Outcome::Dropped, Outcome::Refused, Outcome::Hostile] {
            tally.count(Kind::SlowReader, outcome, Duration::ZERO);
        }
        assert_eq!((tally.refused(), tally.lost()), (3, 0));
    }

    /// A kind without counts, because none of its attempts ever ended, was once not reported.
    #[test]
    fn a_kind_without_a_whole_answer_is_named() {
        let kinds = [Kind::Http2, Kind::Kept, Kind::Kept, Kind::Hostile, Kind::Large];
        let mut tally = Tally::default();
        tally.count(Kind::Kept, Outcome::Refused, Duration::ZERO);
        tally.count(Kind::Large, Outcome::Whole, Duration::ZERO);
        assert_eq!(tally.without_answers(&kinds), [Kind::Kept.name(), Kind::Http2.name()]);
        tally.count(Kind::Kept, Outcome::Whole, Duration::ZERO);
        assert_eq!(tally.without_answers(&kinds), [Kind::Http2.name()]);
    }

    #[test]
    fn the_first_losses_of_all_clients_are_kept() {
        let second = |at: usize| Duration::from_secs(at as u64);
        let mut sum = Tally::default();
        for client in 0..4 {
            let mut tally = Tally::default();
            for at in (client..100).step_by(4) {
                tally.count(Kind::Fresh, Outcome::Lost(at.to_string()), second(at));
            }
            sum.add(&tally);
        }
        assert_eq!(sum.lost(), 100);
        let expected: Vec<Loss> =
            (0..LOSSES).map(|at| Loss { at: second(at), kind: Kind::Fresh, why: at.to_string() }).collect();
        assert_eq!(sum.losses, expected);
    }
}
