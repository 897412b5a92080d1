//! The TLS session of one connection: records to plain bytes and back.
//!
//! The session uses rustls' unbuffered interface, so that an idle connection owns only its keys. Records are decrypted
//! in the worker's buffer, and only an incomplete record is kept.

use crate::memory::{Memory, SESSION_BYTES, Share};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus, WriteTraffic};
use rustls::{HandshakeKind, ServerConfig};
use std::sync::Arc;

/// The maximum growth of a record of 16 KiB: header, nonce, tag and content type.
const RECORD_OVERHEAD: usize = 64;

/// The maximum number of plain bytes in a record.
const RECORD_BYTES: usize = 16 << 10;

/// The TLS session of one connection.
pub(crate) struct Session {
    connection: UnbufferedServerConnection,
    /// An incomplete record.
    incoming: Vec<u8>,
    /// Records that have not been sent completely.
    outgoing: Vec<u8>,
    taken: usize,
    stage: Stage,
    /// Whether the client has sent `close_notify`.
    pub(crate) has_received_end: bool,
    share: Share,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Session({} bytes to send)", self.unsent().len())
    }
}

/// The stage of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// Nothing has been received.
    New,
    /// The handshake is under way.
    Shaking,
    /// The handshake has ended.
    Open,
    /// `close_notify` was sent.
    Ended,
    /// An error occurred: the library must not be called again.
    Failed,
}

/// The result of received bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    /// The handshake has ended; `true` if it resumed a session.
    Established(bool),
    /// Anything else.
    More,
}

impl Session {
    pub(crate) fn new(config: Arc<ServerConfig>, memory: &Memory) -> Result<Self, rustls::Error> {
        Ok(Self {
            connection: UnbufferedServerConnection::new(config)?,
            incoming: Vec::new(),
            outgoing: Vec::new(),
            taken: 0,
            stage: Stage::New,
            has_received_end: false,
            share: Share::new(memory, SESSION_BYTES),
        })
    }

    /// Decrypts the records that arrived, after the rest of the previous ones. Records of the protocol itself, such as
    /// an alert, are collected in the session.
    pub(crate) fn receive(&mut self, bytes: &mut [u8], plain: &mut Vec<u8>) -> Result<Received, rustls::Error> {
        if self.stage == Stage::Failed {
            return Err(rustls::Error::General("the session has already failed".to_owned()));
        }
        self.stage = self.stage.max(Stage::Shaking);
        if self.incoming.is_empty() {
            let used = self.open(bytes, plain)?;
            self.incoming = bytes[used..].to_vec();
        } else {
            let mut all = std::mem::take(&mut self.incoming);
            all.extend_from_slice(bytes);
            let used = self.open(&mut all, plain)?;
            // An idle session keeps no capacity either.
            self.incoming = if used == all.len() { Vec::new() } else { all.split_off(used) };
        }
        self.count_buffers();
        if self.stage >= Stage::Open || self.connection.is_handshaking() {
            return Ok(Received::More);
        }
        self.stage = Stage::Open;
        Ok(Received::Established(self.connection.handshake_kind() == Some(HandshakeKind::Resumed)))
    }

