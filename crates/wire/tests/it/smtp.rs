//! SMTP: nothing can be smuggled, every split of the bytes has the same result, and written data is read back.

use crate::server::Server;
use crate::smuggling::{Attempt, PROLOGUE, attempts};
use landau_wire::smtp::command::{Mail, Rcpt};
use landau_wire::smtp::data::{Decoder, Encoder, Shape, Transfer};
use landau_wire::smtp::line::{LINE_BYTES, Scan, Step};
use landau_wire::smtp::parameter::{Body, Notify, OriginalRecipient, Ret, Text, Xtext};
use landau_wire::smtp::reply::{self, Malformed, Parsed};
use landau_wire::smtp::{
    Code, Command, Enhanced, Extension, Extensions, Host, Mailbox, Recipient, Recovery, ReversePath, command,
};
use proptest::prelude::*;

const EVERY: Extensions = Extensions::of(Extension::ALL);

#[test]
fn nothing_is_smuggled_at_any_split() {
    let attempts = attempts();
    assert!(attempts.len() >= 100, "{}", attempts.len());
    for Attempt { name, answer, bytes } in attempts {
        let bytes = [PROLOGUE, &bytes].concat();
        for size in 1..=bytes.len() {
            let mut found = Server::answer(&bytes, size);
            assert_eq!(found.codes.drain(..3).collect::<Vec<_>>(), [250; 3], "{name} by {size}");
            assert_eq!(found, answer, "{name} by {size}");
        }
    }
}

#[test]
fn names_of_attempts_are_unique() {
    let mut names: Vec<&str> = attempts().iter().map(|attempt| attempt.name).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
}

/// Pieces with a meaning, most of them in nearly valid lines.
fn pieces(of: &'static [&'static [u8]]) -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(of).prop_map(<[u8]>::to_vec);
    let noise = prop::collection::vec(any::<u8>(), 0..4);
    prop::collection::vec(prop_oneof![30 => piece, 1 => noise], 0..24).prop_map(|pieces| pieces.concat())
}

const REPLIES: &[&[u8]] = &[
    b"250 OK\r\n",
    b"250-a\r\n",
    b"250-2.1.0 a\r\n",
    b"250 2.1.0 b\r\n",
    b"251 x\r\n",
    b"250\r\n",
    b"250-b\n",
    b"199 x\r\n",
    b"250",
    b"-",
    b" ",
    b"\r",
    b"\n",
    b"\r\n",
    b"text",
    b"421 4.7.0 closing\r\n",
];

const COMMANDS: &[&[u8]] = &[
    b"EHLO x\r\n",
    b"MAIL FROM:<a@b> SIZE=1\r\n",
    b"RCPT TO:<c@d>\r\n",
    b"DATA\r\n",
    b"BDAT 3 LAST\r\n",
    b"NOOP ",
    b"NOOP\n",
    b"\r\n",
    b"\r",
    b"\n",
    b"\0",
    b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    &[b'b'; 900],
    b"QUIT\r\n",
];

const CONTENT: &[&[u8]] =
    &[b"\r\n.\r\n", b".\r\n", b"\r\n", b"\r", b"\n", b".", b"..", b"\0", b"text", b"\xc3\xa9", b"\r\n.", b".\r"];

const TEXT: &[&[u8]] = &[b"\n", b"\r\n", b".", b"a", b"\xff"];

/// Returns the pieces of the bytes between these cuts.
fn cut<'a>(bytes: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).chain([0, bytes.len()]).collect();
    places.sort_unstable();
    places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

/// Returns each line or rejection code with its end, if the bytes arrive in these pieces.
fn lines(pieces: &[&[u8]]) -> Vec<(Result<Vec<u8>, u16>, usize)> {
    let (mut scan, mut buffer, mut done, mut found) = (Scan::default(), Vec::new(), 0, Vec::new());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            let consumed = match scan.next(&buffer) {
                Step::Incomplete => break,
                Step::Skip { consumed } => consumed,
                Step::Line { line, consumed } => {
                    found.push((Ok(line.to_vec()), done + consumed));
                    consumed
                }
                Step::Reject { reject, consumed } => {
                    found.push((Err(reject.code.number()), done + consumed));
                    if reject.recovery == Recovery::Close {
                        return found;
                    }
                    consumed
                }
            };
            assert!(consumed > 0);
            done += consumed;
            buffer.drain(..consumed);
        }
        assert!(buffer.len() <= LINE_BYTES);
    }
    found
}

/// Returns the decoded content, the bytes it took, whether it ended, and its properties.
fn decoded(pieces: &[&[u8]]) -> (Vec<u8>, usize, bool, Shape) {
    let (mut decoder, mut content, mut taken) = (Decoder::new(), Vec::new(), 0);
    for piece in pieces {
        let (consumed, is_end) = decoder.decode(piece, |run| content.extend_from_slice(run));
        taken += consumed;
        if is_end {
            return (content, taken, true, decoder.shape());
        }
        assert_eq!(consumed, piece.len());
    }
    (content, taken, false, decoder.shape())
}

