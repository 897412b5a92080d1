//! `landau sink http`: a server that answers every request alike.

use super::connection::{ConnectionFlags, share};
use super::serving::Common;
use landau_mail::sink::http::{Answer, Http};
use landau_mail::sink::{Listen, Sink};
use landau_units::size_in;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  landau sink http                                       200 without content at 127.0.0.1:8080
  landau sink http --length 10KiB --latency 20ms         10 KiB, 20 ms late
  landau sink http --errors 0.01 --error-status 500      one response in a hundred is 500")]
pub(crate) struct Args {
    /// Listen at ADDRESS:PORT, :PORT (all addresses) or NETWORK/BITS:PORT (all addresses of a network, which this
    /// machine must have); repeatable [default: 127.0.0.1:8080]
    #[arg(long, short, value_name = "ADDRESS")]
    listen: Vec<Listen>,
    /// Answer with this status
    #[arg(long, value_name = "STATUS", default_value_t = 200, value_parser = clap::value_parser!(u16).range(200..600))]
    status: u16,
    /// Send this much content, the letter x; 204 and 304 have none
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = size_in(0..=64 << 20))]
    length: u64,
    /// Answer this share of the requests with the status of --error-status, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    errors: f64,
    /// Answer the share of --errors with this status
    #[arg(long, value_name = "STATUS", default_value_t = 503, value_parser = clap::value_parser!(u16).range(400..600))]
    error_status: u16,
    #[command(flatten)]
    connections: ConnectionFlags,
    #[command(flatten)]
    common: Common,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<u8> {
    let signals = Common::block_signals();
    let flags = &args.connections;
    let answer = Answer {
        status: args.status,
        content_bytes: args.length as usize,
        latency: flags.latency,
        error_share: args.errors,
        error: args.error_status,
    };
    let http = Http::new(answer, flags.conduct(), flags.idle_timeout, args.common.seed);
    let sink = Sink::bind(http, args.common.config(&args.listen, "127.0.0.1:8080")?)?;
    args.common.run(signals, "answering requests", sink)
}
