//! The users of a `htpasswd` file, with the hashes of their passwords.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha_crypt::{PasswordVerifier, ShaCrypt};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// The prefixes of supported hashes: bcrypt (`htpasswd -B`) and SHA-crypt (`openssl passwd -6`).
const BCRYPT: [&str; 4] = ["$2a$", "$2b$", "$2x$", "$2y$"];
const SHA_CRYPT: [&str; 2] = ["$5$", "$6$"];

/// The number of letters in a SHA-crypt digest, in the order of [`SHA_CRYPT`].
const SHA_LETTERS: [usize; 2] = [43, 86];

/// The maximum length of a name with its password, in base64; longer ones are refused.
const LONGEST_BYTES: usize = 1024;

/// Users, by name.
#[derive(Debug, Default)]
pub(crate) struct Users {
    hashes: HashMap<String, String>,
    /// A number that is unique, even among the users of earlier configurations.
    id: u64,
}

/// A name and a password, as a client sends them.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Login {
    pub(crate) name: String,
    password: Vec<u8>,
}

/// The key under which a login is remembered.
pub(crate) type LoginKey = [u8; 32];

impl Users {
    /// Parses the lines of a file: `NAME:HASH`. Returns an error for the first invalid line.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let mut hashes = HashMap::new();
        for (place, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let (name, hash) = line.split_once(':').ok_or_else(|| format!("line {}: expected NAME:HASH", place + 1))?;
            // Some files have further columns.
            let hash = hash.split(':').next().unwrap_or_default().trim_end();
            let why = if name.is_empty() { Err("the name is missing") } else { check(hash) };
            why.map_err(|why| format!("line {}: {name:?}: {why}", place + 1))?;
            hashes.insert(name.to_owned(), hash.to_owned());
        }
        Ok(Self { hashes, id: NEXT_ID.fetch_add(1, Ordering::Relaxed) })
    }

    /// Returns whether a login is valid. This takes as long as the hash demands, milliseconds to seconds, even for an
    /// unknown name.
    pub(crate) fn verify(&self, login: &Login) -> bool {
        let own = self.hashes.get(&login.name);
        let Some(hash) = own.or_else(|| self.hashes.values().next()) else { return false };
        let is_right = if BCRYPT.iter().any(|beginning| hash.starts_with(beginning)) {
            bcrypt::verify(&login.password, hash).unwrap_or(false)
        } else {
            ShaCrypt::default().verify_password(&login.password, hash.as_str()).is_ok()
        };
        own.is_some() && is_right
    }

    /// Returns the key of a login, made with a secret of this process, so that no password stays in memory.
    pub(crate) fn key_of(&self, login: &Login, secret: &[u8; 32]) -> LoginKey {
        let mut hash = Sha256::new();
        hash.update(secret);
        hash.update(self.id.to_le_bytes());
        hash.update((login.name.len() as u64).to_le_bytes());
        hash.update(&login.name);
        hash.update(&login.password);
        hash.finalize().into()
    }
}

/// Checks that a hash can be verified. A truncated hash would match no password.
fn check(hash: &str) -> Result<(), &'static str> {
    if BCRYPT.iter().any(|beginning| hash.starts_with(beginning)) {
        let is_whole = hash.parse::<bcrypt::HashParts>().is_ok_and(|parts| (4..=31).contains(&parts.get_cost()));
        return if is_whole { Ok(()) } else { Err("the bcrypt hash is truncated or malformed") };
    }
    let kind = SHA_CRYPT.iter().position(|beginning| hash.starts_with(beginning));
    let kind = kind.ok_or("the hash is neither bcrypt (htpasswd -B) nor SHA-crypt (openssl passwd -6)")?;
    let rest = &hash[SHA_CRYPT[kind].len()..];
    let rest = match rest.strip_prefix("rounds=").and_then(|rounds| rounds.split_once('$')) {
        Some((rounds, rest)) if rounds.parse().is_ok_and(|rounds: u32| rounds >= sha_crypt::Params::ROUNDS_MIN) => rest,
        Some(_) => return Err("invalid number of SHA-crypt rounds"),
        None => rest,
    };
    let is_letter = |letter: u8| letter.is_ascii_alphanumeric() || matches!(letter, b'.' | b'/');
    let is_whole = rest.split_once('$').is_some_and(|(salt, digest)| {
        !salt.is_empty() && digest.len() == SHA_LETTERS[kind] && digest.bytes().all(is_letter)
    });
    if is_whole { Ok(()) } else { Err("the SHA-crypt hash is truncated or malformed") }
}

