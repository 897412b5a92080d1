//! What only a run in the lab knows: the machine that was made for it, and how that machine came to a stop.

use serde::{Deserialize, Serialize};

/// The machine that the lab made for a run. The `host` line says what the system inside saw of it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Lab {
    /// `exact`, `tcg`, `kvm`, `uml`, `gvisor`, `native`, `netns` …
    pub platform: String,
    /// The kernel that was started; none where it is the host's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<Kernel>,
    /// The kernel's command line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub command_line: String,
    /// The emulator; none where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulator: Option<Emulator>,
    /// The processor model that the system was given, with what of it was switched off.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub processor: String,
    /// Memory of the machine in MiB; none where it is the host's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u64>,
    /// SHA-256 of the program that measured, in hexadecimal digits: equal ones ran the same code.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub program_sha256: String,
}

/// A kernel as the lab found it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Kernel {
    /// What the user called it, `debian:6.12`, or what it calls itself.
    pub name: String,
    /// The file that was started.
    pub file: String,
    /// The file's SHA-256 in hexadecimal digits.
    pub sha256: String,
    /// Where it came from: a package with its version, or the file that the user gave.
    pub origin: String,
}

/// The program that stood in for a machine.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Emulator {
    /// `qemu-system-x86_64`.
    pub name: String,
    /// Its version as it states it.
    pub version: String,
    /// The words that it was started with.
    pub arguments: Vec<String>,
}

/// How a machine of the lab came to a stop before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CrashKind {
    /// The kernel panicked.
    Panic,
    /// Nothing was heard of it for longer than allowed.
    Hang,
    /// The machine, or the program in it, ended without a word.
    Exit,
    /// The kernel ended the program for want of memory.
    OutOfMemory,
    /// The emulator failed.
    Emulator,
    /// A kind that this version does not know.
    #[serde(other)]
    Other,
}

/// A machine that came to a stop: a result. What was measured up to there stands in the record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Crash {
    /// The pass that was under way; none where the machine stopped before or between passes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pass: Option<u32>,
    /// How it stopped.
    pub crash: CrashKind,
    /// The last n of which a sample is held; none where there is not one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_n: Option<u64>,
    /// The console's last lines, oldest first.
    pub console: Vec<String>,
    /// How often the machine was started to see it again, the first time included.
    pub boots: u32,
    /// Whether it stopped at the same place each time; none after a single boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_place: Option<bool>,
    /// The last n of each boot, in their order, as far as known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub every_last_n: Vec<u64>,
    /// What happened, in a sentence without its full stop.
    pub meaning: String,
}
