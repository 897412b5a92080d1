//! The smallest server: `cargo run --release -p landau-serve --example smallest -- DIR [ADDRESS]`.

use landau_serve::{Config, Server};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let mut config = Config::new(words.next().ok_or("which folder?")?);
    if let Some(address) = words.next() {
        config.listen = vec![address.parse()?];
    }
    if let Some(mechanism) = words.next() {
        config.mechanism = mechanism.parse()?;
    }
    let server = Server::start(config)?;
    server.release();
    server.join()?;
    Ok(())
}
