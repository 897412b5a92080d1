//! The statistics of a run: recipients by state, connections, failures by reason, times of the phases, domains.

use crate::client::Stage;
use crate::ledger::State;
use landau_wire::smtp::Extension;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// The maximum value of a histogram, 10 minutes: the longest timeout of RFC 5321.
const LONGEST_NS: u64 = 600_000_000_000;

/// Maximum number of domains counted separately; the others are counted together.
const MOST_DOMAINS: usize = 65_536;

/// Maximum number of reasons for deferrals and failures counted separately.
const MOST_REASONS: usize = 256;

/// The times of a phase, with two significant digits.
#[derive(Debug, Clone, Default)]
pub struct Histogram(Option<Box<hdrhistogram::Histogram<u64>>>);

impl Histogram {
    #[inline]
    fn record(&mut self, ns: u64) {
        match &mut self.0 {
            Some(held) => held.saturating_record(ns.max(1)),
            None => self.begin(ns),
        }
    }

    #[cold]
    fn begin(&mut self, ns: u64) {
        // The bounds are constants that hdrhistogram accepts.
        self.0 = hdrhistogram::Histogram::new_with_bounds(1, LONGEST_NS, 2).ok().map(Box::new);
        if let Some(held) = &mut self.0 {
            held.saturating_record(ns.max(1));
        }
    }

    /// Returns the number of recorded times.
    pub fn count(&self) -> u64 {
        self.0.as_ref().map_or(0, |held| held.len())
    }

    /// Returns the quantile `share` (0 to 1) in nanoseconds; 0 if there are no times.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        self.0.as_ref().map_or(0, |held| held.value_at_quantile(share).min(held.max()))
    }

    /// Returns the longest time in nanoseconds; 0 if there are no times.
    pub fn max_ns(&self) -> u64 {
        self.0.as_ref().map_or(0, |held| held.max())
    }
}

/// The times of the phases of connections and transactions.
#[derive(Debug, Clone, Default)]
pub struct Phases {
    lookup: Histogram,
    connect: Histogram,
    greeting: Histogram,
    hello: Histogram,
    tls: Histogram,
    mail: Histogram,
    rcpt: Histogram,
    data: Histogram,
    content: Histogram,
    reset: Histogram,
    quit: Histogram,
}

impl Phases {
    /// Records the lookup time of a domain, in nanoseconds.
    pub(crate) fn looked_up(&mut self, ns: u64) {
        self.lookup.record(ns);
    }

    /// Records the time to establish a connection, in nanoseconds.
    pub(crate) fn connected(&mut self, ns: u64) {
        self.connect.record(ns);
    }

    /// Records the time from STARTTLS to the encryption of a connection, in nanoseconds.
    pub(crate) fn secured(&mut self, ns: u64) {
        self.tls.record(ns);
    }

    /// Records the time from a command to its reply, in nanoseconds.
    #[inline]
    pub(crate) fn replied(&mut self, stage: Stage, ns: u64) {
        let phase = match stage {
            Stage::Greeting => &mut self.greeting,
            Stage::Ehlo | Stage::Helo => &mut self.hello,
            // This phase ends with the handshake.
            Stage::StartTls => return,
            Stage::Mail => &mut self.mail,
            Stage::Rcpt => &mut self.rcpt,
            Stage::Data => &mut self.data,
            Stage::Content | Stage::Chunk => &mut self.content,
            Stage::Reset | Stage::Clear => &mut self.reset,
            Stage::Quit => &mut self.quit,
        };
        phase.record(ns);
    }

    /// Returns the phases with their names, in chronological order.
    pub fn all(&self) -> [(&'static str, &Histogram); 11] {
        [
            ("lookup", &self.lookup),
            ("connect", &self.connect),
            ("greeting", &self.greeting),
            ("ehlo", &self.hello),
            ("tls", &self.tls),
            ("mail", &self.mail),
            ("rcpt", &self.rcpt),
            ("data", &self.data),
            ("content", &self.content),
            ("rset", &self.reset),
            ("quit", &self.quit),
        ]
    }
}

/// Recipients by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Recipients that succeeded.
    pub done: u64,
    /// Recipients that were tried and are left to a later attempt or run.
    pub deferred: u64,
    /// Recipients that failed permanently.
    pub failed: u64,
    /// Recipients that were not tried yet.
    pub left: u64,
}

