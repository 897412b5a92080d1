//! TLS. The certificates in `data/` are self-signed and their keys are public: `localhost`; and three authorities, as
//! `openssl req -x509` creates them: `authority` for 127.0.0.1, `elsewhere` for `elsewhere.example`, and `expired` for
//! 127.0.0.1 until 2021.

use crate::http2;
use crate::server::{failed, response, run, run_until, spec};
use landau_load::{Failure, LoadSpec};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/data").join(name)
}

/// A server with one of the certificates.
struct Server {
    url: String,
    accepted: Arc<AtomicU64>,
}

/// Returns the settings of a server with one of the certificates.
fn config(name: &str) -> ServerConfig {
    let certificate = CertificateDer::pem_file_iter(file(&format!("{name}.pem"))).unwrap();
    let certificates = certificate.map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(file(&format!("{name}.key.pem"))).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    versions.with_no_client_auth().with_single_cert(certificates, key).unwrap()
}

fn serve(name: &str) -> Server {
    let config = Arc::new(config(name));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://127.0.0.1:{}/", listener.local_addr().unwrap().port());
    let accepted = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&accepted);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            counter.fetch_add(1, Ordering::SeqCst);
            let session = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(session, stream.unwrap());
            std::thread::spawn(move || {
                let (mut buffer, mut matched) = ([0; 4096], 0);
                while let Ok(count @ 1..) = stream.read(&mut buffer) {
                    for byte in &buffer[..count] {
                        let is_next = *byte == b"\r\n\r\n"[matched];
                        matched = if is_next { matched + 1 } else { usize::from(*byte == b'\r') };
                        // The end of a request.
                        if matched == 4 {
                            matched = 0;
                            if stream.write_all(&response(20_000)).is_err() {
                                return;
                            }
                        }
                    }
                }
            });
        }
    });
    Server { url, accepted }
}

/// The message of the first handshake that fails. The first connection is replaced only after it failed.
fn rejection(certificate: &str, ca_file: &str) -> String {
    let server = serve(certificate);
    let spec = LoadSpec { ca_file: Some(file(ca_file)), connections: 1, ..spec(&server.url) };
    let outcome = run_until(&spec, &|| server.accepted.load(Ordering::SeqCst) > 1);
    assert_eq!(outcome.metrics.responses, 0);
    assert!(failed(&outcome).contains(&"connect"), "{:?}", outcome.gates);
    outcome.metrics.failure_details.get(&Failure::Tls).cloned().unwrap_or_default()
}

#[test]
fn https_responses_and_handshakes_are_measured() {
    let outcome = run(&LoadSpec { insecure: true, ..spec(&serve("localhost").url) });
    assert_eq!((outcome.metrics.responses, outcome.metrics.phases.setup_tls.count()), (100, 4));
    assert!(failed(&outcome).is_empty(), "{:?} {:?}", outcome.gates, outcome.metrics.failures);
}

/// The run once passed, because no connection counted as attempted.
#[test]
fn handshakes_that_never_end_fail_the_gate_connect() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    let outcome = run(&LoadSpec { insecure: true, timeout: Duration::from_millis(1500), ..spec(&url) });
    assert!(failed(&outcome).contains(&"connect"), "{:?}", outcome.gates);
    assert!(outcome.metrics.failures.contains_key(&Failure::Tls), "{:?}", outcome.metrics.failures);
}

/// A single request of 100 KB is more than the library buffers by default.
#[test]
fn requests_of_more_than_a_buffer_of_tls_are_sent() {
    let headers = vec![format!("X-Long: {}", "x".repeat(100_000))];
    let server = serve("localhost");
    let spec = LoadSpec { insecure: true, connections: 1, request_count: Some(5), headers, ..spec(&server.url) };
    let outcome = run(&spec);
    assert_eq!((outcome.metrics.responses, outcome.metrics.failures.len()), (5, 0), "{:?}", outcome.metrics.failures);
}

#[test]
fn listed_authority_is_accepted_as_a_server() {
    let ca_file = Some(file("authority.pem"));
    let outcome = run(&LoadSpec { ca_file, request_count: Some(10), ..spec(&serve("authority").url) });
    assert_eq!((outcome.metrics.responses, outcome.metrics.failures.len()), (10, 0), "{:?}", outcome.metrics.failures);
}

#[test]
fn a_server_that_does_not_agree_on_http2_is_named() {
    let server = serve("localhost");
    let spec = LoadSpec { insecure: true, http2: true, connections: 1, ..spec(&server.url) };
    let outcome = run_until(&spec, &|| server.accepted.load(Ordering::SeqCst) > 1);
    let detail = outcome.metrics.failure_details.get(&Failure::Tls).cloned().unwrap_or_default();
    assert!(outcome.metrics.responses == 0 && detail.contains("does not support HTTP/2"), "{detail}");
}

#[test]
fn other_certificates_are_rejected_with_a_reason() {
    for (certificate, ca_file, expected) in [
        // The server is reached by its address, but the certificate is for a name.
        ("localhost", "localhost.pem", "not valid for name"),
        ("authority", "localhost.pem", "trust it with --ca FILE"),
        ("elsewhere", "elsewhere.pem", "not valid for name"),
        ("expired", "expired.pem", "expired"),
    ] {
        let message = rejection(certificate, ca_file);
        assert!(message.contains(expected), "{certificate}: {message}");
    }
}

/// The SETTINGS of an HTTP/2 server may arrive with its last handshake message (0.5-RTT data). They once counted as
/// bytes without a request.
#[test]
fn settings_may_arrive_with_the_end_of_the_handshake() {
    let mut config = config("localhost");
    config.alpn_protocols = vec![b"h2".to_vec()];
    config.send_half_rtt_data = true;
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut session = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut settings = Vec::new();
            landau_wire::http2::frame::write_settings(&[], &mut settings);
            session.writer().write_all(&settings).unwrap();
            let mut stream = StreamOwned::new(session, stream.unwrap());
            std::thread::spawn(move || {
                http2::serve_connection(&mut stream, 2, &[], http2::respond, &http2::Seen::default())
            });
        }
    });
    let outcome = run(&LoadSpec { insecure: true, http2: true, pipeline: 2, connections: 2, ..spec(&url) });
    assert_eq!((outcome.metrics.responses, outcome.metrics.failures.len()), (100, 0), "{:?}", outcome.metrics.failures);
}
