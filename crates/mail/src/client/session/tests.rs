//! Tests of STARTTLS. The simulation and the tests of deliveries run sessions as a whole.

use super::*;

struct Talk {
    session: Session,
    envelope: Envelope,
}

impl Talk {
    fn new(security: Security) -> Self {
        Self { session: Session::new(Mode::Data, security, 0), envelope: Envelope::new("", Mode::Data) }
    }

    /// Receives bytes; returns the events and what the client sends.
    fn hear(&mut self, bytes: &str) -> Result<(Vec<Event>, String), Broken> {
        let (mut input, mut events, mut phases) = (bytes.as_bytes(), Vec::new(), Phases::default());
        while let Some(event) = self.session.next(&mut input, &self.envelope, 7, &mut phases)? {
            events.push(event);
        }
        let sent = String::from_utf8(self.session.outgoing.commands().clone()).unwrap();
        self.session.outgoing.advance(sent.len());
        Ok((events, sent))
    }

    /// Brings the session to STARTTLS.
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
        // HELO offers nothing.
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