impl Tally {
    /// Returns the sum.
    pub fn sum(&self) -> u64 {
        self.done + self.deferred + self.failed + self.left
    }

    pub(crate) fn of(&mut self, state: Option<State>) -> &mut u64 {
        match state {
            None => &mut self.left,
            Some(State::Done) => &mut self.done,
            Some(State::Deferred) => &mut self.deferred,
            Some(State::Failed) => &mut self.failed,
        }
    }
}

/// Recipients by domain.
#[derive(Debug, Default)]
pub(crate) struct Domains {
    indices: HashMap<Box<str>, u32>,
    rows: Vec<Row>,
}

/// The counts of a domain.
#[derive(Debug)]
struct Row {
    name: Box<str>,
    recipients: Tally,
    /// When the first attempt began and when the last recipient was recorded.
    span_ns: Option<(u64, u64)>,
}

impl Domains {
    /// Returns the index of a domain, ignoring case. All domains beyond the maximum number share one index.
    pub(crate) fn index(&mut self, domain: &str) -> u32 {
        if let Some(&index) = self.indices.get(domain) {
            return index;
        }
        let lower = domain.to_ascii_lowercase();
        if let Some(&index) = self.indices.get(lower.as_str()) {
            return index;
        }
        if self.rows.len() > MOST_DOMAINS {
            return MOST_DOMAINS as u32;
        }
        let name = if self.rows.len() == MOST_DOMAINS { "others" } else { &lower };
        self.rows.push(Row { name: name.into(), recipients: Tally::default(), span_ns: None });
        let index = self.rows.len() as u32 - 1;
        if index < MOST_DOMAINS as u32 {
            self.indices.insert(lower.into(), index);
        }
        index
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> &mut Tally {
        &mut self.rows[index as usize].recipients
    }

    /// Records the time at which a recipient of a domain is attempted or recorded.
    #[inline]
    pub(crate) fn note_time(&mut self, index: u32, now_ns: u64) {
        let span_ns = &mut self.rows[index as usize].span_ns;
        *span_ns = Some((span_ns.map_or(now_ns, |(begin_ns, _)| begin_ns), now_ns));
    }

    /// Returns the domains with the most recipients, their times from `begin_ns` on.
    pub(crate) fn largest(&self, count: usize, begin_ns: u64) -> Vec<DomainRow> {
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        rows.sort_by(|a, b| b.recipients.sum().cmp(&a.recipients.sum()).then_with(|| a.name.cmp(&b.name)));
        let since_begin = |(from_ns, to_ns): (u64, u64)| [from_ns, to_ns].map(|ns| ns.saturating_sub(begin_ns));
        let rows = rows.into_iter().take(count).map(|row| DomainRow {
            domain: row.name.to_string(),
            recipients: row.recipients,
            span_ns: row.span_ns.map(since_begin),
        });
        rows.collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }
}

/// A domain and its recipients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DomainRow {
    /// The domain in lower case.
    pub domain: String,
    /// Its recipients by state.
    #[serde(flatten)]
    pub recipients: Tally,
    /// When the first attempt began and when the last recipient was recorded, in nanoseconds from the beginning of the
    /// run; none if this run attempted none.
    pub span_ns: Option<[u64; 2]>,
}

impl DomainRow {
    /// Returns the domain's own time, from its first attempt to its last recipient, in nanoseconds.
    pub fn own_ns(&self) -> u64 {
        self.span_ns.map_or(0, |[from_ns, to_ns]| to_ns - from_ns)
    }
}

