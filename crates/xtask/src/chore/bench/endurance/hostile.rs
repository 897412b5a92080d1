//! Clients that send invalid or abusive requests, or disconnect in the middle.

use crate::table;
use anyhow::Result;
use landau_wire::http2::frame::{self, HEADER_BYTES, Header, Kind};
use landau_wire::http2::hpack::Encoder;
use landau_wire::http2::{Code, PREFACE};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::LazyLock;
use std::time::Duration;

/// How long a client waits for a response, of which it reads only a part.
const PATIENCE: Duration = Duration::from_secs(2);
/// The number of frames in a flood.
const FLOOD: u32 = 2000;

/// The requests that the tests of the parsers and of the server also send.
static REQUESTS: LazyLock<Vec<table::Case>> = LazyLock::new(table::cases);

/// Performs one of the attacks, chosen at random.
pub(super) fn act(mut stream: TcpStream, random: &mut ChaCha8Rng) -> Result<()> {
    let bytes = match random.random_range(0..10) {
        0..4 => REQUESTS[random.random_range(0..REQUESTS.len())].bytes.clone(),
        4 => http2(resets),
        5 => http2(|out| (0..FLOOD).for_each(|_| frame::write_settings(&[], out))),
        6 => http2(endless_block),
        7 => {
            // Looks like the start of a TLS handshake.
            let mut bytes: Vec<u8> = (0..600).map(|_| random.random()).collect();
            bytes[..5].copy_from_slice(&[0x16, 3, 1, 2, 0]);
            bytes
        }
        8 => b"GET /f2m HTTP/1.1\r\nHost: x\r\n\r\n".repeat(5),
        // Nothing.
        _ => Vec::new(),
    };
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(&bytes)?;
    let mut buffer = [0; 4096];
    while stream.read(&mut buffer)? > 0 && random.random_range(0..8) > 0 {}
    Ok(())
}

fn http2(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = PREFACE.to_vec();
    frame::write_settings(&[], &mut out);
    write(&mut out);
    out
}

/// Opens streams and resets each of them.
fn resets(out: &mut Vec<u8>) {
    let mut encoder = Encoder::new();
    for stream in (1..).step_by(2).take(FLOOD as usize) {
        let start = out.len();
        out.extend_from_slice(&[0; HEADER_BYTES]);
        encoder.begin(out);
        for (name, value) in [(":method", "GET"), (":scheme", "http"), (":path", "/f2m"), (":authority", "x")] {
            encoder.field(name.as_bytes(), value.as_bytes(), out);
        }
        frame::finish_headers(start, stream, true, out);
        frame::write_rst_stream(stream, Code::CANCEL, out);
    }
}

/// Begins a header block that never ends.
fn endless_block(out: &mut Vec<u8>) {
    out.extend_from_slice(&Header::new(Kind::Headers, 0, 1, 0).bytes());
    for _ in 0..FLOOD {
        out.extend_from_slice(&Header::new(Kind::Continuation, 0, 1, 64).bytes());
        out.extend_from_slice(&[0; 64]);
    }
}
