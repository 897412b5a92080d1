//! Finds programs that benchmarks start. A worker has no environment, so the directories of `PATH` are listed here.

use landau_engine::{Stop, Support};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The directories that are searched.
const DIRECTORIES: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Returns the path of a program, or nothing if it is not installed.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    DIRECTORIES.iter().map(|directory| Path::new(directory).join(program)).find(|path| path.is_file())
}

/// Returns the path of a program, or an error that lists the directories.
pub(crate) fn require(program: &str) -> Result<PathBuf, Stop> {
    find(program).ok_or_else(|| Stop::Wrong(format!("{program} is not in any of {}", DIRECTORIES.join(", "))))
}

/// Returns whether a program is installed; if not, with the command that installs it on Debian.
pub(crate) fn installed(program: &str, package: &str) -> Support {
    Support::when(find(program).is_some(), &format!("{program} is not installed (apt-get install {package})"))
}

/// Returns the first word that begins with a digit, such as `1.26.3`, in a program's output about its version.
pub(crate) fn version(program: &str, argument: &str) -> Option<String> {
    let output = Command::new(find(program)?).arg(argument).stdin(Stdio::null()).output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    first_version(&String::from_utf8_lossy(&text))
}

fn first_version(text: &str) -> Option<String> {
    let mut words = text.split(|c: char| c == '/' || c.is_whitespace()).map(|word| word.trim_start_matches('v'));
    words.find(|word| word.starts_with(|c: char| c.is_ascii_digit())).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_found_in_what_servers_print() {
        for (text, version) in [
            ("nginx version: nginx/1.22.1\n", "1.22.1"),
            ("lighttpd/1.4.69 (ssl) - a light and fast webserver\n", "1.4.69"),
            ("h2o version 2.2.5\nOpenSSL: OpenSSL 3.0.19 27 Jan 2026\n", "2.2.5"),
            ("v2.6.2 h1:abc\n", "2.6.2"),
        ] {
            assert_eq!(first_version(text).as_deref(), Some(version), "{text}");
        }
        assert_eq!(first_version("no version"), None);
    }
}
