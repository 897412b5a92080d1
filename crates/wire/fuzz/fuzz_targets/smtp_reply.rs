//! SMTP replies of arbitrary bytes, whole and in pieces: no panic, the same reply for every split, bounded sizes, and
//! the same reply after a parsed reply is written again.

#![no_main]

use landau_wire::smtp::capabilities::{Capabilities, keywords};
use landau_wire::smtp::reply::{self, LINE_BYTES, Parsed, Scan, WRITTEN_LINE_BYTES};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&step, bytes)) = data.split_first() else { return };
    let whole = reply::parse(bytes);
    let mut scan = Scan::default();
    let lengths = (0..bytes.len()).step_by(usize::from(step % 16) + 1).chain([bytes.len()]);
    let mut pieces = lengths.map(|len| scan.parse(&bytes[..len]));
    let in_pieces = pieces.find(|result| *result != Ok(Parsed::Incomplete)).unwrap_or(Ok(Parsed::Incomplete));
    assert_eq!(in_pieces, whole);
    let Ok(Parsed::Complete { reply, consumed }) = whole else { return };
    assert!(consumed <= bytes.len() && reply.as_bytes() == &bytes[..consumed]);
    assert!((200..600).contains(&reply.code().number()));
    assert_eq!(reply.lines().count(), reply.texts().count());
    assert!(reply.lines().all(|line| line.len() < LINE_BYTES && !line.contains(&b'\n')));
    let _ = keywords(&reply).count();
    let capabilities = Capabilities::of_reply(&reply);
    assert!(capabilities.size_limit != Some(0));
    write_again(&reply);
});

/// Checks that texts that fit into a line, without control bytes, are read back unchanged.
fn write_again(reply: &reply::Reply<'_>) {
    let texts: Option<Vec<&str>> = reply.lines().map(|line| std::str::from_utf8(line).ok()).collect();
    let Some(texts) = texts else { return };
    let mut out = Vec::new();
    reply::write(&mut out, reply.code(), None, texts.iter().copied());
    assert!(out.split_inclusive(|&b| b == b'\n').all(|line| line.len() <= WRITTEN_LINE_BYTES));
    let Ok(Parsed::Complete { reply: again, consumed }) = reply::parse(&out) else { panic!("{}", out.escape_ascii()) };
    assert_eq!((again.code(), consumed), (reply.code(), out.len()));
    let is_plain = |text: &&str| text.len() <= WRITTEN_LINE_BYTES - 6 && !text.bytes().any(|b| b.is_ascii_control());
    if texts.iter().all(is_plain) {
        assert!(again.lines().eq(reply.lines()));
    }
}
