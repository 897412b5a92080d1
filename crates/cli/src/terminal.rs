//! The width of the terminal, whether to use colours, and the filter for printed text.

use landau_report::table::{Layout, plain};
use std::borrow::Cow;
use std::fmt::Write;
use std::io::IsTerminal;

/// The width if standard output is not a terminal.
const WIDTH: u16 = 100;

/// Returns the layout of a table on standard output.
pub(crate) fn layout() -> Layout {
    Layout { width: width(), color: has_color(&std::io::stdout()) }
}

/// Returns whether to use colours on a stream: it is a terminal, and `NO_COLOR` is unset or empty.
pub(crate) fn has_color(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Returns a text that can be printed: control characters except line feed and tab become escapes such as `\u001b`. In
/// JSON, where only DEL and U+0080 to U+009F can occur, the escape means the same character.
///
/// Everything that `landau` prints passes through this function, so that no text from a record, file, process or server
/// can control the terminal. Tables apply [`plain`] first, because they count columns. With `is_styled`, the styles of
/// tables and of errors about the command line are kept; none of them hides text.
pub(crate) fn visible(text: &str, is_styled: bool) -> Cow<'_, str> {
    let is_escaped = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\t');
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let (mut shown, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(place) = rest.find(is_escaped) {
        shown.push_str(&rest[..place]);
        rest = &rest[place..];
        let style = if is_styled { style_len(rest) } else { 0 };
        if style > 0 {
            shown.push_str(&rest[..style]);
            rest = &rest[style..];
        } else if let Some(letter) = rest.chars().next() {
            // Writing to a string cannot fail.
            let _ = write!(shown, "\\u{:04x}", u32::from(letter));
            rest = &rest[letter.len_utf8()..];
        }
    }
    shown.push_str(rest);
    Cow::Owned(shown)
}

/// Returns the length of the style sequence at the start of a text: bold, dim, underlined, or a colour other than
/// black. It is 0 if there is none.
fn style_len(text: &str) -> usize {
    let Some((codes, _)) = text.strip_prefix("\u{1b}[").and_then(|text| text.split_once('m')) else {
        return 0;
    };
    let is_colour = |code: &str| matches!(code.parse(), Ok(1..=15_u8));
    let is_style = |code: &str| {
        matches!(code, "0" | "1" | "2" | "4" | "22" | "24" | "31" | "32" | "33" | "34" | "35" | "36" | "39")
    };
    let is_known = codes.strip_prefix("38;5;").map_or_else(|| codes.split(';').all(is_style), is_colour);
    if is_known { codes.len() + "\u{1b}[m".len() } else { 0 }
}

fn width() -> u16 {
    let configured = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let reported = || landau_sys::system::terminal_width().filter(|_| std::io::stdout().is_terminal());
    configured.or_else(reported).unwrap_or(WIDTH).clamp(60, 240)
}

/// Wraps a text to lines of at most `width` columns; all but the first are indented. Control characters are replaced.
pub(crate) fn indented(text: &str, indent: usize, width: usize) -> String {
    let (mut lines, mut column) = (String::new(), indent);
    for word in text.split_whitespace().map(plain) {
        let len = word.chars().count();
        if column > indent && column + 1 + len > width {
            lines.push('\n');
            lines.push_str(&" ".repeat(indent));
            column = indent;
        } else if column > indent {
            lines.push(' ');
            column += 1;
        }
        lines.push_str(&word);
        column += len;
    }
    lines
}

/// Wraps a text to the terminal's width; all lines but the first are indented.
pub(crate) fn wrapped(text: &str, indent: usize) -> String {
    indented(text, indent, usize::from(width()))
}

/// Appends a label and its text, wrapped to the right of the label.
pub(crate) fn labelled(text: &mut String, label: &str, part: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "    {label:8}  {}", wrapped(part, 14));
}

/// Returns a sentence as a bullet, wrapped to the width of the terminal. Control characters are replaced.
pub(crate) fn bullet(sentence: &str) -> String {
    format!("  • {}\n", indented(sentence, 4, usize::from(width()).min(100)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bullet_keeps_every_word_and_wraps_its_lines() {
        let sentence = "single calls of 1.3 ms ".repeat(20);
        let text = bullet(&sentence);
        assert_eq!(
            text.split_whitespace().skip(1).collect::<Vec<_>>(),
            sentence.split_whitespace().collect::<Vec<_>>()
        );
        assert!(text.lines().all(|line| line.chars().count() <= 100));
    }

    /// Guards against a record whose labels or messages control the terminal.
    #[test]
    fn no_word_controls_the_terminal() {
        let text = "dup \u{1b}[31mred \u{9b}2J";
        for shown in [bullet(text), indented(text, 2, 60)] {
            assert!(shown.contains("\u{fffd}[31mred \u{fffd}2J"), "{shown:?}");
            assert!(!shown.chars().any(|letter| letter.is_control() && letter != '\n'), "{shown:?}");
        }
    }

    /// Guards against text from a name, a process or a server that controls the terminal outside tables.
    #[test]
    fn what_is_printed_does_not_control_the_terminal() {
        assert_eq!(visible("a\n\tb é", false), "a\n\tb é");
        assert_eq!(visible("\u{1b}]0;x\u{7}\r\u{9b}2Jé", true), "\\u001b]0;x\\u0007\\u000d\\u009b2Jé");
        // Tables on a terminal have styles; none of them hides text.
        let table = "\u{1b}[1mCase\u{1b}[0m \u{1b}[38;5;10mflat\u{1b}[39m";
        assert_eq!(visible(table, true), table);
        assert_eq!(visible("\u{1b}[1mCase", false), "\\u001b[1mCase");
        for hiding in ["\u{1b}[8m", "\u{1b}[30m", "\u{1b}[38;5;0m", "\u{1b}[m", "\u{1b}[1", "\u{1b}[1;8m"] {
            assert!(visible(hiding, true).starts_with("\\u001b["), "{hiding:?}");
        }
        // In JSON the escape stands for the same character.
        let name = "a\u{7f}\u{9b}\u{1b}b";
        let json = serde_json::json!({ "name": name }).to_string();
        let value: serde_json::Value = serde_json::from_str(&visible(&json, false)).unwrap();
        assert_eq!(value["name"], name);
    }
}
