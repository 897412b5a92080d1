//! `landau mail`: delivers a message to a list of recipients over SMTP.

use crate::mail::{Live, page, relay, text};
use crate::status;
use clap::ValueEnum;
use landau_mail::sink::Listen;
use landau_mail::synthetic::{MOST_DOMAINS, Shape};
use landau_mail::{Backoff, Delivery, Encryption, Envelope, Feedback, Limits, Mode, Signer, Source, Sync, deliver};
use landau_sys::signal::{catch_interrupts, interrupted};
use landau_units::duration_in;
use landau_wire::smtp::parameter::{Notify, Ret};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The longest wait: thirty days.
const LONGEST: Duration = Duration::from_secs(720 * 3600);

/// Default limit on the connections to a site whose domain was looked up (Postfix's
/// `default_destination_concurrency_limit`).
const PER_SITE: u32 = 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ModeWord {
    /// Deliver the message
    Data,
    /// Ask for each recipient whether the server accepts it, then RSET: no message is sent
    Rset,
    /// Open a connection for each recipient, send EHLO and QUIT
    Quit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TlsWord {
    /// Do not encrypt connections
    Never,
    /// Encrypt connections to servers that offer STARTTLS, without verifying their certificates
    Opportunistic,
    /// Send nothing without encryption, and verify certificates
    Required,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SyncWord {
    /// After every batch of lines
    Always,
    /// Every second
    Interval,
    /// When the operating system decides to
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FeedbackWord {
    /// By 1/N: the fewest refusals
    Inverse,
    /// By 1/sqrt N
    Sqrt,
    /// By 1
    Constant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum NotifyWord {
    /// No notification
    Never,
    /// On delivery
    Success,
    /// On failure
    Failure,
    /// On delay
    Delay,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RetWord {
    /// The whole message
    Full,
    /// The header
    Hdrs,
}

const AFTER_HELP: &str = "The list has an address on each line, or it is CSV. In CSV, a first line without `@` is the
header. The address is in the column `email`, `address` or `to`, or else in the first column.
{{NAME}} in the message is replaced by the value of column NAME.

The ledger has a line of JSON for each event of a recipient. To continue an interrupted or killed
run, repeat the command: Landau skips recipients that are done or have failed.

Examples:
  landau mail list.txt --message letter.eml --from a@example.org --via localhost:2525 --ledger l
  landau mail list.csv --message letter.eml --via localhost --ledger l --sessions 90 --initial 90
  landau mail --recipients 200000 --domains 9113 --mode rset --via 127.0.0.1:2525 --ledger l
  landau mail --recipients 200000 --domains 9113 --mode rset --ledger l \\
      --name-server 127.0.0.1:5353 --smtp-port 2525
  landau mail --relay --listen 127.0.0.1:2526 --queue /var/spool/landau --via 127.0.0.1:2525

Exit status: 0 every recipient done, 1 recipients failed or remain, 2 could not run.";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct Args {
    /// File with the recipients; - reads standard input
    #[arg(value_name = "LIST", required_unless_present_any = ["recipients", "relay"])]
    #[arg(conflicts_with_all = ["recipients", "relay"])]
    list: Option<PathBuf>,
    /// Send to N synthetic recipients instead of a list: u1@d0007.example and so on
    #[arg(long, value_name = "N", requires = "domains", conflicts_with = "relay")]
    recipients: Option<u64>,
    /// Distribute the synthetic recipients over N domains
    #[arg(long, value_name = "N", requires = "recipients")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_DOMAINS)))]
    domains: Option<u32>,
    /// Give synthetic domain k a share proportional to 1/k^S (Zipf's law); 0 gives all the same share
    #[arg(long, value_name = "S", default_value_t = 0.0, requires = "recipients")]
    zipf: f64,
    /// Send this message: header, empty line, body
    #[arg(long, value_name = "FILE", conflicts_with = "relay")]
    message: Option<PathBuf>,
    /// Sign the message (DKIM) with this private key in PEM: RSA or Ed25519
    #[arg(long, value_name = "FILE", requires_all = ["dkim_domain", "dkim_selector"])]
    dkim_key: Option<PathBuf>,
    /// Sign for this domain
    #[arg(long, value_name = "DOMAIN", requires = "dkim_key")]
    dkim_domain: Option<String>,
    /// Set the DKIM selector: the public key is in the TXT record at NAME._domainkey.DOMAIN
    #[arg(long, value_name = "NAME", requires = "dkim_key")]
    dkim_selector: Option<String>,
    /// Send all mail to this server (port 25 by default), and look up no domain
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "name_server")]
    via: Option<String>,
    /// Look up the MX hosts of each domain at this name server (port 53 by default), not at the system's
    #[arg(long, value_name = "ADDRESS", value_parser = name_server)]
    name_server: Option<SocketAddr>,
    /// Connect to this port of MX hosts
    #[arg(long, value_name = "PORT", default_value_t = 25, conflicts_with = "via")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    smtp_port: u16,
    /// Encrypt connections (STARTTLS)
    #[arg(long, value_enum, value_name = "WHEN", default_value = "never")]
    tls: TlsWord,
    /// With --tls required, trust only the certificates in this PEM file: the authority that signed the server's, or
    /// the server's own
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    ca: Option<PathBuf>,
    /// With --tls required, accept any certificate
    #[arg(long)]
    insecure: bool,
    /// Record the outcome for each recipient in this file, and resume from it; required without --relay. A relay only
    /// appends to it
    #[arg(long, value_name = "FILE", required_unless_present = "relay")]
    ledger: Option<PathBuf>,
    /// Write a report to this Maildir about each recipient that fails
    #[arg(long, value_name = "DIR", conflicts_with = "relay")]
    bounces: Option<PathBuf>,
    /// Sync the ledger, or the queue of a relay, to the disk [default: interval, always for a relay]
    #[arg(long, value_enum)]
    sync: Option<SyncWord>,
    /// Set the envelope sender (MAIL FROM); empty is the null sender
    #[arg(long, value_name = "ADDRESS", default_value = "")]
    from: String,
    /// Use this host name in EHLO
    #[arg(long, value_name = "NAME", default_value = "localhost")]
    helo: String,
    /// Choose how far a transaction goes
    #[arg(long, value_enum, default_value = "data")]
    mode: ModeWord,
    /// Open at most N connections
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    sessions: u32,
    /// Open at most N connections to a site, the set of MX hosts of a domain [default: 20, with --via --sessions]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    per_site: Option<u32>,
    /// Open at most N connections to a site at first; each success raises that number, refusals reduce it
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    initial: u32,
    /// Change the number of connections N by this much per success and refusal
    #[arg(long, value_enum, default_value = "inverse")]
    feedback: FeedbackWord,
    /// Use a connection for at most N messages
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    per_connection: u64,
    /// Do not begin a message on a connection that is older than this
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration_in(Duration::ZERO..=LONGEST))]
    reuse_for: Duration,
    /// Send each message to up to N recipients at a time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    batch: u16,
    /// Keep at most N recipients in memory
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..))]
    active: u32,
    /// Wait for each reply even if the server offers PIPELINING
    #[arg(long)]
    no_pipelining: bool,
    /// Send messages with BDAT if the server offers CHUNKING
    #[arg(long)]
    chunking: bool,
    /// Ask for these delivery status notifications if the server offers DSN
    #[arg(long, value_enum, value_name = "WHEN,…", value_delimiter = ',')]
    notify: Vec<NotifyWord>,
    /// Ask that a notification return this part of the message if the server offers DSN
    #[arg(long, value_enum)]
    ret: Option<RetWord>,
    /// Identify the message by this text in notifications if the server offers DSN
    #[arg(long, value_name = "TEXT")]
    envid: Option<String>,
    /// Wait at most this long for a reply; RFC 5321 allows up to 10 minutes, depending on the command
    #[arg(long, value_name = "TIME", default_value = "10m")]
    #[arg(value_parser = duration_in(Duration::from_millis(1)..=LONGEST))]
    timeout: Duration,
    /// Try a recipient, or a server that cannot be reached, at most N times; then leave it to a later run
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    attempts: u32,
    /// Wait this long after a temporary failure; double the wait after each further one, then subtract a random part of
    /// up to half (jitter)
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration_in(Duration::ZERO..=LONGEST))]
    retry_after: Duration,
    /// Wait at most this long after a temporary failure
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = duration_in(Duration::ZERO..=LONGEST))]
    retry_at_most: Duration,
    /// Permit mail to HOST although it is neither this host nor in a private network (repeatable)
    #[arg(long, value_name = "HOST", requires = "yes_send_to_public")]
    allow_host: Vec<String>,
    /// Confirm --allow-host
    #[arg(long, requires = "allow_host")]
    yes_send_to_public: bool,
    /// Seed the random choices [default: random]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Serve /metrics for Prometheus at ADDRESS:PORT during the run
    #[arg(long, value_name = "ADDRESS", conflicts_with = "relay")]
    metrics: Option<Listen>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Write a page with throughput over time, domains, latencies and reasons of deferrals; an old page is replaced
    #[arg(long, value_name = "FILE", conflicts_with = "relay")]
    report: Option<PathBuf>,
    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    relay: relay::RelayArgs,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<u8> {
    if args.relay.relay {
        return relay::run(&args.relay, delivery(args)?, args.ledger.clone(), args.json);
    }
    anyhow::ensure!(!args.relay.offers_starttls(), "--starttls, --certificate and --key need --relay");
    catch_interrupts();
    if let Some(path) = &args.report {
        super::report::check_page(path, "--ledger and --report", &args.ledger)?;
    }
    let mut live = Live::new(args.quiet || args.json, args.recipients);
    let outcome = deliver(&delivery(args)?, &mut live, &|| interrupted().is_some())?;
    drop(live);
    let paged = args.report.as_ref().map_or(Ok(()), |path| super::report::put_page(path, &page::page(&outcome)));
    let result = if args.json { outcome.json().to_string() } else { text(&outcome) };
    let code = status::answer(&result, if outcome.is_complete() { status::DONE } else { status::FAILED })?;
    if outcome.is_interrupted {
        status::tell("interrupted; run the same command again to continue");
    }
    // The result is printed even if the report cannot be written.
    paged.map(|()| code)
}