    /// Decrypts records; returns the number of bytes used. The rest belongs to an incomplete record.
    fn open(&mut self, bytes: &mut [u8], plain: &mut Vec<u8>) -> Result<usize, rustls::Error> {
        let mut used = 0;
        loop {
            let UnbufferedStatus { mut discard, state } = self.connection.process_tls_records(&mut bytes[used..]);
            let mut is_over = false;
            match state {
                Err(error) => {
                    self.stage = Stage::Failed;
                    self.gather_alert(&mut bytes[used + discard..]);
                    return Err(error);
                }
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record?;
                        discard += record.discard;
                        plain.extend_from_slice(record.payload);
                    }
                }
                Ok(ConnectionState::EncodeTlsData(data)) => encode(data, &mut self.outgoing)?,
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed) => self.has_received_end = true,
                // More bytes are needed, or all were read. Early data is never requested.
                Ok(_) => is_over = true,
            }
            used += discard;
            if is_over {
                return Ok(used);
            }
        }
    }

    /// Collects the alert for an error, and the records before it. The library is called as long as it has something to
    /// send, because it returns that first. One more call would return the same error again.
    fn gather_alert(&mut self, rest: &mut [u8]) {
        while self.connection.wants_write() {
            let Ok(ConnectionState::EncodeTlsData(data)) = self.connection.process_tls_records(rest).state else {
                return;
            };
            if encode(data, &mut self.outgoing).is_err() {
                return;
            }
        }
    }

    /// Adds bytes to the output, as records; returns false if that is no longer possible.
    pub(crate) fn encrypt(&mut self, plain: &[u8]) -> bool {
        let room = plain.len() + plain.len().div_ceil(RECORD_BYTES).max(1) * RECORD_OVERHEAD;
        self.write(room, |traffic, out| traffic.encrypt(plain, out))
    }

    /// Adds `close_notify`, once.
    pub(crate) fn close_notify(&mut self) {
        if self.stage == Stage::Open {
            self.stage = Stage::Ended;
            // If this fails, the end of the stream informs the client.
            let _ = self.write(RECORD_OVERHEAD, end);
        }
    }

    fn write(
        &mut self,
        room: usize,
        put: impl FnOnce(&mut WriteTraffic<'_, ServerConnectionData>, &mut [u8]) -> Result<usize, EncryptError>,
    ) -> bool {
        if self.stage == Stage::Failed {
            return false;
        }
        // The rest of the incoming records must be passed again, because the library counts from its beginning.
        let UnbufferedStatus { state, .. } = self.connection.process_tls_records(&mut self.incoming);
        let Ok(ConnectionState::WriteTraffic(mut traffic)) = state else { return false };
        let len = self.outgoing.len();
        self.outgoing.resize(len + room, 0);
        let put = put(&mut traffic, &mut self.outgoing[len..]);
        self.outgoing.truncate(len + put.as_ref().copied().unwrap_or(0));
        self.count_buffers();
        put.is_ok()
    }

    fn count_buffers(&mut self) {
        self.share.resize(SESSION_BYTES + self.incoming.capacity() + self.outgoing.capacity());
    }

    /// Returns the memory of the session's buffers, in bytes.
    fn buffer_bytes(&self) -> usize {
        self.share.bytes() - SESSION_BYTES
    }

    /// Returns the output that is not sent yet.
    pub(crate) fn unsent(&self) -> &[u8] {
        &self.outgoing[self.taken..]
    }

    /// Records that `count` bytes were sent.
    pub(crate) fn sent(&mut self, count: usize) {
        self.taken += count;
        if self.taken == self.outgoing.len() {
            (self.outgoing, self.taken) = (Vec::new(), 0);
            self.count_buffers();
        }
    }

    /// Returns whether HTTP/2 was negotiated.
    pub(crate) fn speaks_http2(&self) -> bool {
        self.connection.alpn_protocol() == Some(super::HTTP2)
    }

    /// Returns whether nothing has been received.
    pub(crate) fn is_new(&self) -> bool {
        self.stage == Stage::New
    }

    /// Returns whether the handshake has ended.
    pub(crate) fn is_established(&self) -> bool {
        self.stage >= Stage::Open
    }
}

fn end(traffic: &mut WriteTraffic<'_, ServerConnectionData>, out: &mut [u8]) -> Result<usize, EncryptError> {
    traffic.queue_close_notify(out)
}

fn encode(mut data: EncodeTlsData<'_, ServerConnectionData>, out: &mut Vec<u8>) -> Result<(), rustls::Error> {
    let len = out.len();
    let mut room = 4 << 10;
    loop {
        out.resize(len + room, 0);
        match data.encode(&mut out[len..]) {
            Ok(count) => {
                out.truncate(len + count);
                return Ok(());
            }
            Err(EncodeError::InsufficientSize(size)) if size.required_size > room => room = size.required_size,
            Err(error) => {
                out.truncate(len);
                return Err(rustls::Error::General(error.to_string()));
            }
        }
    }
}

/// The sessions of a worker, by the numbers of their connections. Without TLS, the table is empty.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Vec<Option<Box<Session>>>);

