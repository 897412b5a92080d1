//! Selects a certificate by the host that a client names (SNI).

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::collections::HashMap;
use std::sync::Arc;

/// Certificates by their names.
#[derive(Debug, Default)]
pub(super) struct Names {
    first: Option<Arc<CertifiedKey>>,
    /// Names in lower case; the key of `*.example.org` is `.example.org`.
    by_name: HashMap<String, Arc<CertifiedKey>>,
}

impl Names {
    /// Adds a certificate under each of its names; a name keeps its first certificate.
    pub(super) fn add(&mut self, pair: CertifiedKey) -> Result<(), webpki::Error> {
        let pair = Arc::new(pair);
        let certificate = webpki::EndEntityCert::try_from(pair.cert.first().ok_or(webpki::Error::BadDer)?)?;
        for name in certificate.valid_dns_names() {
            let name = name.strip_prefix('*').unwrap_or(name).to_ascii_lowercase();
            self.by_name.entry(name).or_insert_with(|| pair.clone());
        }
        self.first.get_or_insert(pair);
        Ok(())
    }

    fn of(&self, name: &str) -> Option<&Arc<CertifiedKey>> {
        let name = name.to_ascii_lowercase();
        // A star matches one label only.
        self.by_name.get(&name).or_else(|| name.find('.').and_then(|dot| self.by_name.get(&name[dot..])))
    }
}

impl ResolvesServerCert for Names {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        hello.server_name().and_then(|name| self.of(name)).or(self.first.as_ref()).cloned()
    }
}
