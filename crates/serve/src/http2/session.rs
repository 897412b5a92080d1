//! The state of an HTTP/2 connection, and the effect of each frame on it (RFC 9113 sections 5 and 6).

use super::budget::Budget;
use super::headers::{TOO_LATE, TableUpdate};
use super::stream::{Phase, Stream, Streams, must_fetch};
use super::unended::UnendedStreams;
use super::{Buffers, OUT_BYTES, TABLE_BYTES, Turn, WINDOW_STEP};
use crate::config::SLOWEST_BYTES;
use crate::counters::Counters;
use crate::fetch::Fetcher;
use crate::memory::{Memory, Share};
use crate::proxy::Exchange;
use crate::send_buffers::SendBuffers;
use crate::site::Site;
use landau_wire::http::Limits;
use landau_wire::http2::frame::{self, END_STREAM, Frame, HEADER_BYTES, Header, Kind, MOST_BYTES};
use landau_wire::http2::hpack::Decoder;
use landau_wire::http2::{Code, Fault, INITIAL_WINDOW, LARGEST_WINDOW, PREFACE, Setting, Settings};
use std::time::Duration;

/// The parts of its worker that a session needs.
#[derive(Debug)]
pub(crate) struct Desk<'a> {
    pub(crate) site: &'a mut Site,
    pub(crate) limits: &'a Limits,
    pub(crate) fetcher: &'a mut Fetcher,
    pub(crate) counters: Counters,
    /// The buffers in which a response is written in the form of HTTP/1.1.
    pub(crate) send_buffers: &'a mut SendBuffers,
    pub(crate) buffers: &'a mut Buffers,
    /// The number of the connection.
    pub(crate) number: u32,
    pub(crate) now_ms: u32,
}

impl Desk<'_> {
    /// Returns whether the output must be sent before anything else is done.
    fn is_full(&self) -> bool {
        self.buffers.out.len() >= OUT_BYTES.min(self.send_buffers.full_bytes())
    }
}

/// A header block that has not ended.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) stream: u32,
    /// Whether the block begins the stream.
    pub(super) is_new: bool,
    pub(super) is_end: bool,
    pub(super) bytes: Vec<u8>,
    pub(super) began_ms: u32,
}

/// The start times of what the client has begun and not ended, in milliseconds of the transport's clock.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Begun {
    /// A frame or a header block; everything else has to wait for its end.
    pub(crate) frame: Option<u32>,
    /// A DATA frame of which the client has sent too little since then.
    pub(crate) content: Option<u32>,
    /// The oldest request whose content is discarded.
    pub(crate) request: Option<u32>,
}

/// The purpose of a connection's deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timer {
    /// The next request. The value is the time since which there is none, in milliseconds of the transport's clock.
    Idle(u32),
    /// The end of a frame, header block or request that the client has begun.
    Head,
    /// The next part of a DATA frame.
    Content,
    /// Nothing: the server, an upstream server or a device is to go on.
    Wait,
    /// Progress of the client in reading.
    Send,
    /// The deadline has passed.
    Passed,
}

