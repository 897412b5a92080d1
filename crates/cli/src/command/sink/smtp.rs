//! `landau sink smtp`: a receiver of mail.

use super::serving::Common;
use crate::mail::starttls::StartTlsArgs;
use landau_mail::sink::mailbox::Mailboxes;
use landau_mail::sink::smtp::Smtp;
use landau_mail::sink::smtp::profile::Profiles;
use landau_mail::sink::{Listen, Sink};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  landau sink smtp                                discard all mail at 127.0.0.1:2525
  landau sink smtp --listen 127.0.0.0/8:2525      all loopback addresses, as many hosts
  landau sink smtp --profile slow.toml --seed 7   late replies, greylisting, limits, resets, ...
  landau sink smtp --maildir /tmp/mail            one Maildir for each recipient
  kill -USR1 PID                                  print the counters so far

A profile is a TOML file; docs/sink.md lists its keys:
  [default]
  latency = \"exponential 5ms\"
  greylist = \"5m\"
  messages = 100
  [host.\"127.0.2.0/24\"]
  silent = 1.0
  [domain.\"*.example\"]
  permanent = 0.02")]
pub(crate) struct Args {
    /// Listen at ADDRESS:PORT, :PORT (all addresses) or NETWORK/BITS:PORT (all addresses of a network, which this
    /// machine must have); repeatable [default: 127.0.0.1:2525]
    #[arg(long, short, value_name = "ADDRESS")]
    listen: Vec<Listen>,
    /// Behave as this TOML file specifies [default: accept everything at once]
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Store messages in this new or empty directory, in one Maildir for each recipient [default: discard them]
    #[arg(long, value_name = "DIR")]
    maildir: Option<PathBuf>,
    /// Greet clients with this host name
    #[arg(long, value_name = "HOST", default_value = "sink.example", value_parser = host_name)]
    name: String,
    #[command(flatten)]
    starttls: StartTlsArgs,
    #[command(flatten)]
    common: Common,
}

/// Parses a host name. It is sent in replies, and must not contain the end of a line.
fn host_name(text: &str) -> Result<String, String> {
    let is_label = |label: &str| !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    if text.len() <= 255 && text.split('.').all(is_label) {
        return Ok(text.to_owned());
    }
    Err("not a host name; write for example mx.example".to_owned())
}

pub(crate) fn run(args: &Args) -> anyhow::Result<u8> {
    let signals = Common::block_signals();
    let profiles = args.profile.as_deref().map(Profiles::read).transpose()?.unwrap_or_default();
    let mut smtp = Smtp::new(&args.name, profiles, args.common.seed);
    if let Some(directory) = &args.maildir {
        smtp = smtp.with_mailboxes(Mailboxes::create(directory)?);
    }
    if let Some(certificate) = args.starttls.certificate() {
        smtp = smtp.with_tls(&certificate)?;
    }
    let sink = Sink::bind(smtp, args.common.config(&args.listen, "127.0.0.1:2525")?)?;
    args.common.run(signals, "receiving mail", sink)
}
