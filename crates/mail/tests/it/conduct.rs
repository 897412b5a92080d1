//! Tests of the treatment of connections: late replies, pieces, resets, half-closes, silence, limits.

use crate::support::{LONG, Running};
use landau_mail::sink::conduct::{Conduct, Cut, Latency, Pieces};
use landau_mail::sink::http::{Answer, Http};
use landau_mail::sink::tcp::{Mode, Tcp};
use std::io::ErrorKind;
use std::time::{Duration, Instant};

/// A request for the HTTP sink, which the TCP sink echoes as bytes.
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";

/// Returns an HTTP sink and a TCP sink, each with its answer to [`REQUEST`].
fn others(conduct: Conduct, latency: Latency) -> [(Running, &'static [u8]); 2] {
    // Idle connections are closed, and a test advances the clock by hours.
    let idle = Duration::from_secs(30 * 86_400);
    let answer = Answer { content_bytes: 3, latency, ..Answer::default() };
    let http = Running::http(Http::new(answer, conduct, idle, 1));
    let tcp = Running::tcp(Tcp::new(Mode::Echo, latency, conduct, idle, 1));
    [(http, b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nxxx"), (tcp, REQUEST)]
}

/// The clock of the sink stands still, so a reply before it is advanced was not delayed.
#[test]
fn a_late_reply_comes_when_its_time_has_passed_and_not_before() {
    let sink = Running::profile("[default]\nlatency = { mail = \"1h\" }");
    let mut client = sink.connect();
    client.send(b"HELO c\r\nMAIL FROM:<>\r\nRSET\r\n");
    assert_eq!([client.reply(), client.reply()], [220, 250]);
    assert_eq!(client.receive_briefly(), b"");
    // The delay begins after the sink has read the command; until then, advancing the clock has no effect.
    let (mut received, began) = (Vec::new(), Instant::now());
    while received.is_empty() {
        assert!(began.elapsed() < LONG, "no reply came");
        sink.clock.advance(Duration::from_secs(3600));
        received = client.receive_briefly();
    }
    assert!(received.starts_with(b"250 2.1.0 Ok\r\n"));
}

#[test]
fn replies_leave_in_pieces() {
    let sink = Running::profile("[default]\npieces = { bytes = 5, every = \"1h\" }");
    let mut client = sink.connect();
    let (mut pieces, began): (Vec<Vec<u8>>, _) = (Vec::new(), Instant::now());
    while !pieces.concat().ends_with(b"\r\n") {
        assert!(began.elapsed() < LONG, "{pieces:?}");
        match client.receive_briefly() {
            piece if piece.is_empty() => sink.clock.advance(Duration::from_secs(3600)),
            piece => pieces.push(piece),
        }
    }
    assert_eq!(pieces.concat(), b"220 sink.example ESMTP Landau\r\n");
    assert!(pieces.iter().all(|piece| piece.len() <= 5), "{pieces:?}");
}

#[test]
fn a_connection_is_reset_after_its_bytes() {
    let sink = Running::profile("[default]\nreset = { after = \"20B\" }");
    let mut client = sink.connect();
    assert_eq!([client.reply(), client.command("HELO c.example")], [220, 250]);
    client.send(b"NOOP");
    assert_eq!(client.reply(), -1);
    assert_eq!(sink.remote.total("resets"), 1);
}

/// The sink ends its stream, but still receives input from the client.
#[test]
fn a_connection_is_half_closed() {
    let sink = Running::profile("[default]\nhalf_close = { after = \"20B\" }");
    let mut client = sink.connect();
    assert_eq!([client.reply(), client.command("HELO c.example")], [220, 250]);
    client.send(b"NOOP\r\n");
    assert_eq!(client.reply(), 0);
    let before = sink.remote.total("bytes_received");
    client.send(&[b'x'; 1000]);
    received(&sink, before + 1000);
    client.end();
    closed(&sink, 1);
    assert_eq!(sink.remote.total("half_closes"), 1);
}

#[test]
fn a_silent_host_takes_everything_and_says_nothing() {
    let sink = Running::profile("[default]\nsilent = 1.0");
    let mut client = sink.connect();
    client.send(b"HELO c\r\n");
    received(&sink, 8);
    assert_eq!((client.receive_briefly(), sink.remote.total("silent")), (Vec::new(), 1));
}

#[test]
fn a_connection_over_the_limit_is_told_421_until_another_ends() {
    let sink = Running::profile("[default]\nconnections = 2");
    let (mut first, mut second, mut third) = (sink.connect(), sink.connect(), sink.connect());
    assert_eq!([first.reply(), second.reply(), third.reply(), third.reply()], [220, 220, 421, 0]);
    drop(third);
    assert_eq!([first.command("QUIT"), first.reply()], [221, 0]);
    closed(&sink, 2);
    assert_eq!(sink.connect().reply(), 220);
    assert_eq!(sink.remote.total("busy"), 1);
}

#[test]
fn an_idle_client_is_told_421() {
    let sink = Running::profile("[default]\nidle = \"1h\"");
    let mut client = sink.connect();
    assert_eq!(client.reply(), 220);
    let (mut received, began) = (Vec::new(), Instant::now());
    while received.is_empty() {
        assert!(began.elapsed() < LONG, "no reply came");
        sink.clock.advance(Duration::from_secs(3600));
        received = client.receive_briefly();
    }
    assert!(received.starts_with(b"421 4.4.2 "), "{}", received.escape_ascii());
    assert_eq!((client.reply(), sink.remote.total("idle_closed")), (0, 1));
}

/// A client that reads late still gets everything: the replies to ten thousand commands exceed no limit of the sink,
/// and the sink reads no further commands meanwhile.
#[test]
fn a_client_that_reads_late_loses_no_reply() {
    let sink = Running::profile("");
    let mut client = sink.connect();
    let commands = b"NOOP\r\n".repeat(10_000);
    client.send_in_pieces(&commands, 6 * 100);
    client.send(b"QUIT\r\n");
    assert_eq!(client.reply(), 220);
    for _ in 0..10_000 {
        assert_eq!(client.reply(), 250);
    }
    assert_eq!([client.reply(), client.reply()], [221, 0]);
}

#[test]
fn answers_to_requests_and_bytes_are_late_and_leave_in_pieces() {
    let every = Duration::from_secs(3600);
    let conduct = Conduct { pieces: Some(Pieces { bytes: 20, every }), ..Conduct::default() };
    for (sink, answer) in others(conduct, Latency::parse("1h").unwrap()) {
        let mut client = sink.connect();
        client.send(REQUEST);
        assert_eq!(client.receive_briefly(), b"");
        let (mut pieces, began): (Vec<Vec<u8>>, _) = (Vec::new(), Instant::now());
        while pieces.concat().len() < answer.len() {
            assert!(began.elapsed() < LONG, "{pieces:?}");
            match client.receive_briefly() {
                piece if piece.is_empty() => sink.clock.advance(every),
                piece => pieces.push(piece),
            }
        }
        assert_eq!(pieces.concat(), answer);
        // Two pieces may arrive in one read, on a busy machine.
        assert!(pieces.len() > 1, "{pieces:?}");
    }
}

/// Waits until `count` connections of a sink have closed.
fn closed(sink: &Running, count: u64) {
    let began = Instant::now();
    while sink.remote.total("closed") < count {
        assert!(began.elapsed() < LONG, "{} of {count} connections have closed", sink.remote.total("closed"));
        std::thread::yield_now();
    }
}

/// Waits until a sink has received `bytes` bytes.
fn received(sink: &Running, bytes: u64) {
    let began = Instant::now();
    while sink.remote.total("bytes_received") < bytes {
        assert!(began.elapsed() < LONG, "it has not received {bytes} bytes");
        std::thread::yield_now();
    }
}

#[test]
fn connections_of_requests_and_bytes_are_reset_half_closed_or_silent() {
    let cut = Some(Cut { after_bytes: 20, share: 1.0 });
    for (sink, _) in others(Conduct { reset: cut, ..Conduct::default() }, Latency::default()) {
        let mut client = sink.connect();
        client.send(REQUEST);
        assert_eq!(client.rest().unwrap_err().kind(), ErrorKind::ConnectionReset);
        assert_eq!(sink.remote.total("resets"), 1);
    }
    for (sink, _) in others(Conduct { half_close: cut, ..Conduct::default() }, Latency::default()) {
        let mut client = sink.connect();
        client.send(REQUEST);
        client.rest().unwrap();
        client.send(&[b'x'; 1000]);
        received(&sink, REQUEST.len() as u64 + 1000);
        assert_eq!(sink.remote.total("half_closes"), 1);
    }
    for (sink, _) in others(Conduct { silent_share: 1.0, ..Conduct::default() }, Latency::default()) {
        let mut client = sink.connect();
        client.send(REQUEST);
        received(&sink, REQUEST.len() as u64);
        assert_eq!((client.receive_briefly(), sink.remote.total("silent")), (Vec::new(), 1));
    }
}
