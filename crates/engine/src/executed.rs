//! Everything that a run executes in addition to this program, according to its record: commands of the user, another
//! program, and libraries that an environment may load. Resuming a record executes all of it again, so the author of
//! the record decides what runs.
//!
//! The user's register lists what this user's own runs have executed. Anything that it lacks comes from somebody else,
//! or was executed elsewhere or long ago; then the user must be asked.

use crate::register::Register;
use crate::{Entry, Kind};
use landau_record::schema::{Case, Side};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fmt, iter};

/// The name of the register.
const REGISTER: &str = "executed";

/// The value of a setting that names no command or server.
const NOTHING: &str = "none";

/// Everything that a run executes in addition to this program: one line for each command, program, variable and server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Executed(Vec<String>);

impl Executed {
    /// Returns whether the run executes nothing but this program.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds everything that the passes of these cases execute, on one side of a run or on its only side.
    pub fn add<'c>(
        &mut self,
        environment: &BTreeMap<String, String>,
        side: Option<&Side>,
        cases: impl IntoIterator<Item = &'c Case>,
        registry: &[Entry],
    ) {
        for (name, value) in environment {
            self.push("environment", &format!("{name}={value}"));
        }
        if let Some(program) = side.and_then(|side| side.program.as_ref()) {
            self.push("program", &program.path);
        }
        if let Some(switch) = side.and_then(|side| side.switch.as_ref()) {
            self.push("switch", &switch.command);
            self.push("restore", &switch.restore);
        }
        for case in cases {
            let entry = registry.iter().find(|entry| entry.name == case.benchmark);
            for parameter in entry.map_or(&[][..], |entry| entry.parameters) {
                let word = match parameter.kind {
                    Kind::Command => "server",
                    Kind::Url => "requests to",
                    _ => continue,
                };
                if let Some(value) = case.settings.get(parameter.name).filter(|value| *value != NOTHING) {
                    self.push(word, value);
                }
            }
        }
    }

    /// Adds a line unless it is present: both sides of a run name the same commands.
    fn push(&mut self, word: &str, text: &str) {
        let line = format!("{word}: {text}");
        if !self.0.contains(&line) {
            self.0.push(line);
        }
    }

    /// Adds the lines to the user's register. Without a register, the user is asked when the run is resumed.
    pub fn remember(&self) {
        let (register, folder) = (Register::of_user(REGISTER), std::env::current_dir());
        if let (false, Some(register), Ok(folder)) = (self.is_empty(), register, folder) {
            let _ = register.add(self.entry(&folder));
        }
    }

    /// Returns whether a run of this user has executed all of it in this directory, and nothing else.
    pub fn is_known(&self) -> bool {
        let known = |(register, folder): (Register, PathBuf)| register.lines().contains(&self.entry(&folder).into());
        self.is_empty() || Register::of_user(REGISTER).zip(std::env::current_dir().ok()).is_some_and(known)
    }

    /// Returns the line of the register. It begins with the directory: `./serve.sh` is another program in another
    /// directory.
    fn entry(&self, folder: &Path) -> String {
        // Escaped, so that directories whose names differ only in bytes that are not UTF-8 remain distinct.
        let folder = format!("folder: {}", folder.as_os_str().as_encoded_bytes().escape_ascii());
        iter::once(&folder).chain(&self.0).cloned().collect::<serde_json::Value>().to_string()
    }
}

/// Formats one item a line. Control characters are escaped, so that they cannot hide a part of a command from the
/// reader.
impl fmt::Display for Executed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |c: char| match c {
            '\'' | '"' | '\\' => c.to_string(),
            other => other.escape_debug().to_string(),
        };
        let lines: Vec<String> =
            self.0.iter().map(|line| format!("  {}", line.chars().map(shown).collect::<String>())).collect();
        f.write_str(&lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use landau_record::schema::{Program, Role, Switch};

    #[test]
    fn a_command_in_another_folder_is_another_entry() {
        let executed = Executed(vec!["server: ./serve.sh".to_owned()]);
        let [own, sent] = [Path::new("/home/me/own"), Path::new("/home/me/sent")].map(|folder| executed.entry(folder));
        assert_ne!(own, sent);
        assert_eq!(executed.to_string(), "  server: ./serve.sh");
    }

    #[test]
    fn every_command_program_and_variable_is_named() {
        let mut executed = Executed::default();
        executed.add(&BTreeMap::new(), None, &[], &[]);
        assert!(executed.is_empty() && executed.is_known());
        let switch = Switch { command: "echo 'on'\u{1b}[2K\necho".to_owned(), restore: "off".to_owned() };
        let program = Some(Program { path: "/other".to_owned(), version: String::new(), file: None });
        let (run, other) = (String::new(), String::new());
        let side =
            Side { role: Role::New, run, other, differences: Vec::new(), program, switch: Some(switch), profile: None };
        let environment = BTreeMap::from([("LD_PRELOAD".to_owned(), "/x.so".to_owned())]);
        for _ in 0..2 {
            executed.add(&environment, Some(&side), &[], &[]);
        }
        assert_eq!(
            executed.to_string(),
            "  environment: LD_PRELOAD=/x.so\n  program: /other\n  switch: echo 'on'\\u{1b}[2K\\necho\n  restore: off"
        );
    }
}
