//! Bounces: reports to the sender about recipients that failed (RFC 3464).
//!
//! A delivery to a list writes its reports to a Maildir, before the ledger records the recipient as failed. The file
//! name is derived from message and recipient. So a run that is killed between the two steps and then continued
//! replaces the report instead of adding another one. The reports of a relay are messages of its queue.

mod mime;

use mime::{BOUNDARY, EIGHT_BIT, FROM};
pub(crate) use mime::{in_seven_bits, shortened};

use crate::domain::address_to_ascii;
use crate::envelope::Envelope;
use crate::error::{Error, Result};
use crate::input::Letter;
use crate::ledger::{Sync, sync_parent};
use crate::list::Record;
use crate::message::Message;
use jiff::Timestamp;
use landau_wire::smtp::code::Enhanced;
use landau_wire::smtp::data::Transfer;
use landau_wire::smtp::parameter::{OriginalRecipient, Ret, Xtext};
use std::borrow::Cow;
use std::fmt::Write;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Maximum length of a reply in a report, in bytes.
pub(crate) const REPLY_BYTES: usize = 512;

/// The explanation that precedes the recipients with each action.
const EXPLAINED: [(Action, &str); 2] = [
    (Action::Failed, "The message could not be delivered to these recipients. It will not be tried again."),
    (Action::Relayed, "The message was passed on to these recipients' servers, which do not report on its delivery."),
];

/// The action that a report states for a recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// It failed permanently.
    Failed,
    /// The message was passed on to a server that does not send reports, although the sender asked for one on success
    /// (RFC 3461 section 5.2.2).
    Relayed,
}

/// The outcome of a recipient and its reason.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Failure<'a> {
    pub(crate) address: &'a str,
    /// The recipient as the sender gave it, encoded.
    pub(crate) orcpt: Option<&'a str>,
    pub(crate) action: Action,
    /// The host that answered; none if no host was contacted.
    pub(crate) host: Option<&'a str>,
    /// The code of its reply.
    pub(crate) code: Option<u16>,
    /// The text of its reply, or why no host was contacted.
    pub(crate) text: &'a [u8],
}

impl<'a> Failure<'a> {
    /// Returns the type and the address of the recipient as the sender gave it.
    fn original(&self) -> Option<(&'a str, Vec<u8>)> {
        let orcpt = OriginalRecipient::new(self.orcpt?)?;
        let address = match Xtext::new(orcpt.address()) {
            Some(address) => address.decode().collect(),
            None => orcpt.address().as_bytes().to_vec(),
        };
        Some((orcpt.kind(), address))
    }
}

/// The content of a report apart from its recipients.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) envelope: &'a Envelope,
    /// The content of the message.
    pub(crate) content: &'a [u8],
    /// A name that is unique among reports.
    pub(crate) name: &'a str,
    /// Milliseconds since 1970.
    pub(crate) at_ms: u64,
    pub(crate) returned: Returned,
}

/// How much of the message a report may contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Returned {
    /// The whole message, if the sender asked for it and it has at most this many bytes; otherwise the header.
    Whole(usize),
    /// The header.
    Header,
    /// Nothing (RFC 6522 section 3 permits that).
    Nothing,
}

/// The Maildir of the reports.
#[derive(Debug)]
pub(crate) struct Bounces {
    folder: PathBuf,
    /// Whether each report is synced to the device before the ledger records its recipient as failed.
    is_synced: bool,
}

impl Bounces {
    /// Opens a Maildir and creates its missing directories. `sync` is the setting of the ledger.
    pub(crate) fn open(folder: &Path, sync: Sync) -> Result<Self> {
        for part in ["tmp", "new", "cur"] {
            let path = folder.join(part);
            fs::create_dir_all(&path).map_err(|error| Error::file(&path, error.to_string()))?;
        }
        let is_synced = sync == Sync::Always;
        if is_synced {
            let synced = sync_parent(&folder.join("new")).and_then(|()| sync_parent(folder));
            synced.map_err(|error| Error::file(folder, error.to_string()))?;
        }
        Ok(Self { folder: folder.to_owned(), is_synced })
    }

