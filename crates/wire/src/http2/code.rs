//! Error codes, and the faults of a frame.

/// The reason why a stream or a connection ends (RFC 9113 section 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code(pub u32);

impl Code {
    /// There is no error.
    pub const NO_ERROR: Self = Self(0x0);
    /// The peer violated the protocol, and no other code is more specific.
    pub const PROTOCOL_ERROR: Self = Self(0x1);
    /// Something failed that the peer did not cause.
    pub const INTERNAL_ERROR: Self = Self(0x2);
    /// The peer sent more than flow control permits.
    pub const FLOW_CONTROL_ERROR: Self = Self(0x3);
    /// The peer sent a frame on a closed stream.
    pub const STREAM_CLOSED: Self = Self(0x5);
    /// A frame has an invalid length.
    pub const FRAME_SIZE_ERROR: Self = Self(0x6);
    /// The stream was refused before any processing, and may be retried.
    pub const REFUSED_STREAM: Self = Self(0x7);
    /// The stream is no longer needed.
    pub const CANCEL: Self = Self(0x8);
    /// A header block cannot be decoded.
    pub const COMPRESSION_ERROR: Self = Self(0x9);
    /// The peer causes too much work.
    pub const ENHANCE_YOUR_CALM: Self = Self(0xb);
    /// The request must be made over HTTP/1.1.
    pub const HTTP_1_1_REQUIRED: Self = Self(0xd);

    /// Returns the name in RFC 9113, for messages.
    pub const fn name(self) -> &'static str {
        match self.0 {
            0x0 => "NO_ERROR",
            0x1 => "PROTOCOL_ERROR",
            0x2 => "INTERNAL_ERROR",
            0x3 => "FLOW_CONTROL_ERROR",
            0x4 => "SETTINGS_TIMEOUT",
            0x5 => "STREAM_CLOSED",
            0x6 => "FRAME_SIZE_ERROR",
            0x7 => "REFUSED_STREAM",
            0x8 => "CANCEL",
            0x9 => "COMPRESSION_ERROR",
            0xa => "CONNECT_ERROR",
            0xb => "ENHANCE_YOUR_CALM",
            0xc => "INADEQUATE_SECURITY",
            0xd => "HTTP_1_1_REQUIRED",
            _ => "unknown code",
        }
    }
}

/// A violation by the peer (RFC 9113 section 5.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The connection ends.
    Connection(Code, &'static str),
    /// The stream ends, and the others continue.
    Stream(Code, &'static str),
}

impl Fault {
    pub(crate) const fn protocol(reason: &'static str) -> Self {
        Self::Connection(Code::PROTOCOL_ERROR, reason)
    }

    pub(crate) const fn size(reason: &'static str) -> Self {
        Self::Connection(Code::FRAME_SIZE_ERROR, reason)
    }
}
