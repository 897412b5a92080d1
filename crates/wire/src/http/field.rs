//! The fields of a request that a server of files looks at, told apart by length first: no name is compared with more
//! than two others.

/// A field that the parser picks out as it passes.
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
    /// How many there are.
    pub const COUNT: usize = 15;

    /// Each of them, in the order of their numbers.
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

    /// Its name as it is usually written.
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

    /// The field of that name, in any case.
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
        // The first letter tells the two apart, but for If-Range and If-Match, whose fourth does.
        let field = match name[0] | 0x20 {
            b'e' | b'u' | b't' => second,
            b'i' if name.len() == 8 && name[3] | 0x20 == b'm' => second,
            _ => first,
        };
        name.eq_ignore_ascii_case(field.name().as_bytes()).then_some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_found_by_its_name_in_any_case() {
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
