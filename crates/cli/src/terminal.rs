//! What is known about the terminal: its width, and whether colours are wanted.

use landau_report::table::Layout;
use std::io::IsTerminal;

/// The width where there is no terminal.
const WIDTH: u16 = 120;

/// How a table on standard output is laid out.
pub(crate) fn layout() -> Layout {
    let color = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    Layout { width: width(), color }
}

fn width() -> u16 {
    let stated = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let asked = || landau_sys::system::terminal_width().filter(|_| std::io::stdout().is_terminal());
    stated.or_else(asked).unwrap_or(WIDTH).clamp(60, 240)
}

/// A sentence as a bullet, wrapped to the terminal.
pub(crate) fn bullet(sentence: &str) -> String {
    let width = usize::from(width()).min(110);
    let (mut text, mut column) = (String::from("  •"), 3);
    for word in sentence.split_whitespace() {
        let len = word.chars().count();
        if column + 1 + len > width {
            text.push_str("\n   ");
            column = 3;
        }
        text.push(' ');
        text.push_str(word);
        column += 1 + len;
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bullet_loses_no_word_and_no_line_is_too_long() {
        let sentence = "single calls of 1.3 ms ".repeat(20);
        let text = bullet(&sentence);
        assert_eq!(
            text.split_whitespace().skip(1).collect::<Vec<_>>(),
            sentence.split_whitespace().collect::<Vec<_>>()
        );
        assert!(text.lines().all(|line| line.chars().count() <= 110));
    }
}
