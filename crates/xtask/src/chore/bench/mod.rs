//! `bench`: Landau measured: is the instrument true, does it see differences where there are none, does a kill cost
//! more than a second, and how long does everything take?

mod aa;
mod crash;
mod instrument;
mod load;
mod median;
pub(crate) mod rivals;
mod serve;
mod speed;
mod stampede;

use anyhow::Result;
use clap::Subcommand;

/// What to measure.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// The medians of five calls, beside a plain C program's
    Instrument(instrument::Words),
    /// Runs of one machine against each other: how many comparisons call a difference?
    Aa(aa::Words),
    /// Kills at random moments: what is lost, what is left over, does it resume?
    Crash(crash::Words),
    /// What a request and a connection cost our server, beside a bare loop, nginx, lighttpd and h2o
    Serve(serve::Words),
    /// What a request costs our load generator, beside wrk, at each of those servers
    Load(load::Words),
    /// What our server does when too many come, too slowly, or more than there are descriptors for
    Stampede(stampede::Words),
    /// Times of the quick study, the page, the fit of a large record and the build
    Speed(speed::Words),
}

impl Bench {
    /// Measures; whether the target is reached.
    pub(crate) fn run(&self) -> Result<bool> {
        match self {
            Self::Instrument(words) => instrument::run(words),
            Self::Aa(words) => aa::run(words),
            Self::Crash(words) => crash::run(words),
            Self::Serve(words) => serve::run(words),
            Self::Load(words) => load::run(words),
            Self::Stampede(words) => stampede::run(words),
            Self::Speed(words) => speed::run(words),
        }
    }
}
