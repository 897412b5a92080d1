//! Parses the plugin's counts; `crates/lab/plugin/output.rs` writes and describes the format.

use super::error::Error;

/// The header of the file.
const HEAD: &[u8] = b"landau counts 1\n";

/// A function in a chain of calls. Node 0 is the measured program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) parent: u32,
    pub(super) function: u32,
}

/// A timed call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TimedCall {
    /// The index of its pass.
    pub(super) pass: usize,
    /// The index of its phase.
    pub(super) phase: usize,
    /// Node and instructions.
    pub(super) counts: Vec<(u32, u64)>,
}

impl TimedCall {
    /// Returns its total number of instructions.
    pub(super) fn total(&self) -> u64 {
        self.counts.iter().map(|(_, count)| count).sum()
    }
}

/// The content of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) nodes: Vec<Node>,
    pub(super) timed_calls: Vec<TimedCall>,
    pub(super) pass_count: usize,
    /// Whether the plugin ran out of nodes.
    pub(super) has_overflown: bool,
}

impl Counts {
    /// Parses the file, which is truncated if the emulator was killed.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let broken = || Error::Counts("their format is unknown".to_owned());
        let mut numbers = Numbers { rest: bytes.strip_prefix(HEAD).ok_or_else(broken)? };
        let mut counts = Self { nodes: vec![Node { parent: 0, function: landau_profile::USER }], ..Self::default() };
        while let Some(tag) = numbers.next() {
            let whole = match tag {
                1 => numbers.node().map(|node| counts.nodes.push(node)),
                2 => {
                    counts.pass_count += 1;
                    Some(())
                }
                3 => numbers
                    .timed_call(counts.pass_count.saturating_sub(1))
                    .map(|timed_call| counts.timed_calls.push(timed_call)),
                4 => {
                    counts.has_overflown = true;
                    Some(())
                }
                5 => return Ok(counts),
                _ => return Err(broken()),
            };
            if whole.is_none() {
                break;
            }
        }
        Ok(counts)
    }
}

/// A reader of LEB128 numbers: seven bits per byte, least significant first.
struct Numbers<'a> {
    rest: &'a [u8],
}

impl Numbers<'_> {
    fn next(&mut self) -> Option<u64> {
        let (mut value, mut shift) = (0_u64, 0_u32);
        loop {
            let (&byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f).checked_shl(shift)?;
            shift += 7;
            if byte < 0x80 {
                return Some(value);
            }
        }
    }

    fn node(&mut self) -> Option<Node> {
        Some(Node { parent: self.next()? as u32, function: self.next()? as u32 })
    }

    fn timed_call(&mut self, pass: usize) -> Option<TimedCall> {
        let phase = self.next()? as usize;
        let pairs = self.next()?;
        let counts = (0..pairs).map(|_| Some((self.next()? as u32, self.next()?)));
        Some(TimedCall { pass, phase, counts: counts.collect::<Option<_>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> Vec<u8> {
        // A node, a pass, a timed call of phase 1 with 300 instructions in node 1, the end.
        [HEAD, &[1, 0, 7, 2, 3, 1, 2, 0, 5, 1, 0xac, 0x02, 5]].concat()
    }

    #[test]
    fn a_file_is_parsed() {
        let counts = Counts::parse(&file()).unwrap();
        assert_eq!(counts.nodes[1], Node { parent: 0, function: 7 });
        assert_eq!(counts.timed_calls, [TimedCall { pass: 0, phase: 1, counts: vec![(0, 5), (1, 300)] }]);
        assert_eq!((counts.pass_count, counts.timed_calls[0].total()), (1, 305));
    }

    #[test]
    fn a_truncated_file_has_complete_calls_only() {
        let file = file();
        for end in HEAD.len()..file.len() - 1 {
            assert!(Counts::parse(&file[..end]).unwrap().timed_calls.is_empty(), "torn at {end}");
        }
        assert!(Counts::parse(b"something else").is_err());
        assert!(Counts::parse(&[HEAD, &[0xff; 20]].concat()).unwrap().timed_calls.is_empty());
    }
}
