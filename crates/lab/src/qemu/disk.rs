//! Boots a disk image with any operating system that has a login on its serial console.
//!
//! The disk is never written to. A second disk contains a tar archive of the program and its job. A script logs in on
//! the console, unpacks the archive and starts the guest.

use crate::console::{Script, Step};
use crate::error::{Error, io};
use crate::guest::child;
use crate::job::Job;
use crate::kernel::{Disk, Kind};
use crate::launch::Launch;
use crate::machine::{Login, Machine};
use std::fs::File;
use std::path::Path;
use std::process::Command;

/// The second disk's names below `/dev`: Linux, FreeBSD, OpenBSD, NetBSD, illumos.
const SECOND_DISK: &str = "vdb sdb vtbd1 ada1 da1 rsd1c rwd1c rld1d rwd1d rsd1d rdsk/c*t1d0p0 rdsk/c*d1p0";

/// The archive's length is a multiple of this: some systems read disks in large blocks only.
const BLOCK_BYTES: u64 = 1 << 20;

/// The file behind the second disk.
const ARCHIVE: &str = "landau.tar";

/// Returns the script from login to guest. It replaces the shell's prompt by one that nothing else prints. The command
/// contains it in two halves, so that the echo of the command does not match.
fn steps(login: &Login) -> Vec<Step> {
    let step = |wait_for: &[String], answer: &str| Step { wait_for: wait_for.to_vec(), answer: answer.to_owned() };
    let mut steps = vec![step(&["login:".to_owned()], &login.user)];
    if let Some(password) = &login.password {
        steps.push(step(&["assword:".to_owned(), "assword for".to_owned()], password));
    }
    steps.push(step(&login.prompts, "exec sh"));
    steps.push(step(&login.prompts, "PS1='LANDAU''-READY '"));
    let ready = ["LANDAU-READY".to_owned()];
    steps.push(step(&ready, "cd /tmp"));
    steps.push(step(&ready, &format!("try='{SECOND_DISK}'")));
    steps.push(step(&ready, "for d in $try; do tar xf /dev/$d 2>/dev/null; test -f landau && break; done"));
    steps.push(step(&ready, &format!("exec ./landau {} job.json", child::ARGUMENT)));
    steps
}

/// Returns qemu's arguments. `counts` is whether the guest's clock counts instructions.
pub(super) fn arguments(machine: &Machine, counts: bool) -> Vec<String> {
    let format = if machine.kernel.kind == Kind::DiskImage(Disk::Qcow2) { "qcow2" } else { "raw" };
    // qemu reads a doubled comma as a comma.
    let file = |path: &Path| path.display().to_string().replace(',', ",,");
    let mut all = Vec::new();
    if counts {
        // With `sleep=off` the clock would jump ahead while landau types, and the login would time out.
        all.extend("-icount shift=0,sleep=on -rtc base=2026-01-01T00:00:00,clock=vm".split(' ').map(str::to_owned));
    }
    all.extend(["-m".to_owned(), machine.memory_mib.to_string()]);
    let first = format!("file={},format={format},if=virtio,snapshot=on", file(&machine.kernel.image));
    let second = format!("file={},format=raw,if=virtio,readonly=on", file(&machine.folder.join(ARCHIVE)));
    all.extend(["-drive".to_owned(), first, "-drive".to_owned(), second]);
    all.extend(machine.append.split_whitespace().map(str::to_owned));
    all
}

/// Writes the program and its job into the archive.
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

/// Returns how to start the machine with this command.
pub(super) fn launch(mut command: Command, machine: &Machine, job: &Job) -> Result<Launch, Error> {
    pack(machine, job)?;
    // qemu keeps the system's writes in a temporary file, which is removed with the directory.
    command.env("TMPDIR", machine.folder);
    Ok(Launch { script: Some(Script::new(steps(machine.login))), ..Launch::machine(command) })
}
