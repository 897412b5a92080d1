//! Bounces: reports to the sender about recipients that failed (RFC 3464), in a Maildir.
//!
//! A report is written before the ledger has its recipient as failed, under a name that follows from message and
//! recipient. So a run that is killed between the two and continued replaces the report instead of adding another one.

use crate::envelope::Envelope;
use crate::error::{Error, Result};
use crate::list::Record;
use crate::message::Message;
use jiff::Timestamp;
use landau_wire::smtp::code::Enhanced;
use landau_wire::smtp::data::Transfer;
use landau_wire::smtp::parameter::Ret;
use std::borrow::Cow;
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The bytes of a reply that are reported.
const REPLY_BYTES: usize = 512;

/// What failed, and why.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Failure<'a> {
    /// The recipient's number.
    pub(crate) number: u64,
    pub(crate) record: &'a Record,
    /// The host that refused it; none if no host was asked.
    pub(crate) remote: Option<&'a str>,
    /// The code of its reply.
    pub(crate) code: Option<u16>,
    /// The text of its reply, or why no host was asked.
    pub(crate) text: &'a [u8],
    /// Milliseconds since 1970.
    pub(crate) at_ms: u64,
}

/// The Maildir of the reports.
#[derive(Debug)]
pub(crate) struct Bounces {
    folder: PathBuf,
}

impl Bounces {
    /// Opens a Maildir, and creates what it lacks.
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        for part in ["tmp", "new", "cur"] {
            let path = folder.join(part);
            fs::create_dir_all(&path).map_err(|error| Error::file(&path, error.to_string()))?;
        }
        Ok(Self { folder: folder.to_owned() })
    }

    /// Writes the report about a failure.
    pub(crate) fn write(&self, envelope: &Envelope, message: &Message, failure: &Failure<'_>) -> io::Result<()> {
        let report = report(envelope, message, failure);
        let digest: String = message.digest().chars().take(16).collect();
        let name = format!("{digest}.R{}.landau", failure.number);
        let (written, delivered) = (self.folder.join("tmp").join(&name), self.folder.join("new").join(&name));
        fs::write(&written, report)?;
        fs::rename(&written, &delivered)
    }
}

/// Returns the report about a failure, with CR LF at its line ends.
pub(crate) fn report(envelope: &Envelope, message: &Message, failure: &Failure<'_>) -> Vec<u8> {
    let address = one_line(failure.record.address().as_bytes());
    let reply = one_line(&failure.text[..failure.text.len().min(REPLY_BYTES)]);
    let is_utf8 = !address.is_ascii() || !envelope.from.is_ascii();
    let date = date(failure.at_ms);
    let number = failure.number;
    let boundary = format!("=_{}_{number}", message.digest());
    let returned = returned(envelope, message, failure.record);
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        out,
        "From: Mail Delivery System <MAILER-DAEMON@{helo}>\r\nTo: <{from}>\r\nSubject: Undelivered mail: {address}\r\n\
         Date: {date}\r\nMessage-ID: <{number}.{at_ms}.{digest:.16}@{helo}>\r\nAuto-Submitted: auto-replied\r\n\
         MIME-Version: 1.0\r\nContent-Type: multipart/report; report-type=delivery-status;\r\n \
         boundary=\"{boundary}\"\r\n\
         \r\n--{boundary}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n\
         The message to <{address}> could not be delivered:\r\n\r\n    {reason}\r\n\r\nIt will not be tried again.\r\n",
        helo = envelope.helo,
        from = envelope.from,
        at_ms = failure.at_ms,
        digest = message.digest(),
        reason = reason(failure, &reply),
    );
    let status_type = if is_utf8 { "message/global-delivery-status" } else { "message/delivery-status" };
    let _ = write!(out, "\r\n--{boundary}\r\nContent-Type: {status_type}\r\n");
    if is_utf8 {
        out.push_str("Content-Transfer-Encoding: 8bit\r\n");
    }
    let _ = write!(out, "\r\nReporting-MTA: dns; {}\r\n", envelope.helo);
    if let Some(envid) = &envelope.envid {
        let _ = write!(out, "Original-Envelope-Id: {envid}\r\n");
    }
    let _ = write!(
        out,
        "\r\nFinal-Recipient: {}; {address}\r\nAction: failed\r\nStatus: {}\r\n",
        if is_utf8 { "utf-8" } else { "rfc822" },
        status(failure.text)
    );
    if let (Some(remote), Some(code)) = (failure.remote, failure.code) {
        let text: String = reply.chars().map(|one| if one.is_ascii() { one } else { '?' }).collect();
        let _ = write!(out, "Remote-MTA: dns; {remote}\r\nDiagnostic-Code: smtp; {code} {text}\r\n");
    }
    let _ = write!(out, "Last-Attempt-Date: {date}\r\n\r\n--{boundary}\r\n");
    let mut out = out.into_bytes();
    out.extend_from_slice(&returned);
    out.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    out
}

