//! Former names of subcommands, flags and values of flags, with the current name of each.
//!
//! The names of benchmarks and their parameters change in `landau_record::former`, which reads old records too.

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// A renamed subcommand or flag: its command, the former name and the current one.
type Renamed = (&'static str, &'static str, &'static str);

/// Renamed subcommands.
pub(crate) const SUBCOMMANDS: &[Renamed] = &[("lab", "engines", "platforms")];

/// Renamed flags.
pub(crate) const FLAGS: &[Renamed] = &[
    ("run", "--out", "--output"),
    ("run", "--page", "--report"),
    ("run", "--processor", "--cpu"),
    ("lab run", "--out", "--output"),
    ("lab run", "--page", "--report"),
    ("lab run", "--engine", "--platform"),
    ("lab run", "-e", "--platform"),
    ("lab run", "--patience", "--stall-timeout"),
    ("lab bisect", "--patience", "--stall-timeout"),
    ("lab test", "--patience", "--stall-timeout"),
    ("load", "--out", "--output"),
    ("load", "--crowd", "--idle"),
    ("load", "--i-may-load", "--allow-host"),
    ("serve", "--fence", "--sandbox"),
];

/// A renamed value of a flag: command, flag, the former value and the current one.
type RenamedValue = (&'static str, &'static str, &'static str, &'static str);

/// Renamed values of flags.
pub(crate) const VALUES: &[RenamedValue] = &[("load", "--arrivals", "uniform", "constant")];

/// Returns what to type instead, if the command line failed because of a former name.
pub(crate) fn explain(error: &Error, words: &[String]) -> Option<String> {
    let of = |command: &str| {
        let typed = words.iter().skip(1).map(String::as_str);
        command.split(' ').zip(typed.map(Some).chain(std::iter::repeat(None))).all(|(one, typed)| typed == Some(one))
    };
    let find = |table: &[Renamed], old: &str| {
        table.iter().find(|(command, was, _)| of(command) && *was == old).map(|(_, _, is)| *is)
    };
    match error.kind() {
        ErrorKind::UnknownArgument => {
            // Clap returns a long flag as `--out`, and a short one with its value as `-eexact`.
            let typed = text(error, ContextKind::InvalidArg)?;
            let old = if typed.starts_with("--") { typed } else { typed.get(..2)? };
            find(FLAGS, old).map(|is| now(old, is))
        }
        ErrorKind::InvalidSubcommand => {
            let old = text(error, ContextKind::InvalidSubcommand)?;
            find(SUBCOMMANDS, old).map(|is| now(old, is))
        }
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            // Clap returns the flag with the name of its value: `--accept <HOW>`.
            let flag = text(error, ContextKind::InvalidArg)?.split(' ').next()?;
            let old = text(error, ContextKind::InvalidValue)?;
            let row = VALUES.iter().find(|(command, of_flag, was, _)| of(command) && *of_flag == flag && *was == old);
            row.map(|(_, _, _, is)| format!("{}; write {flag} {is}", now(old, is)))
        }
        _ => None,
    }
}

fn text(error: &Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text),
        ContextValue::Strings(texts) => texts.first().map(String::as_str),
        _ => None,
    }
}

fn now(old: &str, new: &str) -> String {
    format!("`{old}` is now `{new}`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Landau;
    use clap::CommandFactory;

    fn answer(words: &[&str]) -> Option<String> {
        let words: Vec<String> = std::iter::once("landau").chain(words.iter().copied()).map(str::to_owned).collect();
        let error = Landau::command().try_get_matches_from(&words).expect_err("the former name was accepted");
        explain(&error, &words)
    }

    fn command_of(path: &str) -> Vec<&str> {
        path.split(' ').collect()
    }

    #[test]
    fn each_former_name_is_answered_with_the_new_one() {
        for (command, old, new) in FLAGS {
            let words = [&command_of(command)[..], &[old, "1"]].concat();
            assert_eq!(answer(&words), Some(now(old, new)), "{words:?}");
        }
        for (command, old, new) in SUBCOMMANDS {
            let words = [&command_of(command)[..], &[old]].concat();
            assert_eq!(answer(&words), Some(now(old, new)), "{words:?}");
        }
        for (command, flag, old, new) in VALUES {
            let words = [&command_of(command)[..], &[flag, old]].concat();
            assert_eq!(answer(&words), Some(format!("{}; write {flag} {new}", now(old, new))), "{words:?}");
        }
    }

    #[test]
    fn each_new_name_exists() {
        let mut landau = Landau::command();
        landau.build();
        let find = |path: &str| {
            path.split(' ').try_fold(&landau, |command, name| command.find_subcommand(name)).expect("a command")
        };
        for (command, _, new) in FLAGS {
            let known = find(command).get_arguments().any(|arg| arg.get_long() == Some(new.trim_start_matches('-')));
            assert!(known, "{command} has no {new}");
        }
        for (command, _, new) in SUBCOMMANDS {
            assert!(find(command).find_subcommand(new).is_some(), "{command} has no {new}");
        }
    }

    #[test]
    fn other_errors_are_left_to_the_parser() {
        assert_eq!(answer(&["run", "--crowd", "5"]), None, "--crowd was a flag of `load` only");
        assert_eq!(answer(&["lab", "engine"]), None);
        assert_eq!(answer(&["run", "--passes", "no"]), None);
    }
}