/// The state of a connection.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is independent of the others")]
pub(crate) struct Session {
    /// The number of bytes of the preface that have not arrived.
    preface_left: usize,
    has_settings: bool,
    /// Received bytes that are not handled yet: a partial frame, or frames that wait until the output has been sent.
    input: Vec<u8>,
    /// The time when the partial frame began, or when enough of its content had arrived to restart its timeout.
    frame_began_ms: u32,
    /// The number of content bytes that had arrived at that time.
    frame_bytes: usize,
    pub(super) decoder: Decoder,
    pub(super) block: Option<Block>,
    pub(super) streams: Streams,
    /// The streams that may have work for their upstream servers; some of them have ended.
    pub(super) work: Vec<u32>,
    /// The abandoned exchanges with upstream servers.
    pub(super) abandoned: Vec<Exchange>,
    /// The streams that the server has ended and the client has not.
    pub(super) unended: UnendedStreams,
    /// The settings of the client.
    pub(super) peer: Settings,
    pub(super) table_update: TableUpdate,
    /// The number of bytes that the client's window for the connection permits.
    pub(super) send_window: i64,
    /// The number of bytes that the client may still send.
    receive_window: u32,
    /// The last stream that the client began.
    pub(super) last_stream: u32,
    /// The last stream announced by a GOAWAY frame.
    announced_stream: u32,
    /// Whether further streams are refused.
    pub(super) is_going_away: bool,
    /// Whether the connection ends after everything has been sent.
    is_over: bool,
    /// The budget for frames that request nothing.
    pub(super) frames: Budget,
    /// The budget for streams that are reset, by either side.
    resets: Budget,
    /// The number of content bytes written since the send deadline last passed.
    written_bytes: u64,
    /// Output that the socket did not accept.
    pub(crate) unsent: Vec<u8>,
    /// Whether the socket did not accept all output, or all of its TLS records.
    pub(crate) is_blocked: bool,
    /// Whether the transport reports only readability.
    pub(crate) is_reading: bool,
    /// The purpose of the deadline.
    pub(crate) timer: Timer,
    /// The time since which no request is under way, if none is.
    pub(super) idle_since_ms: Option<u32>,
    /// A bandwidth limit that a response has set.
    pub(crate) pacing: Option<u64>,
    share: Share,
}

impl Session {
    /// Begins a connection, and writes the server's preface.
    pub(crate) fn new(limits: &Limits, memory: &Memory, now_ms: u32, out: &mut Vec<u8>) -> Self {
        let settings = [
            (Setting::MaxConcurrentStreams, super::MOST_STREAMS as u32),
            (Setting::MaxHeaderListSize, limits.head_bytes as u32),
        ];
        frame::write_settings(&settings, out);
        Self {
            preface_left: PREFACE.len(),
            has_settings: false,
            input: Vec::new(),
            frame_began_ms: now_ms,
            frame_bytes: 0,
            decoder: Decoder::new(TABLE_BYTES),
            block: None,
            streams: Streams::default(),
            work: Vec::new(),
            abandoned: Vec::new(),
            unended: UnendedStreams::default(),
            peer: Settings::default(),
            table_update: TableUpdate::default(),
            send_window: i64::from(INITIAL_WINDOW),
            receive_window: INITIAL_WINDOW,
            last_stream: 0,
            announced_stream: u32::MAX,
            is_going_away: false,
            is_over: false,
            frames: Budget::new(now_ms),
            resets: Budget::new(now_ms),
            written_bytes: 0,
            unsent: Vec::new(),
            is_blocked: false,
            is_reading: true,
            timer: Timer::Head,
            idle_since_ms: None,
            pacing: None,
            share: Share::new(memory, size_of::<Self>()),
        }
    }

    /// Handles received bytes until the output buffer is full.
    pub(crate) fn receive(&mut self, desk: &mut Desk<'_>, bytes: &[u8]) {
        if self.input.is_empty() {
            if self.has_settings {
                self.begin_frame(desk.now_ms);
            }
            let used = self.handle(desk, bytes);
            self.input.extend_from_slice(&bytes[used..]);
        } else {
            self.input.extend_from_slice(bytes);
            self.go_on(desk);
        }
        if let Some((_, count)) = self.part_of_content()
            && (count - self.frame_bytes.min(count)) as u64 >= SLOWEST_BYTES
        {
            (self.frame_began_ms, self.frame_bytes) = (desk.now_ms, count);
        }
    }

    fn begin_frame(&mut self, now_ms: u32) {
        (self.frame_began_ms, self.frame_bytes) = (now_ms, 0);
    }

    /// Returns the stream of a partial DATA frame, and the number of content bytes that have arrived.
    fn part_of_content(&self) -> Option<(u32, usize)> {
        let header = Header::parse(&self.input).filter(|header| header.kind == Kind::Data as u8)?;
        let count = self.input.len() - HEADER_BYTES;
        (count < header.length).then_some((header.stream, count))
    }

    /// Returns the number of content bytes of a stream that have arrived in a partial frame.
    pub(crate) fn part_bytes(&self, stream: u32) -> u64 {
        self.part_of_content().filter(|(own, _)| *own == stream).map_or(0, |(_, count)| count as u64)
    }

