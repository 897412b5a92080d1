//! Commands (RFC 5321 section 4.1.1): written by a client, parsed by a server from the lines that [`super::line`]
//! finds.
//!
//! The parser is strict: it accepts only the grammar of the RFCs, with two exceptions. Blanks at the end of a line are
//! ignored, as RFC 5321 section 4.1.1 requests, and the name in EHLO may have underscores. Extensions that the server
//! did not offer in its response to EHLO are rejected. The server must check the order of commands.

use super::address::{Host, Recipient, ReversePath};
use super::bytes::strip_prefix_ignoring_case;
use super::capabilities::{Extension, Extensions};
use super::code::Code;
use super::parameter::{Body, ENVID_BYTES, Notify, OriginalRecipient, Parameters, Ret, Text, Xtext};
use super::reject::Reject;
use crate::decimal::{decimal, write_decimal};
use memchr::memchr;

/// The verb of the command that precedes a chunk.
const BDAT: &[u8] = b"BDAT";

/// A command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Command<'a> {
    /// `EHLO`, with the client's name or address.
    Ehlo(Host<'a>),
    /// `HELO`, with the client's name or address.
    Helo(Host<'a>),
    /// `LHLO` of LMTP (RFC 2033), with the client's name or address. An SMTP server responds with 500.
    Lhlo(Host<'a>),
    /// `MAIL`
    Mail(Mail<'a>),
    /// `RCPT`
    Rcpt(Rcpt<'a>),
    /// `DATA`
    Data,
    /// `BDAT` (RFC 3030): a chunk of `size` bytes follows the line.
    Bdat {
        /// The length of the chunk in bytes.
        size: u64,
        /// Whether it is the last chunk.
        is_last: bool,
    },
    /// `RSET`
    Rset,
    /// `NOOP`, with text that is ignored.
    Noop(Option<Text<'a>>),
    /// `QUIT`
    Quit,
    /// `VRFY`, with a user or mailbox.
    Vrfy(Text<'a>),
    /// `EXPN`, with a mailing list.
    Expn(Text<'a>),
    /// `HELP`, with a subject.
    Help(Option<Text<'a>>),
    /// `STARTTLS` (RFC 3207). The server discards everything that it received after this line, because it was not
    /// encrypted (CVE-2011-0411).
    StartTls,
}

/// The arguments of MAIL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mail<'a> {
    /// The sender.
    pub from: ReversePath<'a>,
    /// `SIZE=`: the length of the message in bytes, as estimated by the client (RFC 1870 section 6). A number too large
    /// for the type becomes the maximum.
    pub size: Option<u64>,
    /// `BODY=`: the permitted contents of the message.
    pub body: Option<Body>,
    /// `SMTPUTF8`: whether addresses and header may have characters beyond ASCII (RFC 6531).
    pub is_utf8: bool,
    /// `RET=`: how much of the message a notification returns.
    pub ret: Option<Ret>,
    /// `ENVID=`: the sender's identifier of the message, at most [`ENVID_BYTES`] long.
    pub envid: Option<Xtext<'a>>,
}

impl<'a> Mail<'a> {
    /// Returns the command without parameters.
    pub const fn new(from: ReversePath<'a>) -> Mail<'a> {
        Mail { from, size: None, body: None, is_utf8: false, ret: None, envid: None }
    }
}

/// The arguments of RCPT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rcpt<'a> {
    /// The recipient's path.
    pub to: Recipient<'a>,
    /// `NOTIFY=`: when the sender wants to be notified.
    pub notify: Option<Notify>,
    /// `ORCPT=`: the recipient that the sender gave.
    pub orcpt: Option<OriginalRecipient<'a>>,
}

impl<'a> Rcpt<'a> {
    /// Returns the command without parameters.
    pub const fn new(to: Recipient<'a>) -> Rcpt<'a> {
        Rcpt { to, notify: None, orcpt: None }
    }
}

impl Command<'_> {
    /// Appends the command with its line end. Several commands in one buffer are pipelined (RFC 2920); of these, only
    /// the last may be EHLO, DATA, VRFY, EXPN, QUIT, NOOP or STARTTLS.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Command::Ehlo(host) => write_words(out, b"EHLO ", Some(host.as_str())),
            Command::Helo(host) => write_words(out, b"HELO ", Some(host.as_str())),
            Command::Lhlo(host) => write_words(out, b"LHLO ", Some(host.as_str())),
            Command::Mail(mail) => mail.write(out),
            Command::Rcpt(rcpt) => rcpt.write(out),
            Command::Data => out.extend_from_slice(b"DATA"),
            Command::Bdat { size, is_last } => {
                out.extend_from_slice(b"BDAT ");
                write_decimal(*size, out);
                out.extend_from_slice(if *is_last { b" LAST" } else { b"" });
            }
            Command::Rset => out.extend_from_slice(b"RSET"),
            Command::Noop(text) => write_words(out, b"NOOP ", text.map(|text| text.as_str())),
            Command::Quit => out.extend_from_slice(b"QUIT"),
            Command::Vrfy(text) => write_words(out, b"VRFY ", Some(text.as_str())),
            Command::Expn(text) => write_words(out, b"EXPN ", Some(text.as_str())),
            Command::Help(text) => write_words(out, b"HELP ", text.map(|text| text.as_str())),
            Command::StartTls => out.extend_from_slice(b"STARTTLS"),
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// Appends a verb that ends with a space, and its argument. Without an argument, it appends only the verb.
fn write_words(out: &mut Vec<u8>, verb: &[u8], argument: Option<&str>) {
    out.extend_from_slice(verb);
    match argument {
        Some(argument) => out.extend_from_slice(argument.as_bytes()),
        None => out.truncate(out.len() - 1),
    }
}

impl Mail<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"MAIL FROM:");
        self.from.write(out);
        if let Some(size) = self.size {
            out.extend_from_slice(b" SIZE=");
            write_decimal(size, out);
        }
        for (name, value) in [
            (&b" BODY="[..], self.body.map(Body::as_str)),
            (b" SMTPUTF8", self.is_utf8.then_some("")),
            (b" RET=", self.ret.map(Ret::as_str)),
            (b" ENVID=", self.envid.map(|envid| envid.as_str())),
        ] {
            if let Some(value) = value {
                out.extend_from_slice(name);
                out.extend_from_slice(value.as_bytes());
            }
        }
    }
}

impl Rcpt<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"RCPT TO:");
        self.to.write(out);
        if let Some(notify) = self.notify {
            out.extend_from_slice(b" NOTIFY=");
            notify.write(out);
        }
        if let Some(orcpt) = self.orcpt {
            out.extend_from_slice(b" ORCPT=");
            out.extend_from_slice(orcpt.as_str().as_bytes());
        }
    }
}

/// Parses a line without its end. `offered` are the extensions in the server's response to EHLO; none after HELO.
#[inline]
pub fn parse(line: &[u8], offered: Extensions) -> Result<Command<'_>, Reject> {
    // A chunk may follow a rejected line, and must not be read as commands.
    parse_line(line, offered).map_err(|reject| if may_be_bdat(line) { reject.closing() } else { reject })
}

/// Returns whether a program in front of this server may read a line as BDAT, and the bytes after it as a chunk. Some
/// programs skip blanks and control bytes.
#[cold]
fn may_be_bdat(line: &[u8]) -> bool {
    let visible = line.iter().filter(|b| b.is_ascii_graphic()).take(BDAT.len());
    visible.map(u8::to_ascii_uppercase).eq(BDAT.iter().copied())
}

/// Returns whether a line with this start may become one of [`may_be_bdat`].
#[cold]
pub(super) fn may_become_bdat(start: &[u8]) -> bool {
    let visible = start.iter().filter(|b| b.is_ascii_graphic());
    visible.zip(BDAT).all(|(own, byte)| own.eq_ignore_ascii_case(byte))
}

#[inline]
fn parse_line(line: &[u8], offered: Extensions) -> Result<Command<'_>, Reject> {
    let end = line.iter().rposition(|&b| b != b' ' && b != b'\t').map_or(0, |last| last + 1);
    let line = &line[..end];
    if line.iter().any(u8::is_ascii_control) {
        return Err(Reject::syntax("control byte in a command line"));
    }
    let (verb, argument) = match memchr(b' ', line) {
        Some(at) => (&line[..at], Some(&line[at + 1..])),
        None => (line, None),
    };
    let mut upper = [0; 8];
    let Some(upper) = upper.get_mut(..verb.len()) else { return Err(Reject::UNKNOWN_COMMAND) };
    upper.copy_from_slice(verb);
    upper.make_ascii_uppercase();
    match (&*upper, argument) {
        (b"MAIL", Some(argument)) => mail(argument, offered).map(Command::Mail),
        (b"RCPT", Some(argument)) => rcpt(argument, offered).map(Command::Rcpt),
        (b"EHLO", Some(argument)) => client(argument).map(Command::Ehlo),
        (b"HELO", Some(argument)) => client(argument).map(Command::Helo),
        (b"LHLO", Some(argument)) => client(argument).map(Command::Lhlo),
        (b"DATA", None) => Ok(Command::Data),
        (b"RSET", None) => Ok(Command::Rset),
        (b"QUIT", None) => Ok(Command::Quit),
        (b"NOOP", argument) => argument.map(Text::parse).transpose().map(Command::Noop),
        (b"HELP", argument) => argument.map(Text::parse).transpose().map(Command::Help),
        (b"VRFY", Some(argument)) => Text::parse(argument).map(Command::Vrfy),
        (b"EXPN", Some(argument)) => Text::parse(argument).map(Command::Expn),
        (b"BDAT", _) if !offered.has(Extension::Chunking) => Err(Reject::NOT_OFFERED),
        (b"BDAT", argument) => bdat(argument.unwrap_or_default()).ok_or(Reject::argument("malformed BDAT")),
        (b"STARTTLS", _) if !offered.has(Extension::StartTls) => Err(Reject::NOT_OFFERED),
        (b"STARTTLS", None) => Ok(Command::StartTls),
        (b"DATA" | b"RSET" | b"QUIT" | b"STARTTLS", Some(_)) => Err(Reject::argument("argument where none is allowed")),
        (b"MAIL" | b"RCPT" | b"EHLO" | b"HELO" | b"LHLO" | b"VRFY" | b"EXPN", None) => {
            Err(Reject::argument("argument missing"))
        }
        (b"", _) => Err(Reject::syntax("line without a command")),
        // A browser that a web page directed here (cross-protocol scripting).
        (b"GET" | b"POST" | b"PUT" | b"CONNECT", _) => Err(Reject::UNKNOWN_COMMAND.closing()),
        _ => Err(Reject::UNKNOWN_COMMAND),
    }
}