impl Login {
    /// Reads the value of `Authorization`: `Basic` and base64 (RFC 7617).
    pub(crate) fn parse(value: &[u8]) -> Option<Self> {
        let at = value.iter().position(|&byte| byte == b' ')?;
        let (scheme, rest) = value.split_at(at);
        if !scheme.eq_ignore_ascii_case(b"Basic") || rest.len() > LONGEST_BYTES {
            return None;
        }
        let decoded = STANDARD.decode(rest.trim_ascii()).ok()?;
        let colon = decoded.iter().position(|&byte| byte == b':')?;
        let name = String::from_utf8(decoded[..colon].to_vec()).ok()?;
        Some(Self { name, password: decoded[colon + 1..].to_vec() })
    }
}

impl std::fmt::Debug for Login {
    /// Omits the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Login({:?})", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `openssl passwd -6 -salt saltsalt hello`, and `-5` likewise.
    const SHA: &str = "bob:$6$saltsalt$YTeBOLnmm3CoeJTzBuijUEtOEWCqrw/\
         nQ8/AeMmON4LGp3k0ZiMjC1OdqzWFUAfDQBvYkOch9BWtQTBcZ1E/p0\n\
         cid:$5$saltsalt$kfE3pS1dKPPHrilLCLWxLECEVLX8Au49cWIQg7GMQ05:column\n";

    fn file() -> String {
        format!("# users\n\nann:{}\n{SHA}", bcrypt::hash("secret", 4).unwrap())
    }

    fn login(text: &str) -> Option<Login> {
        Login::parse(format!("Basic {}", STANDARD.encode(text)).as_bytes())
    }

    #[test]
    fn passwords_are_verified() {
        let users = Users::parse(&file()).unwrap();
        for right in ["ann:secret", "bob:hello", "cid:hello"] {
            assert!(users.verify(&login(right).unwrap()), "{right}");
        }
        for wrong in ["ann:", "ann:Secret", "ann:secret ", "Ann:secret", "bob:secret", "dan:secret", ":secret", "cid:x"]
        {
            assert!(!users.verify(&login(wrong).unwrap()), "{wrong}");
        }
        assert!(!Users::parse("").unwrap().verify(&login("ann:secret").unwrap()));
    }

    #[test]
    fn logins_are_parsed() {
        assert_eq!(login("a:b:c").unwrap(), Login { name: "a".to_owned(), password: b"b:c".to_vec() });
        assert_eq!(Login::parse(b"bAsIc  YTpi"), login("a:b"));
        for wrong in ["Basic", "Basic ", "Basic YQ==", "Bearer YTpi", "Basic YTpi!", "Basic /zpi", "YTpi"] {
            assert_eq!(Login::parse(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(login(&format!("a:{}", "x".repeat(2000))), None);
        assert!(!format!("{:?}", login("a:geheim")).contains("geheim"));
    }

    #[test]
    fn weak_hashes_are_refused() {
        for wrong in ["ann", "ann:", "ann:secret", "ann:$apr1$x$y", "ann:{SHA}abc", ":$6$x$y"] {
            assert!(Users::parse(wrong).unwrap_err().starts_with("line 1: "), "{wrong}");
        }
    }

    /// The server once started with such a hash, and the user could not log in.
    #[test]
    fn hashes_that_are_cut_off_are_refused() {
        for line in file().lines().filter(|line| line.contains('$')) {
            let hash = line.split(':').nth(1).unwrap();
            assert!(Users::parse(&format!("ann:{hash}")).is_ok(), "{hash}");
            for len in 0..hash.len() {
                let cut = format!("ann:{}", &hash[..len]);
                assert!(Users::parse(&cut).is_err(), "{cut}");
            }
            assert!(Users::parse(&format!("ann:{hash}x")).is_err() && Users::parse(&format!("ann:{hash}$x")).is_err());
        }
        let sha = SHA.lines().next().unwrap();
        let with_rounds = |rounds: &str| Users::parse(&sha.replace("$6$", &format!("$6$rounds={rounds}$"))).is_ok();
        assert!(with_rounds("5000") && !with_rounds("5") && !with_rounds("x") && !with_rounds("99999999999"));
        assert!(Users::parse("ann:$2y$99$aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa").is_err());
    }

    #[test]
    fn logins_are_remembered_apart() {
        let (one, other) = (Users::parse("").unwrap(), Users::parse("").unwrap());
        let key = |users: &Users, text: &str, secret: u8| users.key_of(&login(text).unwrap(), &[secret; 32]);
        let own = key(&one, "a:b", 1);
        assert_eq!(own, key(&one, "a:b", 1));
        for different in [key(&other, "a:b", 1), key(&one, "a:b", 2), key(&one, "a:c", 1), key(&one, "ab:", 1)] {
            assert_ne!(own, different);
        }
    }
}
