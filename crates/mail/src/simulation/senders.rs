//! The reports that the senders of a relay's mail get: about recipients that failed, or whose mail was passed on to a
//! server that sends no reports. Letter m has the sender `sM`. `p` is the postmaster, who gets reports about letters
//! without a sender and about failed reports.

use super::World;
use landau_wire::smtp::command::Mail;
use std::collections::{BTreeMap, BTreeSet};

/// The subject of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum About {
    /// A recipient of a letter.
    Recipient(u32),
    /// A failed report, by its identifier.
    Report(u64),
}

/// A report as parsed by a server.
#[derive(Debug)]
pub(super) struct Told {
    /// The identifier of the report.
    pub(super) id: u64,
    about: Vec<About>,
}

/// The state of letters and reports.
#[derive(Debug, Default)]
pub(super) struct Senders {
    /// The number of letters. The sender of letter m counts as recipient m after those of the letters, and the
    /// postmaster as the one after all senders.
    pub(super) letters: u32,
    /// The number of recipients of the letters.
    pub(super) recipients: u32,
    /// The recipients that a server refused permanently.
    pub(super) refused: BTreeSet<u32>,
    /// The letters whose sender a server refused permanently.
    pub(super) refused_senders: BTreeSet<u32>,
    /// The accepted reports, by subject.
    pub(super) reports: BTreeMap<About, BTreeSet<u64>>,
    /// The accepted reports, by identifier.
    pub(super) accepted: BTreeSet<u64>,
    /// The reports that must not be sent again: the current engine has read their final reply, or the queue has them as
    /// done.
    pub(super) over: BTreeSet<u64>,
    /// Whether the postmaster got a report without any part of the report that it was about.
    pub(super) has_unnamed: bool,
    /// The recipients of letters that were held at a start, until the user releases them.
    pub(super) held: BTreeSet<u32>,
}

impl World {
    /// Returns the number of the recipient of a local part.
    pub(super) fn number(&self, local: &str) -> u32 {
        let Senders { recipients, .. } = self.senders;
        let after = |prefix| local.strip_prefix(prefix).and_then(|digits: &str| digits.parse::<u32>().ok());
        let of_sender = || after('s').map(|letter| self.senders.sender(letter));
        let number = after('r').or_else(of_sender).or_else(|| (local == "p").then_some(self.senders.postmaster()));
        let number = number.unwrap_or_else(|| panic!("{local} is no recipient"));
        assert!(!local.starts_with('r') || recipients == 0 || number < recipients, "{local} has no letter");
        number
    }

    /// Returns whether anything may be sent to a recipient: a sender may get several reports.
    pub(super) fn may_get(&self, recipient: u32) -> bool {
        let is_sender = self.senders.letters > 0 && recipient >= self.senders.recipients;
        is_sender || !self.is_final[recipient as usize]
    }
}

impl Senders {
    /// Returns the number of the sender of a letter.
    pub(super) fn sender(&self, letter: u32) -> u32 {
        self.recipients + letter
    }

    /// Returns the number of the postmaster.
    pub(super) fn postmaster(&self) -> u32 {
        self.recipients + self.letters
    }

    /// Records the reply code for recipients.
    pub(super) fn note_refused(&mut self, recipients: &[u32], code: u16) {
        if code >= 500 {
            self.refused.extend(recipients);
        }
    }

    /// Records the reply code for the sender of a letter.
    pub(super) fn note_refused_sender(&mut self, letter: u32, code: u16) {
        if code >= 500 {
            self.refused_senders.insert(letter);
        }
    }

    /// Reads the report that is sent to a recipient, if that is a sender or the postmaster.
    pub(super) fn report(&self, recipient: u32, content: &[u8]) -> Option<Told> {
        let told = (self.sender(0)..=self.postmaster()).contains(&recipient) && self.letters > 0;
        let told = told.then(|| Told::read(content))?;
        assert!(!self.over.contains(&told.id), "report {:X} is sent again", told.id);
        Some(told)
    }

    /// Records an accepted report.
    pub(super) fn note_report(&mut self, told: &Told) {
        self.accepted.insert(told.id);
        self.has_unnamed |= told.about.is_empty();
        for &about in &told.about {
            self.reports.entry(about).or_default().insert(told.id);
        }
    }
}

impl Told {
    /// Parses a report. It names the recipients of a letter, or returns at least the header of the report that it is
    /// about, unless there was no space for that.
    fn read(content: &[u8]) -> Self {
        let text = std::str::from_utf8(content).expect("a report in ASCII");
        let mut names = text.split("boundary=\"=_").skip(1).map(|rest| rest.split('"').next().unwrap_or_default());
        let id = |name: &str| name.split('.').next().and_then(|id| u64::from_str_radix(id, 16).ok());
        let name = names.next().unwrap_or_else(|| panic!("no report: {text}"));
        let returned = names.next().and_then(id);
        let status = text.split("Content-Type: message/delivery-status\r\n").nth(1).expect("a status");
        let status = status.split(&format!("\r\n--=_{name}")).next().unwrap_or_default();
        let about = |one: &str| {
            let action = one.split("\r\nAction: ").nth(1).and_then(|rest| rest.split("\r\n").next());
            assert!(matches!(action, Some("failed" | "relayed")), "{action:?} in {text}");
            match one.strip_prefix('r').and_then(|rest| rest.split('@').next()) {
                Some(digits) => Some(About::Recipient(digits.parse().expect("a recipient"))),
                None => returned.map(About::Report),
            }
        };
        let about = status.split("\r\nFinal-Recipient: rfc822; ").skip(1).filter_map(about).collect();
        Self { id: id(name).expect("an identifier"), about }
    }
}

/// Returns the letter that a sender belongs to; `None` for the null sender, and if senders do not matter.
pub(super) fn letter(mail: &Mail<'_>) -> Option<u32> {
    mail.from.mailbox()?.local().strip_prefix('s')?.parse().ok()
}
