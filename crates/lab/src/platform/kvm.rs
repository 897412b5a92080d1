//! `kvm`: qemu on the host's processor, with hardware virtualisation.

use super::Platform;
use crate::error::Error;
use crate::job::Job;
use crate::kernel::Kind;
use crate::launch::Launch;
use crate::machine::Machine;
use crate::qemu::{self, Qemu};
use landau_record::schema::{Lab, Unit};
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::Path;

/// See the module.
#[derive(Debug)]
pub(super) struct Kvm;

/// The device of the hypervisor.
const DEVICE: &str = "/dev/kvm";
const QEMU: Qemu = Qemu { platform: "kvm", accelerator: "kvm", processor: "host", counts: false };

impl Platform for Kvm {
    fn name(&self) -> &'static str {
        QEMU.platform
    }

    fn about(&self) -> &'static str {
        "a kernel on this processor under a hypervisor; times include VM exits"
    }

    fn unit(&self) -> Unit {
        Unit::Ns
    }

    fn runs(&self, kind: &Kind) -> bool {
        qemu::runs(kind)
    }

    fn preference(&self) -> u8 {
        2
    }

    fn unproven_device(&self) -> Option<&'static str> {
        Some(DEVICE)
    }

    fn check(&self, _program: &Path) -> Result<String, Error> {
        let version = qemu::version(self.name())?;
        match OpenOptions::new().read(true).write(true).open(DEVICE) {
            Ok(_) => Ok(version),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(Error::unusable(
                self.name(),
                format!(
                    "{DEVICE} does not exist: this machine has no hardware virtualisation, or it is disabled (load the \
                     module kvm_intel or kvm_amd; in a virtual machine, allow nested virtualisation)"
                ),
            )),
            Err(error) => {
                let reason = format!("cannot open {DEVICE}: {error}; members of the group `kvm` can");
                Err(Error::unusable(self.name(), reason))
            }
        }
    }

    fn launch(&self, machine: &Machine, job: &Job) -> Result<Launch, Error> {
        QEMU.launch(machine, job)
    }

    fn describe(&self, machine: &Machine) -> Result<Lab, Error> {
        QEMU.describe(machine)
    }
}
