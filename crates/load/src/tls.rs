//! Secure connections, by rustls: what is encrypted goes between it and the socket, what is plain between it and us.

use crate::plan::Tls;
use crate::tally::Failure;
use crate::trust;
use landau_sys::stream;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// What all connections to a server share. Sessions are not resumed: each connection pays the whole handshake, which
/// is what is measured.
#[derive(Debug, Clone)]
pub(crate) struct Secrets {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Secrets {
    /// Reads the certificates to trust.
    pub(crate) fn new(tls: &Tls) -> Result<Self, String> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let verifier = trust::verifier(tls, &provider)?;
        let mut config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
        config.resumption = rustls::client::Resumption::disabled();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let name = ServerName::try_from(tls.name.clone()).map_err(|_| format!("{} is no server's name", tls.name))?;
        Ok(Self { config: Arc::new(config), name })
    }
}

/// A socket as rustls reads and writes it.
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

/// What a turn of receiving came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    /// So many plain bytes.
    Bytes(usize),
    /// None for now.
    Nothing,
    /// The stream has ended.
    End,
}

/// A secure connection.
#[derive(Debug)]
pub(crate) struct Session(ClientConnection);

type Outcome<T> = Result<T, (Failure, String)>;

impl Session {
    pub(crate) fn new(secrets: &Secrets) -> Outcome<Self> {
        let made = ClientConnection::new(Arc::clone(&secrets.config), secrets.name.clone());
        made.map(Self).map_err(|error| (Failure::Tls, error.to_string()))
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.0.is_handshaking()
    }

    /// Whether something waits to be sent.
    pub(crate) fn wants_write(&self) -> bool {
        self.0.wants_write()
    }

    /// Sends what the socket takes.
    pub(crate) fn flush(&mut self, fd: &OwnedFd) -> Outcome<()> {
        while self.0.wants_write() {
            match self.0.write_tls(&mut Socket(fd)) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err((Failure::Transfer, error.to_string())),
            }
        }
        Ok(())
    }

    /// Encrypts a request and sends what the socket takes.
    pub(crate) fn send(&mut self, fd: &OwnedFd, bytes: &[u8]) -> Outcome<()> {
        self.0.writer().write_all(bytes).map_err(|error| (Failure::Transfer, error.to_string()))?;
        self.flush(fd)
    }

    /// Plain bytes that have come. To be called again until it says that there are none.
    pub(crate) fn receive(&mut self, fd: &OwnedFd, plain: &mut [u8]) -> Outcome<Received> {
        loop {
            match self.0.reader().read(plain) {
                Ok(0) => return Ok(Received::End),
                Ok(count) => return Ok(Received::Bytes(count)),
                // The peer closed the socket without saying so in the protocol: an end all the same.
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
                // The peer is told why; that it may not listen changes nothing.
                let _ = self.0.write_tls(&mut Socket(fd));
                return Err((Failure::Tls, trust::words(&error)));
            }
            if self.0.is_handshaking() || self.0.wants_write() {
                self.flush(fd)?;
            }
        }
    }
}
