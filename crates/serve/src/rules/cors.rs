//! Cross-origin resource sharing (the Fetch standard): which other sites may read responses.

use super::field::{self, Field};
use std::time::Duration;

/// The sites that may read responses.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cors {
    /// The permitted origins, such as `https://app.example`; empty for all.
    pub(crate) origins: Vec<String>,
    /// Whether responses to requests with cookies may be read as well.
    pub(crate) credentials: bool,
    /// The methods that a preflight permits.
    pub(crate) methods: Vec<String>,
    /// The request fields that a preflight permits.
    pub(crate) headers: Vec<String>,
    /// The response fields that a script may read in addition to the usual ones.
    pub(crate) expose: Vec<String>,
    /// How long a browser may cache the response to a preflight.
    pub(crate) max_age: Option<Duration>,
}

impl Cors {
    /// Checks an origin: `https://app.example`, with a port if it is not the scheme's, or `*` for all.
    pub(crate) fn origin(text: &str) -> Result<String, String> {
        let host = text.split_once("://").map(|(scheme, host)| !scheme.is_empty() && !host.is_empty());
        let is_whole = host == Some(true) && text.matches('/').count() == 2;
        let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic() && !byte.is_ascii_uppercase());
        if text == "*" || (is_whole && is_plain) {
            return Ok(text.to_owned());
        }
        Err("expected https://HOST or https://HOST:PORT in lower case, without a path, or * for all origins".to_owned())
    }

    /// Checks a method or the name of a field.
    pub(crate) fn token(text: &str) -> Result<String, String> {
        field::check_token(text).map(|()| text.to_owned())
    }

    /// Appends the field lines of the response to a request with this `Origin`, if any.
    pub(crate) fn write(&self, origin: Option<&[u8]>, out: &mut Vec<u8>) {
        if !self.origins.is_empty() {
            // Caches must not give one site's response to another.
            put(out, "Vary", "Origin");
        }
        let Some(origin) = self.permitted(origin) else { return };
        put(out, "Access-Control-Allow-Origin", origin);
        if self.credentials {
            put(out, "Access-Control-Allow-Credentials", "true");
        }
        if !self.expose.is_empty() {
            put(out, "Access-Control-Expose-Headers", &self.expose.join(", "));
        }
    }

    /// Appends the additional lines of the response to a preflight with this `Origin`.
    pub(crate) fn write_preflight(&self, origin: Option<&[u8]>, out: &mut Vec<u8>) {
        if self.permitted(origin).is_none() {
            return;
        }
        let methods = if self.methods.is_empty() { "GET, HEAD".to_owned() } else { self.methods.join(", ") };
        put(out, "Access-Control-Allow-Methods", &methods);
        if !self.headers.is_empty() {
            put(out, "Access-Control-Allow-Headers", &self.headers.join(", "));
        }
        if let Some(max_age) = self.max_age {
            put(out, "Access-Control-Max-Age", &max_age.as_secs().to_string());
        }
    }

    /// Returns the field value that permits the origin, if it is permitted.
    fn permitted(&self, origin: Option<&[u8]>) -> Option<&str> {
        if self.origins.is_empty() {
            return Some("*");
        }
        let origin = origin?;
        self.origins.iter().map(String::as_str).find(|own| own.as_bytes() == origin)
    }
}

fn put(out: &mut Vec<u8>, name: &str, value: &str) {
    out.extend(Field { name: name.to_owned(), value: value.to_owned() }.line());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(cors: &Cors, origin: &str) -> String {
        let mut out = Vec::new();
        cors.write(Some(origin.as_bytes()), &mut out);
        String::from_utf8(out).unwrap().replace("\r\n", ";")
    }

    #[test]
    fn only_the_named_origins_may_read() {
        let origins = vec!["https://a.example".to_owned(), "http://b.example:81".to_owned()];
        let cors = Cors { origins, credentials: true, ..Cors::default() };
        let expected = "Vary: Origin;Access-Control-Allow-Origin: https://a.example;\
                        Access-Control-Allow-Credentials: true;";
        assert_eq!(lines(&cors, "https://a.example"), expected);
        for other in ["http://a.example", "https://a.example.evil", "https://a.example:444", "null", ""] {
            assert_eq!(lines(&cors, other), "Vary: Origin;", "{other}");
        }
        assert_eq!(lines(&Cors::default(), "https://x"), "Access-Control-Allow-Origin: *;");
    }

    #[test]
    fn origins_are_checked() {
        for right in ["*", "https://a", "http://[::1]:80", "https://a.example:8443"] {
            assert!(Cors::origin(right).is_ok(), "{right}");
        }
        for wrong in ["", "a", "https://", "https://a/", "https://A", "https://a\r\nb", "https://a b", "://a"] {
            assert!(Cors::origin(wrong).is_err(), "{wrong:?}");
        }
    }
}
