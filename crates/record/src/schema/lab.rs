//! Lines that only runs in the lab have: the machine that was created for the run, and the crashes of that machine.

use serde::{Deserialize, Serialize};

/// The machine that the lab provided. The `host` line describes it as the system inside saw it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Lab {
    /// `exact`, `tcg`, `kvm`, `uml`, `gvisor`, `native`, `netns` …
    pub platform: String,
    /// The kernel that was started; none if it is the host's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<Kernel>,
    /// The kernel's command line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub command_line: String,
    /// The emulator, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulator: Option<Emulator>,
    /// The processor model of the machine, with the features that were disabled.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub processor: String,
    /// Memory of the machine in MiB; none if it is the host's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u64>,
    /// SHA-256 of the program that measured, in hexadecimal digits. Equal checksums mean the same code.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub program_sha256: String,
}

/// A kernel.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Kernel {
    /// The name that the user typed, `debian:6.12`, or its release.
    pub name: String,
    /// The file that was started.
    pub file: String,
    /// The file's SHA-256 in hexadecimal digits.
    pub sha256: String,
    /// Its origin: a package with its version, or the file that the user named.
    pub origin: String,
}

/// The emulator that provided the machine.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Emulator {
    /// `qemu-system-x86_64`.
    pub name: String,
    /// Its version as it prints it.
    pub version: String,
    /// Its arguments.
    pub arguments: Vec<String>,
}

/// How a machine of the lab stopped unexpectedly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CrashKind {
    /// The kernel panicked.
    Panic,
    /// The machine sent nothing for longer than the timeout.
    Hang,
    /// The machine, or the program in it, ended without a message.
    Exit,
    /// The kernel killed the program because memory was exhausted.
    OutOfMemory,
    /// The emulator failed.
    Emulator,
    /// A kind that this version does not know.
    #[serde(other)]
    Other,
}

/// An unexpected stop of the machine, which is a result. The record contains the samples that were taken before it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Crash {
    /// The pass that was running; none if the machine stopped between passes or before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pass: Option<u32>,
    /// How it stopped.
    pub crash: CrashKind,
    /// The last n with a sample; none if there is no sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_n: Option<u64>,
    /// The console's last lines, oldest first.
    pub console: Vec<String>,
    /// How many times the machine was started to reproduce the crash, including the first.
    pub boots: u32,
    /// Whether it stopped at the same n each time; none after a single boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_place: Option<bool>,
    /// The last n of each boot, in order, if known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub every_last_n: Vec<u64>,
    /// What happened, in a sentence without its full stop.
    pub meaning: String,
}
