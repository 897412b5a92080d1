//! The texts with which the sink refuses a recipient. `{recipient}` stands for the address and `{client}` for the
//! client's address.
//!
//! They resemble the texts of the systems named beside them, with one or several lines, with and without the address.
//! They were written for this program and are not quotations: the texts of those systems change.

use crate::sink::draw::{Draws, Purpose};
use landau_wire::smtp::{Code, Enhanced};
use std::net::IpAddr;

/// A refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) code: Code,
    pub(super) enhanced: (u8, u16, u16),
    text: &'static str,
}

const fn refusal(code: Code, enhanced: (u8, u16, u16), text: &'static str) -> Refusal {
    Refusal { code, enhanced, text }
}

/// Greylisting, as by Postgrey.
pub(super) const GREYLISTED: Refusal =
    refusal(Code::MAILBOX_BUSY, (4, 2, 0), "<{recipient}>: Recipient address rejected: Greylisted, see help page");

/// Too many recipients, as by Postfix.
pub(super) const TOO_MANY_RECIPIENTS: Refusal = refusal(Code::NO_STORAGE, (4, 5, 3), "Error: too many recipients");

/// Temporary refusals.
const TEMPORARY: &[Refusal] = &[
    // Like Gmail.
    refusal(
        Code::MAILBOX_BUSY,
        (4, 2, 1),
        "The user you are trying to contact is receiving mail at a rate that prevents additional messages from being \
         delivered. Please resend your message at a later time.",
    ),
    // Like Gmail.
    refusal(Code::NO_STORAGE, (4, 2, 2), "The recipient's inbox is out of storage space."),
    // Like Outlook.com.
    refusal(Code::LOCAL_ERROR, (4, 7, 500), "Server busy. Please try again later from [{client}]."),
    // Like Postfix.
    refusal(
        Code::MAILBOX_BUSY,
        (4, 1, 1),
        "<{recipient}>: Recipient address rejected: unverified address: Address verification in progress",
    ),
    // Like Exim.
    refusal(Code::LOCAL_ERROR, (4, 3, 0), "Temporary local problem - please try later"),
];

/// Permanent refusals.
const PERMANENT: &[Refusal] = &[
    // Like Postfix.
    refusal(
        Code::MAILBOX_UNAVAILABLE,
        (5, 1, 1),
        "<{recipient}>: Recipient address rejected: User unknown in virtual mailbox table",
    ),
    // Like Gmail.
    refusal(
        Code::MAILBOX_UNAVAILABLE,
        (5, 1, 1),
        "The email account that you tried to reach does not exist. Please try\ndouble-checking the recipient's email \
         address for typos or\nunnecessary spaces.",
    ),
    // Like Outlook.com.
    refusal(Code::MAILBOX_UNAVAILABLE, (5, 5, 0), "Requested action not taken: mailbox unavailable."),
    // Like Gmail.
    refusal(Code::TOO_LARGE, (5, 2, 2), "The email account that you tried to reach is over quota."),
    // Like Postfix with a blocklist.
    refusal(Code::FAILED, (5, 7, 1), "Service unavailable; Client host [{client}] blocked using zen.spamhaus.org"),
];

/// Returns the temporary refusal of a recipient.
pub(super) fn temporary(draws: Draws, recipient: u64) -> Refusal {
    choose(TEMPORARY, draws, recipient)
}

/// Returns the permanent refusal of a recipient.
pub(super) fn permanent(draws: Draws, recipient: u64) -> Refusal {
    choose(PERMANENT, draws, recipient)
}

fn choose(all: &[Refusal], draws: Draws, recipient: u64) -> Refusal {
    all[(draws.uniform(Purpose::Text, recipient, 0) * all.len() as f64) as usize]
}

impl Refusal {
    /// Appends the reply.
    pub(super) fn write(&self, recipient: &str, client: IpAddr, out: &mut Vec<u8>) {
        let text = self.text.replace("{recipient}", recipient).replace("{client}", &client.to_string());
        let (class, subject, detail) = self.enhanced;
        let enhanced = Enhanced::new(class, subject, detail);
        landau_wire::smtp::reply::write(out, self.code, enhanced, [text.as_str()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use landau_wire::smtp::Class;
    use landau_wire::smtp::reply::{Parsed, parse};

    #[test]
    fn every_refusal_is_a_reply_of_its_class() {
        let of = |all: &[Refusal], class| {
            for refusal in all {
                let mut out = Vec::new();
                refusal.write("a@b.example", IpAddr::from([127, 0, 0, 1]), &mut out);
                let Ok(Parsed::Complete { reply, consumed }) = parse(&out) else { panic!("{refusal:?}") };
                assert_eq!((consumed, reply.code().class()), (out.len(), class));
                assert_eq!(reply.enhanced().map(Enhanced::parts), Some(refusal.enhanced));
                assert!(!out.contains(&b'{'), "{refusal:?}");
            }
        };
        of(TEMPORARY, Class::Transient);
        of(PERMANENT, Class::Permanent);
        of(&[GREYLISTED, TOO_MANY_RECIPIENTS], Class::Transient);
    }

    #[test]
    fn a_recipient_gets_the_same_text_again_and_all_texts_occur() {
        let draws = Draws::new(1);
        let seen: std::collections::HashSet<&str> = (0..200).map(|key| permanent(draws, key).text).collect();
        assert_eq!(seen.len(), PERMANENT.len());
        assert_eq!(temporary(draws, 5), temporary(draws, 5));
    }
}
