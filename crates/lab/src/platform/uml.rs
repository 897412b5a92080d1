//! User-mode Linux: the kernel is a program of the host, and boots like any other.
//!
//! Each system call of its processes is caught by the host's kernel and costs many times what the call itself costs.
//! So it shows whether something works, and never how long it takes.

use super::{Machine, Platform};
use crate::error::Error;
use crate::job::VARIABLE;
use crate::kernel::sha256;
use crate::machine::Start;
use landau_record::schema::{Emulator, Lab};
use std::process::Command;

/// The line to the host: the first terminal, which is the program's standard input and output.
pub(super) const LINE: &str = "/dev/tty0";

fn arguments(machine: &Machine) -> Vec<String> {
    let mut words = vec![format!("mem={}M", machine.memory_mib), format!("initrd={}", machine.initramfs.display())];
    // Its own files, memory above all, go where ours go, and nowhere else.
    words.push(format!("uml_dir={}", machine.folder.display()));
    words.extend("con=null con0=fd:0,fd:1 ssl=null panic=-1 rdinit=/init".split(' ').map(str::to_owned));
    words.push(format!("{VARIABLE}=1"));
    words.extend(machine.append.split_whitespace().map(str::to_owned));
    words
}

pub(super) fn start(machine: &Machine) -> Start {
    let mut command = Command::new(&machine.kernel.image);
    command.args(arguments(machine)).env("TMPDIR", machine.folder);
    // Its terminal's input must not end while it runs.
    Start { input: Some(Vec::new()), ..Start::machine(command) }
}

/// The kernel is the program: nothing else is needed.
#[allow(clippy::unnecessary_wraps, reason = "the platforms' checks have one form")]
pub(super) fn check() -> Result<String, Error> {
    Ok("needs nothing but the kernel: --kernel FILE, such as linux.uml of Debian's user-mode-linux".to_owned())
}

pub(super) fn describe(machine: &Machine) -> Result<Lab, Error> {
    let arguments = arguments(machine);
    Ok(Lab {
        platform: Platform::Uml.name().to_owned(),
        kernel: Some(super::as_recorded(machine.kernel)),
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
