//! qemu as a platform: an emulator or a hypervisor, which boots a kernel or a disk image.

mod disk;
mod kernel;

use crate::error::Error;
use crate::job::Job;
use crate::kernel::Kind;
use crate::launch::Launch;
use crate::machine::Machine;
use crate::tool::version_of;
use crate::unpacked::sha256;
use landau_record::schema::{Emulator, Lab};

/// qemu's program.
const PROGRAM: &str = "qemu-system-x86_64";

/// A way to use qemu.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Qemu {
    /// The platform's name.
    pub(crate) platform: &'static str,
    /// The accelerator, which executes the guest's instructions: `kvm` or `tcg`.
    pub(crate) accelerator: &'static str,
    /// The processor that the guest sees.
    pub(crate) processor: &'static str,
    /// Whether the guest's clock counts instructions.
    pub(crate) counts: bool,
}

/// Returns whether qemu can run a kernel of this kind.
pub(crate) fn runs(kind: &Kind) -> bool {
    kind.is_bootable() || matches!(kind, Kind::DiskImage(_))
}

impl Qemu {
    /// Returns the arguments for a machine without kernel, disk and memory.
    fn base_arguments(&self) -> Vec<String> {
        let fixed = "-nodefaults -no-user-config -no-reboot -display none -smp 1 -M pc -serial stdio -monitor none";
        let mut all: Vec<String> = fixed.split(' ').map(str::to_owned).collect();
        all.extend(["-accel", self.accelerator, "-cpu", self.processor].map(str::to_owned));
        all
    }

    fn arguments(&self, machine: &Machine) -> Vec<String> {
        let mut all = self.base_arguments();
        if machine.boots_disk() {
            all.extend(disk::arguments(machine, self.counts));
        } else {
            all.extend(kernel::arguments(machine, self.counts));
        }
        all
    }

    /// Returns how to start a machine.
    pub(crate) fn launch(&self, machine: &Machine, job: &Job) -> Result<Launch, Error> {
        let mut command = std::process::Command::new(PROGRAM);
        command.args(self.arguments(machine));
        if machine.boots_disk() { disk::launch(command, machine, job) } else { Ok(Launch::machine(command)) }
    }

    /// Returns the machine as the record describes it.
    pub(crate) fn describe(&self, machine: &Machine) -> Result<Lab, Error> {
        let emulator =
            Emulator { name: PROGRAM.to_owned(), version: version(self.platform)?, arguments: self.arguments(machine) };
        // A disk image has its own command line.
        let command_line =
            if machine.boots_disk() { String::new() } else { kernel::command_line(machine, self.counts) };
        Ok(Lab {
            platform: self.platform.to_owned(),
            kernel: Some(machine.kernel.to_record()),
            command_line,
            emulator: Some(emulator),
            processor: self.processor.to_owned(),
            memory_mib: Some(u64::from(machine.memory_mib)),
            program_sha256: sha256(machine.program)?,
        })
    }
}

/// Returns qemu's version as it prints it; `platform` is named in the error.
pub(crate) fn version(platform: &str) -> Result<String, Error> {
    version_of(platform, PROGRAM, "--version", "install qemu (Debian: qemu-system-x86, Fedora: qemu-system-x86-core)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Disk, Kernel};
    use crate::machine::Login;
    use std::path::Path;

    const KVM: Qemu = Qemu { platform: "kvm", accelerator: "kvm", processor: "host", counts: false };
    const EXACT: Qemu = Qemu { platform: "exact", accelerator: "tcg", processor: "max", counts: true };

    fn arguments(qemu: &Qemu, kind: Kind) -> String {
        let kernel = Kernel::without_file("k".to_owned(), kind, String::new());
        let machine = Machine {
            kernel: &kernel,
            initramfs: Path::new("/i"),
            program: Path::new("/p"),
            folder: Path::new("/a,b"),
            login: &Login::default(),
            memory_mib: 512,
            append: "quiet",
            emulator_arguments: &["-plugin".to_owned()],
        };
        qemu.arguments(&machine).join(" ")
    }

    #[test]
    fn only_counting_fixes_clock_and_addresses() {
        let counted = arguments(&EXACT, Kind::BzImage);
        // Without `rr=record` the guest's clock depends on which thread of qemu the host delays.
        let clock = "-icount shift=0,sleep=off,rr=record,rrfile=/dev/null -rtc base=2026-01-01T00:00:00,clock=vm";
        assert!(counted.contains(clock) && counted.contains(" nokaslr "), "{counted}");
        assert!(counted.ends_with("quiet -plugin"), "{counted}");
        let timed = arguments(&KVM, Kind::BzImage);
        assert!(timed.contains("-accel kvm -cpu host") && !timed.contains("icount"), "{timed}");
        assert!(!timed.contains("nokaslr"), "{timed}");
    }

    #[test]
    fn a_disk_is_never_written_to() {
        let all = arguments(&KVM, Kind::DiskImage(Disk::Qcow2));
        assert!(all.contains("format=qcow2,if=virtio,snapshot=on"), "{all}");
        assert!(all.contains("file=/a,,b/landau.tar,format=raw,if=virtio,readonly=on"), "{all}");
        assert!(!all.contains("-kernel"), "{all}");
    }
}
