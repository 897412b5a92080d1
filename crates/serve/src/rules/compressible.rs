//! The files that are worth compressing.

/// Smaller files fit into one packet anyway.
const LEAST_BYTES: u64 = 512;

/// Larger files take too long and too much memory: a thread holds one file at a time, and its compressed form.
const MOST_BYTES: u64 = 8 << 20;

/// Returns whether a file of this type and size is worth compressing: text, formats based on text, and formats without
/// compression.
pub(super) fn is_worth_it(content_type: &str, size: u64) -> bool {
    const OTHERS: [&str; 14] = [
        "application/geo+json",
        "application/javascript",
        "application/json",
        "application/manifest+json",
        "application/toml",
        "application/vnd.ms-fontobject",
        "application/wasm",
        "application/x-ndjson",
        "application/xml",
        "application/yaml",
        "font/otf",
        "font/ttf",
        "image/bmp",
        "image/vnd.microsoft.icon",
    ];
    let kind = content_type.split(';').next().unwrap_or_default().trim();
    let is_text = kind.starts_with("text/") || kind.ends_with("+xml") || kind.ends_with("+json");
    (LEAST_BYTES..=MOST_BYTES).contains(&size) && (is_text || OTHERS.contains(&kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_worth_it_and_pictures_are_not() {
        for kind in ["text/html; charset=utf-8", "application/json", "image/svg+xml", "font/ttf", "application/wasm"] {
            assert!(is_worth_it(kind, 1000), "{kind}");
            assert!(!is_worth_it(kind, 100) && !is_worth_it(kind, 100 << 20));
        }
        for kind in ["image/png", "video/mp4", "application/zip", "font/woff2", "application/octet-stream"] {
            assert!(!is_worth_it(kind, 1000), "{kind}");
        }
    }
}
