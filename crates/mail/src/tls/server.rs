//! The server's side of STARTTLS: a certificate with its key, from files or generated for the run.

use super::TlsSession;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection};
use std::path::PathBuf;
use std::sync::Arc;

/// The certificate that a server presents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Certificate {
    /// A self-signed certificate, generated when the server starts. Clients that verify certificates refuse it.
    SelfSigned,
    /// A certificate from PEM files.
    Files {
        /// The certificate, followed by the intermediate certificates.
        certificate: PathBuf,
        /// The private key.
        key: PathBuf,
    },
}

/// The TLS configuration of a server.
#[derive(Debug, Clone)]
pub(crate) struct ServerTls(Arc<ServerConfig>);

impl ServerTls {
    /// Reads or generates the certificate of a host.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, or a key that does not belong to the certificate: the reason.
    pub(crate) fn new(certificate: &Certificate, host: &str) -> Result<Self, String> {
        let (chain, key) = match certificate {
            Certificate::SelfSigned => self_signed(host)?,
            Certificate::Files { certificate, key } => {
                let wrong =
                    |path: &PathBuf, error: rustls::pki_types::pem::Error| format!("{}: {error}", path.display());
                let chain = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect::<Result<Vec<_>, _>>);
                let chain = chain.map_err(|error| wrong(certificate, error))?;
                if chain.is_empty() {
                    return Err(format!("{}: no certificate in this file; it must be PEM", certificate.display()));
                }
                (chain, PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, error))?)
            }
        };
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let versions = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
        let config = versions.with_no_client_auth().with_single_cert(chain, key);
        let config = config.map_err(|error| match certificate {
            Certificate::SelfSigned => error.to_string(),
            Certificate::Files { certificate, key } => {
                format!("{} with {}: {error}", certificate.display(), key.display())
            }
        })?;
        Ok(Self(Arc::new(config)))
    }

    /// Begins a handshake with a client.
    pub(crate) fn accept(&self) -> Result<TlsSession, String> {
        let connection = ServerConnection::new(Arc::clone(&self.0)).map_err(|error| error.to_string())?;
        Ok(TlsSession::new(connection.into()))
    }
}

/// Generates a certificate for a host, and its key.
fn self_signed(host: &str) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), String> {
    let made = rcgen::generate_simple_self_signed([host.to_owned()]).map_err(|error| error.to_string())?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    Ok((vec![made.cert.der().clone()], key.into()))
}