    /// Handles received bytes that had to wait.
    pub(crate) fn go_on(&mut self, desk: &mut Desk<'_>) {
        if self.input.is_empty() {
            return;
        }
        let mut input = std::mem::take(&mut self.input);
        let used = self.handle(desk, &input);
        if used < input.len() {
            input.drain(..used);
            self.input = input;
        }
    }

    /// Handles complete frames; returns their total length.
    fn handle(&mut self, desk: &mut Desk<'_>, bytes: &[u8]) -> usize {
        let mut at = 0;
        if self.preface_left > 0 {
            let own = &PREFACE[PREFACE.len() - self.preface_left..];
            at = own.len().min(bytes.len());
            if bytes[..at] != own[..at] {
                self.fail(desk, Code::PROTOCOL_ERROR);
                return bytes.len();
            }
            self.preface_left -= at;
        }
        while !desk.is_full() {
            if self.is_over {
                return bytes.len();
            }
            let Some(header) = Header::parse(&bytes[at..]) else { break };
            if header.length > MOST_BYTES {
                self.fail(desk, Code::FRAME_SIZE_ERROR);
                return bytes.len();
            }
            let end = at + HEADER_BYTES + header.length;
            let Some(payload) = bytes.get(at + HEADER_BYTES..end) else { break };
            at = end;
            self.begin_frame(desk.now_ms);
            match self.frame(desk, header, payload) {
                Ok(()) => {}
                Err(Fault::Connection(code, _)) => self.fail(desk, code),
                Err(Fault::Stream(code, _)) => self.reset(desk, header.stream, code, ends_stream(header)),
            }
        }
        at
    }

    fn frame(&mut self, desk: &mut Desk<'_>, header: Header, payload: &[u8]) -> Result<(), Fault> {
        let protocol = |reason| Err(Fault::Connection(Code::PROTOCOL_ERROR, reason));
        // The content of a frame may be an error of its stream only, but a frame in the wrong place is an error of the
        // connection.
        let is_settings = header.kind == Kind::Settings as u8 && header.flags & frame::ACK == 0;
        if !self.has_settings && !is_settings {
            return protocol("the first frame is not SETTINGS");
        }
        let is_next = |block: &Block| header.kind == Kind::Continuation as u8 && block.stream == header.stream;
        if self.block.as_ref().is_some_and(|block| !is_next(block)) {
            return protocol("a frame within a header block");
        }
        if header.kind == Kind::WindowUpdate as u8 && header.stream != 0 {
            self.must_be_begun(header.stream)?;
        }
        let frame = Frame::parse(header, payload)?;
        let stream = header.stream;
        if self.block.is_none() && matches!(frame, Frame::Continuation { .. }) {
            return protocol("CONTINUATION without HEADERS");
        }
        match frame {
            Frame::Headers { block, is_end, is_whole } => self.headers(desk, stream, block, is_end, is_whole),
            Frame::Continuation { block, is_last } => self.continuation(desk, block, is_last),
            Frame::Data { content, is_end } => self.data(desk, header, content, is_end),
            Frame::RstStream(_) => {
                self.must_be_begun(stream)?;
                // A client may end a stream once, free of charge, after it was answered early.
                if !self.ignores(stream, true) {
                    self.pay_for_reset(desk)?;
                }
                self.forget(desk, stream);
                Ok(())
            }
            Frame::Settings(payload) => {
                self.pay(desk)?;
                self.has_settings = true;
                self.settings(payload)?;
                frame::write_settings_ack(&mut desk.buffers.out);
                Ok(())
            }
            Frame::WindowUpdate(increment) => {
                self.pay(desk)?;
                self.window_update(stream, i64::from(increment))
            }
            Frame::Ping(bytes) => {
                self.pay(desk)?;
                frame::write_ping_ack(bytes, &mut desk.buffers.out);
                Ok(())
            }
            Frame::GoAway(..) => {
                self.is_going_away = true;
                Ok(())
            }
            Frame::PushPromise => protocol("PUSH_PROMISE from a client"),
            Frame::PingAck(payload) if self.reset_answered(payload, &mut desk.buffers.out) => Ok(()),
            Frame::SettingsAck | Frame::PingAck(_) | Frame::Ignored => self.pay(desk),
        }
    }

