//! A client session against a server that sends any bytes, in pieces: see `landau_mail::hostile::client`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&[options, size], bytes)) = data.split_first_chunk() else { return };
    landau_mail::hostile::client(options, bytes, usize::from(size % 32) + 1);
});
