//! Paths of arbitrary bytes: no panic, and a result that is normalised, stays below the root, and does not change if it
//! is encoded and normalised again.

#![no_main]

use landau_wire::http::{mime, target};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let with_slash = [b"/", data].concat();
    for raw in [data, &with_slash] {
        let mut buffer = vec![0; raw.len()];
        let Ok(found) = target::clean(raw, &mut buffer) else { continue };
        let path = found.path;
        assert!(path.starts_with(b"/") && !path.contains(&0) && path.len() <= raw.len().max(1));
        let mut segments = path[1..].split(|&b| b == b'/').peekable();
        while let Some(segment) = segments.next() {
            assert!(segment != b"." && segment != b"..");
            assert!(!segment.is_empty() || segments.peek().is_none());
        }
        let mut encoded = Vec::new();
        target::encode(path, &mut encoded);
        assert!(encoded.iter().all(|b| b.is_ascii_graphic()));
        let mut buffer = vec![0; encoded.len()];
        let again = target::clean(&encoded, &mut buffer).expect("a clean path is clean");
        assert_eq!((again.path, again.query), (path, None));
        let _ = (mime::of_name(path), found.is_hidden(), found.is_folder());
    }
});
