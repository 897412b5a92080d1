//! Flags for the behaviour of connections, of the sinks that have no profile file.

use landau_mail::sink::conduct::{Conduct, Cut, Latency, Pieces};
use landau_units::{duration_in, size_in};
use std::time::Duration;

/// What happens to connections.
#[derive(Debug, clap::Args)]
pub(crate) struct ConnectionFlags {
    /// Delay each answer by this time: 5ms, or "exponential 5ms" for that mean; in whole milliseconds
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = Latency::parse)]
    pub(crate) latency: Latency,
    /// Send answers in pieces of this size, with a pause after each, as 1B:100ms [default: whole]
    #[arg(long, value_name = "SIZE:TIME", value_parser = pieces)]
    pieces: Option<Pieces>,
    /// Reset connections after this many received bytes; with a share, only this share of them: 1KiB or 1KiB:0.1
    #[arg(long, value_name = "SIZE[:SHARE]", value_parser = cut)]
    reset: Option<Cut>,
    /// Shut down the writing half of connections after this many received bytes, and continue reading: 1KiB or 1KiB:0.1
    #[arg(long, value_name = "SIZE[:SHARE]", value_parser = cut)]
    half_close: Option<Cut>,
    /// Do not answer on this share of the connections, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    silent: f64,
    /// Close connections that are idle for this long
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration_in(MS..=DAY * 11))]
    pub(crate) idle_timeout: Duration,
}

const MS: Duration = Duration::from_millis(1);
/// Times are at most eleven days: the event loop's clock counts milliseconds in 32 bits.
const DAY: Duration = Duration::from_secs(86_400);

impl ConnectionFlags {
    pub(crate) fn conduct(&self) -> Conduct {
        Conduct { pieces: self.pieces, reset: self.reset, half_close: self.half_close, silent_share: self.silent }
    }
}

/// Parses a share.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "must be a number from 0 to 1".to_owned())
}

fn cut(text: &str) -> Result<Cut, String> {
    let (size, part) = text.split_once(':').unwrap_or((text, "1"));
    let after_bytes = landau_units::size(size).map_err(|error| error.to_string())?;
    Ok(Cut { after_bytes, share: share(part)? })
}

fn pieces(text: &str) -> Result<Pieces, String> {
    let (size, time) = text.split_once(':').ok_or("write for example 1B:100ms")?;
    let bytes = size_in(1..=1 << 20)(size).map_err(|error| error.to_string())? as usize;
    let every = duration_in(MS..=DAY)(time).map_err(|error| error.to_string())?;
    Ok(Pieces { bytes, every })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_and_pieces_are_parsed() {
        assert_eq!(cut("1KiB"), Ok(Cut { after_bytes: 1024, share: 1.0 }));
        assert_eq!(cut("0:0.5"), Ok(Cut { after_bytes: 0, share: 0.5 }));
        assert_eq!(pieces("2B:1s"), Ok(Pieces { bytes: 2, every: Duration::from_secs(1) }));
        for text in ["", "1", "1KiB:", "1KiB:2", "1KiB:-1", ":1"] {
            assert!(cut(text).is_err(), "{text}");
        }
        for text in ["", "1B", "0B:1s", "1B:0", "1:1s"] {
            assert!(pieces(text).is_err(), "{text}");
        }
    }
}