    /// Charges the budget for frames that request nothing.
    pub(super) fn pay(&mut self, desk: &Desk<'_>) -> Result<(), Fault> {
        let is_paid = self.frames.take(desk.now_ms);
        is_paid.then_some(()).ok_or(Fault::Connection(Code::ENHANCE_YOUR_CALM, "too many frames without a request"))
    }

    fn pay_for_reset(&mut self, desk: &Desk<'_>) -> Result<(), Fault> {
        let is_paid = self.resets.take(desk.now_ms);
        is_paid.then_some(()).ok_or(Fault::Connection(Code::ENHANCE_YOUR_CALM, "too many reset streams"))
    }

    /// Fails if the client has not begun the stream: only HEADERS and PRIORITY are permitted on it.
    fn must_be_begun(&self, stream: u32) -> Result<(), Fault> {
        let is_begun = stream % 2 == 1 && stream <= self.last_stream;
        is_begun.then_some(()).ok_or(Fault::Connection(Code::PROTOCOL_ERROR, "a frame on an idle stream"))
    }

    fn settings(&mut self, payload: &[u8]) -> Result<(), Fault> {
        let before = i64::from(self.peer.initial_window);
        self.peer.apply(payload)?;
        self.table_update.note(&self.peer);
        let change = i64::from(self.peer.initial_window) - before;
        for stream in self.streams.iter_mut() {
            stream.window += change;
            if stream.window > LARGEST_WINDOW {
                return Err(Fault::Connection(Code::FLOW_CONTROL_ERROR, "a window larger than 2^31 - 1"));
            }
        }
        Ok(())
    }

    fn window_update(&mut self, stream: u32, increment: i64) -> Result<(), Fault> {
        let reason = "a window larger than 2^31 - 1";
        if stream == 0 {
            self.send_window += increment;
            let is_valid = self.send_window <= LARGEST_WINDOW;
            return is_valid.then_some(()).ok_or(Fault::Connection(Code::FLOW_CONTROL_ERROR, reason));
        }
        if let Some(stream) = self.streams.get(stream) {
            stream.window += increment;
            if stream.window > LARGEST_WINDOW {
                return Err(Fault::Stream(Code::FLOW_CONTROL_ERROR, reason));
            }
        }
        Ok(())
    }

    /// Handles a request's content. Content is only counted if the request is not forwarded. Padding counts towards the
    /// window too.
    fn data(&mut self, desk: &mut Desk<'_>, header: Header, content: &[u8], is_end: bool) -> Result<(), Fault> {
        let flow = (Code::FLOW_CONTROL_ERROR, "more content than the window allows");
        let (id, size, len) = (header.stream, header.length as u32, content.len());
        self.must_be_begun(id)?;
        self.receive_window = self.receive_window.checked_sub(size).ok_or(Fault::Connection(flow.0, flow.1))?;
        if INITIAL_WINDOW - self.receive_window >= WINDOW_STEP {
            frame::write_window_update(0, INITIAL_WINDOW - self.receive_window, &mut desk.buffers.out);
            self.receive_window = INITIAL_WINDOW;
        }
        if len == 0 && !is_end {
            self.pay(desk)?;
        }
        let Some(stream) = self.streams.get(id).filter(|stream| !stream.has_ended) else {
            if self.ignores(id, is_end) {
                // A client may end each such stream once, free of charge.
                return if is_end { Ok(()) } else { self.pay(desk) };
            }
            return Err(Fault::Stream(Code::STREAM_CLOSED, "content on a closed stream"));
        };
        stream.has_ended = is_end;
        match &mut stream.phase {
            Phase::Receiving(upload) => {
                upload.window = upload.window.checked_sub(size).ok_or(Fault::Stream(flow.0, flow.1))?;
                upload.got += len as u64;
                let is_wrong = |promised| upload.got > promised || (is_end && upload.got < promised);
                if upload.promised.is_some_and(is_wrong) {
                    return Err(Fault::Stream(Code::PROTOCOL_ERROR, "the content does not have the announced length"));
                }
                if !is_end && INITIAL_WINDOW - upload.window >= WINDOW_STEP {
                    frame::write_window_update(id, INITIAL_WINDOW - upload.window, &mut desk.buffers.out);
                    upload.window = INITIAL_WINDOW;
                }
                self.continue_upload(desk, id, is_end)
            }
            Phase::Relaying(relay) => {
                relay.take(content, size, is_end)?;
                if relay.must_list() {
                    self.work.push(id);
                }
                Ok(())
            }
            Phase::LookingUp(waiting) if waiting.early.is_some() => {
                waiting.early.as_mut().map_or(Ok(()), |early| early.take(content, size))
            }
            // The request was answered without its content, so the content is ignored.
            _ => self.pay(desk),
        }
    }

