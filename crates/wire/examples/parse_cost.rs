//! Measures the cost of parsing a message with this crate and with `httparse`, in nanoseconds: a request as load
//! generators send it, a request as browsers send it, and the head of a response. Run it with
//! `cargo run --release -p landau-wire --example parse_cost`.
//!
//! The two parsers do not do the same work: this one also selects the fields that a server needs, validates host and
//! lengths, and decides on keep-alive. A user of `httparse` must do this in addition.

#![expect(clippy::print_stdout, reason = "it is a program")]

use landau_wire::http::response::Reader;
use landau_wire::http::{Limits, Parsed, request};
use std::hint::black_box;
use std::time::Instant;

const SHORT: &[u8] = b"GET /f HTTP/1.1\r\nHost: x\r\n\r\n";

const BROWSER: &[u8] = b"GET /assets/app.3f9c2d.js?v=17 HTTP/1.1\r\n\
Host: www.example.org:8080\r\n\
User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n\
Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n\
Accept-Language: en-US,en;q=0.5\r\n\
Accept-Encoding: gzip, deflate, br, zstd\r\n\
Referer: http://www.example.org:8080/index.html\r\n\
Connection: keep-alive\r\n\
Cookie: session=0123456789abcdef0123456789abcdef; theme=dark; consent=all\r\n\
Upgrade-Insecure-Requests: 1\r\n\
If-None-Match: \"65f2a-4c1-17\"\r\n\
If-Modified-Since: Tue, 05 Mar 2024 10:11:12 GMT\r\n\
Priority: u=0, i\r\n\r\n";

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\n\
Server: landau\r\n\
Date: Tue, 05 Mar 2024 10:11:12 GMT\r\n\
Content-Type: text/html; charset=utf-8\r\n\
Content-Length: 300\r\n\
Last-Modified: Tue, 05 Mar 2024 10:11:12 GMT\r\n\
ETag: \"65f2a-4c1-17\"\r\n\
Accept-Ranges: bytes\r\n\r\n";

/// The number of calls in one timed round.
const CALLS: u32 = 100_000;

/// The number of rounds. The parsers take turns. The fastest round of each counts, because slower ones include
/// interference.
const ROUNDS: usize = 31;

fn main() {
    let limits = Limits::default();
    for (name, bytes) in [("short", SHORT), ("browser", BROWSER)] {
        compare(
            name,
            bytes,
            || {
                let parsed = request::parse(black_box(bytes), black_box(&limits));
                matches!(black_box(&parsed), Ok(Parsed::Complete { .. }))
            },
            || {
                let mut headers = [httparse::EMPTY_HEADER; 64];
                let mut request = httparse::Request::new(&mut headers);
                let parsed = request.parse(black_box(bytes));
                black_box(&request);
                matches!(black_box(parsed), Ok(httparse::Status::Complete(_)))
            },
        );
    }
    compare(
        "response",
        RESPONSE,
        || matches!(black_box(Reader::new().parse(black_box(RESPONSE))), Ok(Some(_))),
        || {
            let mut headers = [httparse::EMPTY_HEADER; 64];
            let mut response = httparse::Response::new(&mut headers);
            let parsed = response.parse(black_box(RESPONSE));
            black_box(&response);
            matches!(black_box(parsed), Ok(httparse::Status::Complete(_)))
        },
    );
}

fn compare(name: &str, bytes: &[u8], mut ours: impl FnMut() -> bool, mut theirs: impl FnMut() -> bool) {
    let (mut own, mut other) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..ROUNDS {
        own = own.min(nanoseconds(&mut ours));
        other = other.min(nanoseconds(&mut theirs));
    }
    let len = bytes.len();
    println!("{name:8} {len:4} bytes: ours {own:6.1} ns, httparse {other:6.1} ns, ratio {:.2}", own / other);
}

fn nanoseconds(mut call: impl FnMut() -> bool) -> f64 {
    let start = Instant::now();
    for _ in 0..CALLS {
        assert!(call());
    }
    start.elapsed().as_nanos() as f64 / f64::from(CALLS)
}
