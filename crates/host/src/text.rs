//! Number formats.

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

/// Returns bytes in the largest binary unit of which there are at least ten: "22,085 MiB", "8,192 KiB".
pub fn bytes(number: u64) -> String {
    let (unit, shift) = match number {
        0..10_240 => ("bytes", 0),
        10_240..10_485_760 => ("KiB", 10),
        10_485_760..10_737_418_240 => ("MiB", 20),
        _ => ("GiB", 30),
    };
    format!("{} {unit}", grouped(number >> shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([7, 20_480, 24_684_084 * 1024].map(bytes), ["7 bytes", "20 KiB", "23 GiB"]);
    }
}
