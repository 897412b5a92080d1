//! Responses of arbitrary bytes, whole and in pieces: no panic, and the same response for every split. If `httparse`
//! accepts one too, its status and end are the same.

#![no_main]

use landau_wire::http::request::Method;
use landau_wire::http::response::Reader;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&step, bytes)) = data.split_first() else { return };
    let whole = Reader::new().parse(bytes);
    let mut reader = Reader::new();
    let lengths = (0..bytes.len()).step_by(usize::from(step % 16) + 1).chain([bytes.len()]);
    let mut pieces = lengths.map(|len| reader.parse(&bytes[..len]));
    let in_pieces = pieces.find(|result| *result != Ok(None)).unwrap_or(Ok(None));
    assert_eq!(in_pieces, whole);
    let Ok(Some(response)) = whole else { return };
    for method in [Method::Get, Method::Head, Method::Connect] {
        let _ = response.body(method).skip(&bytes[response.head_bytes..]);
        let _ = response.is_reusable(method);
    }
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut theirs = httparse::Response::new(&mut headers);
    if theirs.parse(bytes) == Ok(httparse::Status::Complete(response.head_bytes)) {
        assert_eq!(theirs.code, Some(response.status.0));
    }
});
