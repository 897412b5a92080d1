//! What runs a kernel: each platform makes, of what is to be measured, a [`Start`] whose standard output is the guest's
//! line to the host. One file a platform.

pub mod disk;
pub mod gvisor;
pub mod native;
pub mod netns;
pub mod probe;
pub mod qemu;
pub mod ssh;
pub mod uml;
pub mod vng;

use crate::error::Error;
use crate::job::Job;
use crate::kernel::Kernel;
use crate::machine::{Ending, Start};
pub use disk::Terminal;
use landau_record::schema::{Lab, Unit};
use std::path::Path;

/// What runs a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Platform {
    /// The kernel that runs already.
    Native,
    /// The kernel that runs already, in a network of its own.
    Netns,
    /// The host's processor under a hypervisor.
    Kvm,
    /// An emulator that counts instructions and repeats itself to the last of them.
    Exact,
    /// An emulator against the host's clock: no timing of anything.
    Tcg,
    /// virtme-ng: the user's own way to boot a kernel.
    Vng,
    /// A kernel that is a program: no timing of anything.
    Uml,
    /// A sandbox's own kernel.
    Gvisor,
    /// Whatever runs at the other end of ssh.
    Ssh,
}

/// Every platform.
pub const ALL: &[Platform] = &[
    Platform::Native,
    Platform::Netns,
    Platform::Kvm,
    Platform::Exact,
    Platform::Tcg,
    Platform::Vng,
    Platform::Uml,
    Platform::Gvisor,
    Platform::Ssh,
];

/// What a machine is made of.
#[derive(Debug, Clone)]
pub struct Machine<'a> {
    /// The kernel.
    pub kernel: &'a Kernel,
    /// The initramfs, where the platform wants one.
    pub initramfs: &'a Path,
    /// The program that measures: this one.
    pub program: &'a Path,
    /// A folder for what is needed only while it runs.
    pub folder: &'a Path,
    /// Who logs in where it is a whole system.
    pub terminal: &'a Terminal,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Further words for the kernel.
    pub append: &'a str,
    /// Further words for the emulator.
    pub extra: &'a [String],
}

/// The kernel as a record tells it.
fn as_recorded(kernel: &Kernel) -> landau_record::schema::Kernel {
    landau_record::schema::Kernel {
        name: kernel.name.clone(),
        file: kernel.image.display().to_string(),
        sha256: kernel.sha256.clone(),
        origin: kernel.origin.clone(),
    }
}

