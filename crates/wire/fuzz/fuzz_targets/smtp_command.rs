//! Command lines of arbitrary bytes, whole and in pieces: no panic, the same lines and responses for every split, a
//! bounded buffer, and the same command after a parsed command is written again.

#![no_main]

use landau_wire::smtp::line::{LINE_BYTES, Scan, Step};
use landau_wire::smtp::{Command, Extension, Extensions, Recipient, Recovery, ReversePath, command};
use libfuzzer_sys::fuzz_target;

/// Returns the lines, and the codes of rejected lines, each with its end, if the bytes arrive in pieces of this size.
fn lines(bytes: &[u8], size: usize) -> Vec<(Result<&[u8], u16>, usize)> {
    let (mut scan, mut found, mut start, mut len) = (Scan::default(), Vec::new(), 0, 0);
    loop {
        let consumed = match scan.next(&bytes[start..len]) {
            Step::Line { line, consumed } => {
                found.push((Ok(&bytes[start..start + line.len()]), start + consumed));
                consumed
            }
            Step::Reject { reject, consumed } => {
                found.push((Err(reject.code.number()), start + consumed));
                if reject.recovery == Recovery::Close {
                    return found;
                }
                consumed
            }
            Step::Skip { consumed } => consumed,
            Step::Incomplete if len == bytes.len() => return found,
            Step::Incomplete => {
                assert!(len - start <= LINE_BYTES);
                len = bytes.len().min(len + size);
                continue;
            }
        };
        assert!(consumed > 0);
        start += consumed;
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&[step, low, high], bytes)) = data.split_first_chunk() else { return };
    let bits = u16::from_le_bytes([low, high]);
    let is_offered = |number: usize| bits >> (number % 16) & 1 == 0;
    let offered = Extension::ALL.iter().enumerate().filter(|(number, _)| is_offered(*number));
    let offered = offered.fold(Extensions::NONE, |set, (_, extension)| set.with(*extension));
    let whole = lines(bytes, bytes.len().max(1));
    assert_eq!(lines(bytes, usize::from(step % 16) + 1), whole);
    for line in whole.iter().filter_map(|(line, _)| line.ok()) {
        assert!(line.len() + 2 <= LINE_BYTES && !line.contains(&b'\r') && !line.contains(&b'\n'));
        match command::parse(line, offered) {
            Ok(command) => write_again(&command, line.len(), offered),
            Err(reject) => {
                assert!(matches!(reject.code.number(), 500..=502 | 504 | 550 | 553 | 555));
                let mut out = Vec::new();
                reject.write(&mut out);
                assert!(out.ends_with(b"\r\n") && out.iter().filter(|b| **b == b'\n').count() == 1);
            }
        }
    }
});

fn write_again(command: &Command<'_>, len: usize, offered: Extensions) {
    let mut out = b"before".to_vec();
    command.write(&mut out);
    let line = out[6..].strip_suffix(b"\r\n").expect("a line end");
    assert!(line.len() <= len && !line.iter().any(|b| b.is_ascii_control()));
    assert_eq!(command::parse(line, offered).as_ref(), Ok(command));
    let mailbox = match command {
        Command::Mail(command::Mail { from: ReversePath::Mailbox(mailbox), .. }) => mailbox,
        Command::Rcpt(command::Rcpt { to: Recipient::Mailbox(mailbox), .. }) => mailbox,
        _ => return,
    };
    assert!(mailbox.is_same(mailbox) && mailbox.local().len() <= 64 && mailbox.host().as_str().len() <= 255);
    assert!(mailbox.local_value().count() <= mailbox.local().len());
    let _ = (mailbox.host().kind(), mailbox.is_postmaster());
}
