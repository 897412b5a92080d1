//! The tag of the source from which a kernel was built.

/// Returns the git tag of the release from which a kernel was built. Debian numbers its releases differently, but its
/// version contains the upstream release: `6.1.0-56-cloud-amd64`, `#1 SMP … Debian 6.1.192-2`.
pub fn source_version(release: &str, version: &str) -> String {
    let debian = version.split_once("Debian ").map(|(_, rest)| rest);
    let text = debian.unwrap_or(release);
    let number = text.split(|c: char| !c.is_ascii_digit() && c != '.').next().unwrap_or_default().trim_matches('.');
    // The tag of the first release of a series has two numbers.
    format!("v{}", number.strip_suffix(".0").filter(|rest| rest.contains('.')).unwrap_or(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_is_that_of_the_upstream_release() {
        let debian = "#1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2 (2026-10-30)";
        assert_eq!(source_version("6.1.0-56-cloud-amd64", debian), "v6.1.192");
        assert_eq!(source_version("7.2.13+deb14-cloud-amd64", "#1 SMP Debian 7.2.13-1"), "v7.2.13");
        assert_eq!(source_version("6.12.0", "#1 SMP"), "v6.12");
        assert_eq!(source_version("6.18-rc3", "#2"), "v6.18");
    }
}
