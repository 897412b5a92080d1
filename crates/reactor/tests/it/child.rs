//! Tests in another process, under limits or under `strace`: this test program is started again for one test.

use std::process::{Command, Output, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// The variable that names a child's role.
const ROLE: &str = "LANDAU_REACTOR_CHILD";

/// Held exclusively while a child starts: between its fork and its exec it has a copy of each descriptor.
static STARTS: RwLock<()> = RwLock::new(());

/// While the guard is held no child starts, so a descriptor that is closed has no copy that keeps its file open.
pub(crate) fn none_starts() -> RwLockReadGuard<'static, ()> {
    STARTS.read().unwrap_or_else(PoisonError::into_inner)
}

fn output(command: &mut Command) -> std::io::Result<Output> {
    let guard = STARTS.write().unwrap_or_else(PoisonError::into_inner);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    drop(guard);
    child?.wait_with_output()
}

/// Returns whether this process is a child with that role.
pub(crate) fn is(role: &str) -> bool {
    std::env::var(ROLE).is_ok_and(|value| value == role)
}

/// Returns a command that runs one test of this program in a role, after a shell has executed `before`.
pub(crate) fn command(before: &str, test: &str, role: &str) -> Command {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new("bash");
    let script = format!("{before} exec \"$@\"");
    command.args(["-c", &script, "bash"]).arg(program);
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(ROLE, role);
    command
}

/// Runs one test of this program in a role, and fails if that test fails.
pub(crate) fn run(before: &str, test: &str, role: &str) {
    let output = output(&mut command(before, test, role)).unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}: {text}{}", output.status, String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("1 passed"), "no such test: {text}");
}

/// Runs one test of this program in a role under `strace` and returns the trace of the named calls; `None` if there is
/// no `strace` or it may not trace. Further arguments of `strace` may follow the names.
pub(crate) fn calls(test: &str, role: &str, calls: &str, variables: &[(&str, &str)]) -> Option<String> {
    let works = output(Command::new("strace").args(["-o", "/dev/null", "true"]));
    if !works.is_ok_and(|output| output.status.success()) {
        return None;
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    let before = format!("set -- strace -f -o {} -e trace={calls} \"$@\";", file.path().display());
    let mut command = command(&before, test, role);
    // The leak sanitizer cannot work in a traced program.
    command.env("ASAN_OPTIONS", "detect_leaks=0").env("LSAN_OPTIONS", "detect_leaks=0");
    let output = output(command.envs(variables.iter().copied())).unwrap();
    assert!(output.status.success(), "{role}: {}", String::from_utf8_lossy(&output.stderr));
    Some(std::fs::read_to_string(file.path()).unwrap())
}
