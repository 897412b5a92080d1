//! Bounces: reports to the sender about recipients that failed (RFC 3464).
//!
//! Those of a list are written to a Maildir, before the ledger has the recipient as failed, under a name that follows
//! from message and recipient. So a run that is killed between the two and continued replaces the report instead of
//! adding another one. Those of a relay are messages of its queue.

use crate::envelope::Envelope;
use crate::error::{Error, Result};
use crate::input::Letter;
use crate::list::Record;
use crate::message::Message;
use jiff::Timestamp;
use landau_wire::smtp::code::Enhanced;
use landau_wire::smtp::data::Transfer;
use landau_wire::smtp::parameter::{OriginalRecipient, Ret, Xtext};
use std::borrow::Cow;
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The bytes of a reply that are reported.
pub(crate) const REPLY_BYTES: usize = 512;

/// The bytes of a header that are returned.
const HEADER_BYTES: usize = 64 << 10;

/// The beginning of every report.
const FROM: &str = "From: Mail Delivery System <MAILER-DAEMON@";

/// What precedes the boundary in the header of a report.
const BOUNDARY: &str = " boundary=\"";

/// What the sender reads above the recipients.
const EXPLAINED: [(Action, &str); 2] = [
    (Action::Failed, "The message could not be delivered to these recipients. It will not be tried again."),
    (Action::Relayed, "The message was passed on to these recipients' servers, which do not report on its delivery."),
];

/// What is reported about a recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// It failed for good.
    Failed,
    /// A server took the message that makes no reports, although the sender asked for one on success (RFC 3461 section
    /// 5.2.2).
    Relayed,
}

/// What became of a recipient, and why.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Failure<'a> {
    pub(crate) address: &'a str,
    /// The recipient that the sender gave, encoded.
    pub(crate) orcpt: Option<&'a str>,
    pub(crate) action: Action,
    /// The host that answered; none if no host was asked.
    pub(crate) host: Option<&'a str>,
    /// The code of its reply.
    pub(crate) code: Option<u16>,
    /// The text of its reply, or why no host was asked.
    pub(crate) text: &'a [u8],
}

impl<'a> Failure<'a> {
    /// Returns the type and the address of the recipient that the sender gave.
    fn original(&self) -> Option<(&'a str, Vec<u8>)> {
        let orcpt = OriginalRecipient::new(self.orcpt?)?;
        let address = match Xtext::new(orcpt.address()) {
            Some(address) => address.decode().collect(),
            None => orcpt.address().as_bytes().to_vec(),
        };
        Some((orcpt.kind(), address))
    }
}

/// What a report is about besides its recipients.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) envelope: &'a Envelope,
    /// The content of the message.
    pub(crate) content: &'a [u8],
    /// A name that no other report has.
    pub(crate) name: &'a str,
    /// Milliseconds since 1970.
    pub(crate) at_ms: u64,
    /// The largest message that is returned as a whole; of a larger one the header is.
    pub(crate) most_returned: usize,
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

    /// Writes the report about the failure of the recipient of a number, to whom `record` was to be sent.
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
            most_returned: usize::MAX,
        };
        let report = report(&subject, &[*failure]);
        let name = format!("{digest:.16}.R{number}.landau");
        let (written, delivered) = (self.folder.join("tmp").join(&name), self.folder.join("new").join(&name));
        fs::write(&written, report)?;
        fs::rename(&written, &delivered)
    }
}

/// Returns the message as it was to be sent to a record.
fn rendered<'a>(message: &'a Message, record: &Record) -> Cow<'a, [u8]> {
    let mut rendered = Vec::new();
    if message.is_template() && message.render(Transfer::Bdat, record, &mut rendered).is_ok() {
        return Cow::Owned(rendered);
    }
    message.content()
}

