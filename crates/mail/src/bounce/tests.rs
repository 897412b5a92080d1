//! Tests of the text of reports.

use super::mime::HEADER_BYTES;
use super::*;
use crate::envelope::Mode;
use data_encoding::BASE64_MIME_PERMISSIVE;

fn failure<'a>(address: &'a str, code: Option<u16>, text: &'a [u8]) -> Failure<'a> {
    let (orcpt, host) = (None, code.and(Some("mx.b.test")));
    Failure { address, orcpt, action: Action::Failed, host, code, text }
}

/// Returns the decoded texts of a report's base64 parts.
fn decoded(report: &str) -> Vec<String> {
    let encoded = report.split("Content-Transfer-Encoding: base64\r\n\r\n").skip(1);
    let text = |part: &str| {
        let part = part.split_once("\r\n--").unwrap().0;
        assert!(part.lines().all(|line| line.len() <= 76), "RFC 2045 section 6.8");
        String::from_utf8(BASE64_MIME_PERMISSIVE.decode(part.as_bytes()).unwrap()).unwrap()
    };
    encoded.map(text).collect()
}

fn text(envelope: &Envelope, failures: &[Failure<'_>]) -> String {
    let content = b"Subject: caf\r\n\r\nthe body\r\n";
    let subject = Subject { envelope, content, name: "n", at_ms: 1_000_000_000_000, returned: Returned::Whole(100) };
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
    let envelope =
        Envelope { ret: Some(Ret::Full), envid: Some("id+2B1".to_owned()), ..Envelope::new("s@a.test", Mode::Data) };
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
    assert!(utf8.is_ascii() && utf8.contains("message/global-delivery-status"), "{utf8}");
    assert!(decoded(&utf8)[1].contains("Final-Recipient: utf-8; \u{e9}@b.test\r\n"), "{utf8}");
}

#[test]
fn no_line_of_a_report_is_too_long() {
    let envelope = Envelope { helo: "a".repeat(255), ..Envelope::new("s@a.test", Mode::Data) };
    let (host, orcpt) = ("h".repeat(255), format!("rfc822;{}", "+FF".repeat(160)));
    let address = "\u{e9}".repeat(2000);
    let failure = Failure { host: Some(&host), orcpt: Some(&orcpt), ..failure(&address, Some(550), &[0xff; 5000]) };
    let text = text(&envelope, &[failure]);
    let parts = decoded(&text);
    let longest = text.lines().chain(parts.iter().flat_map(|part| part.lines())).map(str::len).max().unwrap();
    assert!(longest <= 998 && parts[0].contains("550 \u{fffd}"), "{longest}");
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
        assert!(text.is_ascii() && text.contains(": message/global-delivery-status\r\n"), "{text}");
        let status = &decoded(&text)[0];
        assert!(status.contains("\u{e9}") && status.contains("Final-Recipient: utf-8; u@b.test\r\n"), "{status}");
    }
}

#[test]
fn a_report_that_is_too_large_can_do_without_the_body_of_the_message() {
    let envelope = Envelope { ret: Some(Ret::Full), ..Envelope::new("s@a.test", Mode::Data) };
    let full = text(&envelope, &[failure("u@b.test", Some(550), b"no")]);
    assert!(full.contains("the body"));
    let signed = format!("DKIM-Signature: v=1\r\n{full}");
    let short = shortened(signed.as_bytes(), Returned::Header).unwrap();
    let envelope = Envelope { ret: None, ..envelope };
    assert_eq!(String::from_utf8(short.clone()).unwrap(), text(&envelope, &[failure("u@b.test", Some(550), b"no")]));
    assert_eq!(shortened(&short, Returned::Header), None);
    let shortest = String::from_utf8(shortened(&short, Returned::Nothing).unwrap()).unwrap();
    assert!(shortest.contains("Action: failed") && shortest.ends_with("\r\n--=_n--\r\n"), "{shortest}");
    assert!(!shortest.contains("caf") && shortened(shortest.as_bytes(), Returned::Nothing).is_none());
    assert_eq!(shortened(b"Subject: no report\r\n\r\n", Returned::Header), None);
}

