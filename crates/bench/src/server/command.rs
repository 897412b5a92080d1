//! A server that the user starts with a command of their own: `--set request.command="server -p {port} {dir}"`.

use crate::program::require;
use crate::server::{Start, WebServer};
use landau_engine::{Settings, Stop, Support};
use std::path::PathBuf;
use std::process::Command;

pub(super) struct CustomCommand;

impl WebServer for CustomCommand {
    fn support(&self, _: &Settings) -> Support {
        Support::Yes
    }

    /// Splits the command at spaces, and fills in the port and the document root.
    fn configure(&self, start: &Start) -> Result<Command, Stop> {
        let (port, root) = (start.port.to_string(), start.root.to_string_lossy());
        let text = start.settings.text("command");
        let mut words = text.split_whitespace().map(|word| word.replace("{port}", &port).replace("{dir}", &root));
        let program = words.next().unwrap_or_default();
        let program = if program.contains('/') { PathBuf::from(program) } else { require(&program)? };
        let mut command = Command::new(program);
        command.args(words);
        Ok(command)
    }

    fn version(&self) -> Option<String> {
        None
    }
}
