//! Giving privileges up: another user, no new privileges, and a fence around what can still be opened.

use crate::error::{Error, Result, check};
use std::ffi::{CStr, CString};

/// Whom a process may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The user's number.
    pub user: u32,
    /// The number of the user's own group, or of the one that was asked for.
    pub group: u32,
}

/// The user of that name or number; none where there is no such user.
pub fn user(name: &str) -> Result<Option<Identity>> {
    let Ok(c_name) = CString::new(name) else { return Ok(None) };
    let mut buffer = vec![0 as libc::c_char; 16 << 10];
    // SAFETY: `passwd` is plain data for which all zeroes is a value.
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    let mut found = std::ptr::null_mut();
    let (room, place) = (buffer.len(), buffer.as_mut_ptr());
    // SAFETY: the name is a C string, and the buffer has the room that is told.
    let errno = unsafe { libc::getpwnam_r(c_name.as_ptr(), &raw mut entry, place, room, &raw mut found) };
    if !found.is_null() {
        return Ok(Some(Identity { user: entry.pw_uid, group: entry.pw_gid }));
    }
    let number = name.parse().ok().map(|user| Identity { user, group: user });
    match errno {
        0 | libc::ENOENT | libc::ESRCH => Ok(number),
        errno => number.map_or(Err(Error { call: "getpwnam_r", errno }), |one| Ok(Some(one))),
    }
}

/// The number of the group of that name or number; none where there is no such group.
pub fn group(name: &str) -> Result<Option<u32>> {
    let Ok(c_name) = CString::new(name) else { return Ok(None) };
    let mut buffer = vec![0 as libc::c_char; 64 << 10];
    // SAFETY: `group` is plain data for which all zeroes is a value.
    let mut entry: libc::group = unsafe { std::mem::zeroed() };
    let mut found = std::ptr::null_mut();
    let (room, place) = (buffer.len(), buffer.as_mut_ptr());
    // SAFETY: the name is a C string, and the buffer has the room that is told.
    let errno = unsafe { libc::getgrnam_r(c_name.as_ptr(), &raw mut entry, place, room, &raw mut found) };
    if !found.is_null() {
        return Ok(Some(entry.gr_gid));
    }
    match (errno, name.parse().ok()) {
        (_, Some(number)) => Ok(Some(number)),
        (0 | libc::ENOENT | libc::ESRCH, None) => Ok(None),
        (errno, None) => Err(Error { call: "getgrnam_r", errno }),
    }
}

/// Becomes another user for good, with all threads, without supplementary groups; and sees to it that there is no way
/// back.
pub fn switch_user(identity: Identity) -> Result<()> {
    // SAFETY: no group is told, so nothing is read.
    check("setgroups", unsafe { libc::setgroups(0, std::ptr::null()) })?;
    // SAFETY: the call takes an integer.
    check("setgid", unsafe { libc::setgid(identity.group) })?;
    // SAFETY: the call takes an integer.
    check("setuid", unsafe { libc::setuid(identity.user) })?;
    // SAFETY: the call takes an integer.
    if identity.user != 0 && unsafe { libc::setuid(0) } == 0 {
        return Err(Error { call: "setuid", errno: libc::EPERM });
    }
    Ok(())
}

/// No program that this thread or one that it starts executes gets more rights than it has (Linux 3.5).
#[cfg(target_os = "linux")]
pub fn set_no_new_privileges() -> Result<()> {
    // SAFETY: this option takes integers.
    check("prctl", unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }).map(drop)
}

/// No program that this thread or one that it starts executes gets more rights than it has: not here.
#[cfg(not(target_os = "linux"))]
pub fn set_no_new_privileges() -> Result<()> {
    Err(Error { call: "prctl", errno: libc::ENOSYS })
}

/// What may be done below a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read files and list folders.
    Read,
    /// Make files and write them.
    Write,
    /// Remove files and sockets.
    Remove,
}

