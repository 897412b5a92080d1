//! What it costs to parse a request, beside `httparse` in the same run: nanoseconds for a request as load generators
//! send it and for one as browsers do. Run with `cargo run --release -p landau-wire --example parse_cost`.
//!
//! The two do not do the same work: ours also picks out the fields that a server looks at, judges host and lengths and
//! decides on keep-alive, which whoever uses `httparse` has yet to do.

#![expect(clippy::print_stdout, reason = "it is a program")]

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

/// Calls in one timed round.
const CALLS: u32 = 100_000;

/// Rounds, the two in turn; the quickest of each counts, for everything else is the machine's.
const ROUNDS: usize = 31;

fn main() {
    let limits = Limits::default();
    for (name, bytes) in [("short", SHORT), ("browser", BROWSER)] {
        let (mut ours, mut theirs) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..ROUNDS {
            ours = ours.min(nanoseconds(|| {
                let parsed = request::parse(black_box(bytes), black_box(&limits));
                matches!(black_box(&parsed), Ok(Parsed::Complete { .. }))
            }));
            theirs = theirs.min(nanoseconds(|| {
                let mut headers = [httparse::EMPTY_HEADER; 64];
                let mut request = httparse::Request::new(&mut headers);
                let parsed = request.parse(black_box(bytes));
                black_box(&request);
                matches!(black_box(parsed), Ok(httparse::Status::Complete(_)))
            }));
        }
        println!(
            "{name:8} {:4} bytes: ours {ours:6.1} ns, httparse {theirs:6.1} ns, ratio {:.2}",
            bytes.len(),
            ours / theirs
        );
    }
}

fn nanoseconds(mut call: impl FnMut() -> bool) -> f64 {
    let start = Instant::now();
    for _ in 0..CALLS {
        assert!(call());
    }
    start.elapsed().as_nanos() as f64 / f64::from(CALLS)
}
