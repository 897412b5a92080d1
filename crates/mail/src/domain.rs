//! Non-ASCII domains (IDNA): lookups, and servers without SMTPUTF8, need them as A-labels.

use idna::AsciiDenyList;
use idna::uts46::{DnsLength, Hyphens, Uts46};
use landau_wire::smtp::Mailbox;
use std::borrow::Cow;

/// Returns a domain in lower case and in ASCII: `Bücher.example` is `xn--bcher-kva.example` (RFC 5891, with the mapping
/// of UTS 46). `None` if it has non-ASCII characters that IDNA does not permit in a host name.
pub(crate) fn to_ascii(domain: &str) -> Option<Cow<'_, str>> {
    if domain.is_ascii() {
        let is_lower = !domain.bytes().any(|byte| byte.is_ascii_uppercase());
        return Some(if is_lower { Cow::Borrowed(domain) } else { Cow::Owned(domain.to_ascii_lowercase()) });
    }
    Uts46::new().to_ascii(domain.as_bytes(), AsciiDenyList::STD3, Hyphens::CheckFirstLast, DnsLength::Verify).ok()
}

/// Returns an address in ASCII. `None` if it has no such form: the local part is defined by its server and cannot be
/// converted (RFC 6531 section 3.2), or the address is too long in that form.
pub(crate) fn address_to_ascii(address: &str) -> Option<Cow<'_, str>> {
    if address.is_ascii() {
        return Some(Cow::Borrowed(address));
    }
    let (local, domain) = address.rsplit_once('@')?;
    local.is_ascii().then_some(())?;
    let ascii = format!("{local}@{}", to_ascii(domain)?);
    Mailbox::parse(ascii.as_bytes()).is_ok().then_some(Cow::Owned(ascii))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_beyond_ascii_become_a_labels() {
        for (domain, expected) in [
            ("d0001.example", Some("d0001.example")),
            ("D1._X.Example", Some("d1._x.example")),
            ("[127.0.0.1]", Some("[127.0.0.1]")),
            // RFC 3492 and RFC 5891: the second is the same domain, decomposed and in upper case.
            ("bücher.example", Some("xn--bcher-kva.example")),
            ("BU\u{308}CHER.Example", Some("xn--bcher-kva.example")),
            ("faß.example", Some("xn--fa-hia.example")),
            ("例え.テスト", Some("xn--r8jz45g.xn--zckzah")),
            ("xn--bcher-kva.bücher.example", Some("xn--bcher-kva.xn--bcher-kva.example")),
            ("bü cher.example", None),
            ("bü..example", None),
            ("\u{301}a.example", None),
            ("[bü]", None),
        ] {
            assert_eq!(to_ascii(domain).as_deref(), expected, "{domain}");
        }
        assert_eq!(to_ascii(&format!("{}.example", "ü".repeat(64))), None);
    }

    #[test]
    fn only_the_domain_of_an_address_is_converted() {
        assert_eq!(address_to_ascii("A@b").as_deref(), Some("A@b"));
        assert_eq!(address_to_ascii("Ab@Bücher.example").as_deref(), Some("Ab@xn--bcher-kva.example"));
        assert_eq!(address_to_ascii("\"a@b\"@bücher.example").as_deref(), Some("\"a@b\"@xn--bcher-kva.example"));
        assert_eq!(address_to_ascii("ä@bücher.example"), None);
        assert_eq!(address_to_ascii("a@bü cher"), None);
    }

    /// Such an address was once dropped from its transaction without an outcome, and the run did not end.
    #[test]
    fn an_address_that_is_too_long_in_ascii_has_no_such_form() {
        let address = format!("{}@{}test", "a".repeat(64), "ü.".repeat(30));
        assert!(Mailbox::parse(address.as_bytes()).is_ok(), "it is short enough as it is written");
        assert_eq!(address_to_ascii(&address), None);
    }
}
