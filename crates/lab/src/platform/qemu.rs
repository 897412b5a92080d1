//! The emulator: a machine on which the same program does the same things in the same number of instructions; or, with
//! other words, a hypervisor's.

use super::{Machine, Platform, disk};
use crate::error::Error;
use crate::job::VARIABLE;
use crate::kernel::sha256;
use crate::machine::Start;
use landau_record::schema::{Emulator, Lab};
use std::process::Command;

/// The program.
pub const PROGRAM: &str = "qemu-system-x86_64";

/// The words that the kernel is started with.
fn kernel_words(platform: Platform, machine: &Machine) -> String {
    let mut words = format!("console=ttyS0 panic=-1 rdinit=/init {VARIABLE}=1");
    if platform.is_exact() {
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
fn processor(platform: Platform) -> &'static str {
    match platform {
        // The host's random numbers are no part of a repeatable run; a string instruction would count once for each
        // of its repetitions.
        Platform::Exact => "max,rdrand=off,rdseed=off,erms=off,fsrm=off",
        Platform::Kvm => "host",
        _ => "max",
    }
}

/// The words for a machine without kernel, disk and memory.
pub(super) fn bare_arguments(platform: Platform) -> Vec<String> {
    let mut words = "-nodefaults -no-user-config -no-reboot -display none -smp 1 -M pc -serial stdio -monitor none"
        .split(' ')
        .map(str::to_owned)
        .collect::<Vec<_>>();
    let accelerator = if platform == Platform::Kvm { "kvm" } else { "tcg" };
    words.extend(["-accel", accelerator, "-cpu", processor(platform)].map(str::to_owned));
    words
}

fn arguments(platform: Platform, machine: &Machine) -> Vec<String> {
    if disk::is_one(machine) {
        return disk::arguments(platform, machine);
    }
    let mut words = bare_arguments(platform);
    if platform.is_exact() {
        words.extend("-icount shift=0,sleep=off -rtc base=2026-01-01T00:00:00,clock=vm".split(' ').map(str::to_owned));
    }
    words.extend(["-m".to_owned(), machine.memory_mib.to_string()]);
    words.extend(["-kernel".to_owned(), machine.kernel.image.display().to_string()]);
    words.extend(["-initrd".to_owned(), machine.initramfs.display().to_string()]);
    words.extend(["-append".to_owned(), kernel_words(platform, machine)]);
    words.extend(machine.extra.iter().cloned());
    words
}

/// The command that starts a machine.
pub(super) fn start(platform: Platform, machine: &Machine) -> Start {
    let mut command = Command::new(PROGRAM);
    command.args(arguments(platform, machine));
    Start::machine(command)
}

/// The machine as a record tells it.
pub(super) fn describe(platform: Platform, machine: &Machine) -> Result<Lab, Error> {
    Ok(Lab {
        platform: platform.name().to_owned(),
        kernel: Some(super::as_recorded(machine.kernel)),
        // A whole system has its own.
        command_line: if disk::is_one(machine) { String::new() } else { kernel_words(platform, machine) },
        emulator: Some(Emulator {
            name: PROGRAM.to_owned(),
            version: version()?,
            arguments: arguments(platform, machine),
        }),
        processor: processor(platform).to_owned(),
        memory_mib: Some(u64::from(machine.memory_mib)),
        program_sha256: sha256(machine.program)?,
    })
}

/// The emulator's version, as it says itself.
pub fn version() -> Result<String, Error> {
    let missing = |reason: String| Error::Platform {
        platform: "exact".to_owned(),
        reason: format!("{PROGRAM}: {reason}; install it (Debian: qemu-system-x86, Fedora: qemu-system-x86-core)"),
    };
    let said = Command::new(PROGRAM).arg("--version").output().map_err(|error| missing(error.to_string()))?;
    let text = String::from_utf8_lossy(&said.stdout).lines().next().unwrap_or_default().to_owned();
    if said.status.success() { Ok(text) } else { Err(missing("it does not tell its version".to_owned())) }
}
