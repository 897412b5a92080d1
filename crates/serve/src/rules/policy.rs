//! What the rules say about one path.

use super::Rule;
use super::field::{Field, FieldChange};

/// Fields that say how long a response may be kept: an error must not be kept as long as what was missing.
const FRESHNESS: [&str; 3] = ["Cache-Control", "Expires", "Pragma"];

/// A field that is meaningless, and must not be sent, without TLS (RFC 6797 section 7.2).
const TLS_ONLY: &str = "Strict-Transport-Security";

/// What the rules say about one path.
#[derive(Debug, Default)]
pub(crate) struct Policy {
    fields: Vec<Field>,
    /// The field lines of every response.
    pub(crate) lines: Vec<u8>,
    /// Those of responses that are no error.
    pub(crate) freshness_lines: Vec<u8>,
    /// Those of responses over TLS.
    pub(crate) tls_lines: Vec<u8>,
    /// Whether files have no entity tag.
    pub(crate) hides_tag: bool,
    /// Whether files have no time of modification.
    pub(crate) hides_time: bool,
}

impl Policy {
    /// Lets a rule override what was said before it.
    pub(super) fn apply(&mut self, rule: &Rule) {
        for change in &rule.fields {
            match change {
                FieldChange::Remove(name) => self.remove(name),
                FieldChange::Set(field) => {
                    self.remove(&field.name);
                    self.fields.push(field.clone());
                }
                FieldChange::Add(field) => self.fields.push(field.clone()),
            }
        }
    }

    fn remove(&mut self, name: &str) {
        self.fields.retain(|field| !field.is(name));
        self.hides_tag |= name.eq_ignore_ascii_case("ETag");
        self.hides_time |= name.eq_ignore_ascii_case("Last-Modified");
    }

    /// Prepares the field lines, after the last rule.
    pub(super) fn finish(&mut self) {
        for field in &self.fields {
            let lines = if FRESHNESS.iter().any(|name| field.is(name)) {
                &mut self.freshness_lines
            } else if field.is(TLS_ONLY) {
                &mut self.tls_lines
            } else {
                &mut self.lines
            };
            lines.extend(field.line());
        }
    }
}
