//! TLS after STARTTLS, with rustls, for clients and servers: encrypted bytes on one side, plain bytes on the other.

mod client;
mod server;

pub use client::Encryption;
pub(crate) use client::TlsConfig;
pub use server::Certificate;
pub(crate) use server::ServerTls;

use landau_trust as trust;
use rustls::Connection;
use std::io::{ErrorKind, IoSlice, Read, Write};

/// The TLS session of a connection.
#[derive(Debug)]
pub(crate) struct TlsSession {
    connection: Connection,
    /// Whether the end of the handshake was reported.
    is_secured: bool,
}

/// The contents of received bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decrypted {
    /// The end of the handshake.
    Secured,
    /// This number of plain bytes.
    Bytes(usize),
    /// The end of the stream.
    End,
    /// Nothing more.
    Nothing,
}

impl TlsSession {
    fn new(connection: Connection) -> Self {
        Self { connection, is_secured: false }
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Takes encrypted bytes from `input`, and decrypts some of them to `plain`. Must be called until it returns
    /// [`Decrypted::Nothing`] or [`Decrypted::End`].
    pub(crate) fn decrypt(&mut self, input: &mut &[u8], plain: &mut [u8]) -> Result<Decrypted, String> {
        loop {
            if !self.is_secured && !self.connection.is_handshaking() {
                self.is_secured = true;
                return Ok(Decrypted::Secured);
            }
            match self.connection.reader().read(plain) {
                Ok(0) => return Ok(Decrypted::End),
                Ok(count) => return Ok(Decrypted::Bytes(count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.to_string()),
            }
            if input.is_empty() {
                return Ok(Decrypted::Nothing);
            }
            self.connection.read_tls(input).map_err(|error| error.to_string())?;
            self.connection.process_new_packets().map_err(|error| trust::describe(&error))?;
        }
    }

    /// Encrypts plain bytes. Returns their number; 0 if encrypted bytes must be sent first.
    pub(crate) fn encrypt(&mut self, plain: &[IoSlice<'_>]) -> usize {
        // Writing to the session's memory cannot fail.
        self.connection.writer().write_vectored(plain).unwrap_or(0)
    }

    /// Returns whether encrypted bytes are waiting to be sent.
    pub(crate) fn wants_send(&self) -> bool {
        self.connection.wants_write()
    }

    /// Sends encrypted bytes.
    pub(crate) fn send(&mut self, socket: &mut dyn Write) -> std::io::Result<usize> {
        self.connection.write_tls(socket)
    }

    /// Ends the stream of plain bytes: queues a `close_notify` alert.
    pub(crate) fn end(&mut self) {
        self.connection.send_close_notify();
    }
}
