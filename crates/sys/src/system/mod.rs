//! What differs between operating systems, behind one set of functions.
//!
//! [`linux`](self) and its portable twin have the same functions with the same meaning. `None` means that this
//! system does not say; nothing is ever guessed. To teach Landau a new system, write a third file with the same
//! functions and choose it below.

#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux;
#[cfg(any(target_os = "linux", target_os = "android"))]
use linux as imp;

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod other;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
use other as imp;

pub use imp::{
    caches, children, cpu_time_ns, current_processor, descriptor_count, ephemeral_ports, headroom, listen_drops, pin,
    private_bytes, processors, processors_of, reserved_ports, set_parent_death_signal, setting, steal_ticks_of,
    time_wait_count, trigger_panic, virtualization,
};

pub(crate) use imp::this_program;

use crate::error::{Result, check};
use std::ffi::CStr;

/// The kernel's own account of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kernel {
    /// `Linux`, `FreeBSD` …
    pub system: String,
    /// The release.
    pub release: String,
    /// The build.
    pub version: String,
    /// The kind of machine.
    pub machine: String,
}

/// The kernel's own account of itself.
pub fn kernel() -> Result<Kernel> {
    // SAFETY: `utsname` is plain data for which all zeroes is a value.
    let mut name: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: `name` is a valid utsname that the call may write.
    check("uname", unsafe { libc::uname(&raw mut name) })?;
    Ok(Kernel {
        system: text(&name.sysname),
        release: text(&name.release),
        version: text(&name.version),
        machine: text(&name.machine),
    })
}

/// The text of a field that ends with a zero byte.
fn text(field: &[libc::c_char]) -> String {
    let bytes: Vec<u8> = field.iter().map(|&byte| byte as u8).collect();
    CStr::from_bytes_until_nul(&bytes).map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Space on the file system that holds a folder, in bytes: what this user may still use, and the whole.
pub fn disk_space(folder: &CStr) -> Result<(u64, u64)> {
    // SAFETY: `statvfs` is plain data for which all zeroes is a value.
    let mut stat: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: `folder` is a C string and `stat` may be written.
    check("statvfs", unsafe { libc::statvfs(folder.as_ptr(), &raw mut stat) })?;
    #[allow(clippy::unnecessary_cast, reason = "the fields are narrower on some systems")]
    let unit = stat.f_frsize as u64;
    #[allow(clippy::unnecessary_cast, reason = "the fields are narrower on some systems")]
    Ok((stat.f_bavail as u64 * unit, stat.f_blocks as u64 * unit))
}

/// A process with all that it started, and what those started: first the process itself.
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

/// The columns of the terminal that standard output leads to; none where it leads to none.
pub fn terminal_width() -> Option<u16> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: `size` may be written; the request only asks.
    let asked = unsafe { libc::ioctl(1, libc::TIOCGWINSZ, &raw mut size) };
    (asked == 0 && size.ws_col > 0).then_some(size.ws_col)
}

/// Resources that a benchmark could exhaust to the host's harm, as they stand now. `None` where unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headroom {
    /// Memory that can be had without swapping, in bytes, with the control group's limit taken into account.
    pub memory_bytes: Option<u64>,
    /// Processes and threads that can still be made, and which limit says so.
    pub processes: Option<(u64, String)>,
    /// Descriptors that all processes together can still open, and which limit says so.
    pub descriptors: Option<(u64, String)>,
}
