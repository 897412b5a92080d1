//! `bench`: measures Landau itself: accuracy against a C program, false differences, losses by SIGKILL, and
//! speed.

mod aa;
mod agreement;
mod architecture;
mod claims;
mod crash;
mod downloads;
mod endurance;
mod files;
mod history;
mod instrument;
mod judge;
mod load;
mod mail;
mod median;
mod relay;
pub(crate) mod rivals;
mod serve;
mod speed;
mod stampede;

use anyhow::Result;
use clap::Subcommand;

/// A measurement of Landau.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Compare the medians of five calls with those of a C program
    Instrument(instrument::Words),
    /// Count false differences between runs on one machine
    Aa(aa::Words),
    /// Compare the CPU time per reply of the architectures of a server with that of C programs and of nginx
    Architecture(architecture::Words),
    /// Measure the claims of this project many times, and count false failures
    Claims(claims::Words),
    /// Kill runs at random times, and check the loss, leftover processes and resumption
    Crash(crash::Words),
    /// Compare the CPU time of a download of 100 MB from `landau serve` and other servers, by congestion control
    Downloads(downloads::Words),
    /// Connect thousands of mixed clients to `landau serve` for half an hour, with half the memory that they would use
    Endurance(endurance::Words),
    /// Compare the calls of the benchmark `files` with those of a bare loop in C and of `fs_mark`
    Files(files::Words),
    /// Count false and missed change points of simulated histories, and time a collection of 10,000 records
    History(history::Words),
    /// Compare the CPU time per request and connection of `landau serve`, a bare loop, nginx, lighttpd and h2o
    Serve(serve::Words),
    /// Compare the CPU time per request of `landau load` and wrk, with each server of `bench serve`
    Load(load::Words),
    /// Compare the CPU time of a message of `landau mail` and smtp-source, deliver through the queues of Postfix, Exim
    /// and OpenSMTPD, and repeat the run of the 2001 study
    Mail(mail::Words),
    /// Measure the messages per second through `landau mail --relay`, with and without a sync before each
    /// acknowledgement
    Relay(relay::Words),
    /// Test `landau serve` with too many clients, slow clients, and more clients than descriptors
    Stampede(stampede::Words),
    /// Measure the processor time of judging 18 million samples on one thread
    Judge(judge::Words),
    /// Time the quick study, the report, the fit of a large record and the build
    Speed(speed::Words),
}

impl Bench {
    /// Runs the measurement and returns whether it met its target.
    pub(crate) fn run(&self) -> Result<bool> {
        match self {
            Self::Instrument(words) => instrument::run(words),
            Self::Aa(words) => aa::run(words),
            Self::Architecture(words) => architecture::run(words),
            Self::Claims(words) => claims::run(words),
            Self::Crash(words) => crash::run(words),
            Self::Downloads(words) => downloads::run(words),
            Self::Endurance(words) => endurance::run(words),
            Self::Files(words) => files::run(words),
            Self::History(words) => history::run(words),
            Self::Serve(words) => serve::run(words),
            Self::Load(words) => load::run(words),
            Self::Mail(words) => mail::run(words),
            Self::Relay(words) => relay::run(words),
            Self::Stampede(words) => stampede::run(words),
            Self::Judge(words) => judge::run(words),
            Self::Speed(words) => speed::run(words),
        }
    }
}
