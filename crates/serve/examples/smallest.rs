//! The smallest server: `cargo run --release -p landau-serve --example smallest -- DIR [ADDRESS [BACKEND
//! [CERT.pem KEY.pem]]]`.

use landau_serve::{Config, Server, TlsFiles};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let mut config = Config::new(words.next().ok_or("no directory was given")?);
    if let Some(address) = words.next() {
        config.listen = vec![address.parse()?];
    }
    if let Some(backend) = words.next() {
        config.backend = backend.parse()?;
    }
    if let (Some(certificate), Some(key)) = (words.next(), words.next()) {
        config.tls.push(TlsFiles { certificate: certificate.into(), key: key.into() });
    }
    // Benchmarks set TCP_DEFER_ACCEPT when they compare with servers that set it by default.
    config.defer_accept_s = words.next().map(|word| word.parse()).transpose()?;
    let server = Server::start(config)?;
    server.release();
    server.join()?;
    Ok(())
}
