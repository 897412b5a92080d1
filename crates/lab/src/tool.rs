//! Programs of the host that platforms use.

use crate::error::Error;
use std::process::Command;

/// Returns the first line that `program argument` prints, for platform `platform`; `install` is advice on how to get
/// the program.
pub(crate) fn version_of(platform: &str, program: &str, argument: &str, install: &str) -> Result<String, Error> {
    let refuse = |reason: String| Err(Error::unusable(platform, format!("{reason}; {install}")));
    let output = match Command::new(program).arg(argument).output() {
        Ok(output) => output,
        Err(error) => return refuse(format!("cannot start {program}: {error}")),
    };
    // ssh prints its version on standard error.
    let bytes = if output.stdout.is_empty() { &output.stderr } else { &output.stdout };
    let line = String::from_utf8_lossy(bytes).lines().next().unwrap_or_default().to_owned();
    if output.status.success() { Ok(line) } else { refuse(format!("{program} {argument}: {}, {line}", output.status)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_reported_for_the_platform_in_use() {
        let error = version_of("kvm", "/nonexistent/qemu", "--version", "install qemu").unwrap_err().to_string();
        assert!(error.contains("`kvm`") && error.contains("install qemu"), "{error}");
    }

    #[test]
    fn a_failing_program_is_reported_with_its_output() {
        let error = version_of("vng", "sh", "-c", "install it").unwrap_err().to_string();
        assert!(error.contains("sh -c: exit status: 2"), "{error}");
    }
}