/// Returns the report about some recipients of a message, with CR LF at its line ends.
pub(crate) fn report(subject: &Subject<'_>, failures: &[Failure<'_>]) -> Vec<u8> {
    let Subject { envelope, content, name, at_ms, most_returned } = *subject;
    let Envelope { helo, from, .. } = envelope;
    let envid = envelope.envid.as_deref().and_then(Xtext::new).map(|envid| envid.decode().collect::<Vec<_>>());
    let is_utf8 = !from.is_ascii()
        || envid.as_ref().is_some_and(|envid| !envid.is_ascii())
        || failures.iter().any(|one| !one.address.is_ascii() || one.original().is_some_and(|(_, to)| !to.is_ascii()));
    let (date, boundary) = (date(at_ms), format!("=_{name}"));
    let has_failed = failures.iter().any(|one| one.action == Action::Failed);
    let title = if has_failed { "Undelivered mail" } else { "Relayed mail" };
    // An address beyond ASCII would make the header need SMTPUTF8, which the sender's server may not offer.
    let about = match failures {
        [one] if one.address.is_ascii() => format!(": {}", short_line(one.address.as_bytes())),
        _ => String::new(),
    };
    let mut body = String::new();
    // Writing to a string cannot fail.
    let _ =
        write!(body, "--{boundary}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n");
    for (action, explained) in EXPLAINED {
        let mut these = failures.iter().filter(|one| one.action == action).peekable();
        if these.peek().is_some() {
            let _ = write!(body, "\r\n{explained}\r\n");
        }
        for one in these {
            let _ = write!(body, "\r\n<{}>:\r\n    {}\r\n", short_line(one.address.as_bytes()), reason(one));
        }
    }
    let status_type = if is_utf8 { "message/global-delivery-status" } else { "message/delivery-status" };
    let _ = write!(body, "\r\n--{boundary}\r\nContent-Type: {status_type}\r\n");
    if is_utf8 {
        body.push_str("Content-Transfer-Encoding: 8bit\r\n");
    }
    let _ = write!(body, "\r\nReporting-MTA: dns; {helo}\r\n");
    if let Some(envid) = envid {
        let _ = write!(body, "Original-Envelope-Id: {}\r\n", short_line(&envid));
    }
    for failure in failures {
        write_status(&mut body, failure, is_utf8, &date);
    }
    let _ = write!(body, "\r\n--{boundary}\r\n");
    let mut body = body.into_bytes();
    let is_full = has_failed && envelope.ret == Some(Ret::Full) && content.len() <= most_returned;
    body.extend_from_slice(&returned(content, is_full));
    body.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    let encoding = if body.is_ascii() { "" } else { "Content-Transfer-Encoding: 8bit\r\n" };
    let mut out = format!(
        "{FROM}{helo}>\r\nTo: <{from}>\r\nSubject: {title}{about}\r\n\
         Date: {date}\r\nMessage-ID: <{name}.{at_ms}@{helo}>\r\nAuto-Submitted: auto-replied\r\n\
         MIME-Version: 1.0\r\nContent-Type: multipart/report; report-type=delivery-status;\r\n\
         {BOUNDARY}{boundary}\"\r\n{encoding}\r\n"
    )
    .into_bytes();
    out.extend_from_slice(&body);
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

/// Returns a report without the body of the message that it returns; `None` if it has none. What precedes the report is
/// dropped: a signature, which would no longer be valid.
pub(crate) fn shortened(report: &[u8]) -> Option<Vec<u8>> {
    let find = |text: &[u8], what: &[u8]| text.windows(what.len()).position(|window| window == what);
    let report = &report[find(report, FROM.as_bytes())?..];
    let (_, rest) = report.split_at(find(report, BOUNDARY.as_bytes())? + BOUNDARY.len());
    let boundary = rest.split(|&byte| byte == b'"').next()?;
    let begin = [b"\r\n--", boundary, b"\r\n"].concat();
    let at = report.windows(begin.len()).rposition(|window| window == begin)? + begin.len();
    let (before, part) = report.split_at(at);
    let is_full =
        part.starts_with(b"Content-Type: message/rfc822\r\n") || part.starts_with(b"Content-Type: message/global\r\n");
    let content = &part[is_full.then(|| find(part, b"\r\n\r\n"))?? + 4..];
    Some([before, &returned(content, false), b"\r\n--", boundary, b"--\r\n"].concat())
}

/// Returns the part with the message, or with its header.
fn returned(content: &[u8], is_full: bool) -> Vec<u8> {
    let header_end = content.windows(4).position(|four| four == b"\r\n\r\n").map_or(content.len(), |at| at + 2);
    let header = &content[..header_end];
    let shown = if is_full { content } else { some_lines(header) };
    let kind = match (is_full, header.is_ascii()) {
        (true, true) => "message/rfc822",
        (true, false) => "message/global",
        (false, true) => "text/rfc822-headers",
        (false, false) => "message/global-headers",
    };
    let encoding = if shown.is_ascii() { "" } else { "Content-Transfer-Encoding: 8bit\r\n" };
    [format!("Content-Type: {kind}\r\n{encoding}\r\n").as_bytes(), shown].concat()
}

/// Returns the lines of a header as far as they are returned.
fn some_lines(header: &[u8]) -> &[u8] {
    match header.get(..HEADER_BYTES) {
        None => header,
        Some(begin) => &begin[..begin.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1)],
    }
}

/// Returns the reply as one line.
fn reply(failure: &Failure<'_>) -> String {
    short_line(failure.text)
}

