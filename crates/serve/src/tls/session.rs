//! The TLS of one connection: records in, plain bytes out, and the other way.
//!
//! rustls' interface without buffers is used, so that a connection at rest owns its keys and nothing else: what comes
//! is opened in the worker's own buffer, and only a record that is not whole is kept.

use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus, WriteTraffic};
use rustls::{HandshakeKind, ServerConfig};
use std::sync::Arc;

/// What a record of 16 KiB may gain: header, nonce, tag, and the type of what is in it.
const RECORD_OVERHEAD: usize = 64;

/// The plain bytes of a record.
const RECORD_BYTES: usize = 16 << 10;

/// The TLS of one connection.
pub(crate) struct Session {
    connection: UnbufferedServerConnection,
    /// The beginning of a record.
    incoming: Vec<u8>,
    /// Records that the client has not taken.
    outgoing: Vec<u8>,
    taken: usize,
    stage: Stage,
    /// Whether the client said that it sends no more.
    pub(crate) has_received_end: bool,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Session({} bytes to send)", self.unsent().len())
    }
}

/// How far the protocol is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// Nothing was heard.
    New,
    /// The handshake is under way.
    Shaking,
    /// It has ended.
    Open,
    /// The client was told that nothing more comes.
    Ended,
    /// There was an error: the library is not to be asked again.
    Failed,
}

/// What came of bytes that were heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    /// The handshake ended with them; `true` if it took up an earlier session.
    Established(bool),
    /// Nothing special.
    More,
}

impl Session {
    pub(crate) fn new(config: Arc<ServerConfig>) -> Result<Self, rustls::Error> {
        Ok(Self {
            connection: UnbufferedServerConnection::new(config)?,
            incoming: Vec::new(),
            outgoing: Vec::new(),
            taken: 0,
            stage: Stage::New,
            has_received_end: false,
        })
    }

    /// Opens the records that came, and what was left of those before. What is to be sent for the protocol's sake
    /// gathers in the session, an alert in the case of an error too.
    pub(crate) fn receive(&mut self, bytes: &mut [u8], plain: &mut Vec<u8>) -> Result<Received, rustls::Error> {
        if self.stage == Stage::Failed {
            return Err(rustls::Error::General("an error came before".to_owned()));
        }
        self.stage = self.stage.max(Stage::Shaking);
        if self.incoming.is_empty() {
            let used = self.open(bytes, plain)?;
            self.incoming = bytes[used..].to_vec();
        } else {
            let mut all = std::mem::take(&mut self.incoming);
            all.extend_from_slice(bytes);
            let used = self.open(&mut all, plain)?;
            // At rest nothing is kept, not even room.
            self.incoming = if used == all.len() { Vec::new() } else { all.split_off(used) };
        }
        if self.stage >= Stage::Open || self.connection.is_handshaking() {
            return Ok(Received::More);
        }
        self.stage = Stage::Open;
        Ok(Received::Established(self.connection.handshake_kind() == Some(HandshakeKind::Resumed)))
    }