fn delivery(args: &Args) -> anyhow::Result<Delivery> {
    let seed = args.seed.unwrap_or_else(super::run::random_seed);
    let source = match (&args.list, args.recipients, args.domains) {
        (Some(path), ..) => Source::File(path.clone()),
        // A synthetic list must be the same when the run is resumed, so the default seed is fixed.
        (None, Some(recipients), Some(domains)) => {
            anyhow::ensure!(args.zipf.is_finite() && args.zipf >= 0.0, "--zipf {}: must be 0 or more", args.zipf);
            let seed = args.seed.unwrap_or(1);
            Source::Synthetic(Shape { recipients, domains, zipf: args.zipf, seed })
        }
        // A relay receives its recipients over SMTP.
        _ => Source::File(PathBuf::new()),
    };
    Ok(Delivery {
        source,
        message: args.message.clone(),
        signer: signer(args)?,
        via: args.via.clone(),
        name_server: args.name_server,
        smtp_port: args.smtp_port,
        encryption: encryption(args)?,
        allowed_hosts: args.allow_host.clone(),
        metrics: args.metrics,
        bounces: args.bounces.clone(),
        ledger: args.ledger.clone().unwrap_or_default(),
        sync: match args.sync.unwrap_or(if args.relay.relay { SyncWord::Always } else { SyncWord::Interval }) {
            SyncWord::Always => Sync::Always,
            SyncWord::Interval => Sync::Interval(Duration::from_secs(1)),
            SyncWord::Never => Sync::Never,
        },
        envelope: envelope(args)?,
        limits: Limits {
            sessions: args.sessions,
            per_site: args.per_site.unwrap_or(if args.via.is_some() { args.sessions } else { PER_SITE }),
            initial: args.initial,
            feedback: match args.feedback {
                FeedbackWord::Inverse => Feedback::Inverse,
                FeedbackWord::Sqrt => Feedback::SquareRoot,
                FeedbackWord::Constant => Feedback::Constant,
            },
            backoff: Backoff { first: args.retry_after, longest: args.retry_at_most.max(args.retry_after) },
            attempts: args.attempts,
            seed,
        },
        active: args.active as usize,
        per_connection: args.per_connection,
        reuse_for: args.reuse_for,
        batch: usize::from(args.batch),
        timeout: args.timeout,
    })
}