#[test]
fn large_messages_are_returned_without_their_body_and_large_headers_in_part() {
    let envelope = Envelope { ret: Some(Ret::Full), ..Envelope::new("s@a.test", Mode::Data) };
    let content = format!("{}\r\nthe body\r\n", "X: line of a header\r\n".repeat(10_000));
    let subject = Subject {
        envelope: &envelope,
        content: content.as_bytes(),
        name: "n",
        at_ms: 1,
        returned: Returned::Whole(300_000),
    };
    let full = report(&subject, &[failure("u@b.test", None, b"no")]);
    assert!(full.len() > content.len());
    let part = report(&Subject { returned: Returned::Whole(200_000), ..subject }, &[failure("u@b.test", None, b"no")]);
    assert!((HEADER_BYTES..HEADER_BYTES + 2000).contains(&part.len()), "{}", part.len());
    assert!(String::from_utf8(part).unwrap().contains("X: line of a header\r\n\r\n--=_n--\r\n"));
}

#[test]
fn a_report_that_is_written_again_replaces_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let message = Message::parse(b"Subject: a\n\nb\n", &[], None).unwrap();
    let letter = Letter::new(Envelope::new("s@a.test", Mode::Data), message);
    for sync in [Sync::Never, Sync::Always] {
        let bounces = Bounces::open(folder.path(), sync).unwrap();
        bounces.write(&letter, 7, &Record::default(), &failure("u@b.test", Some(550), b"no"), 1).unwrap();
    }
    assert_eq!(fs::read_dir(folder.path().join("new")).unwrap().count(), 1);
    assert_eq!(fs::read_dir(folder.path().join("tmp")).unwrap().count(), 0);
}

/// RFC 6533 permits the encoding of every part except message/rfc822, so that all servers accept the report.
#[test]
fn only_a_message_that_is_returned_as_a_whole_needs_8bitmime() {
    let envelope = Envelope { ret: Some(Ret::Full), ..Envelope::new("s@b\u{fc}cher.test", Mode::Data) };
    let content = "Subject: caf\u{e9}\r\n\r\nth\u{e9} body\r\n";
    let subject =
        |returned| Subject { envelope: &envelope, content: content.as_bytes(), name: "n", at_ms: 1, returned };
    let failures = [failure("\u{e9}@b.test", Some(550), "5.1.1 caf\u{e9}".as_bytes())];
    let header = String::from_utf8(report(&subject(Returned::Header), &failures)).unwrap();
    assert!(header.is_ascii() && header.contains("\r\nTo: <s@xn--bcher-kva.test>\r\n"), "{header}");
    let parts = decoded(&header);
    assert!(parts[0].contains("said: 550 5.1.1 caf\u{e9}") && parts[2] == "Subject: caf\u{e9}\r\n", "{parts:?}");
    let whole = report(&subject(Returned::Whole(100)), &failures);
    assert!(!whole.is_ascii() && String::from_utf8_lossy(&whole).contains("\r\nContent-Transfer-Encoding: 8bit\r\n"));
    let encoded = String::from_utf8(in_seven_bits(&whole).unwrap()).unwrap();
    assert!(encoded.is_ascii() && encoded.contains("Content-Type: message/global\r\n"), "{encoded}");
    assert!(!encoded.contains("8bit") && encoded.ends_with("\r\n--=_n--\r\n"), "{encoded}");
    assert_eq!(decoded(&encoded)[2], content);
    assert_eq!(in_seven_bits(encoded.as_bytes()), None);
    // It may then be too large.
    assert_eq!(shortened(encoded.as_bytes(), Returned::Header).unwrap(), header.as_bytes());
}
