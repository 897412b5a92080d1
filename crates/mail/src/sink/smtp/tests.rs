//! Tests of sessions without sockets: the effect of each command, and the delay of its reply.

use super::Smtp;
use super::profile::Profiles;
use super::session::Session;
use crate::sink::counters::Counted;
use crate::sink::protocol::{Origin, Protocol, Then};
use std::net::IpAddr;
use std::time::Duration;

const LOCAL: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

/// A client that talks to a session.
struct Talk {
    smtp: Smtp,
    session: Session,
    kept: Vec<u8>,
    is_over: bool,
}

/// A reply: its code and its delay.
type Reply = (u16, Duration);

impl Talk {
    fn new(profile: &str) -> Self {
        Self::seeded(profile, 1)
    }

    fn seeded(profile: &str, seed: u64) -> Self {
        let mut smtp = Smtp::new("s.example", profile.parse::<Profiles>().unwrap(), seed);
        let origin = Origin { number: 0, peer: LOCAL, local: LOCAL };
        let session = smtp.open(&origin, 0, &mut Vec::new()).session;
        Self { smtp, session, kept: Vec::new(), is_over: false }
    }

    /// Sends bytes and returns the replies.
    fn send(&mut self, bytes: &[u8]) -> Vec<Reply> {
        self.kept.extend_from_slice(bytes);
        let mut replies = Vec::new();
        while !self.is_over {
            let mut out = Vec::new();
            let step = self.smtp.step(&mut self.session, &self.kept, 0, &mut out);
            self.kept.drain(..step.consumed);
            let lines = out.split_inclusive(|&byte| byte == b'\n').filter(|line| line[3] == b' ');
            replies.extend(lines.map(|line| (str::from_utf8(&line[..3]).unwrap().parse().unwrap(), step.delay)));
            self.is_over = matches!(step.then, Then::Close | Then::HangUp);
            if step.then == Then::Receive {
                break;
            }
        }
        replies
    }

    fn codes(&mut self, text: &str) -> Vec<u16> {
        self.send(text.replace('|', "\r\n").as_bytes()).into_iter().map(|(code, _)| code).collect()
    }

    fn total(&self, name: &str) -> u64 {
        self.smtp.counters.readings().iter().find(|one| one.name == name).unwrap().value
    }
}

/// A message after EHLO.
const MESSAGE: &str = "MAIL FROM:<a@x>|RCPT TO:<b@y>|DATA|text|.|";

#[test]
fn commands_have_an_order() {
    for (text, codes) in [
        ("MAIL FROM:<a@x>|", &[503][..]),
        ("EHLO c|RCPT TO:<b@y>|DATA|RSET|", &[250, 503, 503, 250]),
        ("EHLO c|MAIL FROM:<>|MAIL FROM:<>|DATA|", &[250, 250, 503, 554]),
        ("EHLO c|MAIL FROM:<a@x>|RSET|RCPT TO:<b@y>|", &[250, 250, 250, 503]),
        ("EHLO c|MAIL FROM:<a@x>|EHLO c|RCPT TO:<b@y>|", &[250, 250, 250, 503]),
        ("HELO c|MAIL FROM:<a@x>|RCPT TO:<Postmaster>|DATA|.|", &[250, 250, 250, 354, 250]),
        ("EHLO c|NOOP x|VRFY a|EXPN l|HELP|QUIT|NOOP|", &[250, 250, 252, 502, 214, 221]),
        ("LHLO c|STARTTLS|WHAT|", &[500, 502, 500]),
        ("HELO c|MAIL FROM:<a@x> SIZE=1|", &[250, 555]),
        ("EHLO c|MAIL FROM:<a@x> SIZE=52428801|MAIL FROM:<a@x> SIZE=52428800|", &[250, 552, 250]),
    ] {
        let mut talk = Talk::new("");
        assert_eq!(talk.codes(text), codes, "{text}");
        let mut whole = Talk::new("");
        let by_byte = text.replace('|', "\r\n").bytes().flat_map(|byte| whole.send(&[byte])).collect::<Vec<_>>();
        assert_eq!(by_byte.iter().map(|(code, _)| *code).collect::<Vec<_>>(), codes, "{text} byte by byte");
    }
}

#[test]
fn messages_of_a_session_are_limited() {
    let mut talk = Talk::new("[default]\nmessages = 2");
    assert_eq!(
        talk.codes(&format!("EHLO c|{MESSAGE}{MESSAGE}{MESSAGE}")),
        [250, 250, 250, 354, 250, 250, 250, 354, 250, 421]
    );
    assert_eq!((talk.total("messages"), talk.total("message_limit")), (2, 1));
}