/// Parses the address of a name server.
fn name_server(text: &str) -> Result<SocketAddr, String> {
    const PORT: u16 = 53;
    let bare = text.parse::<IpAddr>().map(|address| SocketAddr::new(address, PORT));
    text.parse()
        .or(bare)
        .map_err(|_| "expected an address, with or without a port: 192.0.2.1 or [2001:db8::1]:53".to_owned())
}

fn encryption(args: &Args) -> anyhow::Result<Encryption> {
    let has_no_effect = args.tls != TlsWord::Required && (args.insecure || args.ca.is_some());
    anyhow::ensure!(!has_no_effect, "--ca and --insecure need --tls required: otherwise no certificate is verified");
    Ok(match args.tls {
        TlsWord::Never => Encryption::Never,
        TlsWord::Opportunistic => Encryption::Opportunistic,
        TlsWord::Required => Encryption::Required { ca_file: args.ca.clone(), is_insecure: args.insecure },
    })
}

fn signer(args: &Args) -> anyhow::Result<Option<Arc<Signer>>> {
    match (&args.dkim_key, &args.dkim_domain, &args.dkim_selector) {
        (Some(key), Some(domain), Some(selector)) => Ok(Some(Arc::new(Signer::read(key, domain, selector)?))),
        _ => Ok(None),
    }
}

fn envelope(args: &Args) -> anyhow::Result<Envelope> {
    let has = |word| args.notify.contains(&word);
    anyhow::ensure!(
        !has(NotifyWord::Never) || args.notify.len() == 1,
        "--notify never cannot be combined with other values"
    );
    let notify =
        Notify { success: has(NotifyWord::Success), failure: has(NotifyWord::Failure), delay: has(NotifyWord::Delay) };
    let mode = match args.mode {
        ModeWord::Data => Mode::Data,
        ModeWord::Rset => Mode::Rset,
        ModeWord::Quit => Mode::Quit,
    };
    Ok(Envelope {
        helo: args.helo.clone(),
        pipelining: !args.no_pipelining,
        chunking: args.chunking,
        notify: (!args.notify.is_empty()).then_some(notify),
        ret: args.ret.map(|ret| if ret == RetWord::Full { Ret::Full } else { Ret::Headers }),
        envid: args.envid.clone(),
        ..Envelope::new(&args.from, mode)
    })
}
