//! Requests of arbitrary bytes, whole and in pieces: no panic, and the same result for every split. `httparse` parses
//! accepted requests in the same way, and all functions on an accepted request return.

#![no_main]

use landau_wire::http::condition::{self, Validators};
use landau_wire::http::encoding::{self, Coding, Codings};
use landau_wire::http::{Field, Limits, Parsed, Reject, Request, Scan, body, date, host, range, request, target};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&[step, shape], bytes)) = data.split_first_chunk() else { return };
    let limits = match shape % 4 {
        0 => Limits { line_bytes: 24, head_bytes: 48, fields: 3 },
        1 => Limits { line_bytes: 40, head_bytes: 32, fields: 1 },
        _ => Limits::default(),
    };
    let whole = request::parse(bytes, &limits);
    let mut scan = Scan::default();
    let lengths = (0..bytes.len()).step_by(usize::from(step % 16) + 1).chain([bytes.len()]);
    let mut pieces = lengths.map(|len| scan.parse(&bytes[..len], &limits));
    let in_pieces = pieces.find(|result| *result != Ok(Parsed::Partial)).unwrap_or(Ok(Parsed::Partial));
    assert_eq!(in_pieces, whole);
    if let Ok(Parsed::Complete { request, consumed }) = whole {
        agree(bytes, &request, consumed);
        ask(&request, &bytes[consumed..]);
    } else if let Err(Reject { status, .. }) = whole {
        assert!(matches!(status.0, 400 | 414 | 431 | 501 | 505));
    }
});

fn agree(bytes: &[u8], request: &Request<'_>, consumed: usize) {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut theirs = httparse::Request::new(&mut headers);
    assert_eq!(theirs.parse(bytes), Ok(httparse::Status::Complete(consumed)));
    assert_eq!(theirs.method.map(str::as_bytes), Some(request.method_name()));
    assert_eq!(theirs.path.map(str::as_bytes), Some(request.target()));
    assert!(theirs.headers.iter().map(|one| (one.name.as_bytes(), one.value)).eq(request.fields()));
    for field in Field::ALL {
        let mut values = theirs.headers.iter().filter(|one| one.name.eq_ignore_ascii_case(field.name()));
        assert!(values.clone().map(|one| one.value).eq(request.lines(field)));
        let (first, second) = (values.next(), values.next());
        assert_eq!(request.field(field), first.filter(|_| second.is_none()).map(|one| one.value));
    }
}

fn ask(request: &Request<'_>, rest: &[u8]) {
    if let Some(name) = request.host().and_then(|host| host::folder_name(host, &mut [0; 253]).map(str::to_owned)) {
        assert!(!name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0']) && !name.contains(".."));
        assert!(!name.contains(|c: char| c.is_ascii_uppercase()));
    }
    let mut buffer = vec![0; request.path().len()];
    let _ = target::clean(request.path(), &mut buffer);
    let _ = body::Body::new(request.body()).skip(rest);
    let _ = request.expectation();
    let file = Validators { tag: b"\"a\"", modified_s: Some(784_111_777), is_modified_strong: true };
    let _ = condition::decide(request, &file);
    if let Some(value) = condition::range(request, &file) {
        let _ = range::select(value, 1000);
    }
    let ready = Codings::NONE.with(Coding::Gzip).with(Coding::Identity);
    let coding = encoding::choose(request.lines(Field::AcceptEncoding), ready);
    assert!(coding.is_none_or(|coding| ready.has(coding)));
    if let Some(seconds) = request.field(Field::IfModifiedSince).and_then(date::parse) {
        assert_eq!(date::parse(&date::format(seconds)), Some(seconds));
    }
}
