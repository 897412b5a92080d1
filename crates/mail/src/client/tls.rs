//! TLS after STARTTLS, by rustls: encrypted bytes on one side, plain bytes on the other.

use super::Security;
use landau_trust as trust;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// Whether connections are encrypted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Encryption {
    /// They are not.
    #[default]
    Never,
    /// They are if the server can. Any certificate is accepted: somebody between here and the server who could present
    /// another one could as well remove the offer.
    Opportunistic,
    /// They are, or nothing is sent.
    Required {
        /// PEM file of the certificates to trust; those of the system if there is none.
        ca_file: Option<PathBuf>,
        /// Whether any certificate is accepted.
        is_insecure: bool,
    },
}

/// How connections are encrypted.
#[derive(Debug, Clone)]
pub(crate) struct TlsConfig {
    pub(crate) security: Security,
    /// None if connections are not encrypted.
    config: Option<Arc<ClientConfig>>,
}

impl TlsConfig {
    /// Reads the certificates to trust. Sessions are resumed: a site is usually connected to more than once.
    pub(crate) fn new(encryption: &Encryption) -> Result<Self, String> {
        let (security, ca_file, is_insecure) = match encryption {
            Encryption::Never => return Ok(Self { security: Security::Plain, config: None }),
            Encryption::Opportunistic => (Security::Opportunistic, None, true),
            Encryption::Required { ca_file, is_insecure } => (Security::Required, ca_file.as_deref(), *is_insecure),
        };
        let provider = Arc::new(ring::default_provider());
        let verifier = trust::verifier(ca_file, is_insecure, &provider)?;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
        Ok(Self { security, config: Some(Arc::new(config)) })
    }
}

/// The TLS session of a connection.
#[derive(Debug)]
pub(crate) struct TlsSession {
    connection: ClientConnection,
    /// Whether the end of the handshake was reported.
    is_secured: bool,
}

/// What received bytes contained.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decrypted {
    /// The end of the handshake.
    Secured,
    /// So many plain bytes.
    Bytes(usize),
    /// The end of the stream.
    End,
    /// Nothing more.
    Nothing,
}

impl TlsSession {
    /// Begins a handshake with a server of a name, or of an address if that is all that is known.
    pub(crate) fn new(config: &TlsConfig, name: &str, address: IpAddr) -> Result<Self, String> {
        let config = config.config.clone().ok_or("TLS is not configured")?;
        let name = ServerName::try_from(name.to_owned()).unwrap_or(ServerName::from(address));
        let connection = ClientConnection::new(config, name).map_err(|error| error.to_string())?;
        Ok(Self { connection, is_secured: false })
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Takes encrypted bytes from `input`, and decrypts some of them to `plain`. To be called until it returns
    /// [`Decrypted::Nothing`] or [`Decrypted::End`].
    pub(crate) fn decrypt(&mut self, input: &mut &[u8], plain: &mut [u8]) -> Result<Decrypted, String> {
        loop {
            if !self.is_secured && !self.connection.is_handshaking() {
                self.is_secured = true;
                return Ok(Decrypted::Secured);
            }
            match self.connection.reader().read(plain) {
                Ok(0) => return Ok(Decrypted::End),
                Ok(count) => return Ok(Decrypted::Bytes(count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.to_string()),
            }
            if input.is_empty() {
                return Ok(Decrypted::Nothing);
            }
            self.connection.read_tls(input).map_err(|error| error.to_string())?;
            self.connection.process_new_packets().map_err(|error| trust::describe(&error))?;
        }
    }

    /// Encrypts plain bytes. Returns how many; none if encrypted ones must be sent first.
    pub(crate) fn encrypt(&mut self, plain: &[IoSlice<'_>]) -> usize {
        // Writing to the session's memory cannot fail.
        self.connection.writer().write_vectored(plain).unwrap_or(0)
    }

    /// Returns whether encrypted bytes wait to be sent.
    pub(crate) fn wants_send(&self) -> bool {
        self.connection.wants_write()
    }

    /// Sends encrypted bytes.
    pub(crate) fn send(&mut self, socket: &mut dyn Write) -> std::io::Result<usize> {
        self.connection.write_tls(socket)
    }
}
