//! Tests of the ledger over a file.

use super::*;

fn message(text: &str) -> Message {
    Message::parse(text.as_bytes(), &[], None).unwrap()
}

fn report(number: u64, address: &str, state: State) -> Report<'_> {
    Report { number, address, state, code: Some(250), text: b"2.0.0 \"Ok\" \xff", host: None }
}

#[test]
fn a_ledger_cut_at_any_byte_is_continued() {
    let folder = tempfile::tempdir().unwrap();
    let (path, message) = (folder.path().join("ledger"), message("a\n"));
    let (mut ledger, history) = open(&path, Mode::Data, &message, Sync::Always).unwrap();
    assert_eq!(history.state(0, "a@b"), Ok(None));
    ledger.add(&report(0, "a@b", State::Deferred), || 5);
    ledger.add(&report(3, "c@d", State::Failed), || 5);
    ledger.commit(0).unwrap();
    ledger.add(&report(0, "a@b", State::Done), || 6);
    ledger.finish(1).unwrap();
    let error = open(&path, Mode::Data, &message, Sync::Never).unwrap_err().to_string();
    assert!(error.contains("another run is using this ledger"), "{error}");
    drop(ledger);
    let whole = std::fs::read(&path).unwrap();
    let ends: Vec<usize> = (1..=whole.len()).filter(|&end| whole[end - 1] == b'\n').collect();
    assert_eq!(ends.len(), 4);
    for cut in 0..=whole.len() {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let (mut ledger, history) = open(&path, Mode::Data, &message, Sync::Never).unwrap();
        let lines = ends.iter().filter(|&&end| end <= cut).count();
        let expected = [
            (None, None),
            (None, None),
            (Some(State::Deferred), None),
            (Some(State::Deferred), Some(State::Failed)),
            (Some(State::Done), Some(State::Failed)),
        ][lines];
        assert_eq!((history.state(0, "a@b").unwrap(), history.state(3, "c@d").unwrap()), expected, "{cut}");
        // What is appended after a cut is readable.
        ledger.add(&report(9, "e@f", State::Done), || 7);
        ledger.finish(2).unwrap();
        drop(ledger);
        let (_, history) = open(&path, Mode::Data, &message, Sync::Never).unwrap();
        assert_eq!(history.state(9, "e@f"), Ok(Some(State::Done)), "{cut}");
    }
}

#[test]
fn a_ledger_of_something_else_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    let first = message("a\n");
    drop(open(&path, Mode::Data, &first, Sync::Never).unwrap());
    let refusal = |mode, text: &str| open(&path, mode, &message(text), Sync::Never).unwrap_err().to_string();
    assert!(refusal(Mode::Rset, "a\n").contains("created with --mode data"));
    assert!(refusal(Mode::Data, "b\n").contains("another message"));
    std::fs::write(&path, "a@b\nc@d\n").unwrap();
    assert!(refusal(Mode::Data, "a\n").contains("not a ledger"));
    // A file without a line end was once taken for a line cut off by a crash, and was emptied.
    for text in ["a@b", "{", "{\"landau_ledger\":1,\"mode\":\"quit\""] {
        std::fs::write(&path, text).unwrap();
        let error = open(&path, Mode::Data, &first, Sync::Never).map(drop).map_err(|error| error.to_string());
        if text == "{" {
            assert_eq!(error, Ok(()), "the beginning of the first line");
        } else {
            assert!(error.is_err_and(|error| error.contains("not a ledger")), "{text}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
    }
}

#[test]
fn a_changed_list_and_a_damaged_line_are_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, message) = (folder.path().join("ledger"), message("a\n"));
    let (mut ledger, _) = open(&path, Mode::Data, &message, Sync::Never).unwrap();
    ledger.add(&report(0, "\"a b\"@c", State::Done), || 5);
    ledger.add(&report(1, "x@y", State::Done), || 5);
    ledger.finish(0).unwrap();
    drop(ledger);
    let (ledger, history) = open(&path, Mode::Data, &message, Sync::Never).unwrap();
    assert_eq!(history.state(0, "\"a b\"@c"), Ok(Some(State::Done)));
    assert!(history.state(0, "a@c").unwrap_err().contains("recipient 0 of the list is a@c"));
    assert_eq!(history.state(2, "z@y"), Ok(None));
    drop(ledger);
    let text = std::fs::read_to_string(&path).unwrap();
    for number in ["x", "18446744073709551615", "1000000000000"] {
        std::fs::write(&path, text.replacen("\"recipient\":0", &format!("\"recipient\":{number}"), 1)).unwrap();
        let error = open(&path, Mode::Data, &message, Sync::Never).unwrap_err().to_string();
        assert!(error.contains("line 2 is damaged"), "{error}");
    }
}
