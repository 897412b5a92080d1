//! The emulator: a machine on which the same program does the same things in the same number of instructions; or, with
//! other words, a hypervisor's.

use super::{Engine, Machine, disk};
use crate::error::Error;
use crate::job::VARIABLE;
use crate::kernel::sha256;
use crate::machine::Start;
use landau_record::schema::{Emulator, Lab};
use std::process::Command;

/// The program.
pub const PROGRAM: &str = "qemu-system-x86_64";

/// The words that the kernel is started with.
fn kernel_words(engine: Engine, machine: &Machine) -> String {
    let mut words = format!("console=ttyS0 panic=-1 rdinit=/init {VARIABLE}=1");
    if engine.is_exact() {
        // Where the kernel lies in memory is drawn at its start, and symbols stand elsewhere each time.
        words.push_str(" nokaslr random.trust_cpu=off");
    }
    if !machine.append.is_empty() {
        words.push(' ');
        words.push_str(machine.append);
    }
    words
}

/// The processor that the guest sees.
fn processor(engine: Engine) -> &'static str {
    match engine {
        // The host's random numbers are no part of a repeatable run; a string instruction would count once for each
        // of its repetitions.
        Engine::Exact => "max,rdrand=off,rdseed=off,erms=off,fsrm=off",
        Engine::Kvm => "host",
        _ => "max",
    }
}

/// The words for a machine without kernel, disk and memory.
pub(super) fn bare_arguments(engine: Engine) -> Vec<String> {
    let mut words = "-nodefaults -no-user-config -no-reboot -display none -smp 1 -M pc -serial stdio -monitor none"
        .split(' ')
        .map(str::to_owned)
        .collect::<Vec<_>>();
    let accelerator = if engine == Engine::Kvm { "kvm" } else { "tcg" };
    words.extend(["-accel", accelerator, "-cpu", processor(engine)].map(str::to_owned));
    words
}

fn arguments(engine: Engine, machine: &Machine) -> Vec<String> {
    if disk::is_one(machine) {
        return disk::arguments(engine, machine);
    }
    let mut words = bare_arguments(engine);
    if engine.is_exact() {
        words.extend("-icount shift=0,sleep=off -rtc base=2026-01-01T00:00:00,clock=vm".split(' ').map(str::to_owned));
    }
    words.extend(["-m".to_owned(), machine.memory_mib.to_string()]);
    words.extend(["-kernel".to_owned(), machine.kernel.image.display().to_string()]);
    words.extend(["-initrd".to_owned(), machine.initramfs.display().to_string()]);
    words.extend(["-append".to_owned(), kernel_words(engine, machine)]);
    words.extend(machine.extra.iter().cloned());
    words
}

/// The command that starts a machine.
pub(super) fn start(engine: Engine, machine: &Machine) -> Start {
    let mut command = Command::new(PROGRAM);
    command.args(arguments(engine, machine));
    Start::machine(command)
}

/// The machine as a record tells it.
pub(super) fn describe(engine: Engine, machine: &Machine) -> Result<Lab, Error> {
    Ok(Lab {
        engine: engine.name().to_owned(),
        kernel: Some(super::as_recorded(machine.kernel)),
        // A whole system has its own.
        command_line: if disk::is_one(machine) { String::new() } else { kernel_words(engine, machine) },
        emulator: Some(Emulator {
            name: PROGRAM.to_owned(),
            version: version()?,
            arguments: arguments(engine, machine),
        }),
        processor: processor(engine).to_owned(),
        memory_mib: Some(u64::from(machine.memory_mib)),
        program_sha256: sha256(machine.program)?,
    })
}

/// The emulator's version, as it says itself.
pub fn version() -> Result<String, Error> {
    let missing = |reason: String| Error::Engine {
        engine: "exact".to_owned(),
        reason: format!("{PROGRAM}: {reason}; install it (Debian: qemu-system-x86, Fedora: qemu-system-x86-core)"),
    };
    let said = Command::new(PROGRAM).arg("--version").output().map_err(|error| missing(error.to_string()))?;
    let text = String::from_utf8_lossy(&said.stdout).lines().next().unwrap_or_default().to_owned();
    if said.status.success() { Ok(text) } else { Err(missing("it does not tell its version".to_owned())) }
}
