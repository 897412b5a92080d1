//! The running checksum that seals each line of a record.
//!
//! A line's seal is the first 8 hexadecimal digits of SHA-256 over the seal of the line before it and the line's own
//! bytes. So a changed, inserted, removed or swapped line breaks the chain exactly where it stands, and
//! `landau verify` can name it: one change in four billion goes unseen. Longer seals would be a tenth of a packed
//! record, for random digits do not compress. It guards against accident and careless editing; whoever rewrites every
//! seal behind his change is not detected, which is why the last line's seal is worth publishing beside a figure.

use sha2::{Digest, Sha256};

/// The seal that stands before the first line.
pub const START: &str = "00000000";

/// The member that carries the seal, as it stands at the end of each line.
const MEMBER: &str = ",\"seal\":\"";

/// The seal of `body` (a line's JSON object without its seal) after `previous`.
pub fn seal(previous: &str, body: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(previous.as_bytes());
    hash.update(body.as_bytes());
    let digest = hash.finalize();
    format!("{:08x}", digest.iter().take(4).fold(0_u32, |value, &byte| value << 8 | u32::from(byte)))
}

/// `body` (a JSON object) with its seal as the last member.
pub fn attach(body: &str, seal: &str) -> String {
    let open = body.strip_suffix('}').unwrap_or(body);
    format!("{open}{MEMBER}{seal}\"}}")
}

/// A sealed line split into its body and its seal; `None` where the line carries no seal.
pub fn detach(line: &str) -> Option<(String, &str)> {
    let (open, tail) = line.rsplit_once(MEMBER)?;
    let seal = tail.strip_suffix("\"}")?;
    (seal.len() == START.len()).then(|| (format!("{open}}}"), seal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_line_comes_apart_again() {
        let body = r#"{"kind":"note","text":"a,\"seal\":\"b"}"#;
        let mark = seal(START, body);
        let line = attach(body, &mark);
        assert_eq!(detach(&line), Some((body.to_owned(), mark.as_str())));
    }

    #[test]
    fn the_seal_depends_on_the_line_before() {
        assert_ne!(seal(START, "{}"), seal("11111111", "{}"));
    }
}