/// Returns what became of a recipient and why, as a sentence.
fn reason(failure: &Failure<'_>) -> String {
    match (failure.host, failure.code) {
        (Some(host), Some(code)) => format!("{host} said: {code} {}", reply(failure)),
        _ => reply(failure),
    }
}

/// Returns the status: the enhanced code of the reply, or one that says nothing but the class.
fn status(text: &[u8], class: u8) -> String {
    let mut out = Vec::new();
    match Enhanced::parse(text).filter(|(code, _)| code.parts().0 == class) {
        Some((code, _)) => code.write(&mut out),
        None => out.extend_from_slice(format!("{class}.0.0").as_bytes()),
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Returns the beginning of a text, without line ends and other control characters, which would begin another field.
/// With a name and the name of a host it fits in a line of 998 bytes (RFC 5322 section 2.1.1).
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

    fn failure<'a>(address: &'a str, code: Option<u16>, text: &'a [u8]) -> Failure<'a> {
        let (orcpt, host) = (None, code.and(Some("mx.b.test")));
        Failure { address, orcpt, action: Action::Failed, host, code, text }
    }

    fn text(envelope: &Envelope, failures: &[Failure<'_>]) -> String {
        let content = b"Subject: caf\r\n\r\nthe body\r\n";
        let subject = Subject { envelope, content, name: "n", at_ms: 1_000_000_000_000, most_returned: 100 };
        String::from_utf8(report(&subject, failures)).unwrap()
    }

    #[test]
    fn a_report_has_the_fields_of_rfc_3464() {
        let envelope = Envelope { helo: "out.a.test".to_owned(), ..Envelope::new("s@a.test", Mode::Data) };
        let text = text(&envelope, &[failure("u@b.test", Some(550), b"5.1.1 no such user")]);
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
        let text = text(&envelope, &[failure("u@b.test", None, b"5.1.2 the name does not exist (NXDOMAIN)")]);
        assert!(text.contains("Content-Type: message/rfc822\r\n\r\nSubject: caf\r\n\r\nthe body\r\n\r\n--"), "{text}");
        assert!(text.contains("Original-Envelope-Id: id+1\r\n") && text.contains("Status: 5.1.2\r\n"), "{text}");
        assert!(!text.contains("Remote-MTA") && !text.contains("Diagnostic-Code"));
    }

    #[test]
    fn a_report_about_several_recipients_has_fields_for_each() {
        let envelope = Envelope::new("s@a.test", Mode::Data);
        let one = Failure { orcpt: Some("rfc822;U+2B1@a.test"), ..failure("u@b.test", Some(550), b"5.1.1 no") };
        let text = text(&envelope, &[one, failure("v@b.test", None, b"5.4.7 too late")]);
        let fields = "\r\n\r\nOriginal-Recipient: rfc822; U+1@a.test\r\nFinal-Recipient: rfc822; u@b.test\r\n";
        assert!(text.contains(fields) && text.contains("\r\n\r\nFinal-Recipient: rfc822; v@b.test\r\n"), "{text}");
        assert_eq!(text.matches("Action: failed\r\n").count(), 2);
    }

    #[test]
    fn a_server_that_makes_no_reports_is_reported() {
        let envelope = Envelope { ret: Some(Ret::Full), ..Envelope::new("s@a.test", Mode::Data) };
        let relayed = Failure { action: Action::Relayed, ..failure("u@b.test", Some(250), b"2.0.0 Ok") };
        let text = text(&envelope, &[relayed]);
        assert!(text.contains("Action: relayed\r\nStatus: 2.0.0\r\n") && !text.contains("the body"), "{text}");
    }

    #[test]
    fn replies_and_addresses_cannot_add_fields() {
        let envelope = Envelope::new("s@a.test", Mode::Data);
        let address = "u\r\nBcc: x@y@b.test";
        let reply = text(&envelope, &[failure(address, Some(550), b"no\r\nAction: delivered\x00\xff")]);
        assert!(!reply.contains("\nBcc") && !reply.contains("\nAction: delivered"), "{reply}");
        assert!(reply.contains("Status: 5.0.0\r\n"));
        let utf8 = text(&envelope, &[failure("\u{e9}@b.test", Some(550), b"4.1.1 no")]);
        assert!(utf8.split_once("\r\n\r\n").unwrap().0.is_ascii(), "the header needs no SMTPUTF8: {utf8}");
        assert!(
            utf8.contains("Final-Recipient: utf-8; \u{e9}@b.test\r\n")
                && utf8.contains("message/global-delivery-status")
        );
    }

    #[test]
    fn no_line_of_a_report_is_too_long() {
        let envelope = Envelope { helo: "a".repeat(255), ..Envelope::new("s@a.test", Mode::Data) };
        let (host, orcpt) = ("h".repeat(255), format!("rfc822;{}", "+FF".repeat(160)));
        let address = "\u{e9}".repeat(2000);
        let failure = Failure { host: Some(&host), orcpt: Some(&orcpt), ..failure(&address, Some(550), &[0xff; 5000]) };
        let text = text(&envelope, &[failure]);
        let longest = text.lines().map(str::len).max().unwrap();
        assert!(longest <= 998 && text.contains("550 \u{fffd}"), "{longest}");
    }

    #[test]
    fn recipients_whose_mail_was_passed_on_are_not_among_those_that_failed() {
        let envelope = Envelope::new("s@a.test", Mode::Data);
        let relayed = Failure { action: Action::Relayed, ..failure("r@b.test", Some(250), b"2.0.0 Ok") };
        let text = text(&envelope, &[relayed, failure("f@b.test", Some(550), b"5.1.1 no")]);
        let (failed, passed_on) = text.split_once("could not be").unwrap().1.split_once("was passed on").unwrap();
        assert!(failed.contains("<f@b.test>") && !failed.contains("<r@b.test>"), "{text}");
        assert!(passed_on.split("--=_n").next().unwrap().contains("<r@b.test>"), "{text}");
    }

    #[test]
    fn what_the_sender_wrote_beyond_ascii_makes_the_report_utf_8() {
        for (orcpt, envid) in [(Some("utf-8;\u{e9}@a.test"), None), (None, Some("+C3+A9".to_owned()))] {
            let envelope = Envelope { envid, ..Envelope::new("s@a.test", Mode::Data) };
            let text = text(&envelope, &[Failure { orcpt, ..failure("u@b.test", Some(550), b"no") }]);
            assert!(text.contains(": message/global-delivery-status\r\nContent-Transfer-Encoding: 8bit\r\n"), "{text}");
            assert!(text.contains("\u{e9}") && text.contains("Final-Recipient: utf-8; u@b.test\r\n"), "{text}");
        }
    }

    #[test]
    fn a_report_that_is_too_large_can_do_without_the_body_of_the_message() {
        let envelope = Envelope { ret: Some(Ret::Full), ..Envelope::new("s@a.test", Mode::Data) };
        let full = text(&envelope, &[failure("u@b.test", Some(550), b"no")]);
        assert!(full.contains("the body"));
        let signed = format!("DKIM-Signature: v=1\r\n{full}");
        let short = shortened(signed.as_bytes()).unwrap();
        let envelope = Envelope { ret: None, ..envelope };
        assert_eq!(
            String::from_utf8(short.clone()).unwrap(),
            text(&envelope, &[failure("u@b.test", Some(550), b"no")])
        );
        assert_eq!(shortened(&short), None);
        assert_eq!(shortened(b"Subject: no report\r\n\r\n"), None);
    }

    #[test]
    fn large_messages_are_returned_without_their_body_and_large_headers_in_part() {
        let envelope = Envelope { ret: Some(Ret::Full), ..Envelope::new("s@a.test", Mode::Data) };
        let content = format!("{}\r\nthe body\r\n", "X: line of a header\r\n".repeat(10_000));
        let subject =
            Subject { envelope: &envelope, content: content.as_bytes(), name: "n", at_ms: 1, most_returned: 300_000 };
        let full = report(&subject, &[failure("u@b.test", None, b"no")]);
        assert!(full.len() > content.len());
        let part = report(&Subject { most_returned: 200_000, ..subject }, &[failure("u@b.test", None, b"no")]);
        assert!((HEADER_BYTES..HEADER_BYTES + 2000).contains(&part.len()), "{}", part.len());
        assert!(String::from_utf8(part).unwrap().contains("X: line of a header\r\n\r\n--=_n--\r\n"));
    }

    #[test]
    fn a_report_that_is_written_again_replaces_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let message = Message::parse(b"Subject: a\n\nb\n", &[], None).unwrap();
        let letter = Letter::new(Envelope::new("s@a.test", Mode::Data), message);
        for _ in 0..2 {
            let bounces = Bounces::open(folder.path()).unwrap();
            bounces.write(&letter, 7, &Record::default(), &failure("u@b.test", Some(550), b"no"), 1).unwrap();
        }
        assert_eq!(fs::read_dir(folder.path().join("new")).unwrap().count(), 1);
        assert_eq!(fs::read_dir(folder.path().join("tmp")).unwrap().count(), 0);
    }
}