fn client(argument: &[u8]) -> Result<Host<'_>, Reject> {
    Host::parse_client(argument).map_err(|_| Reject::argument("neither a domain nor an address literal"))
}

/// Parses the argument of BDAT (RFC 3030 section 2).
fn bdat<'a>(argument: &[u8]) -> Option<Command<'a>> {
    let (size, is_last) = match memchr(b' ', argument) {
        Some(at) => (&argument[..at], argument[at + 1..].eq_ignore_ascii_case(b"LAST").then_some(true)?),
        None => (argument, false),
    };
    Some(Command::Bdat { size: decimal(size)?, is_last })
}

/// Parses the argument of MAIL (RFC 5321 section 4.1.1.2).
fn mail(argument: &[u8], offered: Extensions) -> Result<Mail<'_>, Reject> {
    let path = strip_prefix_ignoring_case(argument, b"FROM:").ok_or(Reject::argument("no FROM: after MAIL"))?;
    let (from, len) = ReversePath::parse(path).map_err(|error| Reject::new(Code::BAD_ARGUMENT, (5, 1, 7), error.0))?;
    let mut mail = Mail::new(from);
    for parameter in Parameters::new(&path[len..]) {
        let (keyword, value) = parameter?;
        mail.parameter(keyword, value, offered)?;
    }
    if mail.from.needs_utf8() && !mail.is_utf8 {
        return Err(Reject::SENDER_NEEDS_UTF8);
    }
    Ok(mail)
}