    /// How many bytes were used. Whatever is left belongs to a record that is not whole.
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
                // More must come, or all that came was read. Early data is never asked for.
                Ok(_) => is_over = true,
            }
            used += discard;
            if is_over {
                return Ok(used);
            }
        }
    }

    /// What the protocol wants the client to be told about an error, and what was to be said before it. The library is
    /// asked as long as it has something: then that comes before anything else is looked at, and once more it would
    /// find the same error again.
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

    /// Adds bytes to what is to be sent, as records. False if that cannot be done any more.
    pub(crate) fn encrypt(&mut self, plain: &[u8]) -> bool {
        let room = plain.len() + plain.len().div_ceil(RECORD_BYTES).max(1) * RECORD_OVERHEAD;
        self.write(room, |traffic, out| traffic.encrypt(plain, out))
    }

    /// Adds the word that nothing more comes, once.
    pub(crate) fn close_notify(&mut self) {
        if self.stage == Stage::Open {
            self.stage = Stage::Ended;
            // Whoever cannot be told finds out by the end of the stream.
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
        // What is left of incoming records must be shown again: the library counts from its beginning.
        let UnbufferedStatus { state, .. } = self.connection.process_tls_records(&mut self.incoming);
        let Ok(ConnectionState::WriteTraffic(mut traffic)) = state else { return false };
        let len = self.outgoing.len();
        self.outgoing.resize(len + room, 0);
        let put = put(&mut traffic, &mut self.outgoing[len..]);
        self.outgoing.truncate(len + put.as_ref().copied().unwrap_or(0));
        put.is_ok()
    }

    /// What is to be sent.
    pub(crate) fn unsent(&self) -> &[u8] {
        &self.outgoing[self.taken..]
    }

    /// Notes that the client took so much of it.
    pub(crate) fn sent(&mut self, count: usize) {
        self.taken += count;
        if self.taken == self.outgoing.len() {
            (self.outgoing, self.taken) = (Vec::new(), 0);
        }
    }

    /// Whether nothing was heard.
    pub(crate) fn is_new(&self) -> bool {
        self.stage == Stage::New
    }

    /// Whether the handshake has ended.
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

/// The sessions of a worker, by the numbers of their connections. A worker without TLS has none, and no table.
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

    pub(crate) fn remove(&mut self, number: u32) -> Option<Box<Session>> {
        self.0.get_mut(number as usize)?.take()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Settings, TlsFiles};
    use super::*;
    use rustls::pki_types::{CertificateDer, ServerName};
    use rustls::{ClientConfig, ClientConnection, RootCertStore};
    use std::io::Write;
    use std::path::Path;

    fn configs() -> (Arc<ServerConfig>, Arc<ClientConfig>) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/certificates");
        let files = TlsFiles { certificate: folder.join("one.pem"), key: folder.join("one-key.pem") };
        let mut roots = RootCertStore::empty();
        let chain = super::super::chain(&files.certificate).unwrap();
        roots.add(CertificateDer::clone(&chain[0])).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let client = builder.with_root_certificates(roots).with_no_client_auth();
        (Settings::new(&[files]).unwrap().current(), Arc::new(client))
    }

    /// A number that looks random, and is the same each time.
    fn draw(seed: &mut u64, below: usize) -> usize {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 33) as usize % below.max(1)
    }

    /// One bit of what the client sends is wrong, or none, and it comes in two pieces, with writing in between. Nothing
    /// of that may end the worker; and a client whose bytes were left alone gets its answer or none, but no other.
    #[test]
    fn broken_records_end_the_session_and_nothing_else() {
        let (server, client) = configs();
        let mut seed = 7;
        let mut failed = 0;
        for _ in 0..400 {
            let mut session = Session::new(server.clone()).unwrap();
            let name = ServerName::try_from("one.example").unwrap();
            let mut client = ClientConnection::new(client.clone(), name).unwrap();
            client.writer().write_all(b"ping").unwrap();
            let (mut plain, broken_round) = (Vec::new(), draw(&mut seed, 4));
            for round in 0..3 {
                let mut bytes = Vec::new();
                // Nothing is left to be said after an error.
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
                    // The client has its own opinion on what it gets.
                    let _ = client.process_new_packets();
                }
                let count = session.unsent().len();
                session.sent(count);
            }
            assert!(b"ping".starts_with(&plain[..]), "{plain:?}");
        }
        assert!(failed > 100, "{failed}");
    }

    /// What a connection at rest owns is told in the manual; this notices when it grows.
    #[test]
    fn a_session_at_rest_has_no_buffers() {
        let (server, _) = configs();
        let session = Session::new(server).unwrap();
        assert_eq!((session.incoming.capacity(), session.outgoing.capacity()), (0, 0));
        assert!(size_of::<Session>() <= 1536, "{}", size_of::<Session>());
    }
}
