//! The contents of a ledger that is opened again.
//!
//! Each recipient of an earlier run takes four bytes: its state, and 30 bits of a hash of its address. The hash detects
//! a list that was changed before the position of a recipient.

use super::{Header, Line, State};
use std::io::{BufRead, BufReader, Read};

/// The reason for refusing a file that is not a ledger.
const NO_LEDGER: &str = "not a ledger; specify a file that does not exist yet";

/// The states of the recipients of earlier runs.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// For each recipient the state and the tag of the address; 0 if nothing is known.
    entries: Vec<u32>,
    /// The length of the complete lines, in bytes.
    bytes: u64,
}

impl History {
    /// Returns the length of the complete lines, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the state of a recipient, if the ledger has it.
    ///
    /// # Errors
    ///
    /// The ledger has another address under this number.
    pub(crate) fn state(&self, number: u64, address: &str) -> Result<Option<State>, String> {
        let entry = usize::try_from(number).ok().and_then(|index| self.entries.get(index)).copied().unwrap_or(0);
        if entry == 0 {
            return Ok(None);
        }
        if entry >> 2 != tag(address) {
            return Err(format!(
                "recipient {number} of the list is {address}, but the ledger has another address; use the original \
                 list (recipients may be appended)"
            ));
        }
        Ok(Some(state_of(entry)))
    }

    fn note(&mut self, number: u64, address: &str, state: State) -> Result<(), String> {
        let index = u32::try_from(number).map_err(|_| format!("recipient {number} is beyond any list"))? as usize;
        if let Some(more) = (index + 1).checked_sub(self.entries.len()) {
            self.entries.try_reserve(more).map_err(|error| format!("recipient {number}: {error}"))?;
            self.entries.resize(self.entries.len() + more, 0);
        }
        let bits = match state {
            State::Done => 1,
            State::Deferred => 2,
            State::Failed => 3,
        };
        self.entries[index] = tag(address) << 2 | bits;
        Ok(())
    }
}

fn state_of(entry: u32) -> State {
    match entry & 3 {
        1 => State::Done,
        2 => State::Deferred,
        _ => State::Failed,
    }
}

/// Returns 30 bits of the FNV-1a hash of an address.
fn tag(address: &str) -> u32 {
    let hash = |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    address.bytes().fold(0x811c_9dc5, hash) >> 2
}

/// Reads a ledger. An incomplete last line is dropped; any other line that cannot be understood is an error, and so is
/// an incomplete first line that is not the beginning of the expected one.
pub(super) fn read(input: &mut impl Read, expected: &Header) -> Result<History, String> {
    let mut input = BufReader::with_capacity(256 << 10, input);
    let (mut history, mut line, mut number) = (History::default(), Vec::new(), 0_u64);
    loop {
        line.clear();
        number += 1;
        let count = input.read_until(b'\n', &mut line).map_err(|error| error.to_string())?;
        if count == 0 || !line.ends_with(b"\n") {
            // The bytes after the complete lines are cut off. In a file that is not a ledger, that would be everything.
            let header = serde_json::to_vec(expected).map_err(|error| error.to_string())?;
            return if number > 1 || header.starts_with(&line) { Ok(history) } else { Err(NO_LEDGER.to_owned()) };
        }
        if number == 1 {
            check_header(&line, expected)?;
        } else {
            let damaged = |reason: String| format!("line {number} is damaged: {reason}");
            let found: Line<'_> = serde_json::from_slice(&line).map_err(|error| damaged(error.to_string()))?;
            let state = match found.state {
                "deferred" => State::Deferred,
                "failed" => State::Failed,
                word if word == expected.mode.success() => State::Done,
                word => return Err(damaged(format!("unknown state {word}"))),
            };
            history.note(found.recipient, &found.to, state).map_err(damaged)?;
        }
        history.bytes += count as u64;
    }
}

fn check_header(line: &[u8], expected: &Header) -> Result<(), String> {
    let found: Header = serde_json::from_slice(line).map_err(|_| NO_LEDGER.to_owned())?;
    if found.landau_ledger != expected.landau_ledger {
        return Err(format!(
            "the ledger has format version {}; this program supports version {}",
            found.landau_ledger, expected.landau_ledger
        ));
    }
    if found.mode != expected.mode {
        return Err(format!("the ledger was created with --mode {:?}", found.mode).to_lowercase());
    }
    if found.message != expected.message {
        return Err("the ledger was created with another message; use another ledger for this one".to_owned());
    }
    Ok(())
}
