//! The lines of a Rust file that are code outside unit tests.
//!
//! Clippy and rustc check what a lint can express: long functions, `unwrap`, `unsafe`, printing. The remaining rules
//! are about names that a crate must not use. For these it is sufficient to examine lines, because rustfmt has
//! formatted them: a comment starts its line, and a test module ends at the brace in the column of its `#[cfg(test)]`.

/// Returns the lines of code with their numbers, counted from 1, without comments and unit tests.
pub(crate) fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut test: Test = Test::None;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let start = line.trim_start();
        let indentation = line.len() - start.len();
        match test {
            Test::None if start == "#[cfg(test)]" => test = Test::Begins(indentation),
            Test::None if start.starts_with("//") => {}
            Test::None => return Some((index + 1, line)),
            // A further attribute, or `mod tests;`, `use x;` and the like.
            Test::Begins(_) if start.starts_with('#') => {}
            Test::Begins(_) if start.ends_with(';') || start.ends_with('}') => test = Test::None,
            Test::Begins(column) => test = Test::Body(column),
            Test::Body(column) if indentation == column && start.starts_with('}') => test = Test::None,
            Test::Body(_) => {}
        }
        None
    })
}

/// The position of a line relative to an item that is compiled only for tests, with the column of its attribute.
#[derive(Clone, Copy)]
enum Test {
    /// Outside.
    None,
    /// Between the attribute and the item.
    Begins(usize),
    /// Within the item's braces.
    Body(usize),
}

/// Returns whether a line contains a name that is not part of a longer one.
pub(crate) fn has_word(line: &str, word: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

/// Returns the line of a byte offset, counted from 1.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn comments_and_unit_tests_are_left_out() {
        let text = "//! Instant.\nuse a;\n#[cfg(test)]\nmod tests;\nfn b() {\n    // Instant\n    c()\n}\n\
                    #[cfg(test)]\n#[allow(x)]\nmod unit {\n    fn d() {\n    }\n}\nfn e() {}\n";
        let lines: Vec<usize> = code_lines(text).map(|(number, _)| number).collect();
        assert_eq!(lines, [2, 5, 7, 8, 15]);
    }

    #[test]
    fn words_end_where_names_end() {
        assert!(has_word("use std::time::Instant;", "Instant"));
        assert!(!has_word("struct InstantOf;", "Instant") && !has_word("my_Instant", "Instant"));
    }
}
