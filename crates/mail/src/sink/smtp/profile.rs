//! The behaviour of SMTP receivers: a profile for each host (an address of the sink) and for domains of recipients,
//! read from a TOML file.

use crate::sink::conduct::{Conduct, Cut, Latency, Pieces};
use crate::sink::error::Error;
use crate::sink::prefix::Prefix;
use landau_wire::smtp::{Extension, Extensions};
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

/// The extensions that the sink implements.
const IMPLEMENTED: &[Extension] = &[
    Extension::Pipelining,
    Extension::Size,
    Extension::EnhancedStatusCodes,
    Extension::EightBitMime,
    Extension::Dsn,
    Extension::SmtpUtf8,
    Extension::Chunking,
    Extension::BinaryMime,
    Extension::StartTls,
];

/// The latency of each kind of command.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Latencies {
    /// Of the greeting.
    pub greeting: Latency,
    /// Of EHLO and HELO.
    pub hello: Latency,
    /// Of MAIL.
    pub mail: Latency,
    /// Of RCPT.
    pub rcpt: Latency,
    /// Of DATA.
    pub data: Latency,
    /// Of the end of a message.
    pub message: Latency,
    /// Of every other command.
    pub other: Latency,
}

impl Latencies {
    /// Returns the same latency for everything.
    const fn all(latency: Latency) -> Self {
        Self {
            greeting: latency,
            hello: latency,
            mail: latency,
            rcpt: latency,
            data: latency,
            message: latency,
            other: latency,
        }
    }
}

/// The temporary refusal of recipients.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Temporary {
    /// The share of the recipients, from 0 to 1.
    pub share: f64,
    /// The number of attempts for such a recipient that fail before one succeeds.
    pub attempts: u32,
}

/// The treatment of recipients.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Recipients {
    /// How long a new triplet of client, sender and recipient is refused; zero to disable greylisting.
    pub greylist: Duration,
    /// The recipients to refuse temporarily.
    pub temporary: Option<Temporary>,
    /// The share of recipients to refuse permanently, from 0 to 1.
    pub permanent_share: f64,
}

/// The behaviour of a host.
#[derive(Debug, Clone, PartialEq)]
pub struct Host {
    /// The treatment of connections.
    pub conduct: Conduct,
    /// The extensions in the answer to EHLO.
    pub extensions: Extensions,
    /// Maximum size of a message, in bytes.
    pub size_limit: u64,
    /// The latencies of replies.
    pub latencies: Latencies,
    /// The additional delay of negative replies.
    pub tarpit: Duration,
    /// Maximum number of simultaneous connections; further ones are answered with 421.
    pub connections: Option<u32>,
    /// Maximum number of messages on a connection; the next MAIL is answered with 421.
    pub messages: Option<u32>,
    /// Maximum number of recipients of a message; further ones are answered with 452.
    pub recipients: Option<u32>,
    /// The number of RSET, NOOP, HELP, VRFY and repeated EHLO commands that a client may send between messages before
    /// each further one counts as an error.
    pub junk: Option<u32>,
    /// The number of errors since the last message after which the connection is closed with 421.
    pub errors: Option<u32>,
    /// How long a client may be idle.
    pub idle: Duration,
    /// The treatment of recipients.
    pub rules: Recipients,
}

impl Default for Host {
    /// A host that accepts everything at once.
    fn default() -> Self {
        Self {
            conduct: Conduct::default(),
            extensions: Extensions::of(IMPLEMENTED),
            size_limit: 50 << 20,
            latencies: Latencies::default(),
            tarpit: Duration::ZERO,
            connections: None,
            messages: None,
            recipients: None,
            junk: None,
            errors: None,
            // RFC 5321 section 4.5.3.2.7.
            idle: Duration::from_secs(300),
            rules: Recipients::default(),
        }
    }
}

/// All profiles of a sink.
#[derive(Debug, Clone, Default)]
pub struct Profiles {
    default: Host,
    /// The hosts by network, the smallest network first.
    hosts: Vec<(Prefix, Host)>,
    domains: HashMap<String, RulesFile>,
}

