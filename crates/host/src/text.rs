//! Number formats, and paths in the notation of the kernel and of a shell.

/// Returns a number with its digits grouped: "100,000".
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns a number with what it counts: "1 process", "2,000 processes".
pub fn counted(number: u64, one: &str, more: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { more })
}

/// Returns a size in the largest binary unit that gives at least ten: "22,085 MiB", "8,192 KiB".
pub fn bytes(number: u64) -> String {
    let (unit, shift) = match number {
        0..10_240 => ("bytes", 0),
        10_240..10_485_760 => ("KiB", 10),
        10_485_760..10_737_418_240 => ("MiB", 20),
        _ => ("GiB", 30),
    };
    format!("{} {unit}", grouped(number >> shift))
}

/// Formats a limit; `none` is the text for no limit.
pub(crate) fn limited(limit: u64, none: &str, shown: impl Fn(u64) -> String) -> String {
    if limit == u64::MAX { none.to_owned() } else { shown(limit) }
}

/// Unescapes a path from `mountinfo`: the kernel writes blanks, line ends and backslashes as octal numbers.
pub(crate) fn unescaped(path: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(path.to_owned(), |path, (escape, character)| path.replace(escape, character))
}

/// Quotes a word for a shell, if needed.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = word.chars().all(|one| one.is_ascii_alphanumeric() || "/._-@:".contains(one));
    if is_plain { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_unescaped_and_quoted() {
        assert_eq!(unescaped("/a\\040b\\134c"), "/a b\\c");
        assert_eq!(["/a/b-c.d", "/a b", "it's"].map(quoted), ["/a/b-c.d", "'/a b'", "'it'\\''s'"]);
    }

    #[test]
    fn digits_are_grouped() {
        assert_eq!([0, 1, 2_000].map(|number| counted(number, "task", "tasks")), ["0 tasks", "1 task", "2,000 tasks"]);
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([7, 20_480, 24_684_084 * 1024].map(bytes), ["7 bytes", "20 KiB", "23 GiB"]);
    }
}
