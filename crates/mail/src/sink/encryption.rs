//! Connections that are encrypted after STARTTLS: all bytes received and sent pass through TLS.

use super::connection::State;
use super::protocol::{Protocol, Then};
use super::worker::Worker;
use crate::tls::{Decrypted, TlsSession};
use landau_reactor::Interest;
use landau_sys::{Error, Result, stream};
use std::io::{IoSlice, Write};
use std::os::fd::OwnedFd;

/// The writer through which rustls sends on a socket.
struct Wire<'a> {
    fd: &'a OwnedFd,
    error: Option<Error>,
}

impl Write for Wire<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> std::io::Result<usize> {
        stream::send_vectored(self.fd, buffers, false).map_err(|error| {
            self.error = Some(error);
            error.into()
        })
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Sends the pending encrypted bytes.
///
/// # Errors
///
/// They do not fit in the send buffer, or the connection is lost.
pub(super) fn flush(fd: &OwnedFd, tls: &mut TlsSession) -> Result<()> {
    let mut wire = Wire { fd, error: None };
    while tls.wants_send() && wire.error.is_none() {
        // The error is kept by the wire.
        let _ = tls.send(&mut wire);
    }
    wire.error.map_or(Ok(()), Err)
}

/// Sends bytes, encrypted if the connection is. Returns how many of them were taken: encrypted ones may not be sent
/// yet.
#[inline]
pub(super) fn send(fd: &OwnedFd, tls: Option<&mut TlsSession>, bytes: &[u8]) -> Result<usize> {
    let Some(tls) = tls else { return stream::send(fd, bytes, false) };
    flush(fd, tls)?;
    let count = tls.encrypt(&[IoSlice::new(bytes)]);
    match flush(fd, tls) {
        Err(error) if !error.is_would_block() => Err(error),
        // Bytes are refused only by an unfinished handshake with a full buffer.
        _ if count == 0 => Err(Error::invalid("TLS")),
        _ => Ok(count),
    }
}

/// Announces the end of the stream (`close_notify`), if the send buffer has space for it.
pub(super) fn end(fd: &OwnedFd, tls: &mut TlsSession) {
    tls.end();
    // The client may be gone.
    let _ = flush(fd, tls);
}

impl<P: Protocol> Worker<P> {
    /// Begins the TLS handshake. Bytes received but not consumed before it are unencrypted, and are discarded.
    pub(super) fn secure(&mut self, number: u32) {
        let Some(connection) = self.table.get(number) else { return };
        self.counters.plain_bytes_discarded.add(connection.input.len() as u64);
        connection.input.clear();
        let Some(Ok(tls)) = self.protocol.tls().map(|tls| tls.accept()) else { return self.close(number) };
        connection.tls = Some(Box::new(tls));
        connection.then = Then::Receive;
        let limit = self.protocol.idle_timeout(&connection.session);
        self.wait(number, State::Receiving, Interest::READABLE, limit);
    }

    /// Decrypts the first `count` bytes of the receive buffer, and answers their contents.
    pub(super) fn receive_encrypted(&mut self, number: u32, count: usize) {
        let Some(connection) = self.table.get(number) else { return };
        let Some(tls) = &mut connection.tls else { return };
        let mut input = &self.scratch[..count];
        let is_end = loop {
            match tls.decrypt(&mut input, &mut self.plain) {
                Ok(Decrypted::Nothing) => break false,
                Ok(Decrypted::End) => break true,
                Ok(Decrypted::Secured) => {
                    self.counters.encrypted.add(1);
                    self.protocol.secured(&mut connection.session);
                }
                Ok(Decrypted::Bytes(count)) => connection.input.extend_from_slice(&self.plain[..count]),
                Err(_) => {
                    self.counters.tls_failures.add(1);
                    // The alert tells the client the reason; the connection is closed in any case.
                    let _ = flush(&connection.fd, tls);
                    return self.close(number);
                }
            }
        };
        if is_end && connection.input.is_empty() {
            return self.close(number);
        }
        connection.then = Then::Continue;
        self.resume(number);
    }
}
