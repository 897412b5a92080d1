//! A request that comes in pieces, and what comes out.

use landau_wire::http::{Limits, Parsed, Reject, Request, Scan};

/// What comes out, without what borrows.
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

/// The first outcome that is not partial, and after how many bytes, if the bytes come up to each of these lengths.
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
