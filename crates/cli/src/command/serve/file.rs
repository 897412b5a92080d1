//! The flags that come from a configuration file. Flags of the command line override the file's keys.

use super::Args;
use clap::{ArgAction, ArgMatches, Args as _, Command, FromArgMatches};
use landau_serve::{LiveRules, Problem, Setting};
use std::ffi::OsString;
use std::path::Path;

/// The key of the positional argument.
const ROOT: &str = "root";

/// Flags that are not keys: those about the file itself, and help.
const NO_KEYS: [&str; 3] = ["config", "check", "help"];

/// Returns the parser of the command's arguments, without the command's name before them.
fn parser() -> Command {
    Args::augment_args(Command::new("serve").no_binary_name(true))
}

/// Returns the keys that a file may have outside of rules: the long names of all flags, and `root`.
fn keys() -> Vec<String> {
    let command = parser();
    let flags = command.get_arguments().filter_map(clap::Arg::get_long).filter(|name| !NO_KEYS.contains(name));
    flags.map(str::to_owned).chain([ROOT.to_owned()]).collect()
}

/// Reads a configuration file. Returns the arguments, merged with its keys, and its rules. The error lists everything
/// that is wrong with the file, one problem per line.
pub(super) fn read(path: &Path) -> anyhow::Result<(Args, LiveRules)> {
    let read = LiveRules::read(path, &keys(), |settings| settings.iter().filter_map(problem).collect());
    let rules = read.map_err(|problems| anyhow::anyhow!("{}", problems.join("\nlandau: ")))?;
    let args = merged(rules.settings(), own_words())?;
    Ok((args, rules))
}

/// Returns an error about the settings with its location: the file and, if the setting is in it and not overridden, the
/// line and the key.
pub(super) fn placed(path: &Path, settings: &[Setting], error: &anyhow::Error) -> String {
    let (text, own) = (format!("{error:#}"), parser().try_get_matches_from(own_words()).ok());
    let in_file = |key: &str| {
        let is_overridden = own.as_ref().is_some_and(|own| is_given(own, key));
        settings.iter().find(|setting| setting.key == key && !is_overridden)
    };
    let setting = match error.downcast_ref::<landau_serve::Error>().and_then(landau_serve::Error::option) {
        Some(key) => in_file(key),
        None => text.split([' ', ':']).filter_map(|word| word.strip_prefix("--")).find_map(in_file),
    };
    let file = path.display();
    let Some(setting) = setting else { return format!("{file}: {text}") };
    let reason = text.strip_prefix(&format!("--{} ", setting.key)).unwrap_or(&text);
    format!("{file}:{}", setting.problem(reason))
}

/// Returns the arguments of this process that follow `serve`.
fn own_words() -> Vec<OsString> {
    std::env::args_os().skip_while(|word| word != "serve").skip(1).collect()
}

/// Returns a setting as words of the command line.
fn words(setting: &Setting) -> impl Iterator<Item = OsString> {
    let flag = (setting.key != ROOT).then(|| format!("--{}", setting.key));
    setting.occurrences.iter().flat_map(move |words| {
        // A value may begin with a dash.
        match (&flag, &words[..]) {
            (Some(flag), [word]) => vec![format!("{flag}={word}").into()],
            (flag, words) => flag.iter().chain(words).map(OsString::from).collect::<Vec<_>>(),
        }
    })
}

