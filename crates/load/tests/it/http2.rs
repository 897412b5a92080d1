//! HTTP/2 against a small server that answers the requests of a round in reverse order.

use crate::server::{failed, run, spec};
use landau_load::{Failure, LoadSpec};
use landau_wire::http2::frame::{self, END_STREAM, Frame, HEADER_BYTES, Header, Kind};
use landau_wire::http2::hpack::{Decoder, write_field, write_status};
use landau_wire::http2::{Code, PREFACE, Setting};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The server's counters, and the fields that it received.
#[derive(Default)]
pub(crate) struct Seen {
    connections: AtomicU64,
    most_at_once: AtomicU64,
    fields: Mutex<Vec<String>>,
}

/// Writes the server's answer to a stream. The first argument is the number of the request, from 0.
pub(crate) type Respond = fn(u64, u32, &mut Vec<u8>);

/// A response with seven bytes of content.
pub(crate) fn respond(_: u64, stream: u32, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    write_status(200, out);
    write_field(b"content-length", b"7", out);
    frame::finish_headers(start, stream, false, out);
    for (part, flags) in [(&b"cont"[..], 0), (b"ent", END_STREAM)] {
        out.extend_from_slice(&Header::new(Kind::Data, flags, stream, part.len()).bytes());
        out.extend_from_slice(part);
    }
}

/// Starts a server that runs until the end of the test process. It waits for `at_once` requests before it answers, or
/// for a GOAWAY.
fn serve(at_once: usize, settings: &'static [(Setting, u32)], respond: Respond) -> (String, Arc<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/a?b", listener.local_addr().unwrap());
    let seen = Arc::new(Seen::default());
    let counted = Arc::clone(&seen);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let seen = Arc::clone(&counted);
            std::thread::spawn(move || {
                seen.connections.fetch_add(1, Ordering::SeqCst);
                let _ = serve_connection(&mut stream.unwrap(), at_once, settings, respond, &seen);
            });
        }
    });
    (url, seen)
}

pub(crate) fn serve_connection(
    stream: &mut (impl Read + Write),
    at_once: usize,
    settings: &[(Setting, u32)],
    respond: Respond,
    seen: &Seen,
) -> std::io::Result<()> {
    let mut preface = [0; PREFACE.len()];
    stream.read_exact(&mut preface)?;
    assert_eq!(&preface, PREFACE);
    let (mut out, mut asked, mut count) = (Vec::new(), Vec::new(), 0);
    frame::write_settings(settings, &mut out);
    let mut decoder = Decoder::new(4096);
    loop {
        stream.write_all(&std::mem::take(&mut out))?;
        let mut header = [0; HEADER_BYTES];
        stream.read_exact(&mut header)?;
        let header = Header::parse(&header).unwrap();
        let mut payload = vec![0; header.length];
        stream.read_exact(&mut payload)?;
        match Frame::parse(header, &payload).unwrap() {
            Frame::Headers { block, is_end: true, is_whole: true } => {
                let mut fields = Vec::new();
                let each = |name: &[u8], value: &[u8]| {
                    fields.push(format!("{}={}", name.escape_ascii(), value.escape_ascii()));
                };
                decoder.decode(block, &mut Vec::new(), each).unwrap();
                seen.fields.lock().unwrap().push(fields.join(" "));
                asked.push(header.stream);
            }
            Frame::Settings(_) => frame::write_settings_ack(&mut out),
            Frame::GoAway(..) => {
                asked.drain(..).rev().for_each(|stream| respond(count, stream, &mut out));
                return stream.write_all(&out);
            }
            _ => {}
        }
        seen.most_at_once.fetch_max(asked.len() as u64, Ordering::SeqCst);
        if asked.len() == at_once {
            for stream in asked.drain(..).rev() {
                respond(count, stream, &mut out);
                count += 1;
            }
        }
    }
}

fn http2(url: &str, streams: u32) -> LoadSpec {
    LoadSpec { http2: true, pipeline: streams, connections: 1, ..spec(url) }
}

