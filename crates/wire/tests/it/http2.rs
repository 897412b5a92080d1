//! HTTP/2: encoded fields are decoded, arbitrary bytes cause no panic, and an accepted request is exactly one request.

use landau_wire::http::Limits;
use landau_wire::http2::frame::{self, Frame, HEADER_BYTES, Header};
use landau_wire::http2::hpack::{Decoder, Encoder, huffman, write_field};
use landau_wire::http2::{Code, Setting, Settings, request};
use proptest::prelude::*;

type Field = (Vec<u8>, Vec<u8>);

/// Fields, many of them identical, so that tables are used.
fn fields() -> impl Strategy<Value = Vec<Field>> {
    let known = prop::sample::select(&[":method", ":path", "date", "x", "content-type", "an-own-name"][..]);
    let name = prop_oneof![4 => known.prop_map(|name| name.as_bytes().to_vec()), 1 => text(1..40)];
    let few = prop::sample::select(&["", "GET", "/", "/index.html", "value", "another value"][..]);
    let value = prop_oneof![3 => few.prop_map(|value| value.as_bytes().to_vec()), 1 => text(0..300)];
    prop::collection::vec((name, value), 0..12)
}

fn text(len: std::ops::Range<usize>) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![prop::collection::vec(b' '..b'~', len.clone()), prop::collection::vec(any::<u8>(), len)]
}

fn decoded(decoder: &mut Decoder, block: &[u8]) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    let each = |name: &[u8], value: &[u8]| fields.push((name.to_vec(), value.to_vec()));
    decoder.decode(block, &mut Vec::new(), each).ok().map(|()| fields)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn encoded_blocks_are_decoded(
        blocks in prop::collection::vec((fields(), prop::option::of(0..6000_u32)), 1..8),
    ) {
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(4096));
        for (fields, size) in blocks {
            if let Some(size) = size {
                encoder.resize(size);
            }
            let (mut block, mut plain) = (Vec::new(), Vec::new());
            encoder.begin(&mut block);
            for (name, value) in &fields {
                encoder.field(name, value, &mut block);
                write_field(name, value, &mut plain);
            }
            prop_assert_eq!(decoded(&mut decoder, &block), Some(fields.clone()));
            prop_assert!(decoder.memory_bytes() < 16 << 10);
            prop_assert_eq!(decoded(&mut Decoder::new(0), &plain), Some(fields));
        }
    }

    #[test]
    fn strings_are_restored(text in text(0..200)) {
        let (mut encoded, mut decoded) = (Vec::new(), Vec::new());
        huffman::encode(&text, &mut encoded);
        prop_assert_eq!(encoded.len(), huffman::encoded_len(&text));
        prop_assert_eq!(huffman::decode(&encoded, &mut decoded), Ok(()));
        prop_assert_eq!(decoded, text);
    }

    #[test]
    fn any_block_is_decoded_or_refused(
        blocks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 1..8),
    ) {
        let mut decoder = Decoder::new(4096);
        for block in blocks {
            decoded(&mut decoder, &block);
            prop_assert!(decoder.memory_bytes() < 16 << 10);
        }
    }

    /// Fields that pass the rules of HTTP/2 cannot break out of their lines: the result is one head, with the same
    /// fields.
    #[test]
    fn an_accepted_request_is_one_request(extra in fields(), path in text(0..20), authority in text(0..10)) {
        let mut fields = request::Fields::default();
        fields.begin(4000, false);
        for (name, value) in [(&b":method"[..], &b"GET"[..]), (b":scheme", b"http"), (b":path", &path)] {
            fields.add(name, value);
        }
        fields.add(b":authority", &authority);
        let own: Vec<&Field> = extra.iter().filter(|(name, _)| !name.starts_with(b":")).collect();
        for (name, value) in &own {
            fields.add(name, value);
        }
        let mut head = Vec::new();
        if fields.finish(true, &mut head).is_ok() {
            prop_assert!(head.ends_with(b"\r\n\r\n"));
            if let Ok(request) = request::parse(&head, &Limits::default()) {
                prop_assert_eq!(request.path(), &path[..]);
                let expected = own.iter().filter(|(name, _)| name != b"host");
                let expected = expected.map(|(name, value)| (&name[..], &value[..]));
                let found = request.fields().filter(|(name, _)| *name != b"host");
                prop_assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn any_frame_is_parsed_or_refused(
        kind in 0..12_u8,
        flags in any::<u8>(),
        stream in 0..4_u32,
        payload in text(0..40),
    ) {
        let header = Header { length: payload.len(), kind, flags, stream };
        if let Ok(frame) = Frame::parse(header, &payload) {
            if let Frame::Data { content, .. } | Frame::Headers { block: content, .. } = frame {
                prop_assert!(content.len() <= payload.len());
            }
            if let Frame::Settings(payload) = frame {
                let _ = Settings::default().apply(payload);
            }
        }
    }
}

/// The parser reads the frames that a server and a client write.
#[test]
fn written_frames_are_parsed() {
    let mut out = Vec::new();
    frame::write_settings(&[(Setting::MaxConcurrentStreams, 128), (Setting::InitialWindowSize, 7)], &mut out);
    frame::write_settings_ack(&mut out);
    frame::write_ping_ack(*b"12345678", &mut out);
    frame::write_window_update(3, 9, &mut out);
    frame::write_rst_stream(5, Code::REFUSED_STREAM, &mut out);
    frame::write_go_away(7, Code::ENHANCE_YOUR_CALM, &mut out);
    let mut found = Vec::new();
    let mut rest = &out[..];
    while let Some(header) = Header::parse(rest) {
        let (payload, behind) = rest[HEADER_BYTES..].split_at(header.length);
        found.push((header.stream, Frame::parse(header, payload).unwrap()));
        rest = behind;
    }
    let expected = [
        (0, Frame::Settings(b"\0\x03\0\0\0\x80\0\x04\0\0\0\x07")),
        (0, Frame::SettingsAck),
        (0, Frame::PingAck(*b"12345678")),
        (3, Frame::WindowUpdate(9)),
        (5, Frame::RstStream(Code::REFUSED_STREAM)),
        (0, Frame::GoAway(7, Code::ENHANCE_YOUR_CALM)),
    ];
    assert_eq!((found, rest), (expected.to_vec(), &[][..]));
}
