//! Reads responses from bytes as they arrive. A head that equals the previous one is not parsed.

use crate::failure::{Failure, Reason};
use landau_wire::http::Method;
use landau_wire::http::body::Body;
use landau_wire::http::response::{Reader, Response as Head};

/// The previous head and its meaning. The heads for one file differ only when the second in `Date` changes, and
/// comparing costs a tenth of parsing.
#[derive(Debug, Default)]
pub(crate) struct HeadCache {
    bytes: Vec<u8>,
    head: Option<Head>,
}

impl HeadCache {
    #[inline]
    fn get(&self, bytes: &[u8]) -> Option<Head> {
        self.head.filter(|_| bytes.starts_with(&self.bytes))
    }

    fn set(&mut self, bytes: &[u8], head: Head) {
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        self.head = Some(head);
    }
}

/// A complete response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Bytes of content.
    pub(crate) length: u64,
    /// Whether the connection accepts another request.
    pub(crate) is_reusable: bool,
}

/// A reader of responses. Between two responses it owns no memory.
#[derive(Debug, Default)]
pub(crate) struct ResponseReader {
    /// An incomplete head: its parser and its bytes.
    head: Option<Box<(Reader, Vec<u8>)>>,
    body: Option<(Response, Body)>,
    /// Whether an interim response has ended since the last call of `take_interim`.
    has_interim: bool,
}

impl ResponseReader {
    /// Returns whether an interim response has ended since the last call.
    #[inline]
    pub(crate) fn take_interim(&mut self) -> bool {
        std::mem::take(&mut self.has_interim)
    }

    /// Returns whether a response is incomplete.
    pub(crate) fn is_reading(&self) -> bool {
        self.head.is_some() || self.body.is_some()
    }

    /// Consumes bytes from the front of `rest` until a response is complete. Returns `None` if more bytes are needed.
    #[inline]
    pub(crate) fn read(
        &mut self,
        rest: &mut &[u8],
        method: Method,
        cache: &mut HeadCache,
    ) -> Result<Option<Response>, Reason> {
        loop {
            if let Some((response, body)) = &mut self.body {
                let is_complete = read_body(response, body, rest)?;
                let response = *response;
                if is_complete {
                    self.body = None;
                }
                return Ok(is_complete.then_some(response));
            }
            let Some(head) = self.read_head(rest, cache)? else { return Ok(None) };
            if head.is_interim() {
                self.has_interim = true;
                continue;
            }
            let is_reusable = head.is_reusable(method);
            let mut response = Response { status: head.status.0, length: 0, is_reusable };
            match head.body(method) {
                // The usual case: the whole body has arrived.
                Body::Bytes(length) if rest.len() as u64 >= length => {
                    *rest = &rest[length as usize..];
                    response.length = length;
                    return Ok(Some(response));
                }
                body => self.body = Some((response, body)),
            }
        }
    }

    #[inline]
    fn read_head(&mut self, rest: &mut &[u8], cache: &mut HeadCache) -> Result<Option<Head>, Reason> {
        if rest.is_empty() {
            return Ok(None);
        }
        if self.head.is_none() {
            if let Some(head) = cache.get(rest) {
                *rest = &rest[head.head_bytes..];
                return Ok(Some(head));
            }
            let mut reader = Reader::new();
            let bytes = *rest;
            match reader.parse(bytes).map_err(|error| (Failure::InvalidResponse, error.to_string()))? {
                Some(head) => {
                    cache.set(&bytes[..head.head_bytes], head);
                    *rest = &bytes[head.head_bytes..];
                    return Ok(Some(head));
                }
                None => self.head = Some(Box::new((reader, bytes.to_vec()))),
            }
            *rest = &[];
            return Ok(None);
        }
        self.continue_head(rest)
    }

    #[cold]
    fn continue_head(&mut self, rest: &mut &[u8]) -> Result<Option<Head>, Reason> {
        let Some(partial) = &mut self.head else { return Ok(None) };
        let before = partial.1.len();
        partial.1.extend_from_slice(rest);
        let parsed = partial.0.parse(&partial.1).map_err(|error| (Failure::InvalidResponse, error.to_string()))?;
        match parsed {
            None => *rest = &[],
            Some(head) => {
                *rest = &rest[head.head_bytes - before..];
                self.head = None;
            }
        }
        Ok(parsed)
    }

    /// Returns the response that the end of the stream completes, if there is one.
    pub(crate) fn end(&mut self) -> Option<Response> {
        match self.body.take() {
            Some((response, Body::UntilClose)) => Some(response),
            other => {
                self.body = other;
                None
            }
        }
    }
}

/// Consumes bytes of a body. Returns whether the body is complete.
fn read_body(response: &mut Response, body: &mut Body, rest: &mut &[u8]) -> Result<bool, Reason> {
    loop {
        let chunk = body.advance(rest).map_err(|error| (Failure::InvalidResponse, error.to_string()))?;
        response.length += chunk.data.len() as u64;
        *rest = &rest[chunk.consumed..];
        if chunk.is_end || rest.is_empty() {
            return Ok(chunk.is_end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RESPONSES: &[(&[u8], Method, u16, u64, bool)] = &[
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", Method::Get, 200, 5, true),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", Method::Head, 200, 0, true),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", Method::Get, 304, 0, true),
        (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", Method::Get, 204, 0, true),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x\r\nde\r\n0\r\nT: x\r\n\r\n",
            Method::Get,
            200,
            5,
            true,
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nab", Method::Get, 200, 2, false),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nab", Method::Get, 200, 2, false),
    ];

    fn read(
        reader: &mut ResponseReader,
        cache: &mut HeadCache,
        bytes: &[u8],
        method: Method,
        step: usize,
    ) -> Vec<Response> {
        let mut responses = Vec::new();
        for chunk in bytes.chunks(step) {
            let mut rest = chunk;
            while !rest.is_empty() {
                match reader.read(&mut rest, method, cache).unwrap() {
                    Some(response) => responses.push(response),
                    None => assert!(rest.is_empty()),
                }
            }
        }
        responses
    }

    #[test]
    fn every_split_and_every_cached_head_gives_the_same_response() {
        let mut cache = HeadCache::default();
        for _ in 0..2 {
            for &(bytes, method, status, length, is_reusable) in RESPONSES {
                for step in 1..=bytes.len() {
                    let mut reader = ResponseReader::default();
                    let responses = read(&mut reader, &mut cache, bytes, method, step);
                    assert_eq!(responses, [Response { status, length, is_reusable }], "{step}");
                    assert!(!reader.is_reading());
                }
            }
        }
    }

    #[test]
    fn response_without_length_ends_with_the_connection() {
        let (mut reader, mut cache) = (ResponseReader::default(), HeadCache::default());
        let bytes = b"HTTP/1.1 200 OK\r\n\r\nall there is";
        assert!(read(&mut reader, &mut cache, bytes, Method::Get, 7).is_empty());
        assert_eq!(reader.end(), Some(Response { status: 200, length: 12, is_reusable: false }));
        let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nall there is";
        assert!(read(&mut reader, &mut cache, bytes, Method::Get, 7).is_empty());
        assert_eq!(reader.end(), None);
        assert!(reader.is_reading());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), step in 1_usize..50) {
            let (mut reader, mut cache) = (ResponseReader::default(), HeadCache::default());
            for chunk in [b"HTTP/1.1 200 OK\r\n".as_slice(), &bytes].concat().chunks(step) {
                let mut rest = chunk;
                while !rest.is_empty()
                    && reader.read(&mut rest, Method::Get, &mut cache).is_ok_and(|response| response.is_some())
                {}
            }
        }
    }
}
