//! Obtains kernels as `--kernel` names them, and prints how long each took:
//! `cargo run -p landau-lab --example obtain -- CACHE debian:6.1 debian:6.12 vmlinuz …`
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints to the terminal")]

use landau_lab::kernel::Source;
use landau_lab::{debian, obtain};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let cache = PathBuf::from(words.next().unwrap_or_default());
    let mut tell = |text: &str| eprintln!("  {text}");
    let mut code = ExitCode::SUCCESS;
    for word in words {
        let start = Instant::now();
        if matches!(Source::parse(&word), Ok(Source::DebianList)) {
            match debian::available(&cache, &mut tell) {
                Ok(all) => all.iter().for_each(|one| println!("{} {} {}", one.word(), one.version, one.bytes)),
                Err(error) => println!("{word}: {error}"),
            }
            continue;
        }
        match obtain::obtain(&word, &cache, &mut tell) {
            Ok(kernel) => println!("{word} in {:.1} s: {kernel:#?}", start.elapsed().as_secs_f64()),
            Err(error) => {
                println!("{word} after {:.1} s: {error}", start.elapsed().as_secs_f64());
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}
