//! The table of hostile requests, over real connections: whole, and in many pieces.

use crate::support::{Client, Site, kinds};
use crate::table::{Answer, Case, cases};
use landau_serve::Accepting;

fn site(accepting: Accepting) -> Site {
    let files: &[(&str, &[u8])] = &[("f", b"content"), ("sub/f", b"content")];
    Site::new(files, |config| {
        // The server waits for all heads that never end at the same time; a slow client has enough time to send its
        // head.
        (config.timeouts.head, config.accepting) = (std::time::Duration::from_secs(5), accepting);
        // The table is for an HTTP/1.1 server, to which the preface of HTTP/2 is a request of another version.
        config.http2 = false;
    })
}

/// Describes what is wrong with the response to a case, if anything is.
fn wrong(client: &mut Client, case: &Case) -> Option<String> {
    let answer = client.answer();
    let is_lawful = case.answers.iter().any(|lawful| match (lawful, &answer) {
        // The server waits, and after its timeout answers 408 or closes the connection.
        (Answer::Wait, got) => got.as_ref().is_none_or(|got| got.status == 408),
        (Answer::Status(status), Some(got)) => got.status == *status,
        (Answer::Ok, Some(got)) => matches!(got.status, 200 | 204 | 206 | 301 | 304 | 404),
        (_, None) => false,
    });
    if !is_lawful {
        return Some(format!("{}: {:?}, not {:?}", case.name, answer.map(|got| got.head), case.answers));
    }
    // If the parser rejects a request, the start of the next one is unknown: the server must close the connection.
    let is_refused = landau_wire::http::request::parse(&case.bytes, &landau_wire::http::Limits::default()).is_err();
    (is_refused && !client.is_ended()).then(|| format!("{}: the connection stays", case.name))
}

/// Sends all cases at once, so that the server's timeouts run in parallel. Returns the failures.
fn each(accepting: Accepting, send: impl Fn(&mut Client, &[u8])) -> Vec<String> {
    let site = site(accepting);
    let mut open: Vec<(Client, Case)> = Vec::new();
    for case in cases() {
        let mut client = site.connect();
        send(&mut client, &case.bytes);
        open.push((client, case));
    }
    let wrong: Vec<String> = open.iter_mut().filter_map(|(client, case)| wrong(client, case)).collect();
    drop(open);
    assert_eq!(site.get("/f", "").body, b"content", "the server is as it was");
    wrong
}

#[test]
fn each_request_gets_its_response() {
    assert!(cases().len() >= 150);
    for kind in kinds() {
        let wrong = each(kind, Client::send);
        assert!(wrong.is_empty(), "{kind:?}: {} of {}: {wrong:#?}", wrong.len(), cases().len());
    }
}

#[test]
fn split_requests_get_the_same_response() {
    for kind in kinds() {
        let wrong = each(kind, |client, bytes| {
            client.stream.set_nodelay(true).unwrap();
            // Byte by byte; long requests in 200 pieces, because each piece is a separate segment.
            for piece in bytes.chunks(bytes.len().div_ceil(200).max(1)) {
                client.send(piece);
            }
        });
        assert!(wrong.is_empty(), "{kind:?}: {} of {}: {wrong:#?}", wrong.len(), cases().len());
    }
}
