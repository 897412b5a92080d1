//! `Range` fields of arbitrary bytes over files of any length: no panic, nothing beyond the file, no byte twice, and a
//! multipart answer of exactly the stated length.

#![no_main]

use landau_wire::http::multipart::Multipart;
use landau_wire::http::range::{Selection, read_content_range, select, write_content_range};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((length, value)) = data.split_first_chunk() else { return };
    // Small files are as frequent as large ones.
    let length = u64::from_le_bytes(*length) >> (value.len() % 8 * 8);
    let with_unit = [b"bytes=", value].concat();
    for value in [value, &with_unit] {
        let _ = read_content_range(value);
        let selection = select(value, length);
        let ranges = match &selection {
            Selection::One(one) => std::slice::from_ref(one),
            Selection::Several(several) => several.as_slice(),
            Selection::Whole | Selection::Unsatisfiable => continue,
        };
        for (number, range) in ranges.iter().enumerate() {
            assert!(range.len > 0 && range.start < length && range.len <= length - range.start);
            for other in &ranges[..number] {
                assert!(range.end() <= other.start || other.end() <= range.start);
            }
            let mut out = Vec::new();
            write_content_range(*range, length, &mut out);
            assert_eq!(read_content_range(&out), Some((*range, Some(length))));
        }
        if let Selection::Several(several) = &selection {
            let multipart = Multipart::new(several, length, b"text/plain", 1);
            let mut out = Vec::new();
            multipart.ranges().iter().for_each(|range| multipart.write_part_head(*range, &mut out));
            multipart.write_end(&mut out);
            // No file of nearly 2⁶⁴ bytes exists: both saturate at the maximum.
            let sum = ranges.iter().fold(out.len() as u64, |sum, range| sum.saturating_add(range.len));
            assert_eq!(multipart.content_length(), sum);
        }
    }
});
