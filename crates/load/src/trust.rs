//! Whom a secure connection believes: the authorities of the system or of a file, a certificate that lies in that file
//! itself, or anybody; and in words why not.

use crate::plan::Tls;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::fmt::Display;
use std::sync::Arc;

/// Whom connections to a server believe.
pub(crate) fn verifier(tls: &Tls, provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, String> {
    let verifier = |belief| Ok(Arc::new(Verifier { provider: Arc::clone(provider), belief }) as Arc<_>);
    if tls.insecure {
        return verifier(Belief::Anyone);
    }
    let mut store = RootCertStore::empty();
    let named = match &tls.roots {
        None => {
            store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            Vec::new()
        }
        Some(path) => {
            let unusable = |error: &dyn Display| format!("{}: {error}", path.display());
            let found = CertificateDer::pem_file_iter(path).map_err(|error| unusable(&error))?;
            let found: Vec<_> = found.collect::<Result<_, _>>().map_err(|error| unusable(&error))?;
            found.iter().try_for_each(|one| store.add(one.clone())).map_err(|error| unusable(&words(&error)))?;
            if found.is_empty() {
                return Err(unusable(&"it holds no certificate"));
            }
            found
        }
    };
    if store.is_empty() {
        return Err(
            "this system has no certificates to trust; name some with --ca, or trust anyone with --insecure".to_owned()
        );
    }
    let made = WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(provider)).build();
    let authorities = made.map_err(|error| error.to_string())?;
    verifier(Belief::Named { authorities, named })
}

/// What webpki found, where rustls has no word of its own for it.
fn cause(error: &Error) -> Option<&webpki::Error> {
    let Error::InvalidCertificate(CertificateError::Other(other)) = error else { return None };
    other.0.downcast_ref()
}

/// Why a handshake failed, with what to do where that is known.
pub(crate) fn words(error: &Error) -> String {
    match cause(error) {
        Some(webpki::Error::CaUsedAsEndEntity) => {
            "the server's certificate is an authority's (CA:TRUE, as openssl req -x509 makes them): trust it itself \
             with --ca FILE, or make it anew with -addext basicConstraints=critical,CA:FALSE"
        }
        Some(webpki::Error::UnsupportedCertVersion) => {
            "the server's certificate is of X.509 version 1, which holds no names and cannot be verified: make it anew \
             with openssl req -x509 -addext subjectAltName=DNS:NAME"
        }
        _ => return error.to_string(),
    }
    .to_owned()
}

/// Looks at certificates as the user wishes; that a server has the key to its own is asked in any case.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    belief: Belief,
}

/// Who is believed.
#[derive(Debug)]
enum Belief {
    /// Anyone.
    Anyone,
    /// Who leads to one of the authorities, and a certificate that was named itself.
    Named {
        authorities: Arc<WebPkiServerVerifier>,
        /// The certificates of the user's file.
        named: Vec<CertificateDer<'static>>,
    },
}

impl ServerCertVerifier for Verifier {
    /// What `openssl req -x509` makes by default is an authority, which no server may be by the rules; but the user
    /// named this very certificate, byte for byte. Whether its time has come and is not over was looked at before, its
    /// name was not; that it is the server's own is proved by its signature, as ever.
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Belief::Named { authorities, named } = &self.belief else { return Ok(ServerCertVerified::assertion()) };
        match authorities.verify_server_cert(end_entity, intermediates, name, ocsp, now) {
            Err(error) if cause(&error) == Some(&webpki::Error::CaUsedAsEndEntity) && named.contains(end_entity) => {
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
