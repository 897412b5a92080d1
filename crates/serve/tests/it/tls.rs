//! TLS through the whole server, with rustls' own client. It buffers, and is a different state machine from the
//! server's.

use crate::http2::H2;
use crate::support::{LONG, Site, kinds, set_rules, uninterrupted, until};
use crate::upstream;
use landau_serve::{Accepting, Config, Listen, Server, TlsFiles};
use landau_wire::http2::Code;
use landau_wire::http2::frame;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, ProtocolVersion, SignatureScheme, StreamOwned};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Certificates made for these tests with `openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days
/// 36500 -subj /CN=NAME -addext subjectAltName=DNS:NAME`; `version1` with `openssl x509 -req`, without extensions. The
/// keys protect nothing.
fn files(name: &str) -> TlsFiles {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/certificates");
    TlsFiles { certificate: folder.join(format!("{name}.pem")), key: folder.join(format!("{name}-key.pem")) }
}

/// The record type of a handshake.
const HANDSHAKE: u8 = 0x16;

/// Accepts every certificate: the tests check which one is presented.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}

fn client(version: &'static rustls::SupportedProtocolVersion) -> Arc<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version]).unwrap();
    let mut config = builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody)).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(config)
}

pub(crate) type Stream = StreamOwned<ClientConnection, TcpStream>;

fn connect(address: SocketAddr, config: &Arc<ClientConfig>, host: &str) -> Stream {
    over(TcpStream::connect(address).unwrap(), config, host)
}

fn over(socket: TcpStream, config: &Arc<ClientConfig>, host: &str) -> Stream {
    socket.set_read_timeout(Some(LONG)).unwrap();
    let name = ServerName::try_from(host.to_owned()).unwrap();
    StreamOwned::new(ClientConnection::new(config.clone(), name).unwrap(), socket)
}

/// Returns the response to one request over TLS on this connection, with further fields.
#[track_caller]
pub(crate) fn get_with(socket: TcpStream, target: &str, fields: &str) -> Vec<u8> {
    let mut stream = over(socket, &client(&rustls::version::TLS13), "one.example");
    ask(&mut stream, target, &format!("Connection: close\r\n{fields}"), true)
}

#[track_caller]
fn get(stream: &mut Stream, target: &str, last: bool) -> Vec<u8> {
    ask(stream, target, if last { "Connection: close\r\n" } else { "" }, last)
}

#[track_caller]
fn ask(stream: &mut Stream, target: &str, fields: &str, last: bool) -> Vec<u8> {
    let mut got = Vec::new();
    if let Err(error) = try_ask(stream, target, fields, last, &mut got) {
        let phase = if stream.conn.is_handshaking() { "in the handshake" } else { "after the handshake" };
        panic!("GET {target} {phase}: {error}; so far: {}", got.escape_ascii());
    }
    got
}

/// Reads a response; an end without `close_notify` is an error.
fn try_ask(stream: &mut Stream, target: &str, fields: &str, last: bool, got: &mut Vec<u8>) -> std::io::Result<()> {
    stream.write_all(format!("GET {target} HTTP/1.1\r\nHost: one.example\r\n{fields}\r\n").as_bytes())?;
    if last {
        return stream.read_to_end(got).map(drop);
    }
    let mut byte = [0];
    while !got.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        got.push(byte[0]);
    }
    let head = String::from_utf8(got.clone()).unwrap();
    let len = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap().parse().unwrap();
    let mut body = vec![0; len];
    stream.read_exact(&mut body)?;
    got.extend(body);
    Ok(())
}

pub(crate) fn site(kind: Accepting, large: &[u8], change: impl FnOnce(&mut Config)) -> Site {
    Site::new(&[("a", b"hello"), ("large", large)], |config| {
        config.accepting = kind;
        over_tls(config);
        change(config);
    })
}

