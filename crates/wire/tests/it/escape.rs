//! Parses the escaped bytes in the tables of hostile input. Uses only the standard library, so that the tests of other
//! crates can include it by its path.

/// Returns the bytes of a text written as in a Rust byte string: `\r \n \t \0 \\ \xHH`. `{N*TEXT}` stands for N times
/// TEXT.
pub(crate) fn unescaped(text: &[u8]) -> Vec<u8> {
    let (mut out, mut at) = (Vec::new(), 0);
    while at < text.len() {
        let (byte, len) = match text[at..] {
            [b'\\', b'x', high, low, ..] => (
                u8::from_str_radix(str::from_utf8(&[high, low]).expect("a well-formed table"), 16)
                    .expect("a well-formed table"),
                4,
            ),
            [b'\\', b'r', ..] => (b'\r', 2),
            [b'\\', b'n', ..] => (b'\n', 2),
            [b'\\', b't', ..] => (b'\t', 2),
            [b'\\', b'0', ..] => (0, 2),
            [b'\\', b'\\', ..] => (b'\\', 2),
            [b'{', ..] => {
                let len = braces(&text[at..]);
                let inner = str::from_utf8(&text[at + 1..at + len - 1]).expect("a well-formed table");
                let (count, part) = inner.split_once('*').expect("a well-formed table");
                out.extend(unescaped(part.as_bytes()).repeat(count.parse().expect("a well-formed table")));
                at += len;
                continue;
            }
            [byte, ..] => (byte, 1),
            [] => break,
        };
        out.push(byte);
        at += len;
    }
    out
}

/// Returns the length of a group in braces, including nested groups.
fn braces(text: &[u8]) -> usize {
    let mut depth = 0;
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    panic!("unclosed: {}", text.escape_ascii());
}
