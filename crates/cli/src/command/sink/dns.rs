//! `landau sink dns`: a name server for synthetic domains.

use super::connection::share;
use super::serving::Common;
use landau_mail::sink::Listen;
use landau_mail::sink::conduct::Latency;
use landau_mail::sink::dns::{self, Dns, Layout, Service};
use std::net::{Ipv4Addr, Ipv6Addr};

#[derive(Debug, clap::Args)]
#[command(after_help = "Names, for 9113 domains and as many sites:
  d0001.example ... d9113.example          domains: MX
  mx1.s0001.example ... mx3.s9113.example  the one to three MX hosts of each site: A, AAAA

Examples:
  landau sink dns                                    answer at 127.0.0.1:5353, UDP and TCP
  landau sink dns --sites 300 --loss 0.01            domains share MX hosts; 1% of queries dropped
  landau sink dns --null-mx 0.01 --nonexistent 0.02  some domains accept no mail or do not exist
  dig -p 5353 @127.0.0.1 d0001.example MX            query it")]
pub(crate) struct Args {
    /// Listen at ADDRESS:PORT, over UDP and TCP; repeatable [default: 127.0.0.1:5353]
    #[arg(long, short, value_name = "ADDRESS")]
    listen: Vec<Listen>,
    /// Put the domains below this name
    #[arg(long, value_name = "NAME", default_value = "example")]
    zone: String,
    /// Serve this many domains
    #[arg(long, value_name = "N", default_value_t = 9113, value_parser = clap::value_parser!(u32).range(1..=MOST))]
    domains: u32,
    /// Serve this many sites: sets of one to three MX hosts that several domains may share [default: as many as
    /// domains]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MOST))]
    sites: Option<u32>,
    /// Give the first MX host this address; the others get the addresses that follow, three for each site
    #[arg(long, value_name = "ADDRESS", default_value = "127.1.0.0")]
    hosts: Ipv4Addr,
    /// Give the hosts of this share of the sites both IPv4 and IPv6 addresses
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    dual_stack: f64,
    /// Give the hosts of this share of the sites IPv6 addresses only
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    ipv6_only: f64,
    /// Give the first MX host this IPv6 address, and the others the addresses that follow; `::1` is given to all
    #[arg(long, value_name = "ADDRESS", default_value = "::1")]
    ipv6_hosts: Ipv6Addr,
    /// Make this share of the domains accept no mail (null MX, RFC 7505)
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    null_mx: f64,
    /// Make this share of the domains have an address and no MX
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    no_mx: f64,
    /// Answer NXDOMAIN for this share of the domains
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    nonexistent: f64,
    /// Answer SERVFAIL for this share of the domains
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    failing: f64,
    /// Truncate answers over UDP for this share of the domains: clients must ask again over TCP
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    truncated: f64,
    /// Drop this share of the queries over UDP
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    loss: f64,
    /// Delay each answer by this time: 5ms, or "exponential 5ms" for that mean; in whole milliseconds
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = Latency::parse)]
    latency: Latency,
    #[command(flatten)]
    common: Common,
}

/// The maximum number of domains and of sites.
const MOST: i64 = 10_000_000;

pub(crate) fn run(args: &Args) -> anyhow::Result<u8> {
    let signals = Common::block_signals();
    let layout = Layout {
        domains: args.domains,
        sites: args.sites.unwrap_or(args.domains),
        first_address: args.hosts,
        first_address_v6: args.ipv6_hosts,
        dual_stack: args.dual_stack,
        ipv6_only: args.ipv6_only,
        null_mx: args.null_mx,
        no_mx: args.no_mx,
        nonexistent: args.nonexistent,
        failing: args.failing,
        truncated: args.truncated,
    };
    let shares = args.null_mx + args.no_mx + args.nonexistent + args.failing;
    anyhow::ensure!(
        shares <= 1.0,
        "--null-mx, --no-mx, --nonexistent and --failing add up to {shares}; the sum must be at most 1"
    );
    let families = args.dual_stack + args.ipv6_only;
    anyhow::ensure!(families <= 1.0, "--dual-stack and --ipv6-only add up to {families}; the sum must be at most 1");
    let service = Service { layout, latency: args.latency, loss: args.loss, seed: args.common.seed };
    let dns = Dns::new(&args.zone, service)?;
    let (sink, datagrams) = dns::bind(&dns, &args.common.config(&args.listen, "127.0.0.1:5353")?)?;
    let ended = args.common.run(signals, "answering DNS queries", sink);
    drop(datagrams);
    ended
}
