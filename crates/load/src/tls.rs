//! TLS by rustls: it exchanges encrypted bytes with the socket and plain bytes with the connection.

use crate::failure::{Failure, Reason};
use crate::plan::Tls;
use landau_sys::stream;
use landau_trust as trust;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The ALPN name of HTTP/2 over TLS (RFC 9113 section 3.2).
const HTTP2: &[u8] = b"h2";

/// The TLS settings of all connections to a server. Sessions are not resumed: each connection performs a full
/// handshake, which is measured.
#[derive(Debug, Clone)]
pub(crate) struct TlsConfig {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl TlsConfig {
    /// Reads the certificates to trust.
    pub(crate) fn new(tls: &Tls, http2: bool) -> Result<Self, String> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let verifier = trust::verifier(tls.ca_file.as_deref(), tls.insecure, &provider)?;
        let mut config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
        config.resumption = rustls::client::Resumption::disabled();
        config.alpn_protocols = vec![if http2 { HTTP2.to_vec() } else { b"http/1.1".to_vec() }];
        let name = ServerName::try_from(tls.name.clone())
            .map_err(|_| format!("{}: not a name that a certificate can be valid for", tls.name))?;
        Ok(Self { config: Arc::new(config), name })
    }
}

/// A socket that rustls can read and write.
struct Socket<'a>(&'a OwnedFd);

fn io(error: landau_sys::Error) -> std::io::Error {
    error.into()
}

impl Read for Socket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        stream::receive(self.0, buffer).map_err(io)
    }
}

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        stream::send(self.0, bytes, false).map_err(io)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The result of receiving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    /// This number of plain bytes.
    Bytes(usize),
    /// Nothing for now.
    Nothing,
    /// The end of the stream.
    End,
}

/// The TLS session of a connection.
#[derive(Debug)]
pub(crate) struct TlsSession(ClientConnection);

type Result<T, E = Reason> = std::result::Result<T, E>;

impl TlsSession {
    pub(crate) fn new(config: &TlsConfig) -> Result<Self> {
        let created = ClientConnection::new(Arc::clone(&config.config), config.name.clone());
        let mut session = created.map_err(|error| (Failure::Tls, error.to_string()))?;
        // Bytes that the socket does not accept are kept, as without TLS: at most the requests in flight.
        session.set_buffer_limit(None);
        Ok(Self(session))
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.0.is_handshaking()
    }

    /// Returns whether the server has agreed to HTTP/2.
    pub(crate) fn speaks_http2(&self) -> bool {
        self.0.alpn_protocol() == Some(HTTP2)
    }

    /// Returns whether encrypted bytes wait to be sent.
    pub(crate) fn wants_write(&self) -> bool {
        self.0.wants_write()
    }

    /// Sends as many encrypted bytes as the socket accepts.
    pub(crate) fn flush(&mut self, fd: &OwnedFd) -> Result<()> {
        while self.0.wants_write() {
            match self.0.write_tls(&mut Socket(fd)) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err((Failure::Transfer, error.to_string())),
            }
        }
        Ok(())
    }

    /// Encrypts plain bytes and sends what the socket accepts.
    pub(crate) fn send(&mut self, fd: &OwnedFd, bytes: &[u8]) -> Result<()> {
        self.0.writer().write_all(bytes).map_err(|error| (Failure::Transfer, error.to_string()))?;
        self.flush(fd)
    }

    /// Receives and decrypts bytes. Must be called until it returns `Nothing` or `End`.
    pub(crate) fn receive(&mut self, fd: &OwnedFd, plain: &mut [u8]) -> Result<Received> {
        loop {
            match self.0.reader().read(plain) {
                Ok(0) => return Ok(Received::End),
                Ok(count) => return Ok(Received::Bytes(count)),
                // The peer closed the socket without a close_notify alert, which counts as an end, too.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(Received::End),
                Err(error) if error.kind() != ErrorKind::WouldBlock => {
                    return Err((Failure::Tls, error.to_string()));
                }
                Err(_) => {}
            }
            match self.0.read_tls(&mut Socket(fd)) {
                Ok(0) if self.0.is_handshaking() => return Ok(Received::End),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Received::Nothing),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                    return Err((Failure::Reset, error.to_string()));
                }
                Err(error) => return Err((Failure::Transfer, error.to_string())),
            }
            if let Err(error) = self.0.process_new_packets() {
                // Send the alert to the peer, which may have closed already.
                let _ = self.0.write_tls(&mut Socket(fd));
                return Err((Failure::Tls, trust::describe(&error)));
            }
            if self.0.is_handshaking() || self.0.wants_write() {
                self.flush(fd)?;
            }
        }
    }
}
