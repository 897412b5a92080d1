//! Answers as XML in the `JUnit` format, which CI servers display.

use super::{Checked, word};
use landau_stats::claim::Answer;
use maud::{Markup, PreEscaped, html};

/// Returns the answers as an XML report. A claim is a test case of its record. An inconclusive claim is reported as
/// skipped, with the reason.
pub fn render(all: &[Checked]) -> String {
    let count = |answer| all.iter().filter(|one| one.answer == answer).count();
    let suite = html! {
        testsuites {
            testsuite name="landau check" tests=(all.len()) failures=(count(Answer::Fail)) errors="0"
                skipped=(count(Answer::Inconclusive)) {
                @for one in all { (test(one)) }
            }
        }
    };
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}\n", suite.into_string())
}

fn test(one: &Checked) -> Markup {
    let text = legal(&one.settle.as_ref().map_or(one.text.clone(), |settle| format!("{}; {settle}", one.text)));
    let message = format!("{}: {text}", word(one.answer));
    html! {
        testcase classname=(legal(&one.record)) name=(legal(&one.claim)) {
            @match one.answer {
                Answer::Pass => { system-out { (text) } }
                Answer::Fail => { failure message=(message) { (text) } }
                Answer::Inconclusive => { skipped message=(message) { (PreEscaped("")) } }
            }
        }
    }
}

/// Replaces illegal characters: XML 1.0 allows only three control characters.
fn legal(text: &str) -> String {
    let is_legal = |c: char| matches!(c, '\t' | '\n' | '\r') || (!c.is_control() && c != '\u{fffe}' && c != '\u{ffff}');
    text.chars().map(|c| if is_legal(c) { c } else { '\u{fffd}' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::Unit;

    fn checked(claim: &str, answer: Answer, text: &str) -> Checked {
        Checked {
            claim: claim.to_owned(),
            line: 1,
            record: "a <b>.ndjson".to_owned(),
            answer,
            text: text.to_owned(),
            settle: None,
            curves: Vec::new(),
            unit: Unit::Time,
        }
    }

    /// Guards against a report that a CI server rejects: claims contain `<`, records any character.
    #[test]
    fn every_character_is_legal_and_the_counts_are_those_of_the_cases() {
        let all = [
            checked("bind.ns@900 < 2000", Answer::Pass, "1.4 µs & less"),
            checked("bind: O(1)", Answer::Fail, "growth \u{1b}[31m \"×2\""),
            checked("socket: no cliff", Answer::Inconclusive, "1 pass"),
        ];
        let xml = render(&all);
        assert!(xml.contains("tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\""), "{xml}");
        assert!(xml.contains("name=\"bind.ns@900 &lt; 2000\"") && xml.contains("classname=\"a &lt;b&gt;.ndjson\""));
        assert!(xml.contains("1.4 µs &amp; less") && xml.contains("&quot;×2&quot;"), "{xml}");
        assert!(!xml.contains('\u{1b}') && xml.starts_with("<?xml"), "{xml}");
    }
}
