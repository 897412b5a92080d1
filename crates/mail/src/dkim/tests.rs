//! Keys, names and messages that can be signed, and those that cannot.

use super::*;

const MESSAGE: &[u8] = b"From: a@example.org\nSubject:  two  spaces\n\nText \nwith trailing space\n\n\n";

/// Keys made for these tests by `openssl genpkey`; they sign nothing else.
fn key(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/keys").join(name)
}

fn signer(name: &str) -> Result<Signer> {
    Signer::read(&key(name), "example.org", "s1")
}

/// Returns the value of a tag of a signature.
fn tag<'a>(field: &'a str, name: &str) -> &'a str {
    let (_, list) = field.split_once(": ").unwrap();
    let mut tags = list.split(';').filter_map(|tag| tag.trim().split_once('='));
    tags.find(|(key, _)| *key == name).unwrap_or_else(|| panic!("{name} is missing: {field}")).1
}

#[test]
fn rsa_and_ed25519_keys_sign() {
    for (name, algorithm) in [("rsa.pem", "rsa-sha256"), ("rsa1.pem", "rsa-sha256"), ("ed25519.pem", "ed25519-sha256")]
    {
        let field = signer(name).unwrap().field(MESSAGE).unwrap();
        assert!(field.starts_with("DKIM-Signature: v=1;") && field.ends_with("\r\n"), "{field}");
        assert_eq!((tag(&field, "a"), tag(&field, "c")), (algorithm, "relaxed/relaxed"));
        assert_eq!((tag(&field, "d"), tag(&field, "s")), ("example.org", "s1"));
        let signed: String = tag(&field, "h").split_whitespace().collect();
        assert_eq!(signed.split(':').count(), SIGNED.len(), "absent fields are signed too: {signed}");
    }
}

#[test]
fn line_ends_and_empty_lines_at_the_end_do_not_change_the_digest() {
    let signer = signer("ed25519.pem").unwrap();
    let digest = |message: &[u8]| tag(&signer.field(message).unwrap(), "bh").to_owned();
    let crlf = String::from_utf8_lossy(MESSAGE).replace('\n', "\r\n");
    assert_eq!(digest(MESSAGE), digest(crlf.as_bytes()));
    assert_eq!(digest(MESSAGE), digest(MESSAGE.trim_ascii_end()));
    assert_ne!(digest(MESSAGE), digest(b"From: a@example.org\n\nText\n"));
}

#[test]
fn what_cannot_be_signed_is_refused() {
    let signer = signer("ed25519.pem").unwrap();
    for message in [&b"Subject: a\n\nFrom: b\n"[..], b"Subject: a\r\n\r\nFrom: b\r\n", b""] {
        let error = signer.field(message).unwrap_err().to_string();
        assert!(error.contains("header field From"), "{error}");
    }
}

#[test]
fn keys_and_names_that_cannot_be_used_are_refused() {
    let refused = |name| signer(name).unwrap_err().to_string();
    assert!(refused("none.pem").contains("No such file"), "{}", refused("none.pem"));
    assert!(refused("rsa1024.pem").contains("an RSA key of 2,048"), "{}", refused("rsa1024.pem"));
    assert!(refused("ec.pem").contains("an RSA key of 2,048"), "{}", refused("ec.pem"));
    let no_key = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let error = Signer::read(&no_key, "example.org", "s1").unwrap_err().to_string();
    assert!(error.contains("no private key"), "{error}");
    for (domain, selector) in [("", "s"), ("exa mple.org", "s"), ("example.org", "s;d=evil"), ("a..b", "s")] {
        let error = Signer::read(&key("ed25519.pem"), domain, selector).unwrap_err().to_string();
        assert!(error.contains("--dkim-"), "{error}");
    }
}

#[test]
fn a_relay_signs_for_its_domain_and_those_below_it() {
    let signer = signer("ed25519.pem").unwrap();
    for (from, covers) in [
        ("a@example.org", true),
        ("A <a@Mail.EXAMPLE.org>", true),
        ("\"b@other.test\"\r\n <a@example.org>", true),
        ("\"<a@example.org> \\\" b\" <c@other.test>", false),
        ("a@notexample.org", false),
        ("a@example.org.test", false),
        ("a@other.test, b@example.org", false),
        ("a@other.test, B <b@example.org>", false),
        ("a@example.org, C <c@other.test>", true),
        ("a@example.org (x, <c@other.test>)", true),
        ("(a@example.org, (b) \\) ) A <c@other.test>", false),
        ("\"(\" <a@example.org>, c@other.test", true),
        ("<@example.org,@b.test:c@other.test>", false),
        ("", false),
    ] {
        assert_eq!(signer.covers(format!("X: y\r\nFrom: {from}\r\n\r\nb\r\n").as_bytes()), covers, "{from}");
    }
    assert!(!signer.covers(b"X: y\r\n\r\nFrom: a@example.org\r\n"));
}
