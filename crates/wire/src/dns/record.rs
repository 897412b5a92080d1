//! Resource records (RFC 1035 section 3.2).

use super::header::Rcode;
use super::kind::{Class, Type};
use super::name::Name;
use super::{Malformed, UDP_BYTES};
use core::net::{Ipv4Addr, Ipv6Addr};

/// A record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// The owner name.
    pub name: Name<'a>,
    /// The class.
    pub class: Class,
    /// The time to live in seconds; a value with the highest bit set is 0 (RFC 2181 section 8).
    pub ttl_s: u32,
    /// The data.
    pub data: Data<'a>,
}

impl<'a> Record<'a> {
    /// Returns a record of the Internet class.
    pub const fn new(name: Name<'a>, ttl_s: u32, data: Data<'a>) -> Record<'a> {
        Record { name, class: Class::IN, ttl_s, data }
    }

    /// Returns the type.
    pub const fn kind(&self) -> Type {
        self.data.kind()
    }
}

/// The data of a record, which determines its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Data<'a> {
    /// `A`
    A(Ipv4Addr),
    /// `AAAA`
    Aaaa(Ipv6Addr),
    /// `MX`
    Mx {
        /// The preference; clients try the lowest first.
        preference: u16,
        /// The host that accepts the mail.
        exchange: Name<'a>,
    },
    /// `CNAME`
    Cname(Name<'a>),
    /// `NS`
    Ns(Name<'a>),
    /// `PTR`
    Ptr(Name<'a>),
    /// `SOA`
    Soa(Soa<'a>),
    /// `TXT`
    Txt(Txt<'a>),
    /// `OPT`
    Opt(Edns<'a>),
    /// Data of another type, or of a class other than the Internet.
    Other {
        /// The type.
        kind: Type,
        /// The bytes.
        bytes: &'a [u8],
    },
}

/// The start of a zone (RFC 1035 section 3.3.13).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Soa<'a> {
    /// The first name server.
    pub server: Name<'a>,
    /// The mailbox of the person responsible, with a dot in place of the `@`.
    pub mailbox: Name<'a>,
    /// The version of the zone.
    pub serial: u32,
    /// The interval of queries by a secondary server, in seconds.
    pub refresh_s: u32,
    /// The interval of retries after a failure, in seconds.
    pub retry_s: u32,
    /// The time after which a secondary server gives up, in seconds.
    pub expire_s: u32,
    /// The time to live of a negative answer, in seconds (RFC 2308).
    pub negative_ttl_s: u32,
}

/// Text: strings of at most 255 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Txt<'a>(&'a [u8]);

impl<'a> Txt<'a> {
    /// Returns text from its bytes in a message, in which a length byte precedes each string. `None` if there is no
    /// string or if one is incomplete.
    pub fn new(bytes: &'a [u8]) -> Option<Txt<'a>> {
        let mut rest = bytes;
        while let [len, after @ ..] = rest {
            rest = after.get(usize::from(*len)..)?;
        }
        (!bytes.is_empty()).then_some(Txt(bytes))
    }

    /// Returns the bytes in message format.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// Returns the strings.
    pub fn strings(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut rest = self.0;
        core::iter::from_fn(move || {
            let (len, after) = rest.split_first()?;
            let (string, after) = after.split_at_checked(usize::from(*len))?;
            rest = after;
            Some(string)
        })
    }
}

/// EDNS (RFC 6891 section 6.1): the capabilities of the sender of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Edns<'a> {
    /// The maximum length of a message that the sender accepts over UDP, in bytes; at least 512 (RFC 6891 section
    /// 6.2.3).
    pub udp_bytes: u16,
    /// The upper eight bits of the result code.
    pub rcode_high: u8,
    /// The version: 0.
    pub version: u8,
    /// DO: whether the sender understands DNSSEC (RFC 3225).
    pub wants_dnssec: bool,
    /// The options: code, length and bytes of each; already checked in a parsed message.
    pub options: &'a [u8],
}

impl<'a> Edns<'a> {
    /// Returns EDNS version 0 without options.
    pub const fn new(udp_bytes: u16) -> Edns<'static> {
        Edns { udp_bytes, rcode_high: 0, version: 0, wants_dnssec: false, options: &[] }
    }

    /// Returns the result code of a message with this lower part in its header.
    pub const fn rcode(&self, low: Rcode) -> Rcode {
        Rcode((self.rcode_high as u16) << 4 | low.0 & 15)
    }

    /// Returns the options, each with its code.
    pub fn options(&self) -> impl Iterator<Item = (u16, &'a [u8])> + use<'a> {
        let mut rest = self.options;
        core::iter::from_fn(move || {
            let (head, after) = rest.split_first_chunk::<4>()?;
            let (option, after) = after.split_at_checked(usize::from(u16::from_be_bytes([head[2], head[3]])))?;
            rest = after;
            Some((u16::from_be_bytes([head[0], head[1]]), option))
        })
    }

    /// Returns the field that contains the time to live in other records.
    pub(super) const fn flags(&self) -> u32 {
        (self.rcode_high as u32) << 24 | (self.version as u32) << 16 | (self.wants_dnssec as u32) << 15
    }

    fn parse(class: Class, flags: u32, options: &'a [u8]) -> Result<Edns<'a>, Malformed> {
        let [rcode_high, version, high, _] = flags.to_be_bytes();
        let udp_bytes = class.0.max(UDP_BYTES as u16);
        let edns = Edns { udp_bytes, rcode_high, version, wants_dnssec: high & 0x80 != 0, options };
        let bytes: usize = edns.options().map(|(_, option)| 4 + option.len()).sum();
        if bytes == options.len() { Ok(edns) } else { Err(Malformed("options of OPT")) }
    }
}

impl Data<'_> {
    /// Returns whether it is a null MX: the domain does not accept mail (RFC 7505 section 3). It is valid only as the
    /// sole MX record of its name.
    pub fn is_null_mx(&self) -> bool {
        matches!(self, Data::Mx { preference: 0, exchange } if exchange.is_root())
    }

    /// Returns the type of a record with this data.
    pub const fn kind(&self) -> Type {
        match self {
            Data::A(_) => Type::A,
            Data::Aaaa(_) => Type::AAAA,
            Data::Mx { .. } => Type::MX,
            Data::Cname(_) => Type::CNAME,
            Data::Ns(_) => Type::NS,
            Data::Ptr(_) => Type::PTR,
            Data::Soa(_) => Type::SOA,
            Data::Txt(_) => Type::TXT,
            Data::Opt(_) => Type::OPT,
            Data::Other { kind, .. } => *kind,
        }
    }
}

/// Reads the fixed fields and the data of records from a message.
pub(super) struct Reader<'a> {
    pub(super) message: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn name(&mut self) -> Result<Name<'a>, Malformed> {
        let (name, end) = Name::parse(self.message, self.at)?;
        self.at = end;
        Ok(name)
    }

    pub(super) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let rest = self.message.get(self.at..).unwrap_or_default();
        let bytes = rest.get(..count).ok_or(Malformed("record beyond the end of the message"))?;
        self.at += count;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.bytes(N).map(|bytes| bytes.first_chunk().copied().unwrap_or([0; N]))
    }

    pub(super) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    /// Reads a record.
    pub(super) fn record(&mut self) -> Result<Record<'a>, Malformed> {
        let name = self.name()?;
        let (kind, class, ttl) = (Type(self.u16()?), Class(self.u16()?), self.u32()?);
        let len = usize::from(self.u16()?);
        let start = self.at;
        let bytes = self.bytes(len)?;
        let end = self.at;
        let data = match kind {
            Type::OPT if !name.is_root() => return Err(Malformed("OPT with a name")),
            Type::OPT => Data::Opt(Edns::parse(class, ttl, bytes)?),
            _ if class == Class::IN => {
                // The data may point to earlier names, but must end at its stated length.
                let mut reader = Reader { message: self.message.get(..end).unwrap_or_default(), at: start };
                let data = reader.data(kind, bytes)?;
                if reader.at != end {
                    return Err(Malformed("record of the wrong length"));
                }
                data
            }
            _ => Data::Other { kind, bytes },
        };
        let ttl_s = if ttl >> 31 == 1 || kind == Type::OPT { 0 } else { ttl };
        Ok(Record { name, class, ttl_s, data })
    }

    /// Reads the data of a record of the Internet class.
    fn data(&mut self, kind: Type, bytes: &'a [u8]) -> Result<Data<'a>, Malformed> {
        Ok(match kind {
            Type::A => Data::A(Ipv4Addr::from(self.array::<4>()?)),
            Type::AAAA => Data::Aaaa(Ipv6Addr::from(self.array::<16>()?)),
            Type::MX => Data::Mx { preference: self.u16()?, exchange: self.name()? },
            Type::CNAME => Data::Cname(self.name()?),
            Type::NS => Data::Ns(self.name()?),
            Type::PTR => Data::Ptr(self.name()?),
            Type::SOA => Data::Soa(Soa {
                server: self.name()?,
                mailbox: self.name()?,
                serial: self.u32()?,
                refresh_s: self.u32()?,
                retry_s: self.u32()?,
                expire_s: self.u32()?,
                negative_ttl_s: self.u32()?,
            }),
            Type::TXT => Data::Txt(Txt::new(self.bytes(bytes.len())?).ok_or(Malformed("strings of TXT"))?),
            _ => Data::Other { kind, bytes: self.bytes(bytes.len())? },
        })
    }
}
