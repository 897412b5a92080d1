//! The handshake with the program that makes the passes of a side. Before anything is measured, the program must
//! confirm that it speaks the same protocol, and name the phases that it would time.
//!
//! The program may be another build of landau, or this one with another environment. It is started like a worker, so a
//! program that cannot start, or a library that cannot be preloaded, is detected before the run.

use crate::worker_process::Launch;
use crate::{Entry, Error, Plan, Planned, Settings, lanes};
use landau_record::schema::Skip;
use landau_sys::descriptor::wait_any_readable;
use landau_sys::process::OwnedChild;
use landau_sys::stream::set_blocking;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{BufRead, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The argument that makes this program answer. It is not for users.
pub(crate) const ARGUMENT: &str = "__worker_protocol";

/// The protocol of controller and worker: raise it if the meaning of an order, a report or a lane changes.
const PROTOCOL: u32 = 1;

/// The time within which a program must answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The interval at which the controller checks for an interruption, and whether the program has read more of the
/// questions.
const LOOK_MS: i32 = 10;

/// The maximum length of the answer, and of the program's output on standard error.
const LONGEST: usize = 1 << 20;

/// A case that the program is asked about.
#[derive(Debug, Serialize, Deserialize)]
struct Question {
    benchmark: String,
    settings: BTreeMap<String, String>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Answer {
    protocol: u32,
    landau: String,
    /// The capacities of the lanes of a case with [`TRIAL`]: programs that lay out the shared memory differently must
    /// not share it.
    lanes: Vec<usize>,
    /// For each case the names of its phases, or why it cannot be measured.
    cases: Vec<Result<Vec<String>, String>>,
}

/// Phases and steps of the case whose lanes are compared, and whether its calls are tagged.
const TRIAL: (usize, u64, bool) = (3, 100_000, true);

/// Reads the questions from standard input and answers them on standard output.
pub(crate) fn answer(registry: &[Entry]) -> Result<(), String> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).map_err(|error| error.to_string())?;
    let questions: Vec<Question> = serde_json::from_str(&line).map_err(|error| error.to_string())?;
    let answer = Answer {
        protocol: PROTOCOL,
        landau: env!("CARGO_PKG_VERSION").to_owned(),
        lanes: lanes::capacities(TRIAL.0, TRIAL.1, TRIAL.2, false),
        cases: questions.iter().map(|question| phases(registry, question)).collect(),
    };
    let text = serde_json::to_string(&answer).map_err(|error| error.to_string())?;
    writeln!(std::io::stdout().lock(), "{text}").map_err(|error| error.to_string())
}

/// Returns the phases of a case, or why this program cannot measure it.
fn phases(registry: &[Entry], question: &Question) -> Result<Vec<String>, String> {
    let entry = Entry::find(registry, &question.benchmark).map_err(|error| error.to_string())?;
    if let Some(reason) = entry.rejected(&question.settings) {
        return Err(reason);
    }
    if let Some(missing) = entry.missing(&question.settings) {
        let name = entry.name;
        return Err(format!("its `{name}` has a parameter `{missing}`, which this landau does not know"));
    }
    let settings = Settings::from_map(question.settings.clone());
    Ok((entry.phases_of)(&settings).iter().map(|phase| phase.name.to_owned()).collect())
}

/// Asks the program of a plan's workers whether it can make the passes. Cases that it cannot measure become skips. Its
/// version, and the size and modification time of its file, are added to the plan.
///
/// # Errors
///
/// Fails if the program cannot be started, does not answer, or speaks another protocol, if its file differs from the
/// file in the plan, or if `interrupted` returns true in the meantime.
pub fn consult(plan: &mut Plan, interrupted: &dyn Fn() -> bool) -> Result<(), Error> {
    let launch = Launch::of(plan)?;
    let answer = ask(plan, &launch, interrupted)?;
    let (mut kept, mut refused) = (Vec::new(), Vec::new());
    for (planned, answer) in std::mem::take(&mut plan.cases).into_iter().zip(answer.cases) {
        match difference(&planned, answer) {
            None => kept.push(planned),
            Some(reason) => refused.push(Skip { label: planned.case.label, reason }),
        }
    }
    plan.cases = kept;
    plan.skips.extend(refused);
    if let Some(program) = plan.side.as_mut().and_then(|side| side.program.as_mut()) {
        program.version = answer.landau;
        program.file = launch.file();
    }
    Ok(())
}

