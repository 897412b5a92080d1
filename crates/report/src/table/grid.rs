//! Columns of a terminal: texts are shortened to a width, in their middle, and laid out side by side.

use super::Layout;

/// The indent, and the space between two columns.
pub(crate) const GAP: usize = 2;

/// Shortens a text to at most `width` characters. Its middle is left out, because the end of a name is its phase.
pub(crate) fn cut(text: &str, width: usize) -> String {
    let count = text.chars().count();
    if count <= width {
        return text.to_owned();
    }
    let tail = width.saturating_sub(1) / 2;
    let head: String = text.chars().take(width.saturating_sub(1) - tail).collect();
    let rest: String = text.chars().skip(count - tail).collect();
    format!("{head}…{rest}")
}

/// Returns the widths that the cells of each column need.
pub(crate) fn needed<'a>(lines: impl Iterator<Item = &'a [String]>) -> Vec<usize> {
    let mut widths: Vec<usize> = Vec::new();
    for cells in lines {
        widths.resize(widths.len().max(cells.len()), 0);
        for (width, cell) in widths.iter_mut().zip(cells) {
            *width = (*width).max(cell.chars().count());
        }
    }
    widths
}

/// Returns the width of a line with these columns.
pub(crate) fn used(widths: &[usize]) -> usize {
    widths.iter().map(|width| width + GAP).sum()
}

/// Lays out cells side by side, each shortened to its width.
pub(crate) fn line(cells: &[String], widths: &[usize]) -> String {
    let mut text = String::new();
    for (cell, &width) in cells.iter().zip(widths) {
        text.extend([" ".repeat(GAP), format!("{:<width$}", cut(cell, width))]);
    }
    text.trim_end().to_owned()
}

/// Returns a horizontal line below a head.
pub(crate) fn rule(widths: &[usize], layout: Layout) -> String {
    "─".repeat(used(widths).min(usize::from(layout.width)))
}

/// Returns a text in bold.
pub(crate) fn bold(text: &str, layout: Layout) -> String {
    colored(text, "1", layout)
}

/// Returns a text with a terminal's colour code.
pub(crate) fn colored(text: &str, code: &str, layout: Layout) -> String {
    if layout.color && !code.is_empty() { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_loses_its_middle_and_keeps_its_phase() {
        assert_eq!(cut("bind family=v6 v6only=off range=40000-42001 · ↓ close", 30), "bind family=v6 …2001 · ↓ close");
        assert_eq!(cut("bind", 30), "bind");
        assert!(cut("0123456789", 5).chars().count() == 5);
    }

    #[test]
    fn cells_are_aligned_and_cut() {
        let lines = [vec!["a".to_owned(), "1234".to_owned()], vec!["abcdefgh".to_owned(), "1".to_owned()]];
        let widths = needed(lines.iter().map(Vec::as_slice));
        assert_eq!((widths.as_slice(), used(&widths)), (&[8, 4][..], 16));
        assert_eq!(line(&lines[0], &[5, 4]), "  a      1234");
        assert_eq!(line(&lines[1], &[5, 4]), "  ab…gh  1");
    }
}