/// Returns the part with the message, or with its header unless the sender asked for all of it.
fn returned(envelope: &Envelope, message: &Message, record: &Record) -> Vec<u8> {
    let mut rendered = Vec::new();
    let content: &[u8] = if message.is_template() && message.render(Transfer::Bdat, record, &mut rendered).is_ok() {
        &rendered
    } else {
        message.encoded(Transfer::Bdat)
    };
    let header_end = content.windows(4).position(|four| four == b"\r\n\r\n").map_or(content.len(), |at| at + 2);
    let (header, is_full) = (&content[..header_end], envelope.ret == Some(Ret::Full));
    let shown = if is_full { content } else { header };
    let kind = match (is_full, header.is_ascii()) {
        (true, true) => "message/rfc822",
        (true, false) => "message/global",
        (false, true) => "text/rfc822-headers",
        (false, false) => "message/global-headers",
    };
    let encoding = if shown.is_ascii() { "" } else { "Content-Transfer-Encoding: 8bit\r\n" };
    [format!("Content-Type: {kind}\r\n{encoding}\r\n").as_bytes(), shown].concat()
}

/// Returns why a recipient failed, as a sentence.
fn reason(failure: &Failure<'_>, reply: &str) -> String {
    match (failure.remote, failure.code) {
        (Some(remote), Some(code)) => format!("{remote} said: {code} {reply}"),
        _ => reply.to_owned(),
    }
}

