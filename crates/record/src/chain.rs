//! The chained checksum of a record's lines, called the seal.
//!
//! A line's seal is the first 8 hexadecimal digits of SHA-256 over the seal of the line before it and the line's own
//! bytes. A changed, inserted, removed or swapped line breaks the chain at that line, and `landau verify` names it; one
//! change in four billion is not detected. Longer seals would be a tenth of a compressed record, because random digits
//! do not compress. Seals detect accidents and careless edits. They do not detect a change after which every seal was
//! recomputed, unless the last line's seal was published with the results.

use sha2::{Digest, Sha256};

/// The seal that the first line is chained to.
pub const START: &str = "00000000";

/// The member that holds the seal, at the end of each line.
const MEMBER: &str = ",\"seal\":\"";

/// Returns the seal of `body` (a line's JSON object without its seal) after the seal `previous`.
pub fn seal(previous: &str, body: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(previous.as_bytes());
    hash.update(body.as_bytes());
    let digest = hash.finalize();
    format!("{:08x}", digest.iter().take(4).fold(0_u32, |value, &byte| value << 8 | u32::from(byte)))
}

/// Returns `body` (a JSON object) with its seal as the last member.
pub fn attach(body: &str, seal: &str) -> String {
    let open = body.strip_suffix('}').unwrap_or(body);
    format!("{open}{MEMBER}{seal}\"}}")
}

/// Splits a sealed line into its body and its seal; returns `None` if the line has no seal.
pub fn detach(line: &str) -> Option<(String, &str)> {
    let (open, tail) = line.rsplit_once(MEMBER)?;
    let seal = tail.strip_suffix("\"}")?;
    (seal.len() == START.len()).then(|| (format!("{open}}}"), seal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detach_reverses_attach() {
        let body = r#"{"kind":"note","text":"a,\"seal\":\"b"}"#;
        let digits = seal(START, body);
        let line = attach(body, &digits);
        assert_eq!(detach(&line), Some((body.to_owned(), digits.as_str())));
    }

    #[test]
    fn a_seal_depends_on_the_line_before() {
        assert_ne!(seal(START, "{}"), seal("11111111", "{}"));
    }
}