    /// Writes the report about the failure of recipient `number`, whose record in the list is `record`.
    pub(crate) fn write(
        &self,
        letter: &Letter,
        number: u64,
        record: &Record,
        failure: &Failure<'_>,
        at_ms: u64,
    ) -> io::Result<()> {
        let Letter { envelope, message, .. } = letter;
        let digest = message.digest();
        let content = rendered(message, record);
        let subject = Subject {
            envelope,
            content: &content,
            name: &format!("{digest}.{number}"),
            at_ms,
            returned: Returned::Whole(usize::MAX),
        };
        let report = report(&subject, &[*failure]);
        let name = format!("{digest:.16}.R{number}.landau");
        let (written, delivered) = (self.folder.join("tmp").join(&name), self.folder.join("new").join(&name));
        let mut file = File::create(&written)?;
        io::Write::write_all(&mut file, &report)?;
        if self.is_synced {
            file.sync_data()?;
        }
        fs::rename(&written, &delivered)?;
        if self.is_synced { sync_parent(&delivered) } else { Ok(()) }
    }
}

/// Returns the message as rendered for a record.
fn rendered<'a>(message: &'a Message, record: &Record) -> Cow<'a, [u8]> {
    let mut rendered = Vec::new();
    if message.is_template() && message.render(Transfer::Bdat, record, &mut rendered).is_ok() {
        return Cow::Owned(rendered);
    }
    message.content()
}

/// Returns the report about some recipients of a message, with CR LF at its line ends.
pub(crate) fn report(subject: &Subject<'_>, failures: &[Failure<'_>]) -> Vec<u8> {
    let Subject { envelope, content, name, at_ms, returned } = *subject;
    let Envelope { helo, from, .. } = envelope;
    let envid = envelope.envid.as_deref().and_then(Xtext::new).map(|envid| envid.decode().collect::<Vec<_>>());
    let is_utf8 = !from.is_ascii()
        || envid.as_ref().is_some_and(|envid| !envid.is_ascii())
        || failures.iter().any(|one| !one.address.is_ascii() || one.original().is_some_and(|(_, to)| !to.is_ascii()));
    let (date, boundary) = (date(at_ms), format!("=_{name}"));
    let has_failed = failures.iter().any(|one| one.action == Action::Failed);
    let title = if has_failed { "Undelivered mail" } else { "Relayed mail" };
    // A non-ASCII address in the header would require SMTPUTF8, which the sender's server may not offer.
    let about = match failures {
        [one] if one.address.is_ascii() => format!(": {}", short_line(one.address.as_bytes())),
        _ => String::new(),
    };
    let status_type = if is_utf8 { "message/global-delivery-status" } else { "message/delivery-status" };
    let status = statuses(helo, envid.as_deref(), failures, is_utf8, &date);
    let is_whole = has_failed
        && envelope.ret == Some(Ret::Full)
        && matches!(returned, Returned::Whole(most) if content.len() <= most);
    let mut parts = vec![
        mime::part("text/plain; charset=utf-8", explanation(failures).as_bytes()),
        mime::part(status_type, status.as_bytes()),
    ];
    if is_whole {
        parts.push(mime::whole(content));
    } else if returned != Returned::Nothing {
        parts.push(mime::header(content));
    }
    let body = mime::multipart(&boundary, &parts);
    // A server without SMTPUTF8 requires the domain of the address as A-labels.
    let to = address_to_ascii(from).unwrap_or(Cow::Borrowed(from));
    let mut out = format!(
        "{FROM}{helo}>\r\nTo: <{to}>\r\nSubject: {title}{about}\r\n\
         Date: {date}\r\nMessage-ID: <{name}.{at_ms}@{helo}>\r\nAuto-Submitted: auto-replied\r\n\
         MIME-Version: 1.0\r\nContent-Type: multipart/report; report-type=delivery-status;\r\n\
         {BOUNDARY}{boundary}\"\r\n{encoding}\r\n",
        encoding = if body.is_ascii() { "" } else { EIGHT_BIT }
    )
    .into_bytes();
    out.extend_from_slice(&body);
    out
}