#[test]
fn recipients_of_a_message_are_limited() {
    let mut talk = Talk::new("[default]\nrecipients = 2");
    let text = "EHLO c|MAIL FROM:<>|RCPT TO:<a@y>|RCPT TO:<b@y>|RCPT TO:<c@y>|DATA|.|";
    assert_eq!(talk.codes(text), [250, 250, 250, 250, 452, 354, 250]);
    assert_eq!((talk.total("recipients"), talk.total("recipients_excess")), (2, 1));
}

/// RFC 5321 section 4.5.3.1.10: the message is sent to the accepted recipients. Like Postfix, the sink counts
/// recipients over the limit as errors from the 1,001st on.
#[test]
fn recipients_over_the_limit_are_no_errors() {
    let mut talk = Talk::new("[default]\nrecipients = 2\nerrors = 2");
    let text = |excess: usize| format!("MAIL FROM:<>|{}DATA|.|", "RCPT TO:<a@y>|".repeat(2 + excess));
    assert_eq!(talk.codes("EHLO c|"), [250]);
    for _ in 0..2 {
        let codes = talk.codes(&text(1000));
        assert_eq!((codes.len(), &codes[..4], &codes[1003..]), (1005, &[250, 250, 250, 452][..], &[354, 250][..]));
    }
    let codes = talk.codes(&text(1002));
    assert_eq!((codes.len(), &codes[1003..]), (1006, &[452, 452, 421][..]));
    assert_eq!((talk.total("recipients_excess"), talk.total("errors"), talk.total("error_limit")), (3002, 3002, 1));
}

/// As in Postfix: junk commands are errors beyond a limit, too many errors end the session, and a message clears both.
#[test]
fn junk_counts_as_errors_beyond_its_limit() {
    let profile = "[default]\njunk = 3\nerrors = 2";
    let mut talk = Talk::new(profile);
    assert_eq!(talk.codes("EHLO c|RSET|NOOP|RSET|RSET|"), [250; 5]);
    assert_eq!(talk.codes(MESSAGE), [250, 250, 354, 250]);
    assert_eq!(talk.codes("RSET|NOOP|RSET|RSET|"), [250; 4]);
    assert_eq!(talk.codes("RSET|NOOP|"), [250, 421], "the last reply is 421, after that to the command");
    assert_eq!(talk.total("error_limit"), 1);
}

#[test]
fn errors_end_a_session() {
    let mut talk = Talk::new("[default]\nerrors = 2");
    assert_eq!(talk.codes("EHLO c|WHAT|WHAT|NOOP|"), [250, 500, 500, 421]);
    // The last reply has the same delay as other negative replies.
    let replies = Talk::new("[default]\nerrors = 2\njunk = 0\ntarpit = \"1s\"").send(b"RSET\r\nRSET\r\n");
    let last = replies.last().unwrap();
    assert_eq!((last.0, last.1), (421, Duration::from_secs(1)));
}

#[test]
fn a_message_over_the_limit_of_size_is_refused_after_its_end() {
    let mut talk = Talk::new("[default]\nsize_limit = \"10B\"");
    assert_eq!(talk.codes("EHLO c|MAIL FROM:<>|RCPT TO:<a@y>|DATA|12345678|.|"), [250, 250, 250, 354, 250]);
    assert_eq!(talk.codes("MAIL FROM:<>|RCPT TO:<a@y>|DATA|123456789|.|"), [250, 250, 354, 552]);
    assert_eq!(talk.codes("MAIL FROM:<>|RCPT TO:<a@y>|BDAT 14|RSET||NOOP|BDAT 1 LAST|x"), [250, 250, 552, 503]);
    assert_eq!((talk.total("messages"), talk.total("messages_refused")), (1, 1));
}

/// The following bytes may be a chunk, so they must not be read as commands.
#[test]
fn a_refused_line_that_may_be_bdat_ends_the_session() {
    for line in ["BDAT\t6".to_owned(), " BDAT 6".to_owned(), format!("BDAT 6{}", " ".repeat(2000))] {
        let mut talk = Talk::new("");
        assert_eq!(talk.codes(&format!("EHLO c|{line}|NOOP|QUIT|")), [250, 500], "{line:?}");
        assert_eq!((talk.is_over, talk.total("bare_line_ends")), (true, 0), "{line:?}");
    }
}

