//! Sends the table of hostile requests to a server that consists only of this crate: it parses the request, normalises
//! the path, skips the body, and has no files.

use crate::pieces::{Outcome, in_pieces};
use crate::table::{Answer, cases};
use landau_wire::http::body::Body;
use landau_wire::http::request::{Expectation, Form};
use landau_wire::http::{Limits, Parsed, Reject, Status, request, target};

fn answer(bytes: &[u8]) -> Answer {
    let (request, rest) = match request::parse(bytes, &Limits::default()) {
        Ok(Parsed::Complete { request, consumed }) => (request, &bytes[consumed..]),
        Ok(Parsed::Partial) => return Answer::Wait,
        Err(Reject { status, .. }) => return Answer::Status(status.0),
    };
    if let Some(status) = request.method().refusal() {
        return Answer::Status(status.0);
    }
    if request.expectation() == Expectation::Unknown {
        return Answer::Status(Status::EXPECTATION_FAILED.0);
    }
    if request.form() != Form::Asterisk {
        let mut buffer = vec![0; request.path().len()];
        if let Err(Reject { status, .. }) = target::clean(request.path(), &mut buffer) {
            return Answer::Status(status.0);
        }
    }
    let mut body = Body::new(request.body());
    match body.is_empty().then_some((0, true)).map_or_else(|| body.skip(rest), Ok) {
        Ok((_, true)) => Answer::Ok,
        Ok((_, false)) => Answer::Wait,
        Err(_) => Answer::Status(400),
    }
}

#[test]
fn each_request_is_classified() {
    let cases = cases();
    assert!(cases.len() >= 300, "{}", cases.len());
    let wrong: Vec<String> = cases
        .iter()
        .map(|case| (case, answer(&case.bytes)))
        .filter(|(case, answer)| !case.answers.contains(answer))
        .map(|(case, answer)| format!("{}: {answer:?}, not {:?}", case.name, case.answers))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn names_are_unique() {
    let mut names: Vec<&str> = cases().iter().map(|case| case.name).collect();
    names.sort_unstable();
    let twice: Vec<_> = names.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert!(twice.is_empty(), "{twice:?}");
}

#[test]
fn byte_by_byte_results_agree() {
    for case in cases() {
        let limits = Limits::default();
        let (whole, _) = in_pieces(&case.bytes, [case.bytes.len()], &limits);
        let (by_byte, at) = in_pieces(&case.bytes, 0..=case.bytes.len(), &limits);
        assert_eq!(whole, by_byte, "{}", case.name);
        // The parser does not read beyond the end of the head or the limit.
        let end = case.bytes.windows(4).position(|four| four == b"\r\n\r\n").map_or(usize::MAX, |end| end + 4);
        assert!(whole == Outcome::Partial || at <= end.min(limits.head_bytes), "{}: {at}", case.name);
    }
}