    /// Ends a stream with an error. `is_end` states whether the client's side has ended.
    pub(super) fn reset(&mut self, desk: &mut Desk<'_>, stream: u32, code: Code, is_end: bool) {
        if self.must_be_begun(stream).is_err() {
            // An idle stream must not be reset (RFC 9113 section 6.4); the cause is an invalid PRIORITY frame.
            return self.fail(desk, code);
        }
        if let Err(Fault::Connection(code, _)) = self.pay_for_reset(desk) {
            return self.fail(desk, code);
        }
        let has_ended = is_end || self.streams.get(stream).is_some_and(|stream| stream.has_ended);
        frame::write_rst_stream(stream, code, &mut desk.buffers.out);
        if !has_ended {
            self.note_reset(stream, &mut desk.buffers.out);
        }
        self.forget(desk, stream);
    }

    /// Removes a stream, and cancels its pending read or abandons its exchange with an upstream server.
    fn forget(&mut self, desk: &mut Desk<'_>, stream: u32) {
        match self.streams.remove(stream).map(|stream| stream.phase) {
            Some(Phase::Fetching(_, serial)) => desk.fetcher.cancel(serial),
            Some(Phase::Relaying(relay)) => self.abandoned.push(*relay.exchange),
            _ => {}
        }
    }

    /// Cancels the reads that streams wait for.
    pub(crate) fn cancel_fetches(&self, fetcher: &Fetcher) {
        for stream in self.streams.iter() {
            if let Phase::Fetching(_, serial) = stream.phase {
                fetcher.cancel(serial);
            }
        }
    }

    /// Ends the connection with an error.
    fn fail(&mut self, desk: &mut Desk<'_>, code: Code) {
        if !self.is_over {
            desk.counters.http2_failed().add(1);
            self.end(desk, code);
        }
    }

    /// Ends the connection: the output is still sent, and nothing more is handled.
    pub(crate) fn end(&mut self, desk: &mut Desk<'_>, code: Code) {
        self.cancel_fetches(desk.fetcher);
        self.abandon_all();
        (self.input, self.block) = (Vec::new(), None);
        (self.is_going_away, self.is_over) = (true, true);
        self.write_go_away(code, &mut desk.buffers.out);
    }

    /// Refuses further streams; the connection ends after the open streams have ended.
    pub(crate) fn go_away(&mut self, out: &mut Vec<u8>) {
        if !self.is_going_away {
            self.is_going_away = true;
            self.write_go_away(Code::NO_ERROR, out);
        }
    }

    /// Announces the end of the connection. The announced last stream must never increase (RFC 9113 section 6.8),
    /// because the client has already retried later requests elsewhere.
    fn write_go_away(&mut self, code: Code, out: &mut Vec<u8>) {
        self.announced_stream = self.announced_stream.min(self.last_stream);
        frame::write_go_away(self.announced_stream, code, out);
    }

