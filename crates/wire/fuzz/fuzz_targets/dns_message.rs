//! DNS messages of arbitrary bytes: no panic, as many records as the header states, and the same contents after a
//! parsed message is written again, completely or truncated at a limit.

#![no_main]

use landau_wire::dns::{
    Builder, Data, Header, MESSAGE_BYTES, Message, Name, NameBuf, Record, Section, Type, UDP_BYTES, frame,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some((message, consumed)) = frame::next(bytes) {
        assert!(consumed == message.len() + 2 && consumed <= bytes.len());
    }
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(name) = NameBuf::parse(text)
    {
        agree(&name.as_name());
    }
    let Ok(message) = Message::parse(bytes) else { return };
    let (_, counts) = Header::parse(bytes).expect("a header");
    assert_eq!(message.questions().count(), usize::from(counts[0]));
    let sections = [message.answers(), message.authorities(), message.additionals()];
    for (section, count) in sections.into_iter().zip(&counts[1..]) {
        let mut left = *count;
        for record in section {
            ask(&record);
            left -= 1;
        }
        assert_eq!(left, 0);
    }
    let again = written(&message, MESSAGE_BYTES);
    // A message with more labels than are recorded may grow beyond the maximum length.
    if let Ok(again) = Message::parse(&again)
        && !again.header().is_truncated
    {
        assert_eq!((again.rcode(), again.edns()), (message.rcode(), message.edns()));
        assert!(again.questions().eq(message.questions()));
        assert!(again.answers().eq(message.answers()) && again.authorities().eq(message.authorities()));
    }
    let short = written(&message, UDP_BYTES);
    let short = Message::parse(&short).expect("a message");
    assert!(message.answers().zip(short.answers()).all(|(own, other)| own == other));
    assert!(short.answers().count() == message.answers().count() || short.header().is_truncated);
});

fn ask(record: &Record<'_>) {
    agree(&record.name);
    let _ = (record.kind().to_string(), record.data.is_null_mx());
    match record.data {
        Data::Mx { exchange, .. } => agree(&exchange),
        Data::Soa(soa) => agree(&soa.mailbox),
        Data::Txt(text) => assert_eq!(text.strings().map(|one| one.len() + 1).sum::<usize>(), text.as_bytes().len()),
        _ => {}
    }
}

/// Checks that a name is the same in every representation.
fn agree(name: &Name<'_>) {
    let copy = NameBuf::from(*name);
    assert_eq!(copy.as_name(), *name);
    assert_eq!(NameBuf::parse(&copy.to_string()), Ok(copy));
    let mut wire = Vec::new();
    name.write(&mut wire);
    assert!(wire.len() == name.byte_count() && wire.len() <= 255);
    assert_eq!(Name::parse(&wire, 0), Ok((*name, wire.len())));
}

/// Returns the message written again, up to the limit.
fn written(message: &Message<'_>, limit: usize) -> Vec<u8> {
    let mut out = Vec::new();
    // Options may be longer than the limit.
    let edns = message.edns().copied().filter(|edns| edns.options.len() + 100 < limit);
    let header = Header { is_truncated: false, rcode: message.rcode(), ..*message.header() };
    let mut builder = Builder::new(&mut out, header, edns, limit);
    let fits = message.questions().all(|question| builder.question(&question));
    for (section, records) in [
        (Section::Answer, message.answers()),
        (Section::Authority, message.authorities()),
        (Section::Additional, message.additionals()),
    ] {
        for record in records.filter(|record| fits && record.kind() != Type::OPT) {
            builder.record(section, &record);
        }
    }
    let len = builder.finish();
    assert!(len == out.len() && len <= limit);
    out
}
