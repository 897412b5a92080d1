//! DKIM signatures (RFC 6376): the key of a domain, and the header field that signs a message.
//!
//! Header and body are canonicalised as `relaxed`, the form that survives relays which fold header lines or drop spaces
//! at the end of a line. The fields in [`SIGNED`] are signed, including those that a message lacks, so that none can be
//! added in transit.

use crate::error::{Error, Result};
use mail_auth::common::crypto::{DkimKey, Ed25519Key, RsaKey};
use mail_auth::common::headers::HeaderWriter;
use mail_auth::dkim::{Canonicalization, DkimSigner, Done};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use std::path::Path;

/// The header fields that are signed: those that RFC 6376, section 5.4.1, lists, and those for leaving a mailing list
/// (RFC 8058 requires them to be signed).
const SIGNED: [&str; 19] = [
    "From",
    "Reply-To",
    "Subject",
    "Date",
    "To",
    "Cc",
    "Message-ID",
    "In-Reply-To",
    "References",
    "MIME-Version",
    "Content-Type",
    "Content-Transfer-Encoding",
    "List-Id",
    "List-Help",
    "List-Subscribe",
    "List-Post",
    "List-Archive",
    "List-Unsubscribe",
    "List-Unsubscribe-Post",
];

/// Signs messages for a domain.
pub struct Signer {
    signer: DkimSigner<DkimKey, Done>,
    domain: String,
    selector: String,
}

impl std::fmt::Debug for Signer {
    /// Omits the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Signer({}._domainkey.{})", self.selector, self.domain)
    }
}

impl Signer {
    /// Reads a private key in PEM: RSA (PKCS #1 or #8) or Ed25519 (PKCS #8, RFC 8463). Its public key is expected in a
    /// TXT record at `SELECTOR._domainkey.DOMAIN`.
    ///
    /// # Errors
    ///
    /// A file without such a key, an RSA key of less than 2,048 bits, or a domain or selector that is not a name of
    /// letters, digits, `-`, `_` and dots.
    pub fn read(path: &Path, domain: &str, selector: &str) -> Result<Self> {
        let wrong = |reason: String| Error::file(path, reason);
        let pem = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
        let der = PrivateKeyDer::from_pem_slice(&pem).map_err(|error| match error {
            rustls::pki_types::pem::Error::NoItemsFound => {
                wrong("no private key in this file; it must be PEM without a password".to_owned())
            }
            error => wrong(error.to_string()),
        })?;
        let key = key_of(&der).map_err(|reason| wrong(format!("the key cannot be used: {reason}")))?;
        for (option, name) in [("--dkim-domain", domain), ("--dkim-selector", selector)] {
            if !is_name(name) {
                return Err(Error::Spec(format!("{option} {name}: write a name of letters, digits, -, _ and dots")));
            }
        }
        let signer = DkimSigner::from_key(key).domain(domain).selector(selector).headers(SIGNED);
        let signer = signer.header_canonicalization(Canonicalization::Relaxed);
        let signer = signer.body_canonicalization(Canonicalization::Relaxed);
        Ok(Self { signer, domain: domain.to_owned(), selector: selector.to_owned() })
    }

    /// Returns whether the first address of the header field From is in the domain or in one below it. A relay signs no
    /// other messages.
    pub(crate) fn covers(&self, message: &[u8]) -> bool {
        let Some(from) = from_field(message) else { return false };
        let text = without_quotes(&String::from_utf8_lossy(&from));
        let address = first_address(&text);
        let host = address.trim().rsplit_once('@').map_or("", |(_, host)| host).to_ascii_lowercase();
        let domain = self.domain.to_ascii_lowercase();
        host == domain || host.strip_suffix(domain.as_str()).is_some_and(|rest| rest.ends_with('.'))
    }

    /// Returns the header field that signs a message, with its final CR LF. Lines of the message may end with LF or CR
    /// LF; the signature is the same. The time of signing is that of the call.
    ///
    /// # Errors
    ///
    /// The message has no From, which every message must have and every signature covers; or signing with the key
    /// fails.
    pub fn field(&self, message: &[u8]) -> Result<String> {
        if from_field(message).is_none() {
            return Err(Error::Spec("a signed message must have the header field From".to_owned()));
        }
        let signature = self.signer.sign(message);
        let signature = signature.map_err(|error| Error::Spec(format!("the message cannot be signed: {error}")))?;
        Ok(signature.to_header())
    }
}

/// Returns the key, or why it cannot be used.
fn key_of(der: &PrivateKeyDer<'_>) -> std::result::Result<DkimKey, String> {
    let rsa = match RsaKey::from_key_der(der.clone_key()) {
        Ok(key) => return Ok(DkimKey::Rsa(key)),
        Err(error) => error.to_string(),
    };
    match der {
        // Only the second version of PKCS #8 contains the public key, and OpenSSL writes the first.
        PrivateKeyDer::Pkcs8(pkcs8) => match Ed25519Key::from_pkcs8_maybe_unchecked_der(pkcs8.secret_pkcs8_der()) {
            Ok(key) => Ok(DkimKey::Ed25519(key)),
            Err(_) => Err(format!("{rsa}; use an RSA key of 2,048 to 8,192 bits or an Ed25519 key")),
        },
        _ => Err(format!("{rsa}; use an RSA key of 2,048 to 8,192 bits or an Ed25519 key")),
    }
}

/// Returns whether a text can be a domain or a selector.
fn is_name(text: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

/// Returns a text without its quoted strings and comments: a display name may look like an address.
fn without_quotes(text: &str) -> String {
    let (mut out, mut is_quoted, mut is_escaped, mut depth) = (String::new(), false, false, 0_u32);
    for one in text.chars() {
        match one {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted || depth > 0 => is_escaped = true,
            '"' if depth == 0 => is_quoted = !is_quoted,
            '(' if !is_quoted => depth += 1,
            ')' if depth > 0 => depth -= 1,
            _ if is_quoted || depth > 0 => {}
            _ => out.push(one),
        }
    }
    out
}

/// Returns the first address of a list that has no quoted strings.
fn first_address(list: &str) -> &str {
    // In angle brackets a comma may separate the hosts of a route (RFC 5322 section 4.4).
    match (list.find('<'), list.find(',')) {
        (Some(open), comma) if comma.is_none_or(|comma| open < comma) => {
            list[open + 1..].split('>').next().unwrap_or_default()
        }
        (_, Some(comma)) => &list[..comma],
        (_, None) => list,
    }
}

/// Returns the value of the header field From, its lines joined; `None` if the header has no such field.
fn from_field(message: &[u8]) -> Option<Vec<u8>> {
    let lines = message.split(|&byte| byte == b'\n').take_while(|line| !line.trim_ascii_end().is_empty());
    let mut lines = lines.skip_while(|line| !line.get(..5).is_some_and(|name| name.eq_ignore_ascii_case(b"from:")));
    let mut value = lines.next()?[5..].trim_ascii_end().to_vec();
    for line in lines.take_while(|line| line.starts_with(b" ") || line.starts_with(b"\t")) {
        value.extend_from_slice(line.trim_ascii_end());
    }
    Some(value)
}

#[cfg(test)]
mod tests;
