//! Content after DATA of arbitrary bytes: no panic, the same content and properties for every split, the end as
//! defined, and an encoded message that decodes to itself.

#![no_main]

use landau_wire::smtp::data::{Decoder, Encoder, Inspector, Shape, Transfer};
use libfuzzer_sys::fuzz_target;

/// Returns the content, the bytes it took, whether it ended, and its properties.
fn decoded(bytes: &[u8], size: usize) -> (Vec<u8>, usize, bool, Shape) {
    let (mut decoder, mut content, mut taken) = (Decoder::new(), Vec::new(), 0);
    for piece in bytes.chunks(size) {
        let (consumed, is_end) = decoder.decode(piece, |run| content.extend_from_slice(run));
        taken += consumed;
        if is_end {
            return (content, taken, true, decoder.shape());
        }
        assert_eq!(consumed, piece.len());
    }
    (content, taken, false, decoder.shape())
}

/// Returns the content by definition, if it ends: lines end at CR LF, the first dot of each is removed, and a single
/// dot ends the content.
fn defined(bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
    let (mut content, mut at) = (Vec::new(), 0);
    loop {
        let len = bytes[at..].windows(2).position(|two| two == b"\r\n")?;
        let line = &bytes[at..at + len + 2];
        at += line.len();
        if line == b".\r\n" {
            return Some((content, at));
        }
        content.extend_from_slice(line.strip_prefix(b".").unwrap_or(line));
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&step, bytes)) = data.split_first() else { return };
    let size = usize::from(step % 16) + 1;
    let whole = decoded(bytes, bytes.len().max(1));
    assert_eq!(decoded(bytes, size), whole);
    match defined(bytes) {
        Some((content, taken)) => assert_eq!((&whole.0, whole.1, whole.2), (&content, taken, true)),
        None => assert!(!whole.2 && whole.1 == bytes.len()),
    }
    let mut inspector = Inspector::new();
    whole.0.chunks(size).for_each(|piece| inspector.push(piece));
    assert_eq!(inspector.shape(), whole.3);
    encode(bytes, size);
});

fn encode(text: &[u8], size: usize) {
    let mut out = Vec::new();
    let shape = Encoder::encode(Transfer::Data, text, &mut out);
    let (mut encoder, mut in_pieces) = (Encoder::new(Transfer::Data), Vec::new());
    let pushed = text.chunks(size).try_for_each(|piece| encoder.push(piece, &mut in_pieces));
    assert_eq!(pushed.and_then(|()| encoder.finish(&mut in_pieces)), shape);
    let Ok(shape) = shape else { return };
    assert_eq!(in_pieces, out);
    assert!(shape.refusal().is_none() && shape.nuls == 0 && shape.is_terminated);
    let (content, taken, is_end, found) = decoded(&out, size);
    assert_eq!((taken, is_end, found), (out.len(), true, shape));
    let mut chunk = Vec::new();
    assert_eq!(Encoder::encode(Transfer::Bdat, text, &mut chunk), Ok(shape));
    assert_eq!(chunk, content);
    // The content is the same after it is forwarded.
    let mut again = Vec::new();
    assert_eq!(Encoder::encode(Transfer::Data, &content, &mut again), Ok(shape));
    assert_eq!(again, out);
}
