//! TLS 1.2 and 1.3, by rustls over ring.
//!
//! Certificates are loaded at the start and on request; a connection keeps the one that it began with. The keys of
//! session tickets change with each load, so that every client sees the new certificate.

mod names;
mod session;

pub(crate) use session::{Received, Session, Sessions};

use crate::connection::say_end;
use crate::error::Error;
use crate::reader::Reader;
use landau_sys::stream;
use names::Names;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use std::fmt::Display;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

/// The ALPN name of HTTP/2 over TLS (RFC 9113 section 3.2).
pub(crate) const HTTP2: &[u8] = b"h2";

/// The record of the alert `internal_error` (RFC 8446 section 6.2). TLS has no alert for an overload.
const REFUSAL: [u8; 7] = [21, 3, 3, 0, 2, 2, 80];

/// Refuses a client before its handshake, with a single attempt to send, and shuts the connection down for writing.
pub(crate) fn refuse(fd: &OwnedFd) {
    let _ = stream::send(fd, &REFUSAL, true);
    say_end(fd);
}

/// A certificate chain and its key, each a PEM file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, followed by its chain.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// The configuration of new connections.
#[derive(Debug)]
pub(crate) struct Settings {
    files: Vec<TlsFiles>,
    reader: Reader,
    http2: bool,
    current: RwLock<Arc<ServerConfig>>,
}

impl Settings {
    /// Loads the files. The first certificate is for clients that name no host, or an unknown one. `http2` states
    /// whether HTTP/2 is offered.
    pub(crate) fn new(files: &[TlsFiles], reader: &Reader, http2: bool) -> Result<Self, Error> {
        let current = RwLock::new(Arc::new(read(files, reader, http2)?));
        Ok(Self { files: files.to_vec(), reader: reader.clone(), http2, current })
    }

    /// Returns the configuration of a new connection.
    pub(crate) fn current(&self) -> Arc<ServerConfig> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reloads the files; if one is invalid, the previous configuration stays.
    pub(crate) fn reload(&self) -> Result<(), Error> {
        let new = Arc::new(read(&self.files, &self.reader, self.http2)?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }
}

fn wrong(path: &Path, why: impl Display) -> Error {
    Error::Tls { path: path.to_owned(), reason: why.to_string() }
}

fn read(files: &[TlsFiles], reader: &Reader, http2: bool) -> Result<ServerConfig, Error> {
    let provider = Arc::new(ring::default_provider());
    let mut names = Names::default();
    for files in files {
        let (chain, key) = (chain(&files.certificate, reader)?, key(&files.key, reader)?);
        let pair = CertifiedKey::from_der(chain, key, &provider).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => wrong(&files.key, "the key does not belong to the certificate"),
            error => wrong(&files.key, error),
        })?;
        names.add(pair).map_err(|error| wrong(&files.certificate, error))?;
    }
    let failed = |error: rustls::Error| wrong(Path::new(""), error);
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut config = builder.map_err(failed)?.with_no_client_auth().with_cert_resolver(Arc::new(names));
    // In the order of preference.
    let protocols: &[&[u8]] = if http2 { &[HTTP2, b"http/1.1"] } else { &[b"http/1.1"] };
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    // Tickets keep the session at the client, so that it costs the server no memory.
    config.ticketer = ring::Ticketer::new().map_err(failed)?;
    Ok(config)
}

fn chain(path: &Path, reader: &Reader) -> Result<Vec<CertificateDer<'static>>, Error> {
    let bytes = reader.read(path).map_err(|error| wrong(path, error))?;
    let items = CertificateDer::pem_slice_iter(&bytes);
    let chain: Vec<_> = items.collect::<Result<_, _>>().map_err(|error| wrong(path, error))?;
    if chain.is_empty() {
        return Err(wrong(path, "no certificate in this file; it must be PEM: -----BEGIN CERTIFICATE-----"));
    }
    // Otherwise the error would occur with the key, and name the key.
    webpki::EndEntityCert::try_from(&chain[0]).map_err(|error| match error {
        webpki::Error::UnsupportedCertVersion => wrong(
            path,
            "the certificate uses X.509 version 1, which has no host names; create one with openssl req -x509 -addext \
             subjectAltName=DNS:NAME",
        ),
        error => wrong(path, format!("the certificate cannot be read: {error}")),
    })?;
    Ok(chain)
}

fn key(path: &Path, reader: &Reader) -> Result<PrivateKeyDer<'static>, Error> {
    let bytes = reader.read(path).map_err(|error| wrong(path, error))?;
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| match error {
        // The marks are those of RFC 5958 and, in a field that is not base64, of RFC 1421 and OpenSSL.
        _ if [&b"BEGIN ENCRYPTED PRIVATE KEY"[..], b"Proc-Type: 4,ENCRYPTED"].iter().any(|mark| has(&bytes, mark)) => {
            wrong(path, "the key is encrypted; write a copy without a password: openssl pkey -in KEY -out COPY")
        }
        rustls::pki_types::pem::Error::NoItemsFound => {
            wrong(path, "no private key in this file; it must be PEM: -----BEGIN PRIVATE KEY-----")
        }
        error => wrong(path, error),
    })
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}
