//! What became of the requests of each kind of client.

use super::clients::Kind;
use crate::client::Lost;
use landau_wire::http2::Code;
use std::collections::BTreeMap;

/// How many messages are kept of each kind.
const MESSAGES: usize = 3;

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The answer was whole and is the file.
    Whole,
    /// The server said that it does not answer now.
    Refused,
    /// The client did not take what was sent to it, and the server ended the connection.
    Dropped,
    /// The answer was lost, or wrong.
    Lost(String),
    /// The client is hostile: whatever it got.
    Hostile,
}

impl Outcome {
    /// Judges a failure.
    pub(super) fn of(lost: Lost) -> Self {
        match lost {
            // Any other code says that an answer failed.
            Lost::Refused(Code::REFUSED_STREAM | Code::ENHANCE_YOUR_CALM) => Self::Refused,
            // The server has no memory for a handshake, or no place for another connection.
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
    messages: Vec<String>,
}

/// Counts of all kinds.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally(BTreeMap<Kind, Counts>);

impl Tally {
    pub(super) fn count(&mut self, kind: Kind, outcome: Outcome) {
        let counts = self.0.entry(kind).or_default();
        match outcome {
            Outcome::Whole => counts.whole += 1,
            Outcome::Refused => counts.refused += 1,
            Outcome::Dropped => counts.dropped += 1,
            Outcome::Hostile => counts.hostile += 1,
            Outcome::Lost(why) => {
                counts.lost += 1;
                if counts.messages.len() < MESSAGES {
                    counts.messages.push(why);
                }
            }
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (&kind, from) in &other.0 {
            let to = self.0.entry(kind).or_default();
            to.whole += from.whole;
            to.refused += from.refused;
            to.dropped += from.dropped;
            to.hostile += from.hostile;
            to.lost += from.lost;
            let room = MESSAGES.saturating_sub(to.messages.len());
            to.messages.extend(from.messages.iter().take(room).cloned());
        }
    }

    /// Returns how many answers were lost or wrong.
    pub(super) fn lost(&self) -> u64 {
        self.0.values().map(|counts| counts.lost).sum()
    }

    /// Returns the kinds of clients of which none got a whole answer, those that ask for none left out.
    pub(super) fn without_answers(&self) -> Vec<&'static str> {
        let none = self.0.iter().filter(|(kind, counts)| **kind != Kind::Hostile && counts.whole == 0);
        none.map(|(kind, _)| kind.name()).collect()
    }

    pub(super) fn print(&self) {
        for (kind, counts) in &self.0 {
            let Counts { whole, refused, dropped, hostile, lost, messages } = counts;
            let name = kind.name();
            if *kind == Kind::Hostile {
                println!("     {name:34} {hostile:8} attempts");
                continue;
            }
            println!("     {name:34} {whole:8} whole {refused:7} refused {dropped:5} not taken {lost:5} lost");
            for message in messages {
                println!("          {message}");
            }
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
            tally.count(Kind::Kept, Outcome::of(lost));
        }
        let mut sum = Tally::default();
        sum.add(&tally);
        sum.add(&tally);
        assert_eq!(sum.lost(), 6);
        assert_eq!(sum.without_answers(), [Kind::Kept.name()]);
        sum.count(Kind::Kept, Outcome::Whole);
        assert!(sum.without_answers().is_empty());
    }
}
