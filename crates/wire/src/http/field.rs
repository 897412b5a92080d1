//! The request fields that a file server uses, distinguished by length first: a name is compared with at most two
//! others.

/// A field that the parser recognises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Field {
    /// `Host`
    Host,
    /// `Connection`
    Connection,
    /// `Content-Length`
    ContentLength,
    /// `Transfer-Encoding`
    TransferEncoding,
    /// `Expect`
    Expect,
    /// `Range`
    Range,
    /// `If-Range`
    IfRange,
    /// `If-Match`
    IfMatch,
    /// `If-None-Match`
    IfNoneMatch,
    /// `If-Modified-Since`
    IfModifiedSince,
    /// `If-Unmodified-Since`
    IfUnmodifiedSince,
    /// `Accept`
    Accept,
    /// `Accept-Encoding`
    AcceptEncoding,
    /// `Referer`
    Referer,
    /// `User-Agent`
    UserAgent,
}

impl Field {
    /// The number of fields.
    pub const COUNT: usize = 15;

    /// All fields, in the order of their numbers.
    pub const ALL: [Field; Field::COUNT] = [
        Field::Host,
        Field::Connection,
        Field::ContentLength,
        Field::TransferEncoding,
        Field::Expect,
        Field::Range,
        Field::IfRange,
        Field::IfMatch,
        Field::IfNoneMatch,
        Field::IfModifiedSince,
        Field::IfUnmodifiedSince,
        Field::Accept,
        Field::AcceptEncoding,
        Field::Referer,
        Field::UserAgent,
    ];

    /// Returns its name in the usual capitalisation.
    pub const fn name(self) -> &'static str {
        match self {
            Field::Host => "Host",
            Field::Connection => "Connection",
            Field::ContentLength => "Content-Length",
            Field::TransferEncoding => "Transfer-Encoding",
            Field::Expect => "Expect",
            Field::Range => "Range",
            Field::IfRange => "If-Range",
            Field::IfMatch => "If-Match",
            Field::IfNoneMatch => "If-None-Match",
            Field::IfModifiedSince => "If-Modified-Since",
            Field::IfUnmodifiedSince => "If-Unmodified-Since",
            Field::Accept => "Accept",
            Field::AcceptEncoding => "Accept-Encoding",
            Field::Referer => "Referer",
            Field::UserAgent => "User-Agent",
        }
    }

    /// Returns the field with that name; the comparison ignores case.
    #[inline]
    pub fn of(name: &[u8]) -> Option<Field> {
        let [first, second] = match name.len() {
            4 => [Field::Host; 2],
            5 => [Field::Range; 2],
            6 => [Field::Accept, Field::Expect],
            7 => [Field::Referer; 2],
            8 => [Field::IfRange, Field::IfMatch],
            10 => [Field::Connection, Field::UserAgent],
            13 => [Field::IfNoneMatch; 2],
            14 => [Field::ContentLength; 2],
            15 => [Field::AcceptEncoding; 2],
            17 => [Field::IfModifiedSince, Field::TransferEncoding],
            19 => [Field::IfUnmodifiedSince; 2],
            _ => return None,
        };
        // The first letter distinguishes the two, except for If-Range and If-Match, which differ in the fourth.
        let field = match name[0] | 0x20 {
            b'e' | b'u' | b't' => second,
            b'i' if name.len() == 8 && name[3] | 0x20 == b'm' => second,
            _ => first,
        };
        let Name { words, case } = NAMES[field as usize];
        let own = words_of(name)?;
        let is_same = own[0] | case[0] == words[0] && own[1] | case[1] == words[1] && own[2] | case[2] == words[2];
        is_same.then_some(field)
    }
}

/// A name as words, so that three steps compare it instead of one for each letter: in lower case, with the bit that
/// differs between upper and lower case for each letter.
#[derive(Clone, Copy)]
struct Name {
    words: [u64; 3],
    case: [u64; 3],
}

/// The name of each field.
static NAMES: [Name; Field::COUNT] = {
    let mut names = [Name { words: [0; 3], case: [0; 3] }; Field::COUNT];
    let mut at = 0;
    while at < Field::COUNT {
        let name = Field::ALL[at].name().as_bytes();
        let (mut lower, mut case) = ([0; LONGEST], [0; LONGEST]);
        let mut place = 0;
        while place < name.len() {
            case[place] = if name[place].is_ascii_alphabetic() { 0x20 } else { 0 };
            lower[place] = name[place] | case[place];
            place += 1;
        }
        let lower = words_of(lower.split_at(name.len()).0);
        let case = words_of(case.split_at(name.len()).0);
        if let (Some(words), Some(case)) = (lower, case) {
            names[at] = Name { words, case };
        }
        at += 1;
    }
    names
};

/// The maximum length of a name in bytes that fits into three words.
const LONGEST: usize = 24;

/// Returns all bytes of a name of 4 to 24 bytes; the words overlap if it does not fill them.
#[inline]
const fn words_of(name: &[u8]) -> Option<[u64; 3]> {
    if let (Some(first), Some(last)) = (name.first_chunk::<8>(), name.last_chunk::<8>()) {
        let (first, last) = (u64::from_le_bytes(*first), u64::from_le_bytes(*last));
        let middle = match name.split_at_checked(8) {
            Some((_, rest)) => match rest.first_chunk::<8>() {
                Some(middle) => u64::from_le_bytes(*middle),
                None => 0,
            },
            None => 0,
        };
        return Some([first, middle, last]);
    }
    if let (Some(first), Some(last)) = (name.first_chunk::<4>(), name.last_chunk::<4>()) {
        return Some([u32::from_le_bytes(*first) as u64, 0, u32::from_le_bytes(*last) as u64]);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_case_insensitive() {
        for (number, field) in Field::ALL.into_iter().enumerate() {
            assert_eq!(field as usize, number);
            for name in [field.name().to_owned(), field.name().to_lowercase(), field.name().to_uppercase()] {
                assert_eq!(Field::of(name.as_bytes()), Some(field), "{name}");
                let almost = name[..name.len() - 1].to_owned() + "_";
                assert_eq!(Field::of(almost.as_bytes()), None, "{almost}");
            }
        }
    }
}
