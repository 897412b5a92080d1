//! Measures the cost of SMTP and DNS for a mail engine and its receivers, in nanoseconds: parsing replies and the
//! response to EHLO, parsing and writing commands, encoding and decoding a message, and the lookup of a mail exchanger
//! on both sides. Run it with `cargo run --release -p landau-wire --example mail_cost`.

#![expect(clippy::print_stdout, reason = "it is a program")]

use landau_wire::dns::{Builder, Class, Data, Edns, Header, Message, NameBuf, Question, Rcode, Record, Section, Type};
use landau_wire::smtp::command::{Mail, Rcpt};
use landau_wire::smtp::data::{Decoder, Encoder, Transfer};
use landau_wire::smtp::line::{Scan, Step};
use landau_wire::smtp::reply::{self, Parsed};
use landau_wire::smtp::{
    Capabilities, Code, Command, Enhanced, Extension, Extensions, Mailbox, Recipient, ReversePath, command,
};
use std::hint::black_box;
use std::time::Instant;

const REPLY: &[u8] = b"250 2.1.5 Ok\r\n";

const EHLO: &[u8] = b"250-mail.example.org\r\n\
250-PIPELINING\r\n\
250-SIZE 10240000\r\n\
250-VRFY\r\n\
250-ETRN\r\n\
250-STARTTLS\r\n\
250-ENHANCEDSTATUSCODES\r\n\
250-8BITMIME\r\n\
250-DSN\r\n\
250-SMTPUTF8\r\n\
250 CHUNKING\r\n";

const RCPT: &[u8] = b"RCPT TO:<user1234@d5678.example>\r\n";

const MAIL: &[u8] = b"MAIL FROM:<bounces+1234@lists.example.org> SIZE=4096 BODY=8BITMIME\r\n";

/// The number of calls in one timed round.
const CALLS: u32 = 20_000;

/// The number of rounds. The fastest counts, because slower ones include interference.
const ROUNDS: usize = 31;

fn main() {
    read();
    write();
    content();
    lookup();
}

fn read() {
    measure("reply of one line, read", REPLY.len(), || {
        let parsed = reply::parse(black_box(REPLY));
        matches!(black_box(&parsed), Ok(Parsed::Complete { .. }))
    });
    measure("answer to EHLO, read", EHLO.len(), || {
        let Ok(Parsed::Complete { reply, .. }) = reply::parse(black_box(EHLO)) else { return false };
        black_box(Capabilities::of_reply(&reply)).size_limit.is_some()
    });
    let offered = Extensions::of(Extension::ALL);
    for (name, line) in [("RCPT, read", RCPT), ("MAIL with two parameters, read", MAIL)] {
        measure(name, line.len(), || match Scan::default().next(black_box(line)) {
            Step::Line { line, .. } => black_box(command::parse(line, offered)).is_ok(),
            _ => false,
        });
    }
}

fn write() {
    let mut out = Vec::with_capacity(1024);
    measure("reply of one line, written", REPLY.len(), || {
        out.clear();
        reply::write(&mut out, Code::OK, Enhanced::new(2, 1, 5), [black_box("Ok")]);
        black_box(&out).len() == REPLY.len()
    });
    let from = Mailbox::parse(b"bounces+1234@lists.example.org").map(ReversePath::Mailbox).expect("an address");
    let to = Mailbox::parse(b"user1234@d5678.example").map(Recipient::Mailbox).expect("an address");
    measure("MAIL, RCPT and DATA, written", MAIL.len(), || {
        out.clear();
        Command::Mail(Mail { size: Some(4096), ..Mail::new(black_box(from)) }).write(&mut out);
        Command::Rcpt(Rcpt::new(black_box(to))).write(&mut out);
        Command::Data.write(&mut out);
        black_box(&out).ends_with(b"DATA\r\n")
    });
}

fn content() {
    let line = "A line of a message has about seventy bytes, as people write them.\n";
    for lines in [15, 1500] {
        let text = line.repeat(lines);
        let mut out = Vec::with_capacity(2 * text.len());
        measure("message, encoded", text.len(), || {
            out.clear();
            black_box(Encoder::encode(Transfer::Data, black_box(text.as_bytes()), &mut out)).is_ok()
        });
        measure("message, decoded", out.len(), || {
            let mut decoder = Decoder::new();
            let (_, is_end) = decoder.decode(black_box(&out), |run| {
                black_box(run);
            });
            is_end && black_box(decoder.shape()).refusal().is_none()
        });
    }
}

fn lookup() {
    let domain = NameBuf::parse("d5678.example").expect("a name");
    let host = NameBuf::parse("mx1.d5678.example").expect("a name");
    let (mut query, mut answer) = (Vec::new(), Vec::new());
    let question = Question { name: domain.as_name(), kind: Type::MX, class: Class::IN };
    let ask = |out: &mut Vec<u8>| {
        out.clear();
        let mut builder = Builder::new(out, Header::query(1), Some(Edns::new(1232)), 512);
        builder.question(black_box(&question));
        builder.finish()
    };
    let len = ask(&mut query);
    measure("query for MX, written", len, || black_box(ask(&mut query)) > 0);
    let tell = |out: &mut Vec<u8>| {
        out.clear();
        let message = Message::parse(black_box(&query)).expect("a query");
        let header = Header { is_authoritative: true, ..message.header().response(Rcode::NO_ERROR) };
        let mut builder = Builder::new(out, header, Some(Edns::new(1232)), message.udp_bytes());
        let question = message.question().expect("a question");
        builder.question(&question);
        let data = Data::Mx { preference: 10, exchange: host.as_name() };
        builder.record(Section::Answer, &Record::new(question.name, 300, data));
        let address = Data::A([127, 1, 2, 3].into());
        builder.record(Section::Additional, &Record::new(host.as_name(), 300, address));
        builder.finish()
    };
    let len = tell(&mut answer);
    measure("query read, answer written", len, || black_box(tell(&mut answer)) > 0);
    measure("answer with MX and A, read", len, || {
        let message = Message::parse(black_box(&answer)).expect("an answer");
        black_box(message.answers().chain(message.additionals())).count() == 3
    });
}

fn measure(name: &str, bytes: usize, mut call: impl FnMut() -> bool) {
    let calls = if bytes > 10_000 { CALLS / 100 } else { CALLS };
    let mut best_ns = f64::INFINITY;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for _ in 0..calls {
            assert!(call(), "{name}");
        }
        best_ns = best_ns.min(start.elapsed().as_nanos() as f64 / f64::from(calls));
    }
    println!("{name:32} {bytes:7} bytes {best_ns:9.1} ns");
}