/// The progress of a run, sampled at equal intervals.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Timeline {
    /// The interval in nanoseconds.
    pub interval_ns: u64,
    /// Recipients that had succeeded, at the end of each interval.
    pub done: Vec<u64>,
    /// Recipients that were deferred.
    pub deferred: Vec<u64>,
    /// Recipients that had failed.
    pub failed: Vec<u64>,
    /// Open connections.
    pub open: Vec<u32>,
    /// The number of samples taken since the last kept one.
    #[serde(skip)]
    skipped: u32,
    /// One in `stride` samples is kept.
    #[serde(skip)]
    stride: u32,
}

impl Timeline {
    /// Maximum number of points; beyond it, every second one is dropped.
    const MOST: usize = 1200;

    /// Adds a sample. They are taken `interval_ns` apart.
    pub(crate) fn sample(&mut self, interval_ns: u64, recipients: &Tally, open: u32) {
        self.stride = self.stride.max(1);
        self.skipped += 1;
        if self.skipped < self.stride {
            return;
        }
        if self.done.len() >= Self::MOST {
            // This sample is in the middle of the next interval.
            self.stride *= 2;
            self.interval_ns *= 2;
            for all in [&mut self.done, &mut self.deferred, &mut self.failed] {
                *all = all.iter().skip(1).step_by(2).copied().collect();
            }
            self.open = self.open.iter().skip(1).step_by(2).copied().collect();
            return;
        }
        self.skipped = 0;
        self.interval_ns = interval_ns * u64::from(self.stride);
        self.done.push(recipients.done);
        self.deferred.push(recipients.deferred);
        self.failed.push(recipients.failed);
        self.open.push(open);
    }
}

/// The reasons why recipients were deferred or failed, or connections lost.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reasons(BTreeMap<String, u64>);

impl Reasons {
    /// Counts a reason. Replies that differ only in addresses and identifiers count as one reason.
    #[cold]
    pub(crate) fn count(&mut self, reason: &str) {
        let mut key = without_identifiers(reason);
        if !self.0.contains_key(&key) && self.0.len() >= MOST_REASONS {
            "other reasons".clone_into(&mut key);
        }
        *self.0.entry(key).or_default() += 1;
    }

    /// Returns the reasons, the most frequent first.
    pub(crate) fn sorted(&self) -> Vec<(String, u64)> {
        let mut all: Vec<(String, u64)> = self.0.iter().map(|(reason, count)| (reason.clone(), *count)).collect();
        all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        all
    }
}

/// Maximum length of a reason, in characters.
const REASON_CHARS: usize = 160;

/// Returns a text with `#` in place of addresses and of words with digits: servers put the identifier of the message,
/// the recipient and the client's address into their replies. Reply codes and names of extensions are kept.
fn without_identifiers(text: &str) -> String {
    let mut out = String::new();
    let is_part = |one: char| one.is_alphanumeric() || "@._-+=".contains(one);
    let mut rest = text;
    while let Some(start) = rest.find(is_part) {
        let len = rest[start..].find(|one| !is_part(one)).unwrap_or(rest.len() - start);
        let (part, after) = rest[start..].split_at(len);
        out.push_str(&rest[..start]);
        let has_digit = part.contains(|one: char| one.is_ascii_digit());
        let may_be_reply = out.is_empty() || out.ends_with(": ") || out.ends_with("with ");
        let is_known = is_enhanced_code(part)
            || (may_be_reply && part.len() == 3 && part.parse::<u16>().is_ok())
            || Extension::of(part.as_bytes()).is_some();
        let is_identifier = part.contains('@') || (has_digit && !is_known);
        out.push_str(if is_identifier { "#" } else { part });
        rest = after;
    }
    out.push_str(rest);
    out.chars().take(REASON_CHARS).collect()
}

/// Returns whether a word is an enhanced status code.
fn is_enhanced_code(word: &str) -> bool {
    let is_number = |part: &str| (1..=3).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    word.starts_with(['2', '4', '5']) && word.split('.').count() == 3 && word.split('.').all(is_number)
}

