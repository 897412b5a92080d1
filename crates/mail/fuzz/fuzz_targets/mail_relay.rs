//! A session of the relay against a client that sends any bytes, in pieces: see `landau_mail::hostile::relay`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&[options, size], bytes)) = data.split_first_chunk() else { return };
    landau_mail::hostile::relay(options, bytes, usize::from(size % 32) + 1);
});