/// Returns why the program cannot measure a case.
fn difference(planned: &Planned, answer: Result<Vec<String>, String>) -> Option<String> {
    let phases: Vec<&str> = planned.case.phases.iter().map(|phase| phase.name.as_str()).collect();
    match answer {
        Err(reason) => Some(format!("the other program cannot measure it: {reason}")),
        Ok(theirs) if theirs != phases => Some(format!(
            "the other program times the phases {}; this one times {}",
            theirs.join(", "),
            phases.join(", ")
        )),
        Ok(_) => None,
    }
}

fn ask(plan: &Plan, launch: &Launch, interrupted: &dyn Fn() -> bool) -> Result<Answer, Error> {
    let name = plan.program_path().map_or_else(|| "landau".to_owned(), |path| path.display().to_string());
    let refused = |reason: String| Error::Program { path: name.clone(), reason };
    let questions = plan.cases.iter().map(|planned| Question {
        benchmark: planned.case.benchmark.clone(),
        settings: planned.settings.as_map().clone(),
    });
    let questions =
        serde_json::to_string(&questions.collect::<Vec<_>>()).map_err(|error| refused(error.to_string()))?;
    let reply = converse(&mut launch.command(ARGUMENT), &questions, TIMEOUT, interrupted);
    let Reply { answer, complaint, ending } = reply.map_err(|error| refused(error.to_string()))?;
    // The loader ignores a library that it cannot preload and starts the program without it: both sides would be equal.
    if let Some(line) = complaint.lines().find(|line| line.contains("cannot be preloaded")) {
        return Err(refused(line.trim().to_owned()));
    }
    let Ok(answer) = serde_json::from_str::<Answer>(&answer) else {
        let said = complaint.lines().find(|line| !line.trim().is_empty());
        let said = said.map_or(String::new(), |line| format!(": {}", line.trim()));
        return Err(refused(format!(
            "it did not answer like a landau with worker protocol {PROTOCOL} ({ending}{said}); use a landau that has \
             `run --against`, or a script that executes one with its arguments"
        )));
    };
    if answer.protocol != PROTOCOL || answer.lanes != lanes::capacities(TRIAL.0, TRIAL.1, TRIAL.2, false) {
        return Err(refused(format!(
            "landau {} uses worker protocol {}; this landau uses {PROTOCOL}; build both from versions with the same \
             protocol",
            answer.landau, answer.protocol
        )));
    }
    if answer.cases.len() != plan.cases.len() {
        return Err(refused(format!("it answered {} of {} questions", answer.cases.len(), plan.cases.len())));
    }
    Ok(answer)
}

/// The output of a program, and how it ended.
struct Reply {
    answer: String,
    complaint: String,
    ending: String,
}

/// Writes a line to a program and reads its answer, until the timeout: a program may write half a line, or read
/// nothing, and never end.
fn converse(
    command: &mut Command,
    line: &str,
    timeout: Duration,
    interrupted: &dyn Fn() -> bool,
) -> std::io::Result<Reply> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = OwnedChild::spawn_group(command)?;
    let mut questions = Questions::new(child.stdin.take(), format!("{line}\n"))?;
    let mut answer = Heard::new(child.stdout.take())?;
    let mut complaint = Heard::new(child.stderr.take())?;
    let began = Instant::now();
    while !answer.has_line() {
        if interrupted() {
            return Err(std::io::Error::new(ErrorKind::Interrupted, "interrupted while waiting for its answer"));
        }
        if began.elapsed() >= timeout {
            break;
        }
        questions.write();
        wait_any_readable([answer.descriptor(), complaint.descriptor()], LOOK_MS)?;
        answer.read();
        complaint.read();
    }
    let ending =
        if answer.has_line() { ending(&mut child)? } else { format!("no answer within {} s", timeout.as_secs()) };
    drop(child);
    // Reads the last output. Does not wait for the end of the pipe: a process that has left the group may hold it open.
    complaint.read();
    Ok(Reply { answer: answer.first_line(), complaint: complaint.text(), ending })
}

/// The questions that are still to be sent to a program.
struct Questions<W> {
    input: Option<W>,
    left: Vec<u8>,
}

impl<W: Write + AsFd> Questions<W> {
    fn new(input: Option<W>, text: String) -> std::io::Result<Self> {
        input.iter().try_for_each(|input| set_blocking(input, false))?;
        Ok(Self { input, left: text.into_bytes() })
    }

    /// Writes as much as the pipe accepts. Other errors are ignored: if the program ends without reading, its output
    /// says more.
    fn write(&mut self) {
        while let Some(input) = self.input.as_mut().filter(|_| !self.left.is_empty()) {
            match input.write(&self.left) {
                Ok(count) if count > 0 => drop(self.left.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => self.left.clear(),
            }
        }
        self.input = None;
    }
}

/// The output of a program on a pipe so far.
struct Heard<R> {
    pipe: Option<R>,
    bytes: Vec<u8>,
}

impl<R: Read + AsFd + AsRawFd> Heard<R> {
    fn new(pipe: Option<R>) -> std::io::Result<Self> {
        pipe.iter().try_for_each(|pipe| set_blocking(pipe, false))?;
        Ok(Self { pipe, bytes: Vec::new() })
    }