pub(crate) fn over_tls(config: &mut Config) {
    config.listen = vec!["tls:127.0.0.1:0".parse().unwrap()];
    config.tls = vec![files("one"), files("two")];
}

/// Returns a client that has received a response.
pub(crate) fn get_established(site: &Site) -> Stream {
    let mut stream = connect(site.address, &client(&rustls::version::TLS13), "one.example");
    assert!(get(&mut stream, "/a", false).ends_with(b"hello"));
    stream
}

#[test]
fn both_versions_serve_files_and_send_close_notify() {
    let large: Vec<u8> = (0..3_000_000_u32).map(|at| ((at * 7) >> 3) as u8).collect();
    for kind in kinds() {
        let site = site(kind, &large, |_| {});
        for (version, number) in
            [(&rustls::version::TLS12, ProtocolVersion::TLSv1_2), (&rustls::version::TLS13, ProtocolVersion::TLSv1_3)]
        {
            let mut stream = connect(site.address, &client(version), "one.example");
            for _ in 0..3 {
                assert!(get(&mut stream, "/a", false).ends_with(b"\r\n\r\nhello"), "{kind:?}");
            }
            assert_eq!(stream.conn.protocol_version(), Some(number));
            assert_eq!(stream.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
            assert!(get(&mut stream, "/large", false).ends_with(&large));
            assert!(get(&mut stream, "/large", true).ends_with(&large));
        }
        assert_eq!(site.end().tls_handshakes, 2);
    }
}

/// Every combination serves over TLS.
#[test]
fn tls_works_with_every_way_of_accepting_and_every_backend() {
    for (_, accepting) in Accepting::ALL.iter().filter(|(_, one)| *one != Accepting::Multishot) {
        let accepting = *accepting;
        for backend in landau_reactor::backends() {
            // The null backend reports everything as ready and never blocks.
            if backend == landau_reactor::Backend::Null {
                continue;
            }
            let site = site(accepting, b"", |config| {
                (config.backend, config.workers) = (backend, 2);
            });
            for _ in 0..4 {
                let mut stream = connect(site.address, &client(&rustls::version::TLS13), "one.example");
                assert!(get(&mut stream, "/a", false).ends_with(b"hello"), "{accepting:?} {backend}");
                assert!(get(&mut stream, "/a", true).ends_with(b"hello"), "{accepting:?} {backend}");
            }
            site.end();
        }
    }
}

/// Records may arrive in pieces of any size.
#[test]
fn records_may_arrive_byte_by_byte() {
    for kind in kinds() {
        let site = site(kind, b"", |_| {});
        let mut connection =
            ClientConnection::new(client(&rustls::version::TLS13), ServerName::try_from("one.example").unwrap())
                .unwrap();
        let mut socket = TcpStream::connect(site.address).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(LONG)).unwrap();
        connection.writer().write_all(b"GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut got = Vec::new();
        loop {
            let mut bytes = Vec::new();
            while connection.wants_write() {
                connection.write_tls(&mut bytes).unwrap();
            }
            for byte in bytes {
                socket.write_all(&[byte]).unwrap();
            }
            if uninterrupted(|| connection.read_tls(&mut socket)).unwrap() == 0 {
                break;
            }
            let state = connection.process_new_packets().unwrap();
            let mut plain = vec![0; state.plaintext_bytes_to_read()];
            connection.reader().read_exact(&mut plain).unwrap();
            got.extend(plain);
            if state.peer_has_closed() {
                break;
            }
        }
        assert!(got.ends_with(b"hello"), "{}", String::from_utf8_lossy(&got));
        site.end();
    }
}

fn shown(address: SocketAddr, host: &str) -> Vec<u8> {
    let mut stream = connect(address, &client(&rustls::version::TLS13), host);
    get(&mut stream, "/a", false);
    stream.conn.peer_certificates().unwrap()[0].to_vec()
}

#[test]
fn the_certificate_is_selected_by_host_name() {
    for kind in kinds() {
        let site = site(kind, b"", |_| {});
        let (one, two) = (shown(site.address, "one.example"), shown(site.address, "two.example"));
        assert_ne!(one, two);
        assert_eq!((&shown(site.address, "sub.two.example"), &shown(site.address, "a.sub.two.example")), (&two, &one));
        assert_eq!(shown(site.address, "stranger.example"), one);
        site.end();
    }
}

#[test]
fn sessions_are_resumed() {
    for kind in kinds() {
        let site = site(kind, b"", |config| config.workers = 2);
        for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
            let config = client(version);
            for _ in 0..5 {
                get(&mut connect(site.address, &config, "one.example"), "/a", true);
            }
        }
        let totals = site.end();
        assert_eq!((totals.tls_handshakes, totals.tls_resumed), (10, 8));
    }
}

