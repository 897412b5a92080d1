//! Parses a request that arrives in pieces.

use landau_wire::http::{Limits, Parsed, Reject, Request, Scan};

/// The result of the parser, without borrowed data.
#[derive(Debug, PartialEq)]
pub(crate) enum Outcome {
    Complete(String, usize),
    Reject(Reject),
    Partial,
}

fn outcome(result: Result<Parsed<Request<'_>>, Reject>) -> Outcome {
    match result {
        Ok(Parsed::Complete { request, consumed }) => Outcome::Complete(format!("{request:?}"), consumed),
        Ok(Parsed::Partial) => Outcome::Partial,
        Err(reject) => Outcome::Reject(reject),
    }
}

/// Returns the first result that is not partial, and the number of bytes it took, if the bytes arrive up to each of
/// these lengths.
pub(crate) fn in_pieces(bytes: &[u8], lengths: impl IntoIterator<Item = usize>, limits: &Limits) -> (Outcome, usize) {
    let mut scan = Scan::default();
    for length in lengths {
        let outcome = outcome(scan.parse(&bytes[..length], limits));
        if outcome != Outcome::Partial {
            return (outcome, length);
        }
    }
    (Outcome::Partial, bytes.len())
}