impl Profiles {
    /// Returns profiles with the same behaviour for every host.
    pub fn uniform(host: Host) -> Self {
        Self { default: host, ..Self::default() }
    }

    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(|cause| Error::Read { path: path.to_owned(), cause })?;
        text.parse()
    }

    /// Returns the behaviour of all hosts: the default first.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = &Host> {
        std::iter::once(&self.default).chain(self.hosts.iter().map(|(_, host)| host))
    }

    /// Returns the index of an address in [`hosts`](Self::hosts).
    pub(crate) fn find(&self, address: IpAddr) -> usize {
        self.hosts.iter().position(|(prefix, _)| prefix.contains(address)).map_or(0, |at| at + 1)
    }

    /// Returns the behaviour of a host.
    pub(crate) fn host(&self, index: usize) -> &Host {
        index.checked_sub(1).and_then(|at| self.hosts.get(at)).map_or(&self.default, |(_, host)| host)
    }

    /// Returns whether any recipient may be refused.
    pub(crate) fn has_rules(&self) -> bool {
        !self.domains.is_empty() || self.hosts().any(|host| host.rules != Recipients::default())
    }

    /// Returns the rules of a host for recipients of a domain, which is in lower case. A domain's rules replace the
    /// host's; the rules of `*.example` apply to all domains below `example`.
    pub(crate) fn rules(&self, host: usize, domain: &str) -> Recipients {
        let mut rules = self.host(host).rules;
        if !self.domains.is_empty() {
            let mut found = self.domains.get(domain);
            let mut rest = domain;
            while let (None, Some((_, parent))) = (found, rest.split_once('.')) {
                found = self.domains.get(&format!("*.{parent}"));
                rest = parent;
            }
            found.inspect(|file| file.apply(&mut rules));
        }
        rules
    }
}

impl FromStr for Profiles {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let file: File = toml::from_str(text).map_err(|error| Error::Profile(error.to_string()))?;
        let mut default = Host::default();
        file.default.apply(&mut default);
        let mut hosts = Vec::new();
        for (network, file) in &file.host {
            let mut host = default.clone();
            file.apply(&mut host);
            hosts.push((network.parse::<Prefix>()?, host));
        }
        hosts.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.bits()));
        let domains = file.domain.into_iter().map(|(name, rules)| (name.to_ascii_lowercase(), rules)).collect();
        Ok(Self { default, hosts, domains })
    }
}

/// Declares the type of a value that is text in the file.
macro_rules! text_value {
    ($name:ident($inner:ty), $parse:expr) => {
        #[derive(Debug, Clone, Copy, Deserialize)]
        #[serde(try_from = "String")]
        struct $name($inner);

        impl TryFrom<String> for $name {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                let parse: fn(&str) -> Result<$inner, String> = $parse;
                parse(&text).map(Self).map_err(|error| format!("{text:?}: {error}"))
            }
        }
    };
}

text_value!(Time(Duration), |text| landau_units::duration(text).map_err(|error| error.to_string()));
text_value!(Size(u64), |text| landau_units::size(text).map_err(|error| error.to_string()));
text_value!(Spread(Latency), |text| Latency::parse(text).map_err(|error| error.to_string()));
text_value!(Keyword(Extension), |text| {
    let known = Extension::of(text.as_bytes()).filter(|one| IMPLEMENTED.contains(one));
    let names: Vec<&str> = IMPLEMENTED.iter().map(|one| one.keyword()).collect();
    known.ok_or_else(|| format!("not an extension of the sink; it offers {}", names.join(", ")))
});

/// A number from 0 to 1.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "f64")]
struct Share(f64);

impl TryFrom<f64> for Share {
    type Error = String;

