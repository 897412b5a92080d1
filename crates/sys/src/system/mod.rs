//! Differences between operating systems, behind one set of functions.
//!
//! `linux.rs` and its portable counterpart `other.rs` have the same functions with the same meaning. `None` means that
//! the system does not report a value; nothing is guessed. To support another system, write a third file with the same
//! functions and select it below.

#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux;
#[cfg(any(target_os = "linux", target_os = "android"))]
use linux as imp;

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod other;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
use other as imp;

pub use imp::{
    caches, children, context_switches, cpu_time_ns, current_processor, descriptor_count, ephemeral_ports, free_memory,
    headroom, listen_drops, lists_children, memory_left, met_memory_limit, own_memory, pin, private_bytes, processors,
    processors_of, reaped_time_ns, reserved_ports, set_parent_death_signal, setting, steal_centiseconds_of,
    time_wait_count, trigger_panic, virtualization,
};

pub(crate) use imp::{rcu_softirqs_place, this_program};

use crate::error::{Result, check};
use std::ffi::CStr;

/// Prefixes of the vendor's or the product's name in the firmware of virtual machines; systemd-detect-virt(1) uses the
/// same. An Amazon machine without a hypervisor has this vendor, too, but a product that ends in `.metal`.
const OF_GUESTS: &[&str] = &[
    "Alibaba Cloud",
    "Amazon EC2",
    "Apple Virtualization",
    "BHYVE",
    "Bochs",
    "Google Compute Engine",
    "Hyper-V",
    "KVM",
    "KubeVirt",
    "OpenStack",
    "Parallels",
    "QEMU",
    "VMW",
    "VMware",
    "VirtualBox",
    "Virtual Machine",
    "Xen",
    "innotek GmbH",
];

/// Returns the name of the hypervisor, or `none`, from the files of Linux that `read` returns by their paths below `/`;
/// `None` if it cannot be known.
///
/// Only x86 processors report that they run under a hypervisor. On others, the kernel, the device tree or the names in
/// the firmware may show it.
pub fn virtualization_by(read: impl Fn(&str) -> Option<String>) -> Option<String> {
    let processors = read("proc/cpuinfo")?;
    let [vendor, product] =
        ["sys_vendor", "product_name"].map(|file| read(&format!("sys/class/dmi/id/{file}")).unwrap_or_default());
    let (vendor, product) = (vendor.trim(), product.trim());
    match processors.lines().find(|line| line.starts_with("flags")) {
        Some(flags) if flags.split_ascii_whitespace().any(|flag| flag == "hypervisor") => {}
        Some(_) => return Some("none".to_owned()),
        None => {
            let is_named = |name: &str| OF_GUESTS.iter().any(|start| name.starts_with(start));
            let files = ["sys/hypervisor/type", "proc/device-tree/hypervisor/compatible"];
            let is_shown = files.iter().any(|file| read(file).is_some_and(|text| !text.trim().is_empty()));
            if !is_shown && (product.strip_suffix(".metal").is_some() || !is_named(vendor) && !is_named(product)) {
                return None;
            }
        }
    }
    let name = format!("{vendor} {product}");
    Some(if name.trim().is_empty() { "hypervisor".to_owned() } else { name.trim().to_owned() })
}

/// The identity of the kernel, as `uname` returns it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kernel {
    /// `Linux`, `FreeBSD` …
    pub system: String,
    /// The release.
    pub release: String,
    /// The build.
    pub version: String,
    /// The machine's architecture.
    pub machine: String,
}

/// Returns the identity of the kernel.
pub fn kernel() -> Result<Kernel> {
    // SAFETY: `utsname` is plain data for which all zeroes is a value.
    let mut name: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: `name` is writable.
    check("uname", unsafe { libc::uname(&raw mut name) })?;
    Ok(Kernel {
        system: text(&name.sysname),
        release: text(&name.release),
        version: text(&name.version),
        machine: text(&name.machine),
    })
}

/// Returns the text of a zero-terminated field.
fn text(field: &[libc::c_char]) -> String {
    let bytes: Vec<u8> = field.iter().map(|&byte| byte as u8).collect();
    CStr::from_bytes_until_nul(&bytes).map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Returns the space of the file system that contains a directory, in bytes: available to this user, and in total.
pub fn disk_space(folder: &CStr) -> Result<(u64, u64)> {
    // SAFETY: `statvfs` is plain data for which all zeroes is a value.
    let mut stat: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: `folder` is a C string and `stat` is writable.
    check("statvfs", unsafe { libc::statvfs(folder.as_ptr(), &raw mut stat) })?;
    #[allow(clippy::unnecessary_cast, reason = "the fields are narrower on some systems")]
    let unit = stat.f_frsize as u64;
    #[allow(clippy::unnecessary_cast, reason = "the fields are narrower on some systems")]
    Ok((stat.f_bavail as u64 * unit, stat.f_blocks as u64 * unit))
}

/// The free space of a file system, for this user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeSpace {
    /// Bytes.
    pub bytes: u64,
    /// The size of a block in bytes.
    pub block_bytes: u64,
    /// Inodes; `None` if the file system does not limit their number.
    pub inodes: Option<u64>,
}

