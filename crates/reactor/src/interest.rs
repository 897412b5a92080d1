//! What a descriptor is watched for, and what came of it.

/// A number of the user's that comes back with each event of a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u32);

/// What a descriptor is watched for.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Interest(u8);

impl Interest {
    /// Nothing: it stays registered, for its deadline and for later.
    pub const NONE: Self = Self(0);
    /// Something may be read, or the end is reached.
    pub const READABLE: Self = Self(1);
    /// Something may be written, or nobody reads any more.
    pub const WRITABLE: Self = Self(2);
    /// Both.
    pub const BOTH: Self = Self(3);

    /// Whether all of `other` is in it.
    #[inline]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Either.
    #[inline]
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What is in it and not in `other`.
    #[inline]
    #[must_use]
    pub const fn difference(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// What is in both.
    #[inline]
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether it is nothing.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl std::fmt::Debug for Interest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(["none", "read", "write", "read and write"][usize::from(self.0 & 3)])
    }
}

/// What became of a descriptor. Readiness is a hint: a call may still say that it would block.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Ready(u8);

impl Ready {
    /// Something may be read.
    pub const READABLE: Self = Self(1);
    /// Something may be written.
    pub const WRITABLE: Self = Self(2);
    /// The peer is gone, or an error waits. Comes with READ and WRITE as far as they are wanted, so that whoever
    /// only reads or only writes finds out by doing so.
    pub const READ_CLOSED: Self = Self(4);
    /// The descriptor's deadline has passed.
    pub const DEADLINE: Self = Self(8);
    /// Nothing can be sent either: the connection was reset, or both sides have ended it. Comes with CLOSED, and again
    /// in each wait, whatever is wanted.
    pub const WRITE_CLOSED: Self = Self(16);

    /// Something may be read.
    #[inline]
    pub const fn is_readable(self) -> bool {
        self.0 & 1 != 0
    }

    /// Something may be written.
    #[inline]
    pub const fn is_writable(self) -> bool {
        self.0 & 2 != 0
    }

    /// The peer is gone, or an error waits.
    #[inline]
    pub const fn is_read_closed(self) -> bool {
        self.0 & 4 != 0
    }

    /// Nothing can be sent either.
    #[inline]
    pub const fn is_write_closed(self) -> bool {
        self.0 & 16 != 0
    }

    /// The deadline has passed.
    #[inline]
    pub const fn is_deadline(self) -> bool {
        self.0 & 8 != 0
    }

    /// Either.
    #[inline]
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Of reading and writing, what is there.
    #[inline]
    pub const fn interest(self) -> Interest {
        Interest(self.0 & 3)
    }

    /// Nothing at all.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Reading and writing only as far as they are wanted.
    #[inline]
    #[must_use]
    pub(crate) const fn wanted(self, want: Interest) -> Self {
        Self(self.0 & (want.0 | 0b11100))
    }
}

impl From<Interest> for Ready {
    fn from(interest: Interest) -> Self {
        Self(interest.0)
    }
}

impl std::fmt::Debug for Ready {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = ["read", "write", "closed", "deadline", "gone"];
        let there = names.iter().enumerate().filter(|(bit, _)| self.0 >> bit & 1 == 1).map(|(_, name)| *name);
        f.write_str(&there.collect::<Vec<_>>().join("+"))
    }
}

/// Something happened to a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// The number that was given with it.
    pub token: Token,
    /// What happened.
    pub ready: Ready,
}