#[test]
fn streams_are_answered_in_any_order() {
    let (url, seen) = serve(5, &[], respond);
    let headers = vec!["X-Own: value".to_owned(), "Host: other".to_owned()];
    let outcome = run(&LoadSpec { headers, ..http2(&url, 5) });
    let metrics = &outcome.metrics;
    assert_eq!((metrics.requests, metrics.responses, metrics.statuses.get(&200)), (100, 100, Some(&100)));
    assert_eq!((metrics.phases.service.count(), metrics.connections), (100, 1));
    assert!(failed(&outcome).is_empty(), "{:?} {:?}", outcome.gates, metrics.failures);
    assert_eq!(seen.most_at_once.load(Ordering::SeqCst), 5);
    let fields = seen.fields.lock().unwrap();
    assert!(
        fields.iter().all(|one| one == ":method=GET :scheme=http :authority=other :path=/a?b x-own=value"),
        "{:?}",
        fields[0]
    );
}

#[test]
fn a_schedule_uses_several_streams() {
    // Without a second request on the connection, the server would not answer.
    let (url, seen) = serve(2, &[], respond);
    let open = LoadSpec { rate: Some(1000.0), ..http2(&url, 2) };
    let outcome = run(&open);
    assert_eq!(outcome.metrics.responses, 100, "{:?}", outcome.metrics.failures);
    assert_eq!(outcome.metrics.phases.latency.count(), 100);
    assert_eq!(seen.most_at_once.load(Ordering::SeqCst), 2);
}

#[test]
fn the_server_limits_the_streams() {
    let (url, seen) = serve(3, &[(Setting::MaxConcurrentStreams, 3)], respond);
    let outcome = run(&LoadSpec { request_count: Some(300), ..http2(&url, 100) });
    // Before the server's SETTINGS arrive, the client may have opened more streams.
    assert_eq!(outcome.metrics.responses, 300, "{:?}", outcome.metrics.failures);
    assert!(seen.most_at_once.load(Ordering::SeqCst) <= 100);
}

#[test]
fn connections_end_after_their_last_request() {
    let (url, seen) = serve(2, &[], respond);
    let outcome = run(&LoadSpec { per_connection: Some(10), ..http2(&url, 2) });
    assert_eq!((outcome.metrics.responses, outcome.metrics.failures.len()), (100, 0), "{:?}", outcome.metrics.failures);
    assert!(seen.connections.load(Ordering::SeqCst) >= 10);
}

#[test]
fn failures_are_those_of_their_stream() {
    let (url, _) = serve(1, &[], |number, stream, out| match number % 4 {
        0 => frame::write_rst_stream(stream, Code::REFUSED_STREAM, out),
        // Less content than announced.
        1 => {
            let start = out.len();
            out.extend_from_slice(&[0; HEADER_BYTES]);
            write_status(200, out);
            write_field(b"content-length", b"7", out);
            frame::finish_headers(start, stream, true, out);
        }
        _ => respond(number, stream, out),
    });
    let outcome = run(&LoadSpec { connections: 4, ..http2(&url, 1) });
    let metrics = &outcome.metrics;
    let count = |failure| metrics.failures.get(&failure).copied().unwrap_or(0);
    assert_eq!(metrics.responses + count(Failure::Reset) + count(Failure::InvalidResponse), 100);
    assert!(count(Failure::Reset) >= 24 && count(Failure::InvalidResponse) >= 24, "{:?}", metrics.failures);
    assert!(metrics.failure_details[&Failure::Reset].contains("REFUSED_STREAM"));
    let detail = &metrics.failure_details[&Failure::InvalidResponse];
    assert_eq!(detail, "0 bytes of content; its content-length is 7");
}

#[test]
fn a_server_of_http1_is_no_http2() {
    let server = crate::server::serve(|_| (b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n".to_vec(), false));
    let outcome = run(&LoadSpec { request_count: Some(1), ..http2(&server.url(), 1) });
    assert_eq!(outcome.metrics.responses, 0);
    let detail = &outcome.metrics.failure_details[&Failure::InvalidResponse];
    assert!(detail.contains("HTTP/1.1 400"), "{detail}");
}
