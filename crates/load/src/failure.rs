//! The kinds of failure of a connection or a request.

use serde::{Deserialize, Serialize};

/// A failure with the message of the system or of a library.
pub(crate) type Reason = (Failure, String);

/// A way in which a connection or a request can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// Nothing listens at the address.
    ConnectRefused,
    /// The kernel's handshake did not complete within the timeout.
    ConnectTimeout,
    /// The source address has no free port.
    ConnectNoPort,
    /// This host does not have the source address.
    ConnectNoAddress,
    /// The descriptor table is full.
    ConnectNoDescriptor,
    /// Connecting failed for any other reason.
    Connect,
    /// The TLS handshake failed.
    Tls,
    /// The server closed the connection before the first byte of a response.
    ClosedBeforeResponse,
    /// The server closed the connection in the middle of a response.
    ClosedDuringResponse,
    /// The server reset the connection while a response was outstanding.
    Reset,
    /// Sending or receiving failed for any other reason.
    Transfer,
    /// The response was not complete within the timeout.
    Timeout,
    /// The response is not valid HTTP.
    InvalidResponse,
    /// The server sent bytes without a request.
    UnsolicitedResponse,
    /// The request was due but could not be sent before the end of the run.
    NeverSent,
}

impl Failure {
    /// Returns whether the connection was never established.
    pub fn is_of_connecting(self) -> bool {
        matches!(
            self,
            Self::ConnectRefused
                | Self::ConnectTimeout
                | Self::ConnectNoPort
                | Self::ConnectNoAddress
                | Self::ConnectNoDescriptor
                | Self::Connect
                | Self::Tls
        )
    }

    /// Returns the name that JSON uses.
    pub fn name(self) -> String {
        serde_json::to_value(self).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
    }

    /// Returns a description for the user.
    pub fn description(self) -> &'static str {
        match self {
            Self::ConnectRefused => "connection refused: is the server running?",
            Self::ConnectTimeout => "connect timed out",
            Self::ConnectNoPort => "no free port at the source address",
            Self::ConnectNoAddress => "the source address is not an address of this host",
            Self::ConnectNoDescriptor => "no free descriptor",
            Self::Connect => "cannot connect",
            Self::Tls => "TLS handshake failed",
            Self::ClosedBeforeResponse => "closed before the response",
            Self::ClosedDuringResponse => "closed in the middle of a response",
            Self::Reset => "reset by the server",
            Self::Transfer => "sending or receiving failed",
            Self::Timeout => "no complete response within the timeout",
            Self::InvalidResponse => "invalid HTTP response",
            Self::UnsolicitedResponse => "the server sent bytes without a request",
            Self::NeverSent => "due but never sent",
        }
    }

    /// Classifies an error of a call that prepares or establishes a connection.
    #[cold]
    pub(crate) fn of_connecting(error: landau_sys::Error) -> Self {
        use std::io::ErrorKind::{AddrInUse, AddrNotAvailable, ConnectionRefused, TimedOut};
        match error.kind() {
            ConnectionRefused => Self::ConnectRefused,
            TimedOut => Self::ConnectTimeout,
            // `bind` returns this error for an address that is not this host's, `connect` if there is no free port.
            AddrNotAvailable if error.call == "bind" => Self::ConnectNoAddress,
            AddrInUse | AddrNotAvailable => Self::ConnectNoPort,
            _ if error.is_out_of_descriptors() => Self::ConnectNoDescriptor,
            _ => Self::Connect,
        }
    }

    /// Classifies an error of `send` or `recv`.
    #[cold]
    pub(crate) fn of_transfer(error: landau_sys::Error) -> Self {
        use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
        if matches!(error.kind(), ConnectionReset | BrokenPipe) { Self::Reset } else { Self::Transfer }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use landau_sys::socket::{Family, bind};
    use landau_sys::stream;

    /// Both errors once counted as "no free port", and the connection was retried until the end of the run.
    #[test]
    fn foreign_source_address_is_not_a_lack_of_ports() {
        let socket = stream::stream(Family::V4).unwrap();
        // An address reserved for documentation, which no host has.
        let foreign = std::net::SocketAddr::from(([192, 0, 2, 1], 0)).into();
        let error = bind(&socket, &foreign).unwrap_err();
        assert_eq!(Failure::of_connecting(error), Failure::ConnectNoAddress);
        assert_eq!(Failure::of_connecting(landau_sys::Error { call: "connect", ..error }), Failure::ConnectNoPort);
    }
}