    fn try_from(value: f64) -> Result<Self, String> {
        if (0.0..=1.0).contains(&value) { Ok(Self(value)) } else { Err(format!("{value}: must be from 0 to 1")) }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    default: HostFile,
    #[serde(default)]
    host: BTreeMap<String, HostFile>,
    #[serde(default)]
    domain: BTreeMap<String, RulesFile>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostFile {
    extensions: Option<Vec<Keyword>>,
    size_limit: Option<Size>,
    latency: Option<LatencyFile>,
    tarpit: Option<Time>,
    connections: Option<u32>,
    messages: Option<u32>,
    recipients: Option<u32>,
    junk: Option<u32>,
    errors: Option<u32>,
    idle: Option<Time>,
    pieces: Option<PiecesFile>,
    reset: Option<CutFile>,
    half_close: Option<CutFile>,
    silent: Option<Share>,
    greylist: Option<Time>,
    temporary: Option<TemporaryFile>,
    permanent: Option<Share>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RulesFile {
    greylist: Option<Time>,
    temporary: Option<TemporaryFile>,
    permanent: Option<Share>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(untagged, expecting = "a time such as \"5ms\" or \"exponential 5ms\", or a table of times by command")]
enum LatencyFile {
    All(Spread),
    Each(EachLatency),
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct EachLatency {
    greeting: Option<Spread>,
    hello: Option<Spread>,
    mail: Option<Spread>,
    rcpt: Option<Spread>,
    data: Option<Spread>,
    message: Option<Spread>,
    other: Option<Spread>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct PiecesFile {
    bytes: std::num::NonZeroU32,
    every: Time,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct CutFile {
    after: Size,
    share: Option<Share>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct TemporaryFile {
    share: Share,
    attempts: Option<u32>,
}

impl From<CutFile> for Cut {
    fn from(file: CutFile) -> Self {
        Self { after_bytes: file.after.0, share: file.share.map_or(1.0, |share| share.0) }
    }
}

/// Replaces a value if the file sets it.
fn replace<T, F>(value: &mut T, file: Option<F>, convert: impl FnOnce(F) -> T) {
    if let Some(file) = file {
        *value = convert(file);
    }
}

impl HostFile {
    fn apply(&self, host: &mut Host) {
        if let Some(keywords) = &self.extensions {
            host.extensions = keywords.iter().fold(Extensions::NONE, |set, keyword| set.with(keyword.0));
        }
        replace(&mut host.size_limit, self.size_limit, |size| size.0);
        match self.latency {
            None => {}
            Some(LatencyFile::All(latency)) => host.latencies = Latencies::all(latency.0),
            Some(LatencyFile::Each(each)) => each.apply(&mut host.latencies),
        }
        replace(&mut host.tarpit, self.tarpit, |time| time.0);
        replace(&mut host.connections, self.connections, Some);
        replace(&mut host.messages, self.messages, Some);
        replace(&mut host.recipients, self.recipients, Some);
        replace(&mut host.junk, self.junk, Some);
        replace(&mut host.errors, self.errors, Some);
        replace(&mut host.idle, self.idle, |time| time.0);
        let pieces = |file: PiecesFile| Some(Pieces { bytes: file.bytes.get() as usize, every: file.every.0 });
        replace(&mut host.conduct.pieces, self.pieces, pieces);
        replace(&mut host.conduct.reset, self.reset, |cut| Some(cut.into()));
        replace(&mut host.conduct.half_close, self.half_close, |cut| Some(cut.into()));
        replace(&mut host.conduct.silent_share, self.silent, |share| share.0);
        let rules = RulesFile { greylist: self.greylist, temporary: self.temporary, permanent: self.permanent };
        rules.apply(&mut host.rules);
    }
}

impl RulesFile {
    fn apply(&self, rules: &mut Recipients) {
        replace(&mut rules.greylist, self.greylist, |time| time.0);
        let temporary =
            |file: TemporaryFile| Some(Temporary { share: file.share.0, attempts: file.attempts.unwrap_or(1) });
        replace(&mut rules.temporary, self.temporary, temporary);
        replace(&mut rules.permanent_share, self.permanent, |share| share.0);
    }
}

impl EachLatency {
    fn apply(&self, latencies: &mut Latencies) {
        for (value, file) in [
            (&mut latencies.greeting, self.greeting),
            (&mut latencies.hello, self.hello),
            (&mut latencies.mail, self.mail),
            (&mut latencies.rcpt, self.rcpt),
            (&mut latencies.data, self.data),
            (&mut latencies.message, self.message),
            (&mut latencies.other, self.other),
        ] {
            replace(value, file, |latency| latency.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY_KEY: &str = r#"
        [default]
        extensions = ["PIPELINING", "size"]
        size_limit = "10MiB"
        latency = "exponential 5ms"
        tarpit = "5s"
        connections = 20
        messages = 100
        recipients = 50
        junk = 100
        errors = 20
        idle = "1m"
        pieces = { bytes = 1, every = "1s" }
        reset = { after = "1KiB", share = 0.5 }
        half_close = { after = "0" }
        silent = 0.25
        greylist = "5m"
        temporary = { share = 0.1, attempts = 2 }
        permanent = 0.02

        [host."127.0.0.0/8"]
        latency = { rcpt = "1ms" }
        messages = 3

        [host."127.0.2.0/24"]
        messages = 7

        [domain."A.example"]
        permanent = 1

        [domain."*.example"]
        greylist = "0"
    "#;

    #[test]
    fn every_key_is_read() {
        let profiles: Profiles = EVERY_KEY.parse().unwrap();
        let host = profiles.host(0);
        let ms = Duration::from_millis;
        assert_eq!(host.extensions, Extensions::of(&[Extension::Pipelining, Extension::Size]));
        assert_eq!((host.size_limit, host.tarpit, host.idle), (10 << 20, ms(5000), ms(60_000)));
        assert_eq!(host.latencies, Latencies::all(Latency::Exponential(ms(5))));
        assert_eq!((host.connections, host.messages, host.recipients), (Some(20), Some(100), Some(50)));
        assert_eq!((host.junk, host.errors), (Some(100), Some(20)));
        assert_eq!(host.conduct.pieces, Some(Pieces { bytes: 1, every: ms(1000) }));
        assert_eq!(host.conduct.reset, Some(Cut { after_bytes: 1024, share: 0.5 }));
        assert_eq!(host.conduct.half_close, Some(Cut { after_bytes: 0, share: 1.0 }));
        assert!((host.conduct.silent_share - 0.25).abs() < f64::EPSILON);
        assert_eq!(host.rules.greylist, ms(300_000));
        assert_eq!(host.rules.temporary, Some(Temporary { share: 0.1, attempts: 2 }));
    }

    #[test]
    fn the_smallest_network_and_the_nearest_domain_decide() {
        let profiles: Profiles = EVERY_KEY.parse().unwrap();
        let messages = |address: &str| profiles.host(profiles.find(address.parse().unwrap())).messages;
        assert_eq!(["10.0.0.1", "127.0.0.1", "127.0.2.9"].map(messages), [Some(100), Some(3), Some(7)]);
        let loopback = profiles.host(profiles.find("127.0.0.1".parse().unwrap()));
        assert_eq!(loopback.latencies.rcpt, Latency::Fixed(Duration::from_millis(1)));
        assert_eq!(loopback.latencies.mail, profiles.host(0).latencies.mail, "what a host lacks is the default's");
        let rules = |domain: &str| profiles.rules(0, domain);
        assert!((rules("a.example").permanent_share - 1.0).abs() < f64::EPSILON);
        assert_eq!(rules("a.example").greylist, Duration::from_secs(300));
        assert_eq!([rules("b.example").greylist, rules("c.b.example").greylist], [Duration::ZERO; 2]);
        assert_eq!(rules("example").greylist, Duration::from_secs(300));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, expected) in [
            ("[default]\nlatenzy = \"1s\"", "unknown field `latenzy`"),
            ("[default]\ntarpit = \"5\"", "the unit is missing"),
            ("[default]\nsilent = 2.0", "must be from 0 to 1"),
            ("[default]\nextensions = [\"AUTH\"]", "not an extension of the sink"),
            ("[default]\npieces = { bytes = 0, every = \"1s\" }", "nonzero"),
            ("[domain.\"a.example\"]\ntarpit = \"1s\"", "unknown field `tarpit`"),
            ("[host.\"127.0.0.1/8\"]", "try 127.0.0.1"),
        ] {
            let error = text.parse::<Profiles>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
