//! Tests of STARTTLS and of single replies. The simulation and the delivery tests run whole sessions.

use super::*;

struct Talk {
    session: Session,
    envelope: Envelope,
}

impl Talk {
    fn new(security: Security) -> Self {
        Self { session: Session::new(Mode::Data, security, 0), envelope: Envelope::new("", Mode::Data) }
    }

    /// Receives bytes; returns the events and the bytes sent by the client.
    fn hear(&mut self, bytes: &str) -> Result<(Vec<Event>, String), Broken> {
        let (mut input, mut events, mut phases) = (bytes.as_bytes(), Vec::new(), Phases::default());
        while let Some(event) = self.session.next(&mut input, &self.envelope, 7, &mut phases)? {
            events.push(event);
        }
        let sent = String::from_utf8(self.session.outgoing.commands().clone()).unwrap();
        self.session.outgoing.advance(sent.len());
        Ok((events, sent))
    }

    /// Returns a session after the greeting and the EHLO answer `offer` of the server.
    fn greeted(mode: Mode, offer: &str) -> Self {
        let envelope = Envelope { chunking: true, ..Envelope::new("", mode) };
        let mut talk = Self { session: Session::new(mode, Security::Plain, 0), envelope };
        talk.hear("220 a\r\n").unwrap();
        assert_eq!(talk.hear(offer).unwrap().0, [Event::Greeted]);
        talk
    }

    /// Begins a transaction with these recipients.
    fn begin(&mut self, ids: std::ops::Range<u32>) {
        let chunk = (Content::Shared(Transfer::Bdat), 0);
        let needs = Needs { size: None, is_8bit: false, is_utf8: false, chunk };
        let rcpt = || Rcpt::new(landau_wire::smtp::Recipient::Mailbox(Mailbox::parse(b"a@b.test").unwrap()));
        self.session.begin(&self.envelope, needs, ids.map(|id| (id, rcpt())), 8);
    }

    /// Receives replies one by one, and sends a content when the server awaits one. Returns the events after the last
    /// one.
    fn hear_all(&mut self, replies: &[&str]) -> Vec<Event> {
        let mut events = Vec::new();
        for reply in replies {
            events = self.hear(&format!("{reply}\r\n")).unwrap().0;
            if events == [Event::ContentWanted] {
                self.session.send_content(Content::Own, 0, 9);
            }
        }
        events
    }

    /// Returns a session that has sent STARTTLS.
    fn at_starttls(security: Security) -> Self {
        let mut talk = Self::new(security);
        assert_eq!(talk.hear("220 a\r\n").unwrap(), (vec![], "EHLO localhost\r\n".to_owned()));
        let answer = "250-a\r\n250-PIPELINING\r\n250-SIZE 10\r\n250 STARTTLS\r\n";
        assert_eq!(talk.hear(answer).unwrap(), (vec![], "STARTTLS\r\n".to_owned()));
        talk
    }
}

#[test]
fn what_was_offered_before_tls_is_forgotten() {
    for security in [Security::Opportunistic, Security::Required] {
        let mut talk = Talk::at_starttls(security);
        assert_eq!(talk.hear("220 go\r\n").unwrap(), (vec![Event::Secure], String::new()));
        assert_eq!(talk.session.secured(&talk.envelope, 9), 2);
        // STARTTLS is not sent again, even if it is offered again.
        let (events, sent) = talk.hear("250-a\r\n250 STARTTLS\r\n").unwrap();
        assert_eq!((events, sent.as_str()), (vec![Event::Greeted], "EHLO localhost\r\n"));
        assert!(!talk.session.is_pipelined() && talk.session.capabilities().size_limit.is_none());
    }
}

#[test]
fn unencrypted_bytes_after_the_answer_are_refused() {
    for injected in ["250 x\r\n", "2", "\r\n"] {
        let mut talk = Talk::at_starttls(Security::Opportunistic);
        assert_eq!(talk.hear(&format!("220 go\r\n{injected}")), Err(Broken::Injected), "{injected:?}");
    }
}

#[test]
fn a_server_without_tls_gets_mail_unless_tls_is_required() {
    let plain = "250 a\r\n";
    for (security, expected) in [
        (Security::Plain, Ok(vec![Event::Greeted])),
        (Security::Opportunistic, Ok(vec![Event::Greeted])),
        (Security::Required, Err(Broken::NoTls)),
    ] {
        let mut talk = Talk::new(security);
        talk.hear("220 a\r\n").unwrap();
        assert_eq!(talk.hear(plain).map(|(events, _)| events), expected, "{security:?}");
        // The answer to HELO offers no extensions.
        let mut talk = Talk::new(security);
        talk.hear("220 a\r\n").unwrap();
        talk.hear("502 what\r\n").unwrap();
        assert_eq!(talk.hear(plain).map(|(events, _)| events), expected, "{security:?}");
    }
    let mut talk = Talk::at_starttls(Security::Opportunistic);
    assert_eq!(talk.hear("454 no\r\n").unwrap().0, [Event::Greeted]);
    assert!(talk.session.is_pipelined());
    let mut talk = Talk::at_starttls(Security::Required);
    assert_eq!(talk.hear("454 no\r\n"), Err(Broken::TlsRefused(talk.session.code().unwrap())));
    let mut talk = Talk::at_starttls(Security::Opportunistic);
    assert_eq!(talk.hear("421 no\r\n").unwrap().0, [Event::Refused]);
}

