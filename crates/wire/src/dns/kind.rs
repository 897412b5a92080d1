//! Types and classes of records (RFC 1035 section 3.2).

use core::fmt;

/// Defines constants for the named numbers of a type.
macro_rules! numbers {
    ($type:ident $prefix:literal: $($name:ident $code:literal $meaning:literal)*) => {
        impl $type {
            $(#[doc = concat!("`", stringify!($name), "`: ", $meaning)] pub const $name: $type = $type($code);)*

            /// Returns the mnemonic; `None` for a number without a name here.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($code => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }

        /// Writes the mnemonic, or the number in the format of RFC 3597 section 5.
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, concat!($prefix, "{}"), self.0),
                }
            }
        }
    };
}

/// The type of a record or a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Type(pub u16);

/// The class of a record or a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Class(pub u16);

numbers! { Type "TYPE":
    A 1 "an IPv4 address."
    NS 2 "an authoritative name server."
    CNAME 5 "the canonical name of an alias."
    SOA 6 "the start of a zone."
    PTR 12 "a pointer to a name."
    MX 15 "a mail exchanger."
    TXT 16 "text."
    AAAA 28 "an IPv6 address (RFC 3596)."
    OPT 41 "the pseudo-record of EDNS (RFC 6891)."
    ANY 255 "every type, in questions."
}

numbers! { Class "CLASS":
    IN 1 "the Internet."
    CH 3 "Chaosnet, for the version of a server."
    ANY 255 "every class, in questions."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_without_a_name_are_written_as_in_rfc_3597() {
        assert_eq!([Type::MX, Type(65_280)].map(|one| one.to_string()), ["MX", "TYPE65280"]);
        assert_eq!([Class::IN, Class(4)].map(|one| one.to_string()), ["IN", "CLASS4"]);
    }
}
