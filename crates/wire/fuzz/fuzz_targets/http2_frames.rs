//! A connection with frames of arbitrary bytes: no panic, and an accepted request is exactly one head for the HTTP/1.1
//! parser.

#![no_main]

use landau_wire::http::{Limits, Parsed};
use landau_wire::http2::frame::{Frame, HEADER_BYTES, Header};
use landau_wire::http2::hpack::Decoder;
use landau_wire::http2::{Settings, request};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let (mut decoder, mut settings, mut fields) = (Decoder::new(4096), Settings::default(), request::Fields::default());
    let (mut scratch, mut head, mut block) = (Vec::new(), Vec::new(), Vec::new());
    let mut rest = data;
    while let Some(header) = Header::parse(rest) {
        let Some((payload, behind)) = rest[HEADER_BYTES..].split_at_checked(header.length) else { return };
        rest = behind;
        let is_whole = match Frame::parse(header, payload) {
            Ok(Frame::Settings(payload)) => {
                let _ = settings.apply(payload);
                assert!((16 << 10..1 << 24).contains(&settings.max_frame_size));
                false
            }
            Ok(Frame::Headers { block: part, is_whole, .. }) => {
                block.clear();
                block.extend_from_slice(part);
                is_whole
            }
            Ok(Frame::Continuation { block: part, is_last }) => {
                block.extend_from_slice(part);
                is_last
            }
            Ok(Frame::Data { content, .. }) => {
                assert!(content.len() <= header.length);
                false
            }
            Ok(_) => false,
            Err(_) => return,
        };
        if !is_whole {
            continue;
        }
        fields.begin(32 << 10, false);
        if decoder.decode(&block, &mut scratch, |name, value| fields.add(name, value)).is_err() {
            return;
        }
        head.clear();
        if fields.finish(header.flags & 1 != 0, &mut head).is_err() {
            continue;
        }
        let limits = Limits { line_bytes: 64 << 10, head_bytes: 65_535, fields: usize::MAX };
        match landau_wire::http::request::parse(&head, &limits) {
            Ok(Parsed::Complete { consumed, .. }) => assert_eq!(consumed, head.len()),
            Ok(Parsed::Partial) => panic!("a head that is not whole"),
            Err(_) => {}
        }
    }
});