/// Returns what is wrong with a single setting, in the words of the flag's parser.
fn problem(setting: &Setting) -> Option<Problem> {
    let flag = parser().get_arguments().find(|arg| arg.get_long() == Some(&setting.key)).cloned();
    let wants_list = flag.as_ref().is_none_or(|flag| matches!(flag.get_action(), ArgAction::Append));
    if !wants_list && setting.occurrences.len() > 1 {
        return Some(setting.problem("expected one value, got a list"));
    }
    let takes_one = flag.as_ref().is_some_and(|flag| matches!(flag.get_action(), ArgAction::Set));
    if takes_one && setting.key != ROOT && setting.occurrences.is_empty() {
        return Some(setting.problem("expected a value"));
    }
    let is_one_word = setting.occurrences.len() == 1 && setting.occurrences[0].len() == 1;
    if setting.key == ROOT && !is_one_word {
        return Some(setting.problem("expected one directory"));
    }
    let without_value = flag.filter(|flag| flag.get_action().takes_values());
    if let Some(flag) = without_value.filter(|_| setting.occurrences.iter().any(Vec::is_empty)) {
        return Some(setting.problem(format!("true is not a value of this key: {}", values(&flag))));
    }
    // A directory is added, so that this key does not report that it is missing.
    let mut all: Vec<OsString> = words(setting).collect();
    if setting.key != ROOT {
        all.push(".".into());
    }
    let error = parser().try_get_matches_from(all).err()?;
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    Some(setting.problem(first.trim_start_matches("error: ").replace(&format!("'--{} ", setting.key), "'")))
}

/// Returns the values that a flag accepts, in the words of its parser if it has any.
fn values(flag: &clap::Arg) -> String {
    let refused = parser().try_get_matches_from([format!("--{}=true", flag.get_long().unwrap_or_default())]);
    let text = refused.err().map(|error| error.to_string()).unwrap_or_default();
    let reason = text.lines().next().and_then(|line| line.split_once(">': ")).map(|(_, reason)| reason);
    if let Some(reason) = reason.filter(|reason| reason.starts_with("expected ")) {
        return reason.to_owned();
    }
    let names = flag.get_value_names().unwrap_or_default().iter().map(clap::builder::Str::as_str);
    format!("expected {}", names.collect::<Vec<_>>().join(" and "))
}

/// Merges the settings with the arguments of the command line, which take precedence.
fn merged(settings: &[Setting], own: Vec<OsString>) -> anyhow::Result<Args> {
    let given = parser().try_get_matches_from(own.clone())?;
    // The settings come first: after `--` every word is a directory.
    let of_file = settings.iter().filter(|setting| !is_given(&given, &setting.key));
    let mut all: Vec<OsString> = of_file.flat_map(words).collect();
    all.extend(own);
    let args = Args::from_arg_matches(&parser().try_get_matches_from(all)?)?;
    anyhow::ensure!(
        args.root.is_some(),
        "no directory to serve: add root = \"DIR\" to the file, or DIR to the command"
    );
    Ok(args)
}

