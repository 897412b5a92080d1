//! The description of a machine for a platform: kernel, program, memory, and how to log in.

use crate::kernel::{Kernel, Kind};
use std::path::Path;

/// How to log in on the console of a disk image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// The user.
    pub user: String,
    /// The password, if the system asks for one.
    pub password: Option<String>,
    /// The ends of the shell's prompt, any of these.
    pub prompts: Vec<String>,
}

impl Default for Login {
    fn default() -> Self {
        let prompts = ["#", "$", "%", ">"].map(str::to_owned).into();
        Self { user: "root".to_owned(), password: None, prompts }
    }
}

/// A machine to start.
#[derive(Debug, Clone)]
pub struct Machine<'a> {
    /// The kernel.
    pub kernel: &'a Kernel,
    /// The initramfs, for platforms that need one.
    pub initramfs: &'a Path,
    /// The program that measures, usually the running one.
    pub program: &'a Path,
    /// A directory for files that are needed only while the machine runs.
    pub folder: &'a Path,
    /// How to log in on a disk image.
    pub login: &'a Login,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Additional arguments for the kernel's command line.
    pub append: &'a str,
    /// Additional arguments for the emulator.
    pub emulator_arguments: &'a [String],
}

impl Machine<'_> {
    /// Returns whether it boots a disk image instead of a kernel.
    pub(crate) fn boots_disk(&self) -> bool {
        matches!(self.kernel.kind, Kind::DiskImage(_))
    }
}
