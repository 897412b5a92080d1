//! `landau sink tcp`: a receiver of bytes.

use super::connection::ConnectionFlags;
use super::serving::Common;
use landau_mail::sink::tcp::{Mode, Tcp};
use landau_mail::sink::{Listen, Sink};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  landau sink tcp                                  discard what arrives at 127.0.0.1:9009
  landau sink tcp --echo --latency 20ms            send it back 20 ms later
  landau sink tcp --reset 64KiB:0.1                reset a tenth of the connections after 64 KiB")]
pub(crate) struct Args {
    /// Listen at ADDRESS:PORT, :PORT (all addresses) or NETWORK/BITS:PORT (all addresses of a network, which this
    /// machine must have); repeatable [default: 127.0.0.1:9009]
    #[arg(long, short, value_name = "ADDRESS")]
    listen: Vec<Listen>,
    /// Send back what is received [default: discard it]
    #[arg(long)]
    echo: bool,
    #[command(flatten)]
    connections: ConnectionFlags,
    #[command(flatten)]
    common: Common,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<u8> {
    let signals = Common::block_signals();
    let mode = if args.echo { Mode::Echo } else { Mode::Discard };
    let flags = &args.connections;
    let tcp = Tcp::new(mode, flags.latency, flags.conduct(), flags.idle_timeout, args.common.seed);
    let sink = Sink::bind(tcp, args.common.config(&args.listen, "127.0.0.1:9009")?)?;
    let about = if args.echo { "echoing bytes" } else { "discarding bytes" };
    args.common.run(signals, about, sink)
}
