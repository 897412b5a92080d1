//! Interest, readiness and events.

/// Identifies a registered descriptor: a number chosen by the caller, which every event of the descriptor carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u32);

/// The readiness that a descriptor is watched for.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Interest(u8);

impl Interest {
    /// No readiness: the descriptor stays registered, for its deadline and for later use.
    pub const NONE: Self = Self(0);
    /// Readable: data is available, or the end of the stream.
    pub const READABLE: Self = Self(1);
    /// Writable: there is room for data, or the reader has closed.
    pub const WRITABLE: Self = Self(2);
    /// Readable or writable.
    pub const BOTH: Self = Self(3);

    /// Returns whether this contains all of `other`.
    #[inline]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the union of the two.
    #[inline]
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns this without `other`.
    #[inline]
    #[must_use]
    pub const fn difference(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns whether this is [`NONE`](Self::NONE).
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl std::fmt::Debug for Interest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(["none", "readable", "writable", "readable and writable"][usize::from(self.0 & 3)])
    }
}

/// The readiness of a descriptor.
///
/// Readiness is a hint: an operation may still fail because it would block.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Ready(u8);

impl Ready {
    /// Readable.
    pub const READABLE: Self = Self(1);
    /// Writable.
    pub const WRITABLE: Self = Self(2);
    /// The peer has closed its writing half, or an error is pending. It is reported with READABLE and WRITABLE, as far
    /// as the caller is interested in them, so that a caller that only reads or only writes notices it by doing so.
    pub const READ_CLOSED: Self = Self(4);
    /// The deadline of the descriptor has passed.
    pub const DEADLINE: Self = Self(8);
    /// Nothing can be sent either: the connection was reset, or both halves are closed. It is reported with
    /// [`READ_CLOSED`](Self::READ_CLOSED), in each wait, whatever the interest.
    pub const WRITE_CLOSED: Self = Self(16);

    /// Returns whether the descriptor is readable.
    #[inline]
    pub const fn is_readable(self) -> bool {
        self.0 & 1 != 0
    }

    /// Returns whether the descriptor is writable.
    #[inline]
    pub const fn is_writable(self) -> bool {
        self.0 & 2 != 0
    }

    /// Returns whether the peer has closed its writing half, or an error is pending.
    #[inline]
    pub const fn is_read_closed(self) -> bool {
        self.0 & 4 != 0
    }

    /// Returns whether nothing can be sent either.
    #[inline]
    pub const fn is_write_closed(self) -> bool {
        self.0 & 16 != 0
    }

    /// Returns whether the deadline of the descriptor has passed.
    #[inline]
    pub const fn is_deadline(self) -> bool {
        self.0 & 8 != 0
    }

    /// Returns the union of the two.
    #[inline]
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns this without `other`.
    #[inline]
    #[must_use]
    pub(crate) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns the part that an [`Interest`] can express: readable and writable.
    #[inline]
    pub const fn interest(self) -> Interest {
        Interest(self.0 & 3)
    }

    /// Returns whether this is empty.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns this without those of readable and writable that are not in `interest`.
    #[inline]
    #[must_use]
    pub(crate) const fn filter(self, interest: Interest) -> Self {
        Self(self.0 & (interest.0 | 0b11100))
    }
}

impl From<Interest> for Ready {
    fn from(interest: Interest) -> Self {
        Self(interest.0)
    }
}

impl std::fmt::Debug for Ready {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = ["readable", "writable", "read closed", "deadline", "write closed"];
        let set = names.iter().enumerate().filter(|(bit, _)| self.0 >> bit & 1 == 1).map(|(_, name)| *name);
        f.write_str(&set.collect::<Vec<_>>().join(" + "))
    }
}

/// A readiness event of a registered descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// The token that the descriptor was registered with.
    pub token: Token,
    /// The readiness.
    pub ready: Ready,
}
