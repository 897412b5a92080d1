//! Connections to the server, without and with TLS.

use super::PORTS;
use crate::workspace;
use anyhow::{Context, Result, anyhow};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

/// Longer than the server lets a client wait for anything.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The TLS configuration for each protocol.
pub(super) struct Tls {
    http1: Arc<ClientConfig>,
    http2: Arc<ClientConfig>,
}

impl Tls {
    pub(super) fn new() -> Result<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let file = workspace::root().join(super::CERTIFICATE[0]);
        let verifier = landau_trust::verifier(Some(&file), false, &provider).map_err(|error| anyhow!(error))?;
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let mut http1 = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
        // Otherwise the shared configuration would keep sessions for all clients.
        http1.resumption = rustls::client::Resumption::disabled();
        let mut http2 = http1.clone();
        http1.alpn_protocols = vec![b"http/1.1".to_vec()];
        http2.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self { http1: Arc::new(http1), http2: Arc::new(http2) })
    }
}

/// A connection, without or with TLS.
pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    /// Connects without TLS.
    pub(super) fn plain() -> Result<Self> {
        Ok(Self::Plain(connect(PORTS[0])?))
    }

    /// Returns the socket.
    pub(super) fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => &stream.sock,
        }
    }

    /// Connects with TLS. The handshake is made by the first read or write.
    pub(super) fn tls(tls: &Tls, is_http2: bool) -> Result<Self> {
        let config = Arc::clone(if is_http2 { &tls.http2 } else { &tls.http1 });
        let session = ClientConnection::new(config, ServerName::try_from("one.example")?)?;
        Ok(Self::Tls(Box::new(StreamOwned::new(session, connect(PORTS[1])?))))
    }
}

/// Connects to a port of the server.
pub(super) fn connect(port: u16) -> Result<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port)).context("connect")?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.set_nodelay(true)?;
    // Otherwise hundreds of thousands of connections would stay in TIME_WAIT.
    landau_sys::stream::set_reset_on_close(&stream)?;
    Ok(stream)
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}