impl<'a> Mail<'a> {
    fn parameter(&mut self, keyword: &[u8], value: Option<&'a str>, offered: Extensions) -> Result<(), Reject> {
        let is = |name: &str, extension| keyword.eq_ignore_ascii_case(name.as_bytes()) && offered.has(extension);
        if is("SIZE", Extension::Size) {
            let size = value.filter(|value| value.len() <= 20 && value.bytes().all(|b| b.is_ascii_digit()));
            let size = size.ok_or(Reject::argument("malformed SIZE"))?;
            once(&mut self.size, decimal(size.as_bytes()).unwrap_or(u64::MAX))
        } else if is("BODY", Extension::EightBitMime) {
            once(&mut self.body, body(value, offered)?)
        } else if is("SMTPUTF8", Extension::SmtpUtf8) {
            if value.is_some() || self.is_utf8 {
                return Err(Reject::argument("malformed or repeated SMTPUTF8"));
            }
            self.is_utf8 = true;
            Ok(())
        } else if is("RET", Extension::Dsn) {
            once(&mut self.ret, value.and_then(Ret::parse).ok_or(Reject::argument("malformed RET"))?)
        } else if is("ENVID", Extension::Dsn) {
            let envid = value.filter(|value| value.len() <= ENVID_BYTES).and_then(Xtext::new);
            once(&mut self.envid, envid.ok_or(Reject::argument("malformed ENVID"))?)
        } else {
            Err(Reject::UNKNOWN_PARAMETER)
        }
    }
}