    /// Writes content until the output buffer is full, one frame of each stream in turn.
    pub(crate) fn fill(&mut self, desk: &mut Desk<'_>) {
        while !desk.is_full() && self.send_window > 0 {
            let Some(stream) = self.streams.next() else { return };
            if must_fetch(stream, desk.fetcher, desk.number, desk.now_ms) {
                desk.counters.cold_reads().add(1);
                continue;
            }
            let (id, has_ended) = (stream.id, stream.has_ended);
            let most = stream.window.min(self.send_window).min(i64::from(MOST_BYTES as u32)) as usize;
            let out = &mut desk.buffers.out;
            let start = out.len();
            out.extend_from_slice(&[0; HEADER_BYTES]);
            if let Phase::Relaying(relay) = &mut stream.phase {
                let count = most.min(relay.pending_bytes());
                out.extend_from_slice(&relay.pending()[..count]);
                stream.window -= i64::from(count as u32);
                // After all of it has been written, the upstream server is read again.
                if relay.sent(count) && relay.must_list() {
                    self.work.push(id);
                }
                self.write_data_header(out, start, id, (false, is_cut(count, most)));
                continue;
            }
            let Phase::Sending(content) = &mut stream.phase else { return out.truncate(start) };
            let Ok(count) = content.batch.read(out, most) else {
                // The file became shorter than the announced length.
                out.truncate(start);
                self.streams.remove(id);
                frame::write_rst_stream(id, Code::INTERNAL_ERROR, out);
                if !has_ended {
                    self.note_reset(id, out);
                }
                continue;
            };
            content.has_read(count);
            stream.window -= i64::from(count as u32);
            let is_end = content.batch.is_empty();
            if is_end {
                self.streams.remove(id);
            }
            self.write_data_header(out, start, id, (is_end, is_cut(count, most)));
            if is_end && !has_ended {
                self.end_early(id, out);
            }
        }
    }

    /// Completes a DATA frame that begins at `start`, and counts its content. `is_cut` states whether a window made the
    /// frame shorter.
    pub(super) fn write_data_header(
        &mut self,
        out: &mut [u8],
        start: usize,
        stream: u32,
        (is_end, is_cut): (bool, bool),
    ) {
        let count = out.len() - start - HEADER_BYTES;
        let header = Header::new(Kind::Data, if is_end { END_STREAM } else { 0 }, stream, count);
        out[start..start + HEADER_BYTES].copy_from_slice(&header.bytes());
        self.send_window -= i64::from(count as u32);
        self.written_bytes += count as u64;
        self.frames.give_for(count, is_cut);
    }

    /// Continues a stream whose part of a file is now in memory; returns whether the stream exists.
    pub(crate) fn take_fetched(&mut self, serial: u32) -> bool {
        let Some(stream) = self.streams.fetching(serial) else { return false };
        let phase = std::mem::replace(&mut stream.phase, Phase::Sending(super::stream::Content::none()));
        if let Phase::Fetching(mut content, _) = phase {
            content.is_there();
            stream.phase = Phase::Sending(content);
        }
        true
    }

    /// Returns whether the session can progress without another frame from the client.
    pub(crate) fn can_go_on(&self) -> bool {
        (self.send_window > 0 && self.streams.any_sendable()) || self.has_whole_frame()
    }

    /// Returns whether a complete frame has arrived and waits.
    pub(crate) fn has_whole_frame(&self) -> bool {
        let needed = Header::parse(&self.input).map_or(HEADER_BYTES, |header| HEADER_BYTES + header.length);
        self.input.len() >= needed
    }

