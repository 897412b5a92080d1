//! Connections from a proxy that names its client first (PROXY protocol).

use super::{SCRATCH_BYTES, Worker};
use crate::admission::Refusal;
use crate::connection::State;
use crate::exchange::{After, Remainder};
use crate::transport::Transport;
use landau_sys::stream;
use landau_wire::http::Scan;
use landau_wire::proxy;

impl<T: Transport> Worker<T> {
    /// Receives the PROXY protocol header, and what follows it. A proxy that sends no header is not served, because its
    /// own address would be that of every client.
    #[cold]
    pub(super) fn receive_preface(&mut self, number: u32) {
        let Some(connection) = self.table.get(number) else { return };
        let Some(fd) = connection.fd.as_ref() else { return };
        let count = match self.transport.receive(number, fd, &mut self.scratch[..SCRATCH_BYTES]) {
            Ok(Some(count)) if count > 0 => count,
            Ok(None) => return,
            _ => return self.close(number),
        };
        let mut bytes = std::mem::take(&mut connection.active().input);
        bytes.extend_from_slice(&self.scratch[..count]);
        match proxy::parse(&bytes) {
            Err(proxy::Malformed) => {
                self.counters.prefaces_malformed().add(1);
                self.close(number);
            }
            Ok(None) if self.memory.is_short() => self.close_for_memory(number),
            Ok(None) => connection.active().wait(Remainder::new(bytes, Scan::default(), After::Head), &self.memory),
            Ok(Some(preface)) => {
                (connection.state, connection.active) = (State::Fresh, None);
                self.serve_client(number, preface, &bytes);
            }
        }
    }

    /// Serves the client named in the header at the start of `bytes`, or the proxy itself if the header names no
    /// client.
    fn serve_client(&mut self, number: u32, preface: proxy::Preface, bytes: &[u8]) {
        let Some(connection) = self.table.get(number) else { return };
        let client = match (preface.client, &connection.fd) {
            (None, Some(fd)) => match stream::peer(fd) {
                Ok(proxy) => proxy.map(|proxy| proxy.ip()),
                // The proxy has disconnected. Without an address, it would be treated as a client of a Unix socket.
                Err(_) => return self.close(number),
            },
            (client, _) => client,
        };
        if let Err(refusal) = self.admission.enter_client(client) {
            return self.refuse_client(number, &refusal);
        }
        connection.set_peer(client);
        let (is_tls, rest) = (connection.is_tls, &bytes[preface.len..]);
        if rest.is_empty() {
            return;
        }
        self.scratch[..rest.len()].copy_from_slice(rest);
        let count = if is_tls { self.decrypt(number, rest.len()) } else { Some(rest.len()) };
        if let Some(count) = count {
            self.answer_received(number, count);
        }
    }

    fn refuse_client(&mut self, number: u32, refusal: &Refusal) {
        let Some(connection) = self.table.get(number) else { return };
        if let Some(fd) = &connection.fd {
            refusal.tell(fd, connection.is_tls, &mut self.site, &mut self.send_buffers);
        }
        self.end_and_linger(number);
    }
}
