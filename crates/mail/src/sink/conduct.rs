//! The treatment of connections by a receiver of any protocol: late replies, replies in pieces, resets, half-closes,
//! silence.

use super::draw::{Draws, Purpose};
use std::time::Duration;

/// The latency of an action.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Latency {
    /// Always this long.
    Fixed(Duration),
    /// Exponentially distributed, with this mean.
    Exponential(Duration),
}

impl Default for Latency {
    fn default() -> Self {
        Self::Fixed(Duration::ZERO)
    }
}

impl Latency {
    /// Parses `5ms` or `exponential 5ms`.
    pub fn parse(text: &str) -> Result<Self, landau_units::Error> {
        match text.strip_prefix("exponential ") {
            Some(mean) => landau_units::duration(mean).map(Self::Exponential),
            None => landau_units::duration(text).map(Self::Fixed),
        }
    }

    /// Draws the latency of action number `index` of the connection `key`.
    #[inline]
    pub(crate) fn draw(self, draws: Draws, key: u64, index: u64) -> Duration {
        match self {
            Self::Fixed(time) => time,
            Self::Exponential(mean) => {
                let uniform = draws.uniform(Purpose::Latency, key, index);
                // Rounded to the millisecond, the resolution of timers; truncation would make the mean too small.
                Duration::from_millis((mean.as_secs_f64() * -1e3 * (1.0 - uniform).ln()).round() as u64)
            }
        }
    }
}

/// A cut of the connection, for a share of the connections.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cut {
    /// The number of received bytes before the cut.
    pub after_bytes: u64,
    /// The share of the connections, from 0 to 1.
    pub share: f64,
}

/// Replies sent in pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pieces {
    /// The size of a piece.
    pub bytes: usize,
    /// The pause after each piece.
    pub every: Duration,
}

/// The treatment of connections by a receiver.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Conduct {
    /// Replies are sent in pieces.
    pub pieces: Option<Pieces>,
    /// The connection is reset.
    pub reset: Option<Cut>,
    /// The receiver shuts down its writing half and continues to read.
    pub half_close: Option<Cut>,
    /// The share of the connections that get no answer at all, from 0 to 1.
    pub silent_share: f64,
}

/// The treatment of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Plan {
    pub(crate) pieces: Option<Pieces>,
    /// The number of received bytes before the reset.
    pub(crate) reset_after: Option<u64>,
    /// The number of received bytes before the half-close.
    pub(crate) half_close_after: Option<u64>,
    pub(crate) is_silent: bool,
}

impl Conduct {
    /// Draws the treatment of connection `number`.
    pub(crate) fn plan(&self, draws: Draws, number: u64) -> Plan {
        let cut = |cut: Option<Cut>, purpose| {
            cut.filter(|cut| draws.falls_in(cut.share, purpose, number)).map(|cut| cut.after_bytes)
        };
        Plan {
            pieces: self.pieces,
            reset_after: cut(self.reset, Purpose::Reset),
            half_close_after: cut(self.half_close, Purpose::HalfClose),
            is_silent: draws.falls_in(self.silent_share, Purpose::Silence, number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_parsed_and_drawn() {
        let ms = Duration::from_millis;
        assert_eq!(Latency::parse("5ms"), Ok(Latency::Fixed(ms(5))));
        assert_eq!(Latency::parse("0"), Ok(Latency::Fixed(ms(0))));
        let spread = Latency::parse("exponential 10ms").unwrap();
        assert_eq!(spread, Latency::Exponential(ms(10)));
        for text in ["", "5", "exponential", "exponential 5", "normal 5ms"] {
            assert!(Latency::parse(text).is_err(), "{text}");
        }
        let draws = Draws::new(3);
        let drawn: Vec<Duration> = (0..10_000).map(|index| spread.draw(draws, 1, index)).collect();
        let mean = drawn.iter().sum::<Duration>() / 10_000;
        // Five standard errors of the mean are half a millisecond.
        assert!(mean > ms(9) && mean < ms(11), "{mean:?}");
        // The median of an exponential distribution is ln 2 of its mean.
        let below = drawn.iter().filter(|time| **time < ms(7)).count();
        assert!((4500..5050).contains(&below), "{below}");
        assert_eq!(drawn[17], spread.draw(draws, 1, 17));
    }
}