#[test]
fn reloaded_certificates_apply_to_new_connections() {
    for kind in kinds() {
        let room = tempfile::tempdir().unwrap();
        let own = TlsFiles { certificate: room.path().join("c.pem"), key: room.path().join("k.pem") };
        let put = |name: &str| {
            std::fs::copy(files(name).certificate, &own.certificate).unwrap();
            std::fs::copy(files(name).key, &own.key).unwrap();
        };
        put("one");
        let site = site(kind, b"", |config| config.tls = vec![own.clone()]);
        let mut old = connect(site.address, &client(&rustls::version::TLS13), "one.example");
        assert!(get(&mut old, "/a", false).ends_with(b"hello"));
        let one = shown(site.address, "one.example");
        put("two");
        site.server().remote().reload_certificates();
        let two = shown(site.address, "one.example");
        assert_ne!(one, two);
        assert!(get(&mut old, "/a", true).ends_with(b"hello"));
        std::fs::write(&own.key, "nonsense").unwrap();
        site.server().remote().reload_certificates();
        std::fs::copy(files("one").key, &own.key).unwrap();
        site.server().remote().reload_certificates();
        assert_eq!(shown(site.address, "one.example"), two);
        site.end();
    }
}

#[test]
fn clients_without_tls_are_rejected() {
    for kind in kinds() {
        let site = site(kind, b"", |_| {});
        let ask = |bytes: &[u8]| {
            let mut socket = TcpStream::connect(site.address).unwrap();
            socket.set_read_timeout(Some(LONG)).unwrap();
            socket.write_all(bytes).unwrap();
            let mut got = Vec::new();
            // A reset is also an end.
            let _ = socket.read_to_end(&mut got);
            got
        };
        assert!(ask(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").starts_with(b"HTTP/1.1 400 "));
        assert_eq!(ask(b"\0\0\0\0"), b"");
        // A fatal alert.
        for nonsense in [&[HANDSHAKE, 3, 1, 0, 4, 1, 0, 0, 0][..], &[HANDSHAKE, 3, 1, 0xff, 0xff, 1, 2, 3]] {
            let got = ask(nonsense);
            assert!(got.starts_with(&[0x15, 3]), "{nonsense:?} {got:?}");
        }
        assert_eq!(site.end().tls_failed, 4);
    }
}

/// Both protocols at the same address, selected by ALPN. A client that offers both gets HTTP/2.
#[test]
fn http2_is_agreed_on_by_alpn() {
    let large = vec![b'x'; 300_000];
    for kind in kinds() {
        for (is_offered, offers, expected) in [
            (true, &[&b"http/1.1"[..], b"h2"][..], &b"h2"[..]),
            (true, &[b"h2"], b"h2"),
            (true, &[b"http/1.1"], b"http/1.1"),
            (false, &[b"http/1.1", b"h2"], b"http/1.1"),
        ] {
            let site = site(kind, &large, |config| config.http2 = is_offered);
            let mut config = Arc::unwrap_or_clone(client(&rustls::version::TLS13));
            config.alpn_protocols = offers.iter().map(|name| name.to_vec()).collect();
            let mut stream = connect(site.address, &Arc::new(config), "one.example");
            while stream.conn.is_handshaking() {
                stream.conn.complete_io(&mut stream.sock).unwrap();
            }
            assert_eq!(stream.conn.alpn_protocol(), Some(expected));
            if expected == b"h2" {
                let mut client = H2::over(stream, &[], 0);
                for id in [1, 3, 5] {
                    client.get(id, "/large");
                    client.write(|out| {
                        frame::write_window_update(id, 1 << 20, out);
                        frame::write_window_update(0, 1 << 20, out);
                    });
                }
                assert!([1, 3, 5].iter().all(|&id| client.response(id).body == large));
                let mut out = Vec::new();
                frame::write_go_away(0, Code::NO_ERROR, &mut out);
                client.send(&out);
                assert_eq!(client.end(), None, "it is the client that ends the connection");
                drop(client);
            } else {
                assert!(get(&mut stream, "/large", true).ends_with(&large));
                drop(stream);
            }
            let totals = site.end();
            assert_eq!((totals.http2_connections, totals.tls_failed), (u64::from(expected == b"h2"), 0));
        }
    }
}

/// A server that forwards requests once offered only HTTP/1.1, because it could not forward those of HTTP/2.
#[test]
fn requests_of_http2_are_passed_on_over_tls() {
    for kind in kinds() {
        let upstream = upstream::echoes(1);
        let site = site(kind, b"", |config| set_rules(config, &upstream.rule()));
        let mut config = Arc::unwrap_or_clone(client(&rustls::version::TLS13));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let mut stream = connect(site.address, &Arc::new(config), "one.example");
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).unwrap();
        }
        assert_eq!(stream.conn.alpn_protocol(), Some(&b"h2"[..]));
        let mut client = H2::over(stream, &[], 0);
        let body = "b".repeat(200_000);
        for id in [1, 3] {
            client.ask(id, "POST", "/api/x", &[("content-length", "200000")], false);
            client.write(|out| {
                frame::write_window_update(id, 1 << 20, out);
                frame::write_window_update(0, 1 << 20, out);
            });
            client.upload(id, body.as_bytes(), true);
            let got = String::from_utf8(client.response(id).body).unwrap();
            assert!(got.starts_with("POST /api/x HTTP/1.1\r\nHost: x\r\n") && got.ends_with(&body), "{}", &got[..99]);
            assert!(got.contains("X-Forwarded-Proto: https\r\n"));
        }
        drop(client);
        let totals = site.end();
        assert_eq!((totals.http2_connections, totals.upstream_connections, totals.upstream_errors), (1, 1, 0));
        upstream.end();
    }
}