/// Returns the free space of the file system that contains a directory.
pub fn free_space(folder: &CStr) -> Result<FreeSpace> {
    // SAFETY: `statvfs` is plain data for which all zeroes is a value.
    let mut stat: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: `folder` is a C string and `stat` is writable.
    check("statvfs", unsafe { libc::statvfs(folder.as_ptr(), &raw mut stat) })?;
    #[allow(clippy::unnecessary_cast, reason = "the fields are narrower on some systems")]
    Ok(FreeSpace {
        bytes: stat.f_bavail as u64 * stat.f_frsize as u64,
        block_bytes: stat.f_frsize as u64,
        inodes: (stat.f_files > 0).then_some(stat.f_favail as u64),
    })
}

/// Returns a process and all of its descendants, the process first.
pub fn process_tree(pid: u32) -> Vec<u32> {
    let mut found = vec![pid];
    let mut at = 0;
    while at < found.len() {
        let children = children(found[at]);
        found.extend(children.into_iter().filter(|one| *one > 1));
        at += 1;
    }
    found
}

/// Returns the width of the terminal on standard output in columns, or `None` if it is not a terminal.
pub fn terminal_width() -> Option<u16> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: `size` has the layout of `struct winsize` and is writable.
    let asked = unsafe { libc::ioctl(1, libc::TIOCGWINSZ, &raw mut size) };
    (asked == 0 && size.ws_col > 0).then_some(size.ws_col)
}

/// The free resources of this host, which a benchmark could exhaust. `None` if unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headroom {
    /// Memory available without swapping, in bytes, within the limit of the control group.
    pub memory_bytes: Option<u64>,
    /// How many processes and threads can still be created, and the limit that applies.
    pub processes: Option<(u64, String)>,
    /// How many descriptors all processes together can still open, and the limit that applies.
    pub descriptors: Option<(u64, String)>,
}

/// The memory of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnMemory {
    /// Bytes of its address space.
    pub space_bytes: u64,
    /// Bytes of its data, which are private writable mappings, and of its stack.
    pub data_bytes: u64,
}

/// Returns the value of a line `NAME: N kB` of a text like `/proc/meminfo` in bytes.
pub fn bytes_of(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_kilobytes_is_read_by_its_whole_name() {
        let text = "MemTotal:  8 kB\nHugePages_Total: 5\nMemFree:\t7 kB\n";
        let of = |name| bytes_of(text, name);
        assert_eq!((of("MemTotal"), of("MemFree")), (Some(8192), Some(7168)));
        assert_eq!((of("Mem"), of("HugePages_Total")), (None, None));
    }

    #[test]
    fn a_hypervisor_is_shown_or_not_known() {
        let of = |files: &[(&str, &str)]| {
            virtualization_by(|path| files.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned()))
        };
        let (vendor, product) = ("sys/class/dmi/id/sys_vendor", "sys/class/dmi/id/product_name");
        let guest = ("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu hypervisor lahf_lm\n");
        let host = ("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu lahf_lm\n");
        let arm = ("proc/cpuinfo", "processor\t: 0\nFeatures\t: fp asimd\n");
        assert_eq!(of(&[guest]).as_deref(), Some("hypervisor"));
        assert_eq!(of(&[guest, (vendor, "QEMU\n"), (product, "Standard PC\n")]).as_deref(), Some("QEMU Standard PC"));
        assert_eq!(of(&[host, (vendor, "QEMU\n")]).as_deref(), Some("none"));
        // Arm processors do not report it.
        assert_eq!(of(&[arm]), None);
        assert_eq!(of(&[arm, (vendor, "Ampere\n")]), None);
        assert_eq!(of(&[arm, (vendor, "Amazon EC2\n"), (product, "c7g.metal\n")]), None);
        assert_eq!(
            of(&[arm, (vendor, "Amazon EC2\n"), (product, "c7g.large\n")]).as_deref(),
            Some("Amazon EC2 c7g.large")
        );
        assert_eq!(of(&[arm, ("proc/device-tree/hypervisor/compatible", "xen,xen\0")]).as_deref(), Some("hypervisor"));
        assert_eq!(of(&[]), None);
    }
}