impl Sessions {
    pub(crate) fn put(&mut self, number: u32, session: Session) {
        let place = number as usize;
        if place >= self.0.len() {
            self.0.resize_with(place + 1, || None);
        }
        self.0[place] = Some(Box::new(session));
    }

    pub(crate) fn get(&mut self, number: u32) -> Option<&mut Session> {
        self.0.get_mut(number as usize)?.as_deref_mut()
    }

    /// Returns the memory of a session's buffers, in bytes.
    #[inline]
    pub(crate) fn buffer_bytes(&self, number: u32) -> usize {
        self.0.get(number as usize).and_then(Option::as_ref).map_or(0, |session| session.buffer_bytes())
    }

    pub(crate) fn remove(&mut self, number: u32) -> Option<Box<Session>> {
        self.0.get_mut(number as usize)?.take()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Settings, TlsFiles};
    use super::*;
    use crate::reader::Reader;
    use rustls::pki_types::{CertificateDer, ServerName};
    use rustls::{ClientConfig, ClientConnection, RootCertStore};
    use std::io::Write;
    use std::path::Path;

    fn configs() -> (Arc<ServerConfig>, Arc<ClientConfig>) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/certificates");
        let files = TlsFiles { certificate: folder.join("one.pem"), key: folder.join("one-key.pem") };
        let mut roots = RootCertStore::empty();
        let chain = super::super::chain(&files.certificate, &Reader::default()).unwrap();
        roots.add(CertificateDer::clone(&chain[0])).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let client = builder.with_root_certificates(roots).with_no_client_auth();
        (Settings::new(&[files], &Reader::default(), true).unwrap().current(), Arc::new(client))
    }

    /// Returns a pseudorandom number; the sequence is always the same.
    fn draw(seed: &mut u64, below: usize) -> usize {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 33) as usize % below.max(1)
    }

    /// At most one bit of the client's bytes is flipped, and they arrive in two parts with writes in between. The
    /// worker must survive. A client whose bytes were intact gets its own response or none.
    #[test]
    fn broken_records_end_only_their_session() {
        let (server, client) = configs();
        let mut seed = 7;
        let mut failed = 0;
        for _ in 0..400 {
            let mut session = Session::new(server.clone(), &Memory::new(usize::MAX)).unwrap();
            let name = ServerName::try_from("one.example").unwrap();
            let mut client = ClientConnection::new(client.clone(), name).unwrap();
            client.writer().write_all(b"ping").unwrap();
            let (mut plain, broken_round) = (Vec::new(), draw(&mut seed, 4));
            for round in 0..3 {
                let mut bytes = Vec::new();
                // After an error there is nothing to send.
                while client.wants_write() && client.write_tls(&mut bytes).is_ok() {}
                if round == broken_round && !bytes.is_empty() {
                    let at = draw(&mut seed, bytes.len());
                    bytes[at] ^= 1 << draw(&mut seed, 8);
                }
                let cut = draw(&mut seed, bytes.len());
                let (first, second) = bytes.split_at_mut(cut);
                let mut is_broken = session.receive(first, &mut plain).is_err();
                session.encrypt(b"between");
                is_broken |= session.receive(second, &mut plain).is_err();
                failed += usize::from(is_broken);
                session.close_notify();
                let mut out = session.unsent();
                while !out.is_empty() && client.read_tls(&mut out).is_ok_and(|count| count > 0) {
                    // The client may reject the bytes.
                    let _ = client.process_new_packets();
                }
                let count = session.unsent().len();
                session.sent(count);
            }
            assert!(b"ping".starts_with(&plain[..]), "{plain:?}");
        }
        assert!(failed > 100, "{failed}");
    }

    /// docs/serve.md states the memory of an idle connection; this test fails when it grows.
    #[test]
    fn idle_sessions_have_no_buffers() {
        let (server, _) = configs();
        let session = Session::new(server, &Memory::new(usize::MAX)).unwrap();
        assert_eq!((session.incoming.capacity(), session.outgoing.capacity()), (0, 0));
        assert!(size_of::<Session>() <= 1536, "{}", size_of::<Session>());
    }
}