/// Returns the human-readable part.
fn explanation(failures: &[Failure<'_>]) -> String {
    let mut out = String::new();
    for (action, explained) in EXPLAINED {
        let mut these = failures.iter().filter(|one| one.action == action).peekable();
        // Writing to a string cannot fail.
        if these.peek().is_some() {
            let _ = write!(out, "{}{explained}\r\n", if out.is_empty() { "" } else { "\r\n" });
        }
        for one in these {
            let _ = write!(out, "\r\n<{}>:\r\n    {}\r\n", short_line(one.address.as_bytes()), reason(one));
        }
    }
    out
}

/// Returns the machine-readable part: the fields about the message and those about each recipient.
fn statuses(helo: &str, envid: Option<&[u8]>, failures: &[Failure<'_>], is_utf8: bool, date: &str) -> String {
    let mut out = format!("Reporting-MTA: dns; {helo}\r\n");
    if let Some(envid) = envid {
        // Writing to a string cannot fail.
        let _ = write!(out, "Original-Envelope-Id: {}\r\n", short_line(envid));
    }
    for failure in failures {
        write_status(&mut out, failure, is_utf8, date);
    }
    out
}

/// Appends the fields about a recipient.
fn write_status(out: &mut String, failure: &Failure<'_>, is_utf8: bool, date: &str) {
    // Writing to a string cannot fail.
    out.push_str("\r\n");
    if let Some((kind, address)) = failure.original() {
        let _ = write!(out, "Original-Recipient: {kind}; {}\r\n", short_line(&address));
    }
    let (action, class) = match failure.action {
        Action::Failed => ("failed", 5),
        Action::Relayed => ("relayed", 2),
    };
    let _ = write!(
        out,
        "Final-Recipient: {}; {}\r\nAction: {action}\r\nStatus: {}\r\n",
        if is_utf8 { "utf-8" } else { "rfc822" },
        short_line(failure.address.as_bytes()),
        status(failure.text, class)
    );
    if let (Some(host), Some(code)) = (failure.host, failure.code) {
        let text: String = reply(failure).chars().map(|one| if one.is_ascii() { one } else { '?' }).collect();
        let _ = write!(out, "Remote-MTA: dns; {host}\r\nDiagnostic-Code: smtp; {code} {text}\r\n");
    }
    let _ = write!(out, "Last-Attempt-Date: {date}\r\n");
}

/// Returns the reply as one line.
fn reply(failure: &Failure<'_>) -> String {
    short_line(failure.text)
}

/// Returns the reason for a recipient's outcome.
fn reason(failure: &Failure<'_>) -> String {
    match (failure.host, failure.code) {
        (Some(host), Some(code)) => format!("{host} said: {code} {}", reply(failure)),
        _ => reply(failure),
    }
}

/// Returns the status: the enhanced code of the reply, or a generic one of the class.
fn status(text: &[u8], class: u8) -> String {
    let mut out = Vec::new();
    match Enhanced::parse(text).filter(|(code, _)| code.parts().0 == class) {
        Some((code, _)) => code.write(&mut out),
        None => out.extend_from_slice(format!("{class}.0.0").as_bytes()),
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Returns the beginning of a text, with line ends and other control characters replaced: a line end would begin
/// another field. With the name of a field and of a host, the text fits in a line of 998 bytes (RFC 5322 section
/// 2.1.1).
fn short_line(text: &[u8]) -> String {
    let mut line = String::new();
    for one in String::from_utf8_lossy(text).chars() {
        if line.len() + one.len_utf8() > REPLY_BYTES {
            break;
        }
        line.push(if one.is_control() { ' ' } else { one });
    }
    line
}

/// Returns a date in the format of RFC 5322 section 3.3.
fn date(at_ms: u64) -> String {
    let time = i64::try_from(at_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok()).unwrap_or_default();
    // Only years after 9999 have no such date.
    jiff::fmt::rfc2822::to_string(&time.to_zoned(jiff::tz::TimeZone::UTC)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
