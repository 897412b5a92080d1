//! The emulator's words: a machine on which the same program does the same things in the same number of instructions.

use crate::error::Error;
use std::path::Path;
use std::process::Command;

/// The program.
pub const PROGRAM: &str = "qemu-system-x86_64";

/// How the emulator runs the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accelerator {
    /// Emulation with a counted instruction as the unit of time; everything that is not repeatable switched off.
    Exact,
    /// Emulation against the host's clock.
    Tcg,
    /// The host's processor itself.
    Kvm,
}

/// What a machine is made of.
#[derive(Debug, Clone)]
pub struct Machine<'a> {
    /// How it runs.
    pub accelerator: Accelerator,
    /// The kernel's image.
    pub kernel: &'a Path,
    /// The initramfs.
    pub initramfs: &'a Path,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Further words for the kernel.
    pub append: &'a str,
}

impl Machine<'_> {
    /// The words that the kernel is started with.
    pub fn kernel_words(&self) -> String {
        let mut words = format!("console=ttyS0 panic=-1 rdinit=/init {}=1", crate::job::VARIABLE);
        if self.accelerator == Accelerator::Exact {
            // Where the kernel lies in memory is drawn at its start, and moves with it what shares a cache line.
            words.push_str(" nokaslr random.trust_cpu=off");
        }
        if !self.append.is_empty() {
            words.push(' ');
            words.push_str(self.append);
        }
        words
    }

    /// The emulator's arguments.
    pub fn arguments(&self) -> Vec<String> {
        let mut words: Vec<String> = ["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-smp", "1"]
            .iter()
            .map(ToString::to_string)
            .collect();
        words.extend(["-M", "pc", "-serial", "stdio", "-m", &self.memory_mib.to_string()].map(str::to_owned));
        let own: &[&str] = match self.accelerator {
            Accelerator::Exact => &[
                "-accel",
                "tcg",
                // The host's random numbers are no part of a repeatable run; a string instruction would count once
                // for each of its repetitions.
                "-cpu",
                "max,rdrand=off,rdseed=off,erms=off,fsrm=off",
                "-icount",
                "shift=0,sleep=off",
                "-rtc",
                "base=2026-01-01T00:00:00,clock=vm",
            ],
            Accelerator::Tcg => &["-accel", "tcg", "-cpu", "max"],
            Accelerator::Kvm => &["-accel", "kvm", "-cpu", "host"],
        };
        words.extend(own.iter().map(ToString::to_string));
        words.extend(["-kernel".to_owned(), self.kernel.display().to_string()]);
        words.extend(["-initrd".to_owned(), self.initramfs.display().to_string()]);
        words.extend(["-append".to_owned(), self.kernel_words()]);
        words
    }

    /// The command that starts it.
    pub fn command(&self) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(self.arguments());
        command
    }
}

/// The emulator's version, as it says itself.
pub fn version() -> Result<String, Error> {
    let missing = |reason: String| Error::Engine {
        engine: "exact".to_owned(),
        reason: format!("{PROGRAM} {reason}; install it (Debian: qemu-system-x86, Fedora: qemu-system-x86-core)"),
    };
    let said = Command::new(PROGRAM).arg("--version").output().map_err(|error| missing(error.to_string()))?;
    let text = String::from_utf8_lossy(&said.stdout).lines().next().unwrap_or_default().to_owned();
    if said.status.success() { Ok(text) } else { Err(missing("does not tell its version".to_owned())) }
}