fn body(value: Option<&str>, offered: Extensions) -> Result<Body, Reject> {
    let value = value.ok_or(Reject::argument("malformed BODY"))?;
    let offers_binary = offered.has(Extension::BinaryMime) && offered.has(Extension::Chunking);
    let values = [Body::SevenBit, Body::EightBitMime, Body::BinaryMime];
    let known = values.into_iter().find(|body| value.eq_ignore_ascii_case(body.as_str()));
    known.filter(|body| *body != Body::BinaryMime || offers_binary).ok_or(Reject::new(
        Code::BAD_PARAMETER,
        (5, 5, 4),
        "value of BODY unknown or not offered",
    ))
}

/// Parses the argument of RCPT (RFC 5321 section 4.1.1.3).
fn rcpt(argument: &[u8], offered: Extensions) -> Result<Rcpt<'_>, Reject> {
    let path = strip_prefix_ignoring_case(argument, b"TO:").ok_or(Reject::argument("no TO: after RCPT"))?;
    let (to, len) = Recipient::parse(path).map_err(|error| Reject::new(Code::BAD_ARGUMENT, (5, 1, 3), error.0))?;
    let mut rcpt = Rcpt::new(to);
    for parameter in Parameters::new(&path[len..]) {
        let (keyword, value) = parameter?;
        let is = |name: &str| keyword.eq_ignore_ascii_case(name.as_bytes()) && offered.has(Extension::Dsn);
        if is("NOTIFY") {
            let notify = value.and_then(|value| Notify::parse(value.as_bytes()));
            once(&mut rcpt.notify, notify.ok_or(Reject::argument("malformed NOTIFY"))?)?;
        } else if is("ORCPT") {
            let orcpt = value.and_then(OriginalRecipient::new);
            once(&mut rcpt.orcpt, orcpt.ok_or(Reject::argument("malformed ORCPT"))?)?;
        } else {
            return Err(Reject::UNKNOWN_PARAMETER);
        }
    }
    if rcpt.to.needs_utf8() && !offered.has(Extension::SmtpUtf8) {
        return Err(Reject::RECIPIENT_NEEDS_UTF8);
    }
    Ok(rcpt)
}

