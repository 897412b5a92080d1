//! The client's side of STARTTLS: the choice of encryption, and the trusted certificates.

use super::TlsSession;
use crate::client::Security;
use landau_trust as trust;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// Whether connections are encrypted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Encryption {
    /// Connections are not encrypted.
    #[default]
    Never,
    /// Connections are encrypted if the server supports it. Any certificate is accepted: an attacker on the path who
    /// could present another certificate could also remove the offer.
    Opportunistic,
    /// Connections are encrypted, or no mail is sent.
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
    /// Reads the certificates to trust. Sessions are resumed, because most sites get more than one connection.
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

impl TlsSession {
    /// Begins a handshake with a server, identified by its name or, if that is not a valid server name, by its address.
    pub(crate) fn connect(config: &TlsConfig, name: &str, address: IpAddr) -> Result<Self, String> {
        let config = config.config.clone().ok_or("TLS is not configured")?;
        let name = ServerName::try_from(name.to_owned()).unwrap_or(ServerName::from(address));
        let connection = ClientConnection::new(config, name).map_err(|error| error.to_string())?;
        Ok(Self::new(connection.into()))
    }
}
