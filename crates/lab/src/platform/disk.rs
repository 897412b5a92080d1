//! A whole system on a disk that the user has: Linux or not, as long as it has a console on its serial line.
//!
//! It boots as it would elsewhere, from a disk that is never written to. A second disk holds a tar archive of the
//! program and its job; somebody logs in on the console, unpacks it and starts the guest: we type that.

use super::{Machine, Platform, qemu};
use crate::console::{Script, Step};
use crate::error::{Error, io};
use crate::guest::child;
use crate::image::{Disk, Kind};
use crate::job::Job;
use crate::machine::Start;
use std::fs::File;
use std::path::Path;
use std::process::Command;

/// Who logs in on the console, and how its shell asks for words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terminal {
    /// The user.
    pub user: String,
    /// The password, where one is asked for.
    pub password: Option<String>,
    /// What the shell's prompt ends with, any of these.
    pub prompts: Vec<String>,
}

impl Default for Terminal {
    fn default() -> Self {
        let prompts = ["#", "$", "%", ">"].map(str::to_owned).into();
        Self { user: "root".to_owned(), password: None, prompts }
    }
}

/// The names that the second disk has on one system or another, below `/dev`: Linux, FreeBSD, OpenBSD, NetBSD, illumos.
const SECOND_DISK: &str = "vdb sdb vtbd1 ada1 da1 rsd1c rwd1c rld1d rwd1d rsd1d rdsk/c*t1d0p0 rdsk/c*d1p0";

/// The archive's length is a multiple of this: some systems read disks in large blocks only.
const BLOCK_BYTES: u64 = 1 << 20;

/// What the second disk holds.
const ARCHIVE: &str = "landau.tar";

/// Whether the machine is a whole system and not a kernel.
pub(super) fn is_one(machine: &Machine) -> bool {
    matches!(machine.kernel.kind, Kind::DiskImage(_))
}

/// The conversation that leads from a boot to a guest. The shell's prompt is replaced by one that nothing else writes,
/// and spelt so that the echo of its setting is none.
fn steps(terminal: &Terminal) -> Vec<Step> {
    let step = |wait_for: &[String], answer: &str| Step { wait_for: wait_for.to_vec(), answer: answer.to_owned() };
    let word = |text: &str| vec![text.to_owned()];
    let mut steps = vec![step(&word("login:"), &terminal.user)];
    if let Some(password) = &terminal.password {
        steps.push(step(&["assword:".to_owned(), "assword for".to_owned()], password));
    }
    steps.push(step(&terminal.prompts, "exec sh"));
    steps.push(step(&terminal.prompts, "PS1='LANDAU''-READY '"));
    let ready = word("LANDAU-READY");
    steps.push(step(&ready, "cd /tmp"));
    steps.push(step(&ready, &format!("try='{SECOND_DISK}'")));
    steps.push(step(&ready, "for d in $try; do tar xf /dev/$d 2>/dev/null; test -f landau && break; done"));
    steps.push(step(&ready, &format!("exec ./landau {} job.json", child::ARGUMENT)));
    steps
}

/// The emulator's words.
pub(super) fn arguments(platform: Platform, machine: &Machine) -> Vec<String> {
    let format = if machine.kernel.kind == Kind::DiskImage(Disk::Qcow2) { "qcow2" } else { "raw" };
    // A comma in a file's name is written twice.
    let file = |path: &Path| path.display().to_string().replace(',', ",,");
    let mut words = qemu::bare_arguments(platform);
    if platform.is_exact() {
        // Whoever types takes his time: with `sleep=off` the clock would leap ahead until the login is given up.
        words.extend("-icount shift=0,sleep=on -rtc base=2026-01-01T00:00:00,clock=vm".split(' ').map(str::to_owned));
    }
    words.extend(["-m".to_owned(), machine.memory_mib.to_string()]);
    let first = format!("file={},format={format},if=virtio,snapshot=on", file(&machine.kernel.image));
    let archive = machine.folder.join(ARCHIVE);
    let second = format!("file={},format=raw,if=virtio,readonly=on", file(&archive));
    words.extend(["-drive".to_owned(), first, "-drive".to_owned(), second]);
    words.extend(machine.append.split_whitespace().map(str::to_owned));
    words
}

/// The program and its job as an archive.
fn pack(machine: &Machine, job: &Job) -> Result<(), Error> {
    let path = machine.folder.join(ARCHIVE);
    let failed = |source| io("write", &path, source);
    let mut archive = tar::Builder::new(File::create(&path).map_err(failed)?);
    let mut add = |name: &str, mode: u32, bytes: &[u8]| {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(mode);
        header.set_cksum();
        archive.append_data(&mut header, name, bytes)
    };
    let program = std::fs::read(machine.program).map_err(|source| io("read", machine.program, source))?;
    add("landau", 0o755, &program).map_err(failed)?;
    let job = serde_json::to_vec(job).map_err(|error| Error::Guest(error.to_string()))?;
    add("job.json", 0o644, &job).map_err(failed)?;
    let file = archive.into_inner().map_err(failed)?;
    let len = file.metadata().map_err(failed)?.len();
    file.set_len(len.div_ceil(BLOCK_BYTES) * BLOCK_BYTES).map_err(failed)
}

pub(super) fn start(platform: Platform, machine: &Machine, job: &Job) -> Result<Start, Error> {
    pack(machine, job)?;
    let mut command = Command::new(qemu::PROGRAM);
    // What the system writes to its disk goes into a file there, and with the folder.
    command.args(arguments(platform, machine)).env("TMPDIR", machine.folder);
    Ok(Start { script: Some(Script::new(steps(machine.terminal))), ..Start::machine(command) })
}