#[test]
fn unknown_alpn_protocols_are_rejected() {
    for kind in kinds() {
        let site = site(kind, b"", |_| {});
        let mut config = Arc::unwrap_or_clone(client(&rustls::version::TLS13));
        config.alpn_protocols = vec![b"h3".to_vec()];
        let mut stream = connect(site.address, &Arc::new(config), "one.example");
        let error = uninterrupted(|| stream.read(&mut [0; 16])).unwrap_err().to_string();
        assert!(error.contains("NoApplicationProtocol"), "{error}");
        assert_eq!(site.end().tls_failed, 1);
    }
}

#[test]
fn slow_handshakes_are_closed() {
    for kind in kinds() {
        let site = site(kind, b"", |config| config.timeouts.head = std::time::Duration::from_millis(50));
        let mut client = site.connect();
        client.send(&[HANDSHAKE, 3, 1]);
        assert_eq!(client.read_some(&mut [0; 16]), 0, "{kind:?}");
        assert_eq!(site.end().heads_late, 1);
    }
}

/// Clients that connected before the drain get their responses, even if they had sent nothing by then.
#[test]
fn connections_waiting_at_the_end_are_answered() {
    for accepting in kinds().into_iter().chain([Accepting::Handed]) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), "hello").unwrap();
        let mut config = Config::new(folder.path());
        config.listen = vec!["tls:127.0.0.1:0".parse().unwrap()];
        (config.tls, config.accepting, config.workers) = (vec![files("one")], accepting, 2);
        (config.timeouts.drain, config.timeouts.head) = (2 * LONG, 2 * LONG);
        let server = Server::start(config).unwrap();
        let Listen::Tcp(address) = *server.addresses()[0].address().0 else { panic!("it listens at TCP") };
        let mut waiting: Vec<_> =
            (0..4).map(|_| connect(address, &client(&rustls::version::TLS13), "one.example")).collect();
        server.drain();
        server.release();
        for stream in &mut waiting {
            assert!(get(stream, "/a", true).ends_with(b"hello"), "{accepting:?}");
        }
        drop(waiting);
        assert_eq!(server.join().unwrap().succeeded, 4, "{accepting:?}");
    }
}

