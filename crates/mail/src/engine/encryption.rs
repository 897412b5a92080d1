//! Encrypted connections: all bytes sent and received pass through TLS.

use super::connection::{Connection, End};
use super::{Engine, Input, Network};
use crate::tls::{Decrypted, TlsSession};
use std::io::{IoSlice, Write};

/// The writer through which rustls sends on a connection.
struct Wire<'a, N> {
    network: &'a mut N,
    id: u32,
    sends: u64,
    error: Option<landau_sys::Error>,
}

impl<N: Network> Write for Wire<'_, N> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> std::io::Result<usize> {
        self.sends += 1;
        self.network.send(self.id, buffers).map_err(|error| {
            self.error = Some(error);
            error.into()
        })
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<N: Network, I: Input> Engine<N, I> {
    /// Begins the TLS handshake.
    pub(super) fn secure(&mut self, connection: &mut Connection) -> Result<(), End> {
        let Some(candidate) = connection.candidates.last() else { return Err(End::Closed) };
        let name = self.routes.host_name(connection.site, candidate.host);
        match TlsSession::connect(&self.plan.tls, name, candidate.address.ip()) {
            Ok(tls) => connection.tls = Some(Box::new(tls)),
            Err(reason) => return Err(connection.fail_tls(reason)),
        }
        Ok(())
    }

    /// Acts on encrypted bytes.
    pub(super) fn read_encrypted(&mut self, connection: &mut Connection, bytes: &[u8]) -> Result<(), End> {
        let Some(mut tls) = connection.tls.take() else { return self.read(connection, bytes) };
        let (mut input, mut plain) = (bytes, std::mem::take(&mut self.plain));
        let result = loop {
            match tls.decrypt(&mut input, &mut plain) {
                Ok(Decrypted::Nothing) => break Ok(()),
                Ok(Decrypted::End) => break Err(End::Closed),
                Ok(Decrypted::Secured) => {
                    let took_ns = connection.session.secured(&self.plan.envelope, self.now_ns);
                    self.stats.phases.secured(took_ns);
                    self.stats.encrypted += 1;
                }
                Ok(Decrypted::Bytes(count)) => {
                    if let Err(end) = self.read(connection, &plain[..count]) {
                        break Err(end);
                    }
                }
                Err(reason) => break Err(connection.fail_tls(reason)),
            }
        };
        self.plain = plain;
        connection.tls = Some(tls);
        result
    }

    /// Encrypts and sends the output of the connection. Returns whether all of it was sent.
    pub(super) fn send_encrypted(&mut self, id: u32, connection: &mut Connection) -> Result<bool, End> {
        let Connection { session, letter, tls, .. } = connection;
        let Some(tls) = tls else { return Ok(true) };
        let mut wire = Wire { network: &mut self.network, id, sends: 0, error: None };
        let is_sent = loop {
            while tls.wants_send() && wire.error.is_none() {
                // The error is kept by the wire.
                let _ = tls.send(&mut wire);
            }
            if wire.error.is_some() {
                break false;
            }
            if session.outgoing.is_empty() || tls.is_handshaking() {
                break true;
            }
            let content = super::content(session, letter.as_deref());
            let count = tls.encrypt(&session.outgoing.slices(content));
            self.stats.sent_bytes += count as u64;
            session.outgoing.advance(count);
        };
        self.stats.sends += wire.sends;
        match wire.error.filter(|error| !error.is_would_block()) {
            None => Ok(is_sent),
            Some(error) => Err(End::Failed(error)),
        }
    }

    /// Sends the alert about a failure of TLS, so that the server can log it.
    pub(super) fn send_alert(&mut self, id: u32, connection: &mut Connection) {
        if let Some(tls) = &mut connection.tls {
            let mut wire = Wire { network: &mut self.network, id, sends: 0, error: None };
            // The server may have closed the connection already.
            let _ = tls.send(&mut wire);
        }
    }
}
