//! The command that raises a limit.

/// Separators between a command and a remark on it.
const REMARKS: [&str; 4] = [", ", " on ", " or ", " with "];

/// Splits the command that raises a limit from the remark after it, which is not code: ("--dir DIR", " on ext4 or
/// xfs").
pub(crate) fn command_and_remark(raise: &str) -> (&str, &str) {
    let raise = raise.trim_end_matches('.');
    let end = REMARKS.iter().filter_map(|word| raise.find(word)).min();
    raise.split_at(end.unwrap_or(raise.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guards against code marks around a remark, for every form that `landau-engine` and `landau-bench` produce.
    #[test]
    fn only_the_command_is_code() {
        let ports = "sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\"";
        let cases = [
            (ports, (ports, "")),
            ("ulimit -n 2048", ("ulimit -n 2048", "")),
            ("--set bind.range=LOW-HIGH with more ports", ("--set bind.range=LOW-HIGH", " with more ports")),
            (
                "--dir DIR on ext4, xfs or btrfs, or run as root",
                ("--dir DIR", " on ext4, xfs or btrfs, or run as root"),
            ),
            ("prlimit --pid $$ --nproc=800", ("prlimit --pid $$ --nproc=800", "")),
        ];
        for (raise, parts) in cases {
            assert_eq!(command_and_remark(raise), parts);
        }
    }
}
