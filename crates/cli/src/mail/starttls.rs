//! The flags of a receiver that offers STARTTLS.

use landau_mail::Certificate;
use std::path::PathBuf;

/// How a receiver encrypts connections.
#[derive(Debug, clap::Args)]
pub(crate) struct StartTlsArgs {
    /// Offer clients STARTTLS with a self-signed certificate, generated at startup, which clients cannot verify
    #[arg(long, conflicts_with = "certificate")]
    starttls: bool,
    /// Offer clients STARTTLS with the certificate chain in this PEM file
    #[arg(long, value_name = "FILE", requires = "key")]
    certificate: Option<PathBuf>,
    /// Read the certificate's private key from this PEM file
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
}

impl StartTlsArgs {
    /// Returns the certificate; `None` if STARTTLS is not to be offered.
    pub(crate) fn certificate(&self) -> Option<Certificate> {
        match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => {
                Some(Certificate::Files { certificate: certificate.clone(), key: key.clone() })
            }
            _ => self.starttls.then_some(Certificate::SelfSigned),
        }
    }
}
