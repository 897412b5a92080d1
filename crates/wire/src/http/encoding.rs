//! Content codings from `Accept-Encoding` (RFC 9110 section 12.5.3): which of the available variants the client gets.

use super::bytes::{members, trimmed};

/// A content coding, in descending order of compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Coding {
    /// `br`
    Brotli,
    /// `zstd`
    Zstd,
    /// `gzip`
    Gzip,
    /// Without compression.
    Identity,
}

impl Coding {
    /// All codings, in descending order of compression.
    pub const ALL: [Coding; 4] = [Coding::Brotli, Coding::Zstd, Coding::Gzip, Coding::Identity];

    /// Returns its name in `Content-Encoding`.
    pub const fn name(self) -> &'static str {
        match self {
            Coding::Brotli => "br",
            Coding::Zstd => "zstd",
            Coding::Gzip => "gzip",
            Coding::Identity => "identity",
        }
    }

    /// Returns the suffix of the file names of this coding.
    pub const fn suffix(self) -> &'static str {
        match self {
            Coding::Brotli => ".br",
            Coding::Zstd => ".zst",
            Coding::Gzip => ".gz",
            Coding::Identity => "",
        }
    }

    fn of(name: &[u8]) -> Option<Coding> {
        // `x-gzip` is an alias (RFC 9110 section 8.4.1.3).
        let name = if name.eq_ignore_ascii_case(b"x-gzip") { b"gzip" } else { name };
        Coding::ALL.into_iter().find(|coding| name.eq_ignore_ascii_case(coding.name().as_bytes()))
    }
}

/// A set of codings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Codings(u8);

impl Codings {
    /// The empty set.
    pub const NONE: Codings = Codings(0);

    /// Returns the set with one more coding.
    #[must_use]
    pub const fn with(self, coding: Coding) -> Codings {
        Codings(self.0 | 1 << coding as u8)
    }

    /// Returns whether the set contains a coding.
    pub const fn has(self, coding: Coding) -> bool {
        self.0 & 1 << coding as u8 != 0
    }
}

/// A weight in thousandths.
pub(super) type Weight = u16;

/// The weights of unlisted codings without `*`: identity may always be sent, but listed codings take precedence.
const UNLISTED: [Option<Weight>; 4] = [Some(0), Some(0), Some(0), None];

/// Chooses among the available codings, from the lines of `Accept-Encoding`. Returns `None` if the client refuses all
/// of them: answer 406, or send the plain variant nevertheless.
pub fn choose<'a>(lines: impl Iterator<Item = &'a [u8]>, ready: Codings) -> Option<Coding> {
    let (mut listed, mut any) = ([None; 4], None);
    for member in lines.flat_map(members) {
        let mut parts = member.split(|&b| b == b';').map(trimmed);
        let name = parts.next().unwrap_or_default();
        let weight = parts.next().map_or(Some(1000), weight).unwrap_or(0);
        if name == b"*" {
            any = any.or(Some(weight));
        } else if let Some(coding) = Coding::of(name) {
            let own = &mut listed[coding as usize];
            *own = own.or(Some(weight));
        }
    }
    let mut best: Option<(Weight, Coding)> = None;
    let mut may_be_plain = false;
    for coding in Coding::ALL.into_iter().filter(|coding| ready.has(*coding)) {
        match listed[coding as usize].or(any).or(UNLISTED[coding as usize]) {
            None => may_be_plain = true,
            Some(0) => {}
            Some(weight) if best.is_none_or(|(own, _)| weight > own) => best = Some((weight, coding)),
            Some(_) => {}
        }
    }
    best.map(|(_, coding)| coding).or(may_be_plain.then_some(Coding::Identity))
}

/// Parses `q=` and a number from 0 to 1 with at most three decimals (RFC 9110 section 12.4.2).
pub(super) fn weight(parameter: &[u8]) -> Option<Weight> {
    let [b'q' | b'Q', b'=', whole @ (b'0' | b'1'), rest @ ..] = parameter else { return None };
    let decimals = match rest {
        [] => &[][..],
        [b'.', decimals @ ..] if decimals.len() <= 3 => decimals,
        _ => return None,
    };
    let mut weight = Weight::from(whole - b'0') * 1000;
    for (digit, worth) in decimals.iter().zip([100, 10, 1]) {
        weight += Weight::from(digit.is_ascii_digit().then(|| digit - b'0')?) * worth;
    }
    (weight <= 1000).then_some(weight)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preferred_available_encoding_is_selected() {
        let all = Coding::ALL.into_iter().fold(Codings::NONE, Codings::with);
        let gzip = Codings::NONE.with(Coding::Gzip).with(Coding::Identity);
        let plain = Codings::NONE.with(Coding::Identity);
        for (value, ready, coding) in [
            ("", all, Some(Coding::Identity)),
            ("gzip, deflate, br, zstd", all, Some(Coding::Brotli)),
            ("gzip, deflate, br, zstd", gzip, Some(Coding::Gzip)),
            ("gzip, deflate, br, zstd", plain, Some(Coding::Identity)),
            ("deflate", all, Some(Coding::Identity)),
            ("GZIP", all, Some(Coding::Gzip)),
            ("x-gzip", all, Some(Coding::Gzip)),
            ("gzip;q=1.0, br;q=0.5", all, Some(Coding::Gzip)),
            ("gzip;q=0.5, br;q=0.501", all, Some(Coding::Brotli)),
            ("gzip ; q=0.5 , zstd ; Q=0.6", all, Some(Coding::Zstd)),
            ("gzip;q=0", all, Some(Coding::Identity)),
            ("gzip;q=0.000", gzip, Some(Coding::Identity)),
            ("*", all, Some(Coding::Brotli)),
            ("*;q=0.1, gzip", all, Some(Coding::Gzip)),
            ("*, br;q=0", all, Some(Coding::Zstd)),
            ("identity", all, Some(Coding::Identity)),
            ("identity;q=0.5, gzip;q=0.4", all, Some(Coding::Identity)),
            ("identity;q=0.5, gzip;q=0.5", all, Some(Coding::Gzip)),
            ("identity;q=0", all, None),
            ("identity;q=0, gzip", plain, None),
            ("identity;q=0, gzip", gzip, Some(Coding::Gzip)),
            ("*;q=0", all, None),
            ("*;q=0, identity", all, Some(Coding::Identity)),
            ("*;q=0, gzip;q=0.001", all, Some(Coding::Gzip)),
            ("gzip;q=2", all, Some(Coding::Identity)),
            ("gzip;q=1.001", all, Some(Coding::Identity)),
            ("gzip;q=0.0001", all, Some(Coding::Identity)),
            ("gzip;q=", all, Some(Coding::Identity)),
            ("gzip;level=9", all, Some(Coding::Identity)),
            ("gzip;q=0, gzip;q=1", all, Some(Coding::Identity)),
        ] {
            assert_eq!(choose([value.as_bytes()].into_iter(), ready), coding, "{value}");
        }
        assert_eq!(choose([].into_iter(), all), Some(Coding::Identity));
        assert_eq!(choose([&b"br;q=0"[..], b"gzip"].into_iter(), all), Some(Coding::Gzip));
    }
}
