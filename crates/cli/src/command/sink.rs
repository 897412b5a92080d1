//! `landau sink`: test servers. Each subcommand has a file in `sink/`.

mod connection;
mod dns;
mod http;
mod serving;
mod smtp;
mod tcp;

use clap::Subcommand;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Sink,
}

#[derive(Debug, Subcommand)]
enum Sink {
    /// Receive mail over SMTP, as a busy, slow or broken receiver if a profile specifies that
    Smtp(smtp::Args),
    /// Answer DNS queries for synthetic domains with MX hosts, over UDP and TCP
    Dns(dns::Args),
    /// Answer every HTTP request with a given status, length and latency
    Http(http::Args),
    /// Accept TCP connections, and discard or send back what is received
    Tcp(tcp::Args),
}

pub(crate) fn run(args: &Args) -> anyhow::Result<u8> {
    match &args.command {
        Sink::Smtp(args) => smtp::run(args),
        Sink::Dns(args) => dns::run(args),
        Sink::Http(args) => http::run(args),
        Sink::Tcp(args) => tcp::run(args),
    }
}
