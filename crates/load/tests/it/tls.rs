//! Secure connections. The certificate in `data/` is signed by itself, for `localhost`, and its key is no secret.

use crate::server::{answer, failed, run, wish};
use landau_load::{Failure, Wish};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/data").join(name)
}

/// A server that answers each request; its port.
fn serve() -> u16 {
    let certificates = CertificateDer::pem_file_iter(file("localhost.pem")).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(file("localhost.key.pem")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(versions.with_no_client_auth().with_single_cert(certificates, key).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let session = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(session, stream.unwrap());
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                // Each request of these tests comes in one piece.
                while stream.read(&mut buffer).is_ok_and(|count| count > 0) {
                    if stream.write_all(&answer(20_000)).is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

#[test]
fn a_secure_server_is_loaded_and_its_handshakes_are_timed() {
    let outcome = run(&Wish { insecure: true, ..wish(&format!("https://127.0.0.1:{}/", serve())) });
    assert_eq!((outcome.tally.answers, outcome.tally.phases.tls.count()), (100, 4));
    assert!(failed(&outcome).is_empty(), "{:?} {:?}", outcome.gates, outcome.tally.failures);
}

#[test]
fn a_certificate_that_nobody_vouches_for_is_a_failure_of_its_own_kind() {
    let timeout = std::time::Duration::from_millis(500);
    let url = format!("https://127.0.0.1:{}/", serve());
    let outcome = run(&Wish { timeout, roots: Some(file("localhost.pem")), ..wish(&url) });
    assert_eq!(outcome.tally.answers, 0);
    // It is for `localhost`, and not for an address.
    assert!(outcome.tally.failures.contains_key(&Failure::Tls), "{:?}", outcome.tally.failures);
    assert!(failed(&outcome).contains(&"connect"));
}
