//! Chunked bodies of arbitrary bytes: no panic, the same content for every split, and progress in every step. If a
//! chunk size is accepted, `httparse` reads the same value.

#![no_main]

use landau_wire::http::body::{Body, Malformed};
use landau_wire::http::request::BodyLength;
use libfuzzer_sys::fuzz_target;

fn read(bytes: &[u8], step: usize) -> (Vec<u8>, usize, Result<bool, Malformed>) {
    let mut body = Body::new(BodyLength::Chunked);
    let (mut content, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let window = &bytes[at..bytes.len().min(at + step)];
        match body.advance(window) {
            // The error does not tell its position in the piece.
            Err(error) => return (content, 0, Err(error)),
            Ok(piece) => {
                assert!(piece.consumed > 0 && piece.data.end <= piece.consumed && piece.consumed <= window.len());
                content.extend_from_slice(&window[piece.data]);
                at += piece.consumed;
                if piece.is_end {
                    return (content, at, Ok(true));
                }
            }
        }
    }
    (content, at, Ok(false))
}

fuzz_target!(|data: &[u8]| {
    let Some((&step, bytes)) = data.split_first() else { return };
    let whole = read(bytes, bytes.len().max(1));
    assert_eq!(read(bytes, usize::from(step % 16) + 1), whole);
    if whole.2.is_ok()
        && let Ok(httparse::Status::Complete((start, size))) = httparse::parse_chunk_size(bytes)
    {
        let len = usize::try_from(size).unwrap_or(usize::MAX).min(bytes.len() - start);
        assert_eq!(whole.0.get(..len), bytes.get(start..start + len));
    }
});
