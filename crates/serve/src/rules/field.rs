//! Fields of responses that an operator sets, adds and removes.

use std::fmt::Write;

/// A change to the fields of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FieldChange {
    /// Replaces all fields with this name by one.
    Set(Field),
    /// Adds a field.
    Add(Field),
    /// Removes all fields with this name.
    Remove(String),
}

/// A field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) value: String,
}

impl FieldChange {
    pub(crate) fn set(name: &str, value: &str) -> Self {
        Self::Set(Field { name: name.to_owned(), value: value.to_owned() })
    }

    pub(crate) fn add(name: &str, value: &str) -> Self {
        Self::Add(Field { name: name.to_owned(), value: value.to_owned() })
    }
}

impl Field {
    pub(crate) fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    /// Returns the field's line. Neither name nor value contains a control character.
    pub(crate) fn line(&self) -> Vec<u8> {
        let mut line = String::new();
        // Writing to a string cannot fail.
        let _ = write!(line, "{}: {}\r\n", self.name, self.value);
        line.into_bytes()
    }
}

/// The fields that the server writes itself, because a wrong one breaks the connection or the meaning of the response.
const OWN: [&str; 14] = [
    "Accept-Ranges",
    "Allow",
    "Connection",
    "Content-Encoding",
    "Content-Length",
    "Content-Range",
    "Date",
    "ETag",
    "Keep-Alive",
    "Last-Modified",
    "Location",
    "Trailer",
    "Transfer-Encoding",
    "Upgrade",
];

/// The fields of `OWN` that may be missing from a response.
const REMOVABLE: [&str; 2] = ["ETag", "Last-Modified"];

fn is_one_of(name: &str, names: &[&str]) -> bool {
    names.iter().any(|own| own.eq_ignore_ascii_case(name))
}

/// Checks that a text is a valid name of a field or a method (RFC 9110 section 5.6.2).
pub(crate) fn check_token(text: &str) -> Result<(), String> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if text.is_empty() || !text.bytes().all(is_token) {
        return Err("not a valid name".to_owned());
    }
    Ok(())
}

/// Checks that an operator may set or add a field with this name.
pub(crate) fn check_name(name: &str, is_added: bool) -> Result<(), String> {
    check_token(name)?;
    match name.to_ascii_lowercase().as_str() {
        "content-type" => Err("the server writes this field; use types or default-type".to_owned()),
        "www-authenticate" => Err("the server writes this field; use auth".to_owned()),
        "vary" if !is_added => Err("the server also writes this field; use add-headers".to_owned()),
        _ if is_one_of(name, &OWN) => Err("the server writes this field".to_owned()),
        _ => Ok(()),
    }
}

/// Checks the value of a field: control characters could end the line (response splitting).
pub(crate) fn check_value(value: &str) -> Result<&str, String> {
    if value.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
        return Err("a value cannot contain control characters, such as line ends".to_owned());
    }
    Ok(value.trim_matches([' ', '\t']))
}

/// Checks that a field may be removed: it is either the operator's, or may be missing from a response.
pub(crate) fn removed(name: &str) -> Result<String, String> {
    if is_one_of(name, &REMOVABLE) {
        return Ok(name.to_owned());
    }
    check_name(name, true)?;
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_cannot_end_their_line() {
        for wrong in ["a\r\nSet-Cookie: b", "a\nb", "a\rb", "a\0", "\u{7f}"] {
            assert!(check_value(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(check_value(" a\tb \u{e9} "), Ok("a\tb \u{e9}"));
    }

    #[test]
    fn the_servers_own_fields_are_refused() {
        for wrong in ["", "a b", "a:b", "a\r\n", "content-length", "Transfer-Encoding", "Content-Type", "\u{e9}"] {
            assert!(check_name(wrong, true).is_err(), "{wrong:?}");
        }
        assert!(check_name("Vary", false).is_err() && check_name("Vary", true).is_ok());
        assert!(removed("etag").is_ok() && removed("X-A").is_ok() && removed("Content-Length").is_err());
    }
}