/// Stores the value of a parameter, unless there already is one.
fn once<T>(place: &mut Option<T>, value: T) -> Result<(), Reject> {
    if place.is_some() {
        return Err(Reject::argument("repeated parameter"));
    }
    *place = Some(value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smtp::{Mailbox, Recovery};

    const EVERY: Extensions = Extensions::of(Extension::ALL);

    fn written(command: &Command<'_>) -> String {
        let mut out = Vec::new();
        command.write(&mut out);
        String::from_utf8(out).unwrap()
    }

    /// Returns the command in a line, as a client writes it.
    fn canonical(line: &str) -> String {
        let command = parse(line.as_bytes(), EVERY).unwrap_or_else(|reject| panic!("{line}: {reject:?}"));
        let text = written(&command);
        let line = text.strip_suffix("\r\n").unwrap();
        assert_eq!(parse(line.as_bytes(), EVERY), Ok(command), "{line}");
        line.to_owned()
    }

    fn codes(line: &[u8], offered: Extensions) -> (u16, String, Recovery) {
        let reject = parse(line, offered).expect_err(&line.escape_ascii().to_string());
        (reject.code.number(), reject.enhanced.to_string(), reject.recovery)
    }

    #[test]
    fn commands_are_read_in_any_case_and_written_in_one() {
        for (line, expected) in [
            ("ehlo X.example", "EHLO X.example"),
            ("EHLO [192.0.2.1]", "EHLO [192.0.2.1]"),
            ("HELO my_host", "HELO my_host"),
            ("LHLO x", "LHLO x"),
            ("mail from:<>", "MAIL FROM:<>"),
            ("MAIL FROM:<@r:a@B>", "MAIL FROM:<a@B>"),
            ("MAIL FROM:<a@b> size=10 Body=8bitmime SmtpUtf8", "MAIL FROM:<a@b> SIZE=10 BODY=8BITMIME SMTPUTF8"),
            ("MAIL FROM:<\u{e9}@b> SMTPUTF8", "MAIL FROM:<\u{e9}@b> SMTPUTF8"),
            ("MAIL FROM:<a@b> ENVID=x+2B1 RET=hdrs", "MAIL FROM:<a@b> RET=HDRS ENVID=x+2B1"),
            ("MAIL FROM:<a@b> BODY=BINARYMIME RET=FULL", "MAIL FROM:<a@b> BODY=BINARYMIME RET=FULL"),
            ("MAIL FROM:<a@b> SIZE=99999999999999999999", "MAIL FROM:<a@b> SIZE=18446744073709551615"),
            ("MAIL FROM:<\"a> SIZE=1\"@b>", "MAIL FROM:<\"a> SIZE=1\"@b>"),
            ("Rcpt To:<POSTMASTER>", "RCPT TO:<Postmaster>"),
            (
                "RCPT TO:<a@b> ORCPT=rfc822;a@b NOTIFY=delay,SUCCESS",
                "RCPT TO:<a@b> NOTIFY=SUCCESS,DELAY ORCPT=rfc822;a@b",
            ),
            ("RCPT TO:<a@b> notify=never", "RCPT TO:<a@b> NOTIFY=NEVER"),
            ("DATA", "DATA"),
            ("data \t ", "DATA"),
            ("bdat 0", "BDAT 0"),
            ("BDAT 18446744073709551615 last", "BDAT 18446744073709551615 LAST"),
            ("rset", "RSET"),
            ("NOOP", "NOOP"),
            ("NOOP a  b ", "NOOP a  b"),
            ("quit", "QUIT"),
            ("VRFY a", "VRFY a"),
            ("EXPN list", "EXPN list"),
            ("HELP", "HELP"),
            ("HELP mail", "HELP mail"),
            ("starttls", "STARTTLS"),
        ] {
            assert_eq!(canonical(line), expected);
        }
    }

    #[test]
    fn each_error_has_its_reply() {
        let long = format!("MAIL FROM:<a@b> ENVID={}", "x".repeat(101));
        for (code, enhanced, lines) in [
            (500, "5.5.2", "|  | NOOP|NOOP a\0|NO\0OP|NOOP \u{7f}|RSET\tx|MAIL\tFROM:<a@b>"),
            (500, "5.5.1", "FOO|NOO|NOOPX|DATA\u{e9}|AUTHENTICATE x|STARTTLSX|AUTH PLAIN x|ETRN x"),
            (501, "5.5.4", "EHLO|HELO|LHLO |EHLO a b|EHLO [1.2.3]|EHLO -a|EHLO a..b|HELO (x)"),
            (501, "5.5.4", "DATA x|RSET x|QUIT now|STARTTLS x|VRFY|EXPN|MAIL|RCPT|NOOP  a"),
            (
                501,
                "5.5.4",
                "MAIL <a@b>|MAIL FROM <a@b>|MAIL FROM :<a@b>|MAIL  FROM:<a@b>|MAIL TO:<a@b>|RCPT FROM:<a@b>",
            ),
            (501, "5.1.7", "MAIL FROM:|MAIL FROM: <a@b>|MAIL FROM:a@b|MAIL FROM:<a>|MAIL FROM:<a@b|MAIL FROM:<a@b@c>"),
            (501, "5.1.3", "RCPT TO:|RCPT TO: <a@b>|RCPT TO:a@b|RCPT TO:<>|RCPT TO:<a@b.>|RCPT TO:<a b@c>"),
            (501, "5.5.4", "MAIL FROM:<a@b>SIZE=1|MAIL FROM:<a@b>  SIZE=1|MAIL FROM:<a@b> -X=1|MAIL FROM:<a@b> X=a=b"),
            (501, "5.5.4", "MAIL FROM:<a@b> SIZE|MAIL FROM:<a@b> SIZE=|MAIL FROM:<a@b> SIZE=-1|MAIL FROM:<a@b> SIZE=x"),
            (501, "5.5.4", "MAIL FROM:<a@b> SIZE=1 SIZE=1|MAIL FROM:<a@b> SIZE=111111111111111111111"),
            (501, "5.5.4", "MAIL FROM:<a@b> SMTPUTF8=1|MAIL FROM:<a@b> SMTPUTF8 SMTPUTF8|MAIL FROM:<a@b> BODY"),
            (501, "5.5.4", "MAIL FROM:<a@b> RET=X|MAIL FROM:<a@b> ENVID=+"),
            (501, "5.5.4", &long),
            (501, "5.5.4", "RCPT TO:<a@b> NOTIFY|RCPT TO:<a@b> NOTIFY=X|RCPT TO:<a@b> NOTIFY=NEVER NOTIFY=NEVER"),
            (501, "5.5.4", "RCPT TO:<a@b> ORCPT=a@b"),
            (504, "5.5.4", "MAIL FROM:<a@b> BODY=9BIT"),
            (550, "5.6.7", "MAIL FROM:<\u{e9}@b>|MAIL FROM:<a@\u{e9}> SIZE=1"),
            (555, "5.5.4", "MAIL FROM:<a@b> AUTH=<>|MAIL FROM:<a@b> X-Y|MAIL FROM:<a@b> NOTIFY=NEVER"),
            (555, "5.5.4", "RCPT TO:<a@b> SIZE=1|RCPT TO:<a@b> X=1"),
        ] {
            for line in lines.split('|') {
                assert_eq!(codes(line.as_bytes(), EVERY), (code, enhanced.to_owned(), Recovery::NextLine), "{line:?}");
            }
        }
    }

    #[test]
    fn after_these_errors_the_next_command_is_unknown() {
        let chunks = "BDAT|BDAT x|BDAT -1|BDAT +1|BDAT 0x1|BDAT 1 LASTX|BDAT 1  LAST|BDAT 1 LAST x|BDAT  1";
        for line in chunks.split('|').chain(["BDAT 18446744073709551616"]) {
            assert_eq!(codes(line.as_bytes(), EVERY), (501, "5.5.4".to_owned(), Recovery::Close), "{line}");
        }
        assert_eq!(codes(b"BDAT 1", Extensions::NONE), (502, "5.5.1".to_owned(), Recovery::Close));
        for (code, enhanced, lines) in [
            (500, "5.5.2", "BDAT\t3|bdat\t3 last|BDAT\u{b}3|BDAT\0 3| BDAT 3|  Bdat 3"),
            (500, "5.5.2", "\tBDAT 3|\0BDAT 3|B\0DAT 3|BDAT 3\0"),
            (500, "5.5.1", "BDAT3|BDATX 3|BDAT\u{a0}3|BDAT:3 LAST|\u{feff}BDAT 3"),
        ] {
            for line in lines.split('|') {
                let expected = (code, enhanced.to_owned(), Recovery::Close);
                assert_eq!(codes(line.as_bytes(), EVERY), expected, "{}", line.escape_default());
            }
        }
        for line in ["GET / HTTP/1.1", "post / HTTP/1.1", "CONNECT a:25 HTTP/1.1", "PUT /"] {
            assert_eq!(codes(line.as_bytes(), EVERY), (500, "5.5.1".to_owned(), Recovery::Close), "{line}");
        }
    }

    #[test]
    fn what_is_not_offered_is_refused() {
        let without = |extension| EVERY.without(extension);
        for (line, offered, code) in [
            ("MAIL FROM:<a@b> SIZE=1", without(Extension::Size), 555),
            ("MAIL FROM:<a@b> BODY=7BIT", without(Extension::EightBitMime), 555),
            ("MAIL FROM:<a@b> BODY=BINARYMIME", without(Extension::BinaryMime), 504),
            ("MAIL FROM:<a@b> BODY=BINARYMIME", without(Extension::Chunking), 504),
            ("MAIL FROM:<a@b> SMTPUTF8", without(Extension::SmtpUtf8), 555),
            ("MAIL FROM:<a@b> RET=FULL", without(Extension::Dsn), 555),
            ("MAIL FROM:<a@b> ENVID=a", without(Extension::Dsn), 555),
            ("RCPT TO:<a@b> NOTIFY=NEVER", without(Extension::Dsn), 555),
            ("RCPT TO:<a@b> ORCPT=a;b", without(Extension::Dsn), 555),
            ("RCPT TO:<\u{e9}@b>", without(Extension::SmtpUtf8), 553),
            ("STARTTLS", without(Extension::StartTls), 502),
        ] {
            assert!(parse(line.as_bytes(), EVERY).is_ok(), "{line}");
            assert_eq!(codes(line.as_bytes(), offered).0, code, "{line}");
        }
    }

    #[test]
    fn commands_are_pipelined_into_one_buffer() {
        let from = ReversePath::Mailbox(Mailbox::parse(b"a@b").unwrap());
        let to = Recipient::Mailbox(Mailbox::parse(b"c@d").unwrap());
        let mut out = Vec::new();
        for command in [
            Command::Mail(Mail { size: Some(5), ..Mail::new(from) }),
            Command::Rcpt(Rcpt::new(to)),
            Command::Bdat { size: 0, is_last: true },
        ] {
            command.write(&mut out);
        }
        assert_eq!(out, b"MAIL FROM:<a@b> SIZE=5\r\nRCPT TO:<c@d>\r\nBDAT 0 LAST\r\n");
        let mut reply = Vec::new();
        Reject::TOO_LARGE.write(&mut reply);
        assert_eq!(reply, b"552 5.3.4 message too large\r\n");
    }
}