    /// Returns whether the connection ends after everything has been sent.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over || (self.is_going_away && self.streams.is_empty() && self.block.is_none())
    }

    /// Continues after the client has read all output. Nothing was read from the client meanwhile, so the timeouts of
    /// what it has begun start again.
    pub(crate) fn unblock(&mut self, now_ms: u32) {
        if !std::mem::take(&mut self.is_blocked) {
            return;
        }
        if self.has_settings {
            self.begin_frame(now_ms);
            self.frame_bytes = self.part_of_content().map_or(0, |(_, count)| count);
        }
        if let Some(block) = &mut self.block {
            block.began_ms = now_ms;
        }
        for stream in self.streams.iter_mut() {
            match &mut stream.phase {
                Phase::Receiving(upload) => upload.began_ms = now_ms,
                Phase::Relaying(relay) if relay.turn == Some(Turn::Client) => relay.turn_began_ms = now_ms,
                _ => {}
            }
        }
    }

    /// Returns what the client has begun and not ended. A frame that waits for the server does not count. While the
    /// socket's send buffer is full, nothing counts, because nothing is read then.
    pub(crate) fn begun(&self, now_ms: u32) -> Begun {
        if self.is_blocked {
            return Begun::default();
        }
        let oldest = |one: &u32| now_ms.wrapping_sub(*one);
        let is_part = !self.input.is_empty() && !self.has_whole_frame();
        let is_frame = self.preface_left > 0 || !self.has_settings || is_part;
        let is_content = self.has_settings && self.block.is_none() && self.part_of_content().is_some();
        let frame = (is_frame && !is_content).then_some(self.frame_began_ms);
        let block = self.block.as_ref().map(|block| block.began_ms);
        let uploads = self.streams.iter().filter_map(|stream| match &stream.phase {
            Phase::Receiving(upload) => Some(upload.began_ms),
            _ => None,
        });
        Begun {
            frame: frame.into_iter().chain(block).max_by_key(oldest),
            content: is_content.then_some(self.frame_began_ms),
            request: uploads.max_by_key(oldest),
        }
    }

    /// Answers the requests whose content has not ended within `limit` after they began; returns their number.
    pub(crate) fn refuse_late(&mut self, desk: &mut Desk<'_>, limit: Duration) -> u64 {
        let is_late = |began_ms: u32| u128::from(desk.now_ms.wrapping_sub(began_ms)) >= limit.as_millis();
        let id_of_late = |stream: &Stream| match &stream.phase {
            Phase::Receiving(upload) => is_late(upload.began_ms).then_some(stream.id),
            _ => None,
        };
        let late: Vec<u32> = self.streams.iter().filter_map(id_of_late).collect();
        for &id in &late {
            self.refuse_upload(desk, id, TOO_LATE);
        }
        late.len() as u64
    }

    /// Returns whether content waits for the client to read.
    pub(crate) fn is_sending(&self) -> bool {
        let has_content = |phase: &Phase| match phase {
            Phase::Sending(_) => true,
            Phase::Relaying(relay) => relay.pending_bytes() > 0,
            _ => false,
        };
        !self.unsent.is_empty() || self.streams.iter().any(|stream| has_content(&stream.phase))
    }

    /// Returns the time since which no request is under way, or `None` if one is. Frames that request nothing, even
    /// partial ones, do not change this time.
    pub(crate) fn idle_since_ms(&mut self, now_ms: u32) -> Option<u32> {
        if !self.streams.is_empty() || self.is_blocked || self.is_sending() {
            self.idle_since_ms = None;
            return None;
        }
        Some(*self.idle_since_ms.get_or_insert(now_ms))
    }

    /// Returns the number of content bytes written since the last call.
    pub(crate) fn take_written(&mut self) -> u64 {
        std::mem::take(&mut self.written_bytes)
    }

    /// Updates the count of the memory that the session holds.
    pub(crate) fn count_memory(&mut self) {
        let block = self.block.as_ref().map_or(0, |block| block.bytes.capacity());
        let buffers = self.input.capacity() + self.unsent.capacity() + block;
        let tables = self.decoder.memory_bytes() + self.streams.memory_bytes();
        let lists = self.work.capacity() * size_of::<u32>() + self.unended.memory_bytes();
        self.share.resize(size_of::<Self>() + buffers + tables + lists);
    }

    /// Returns the memory, in bytes, at the time of the last count.
    pub(crate) fn held_bytes(&self) -> usize {
        self.share.bytes()
    }
}

/// Returns whether a window that permits `most` bytes may have made the content of a frame shorter.
fn is_cut(count: usize, most: usize) -> bool {
    count == most && most < MOST_BYTES
}

/// Returns whether a frame is the client's last one on its stream.
fn ends_stream(header: Header) -> bool {
    (header.kind == Kind::Data as u8 || header.kind == Kind::Headers as u8) && header.flags & END_STREAM != 0
}