/// Returns the content by definition: whole lines end at CR LF, the first dot of each is removed, and a single dot ends
/// the content.
fn defined(bytes: &[u8]) -> (Vec<u8>, Option<usize>) {
    let (mut content, mut at) = (Vec::new(), 0);
    while let Some(len) = bytes[at..].windows(2).position(|two| two == b"\r\n") {
        let line = &bytes[at..at + len + 2];
        at += line.len();
        if line == b".\r\n" {
            return (content, Some(at));
        }
        content.extend_from_slice(line.strip_prefix(b".").unwrap_or(line));
    }
    (content, None)
}

/// Commands of every kind, from their parts.
fn commands() -> impl Strategy<Value = Vec<u8>> {
    let address = prop::sample::select(&["a@b", "\"a> b\"@[IPv6:::1]", "x.y@z-1.example", "\u{e9}@\u{e9}"][..]);
    let size = prop::option::of(any::<u64>());
    let choice = 0..4usize;
    (0..10usize, address, size, choice.clone(), choice, any::<[bool; 4]>()).prop_map(
        |(verb, address, size, one, other, flags)| {
            let mailbox = Mailbox::parse(address.as_bytes()).expect("an address");
            let host = Host::parse(b"[192.0.2.1]").expect("a host");
            let text = Text::new("some text").expect("a text");
            let is_utf8 = flags[0] || mailbox.needs_utf8();
            let from = if flags[1] { ReversePath::Null } else { ReversePath::Mailbox(mailbox) };
            let body = [None, Some(Body::SevenBit), Some(Body::EightBitMime), Some(Body::BinaryMime)][one];
            let ret = [None, Some(Ret::Full), Some(Ret::Headers), None][other];
            let mail = Mail { from, size, body, is_utf8, ret, envid: Xtext::new("a+2B").filter(|_| flags[2]) };
            let to = if flags[1] { Recipient::Postmaster } else { Recipient::Mailbox(mailbox) };
            let notify = Notify { success: flags[0], failure: flags[2], delay: flags[3] };
            let orcpt = OriginalRecipient::new("utf-8;\u{e9}@x").filter(|_| one == 0);
            let rcpt = Rcpt { to, notify: Some(notify).filter(|_| other == 0), orcpt };
            let command = match verb {
                0 => Command::Ehlo(host),
                1..=3 => Command::Mail(mail),
                4..=6 => Command::Rcpt(rcpt),
                7 => Command::Bdat { size: size.unwrap_or_default(), is_last: flags[3] },
                8 => Command::Vrfy(text),
                _ => [Command::Data, Command::Quit, Command::Noop(Some(text)), Command::Noop(None)][one],
            };
            let mut out = Vec::new();
            command.write(&mut out);
            let line = out.strip_suffix(b"\r\n").expect("a line");
            assert!(line.len() + 2 <= LINE_BYTES && !line.contains(&b'\n'));
            assert_eq!(command::parse(line, EVERY), Ok(command), "{}", line.escape_ascii());
            out
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn replies_read_alike_at_every_split(bytes in pieces(REPLIES)) {
        let whole = reply::parse(&bytes);
        let mut scan = reply::Scan::default();
        let mut by_byte = (0..=bytes.len()).map(|len| scan.parse(&bytes[..len]));
        let by_byte = by_byte.find(|result| *result != Ok(Parsed::Incomplete)).unwrap_or(Ok(Parsed::Incomplete));
        prop_assert_eq!(by_byte, whole);
        if let Ok(Parsed::Complete { reply, consumed }) = whole {
            prop_assert_eq!(reply.as_bytes(), &bytes[..consumed]);
            let newlines = memchr::memchr_iter(b'\n', &bytes[..consumed]).count();
            prop_assert_eq!(reply.lines().count(), newlines);
        }
    }

    #[test]
    fn written_replies_are_read_back(
        number in 200..600u16,
        texts in prop::collection::vec("[ -~\u{e9}]{0,600}", 1..4),
        enhanced in prop::option::of((prop::sample::select(&[2u8, 4, 5][..]), 0..1000u16, 0..1000u16)),
    ) {
        let enhanced = enhanced.and_then(|(class, subject, detail)| Enhanced::new(class, subject, detail));
        let code = Code::new(number).expect("a code");
        let mut out = Vec::new();
        reply::write(&mut out, code, enhanced, texts.iter().map(String::as_str));
        let parsed = reply::parse(&out);
        let Ok(Parsed::Complete { reply, consumed }) = parsed else { panic!("{parsed:?}") };
        prop_assert_eq!((reply.code(), consumed), (code, out.len()));
        let mut lines = Vec::new();
        for line in reply.lines() {
            let text = match enhanced {
                Some(enhanced) => Enhanced::parse(line).filter(|(own, _)| *own == enhanced).map(|(_, text)| text),
                None => Some(line),
            };
            lines.extend_from_slice(text.expect("the code"));
        }
        prop_assert_eq!(lines, texts.concat().into_bytes());
    }

    #[test]
    fn lines_are_found_alike_at_every_split(
        bytes in pieces(COMMANDS),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let whole = lines(&[&bytes]);
        let by_byte: Vec<&[u8]> = bytes.chunks(1).collect();
        prop_assert_eq!(&lines(&by_byte), &whole);
        prop_assert_eq!(&lines(&cut(&bytes, &cuts)), &whole);
        for line in whole.iter().filter_map(|(line, _)| line.as_ref().ok()) {
            prop_assert!(line.len() + 2 <= LINE_BYTES && !line.contains(&b'\r') && !line.contains(&b'\n'));
            if let Ok(command) = command::parse(line, EVERY) {
                let mut out = Vec::new();
                command.write(&mut out);
                prop_assert_eq!(command::parse(&out[..out.len() - 2], EVERY), Ok(command));
            }
        }
    }

    #[test]
    fn pipelined_commands_are_found_in_order(commands in prop::collection::vec(commands(), 0..6)) {
        let found = lines(&[&commands.concat()]);
        let ended = |line: Result<Vec<u8>, u16>| [&line.expect("a line")[..], b"\r\n"].concat();
        let found: Vec<Vec<u8>> = found.into_iter().map(|(line, _)| ended(line)).collect();
        prop_assert_eq!(found, commands);
    }

    #[test]
    fn content_is_decoded_alike_at_every_split_and_by_the_definition(
        bytes in pieces(CONTENT),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let whole = decoded(&[&bytes]);
        let by_byte: Vec<&[u8]> = bytes.chunks(1).collect();
        prop_assert_eq!(&decoded(&by_byte), &whole);
        prop_assert_eq!(&decoded(&cut(&bytes, &cuts)), &whole);
        let (content, taken, is_end, shape) = whole;
        let (expected, end) = defined(&bytes);
        prop_assert_eq!(end.is_some(), is_end);
        prop_assert_eq!(taken, end.unwrap_or(bytes.len()));
        // Without an end, the bytes of the last line so far are content.
        prop_assert!(content.starts_with(&expected) && (!is_end || content == expected));
        let pairs = content.windows(2).filter(|two| *two == b"\r\n").count();
        let bare = |byte: u8| (memchr::memchr_iter(byte, &content).count() - pairs) as u64;
        prop_assert_eq!((shape.bare_returns, shape.bare_feeds), (bare(b'\r'), bare(b'\n')));
        prop_assert_eq!(shape.bytes, content.len() as u64);
        prop_assert_eq!(shape.is_8bit, !content.is_ascii());
    }

    #[test]
    fn encoded_messages_are_decoded(
        text in prop::collection::vec(prop::sample::select(TEXT), 0..40),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
    ) {
        let text = text.concat();
        let mut out = Vec::new();
        let shape = Encoder::encode(Transfer::Data, &text, &mut out).expect("text");
        let (content, taken, is_end, found) = decoded(&[&out]);
        prop_assert_eq!((taken, is_end, found), (out.len(), true, shape));
        prop_assert_eq!(shape.refusal(), None);
        let mut chunk = Vec::new();
        let same = Encoder::encode(Transfer::Bdat, &text, &mut chunk);
        prop_assert_eq!((same, &chunk), (Ok(shape), &content));
        // Every line end has become CR LF, and the last line has one.
        let normal = text.iter().filter(|b| **b != b'\r').copied().collect::<Vec<u8>>();
        let back = chunk.iter().filter(|b| **b != b'\r').copied().collect::<Vec<u8>>();
        let added: &[u8] = if normal.ends_with(b"\n") || normal.is_empty() { b"" } else { b"\n" };
        prop_assert_eq!(back, [&normal, added].concat());
        let (mut encoder, mut in_pieces) = (Encoder::new(Transfer::Data), Vec::new());
        for piece in cut(&text, &cuts) {
            encoder.push(piece, &mut in_pieces).expect("text");
        }
        encoder.finish(&mut in_pieces).expect("text");
        prop_assert_eq!(in_pieces, out);
    }
}

/// The parser of replies bounds the memory that a server can make a client use with an endless reply.
#[test]
fn an_endless_reply_is_an_error() {
    let mut scan = reply::Scan::default();
    let bytes = b"250-a\r\n".repeat(reply::REPLY_BYTES);
    let end = (0..bytes.len()).step_by(997).find(|len| scan.parse(&bytes[..*len]) != Ok(Parsed::Incomplete));
    assert_eq!(end, Some(reply::REPLY_BYTES.next_multiple_of(997)));
    assert_eq!(scan.parse(&bytes), Err(Malformed("reply too long")));
}
