//! Verification of a TLS server's certificate: against the certificate authorities of the system or of a file, against
//! the server's own certificate in that file, or not at all. The load generator and the mail engine share it.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

/// Returns the verifier for connections to servers. It trusts the certificates in `ca_file`, a PEM file, or otherwise
/// the certificate authorities of the system. If `is_insecure` is set, it accepts any certificate.
///
/// # Errors
///
/// Fails if the file cannot be used or if there is no certificate to trust. The message names the options `--ca` and
/// `--insecure`.
pub fn verifier(
    ca_file: Option<&Path>,
    is_insecure: bool,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, String> {
    let verifier = |trust| Ok(Arc::new(Verifier { provider: Arc::clone(provider), trust }) as Arc<_>);
    if is_insecure {
        return verifier(Trust::Any);
    }
    let mut store = RootCertStore::empty();
    let listed = match ca_file {
        None => {
            store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            Vec::new()
        }
        Some(path) => {
            let unusable = |error: &dyn Display| format!("--ca {}: {error}", path.display());
            let found = CertificateDer::pem_file_iter(path).map_err(|error| unusable(&error))?;
            let found: Vec<_> = found.collect::<Result<_, _>>().map_err(|error| unusable(&error))?;
            found.iter().try_for_each(|one| store.add(one.clone())).map_err(|error| unusable(&describe(&error)))?;
            if found.is_empty() {
                return Err(unusable(&"the file contains no certificate"));
            }
            found
        }
    };
    if store.is_empty() {
        return Err(
            "this system has no trusted certificates; specify a file with --ca, or skip verification with --insecure"
                .to_owned(),
        );
    }
    let built = WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(provider)).build();
    let authorities = built.map_err(|error| error.to_string())?;
    verifier(Trust::Listed { authorities, listed })
}

/// Returns the underlying error of webpki, if rustls has no name for it.
fn cause(error: &Error) -> Option<&webpki::Error> {
    let Error::InvalidCertificate(CertificateError::Other(other)) = error else { return None };
    other.0.downcast_ref()
}

/// Describes the reason why a handshake failed, with advice if available.
pub fn describe(error: &Error) -> String {
    match cause(error) {
        Some(webpki::Error::CaUsedAsEndEntity) => {
            "the server's certificate is a CA certificate (CA:TRUE, the default of openssl req -x509); trust it with \
             --ca FILE, or recreate it with -addext basicConstraints=critical,CA:FALSE"
        }
        Some(webpki::Error::UnsupportedCertVersion) => {
            "the server's certificate uses X.509 version 1, which has no names and cannot be verified; recreate it \
             with openssl req -x509 -addext subjectAltName=DNS:NAME"
        }
        _ => return error.to_string(),
    }
    .to_owned()
}

/// Verifies certificates as configured by the user. In every case the server must prove that it has the private key.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    trust: Trust,
}

/// The certificates to trust.
#[derive(Debug)]
enum Trust {
    /// Any certificate.
    Any,
    /// Certificates that chain to an authority, and those that the user listed.
    Listed {
        authorities: Arc<WebPkiServerVerifier>,
        /// The certificates of the user's file.
        listed: Vec<CertificateDer<'static>>,
    },
}

impl ServerCertVerifier for Verifier {
    /// Accepts the certificate of an authority if the user listed the same certificate, byte for byte.
    ///
    /// `openssl req -x509` creates an authority by default, which by the rules cannot be a server. When webpki reports
    /// this error, it has verified the validity period, but not the name. The signature of the handshake proves that
    /// the certificate is the server's own.
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Trust::Listed { authorities, listed } = &self.trust else { return Ok(ServerCertVerified::assertion()) };
        match authorities.verify_server_cert(end_entity, intermediates, name, ocsp, now) {
            Err(error) if cause(&error) == Some(&webpki::Error::CaUsedAsEndEntity) && listed.contains(end_entity) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
