//! Compresses files with the encoders that a server in Rust could use. Prints the compressed size relative to the file,
//! and the throughput of one thread, which is the best of [`ROUNDS`]. The encoders take turns.

use std::error::Error;
use std::io::Write;
use std::time::{Duration, Instant};

/// The number of times that each encoder compresses each file.
const ROUNDS: usize = 5;

/// A name and a function that compresses.
type Encoder = (&'static str, fn(&[u8]) -> Result<Vec<u8>, Box<dyn Error>>);

const ENCODERS: [Encoder; 3] = [("gzip 6 (flate2)", gzip), ("zstd (ruzstd)", zstd), ("brotli 5 (brotli)", brotli)];

fn gzip(bytes: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

fn zstd(bytes: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
    Ok(ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest))
}

fn brotli(bytes: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
    let parameters = brotli::enc::BrotliEncoderParams { quality: 5, ..Default::default() };
    let mut out = Vec::new();
    brotli::BrotliCompress(&mut &bytes[..], &mut out, &parameters)?;
    Ok(out)
}

fn main() -> Result<(), Box<dyn Error>> {
    for path in std::env::args().skip(1) {
        let bytes = std::fs::read(&path)?;
        println!("{path}, {} bytes", bytes.len());
        let mut found = [(0, Duration::MAX); ENCODERS.len()];
        for _ in 0..ROUNDS {
            for ((_, encode), (length, best)) in ENCODERS.iter().zip(&mut found) {
                let began = Instant::now();
                *length = encode(&bytes)?.len();
                *best = began.elapsed().min(*best);
            }
        }
        for ((name, _), (length, best)) in ENCODERS.iter().zip(found) {
            let share = length as f64 / bytes.len() as f64 * 100.0;
            let rate = bytes.len() as f64 / 1e6 / best.as_secs_f64();
            println!("  {name:20} {share:5.1}%, {rate:4.0} MB/s");
        }
    }
    Ok(())
}
