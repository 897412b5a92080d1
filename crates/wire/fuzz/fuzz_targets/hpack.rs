//! Header blocks of arbitrary bytes: no panic, bounded memory, and the same fields after decoded fields are encoded and
//! decoded again. The first byte of the input is the length of each block.

#![no_main]

use landau_wire::http2::hpack::{Decoder, Encoder};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&length, bytes)) = data.split_first() else { return };
    let (mut decoder, mut encoder, mut again) = (Decoder::new(4096), Encoder::new(), Decoder::new(4096));
    let mut scratch = Vec::new();
    for block in bytes.chunks(usize::from(length).max(1)) {
        let mut fields = Vec::new();
        let mut size = 0;
        let each = |name: &[u8], value: &[u8]| {
            // A block of indices can expand to megabytes.
            size += name.len() + value.len();
            if size < 64 << 10 {
                fields.push((name.to_vec(), value.to_vec()));
            }
        };
        let decoded = decoder.decode(block, &mut scratch, each);
        assert!(decoder.memory_bytes() <= 16 << 10);
        if decoded.is_err() {
            return;
        }
        let (mut encoded, mut count) = (Vec::new(), 0);
        encoder.begin(&mut encoded);
        fields.iter().for_each(|(name, value)| encoder.field(name, value, &mut encoded));
        let same = |name: &[u8], value: &[u8]| {
            assert_eq!((name, value), (&fields[count].0[..], &fields[count].1[..]));
            count += 1;
        };
        assert_eq!(again.decode(&encoded, &mut Vec::new(), same), Ok(()));
        assert_eq!(count, fields.len());
    }
});