/// Returns the status of a failure: the enhanced code of the reply, or 5.0.0 if it has none.
fn status(text: &[u8]) -> String {
    let mut out = Vec::new();
    match Enhanced::parse(text).filter(|(code, _)| code.parts().0 == 5) {
        Some((code, _)) => code.write(&mut out),
        None => out.extend_from_slice(b"5.0.0"),
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Returns a text without line ends and other control characters, which would begin another field.
fn one_line(text: &[u8]) -> Cow<'_, str> {
    match String::from_utf8_lossy(text) {
        Cow::Borrowed(text) if !text.chars().any(char::is_control) => Cow::Borrowed(text),
        text => Cow::Owned(text.chars().map(|one| if one.is_control() { ' ' } else { one }).collect()),
    }
}

/// Returns a date as RFC 5322 section 3.3 writes it.
fn date(at_ms: u64) -> String {
    let time = i64::try_from(at_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok()).unwrap_or_default();
    // Only years beyond 9999 have no such date.
    jiff::fmt::rfc2822::to_string(&time.to_zoned(jiff::tz::TimeZone::UTC)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::Mode;

    fn record(address: &str) -> Record {
        let mut record = Record::default();
        record.set_address(address);
        record
    }

    fn failure<'a>(record: &'a Record, code: Option<u16>, text: &'a [u8]) -> Failure<'a> {
        Failure { number: 7, record, remote: code.and(Some("mx.b.test")), code, text, at_ms: 1_000_000_000_000 }
    }

    fn text(envelope: &Envelope, failure: &Failure<'_>) -> String {
        let message = Message::parse(b"Subject: caf\n\nthe body\n", &[], None).unwrap();
        String::from_utf8(report(envelope, &message, failure)).unwrap()
    }

    #[test]
    fn a_report_has_the_fields_of_rfc_3464() {
        let envelope = Envelope { helo: "out.a.test".to_owned(), ..Envelope::new("s@a.test", Mode::Data) };
        let to = record("u@b.test");
        let text = text(&envelope, &failure(&to, Some(550), b"5.1.1 no such user"));
        for line in [
            "To: <s@a.test>\r\n",
            "Date: Sun, 9 Sep 2001 01:46:40 +0000\r\n",
            "Reporting-MTA: dns; out.a.test\r\n",
            "Final-Recipient: rfc822; u@b.test\r\nAction: failed\r\nStatus: 5.1.1\r\n",
            "Remote-MTA: dns; mx.b.test\r\nDiagnostic-Code: smtp; 550 5.1.1 no such user\r\n",
            "Content-Type: text/rfc822-headers\r\n\r\nSubject: caf\r\n\r\n--",
            "mx.b.test said: 550 5.1.1 no such user",
        ] {
            assert!(text.contains(line), "{line:?} in {text}");
        }
        assert!(!text.contains("the body"));
        let boundary = text.split_once("boundary=\"").unwrap().1.split_once('"').unwrap().0;
        assert_eq!(text.matches(&format!("\r\n--{boundary}\r\n")).count(), 3);
        assert!(text.ends_with(&format!("\r\n--{boundary}--\r\n")));
        assert_eq!(text.replace("\r\n", "").matches(['\r', '\n']).count(), 0, "line ends");
    }

    #[test]
    fn the_whole_message_comes_back_if_the_sender_asked_for_it() {
        let envelope = Envelope {
            ret: Some(Ret::Full),
            envid: Some("id+2B1".to_owned()),
            ..Envelope::new("s@a.test", Mode::Data)
        };
        let to = record("u@b.test");
        let text = text(&envelope, &failure(&to, None, b"5.1.2 the name does not exist (NXDOMAIN)"));
        assert!(text.contains("Content-Type: message/rfc822\r\n\r\nSubject: caf\r\n\r\nthe body\r\n\r\n--"), "{text}");
        assert!(text.contains("Original-Envelope-Id: id+2B1\r\n") && text.contains("Status: 5.1.2\r\n"), "{text}");
        assert!(!text.contains("Remote-MTA") && !text.contains("Diagnostic-Code"));
    }

    #[test]
    fn replies_and_addresses_cannot_add_fields() {
        let envelope = Envelope::new("s@a.test", Mode::Data);
        let to = record("u\r\nBcc: x@y@b.test");
        let reply = text(&envelope, &failure(&to, Some(550), b"no\r\nAction: delivered\x00\xff"));
        assert!(!reply.contains("\nBcc") && !reply.contains("\nAction: delivered"), "{reply}");
        assert!(reply.contains("Status: 5.0.0\r\n"));
        let to = record("\u{e9}@b.test");
        let utf8 = text(&envelope, &failure(&to, Some(550), b"4.1.1 no"));
        assert!(
            utf8.contains("Final-Recipient: utf-8; \u{e9}@b.test\r\n")
                && utf8.contains("message/global-delivery-status")
        );
    }

    #[test]
    fn a_report_that_is_written_again_replaces_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let message = Message::parse(b"Subject: a\n\nb\n", &[], None).unwrap();
        let (envelope, to) = (Envelope::new("s@a.test", Mode::Data), record("u@b.test"));
        for _ in 0..2 {
            let bounces = Bounces::open(folder.path()).unwrap();
            bounces.write(&envelope, &message, &failure(&to, Some(550), b"no")).unwrap();
        }
        assert_eq!(fs::read_dir(folder.path().join("new")).unwrap().count(), 1);
        assert_eq!(fs::read_dir(folder.path().join("tmp")).unwrap().count(), 0);
    }
}