    fn descriptor(&self) -> Option<&dyn AsRawFd> {
        self.pipe.as_ref().map(|pipe| pipe as &dyn AsRawFd)
    }

    /// Reads the available bytes, up to [`LONGEST`] in all.
    fn read(&mut self) {
        while let Some(pipe) = &mut self.pipe {
            let mut chunk = [0; 4096];
            match pipe.read(&mut chunk) {
                Ok(count) if count > 0 && self.bytes.len() < LONGEST => self.bytes.extend(&chunk[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The end of the pipe, an error, or too much output.
                _ => self.pipe = None,
            }
        }
    }

    /// Returns whether the first line is complete or no more output will follow.
    fn has_line(&self) -> bool {
        self.pipe.is_none() || self.bytes.contains(&b'\n')
    }

    fn first_line(&self) -> String {
        String::from_utf8_lossy(self.bytes.split_inclusive(|&byte| byte == b'\n').next().unwrap_or_default()).into()
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into()
    }
}

/// Returns a description of how a program that has answered ended; it may still be running.
fn ending(child: &mut OwnedChild) -> std::io::Result<String> {
    for _ in 0..100 {
        if let Some(status) = child.try_wait()? {
            return Ok(status.to_string());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok("it still runs".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::REGISTRY;

    fn question(settings: &[(&str, &str)]) -> Question {
        let settings = settings.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        Question { benchmark: "fake".to_owned(), settings }
    }

    #[test]
    fn a_program_answers_with_the_phases_or_with_what_it_lacks() {
        assert_eq!(phases(REGISTRY, &question(&[("n", "10"), ("colour", "red")])), Ok(vec!["make".to_owned()]));
        let reason = |settings: &[(&str, &str)]| phases(REGISTRY, &question(settings)).unwrap_err();
        assert!(reason(&[("n", "10"), ("colour", "green")]).contains("colour=green: `green` is not one of red, blue"));
        assert!(reason(&[("n", "10"), ("size", "3")]).contains("it has n, colour"));
        // A parameter that only the other program has. Its default may differ from what this side measures.
        assert!(reason(&[("n", "10")]).contains("has a parameter `colour`"));
        let unknown = Question { benchmark: "gone".to_owned(), ..question(&[]) };
        assert!(phases(REGISTRY, &unknown).unwrap_err().contains("unknown benchmark `gone`"));
    }

    /// Guards against a hang: programs other than landau may read nothing, write something else, or never end.
    #[test]
    fn what_is_no_landau_is_heard_to_its_end() {
        let say = |script: &str| ask_script(script, "[]", TIMEOUT, &|| false).unwrap();
        let reply = say("echo unknown argument >&2; exit 3");
        assert_eq!((reply.answer.as_str(), reply.ending.as_str()), ("", "exit status: 3"));
        assert_eq!(reply.complaint, "unknown argument\n");
        assert_eq!(say("echo hello; exec sleep 1000").ending, "it still runs");
    }
    fn ask_script(
        script: &str,
        line: &str,
        timeout: Duration,
        interrupted: &dyn Fn() -> bool,
    ) -> std::io::Result<Reply> {
        converse(Command::new("sh").args(["-c", script]), line, timeout, interrupted)
    }

    /// Guards against a hang on half a line, and on unread questions that exceed the capacity of a pipe.
    #[test]
    fn a_program_that_stops_half_way_has_not_answered() {
        let (brief, long) = (Duration::from_secs(1), "x".repeat(1 << 18));
        for script in ["printf x; exec sleep 300", "exec sleep 300", "setsid sleep 3 & printf x; exec sleep 300"] {
            let reply = ask_script(script, &long, brief, &|| false).unwrap();
            assert_eq!(reply.ending, "no answer within 1 s", "{script}");
            let error = ask_script(script, &long, TIMEOUT * 100, &|| true).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Interrupted, "{script}");
        }
    }

    #[test]
    fn long_questions_and_long_complaints_are_passed_on() {
        let script = "head -c 262144 /dev/zero >&2; head -n 1 | wc -c";
        let reply = ask_script(script, &"x".repeat(1 << 18), TIMEOUT * 10, &|| false).unwrap();
        assert_eq!((reply.answer.trim(), reply.complaint.len()), ("262145", 1 << 18));
    }
}