/// RFC 3030 section 3: binary content has no lines, and is sent only with BDAT.
#[test]
fn binary_content_comes_by_bdat_and_has_no_lines() {
    let mut talk = Talk::new("");
    let begin = "MAIL FROM:<> BODY=BINARYMIME|RCPT TO:<a@y>|";
    assert_eq!(talk.codes(&format!("EHLO c|{begin}DATA|")), [250, 250, 250, 503]);
    assert_eq!(talk.codes(&format!("RSET|{begin}BDAT 3|")), [250, 250, 250]);
    assert_eq!(talk.send(b"\n\r\0BDAT 2 LAST\r\na\n").into_iter().map(|one| one.0).collect::<Vec<_>>(), [250, 250]);
    assert_eq!(["messages", "message_bytes", "bare_line_ends"].map(|name| talk.total(name)), [1, 5, 0]);
    // The next transaction is not binary.
    assert_eq!(talk.codes("MAIL FROM:<>|RCPT TO:<a@y>|"), [250, 250]);
    assert_eq!(talk.send(b"BDAT 2 LAST\r\na\n")[0].0, 550);
    assert_eq!((talk.total("messages"), talk.total("bare_line_ends")), (1, 1));
}

/// RFC 6531 section 3.5.
#[test]
fn a_recipient_beyond_ascii_needs_smtputf8() {
    let mut talk = Talk::new("");
    let rcpts = "RCPT TO:<\u{e9}@y>|RCPT TO:<b@y> ORCPT=utf-8;\u{e9}@y|RCPT TO:<a@y>|";
    assert_eq!(talk.codes(&format!("EHLO c|MAIL FROM:<>|{rcpts}")), [250, 250, 553, 553, 250]);
    assert_eq!(talk.codes(&format!("RSET|MAIL FROM:<> SMTPUTF8|{rcpts}")), [250, 250, 250, 250, 250]);
    // The permission of SMTPUTF8 ends with its transaction.
    assert_eq!(talk.codes(&format!("RSET|MAIL FROM:<>|{rcpts}")), [250, 250, 553, 553, 250]);
}

#[test]
fn latencies_are_those_of_each_command_and_of_the_seed() {
    let ms = Duration::from_millis;
    let each = "[default]\ntarpit = \"1s\"\nlatency = { hello = \"1ms\", mail = \"2ms\", rcpt = \"3ms\", \
        data = \"4ms\", message = \"5ms\", other = \"6ms\" }";
    let text = format!("EHLO c|{MESSAGE}NOOP|WHAT|").replace('|', "\r\n");
    let replies = Talk::new(each).send(text.as_bytes());
    let expected = [1, 2, 3, 4, 5, 6, 1006].map(ms);
    assert_eq!(replies.iter().map(|(_, delay)| *delay).collect::<Vec<_>>(), expected);
    let spread = "[default]\nlatency = \"exponential 1s\"";
    let first = Talk::seeded(spread, 1).send(text.as_bytes());
    assert_eq!(Talk::seeded(spread, 1).send(text.as_bytes()), first);
    assert_ne!(Talk::seeded(spread, 2).send(text.as_bytes()), first);
    let in_chunks = "EHLO c|MAIL FROM:<>|RCPT TO:<a@y>|BDAT 0|BDAT 0 LAST|".replace('|', "\r\n");
    let replies = Talk::new(each).send(in_chunks.as_bytes());
    assert_eq!(replies.iter().map(|(_, delay)| *delay).collect::<Vec<_>>(), [1, 2, 3, 5, 5].map(ms));
}

#[test]
fn recipients_are_refused_as_the_profile_says() {
    let profile = "[default]\npermanent = 0.0\n[domain.\"gone.example\"]\npermanent = 1.0\n\
        [domain.\"*.slow.example\"]\ntemporary = { share = 1.0, attempts = 1 }\n[domain.\"grey.example\"]\n\
        greylist = \"1h\"";
    let mut talk = Talk::new(profile);
    assert_eq!(
        talk.codes("EHLO c|MAIL FROM:<>|RCPT TO:<a@GONE.example>|RCPT TO:<a@x.slow.example>|"),
        [250, 250, talk_code(profile, "a@gone.example"), talk_code(profile, "a@x.slow.example")]
    );
    assert_eq!(
        talk.codes("RCPT TO:<a@x.slow.example>|RCPT TO:<a@grey.example>|RCPT TO:<a@other.example>|"),
        [250, 450, 250]
    );
    let counts = ["recipients", "recipients_refused", "recipients_deferred", "recipients_greylisted"];
    assert_eq!(counts.map(|name| talk.total(name)), [2, 1, 1, 1]);
}

/// Returns the reply code for a recipient in a separate session.
fn talk_code(profile: &str, recipient: &str) -> u16 {
    let codes = Talk::new(profile).codes(&format!("EHLO c|MAIL FROM:<>|RCPT TO:<{recipient}>|"));
    assert!(codes[2] >= 450, "{codes:?}");
    codes[2]
}
