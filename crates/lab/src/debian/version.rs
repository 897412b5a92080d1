//! Compares Debian's version numbers (Debian policy manual, section 5.6.12).

use std::cmp::Ordering;

/// Compares two versions; the greater one is newer.
pub fn compare(a: &str, b: &str) -> Ordering {
    let (a, b) = (split(a), split(b));
    a.0.cmp(&b.0).then_with(|| parts(a.1, b.1)).then_with(|| parts(a.2, b.2))
}

/// Splits a version into epoch, upstream version and revision.
fn split(version: &str) -> (u64, &str, &str) {
    let (epoch, rest) = version.split_once(':').unwrap_or(("0", version));
    let (upstream, revision) = rest.rsplit_once('-').unwrap_or((rest, "0"));
    (epoch.parse().unwrap_or(0), upstream, revision)
}

/// Compares runs of non-digits by character and runs of digits by value, alternately, to the end.
fn parts(mut a: &str, mut b: &str) -> Ordering {
    while !a.is_empty() || !b.is_empty() {
        let (word_a, word_b) =
            (take(&mut a, |byte| !byte.is_ascii_digit()), take(&mut b, |byte| !byte.is_ascii_digit()));
        let (number_a, number_b) = (take(&mut a, u8::is_ascii_digit), take(&mut b, u8::is_ascii_digit));
        let order = words(word_a, word_b).then_with(|| numbers(number_a, number_b));
        if order != Ordering::Equal {
            return order;
        }
    }
    Ordering::Equal
}

/// Takes the leading bytes for which `is` holds.
fn take<'a>(text: &mut &'a str, is: impl Fn(&u8) -> bool) -> &'a str {
    let end = text.bytes().position(|byte| !is(&byte)).unwrap_or(text.len());
    let end = (end..=text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(text.len());
    let (front, rest) = text.split_at(end);
    *text = rest;
    front
}

/// Compares non-digits: a tilde sorts before the end, the end before letters, letters before anything else.
fn words(a: &str, b: &str) -> Ordering {
    let weight = |byte: Option<u8>| match byte {
        Some(b'~') => -1,
        None => 0,
        Some(byte) if byte.is_ascii_alphabetic() => i32::from(byte),
        Some(byte) => 256 + i32::from(byte),
    };
    let (mut a, mut b) = (a.bytes(), b.bytes());
    loop {
        match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (one, other) if weight(one) != weight(other) => return weight(one).cmp(&weight(other)),
            _ => {}
        }
    }
}

/// Compares numbers of any length.
fn numbers(a: &str, b: &str) -> Ordering {
    let (a, b) = (a.trim_start_matches('0'), b.trim_start_matches('0'));
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Each is older than the next.
    const RISING: &[&str] = &[
        "~~",
        "~",
        "0",
        "1~rc1-1",
        "1-1",
        "1a-1",
        "1+b1",
        "1.0",
        "5.10.9-1",
        "5.10.223-1",
        "6.1.0-0.deb11.52",
        "6.1.0-9",
        "6.1.0-53",
        "6.12.94+deb13",
        "6.12.107+deb12",
        "6.12.107+deb13",
        "6.12.107+deb13.1",
        "6.12.117-1~deb12u1",
        "6.12.117-1",
        "6.12.117-1+b1",
        "7.2.13-1",
        "99999999999999999999999",
        "1:0",
        "1:0-1",
    ];

    #[test]
    fn the_order_is_total() {
        for (i, a) in RISING.iter().enumerate() {
            for (j, b) in RISING.iter().enumerate() {
                assert_eq!(compare(a, b), i.cmp(&j), "{a} {b}");
            }
        }
        assert_eq!(compare("1.0", "1.00"), Ordering::Equal);
        assert_eq!(compare("1-0", "1"), Ordering::Equal);
        assert_eq!(compare("0:1", "1"), Ordering::Equal);
    }

    /// Compares with dpkg, if it is installed.
    #[test]
    fn dpkg_agrees() {
        for pair in RISING[2..].windows(2) {
            let Ok(status) = Command::new("dpkg").args(["--compare-versions", pair[0], "lt", pair[1]]).status() else {
                return;
            };
            assert!(status.success(), "{} lt {}", pair[0], pair[1]);
        }
    }
}
