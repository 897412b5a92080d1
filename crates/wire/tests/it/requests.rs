//! Requests: every split has the same result, and `httparse` parses accepted requests in the same way.

use crate::pieces::{Outcome, in_pieces};
use landau_wire::http::{Limits, Parsed, request};
use proptest::prelude::*;

/// Requests, most of them nearly valid: pieces with a meaning for a parser, in any order.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(PIECES).prop_map(<[u8]>::to_vec);
    let noise = prop::collection::vec(any::<u8>(), 0..4);
    let line = prop_oneof![40 => piece, 1 => noise];
    (prop::sample::select(STARTS), prop::collection::vec(line, 0..12), prop::bool::weighted(0.7)).prop_map(
        |(start, lines, ends)| {
            let mut bytes = [start, &lines.concat()].concat();
            if ends {
                bytes.extend_from_slice(b"\r\n");
            }
            bytes
        },
    )
}

const STARTS: &[&[u8]] = &[
    b"GET / HTTP/1.1\r\nHost: x\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\n",
    b"\r\nGET /a%20b?c HTTP/1.0\r\n",
    b"HEAD http://h:80/x HTTP/1.1\r\nhost: h\r\n",
    b"OPTIONS * HTTP/1.1\r\nHOST: [::1]:80\r\n",
    b"CONNECT a:1 HTTP/1.1\r\n",
    b"PUT /x HTTP/1.1\r\nHost: x\r\n",
    b"POST /x HTTP/1.1\r\nHost: x\r\n",
    b"GET  / HTTP/1.1\r\n",
    b"GET / HTTP/2.0\r\n",
    b"GET /\r\n",
    b"G\x01",
    b"",
];

const PIECES: &[&[u8]] = &[
    b"\r\n",
    b"Host: x\r\n",
    b"Host:\r\n",
    b"Content-Length: 5\r\n",
    b"Content-Length: 5, 5\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: gzip, chunked\r\n",
    b"Connection: close\r\n",
    b"Connection: Keep-Alive, Upgrade\r\n",
    b"Range: bytes=0-1\r\n",
    b"X-Some: value with blanks \t \r\n",
    b"X-High: \xc3\xa9\x80\r\n",
    b"X-Tab:\tvalue\tvalue\r\n",
    b"Empty:\r\n",
    b" folded\r\n",
    b"Space : x\r\n",
    b": x\r\n",
    b"NoColon\r\n",
    b"Bare: x\n",
    b"Bare: x\ry\r\n",
    b"Nul: \0\r\n",
    b"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_split_parses_alike(
        bytes in pieces(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        line_bytes in prop_oneof![Just(4096), 5..60usize],
        head_bytes in prop_oneof![Just(8192), 5..200usize],
        fields in prop_oneof![Just(64), 0..4usize],
    ) {
        let limits = Limits { line_bytes, head_bytes, fields };
        // The result after each prefix equals that of parsing the prefix alone, byte by byte and in any pieces.
        let (by_byte, at) = in_pieces(&bytes, 0..=bytes.len(), &limits);
        for length in 0..bytes.len() {
            let (alone, _) = in_pieces(&bytes, [length], &limits);
            if length < at {
                prop_assert_eq!(alone, Outcome::Partial);
            } else {
                prop_assert_eq!(&alone, &by_byte);
            }
        }
        let mut lengths: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).chain([bytes.len()]).collect();
        lengths.sort_unstable();
        let (in_some, when) = in_pieces(&bytes, lengths.iter().copied(), &limits);
        prop_assert_eq!(in_some, by_byte);
        prop_assert_eq!(Some(&when), lengths.iter().find(|length| **length >= at).or(lengths.last()));
    }

    #[test]
    fn accepted_requests_agree_with_httparse(bytes in pieces()) {
        agree_with_httparse(&bytes);
    }
}

/// Panics unless `httparse` parses a request that our parser accepts, with the same end.
fn agree_with_httparse(bytes: &[u8]) {
    let Ok(Parsed::Complete { request, consumed }) = request::parse(bytes, &Limits::default()) else { return };
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut theirs = httparse::Request::new(&mut headers);
    assert_eq!(theirs.parse(bytes), Ok(httparse::Status::Complete(consumed)));
    assert_eq!(theirs.method.map(str::as_bytes), Some(request.method_name()));
    let is_get = request.method() == request::Method::Get;
    assert_eq!(is_get, theirs.method == Some("GET"));
    assert_eq!(theirs.path.map(str::as_bytes), Some(request.target()));
    assert_eq!(theirs.version, Some(u8::from(request.version() == request::Version::Http11)));
    let theirs: Vec<(&[u8], &[u8])> = theirs.headers.iter().map(|one| (one.name.as_bytes(), one.value)).collect();
    assert_eq!(theirs, request.fields().collect::<Vec<_>>());
}
