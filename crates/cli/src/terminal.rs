//! Properties of the terminal: its width, and whether to use colours.

use landau_report::table::{Layout, plain};
use std::fmt::Write;
use std::io::IsTerminal;

/// The width if standard output is not a terminal.
const WIDTH: u16 = 100;

/// Returns the layout of a table on standard output.
pub(crate) fn layout() -> Layout {
    let color = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    Layout { width: width(), color }
}

fn width() -> u16 {
    let configured = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let reported = || landau_sys::system::terminal_width().filter(|_| std::io::stdout().is_terminal());
    configured.or_else(reported).unwrap_or(WIDTH).clamp(60, 240)
}

/// Returns a text in lines of at most `width` columns, the later ones indented. No word controls the terminal.
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

/// Returns a text in lines of the terminal's width, the later ones indented.
pub(crate) fn wrapped(text: &str, indent: usize) -> String {
    indented(text, indent, usize::from(width()))
}

/// Appends a line with a label and its text, which is wrapped beside the label.
pub(crate) fn labelled(text: &mut String, label: &str, part: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "    {label:8}  {}", wrapped(part, 14));
}

/// Returns a sentence as a bullet, wrapped to the width of the terminal, which it cannot control.
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
}
