//! Reading answers as their bytes come, with a short cut for those that begin as the last one did.

use crate::tally::Failure;
use landau_wire::http::Method;
use landau_wire::http::body::Body;
use landau_wire::http::response::{Reader, Response};

/// The head that came last, and what it says. Servers repeat themselves: the same file's head differs from the last
/// one only when the date's second has changed, and comparing costs a tenth of parsing.
#[derive(Debug, Default)]
pub(crate) struct Memo {
    head: Vec<u8>,
    response: Option<Response>,
}

impl Memo {
    #[inline]
    fn look_up(&self, bytes: &[u8]) -> Option<Response> {
        self.response.filter(|_| bytes.starts_with(&self.head))
    }

    fn keep(&mut self, head: &[u8], response: Response) {
        self.head.clear();
        self.head.extend_from_slice(head);
        self.response = Some(response);
    }
}

/// A whole answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Bytes of content.
    pub(crate) length: u64,
    /// Whether the connection takes another request.
    pub(crate) is_reusable: bool,
}

/// An answer that is being read. At rest it owns no memory.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    /// A head that came in pieces so far: its cursor and its bytes.
    head: Option<Box<(Reader, Vec<u8>)>>,
    body: Option<(Answer, Body)>,
}

impl Reading {
    /// Whether an answer has begun and not ended.
    #[cfg(test)]
    pub(crate) fn is_under_way(&self) -> bool {
        self.head.is_some() || self.body.is_some()
    }

    /// Takes bytes from the front of `rest` until an answer is whole; none if they do not suffice.
    #[inline]
    pub(crate) fn take(
        &mut self,
        rest: &mut &[u8],
        method: Method,
        memo: &mut Memo,
    ) -> Result<Option<Answer>, (Failure, String)> {
        loop {
            if let Some((answer, body)) = &mut self.body {
                let done = take_body(answer, body, rest)?;
                let answer = *answer;
                if done {
                    self.body = None;
                }
                return Ok(done.then_some(answer));
            }
            let Some(response) = self.take_head(rest, memo)? else { return Ok(None) };
            if response.is_interim() {
                continue;
            }
            let is_reusable = response.is_reusable(method);
            let mut answer = Answer { status: response.status.0, length: 0, is_reusable };
            match response.body(method) {
                // The usual case: all of it is here.
                Body::Bytes(length) if rest.len() as u64 >= length => {
                    *rest = &rest[length as usize..];
                    answer.length = length;
                    return Ok(Some(answer));
                }
                body => self.body = Some((answer, body)),
            }
        }
    }

    /// Takes a head, or begins one.
    #[inline]
    fn take_head(&mut self, rest: &mut &[u8], memo: &mut Memo) -> Result<Option<Response>, (Failure, String)> {
        if rest.is_empty() {
            return Ok(None);
        }
        if self.head.is_none() {
            if let Some(response) = memo.look_up(rest) {
                *rest = &rest[response.head_bytes..];
                return Ok(Some(response));
            }
            let mut reader = Reader::new();
            let bytes = *rest;
            match reader.parse(bytes).map_err(|error| (Failure::Garbage, error.to_string()))? {
                Some(response) => {
                    memo.keep(&bytes[..response.head_bytes], response);
                    *rest = &bytes[response.head_bytes..];
                    return Ok(Some(response));
                }
                None => self.head = Some(Box::new((reader, bytes.to_vec()))),
            }
            *rest = &[];
            return Ok(None);
        }
        self.take_rest_of_head(rest)
    }

    #[cold]
    fn take_rest_of_head(&mut self, rest: &mut &[u8]) -> Result<Option<Response>, (Failure, String)> {
        let Some(head) = &mut self.head else { return Ok(None) };
        let before = head.1.len();
        head.1.extend_from_slice(rest);
        let parsed = head.0.parse(&head.1).map_err(|error| (Failure::Garbage, error.to_string()))?;
        match parsed {
            None => *rest = &[],
            Some(response) => {
                *rest = &rest[response.head_bytes - before..];
                self.head = None;
            }
        }
        Ok(parsed)
    }

    /// The connection has ended: the answer that this completes, if it was one that ends so.
    pub(crate) fn end(&mut self) -> Option<Answer> {
        match self.body.take() {
            Some((answer, Body::UntilClose)) => Some(answer),
            other => {
                self.body = other;
                None
            }
        }
    }
}

fn take_body(answer: &mut Answer, body: &mut Body, rest: &mut &[u8]) -> Result<bool, (Failure, String)> {
    loop {
        let piece = body.advance(rest).map_err(|error| (Failure::Garbage, error.to_string()))?;
        answer.length += piece.data.len() as u64;
        *rest = &rest[piece.consumed..];
        if piece.is_end || rest.is_empty() {
            return Ok(piece.is_end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ANSWERS: &[(&[u8], Method, u16, u64, bool)] = &[
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

    fn read(reading: &mut Reading, memo: &mut Memo, bytes: &[u8], method: Method, step: usize) -> Vec<Answer> {
        let mut found = Vec::new();
        for piece in bytes.chunks(step) {
            let mut rest = piece;
            while !rest.is_empty() {
                match reading.take(&mut rest, method, memo).unwrap() {
                    Some(answer) => found.push(answer),
                    None => assert!(rest.is_empty()),
                }
            }
        }
        found
    }

    #[test]
    fn every_split_and_every_memory_of_the_last_head_give_the_same() {
        let mut memo = Memo::default();
        for _ in 0..2 {
            for &(bytes, method, status, length, is_reusable) in ANSWERS {
                for step in 1..=bytes.len() {
                    let mut reading = Reading::default();
                    let found = read(&mut reading, &mut memo, bytes, method, step);
                    assert_eq!(found, [Answer { status, length, is_reusable }], "{step}");
                    assert!(!reading.is_under_way());
                }
            }
        }
    }

    #[test]
    fn an_answer_without_length_ends_with_the_connection() {
        let (mut reading, mut memo) = (Reading::default(), Memo::default());
        let bytes = b"HTTP/1.1 200 OK\r\n\r\nall there is";
        assert!(read(&mut reading, &mut memo, bytes, Method::Get, 7).is_empty());
        assert_eq!(reading.end(), Some(Answer { status: 200, length: 12, is_reusable: false }));
        let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nall there is";
        assert!(read(&mut reading, &mut memo, bytes, Method::Get, 7).is_empty());
        assert_eq!(reading.end(), None);
        assert!(reading.is_under_way());
    }

    proptest! {
        #[test]
        fn anything_is_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), step in 1_usize..50) {
            let (mut reading, mut memo) = (Reading::default(), Memo::default());
            for piece in [b"HTTP/1.1 200 OK\r\n".as_slice(), &bytes].concat().chunks(step) {
                let mut rest = piece;
                while !rest.is_empty() && reading.take(&mut rest, Method::Get, &mut memo).is_ok_and(|a| a.is_some()) {}
            }
        }
    }
}
