//! The platforms that run kernels, one file each. The part between the markers is generated: `cargo xtask registry`.
//!
//! A platform turns a machine and a job into a [`Launch`]. The launched process writes the record's lines to its
//! standard output. To add a platform, add a file with a type that implements [`Platform`], and run `cargo xtask
//! registry`.

use crate::error::Error;
use crate::job::Job;
use crate::kernel::{Kernel, Kind};
use crate::launch::{Ending, Launch};
use crate::machine::Machine;
use landau_record::schema::{Lab, Unit};
use std::fmt::Debug;
use std::path::Path;

// registry:begin
mod exact;
mod gvisor;
mod kvm;
mod native;
mod netns;
mod noaslr;
mod ssh;
mod tcg;
mod uml;
mod vng;

/// Every platform, by name.
pub static REGISTRY: &[&dyn Platform] = &[
    &exact::Exact,
    &gvisor::Gvisor,
    &kvm::Kvm,
    &native::Native,
    &netns::Netns,
    &noaslr::NoAslr,
    &ssh::Ssh,
    &tcg::Tcg,
    &uml::Uml,
    &vng::Vng,
];
// registry:end

/// Something that runs kernels. The provided methods suit a virtual machine that boots the kernel itself.
pub trait Platform: Debug + Sync {
    /// Returns the name, as `--platform` takes it.
    fn name(&self) -> &'static str;

    /// Returns a description in one line: what the platform runs, and what its samples mean.
    fn about(&self) -> &'static str;

    /// Returns the unit of its samples.
    fn unit(&self) -> Unit;

    /// Returns whether it can run a kernel of this kind.
    fn runs(&self, kind: &Kind) -> bool;

    /// Returns the rank of this platform for `--platform auto`, which takes the highest among the platforms that can
    /// run the kernel; 0: never taken.
    fn preference(&self) -> u8 {
        0
    }

    /// Returns whether it boots a kernel instead of using a running one.
    fn boots(&self) -> bool {
        !self.runs(&Kind::Running) && !self.runs(&Kind::Remote)
    }

    /// Returns whether the guest is the first process of an initramfs.
    fn needs_initramfs(&self, machine: &Machine) -> bool {
        !machine.boots_disk()
    }

    /// Returns how long the guest waits before it measures, in seconds of its own clock, so that the kernel can finish
    /// the work of its start.
    fn settle_s(&self) -> u64 {
        3
    }

    /// Adapts the job to this platform.
    fn adapt(&self, _job: &mut Job, _machine: &Machine) {}

    /// Refuses a job that the platform cannot run, before anything is started.
    fn check_job(&self, _job: &Job) -> Result<(), Error> {
        Ok(())
    }

    /// Checks that the platform can be used on this host, without booting anything. Returns the version of the software
    /// that it uses.
    fn check(&self, program: &Path) -> Result<String, Error>;

    /// Returns a device, such as `/dev/kvm`, that only a test boot can show to work (see [`probe`](crate::probe)).
    fn unproven_device(&self) -> Option<&'static str> {
        None
    }

    /// Returns how to start the guest.
    fn launch(&self, machine: &Machine, job: &Job) -> Result<Launch, Error>;

    /// Returns the machine as the record describes it.
    fn describe(&self, machine: &Machine) -> Result<Lab, Error>;

    /// Returns advice for the user about a guest that ended before it measured anything.
    fn advice(&self, ending: &Ending) -> &'static str {
        match ending {
            Ending::Exited(output) if output == "exit status: 0" => {
                "the machine rebooted, as it does when the kernel fails before its console works; try more --memory"
            }
            Ending::Exited(_) => "the emulator failed; see its output",
            Ending::NeverUp | Ending::Silent | Ending::Overtime => {
                "check that the kernel is built for this machine, with a serial console (CONFIG_SERIAL_8250_CONSOLE) \
                 and initramfs support (CONFIG_BLK_DEV_INITRD); a longer --stall-timeout waits longer, --append \
                 extends the kernel's command line"
            }
            _ => "try more --memory; --append extends the kernel's command line",
        }
    }
}

impl dyn Platform {
    /// Returns the platform for `kernel` in a run for which the user chose this platform: this one if it can run the
    /// kernel, otherwise the first that can. A remote kernel always runs on its own machine.
    pub(crate) fn for_kernel(&'static self, kernel: &Kernel) -> &'static dyn Platform {
        let other = || REGISTRY.iter().copied().find(|one| one.runs(&kernel.kind));
        if self.runs(&kernel.kind) { self } else { other().unwrap_or(self) }
    }
}

impl dyn Platform + '_ {
    /// Refuses a kernel of a kind that the platform cannot run.
    pub fn check_kind(&self, kernel: &Kernel) -> Result<(), Error> {
        if self.runs(&kernel.kind) {
            return Ok(());
        }
        let is = match kernel.kind {
            Kind::Uml => "user-mode Linux",
            Kind::DiskImage(_) => "a disk image",
            Kind::Running => "the running kernel",
            Kind::Remote => "the kernel of another machine",
            _ => "a kernel to boot",
        };
        let (name, names, origin) = (self.name(), names_for(&kernel.kind), &kernel.origin);
        Err(Error::Guest(format!("the platform `{name}` cannot run {origin} ({is}); use --platform {names}")))
    }
}

impl PartialEq for dyn Platform {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

/// Returns the platform of that name.
pub fn named(name: &str) -> Option<&'static dyn Platform> {
    REGISTRY.iter().copied().find(|one| one.name() == name)
}

/// Returns the platform that boots kernels and measures in this unit: the one with the highest rank, if there are
/// several.
pub fn for_unit(unit: Unit) -> Option<&'static dyn Platform> {
    let fitting = REGISTRY.iter().copied().filter(|one| one.boots() && one.unit() == unit && one.preference() > 0);
    fitting.max_by_key(|one| one.preference())
}

/// Returns the names of the platforms that can run a kernel of this kind: "exact, kvm or tcg".
pub fn names_for(kind: &Kind) -> String {
    let names: Vec<&str> = REGISTRY.iter().filter(|one| one.runs(kind)).map(|one| one.name()).collect();
    match names.as_slice() {
        [] => "none".to_owned(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// Refuses every sysctl, for platforms whose kernel other processes use too.
fn refuse_sysctls(name: &str, job: &Job) -> Result<(), Error> {
    match job.sysctls.keys().next() {
        None => Ok(()),
        Some(sysctl) => Err(Error::unusable(
            name,
            format!(
                "it would set {sysctl} on a system that others use; --platform netns sets a network's sysctls, \
                 --platform exact or kvm sets any sysctl in a guest"
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for platform in REGISTRY {
            assert_eq!(named(platform.name()).map(<dyn Platform>::name), Some(platform.name()));
            assert_eq!(REGISTRY.iter().filter(|other| other.name() == platform.name()).count(), 1);
        }
    }

    #[test]
    fn a_unit_selects_a_platform_that_boots() {
        assert_eq!(for_unit(Unit::Instructions).map(<dyn Platform>::name), Some("exact"));
        assert_eq!(for_unit(Unit::Ns).map(<dyn Platform>::name), Some("kvm"));
        assert!(names_for(&Kind::BzImage).starts_with("exact, kvm"), "{}", names_for(&Kind::BzImage));
        assert_eq!(names_for(&Kind::Other(String::new())), "none");
    }
}
