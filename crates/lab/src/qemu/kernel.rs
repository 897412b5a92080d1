//! Boots a kernel with an initramfs, without firmware's boot loader.

use crate::job::VARIABLE;
use crate::machine::Machine;

/// The guest's clock: it counts instructions and starts at a fixed date. While the guest is idle, qemu advances it to
/// the next timer (`sleep=off`).
///
/// Two threads of qemu do that: that of the guest's processor, and the main loop. A processor that halts is first
/// marked as halted, and its instructions up to then are counted afterwards. If the main loop runs in between, it
/// advances the clock too far, and every later interrupt of the guest arrives at a different instruction. So a host
/// that preempts the processor's thread at that point changes the guest's run. Recording (`rr=record`) makes the
/// threads take turns; the record itself is not needed.
const CLOCK: &str = "-icount shift=0,sleep=off,rr=record,rrfile=/dev/null -rtc base=2026-01-01T00:00:00,clock=vm";

/// Returns the kernel's command line. With `counts`, its addresses must be the same in every run.
pub(super) fn command_line(machine: &Machine, counts: bool) -> String {
    let mut line = format!("console=ttyS0 panic=-1 rdinit=/init {VARIABLE}=1");
    if counts {
        // Otherwise the kernel chooses its addresses at random when it starts.
        line.push_str(" nokaslr random.trust_cpu=off");
    }
    if !machine.append.is_empty() {
        line.push(' ');
        line.push_str(machine.append);
    }
    line
}

/// Returns qemu's arguments.
pub(super) fn arguments(machine: &Machine, counts: bool) -> Vec<String> {
    let mut all = Vec::new();
    if counts {
        all.extend(CLOCK.split(' ').map(str::to_owned));
    }
    all.extend(["-m".to_owned(), machine.memory_mib.to_string()]);
    all.extend(["-kernel".to_owned(), machine.kernel.image.display().to_string()]);
    all.extend(["-initrd".to_owned(), machine.initramfs.display().to_string()]);
    all.extend(["-append".to_owned(), command_line(machine, counts)]);
    all.extend(machine.emulator_arguments.iter().cloned());
    all
}
