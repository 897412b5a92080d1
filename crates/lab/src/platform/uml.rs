//! `uml`: user-mode Linux, a kernel that runs as a program of the host.
//!
//! The host's kernel intercepts each system call of its processes, which costs many times what the call itself costs.
//! So a run shows whether something works, but never how long it takes.

use super::Platform;
use crate::error::Error;
use crate::job::{Job, VARIABLE};
use crate::kernel::Kind;
use crate::launch::Launch;
use crate::machine::Machine;
use crate::unpacked::sha256;
use landau_record::schema::{Emulator, Lab, Unit};
use std::path::Path;
use std::process::Command;

/// See the module.
#[derive(Debug)]
pub(super) struct Uml;

/// The connection to the host: the first terminal, which is the program's standard input and output.
const LINE: &str = "/dev/tty0";

fn arguments(machine: &Machine) -> Vec<String> {
    let mut all = vec![format!("mem={}M", machine.memory_mib), format!("initrd={}", machine.initramfs.display())];
    // The kernel's own files, above all its memory, belong in the directory of this run.
    all.push(format!("uml_dir={}", machine.folder.display()));
    all.extend("con=null con0=fd:0,fd:1 ssl=null panic=-1 rdinit=/init".split(' ').map(str::to_owned));
    all.push(format!("{VARIABLE}=1"));
    all.extend(machine.append.split_whitespace().map(str::to_owned));
    all
}

impl Platform for Uml {
    fn name(&self) -> &'static str {
        "uml"
    }

    fn about(&self) -> &'static str {
        "user-mode Linux, a kernel that runs as a program; its timings are not meaningful"
    }

    fn unit(&self) -> Unit {
        Unit::EmulatedNs
    }

    fn runs(&self, kind: &Kind) -> bool {
        *kind == Kind::Uml
    }

    fn preference(&self) -> u8 {
        1
    }

    fn adapt(&self, job: &mut Job, _machine: &Machine) {
        job.line = Some(LINE.to_owned());
    }

    /// The kernel is the program: nothing else is needed.
    fn check(&self, _program: &Path) -> Result<String, Error> {
        Ok("needs only the kernel: --kernel FILE, such as linux.uml of Debian's user-mode-linux".to_owned())
    }

    fn launch(&self, machine: &Machine, _job: &Job) -> Result<Launch, Error> {
        let mut command = Command::new(&machine.kernel.image);
        command.args(arguments(machine)).env("TMPDIR", machine.folder);
        // Standard input must stay open while it runs, because it belongs to the terminal.
        Ok(Launch { input: Some(Vec::new()), ..Launch::machine(command) })
    }

    fn describe(&self, machine: &Machine) -> Result<Lab, Error> {
        let arguments = arguments(machine);
        Ok(Lab {
            platform: self.name().to_owned(),
            kernel: Some(machine.kernel.to_record()),
            command_line: arguments.join(" "),
            emulator: Some(Emulator {
                name: "user-mode-linux".to_owned(),
                version: machine.kernel.release.clone().unwrap_or_default(),
                arguments,
            }),
            memory_mib: Some(u64::from(machine.memory_mib)),
            program_sha256: sha256(machine.program)?,
            ..Lab::default()
        })
    }
}