/// A client over the limit gets an alert, and no reset if it sends its first flight later.
#[test]
fn refused_clients_get_an_alert() {
    for kind in kinds() {
        let site = site(kind, b"", |config| config.connections = Some(1));
        let _first = get_established(&site);
        let mut second = site.connect();
        until("it was not refused", || site.server().totals().refused_full == 1);
        second.stream.write_all(&[HANDSHAKE, 3, 1, 0, 1, 1]).unwrap();
        let mut alert = Vec::new();
        second.stream.read_to_end(&mut alert).unwrap();
        // A fatal alert, internal_error.
        assert_eq!(alert, [21, 3, 3, 0, 2, 2, 80], "{kind:?}");
    }
}

/// A client that does not read holds at most one buffer, and is closed.
#[test]
fn a_client_that_does_not_read_is_closed() {
    let large = vec![b'x'; 40_000_000];
    for kind in kinds() {
        let site = site(kind, &large, |config| config.timeouts.send = std::time::Duration::from_millis(300));
        let mut stream = connect(site.address, &client(&rustls::version::TLS13), "one.example");
        stream.write_all(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        stream.flush().unwrap();
        until("it is kept", || site.server().totals().slow_closed > 0);
        site.end();
    }
}

#[test]
fn unusable_certificates_are_errors() {
    let room = tempfile::tempdir().unwrap();
    let empty: PathBuf = room.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    let (encrypted, old, pipe) = (room.path().join("enc.pem"), room.path().join("old.pem"), room.path().join("pipe"));
    std::fs::write(&encrypted, "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----\n")
        .unwrap();
    let head = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\nAAAA\n";
    std::fs::write(&old, format!("{head}-----END RSA PRIVATE KEY-----\n")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let pair = |certificate: &Path, key: &Path| TlsFiles { certificate: certificate.into(), key: key.into() };
    let (one, two) = (files("one"), files("two"));
    let cases = [
        (vec![], "cannot listen at tls:127.0.0.1:0: no certificate; add --tls"),
        (vec![pair(&empty, &one.key)], "no certificate in this file"),
        (vec![pair(&one.certificate, &empty)], "no private key in this file"),
        (vec![pair(&one.certificate, &encrypted)], "the key is encrypted; write a copy without a password: openssl"),
        (vec![pair(&one.certificate, &old)], "the key is encrypted"),
        // This FIFO has no writer; opening it once waited for ever.
        (vec![pair(&one.certificate, &pipe)], "not a regular file"),
        (vec![pair(&one.certificate, &two.key)], "the key does not belong to the certificate"),
        (vec![pair(Path::new("/nowhere"), &two.key)], "tls /nowhere: "),
        (
            vec![files("version1")],
            "version1.pem: the certificate uses X.509 version 1, which has no host names; create",
        ),
    ];
    for (tls, expected) in cases {
        let mut config = Config::new(room.path());
        config.listen = vec![Listen::Tls(Box::new("127.0.0.1:0".parse().unwrap()))];
        config.tls = tls;
        let error = Server::start(config).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