/// A fence: whoever entered it opens nothing but what was allowed before, whatever the file's mode says, and neither
/// binds nor connects a socket of TCP where the kernel can forbid that (Landlock: Linux 5.13, sockets 6.7).
#[derive(Debug)]
pub struct Sandbox(#[cfg(target_os = "linux")] std::os::fd::OwnedFd);

#[cfg(target_os = "linux")]
mod landlock {
    use super::{Access, CStr, Error, Result, Sandbox, check};
    use crate::descriptor::own;
    use std::os::fd::AsRawFd;

    const CREATE_VERSION: libc::c_uint = 1;
    const RULE_PATH_BENEATH: libc::c_int = 1;
    /// Bits of `LANDLOCK_ACCESS_FS_*`: all thirteen of the first version.
    const FILES: u64 = (1 << 13) - 1;
    const WRITE_FILE: u64 = 1 << 1;
    const READ_FILE: u64 = 1 << 2;
    const READ_FOLDER: u64 = 1 << 3;
    const REMOVE_FILE: u64 = 1 << 5;
    const MAKE_FILE: u64 = 1 << 8;
    /// `LANDLOCK_ACCESS_NET_BIND_TCP` and `_CONNECT_TCP`, from the fourth version on.
    const SOCKETS: u64 = 3;

    #[repr(C)]
    struct Attributes {
        files: u64,
        sockets: u64,
    }

    #[repr(C, packed)]
    struct Beneath {
        allowed: u64,
        parent: i32,
    }

    impl Sandbox {
        /// A fence within which nothing is allowed. Fails where the kernel has none, or it is switched off.
        pub fn new() -> Result<Self> {
            let call = "landlock_create_ruleset";
            let none = std::ptr::null::<Attributes>();
            // SAFETY: no attributes are told, which asks for the version.
            let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, none, 0, CREATE_VERSION) };
            let version = check(call, version as libc::c_int)?;
            let sockets = if version >= 4 { SOCKETS } else { 0 };
            let attributes = Attributes { files: FILES, sockets };
            // An older kernel knows the first member only, and takes no more than it knows.
            let size = if version >= 4 { size_of::<Attributes>() } else { size_of::<u64>() };
            // SAFETY: the attributes are valid for the size that is told.
            let fd = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, &raw const attributes, size, 0) };
            check(call, fd as libc::c_int).map(own).map(Self)
        }

        /// Allows something below a path, or to a file.
        pub fn allow(&self, path: &CStr, access: Access) -> Result<()> {
            // SAFETY: the path is a C string.
            let parent = unsafe { libc::open(path.as_ptr(), libc::O_PATH | libc::O_CLOEXEC) };
            let parent = check("open", parent).map(own)?;
            let is_folder = crate::path::status(&parent)?.kind == crate::path::Kind::Directory;
            let allowed = match (access, is_folder) {
                (Access::Read, true) => READ_FILE | READ_FOLDER,
                (Access::Read, false) => READ_FILE,
                (Access::Write, true) => WRITE_FILE | MAKE_FILE,
                (Access::Write, false) => WRITE_FILE,
                // Who removes a file changes its folder.
                (Access::Remove, true) => REMOVE_FILE,
                (Access::Remove, false) => return Err(Error { call: "landlock_add_rule", errno: libc::ENOTDIR }),
            };
            let rule = Beneath { allowed, parent: parent.as_raw_fd() };
            let (fd, rule) = (self.0.as_raw_fd(), &raw const rule);
            // SAFETY: the rule is of the kind that is told, and the descriptors are open.
            let added = unsafe { libc::syscall(libc::SYS_landlock_add_rule, fd, RULE_PATH_BENEATH, rule, 0) };
            check("landlock_add_rule", added as libc::c_int).map(drop)
        }

        /// Puts this thread, and those that it starts from now on, behind the fence. [`super::set_no_new_privileges`]
        /// must have been called before.
        pub fn enter(&self) -> Result<()> {
            // SAFETY: the call takes a descriptor, which is open, and an integer.
            let entered = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, self.0.as_raw_fd(), 0) };
            check("landlock_restrict_self", entered as libc::c_int).map(drop)
        }
    }

    impl Sandbox {
        /// The number by which each thread that enters must know it.
        pub fn descriptor(&self) -> Option<std::os::fd::RawFd> {
            Some(self.0.as_raw_fd())
        }

        /// Why there is none, in words.
        pub fn reason(error: Error) -> &'static str {
            match error.errno {
                libc::ENOSYS => "this kernel has no Landlock (Linux 5.13 has), or the container forbids the call",
                libc::EOPNOTSUPP => "Landlock is switched off; boot with lsm=landlock,… to have it",
                _ => "Landlock refused",
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl Sandbox {
    /// A fence: not here.
    pub fn new() -> Result<Self> {
        Err(Error { call: "landlock_create_ruleset", errno: libc::ENOSYS })
    }

    /// Allows something below a path: not here.
    pub fn allow(&self, _: &CStr, _: Access) -> Result<()> {
        Err(Error { call: "landlock_add_rule", errno: libc::ENOSYS })
    }

    /// Puts this thread behind the fence: not here.
    pub fn enter(&self) -> Result<()> {
        Err(Error { call: "landlock_restrict_self", errno: libc::ENOSYS })
    }

    /// The number by which each thread that enters must know it.
    pub fn descriptor(&self) -> Option<std::os::fd::RawFd> {
        None
    }

    /// Why there is none, in words.
    pub fn reason(_: Error) -> &'static str {
        "this system has no Landlock"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_groups_are_known_by_name_and_number() {
        assert_eq!(user("root").unwrap(), Some(Identity { user: 0, group: 0 }));
        assert_eq!(user("4711").unwrap(), Some(Identity { user: 4711, group: 4711 }));
        assert_eq!(user("no such user").unwrap(), None);
        assert_eq!(group("4711").unwrap(), Some(4711));
        assert_eq!(group("no such group").unwrap(), None);
    }

    /// In a thread of its own: there is no way back.
    #[test]
    #[cfg(target_os = "linux")]
    fn behind_the_fence_only_what_was_allowed_is_open() {
        use std::os::unix::ffi::OsStrExt;
        let Ok(fence) = Sandbox::new() else { return };
        let room = tempfile::tempdir().unwrap();
        let path = |name: &str| room.path().join(name);
        std::fs::create_dir(path("in")).unwrap();
        std::fs::write(path("in/file"), "x").unwrap();
        std::fs::write(path("out"), "x").unwrap();
        let folder = CString::new(path("in").as_os_str().as_bytes()).unwrap();
        fence.allow(&folder, Access::Read).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                set_no_new_privileges().unwrap();
                fence.enter().unwrap();
                assert_eq!(std::fs::read(path("in/file")).unwrap(), b"x");
                for forbidden in [path("out"), "/etc/passwd".into()] {
                    let error = std::fs::read(forbidden).unwrap_err();
                    assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
                }
                assert!(std::fs::write(path("in/new"), "x").is_err());
            });
        });
        assert!(std::fs::read(path("out")).is_ok());
    }
}
