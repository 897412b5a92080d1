//! What the senders of a relay's mail get: reports about recipients that failed, or whose mail was passed on to a
//! server that makes no reports. Letter m has the sender `sM`; `p` is the postmaster.

use super::World;
use landau_wire::smtp::command::Mail;
use std::collections::{BTreeMap, BTreeSet};

/// What a report says about a recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Said {
    Failed,
    Relayed,
}

/// What is known about letters and reports.
#[derive(Debug, Default)]
pub(super) struct Senders {
    /// The letters. The sender of letter m counts as recipient m after those of the letters, and the postmaster as the
    /// one after all senders.
    pub(super) letters: u32,
    /// The recipients of the letters.
    pub(super) recipients: u32,
    /// For each recipient, whether a server refused it for good.
    pub(super) refused: BTreeSet<u32>,
    /// The letters whose sender a server refused for good; `None` for the null sender.
    pub(super) refused_senders: BTreeSet<Option<u32>>,
    /// The reports about each recipient that were accepted, by their identifiers.
    pub(super) reports: BTreeMap<(u32, Said), BTreeSet<u64>>,
}

impl World {
    /// Returns the number of the recipient of a local part.
    pub(super) fn number(&self, local: &str) -> u32 {
        let Senders { recipients, letters, .. } = self.senders;
        let after = |prefix| local.strip_prefix(prefix).and_then(|digits: &str| digits.parse::<u32>().ok());
        let of_sender = || after('s').map(|letter| recipients + letter);
        let number = after('r').or_else(of_sender).or_else(|| (local == "p").then_some(recipients + letters));
        number.unwrap_or_else(|| panic!("{local} is no recipient"))
    }

    /// Returns whether anything may be sent to a recipient: a sender may get several reports.
    pub(super) fn may_get(&self, recipient: u32) -> bool {
        let is_sender = self.senders.letters > 0 && recipient >= self.senders.recipients;
        is_sender || !self.is_final[recipient as usize]
    }
}

impl Senders {
    /// Notes that recipients were answered with a code.
    pub(super) fn note_refused(&mut self, recipients: &[u32], code: u16) {
        if code >= 500 {
            self.refused.extend(recipients);
        }
    }

    /// Notes that the sender of a letter was answered with a code.
    pub(super) fn note_refused_sender(&mut self, letter: Option<u32>, code: u16) {
        if code >= 500 {
            self.refused_senders.insert(letter);
        }
    }

    /// Notes a message that was accepted for a recipient, if that is a sender who gets a report.
    pub(super) fn note_message(&mut self, recipient: u32, content: &[u8]) {
        if !(self.recipients..self.recipients + self.letters).contains(&recipient) {
            return;
        }
        let text = std::str::from_utf8(content).expect("a report in ASCII");
        let boundary = text.split("boundary=\"=_").nth(1).and_then(|rest| rest.split('.').next());
        let id = boundary.and_then(|id| u64::from_str_radix(id, 16).ok()).unwrap_or_else(|| panic!("{text}"));
        for status in text.split("\r\nFinal-Recipient: rfc822; r").skip(1) {
            let number = status.split('@').next().and_then(|digits| digits.parse().ok()).expect("a recipient");
            let said = match status.split("\r\nAction: ").nth(1).and_then(|rest| rest.split("\r\n").next()) {
                Some("failed") => Said::Failed,
                Some("relayed") => Said::Relayed,
                other => panic!("{other:?} in {text}"),
            };
            self.reports.entry((number, said)).or_default().insert(id);
        }
    }
}

/// Returns the letter that a sender belongs to; `None` for the null sender, and where nothing depends on senders.
pub(super) fn letter(mail: &Mail<'_>) -> Option<u32> {
    mail.from.mailbox()?.local().strip_prefix('s')?.parse().ok()
}
