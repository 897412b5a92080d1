//! Secure connections. The certificates in `data/` are signed by themselves, and their keys are no secret: one for
//! `localhost`; three authorities, as `openssl req -x509` makes them, for 127.0.0.1, for `elsewhere.example`, and for
//! 127.0.0.1 until 2021.

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

/// A server with that certificate that answers each request; its port.
fn serve(name: &str) -> u16 {
    let certificate = CertificateDer::pem_file_iter(file(&format!("{name}.pem"))).unwrap();
    let certificates = certificate.map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(file(&format!("{name}.key.pem"))).unwrap();
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
    let outcome = run(&Wish { insecure: true, ..wish(&format!("https://127.0.0.1:{}/", serve("localhost"))) });
    assert_eq!((outcome.tally.answers, outcome.tally.phases.tls.count()), (100, 4));
    assert!(failed(&outcome).is_empty(), "{:?} {:?}", outcome.gates, outcome.tally.failures);
}

#[test]
fn a_certificate_that_nobody_vouches_for_is_a_failure_of_its_own_kind() {
    let timeout = std::time::Duration::from_millis(500);
    let url = format!("https://127.0.0.1:{}/", serve("localhost"));
    let outcome = run(&Wish { timeout, roots: Some(file("localhost.pem")), ..wish(&url) });
    assert_eq!(outcome.tally.answers, 0);
    // It is for `localhost`, and not for an address.
    assert!(outcome.tally.failures.contains_key(&Failure::Tls), "{:?}", outcome.tally.failures);
    assert!(failed(&outcome).contains(&"connect"));
}

/// What `openssl req -x509` makes is an authority, which is no server; but whoever names it itself means it.
#[test]
fn an_authority_is_believed_where_it_was_named_itself_and_in_nothing_else() {
    let to = |name: &str, roots: &str| {
        let timeout = std::time::Duration::from_millis(500);
        let url = format!("https://127.0.0.1:{}/", serve(name));
        let outcome = run(&Wish { timeout, roots: Some(file(roots)), request_count: Some(10), ..wish(&url) });
        let said = outcome.tally.details.get(&Failure::Tls).cloned().unwrap_or_default();
        (outcome.tally.answers, said)
    };
    assert_eq!(to("authority", "authority.pem"), (10, String::new()));
    for (name, roots, word) in [
        ("authority", "localhost.pem", "trust it itself with --ca FILE"),
        ("elsewhere", "elsewhere.pem", "not valid for name"),
        ("expired", "expired.pem", "expired"),
    ] {
        let (answers, said) = to(name, roots);
        assert!(answers == 0 && said.contains(word), "{name}: {said}");
    }
}