#[test]
fn a_sender_beyond_ascii_is_converted_where_smtputf8_is_not_offered() {
    for (offered, expected) in [
        ("250 a\r\n", "MAIL FROM:<s@xn--bcher-kva.test>\r\n"),
        ("250-a\r\n250 SMTPUTF8\r\n", "MAIL FROM:<s@b\u{fc}cher.test> SMTPUTF8\r\n"),
    ] {
        let mut talk = Talk::new(Security::Plain);
        talk.envelope.from = "s@b\u{fc}cher.test".to_owned();
        talk.hear("220 a\r\n").unwrap();
        talk.hear(offered).unwrap();
        let chunk = (Content::Shared(Transfer::Bdat), 0);
        let needs = Needs { size: None, is_8bit: false, is_utf8: true, chunk };
        let recipient = Rcpt::new(landau_wire::smtp::Recipient::Mailbox(Mailbox::parse(b"a@b.test").unwrap()));
        talk.session.begin(&talk.envelope, needs, std::iter::once((0, recipient)), 8);
        assert_eq!(talk.hear("").unwrap().1, expected);
    }
}

/// Such a transaction once counted as finished by the server. So its recipients were put back without an attempt, and
/// the site was tried again at once, in an endless loop.
#[test]
fn a_transaction_that_a_421_ends_is_no_success_of_the_connection() {
    let (plain, chunked) = ("250 a\r\n", "250-a\r\n250 CHUNKING\r\n");
    for (offer, replies) in [
        (plain, &["421 no"][..]),
        (plain, &["250 mail", "421 no"]),
        (plain, &["250 mail", "250 rcpt", "421 no"]),
        (plain, &["250 mail", "250 rcpt", "354 go", "421 no"]),
        (chunked, &["250 mail", "250 rcpt", "421 no"]),
        ("250-a\r\n250 PIPELINING\r\n", &["250 mail", "250 rcpt", "354 go", "421 no"]),
    ] {
        let mut talk = Talk::greeted(Mode::Data, offer);
        talk.begin(0..1);
        let expected = [Event::Resolved(0, Verdict::Transient), Event::Closing];
        assert_eq!(talk.hear_all(replies), expected, "{replies:?}");
        assert_eq!(talk.session.ended(), 0, "{replies:?}");
    }
    // After a finished transaction, a 421 ends a connection that was useful.
    let mut talk = Talk::greeted(Mode::Data, plain);
    talk.begin(0..1);
    talk.hear_all(&["250 mail", "250 rcpt", "354 go", "250 ok"]);
    talk.begin(1..2);
    assert_eq!(talk.hear_all(&["421 no"]), [Event::Resolved(1, Verdict::Transient), Event::Closing]);
    assert_eq!(talk.session.ended(), 1);
}

/// RFC 5321 section 4.5.3.1.10: 552 meant that a transaction had too many recipients before 452 was introduced for it.
#[test]
fn a_552_after_recipients_that_were_accepted_is_transient() {
    let resolved = Event::Resolved;
    for (mode, accepted) in [(Mode::Data, None), (Mode::Rset, Some(resolved(0, Verdict::Success)))] {
        let mut talk = Talk::greeted(mode, "250 a\r\n");
        talk.begin(0..3);
        assert_eq!(talk.hear_all(&["250 mail", "250 rcpt"]), accepted.into_iter().collect::<Vec<_>>(), "{mode:?}");
        assert_eq!(talk.hear_all(&["552 too many"]), [resolved(1, Verdict::Transient)], "{mode:?}");
        assert_eq!(talk.hear_all(&["550 who"]), [resolved(2, Verdict::Permanent)], "{mode:?}");
        match mode {
            Mode::Data => talk.hear_all(&["354 go", "250 ok"]),
            _ => talk.hear_all(&["250 rset"]),
        };
        // For the first recipient of the next transaction, 552 does not mean too many recipients.
        talk.begin(3..5);
        assert_eq!(talk.hear_all(&["250 mail", "552 over quota"]), [resolved(3, Verdict::Permanent)], "{mode:?}");
    }
}