/// The statistics of a run.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    pub(crate) recipients: Tally,
    /// The part of `recipients` that earlier runs had finished.
    pub(crate) earlier: Tally,
    pub(crate) phases: Phases,
    pub(crate) domains: Domains,
    pub(crate) timeline: Timeline,
    /// Reasons of deferrals and failures.
    pub(crate) reasons: Reasons,
    /// Reasons of connections that were not established, or were lost.
    pub(crate) lost: Reasons,
    pub(crate) connections: u64,
    /// Connections that were encrypted.
    pub(crate) encrypted: u64,
    /// Reports about failed recipients that were written.
    pub(crate) bounces: u64,
    /// Successful messages, or transactions in mode `rset`.
    pub(crate) transactions: u64,
    pub(crate) attempts: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) sends: u64,
    pub(crate) receives: u64,
    pub(crate) most_open: u32,
    pub(crate) most_active: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_are_compared_without_case_and_sorted_by_size() {
        let mut domains = Domains::default();
        for domain in ["b.org", "A.org", "a.ORG", "c.org"] {
            let index = domains.index(domain);
            domains.get_mut(index).left += 1;
        }
        let found: Vec<(String, u64)> =
            domains.largest(2, 0).into_iter().map(|row| (row.domain, row.recipients.left)).collect();
        assert_eq!(found, [("a.org".to_owned(), 2), ("b.org".to_owned(), 1)]);
        assert_eq!(domains.len(), 3);
    }

    #[test]
    fn replies_that_differ_in_identifiers_are_one_reason() {
        let mut reasons = Reasons::default();
        for number in 0..1000 {
            for text in [
                format!("550 5.1.1 <u{number}@d{}.example>: Recipient address rejected: User unknown", number % 7),
                format!("451 4.3.0 try again later [{number:X}AF.mx-{number}] (in {number} s)"),
                format!("450 4.7.1 Client host [192.0.2.{}] blocked, see 4{number:06}", number % 256),
            ] {
                reasons.count(&text);
            }
        }
        reasons.count("the server refused STARTTLS with 454, and TLS is required");
        reasons.count("553 5.1.3 no");
        reasons.count("553 5.1.7 no");
        reasons.count("the server does not offer 8BITMIME");
        let found: Vec<String> =
            reasons.sorted().into_iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        assert_eq!(
            found,
            [
                "1000 450 4.7.1 Client host [#] blocked, see #",
                "1000 451 4.3.0 try again later [#] (in # s)",
                "1000 550 5.1.1 <#>: Recipient address rejected: User unknown",
                "1 553 5.1.3 no",
                "1 553 5.1.7 no",
                "1 the server does not offer 8BITMIME",
                "1 the server refused STARTTLS with 454, and TLS is required",
            ]
        );
    }

    #[test]
    fn a_timeline_of_any_length_has_points_at_equal_distances() {
        for count in [1, 1200, 1201, 1203, 5000, 20_000] {
            let mut timeline = Timeline::default();
            for at in 1..=count {
                timeline.sample(10, &Tally { done: at, ..Tally::default() }, 1);
            }
            let stride = timeline.interval_ns / 10;
            let expected: Vec<u64> = (1..=count / stride).map(|point| point * stride).collect();
            assert_eq!(timeline.done, expected, "{count}");
            assert!(timeline.done.len() <= Timeline::MOST && timeline.open.len() == timeline.done.len());
        }
    }

    #[test]
    fn domains_beyond_the_most_share_a_row() {
        let mut domains = Domains::default();
        let indices: Vec<u32> = (0..MOST_DOMAINS + 3).map(|number| domains.index(&format!("d{number}"))).collect();
        assert_eq!(indices[MOST_DOMAINS..], [MOST_DOMAINS as u32; 3]);
        assert_eq!((domains.index("d7"), domains.len()), (7, MOST_DOMAINS + 1));
    }
}
