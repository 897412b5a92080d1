//! What a run counts: recipients by state, connections, failures by reason, times of the phases, domains.

use crate::client::Stage;
use crate::ledger::State;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// The longest time that a histogram distinguishes, 10 minutes: the longest limit of RFC 5321.
const LONGEST_NS: u64 = 600_000_000_000;

/// The most domains that are counted separately; the others are counted together.
const MOST_DOMAINS: usize = 65_536;

/// The most reasons of deferrals and failures that are counted separately.
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

    /// Returns the number of times.
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
    /// Notes that the way of a domain was found after so many nanoseconds.
    pub(crate) fn looked_up(&mut self, ns: u64) {
        self.lookup.record(ns);
    }

    /// Notes that a connection was established after so many nanoseconds.
    pub(crate) fn connected(&mut self, ns: u64) {
        self.connect.record(ns);
    }

    /// Notes that a connection was encrypted so many nanoseconds after STARTTLS was sent.
    pub(crate) fn secured(&mut self, ns: u64) {
        self.tls.record(ns);
    }

    /// Notes a reply that came so many nanoseconds after its command was sent.
    #[inline]
    pub(crate) fn replied(&mut self, stage: Stage, ns: u64) {
        let phase = match stage {
            Stage::Greeting => &mut self.greeting,
            Stage::Ehlo | Stage::Helo => &mut self.hello,
            // It ends with the handshake.
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

    /// Returns the phases with their names, in the order in which they happen.
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
    /// Those with whom everything went well.
    pub done: u64,
    /// Those that were tried and are left to a later attempt or run.
    pub deferred: u64,
    /// Those that were refused for good.
    pub failed: u64,
    /// Those that were not tried yet.
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
    rows: Vec<(Box<str>, Tally)>,
}

impl Domains {
    /// Returns the index of a domain, which is compared without regard to case. All domains beyond a number of them
    /// share one.
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
        self.rows.push((name.into(), Tally::default()));
        let index = self.rows.len() as u32 - 1;
        if index < MOST_DOMAINS as u32 {
            self.indices.insert(lower.into(), index);
        }
        index
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> &mut Tally {
        &mut self.rows[index as usize].1
    }

    /// Returns the domains with the most recipients.
    pub(crate) fn largest(&self, count: usize) -> Vec<DomainRow> {
        let mut rows: Vec<&(Box<str>, Tally)> = self.rows.iter().collect();
        rows.sort_by(|a, b| b.1.sum().cmp(&a.1.sum()).then_with(|| a.0.cmp(&b.0)));
        let rows = rows.into_iter().take(count);
        rows.map(|(domain, recipients)| DomainRow { domain: domain.to_string(), recipients: *recipients }).collect()
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
}

/// Why recipients were deferred or failed, and connections lost.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reasons(BTreeMap<String, u64>);

impl Reasons {
    /// Counts a reason. Digits within a word are the identifiers of servers, which would make each reason unique.
    #[cold]
    pub(crate) fn count(&mut self, reason: &str) {
        let mut key: String = reason.chars().take(160).collect();
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

/// What a run counted.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    pub(crate) recipients: Tally,
    /// Of `recipients`, those that earlier runs had dealt with.
    pub(crate) earlier: Tally,
    pub(crate) phases: Phases,
    pub(crate) domains: Domains,
    /// Reasons of deferrals and failures.
    pub(crate) reasons: Reasons,
    /// Reasons of connections that were not established, or were lost.
    pub(crate) lost: Reasons,
    pub(crate) connections: u64,
    /// Connections that were encrypted.
    pub(crate) encrypted: u64,
    /// Reports about failed recipients that were written.
    pub(crate) bounces: u64,
    /// Messages, or transactions in mode `rset`, that went well.
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
            domains.largest(2).into_iter().map(|row| (row.domain, row.recipients.left)).collect();
        assert_eq!(found, [("a.org".to_owned(), 2), ("b.org".to_owned(), 1)]);
        assert_eq!(domains.len(), 3);
    }

    #[test]
    fn domains_beyond_the_most_share_a_row() {
        let mut domains = Domains::default();
        let indices: Vec<u32> = (0..MOST_DOMAINS + 3).map(|number| domains.index(&format!("d{number}"))).collect();
        assert_eq!(indices[MOST_DOMAINS..], [MOST_DOMAINS as u32; 3]);
        assert_eq!((domains.index("d7"), domains.len()), (7, MOST_DOMAINS + 1));
    }
}