/// Returns whether the command line contains the flag of this key.
fn is_given(given: &ArgMatches, key: &str) -> bool {
    given.value_source(&key.replace('-', "_")) == Some(clap::parser::ValueSource::CommandLine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use landau_serve::ConfigFile;

    fn settings(text: &str) -> Vec<Setting> {
        let known = keys();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        ConfigFile::parse(text, &known).unwrap().settings
    }

    fn args(text: &str, line: &str) -> Args {
        let line = format!("--config f {line}");
        merged(&settings(text), line.split_whitespace().map(OsString::from).collect()).unwrap()
    }

    /// Guards against a flag without a key, and against a key that is not read.
    #[test]
    fn every_flag_has_its_key() {
        for flag in parser().get_arguments().filter(|arg| !arg.is_positional()) {
            let (name, id) = (flag.get_long().unwrap(), flag.get_id().as_str());
            if NO_KEYS.contains(&name) {
                continue;
            }
            assert_eq!(id, name.replace('-', "_"), "the file's key is found by its name");
            let value = match (name, flag.get_action()) {
                (_, ArgAction::SetTrue) => "true".to_owned(),
                ("tls", _) => "[['a.pem', 'b.pem']]".to_owned(),
                _ => value_of(name),
            };
            let given = settings(&format!("{name} = {value}\n"));
            assert_eq!(given.iter().map(problem).collect::<Vec<_>>(), [None], "{name} = {value}");
            let all: Vec<OsString> = given.iter().flat_map(words).chain([".".into()]).collect();
            assert!(is_given(&parser().try_get_matches_from(all).unwrap(), name), "{name}");
        }
    }

    /// Such a key once had no effect, so `symlinks = false` followed links.
    #[test]
    fn a_key_that_needs_a_value_takes_no_other() {
        for text in ["symlinks = false", "head-timeout = false", "workers = []"] {
            assert!(settings(text).iter().any(|one| problem(one).is_some()), "{text}");
        }
        assert!(settings("no-listings = false").iter().all(|one| problem(one).is_none()));
    }

    /// The word that followed was once taken as the value: "invalid value '.'".
    #[test]
    fn true_is_no_value_of_a_flag_that_takes_one() {
        for (key, values) in [
            ("symlinks", "expected inside, never or anywhere"),
            ("sandbox", "expected never, if-possible or always"),
            ("accept", "expected own, steered, shared, handed or multishot"),
            ("log-format", "expected common, combined or json"),
            ("proxy-protocol", "expected an address, a network such as 10.0.0.0/8 or 2001:db8::/32, or unix"),
            ("log", "expected FILE"),
            ("workers", "expected N"),
            ("tls", "expected CERT.pem and KEY.pem"),
        ] {
            let told = problem(&settings(&format!("{key} = true\n"))[0]).unwrap().to_string();
            assert_eq!(told, format!("1: {key}: true is not a value of this key: {values}"));
        }
        let told = problem(&settings("root = true\n")[0]).unwrap().to_string();
        assert_eq!(told, "1: root: expected one directory");
    }

    #[test]
    fn a_list_of_index_files_is_no_text() {
        let told = problem(&settings("index = 'index.html index.htm'\n")[0]).unwrap().to_string();
        assert!(told.starts_with("1: index: ") && told.contains("index = [\"a\", \"b\"]"), "{told}");
        assert_eq!(problem(&settings("index = ['index.html', 'index.htm']\n")[0]), None);
    }

    /// Returns a value that a flag accepts.
    fn value_of(name: &str) -> String {
        let is_taken = |value: &str| {
            let words = [format!("--{name}={value}"), ".".to_owned()];
            parser().try_get_matches_from(words).is_ok()
        };
        let values =
            ["1", "1s", "1KiB", "1MiB", "127.0.0.1:80", "127.0.0.1", "epoll", "own", "common", "never", "always", "f"];
        let value =
            values.iter().find(|value| is_taken(value)).unwrap_or_else(|| panic!("--{name} takes none of these"));
        format!("'{value}'")
    }

    #[test]
    fn the_command_line_overrides_the_file() {
        let file = "root = '/srv'\nworkers = 3\nlisten = ['127.0.0.1:1', '127.0.0.1:2']\nno-listings = true\n";
        let of_file = args(file, "");
        assert_eq!((of_file.root.unwrap().to_str().unwrap(), of_file.workers, of_file.listen.len()), ("/srv", 3, 2));
        assert!(of_file.no_listings);
        let both = args(file, "/other --listen 127.0.0.1:3");
        assert_eq!((both.root.unwrap().to_str().unwrap(), both.workers, both.listen.len()), ("/other", 3, 1));
        let behind = args(file, "-- /other");
        assert_eq!((behind.root.unwrap().to_str().unwrap(), behind.workers), ("/other", 3));
    }

    #[test]
    fn values_are_checked_by_the_parsers_of_the_flags() {
        let wrong =
            "workers = 0\nlisten = ['127.0.0.1:1', 'x']\ncache = '1 parsec'\nbacklog = [1, 2]\nroot = ['a', 'b']\n";
        let mut told: Vec<String> = settings(wrong).iter().map(|one| problem(one).unwrap().to_string()).collect();
        told.sort();
        assert!(told[0].starts_with("1: workers: ") && told[0].contains("1..=1024"), "{told:?}");
        assert!(told[1].starts_with("2: listen: ") && told[1].contains("\"x\" is not an address"), "{told:?}");
        assert!(told[2].starts_with("3: cache: ") && told[2].contains("parsec"), "{told:?}");
        assert_eq!(told[3], "4: backlog: expected one value, got a list");
        assert_eq!(told[4], "5: root: expected one directory");
    }
}
