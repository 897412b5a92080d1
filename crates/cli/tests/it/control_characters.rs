//! Untrusted text cannot control the terminal: the names of files, units and processes, and the contents of records.

use crate::support::{LANDAU, Process, Ran, Room};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// A name that clears the screen and sets the terminal's title, with C0 and C1 control characters.
const NAME: &str = "a\u{1b}[2J\u{9b}2J\u{7}b";

/// Returns whether no control characters except line feed and tab were printed.
fn is_plain(ran: &Ran) -> bool {
    let is_control = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\t');
    !ran.out.contains(is_control) && !ran.err.contains(is_control)
}

#[test]
fn names_of_files_and_units_do_not_control_the_terminal() {
    let room = Room::new();
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/records/sample.landau.ndjson");
    let record = format!("{NAME}.ndjson");
    std::fs::copy(sample, room.file(&record)).unwrap();
    for command in ["show", "verify", "history", "report", "check", "compare", "predict"] {
        for file in [&record, NAME] {
            let ran = room.landau(&[command, file]);
            assert!(is_plain(&ran), "{command}: {ran:?}");
        }
    }
    let commands: [&[&str]; 7] = [
        &["verify", &record, "--json"],
        &["report", &record, "--output", &format!("{NAME}.html")],
        &["history", ".", "--site", NAME],
        &["inspect", "--unit", NAME],
        &["show", &format!("--{NAME}")],
        &["queue", NAME],
        &["mail", "--message", NAME, NAME],
    ];
    for words in commands {
        let ran = room.landau(words);
        assert!(is_plain(&ran) && !(ran.out + &ran.err).is_empty(), "{words:?}");
    }
    let value: serde_json::Value = serde_json::from_str(&room.landau(commands[0]).out).unwrap();
    assert_eq!(value[0]["name"], record, "JSON has the name itself");
}

/// Any program can set its name with `prctl`, as this one does.
#[test]
fn a_process_does_not_control_the_terminal_of_its_inspector() {
    let script = "use IO::Socket::INET; $0 = \"\\e[2J\\e]0;x\\a\"; $| = 1; \
         my $s = IO::Socket::INET->new(Listen => 5, LocalAddr => '127.0.0.1') or die; print $s->sockport, \"\\n\"; \
         sleep 600";
    let mut server =
        Process::spawn(Command::new("perl").args(["-e", script]).stdin(Stdio::null()).stdout(Stdio::piped())).unwrap();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
    let pid = server.id().to_string();
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
    assert!(name.starts_with("\u{1b}[2J"), "{name:?}");
    let commands: [&[&str]; 3] =
        [&["inspect", &pid, "--for", "500ms", "--evidence", "proc"], &["doctor", "--pid", &pid], &["doctor", "--long"]];
    for words in commands {
        let ran = Ran::of(Command::new(LANDAU).args(words).output().unwrap());
        assert!(is_plain(&ran) && !ran.out.is_empty(), "{words:?}: {ran:?}");
    }
}
