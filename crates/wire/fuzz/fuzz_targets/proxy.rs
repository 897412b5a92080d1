//! PROXY protocol headers of arbitrary bytes: no panic, and the same result for every split.

#![no_main]

use landau_wire::proxy;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let whole = proxy::parse(bytes);
    let mut parts = (0..=bytes.len()).map(|len| proxy::parse(&bytes[..len]));
    assert_eq!(parts.find(|part| *part != Ok(None)).unwrap_or(Ok(None)), whole);
    if let Ok(Some(preface)) = whole {
        assert!(preface.len <= bytes.len() && preface.client.is_none_or(|client| !client.is_unspecified()));
    }
});