impl Platform {
    /// The platform's name.
    pub fn name(self) -> &'static str {
        match self {
            Platform::Native => "native",
            Platform::Netns => "netns",
            Platform::Kvm => "kvm",
            Platform::Exact => "exact",
            Platform::Tcg => "tcg",
            Platform::Vng => "vng",
            Platform::Uml => "uml",
            Platform::Gvisor => "gvisor",
            Platform::Ssh => "ssh",
        }
    }

    /// The platform of that name.
    pub fn named(name: &str) -> Option<Self> {
        ALL.iter().copied().find(|one| one.name() == name)
    }

    /// What it is, and what its figures are not, in a line.
    pub fn about(self) -> &'static str {
        match self {
            Platform::Native => "the kernel that runs already; times are this machine's",
            Platform::Netns => "the same in a network of its own, to try settings of the network",
            Platform::Kvm => "a kernel on this processor under a hypervisor; times include its exits",
            Platform::Exact => "a kernel in an emulator that counts instructions, the same each time; no time at all",
            Platform::Tcg => "a kernel in an emulator; does it work at all? its times mean nothing",
            Platform::Vng => "a kernel started by virtme-ng on this machine's files; its times mean nothing",
            Platform::Uml => "a kernel that is a program (user-mode Linux); its times mean nothing",
            Platform::Gvisor => "gVisor's kernel in user space; times include the interception of each call",
            Platform::Ssh => "another machine, with any system; times are that machine's",
        }
    }

    /// What its samples count.
    pub fn unit(self) -> Unit {
        match self {
            Platform::Exact => Unit::Instructions,
            Platform::Native | Platform::Netns | Platform::Kvm | Platform::Gvisor | Platform::Ssh => Unit::Ns,
            Platform::Tcg | Platform::Uml | Platform::Vng => Unit::EmulatedNs,
        }
    }

    /// Whether two runs of the same thing are the same to the last instruction.
    pub fn is_exact(self) -> bool {
        self == Platform::Exact
    }

    /// Whether it boots a kernel out of a file; else it runs on one that is there already.
    pub fn boots(self) -> bool {
        matches!(self, Platform::Kvm | Platform::Exact | Platform::Tcg | Platform::Vng | Platform::Uml)
    }

    /// Whether its guest is the first process of a system, out of an initramfs of ours.
    pub(crate) fn wants_initramfs(self, machine: &Machine) -> bool {
        matches!(self, Platform::Kvm | Platform::Exact | Platform::Tcg | Platform::Uml) && !disk::is_one(machine)
    }

    /// Seconds of its own time that a guest idles before it measures. Where idling is skipped it costs nothing.
    pub fn settle_s(self) -> u64 {
        match self {
            Platform::Exact => 20,
            Platform::Kvm | Platform::Tcg | Platform::Uml | Platform::Vng => 3,
            Platform::Native | Platform::Netns | Platform::Gvisor | Platform::Ssh => 0,
        }
    }

    /// The job as a guest of this platform gets it.
    pub fn job(self, job: &Job, machine: &Machine) -> Job {
        let mut job = job.clone();
        match self {
            Platform::Native => job.scratch = Some(machine.folder.to_owned()),
            Platform::Netns => (job.scratch, job.own_network) = (Some(machine.folder.to_owned()), true),
            Platform::Uml => job.line = Some(uml::LINE.to_owned()),
            Platform::Kvm | Platform::Exact | Platform::Tcg | Platform::Vng | Platform::Gvisor | Platform::Ssh => {}
        }
        job
    }

    /// Whether it can do what the job asks for, before anything is started.
    pub fn check_job(self, job: &Job) -> Result<(), Error> {
        let refuse = |reason: String| Err(Error::Platform { platform: self.name().to_owned(), reason });
        match (self, job.sysctls.keys().next()) {
            (Platform::Netns, _) => crate::sysctl::check_all(&job.sysctls).or_else(refuse),
            (Platform::Native | Platform::Gvisor | Platform::Ssh | Platform::Vng, Some(name)) => refuse(format!(
                "it would set {name} on a system that is not the lab's own; --platform netns sets what belongs to a \
                 network, --platform exact or kvm anything in a guest of its own"
            )),
            _ => Ok(()),
        }
    }

    /// Whether it can be used here at all, as far as that can be told without booting: what there is of it.
    pub fn check(self, program: &Path) -> Result<String, Error> {
        match self {
            Platform::Native => native::check(),
            Platform::Netns => netns::check(program),
            Platform::Kvm => qemu::version().and_then(|version| probe::device().map(|()| version)),
            Platform::Exact | Platform::Tcg => qemu::version(),
            Platform::Vng => vng::check(),
            Platform::Uml => uml::check(),
            Platform::Gvisor => gvisor::check(program),
            Platform::Ssh => ssh::check(),
        }
    }

    /// How a guest is started.
    pub fn start(self, machine: &Machine, job: &Job) -> Result<Start, Error> {
        match self {
            Platform::Native => native::start(machine, job),
            Platform::Netns => netns::start(machine, job),
            Platform::Kvm | Platform::Exact | Platform::Tcg if disk::is_one(machine) => disk::start(self, machine, job),
            Platform::Kvm | Platform::Exact | Platform::Tcg => Ok(qemu::start(self, machine)),
            Platform::Vng => vng::start(machine, job),
            Platform::Uml => Ok(uml::start(machine)),
            Platform::Gvisor => gvisor::start(machine, job),
            Platform::Ssh => ssh::start(machine, job),
        }
    }

    /// The machine as a record tells it.
    pub fn describe(self, machine: &Machine) -> Result<Lab, Error> {
        match self {
            Platform::Kvm | Platform::Exact | Platform::Tcg => qemu::describe(self, machine),
            Platform::Uml => uml::describe(machine),
            Platform::Vng => vng::describe(machine),
            Platform::Gvisor => gvisor::describe(machine),
            Platform::Ssh => ssh::describe(machine),
            Platform::Native | Platform::Netns => native::describe(self, machine),
        }
    }

    /// What a user can do about a guest that ended before it measured anything.
    pub(crate) fn advice(self, how: &Ending) -> &'static str {
        match (self, how) {
            (Platform::Native | Platform::Netns | Platform::Gvisor, _) => "`landau lab platforms` says what works here",
            (Platform::Ssh, _) => {
                "`ssh` must get there without being asked for anything (BatchMode), and the program must be one for \
                 that system: --program names another"
            }
            (Platform::Vng, _) => "`landau lab platforms` says what virtme-ng needs; its own words say why",
            (_, Ending::Gone(words)) if words == "exit status: 0" => {
                "the machine restarted, as one does whose kernel dies before it can say why: --memory gives it more"
            }
            (_, Ending::Gone(_)) => "the emulator refused; its own words say why",
            (_, Ending::NeverUp | Ending::Silent | Ending::Overtime) => {
                "is it a kernel for this kind of machine, with a serial console (CONFIG_SERIAL_8250_CONSOLE) and an \
                 initramfs (CONFIG_BLK_DEV_INITRD)? --stall-timeout waits longer, --append adds words for the kernel"
            }
            _ => "--memory gives it more, --append adds words for the kernel",
        }
    }
}

/// What a program says of its version: the first line of what it prints.
pub(crate) fn version_of(platform: Platform, program: &str, word: &str, install: &str) -> Result<String, Error> {
    let missing = |reason: String| Error::Platform { platform: platform.name().to_owned(), reason };
    let said = std::process::Command::new(program)
        .arg(word)
        .output()
        .map_err(|error| missing(format!("{program}: {error}; {install}")))?;
    // ssh says it on standard error.
    let text = String::from_utf8_lossy(if said.stdout.is_empty() { &said.stderr } else { &said.stdout }).into_owned();
    let line = text.lines().next().unwrap_or_default().to_owned();
    if said.status.success() { Ok(line) } else { Err(missing(format!("{program} {word}: {line}; {install}"))) }
}
