//! Tests of STARTTLS with a rustls server. The certificates are those of the load generator's tests: self-signed, with
//! private keys that are public.

use crate::support::{Silent, delivery};
use landau_mail::{Encryption, Envelope, Mode, Outcome, Source, deliver};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// The behaviour of a server towards TLS.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Conduct {
    /// TLS works.
    Works,
    /// TLS is not offered.
    NotOffered,
    /// STARTTLS is answered with 454.
    Refused,
    /// The handshake fails.
    Broken,
    /// The server closes the connection during the handshake.
    HangsUp,
}

/// The content of each message, and whether it arrived encrypted.
type Messages = Arc<Mutex<Vec<(Vec<u8>, bool)>>>;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../load/tests/it/data").join(name)
}

/// Reads a line.
fn line(stream: &mut impl Read) -> std::io::Result<Vec<u8>> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    while !line.ends_with(b"\r\n") {
        stream.read_exact(&mut byte)?;
        line.push(byte[0]);
    }
    Ok(line)
}

/// Serves SMTP commands. Returns whether the client requested TLS.
fn talk(
    stream: &mut (impl Read + Write),
    conduct: Conduct,
    is_encrypted: bool,
    messages: &Messages,
) -> std::io::Result<bool> {
    let offers = conduct != Conduct::NotOffered && !is_encrypted;
    loop {
        let command = line(stream)?;
        let answer: &[u8] = match &command[..4] {
            b"EHLO" if offers => b"250-a\r\n250-PIPELINING\r\n250 STARTTLS\r\n",
            b"EHLO" => b"250-a\r\n250 PIPELINING\r\n",
            b"STAR" if conduct == Conduct::Refused => b"454 4.7.0 not now\r\n",
            b"STAR" => {
                stream.write_all(b"220 go\r\n")?;
                return Ok(true);
            }
            b"DATA" => {
                stream.write_all(b"354 go on\r\n")?;
                let mut content = Vec::new();
                while !content.ends_with(b"\r\n.\r\n") {
                    content.extend(line(stream)?);
                }
                messages.lock().unwrap().push((content, is_encrypted));
                b"250 ok\r\n"
            }
            b"QUIT" => {
                stream.write_all(b"221 bye\r\n")?;
                return Ok(false);
            }
            _ => b"250 ok\r\n",
        };
        stream.write_all(answer)?;
    }
}

fn serve(
    mut stream: TcpStream,
    conduct: Conduct,
    config: &Arc<ServerConfig>,
    messages: &Messages,
) -> std::io::Result<()> {
    stream.write_all(b"220 a\r\n")?;
    if !talk(&mut stream, conduct, false, messages)? {
        return Ok(());
    }
    if matches!(conduct, Conduct::Broken | Conduct::HangsUp) {
        let mut hello = [0; 5];
        stream.read_exact(&mut hello)?;
        if conduct == Conduct::HangsUp {
            return Ok(());
        }
        return stream.write_all(b"this is no TLS record");
    }
    let session = ServerConnection::new(Arc::clone(config)).unwrap();
    talk(&mut StreamOwned::new(session, stream), conduct, true, messages).map(drop)
}

/// Starts a server for `localhost`. Returns its port and the messages that it receives.
fn start(conduct: Conduct) -> (u16, Messages) {
    let certificates = CertificateDer::pem_file_iter(file("localhost.pem")).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(file("localhost.key.pem")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(versions.with_no_client_auth().with_single_cert(certificates, key).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, messages) = (listener.local_addr().unwrap().port(), Messages::default());
    let received = Arc::clone(&messages);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (config, received) = (Arc::clone(&config), Arc::clone(&received));
            std::thread::spawn(move || serve(stream, conduct, &config, &received));
        }
    });
    (port, messages)
}

/// Delivers a message to 8 recipients.
fn run(port: u16, encryption: Encryption) -> (Outcome, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let letter = folder.path().join("letter");
    // More than one record of TLS, and more than rustls keeps in memory.
    let text = format!("Subject: a\n\n{}", "0123456789\n".repeat(20_000));
    std::fs::write(&letter, &text).unwrap();
    let list = folder.path().join("list");
    std::fs::write(&list, "u@a.test\n".repeat(8)).unwrap();
    let mut delivery = delivery(folder.path(), Source::File(list));
    delivery.message = Some(letter);
    delivery.envelope = Envelope::new("s@a.test", Mode::Data);
    delivery.via = Some(format!("localhost:{port}"));
    delivery.encryption = encryption;
    let content = text.replace('\n', "\r\n") + ".\r\n";
    (deliver(&delivery, &mut Silent, &|| false).unwrap(), content.into_bytes())
}

fn required(ca_file: Option<&str>, is_insecure: bool) -> Encryption {
    Encryption::Required { ca_file: ca_file.map(file), is_insecure }
}

#[test]
fn messages_come_encrypted_and_whole() {
    let (port, messages) = start(Conduct::Works);
    for encryption in [Encryption::Opportunistic, required(Some("localhost.pem"), false), required(None, true)] {
        let (outcome, content) = run(port, encryption);
        // A connection that is no longer needed may be closed between its handshake and the second EHLO.
        let is_whole = outcome.recipients.done == 8 && outcome.encrypted >= outcome.connections;
        assert!(is_whole && outcome.connections > 0, "{} {:?}", outcome.encrypted, outcome.lost);
        let received = std::mem::take(&mut *messages.lock().unwrap());
        assert_eq!(received.len(), 8);
        assert!(received.iter().all(|(text, is_encrypted)| *is_encrypted && *text == content));
        let tls = outcome.phases.all().iter().find(|(name, _)| *name == "tls").unwrap().1.count();
        assert_eq!(tls, outcome.encrypted);
    }
}

#[test]
fn mail_goes_without_tls_only_where_tls_is_not_required() {
    for (conduct, reason) in [
        (Conduct::NotOffered, "does not offer STARTTLS"),
        (Conduct::Refused, "refused STARTTLS with 454"),
        (Conduct::Broken, "TLS failed: "),
        (Conduct::HangsUp, "in the TLS handshake"),
    ] {
        let (port, messages) = start(conduct);
        let (outcome, content) = run(port, Encryption::Opportunistic);
        assert_eq!((outcome.recipients.done, outcome.encrypted), (8, 0), "{:?}", outcome.lost);
        let received = std::mem::take(&mut *messages.lock().unwrap());
        assert!(received.len() == 8 && received.iter().all(|(text, is_encrypted)| !is_encrypted && *text == content));
        let (outcome, _) = run(port, required(None, true));
        assert_eq!((outcome.recipients.done, outcome.recipients.left), (0, 8));
        assert!(outcome.lost.iter().any(|(text, _)| text.contains(reason)), "{reason}: {:?}", outcome.lost);
        assert!(messages.lock().unwrap().is_empty());
    }
}

#[test]
fn a_certificate_of_another_authority_or_for_another_name_is_refused() {
    let (port, messages) = start(Conduct::Works);
    let (outcome, _) = run(port, required(Some("authority.pem"), false));
    assert_eq!((outcome.recipients.done, outcome.encrypted), (0, 0));
    assert!(outcome.lost.iter().any(|(text, _)| text.starts_with("TLS failed: ")), "{:?}", outcome.lost);
    assert!(messages.lock().unwrap().is_empty());
    // With --tls never, the client talks to the same server in plain text.
    let (outcome, _) = run(port, Encryption::Never);
    assert_eq!((outcome.recipients.done, outcome.encrypted), (8, 0));
}
