//! Dropping privileges: another user, no new privileges, and a sandbox (Landlock) around the files that can be opened.

use crate::error::{Error, Result, check};
use std::ffi::CString;
use std::os::fd::RawFd;
use std::path::Path;

/// A user and a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The user identifier.
    pub user: u32,
    /// The group identifier: the user's primary group, or the requested one.
    pub group: u32,
}

/// The size of the first buffer for an entry of the database of users or groups.
const FIRST_BUFFER: usize = 16 << 10;

/// The size of the largest buffer: the entry of a group has the names of all its members.
const LARGEST_BUFFER: usize = 16 << 20;

/// Returns the user with a name or number, or `None` if there is no such user. A number that belongs to no user has the
/// group with the same number.
pub fn user(name: &str) -> Result<Option<Identity>> {
    let Ok(c_name) = CString::new(name) else { return Ok(None) };
    let by_name = entry("getpwnam_r", |buffer| {
        // SAFETY: `passwd` is plain data for which all zeroes is a value.
        let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        let (room, place) = (buffer.len(), buffer.as_mut_ptr());
        // SAFETY: the name is a C string, and `room` is the length of the buffer.
        let errno = unsafe { libc::getpwnam_r(c_name.as_ptr(), &raw mut entry, place, room, &raw mut found) };
        if found.is_null() { Err(errno) } else { Ok(identity(&entry)) }
    });
    match (by_name, name.parse()) {
        (Ok(Some(identity)), _) => Ok(Some(identity)),
        (other, Err(_)) => other,
        // A container may have no database of users.
        (_, Ok(number)) => Ok(Some(user_of_number(number)?.unwrap_or(Identity { user: number, group: number }))),
    }
}

/// Returns the user with a number.
fn user_of_number(number: u32) -> Result<Option<Identity>> {
    entry("getpwuid_r", |buffer| {
        // SAFETY: `passwd` is plain data for which all zeroes is a value.
        let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        let (room, place) = (buffer.len(), buffer.as_mut_ptr());
        // SAFETY: `room` is the length of the buffer.
        let errno = unsafe { libc::getpwuid_r(number, &raw mut entry, place, room, &raw mut found) };
        if found.is_null() { Err(errno) } else { Ok(identity(&entry)) }
    })
}

fn identity(entry: &libc::passwd) -> Identity {
    Identity { user: entry.pw_uid, group: entry.pw_gid }
}

/// Returns the identifier of the group with a name or number, or `None` if there is no such group.
pub fn group(name: &str) -> Result<Option<u32>> {
    let Ok(c_name) = CString::new(name) else { return Ok(None) };
    let by_name = entry("getgrnam_r", |buffer| {
        // SAFETY: `group` is plain data for which all zeroes is a value.
        let mut entry: libc::group = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        let (room, place) = (buffer.len(), buffer.as_mut_ptr());
        // SAFETY: the name is a C string, and `room` is the length of the buffer.
        let errno = unsafe { libc::getgrnam_r(c_name.as_ptr(), &raw mut entry, place, room, &raw mut found) };
        if found.is_null() { Err(errno) } else { Ok(entry.gr_gid) }
    });
    match (by_name, name.parse()) {
        (Ok(Some(group)), _) => Ok(Some(group)),
        (_, Ok(number)) => Ok(Some(number)),
        (other, Err(_)) => other,
    }
}

/// Returns an entry of the database of users or groups, or `None` if there is none. `ask` gets a buffer for the data of
/// the entry, and fails with the number of the error, 0 if there is no entry. If the buffer is too small, `ask` is
/// called again with one of twice the size.
fn entry<T>(
    call: &'static str,
    mut ask: impl FnMut(&mut [libc::c_char]) -> std::result::Result<T, libc::c_int>,
) -> Result<Option<T>> {
    let mut size = FIRST_BUFFER;
    loop {
        match ask(&mut vec![0; size]) {
            Ok(found) => return Ok(Some(found)),
            Err(0 | libc::ENOENT | libc::ESRCH) => return Ok(None),
            Err(libc::ERANGE) if size < LARGEST_BUFFER => size *= 2,
            Err(errno) => return Err(Error { call, errno }),
        }
    }
}

/// Permanently changes the user and group of all threads, drops the supplementary groups, and checks that there is no
/// way back.
pub fn switch_user(identity: Identity) -> Result<()> {
    // SAFETY: the list is empty, so nothing is read through the pointer.
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

/// Prevents this thread, and those that it starts, from gaining privileges by executing a program
/// (`PR_SET_NO_NEW_PRIVS`, Linux 3.5).
#[cfg(target_os = "linux")]
pub fn set_no_new_privileges() -> Result<()> {
    // SAFETY: this option takes integers.
    check("prctl", unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }).map(drop)
}

/// Prevents gaining privileges by executing a program: not supported here.
#[cfg(not(target_os = "linux"))]
pub fn set_no_new_privileges() -> Result<()> {
    Err(Error::unsupported("prctl"))
}

/// An access that a sandbox allows below a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read files and list directories.
    Read,
    /// Create files and write to them.
    Write,
    /// Remove files and sockets.
    Remove,
}

/// The rules of a [`Sandbox`] that is being built.
#[derive(Debug)]
pub struct SandboxRules(imp::Rules);

/// A Landlock sandbox. A thread that has entered it can open only files that the rules allow, whatever the modes of
/// other files. It can neither bind a TCP socket nor connect one to a port that the rules do not allow, if the kernel
/// can forbid that (files: Linux 5.13, sockets: 6.7).
#[derive(Debug)]
pub struct Sandbox(imp::Sandbox);

impl SandboxRules {
    /// Creates rules that allow nothing. Fails with ENOSYS if the kernel has no Landlock, and with EOPNOTSUPP if it is
    /// switched off.
    pub fn new() -> Result<Self> {
        imp::Rules::new().map(Self)
    }

    /// Allows an access below a directory, or to one file.
    pub fn allow(&mut self, path: &Path, access: Access) -> Result<()> {
        self.0.allow(path, access)
    }

    /// Allows TCP connections to a port, at any address: the kernel supports rules for ports only.
    pub fn allow_connect(&mut self, port: u16) -> Result<()> {
        self.0.allow_connect(port)
    }

    /// Finishes the sandbox.
    pub fn build(self) -> Result<Sandbox> {
        self.0.build().map(Sandbox)
    }
}

impl Sandbox {
    /// Permanently puts this thread, and those that it starts from now on, into the sandbox. [`set_no_new_privileges`]
    /// must have been called in this thread.
    pub fn enter(&self) -> Result<()> {
        self.0.enter()
    }

    /// Returns the descriptor that must be open in each thread that enters, for threads with separate descriptor
    /// tables.
    pub fn descriptor(&self) -> Option<RawFd> {
        self.0.descriptor()
    }

    /// Explains an error of [`SandboxRules::new`].
    pub fn reason(error: Error) -> &'static str {
        match error.errno {
            libc::ENOSYS if !cfg!(target_os = "linux") => "this system has no Landlock",
            libc::ENOSYS => "this kernel has no Landlock (it requires Linux 5.13), or the container forbids the call",
            libc::EOPNOTSUPP => "Landlock is disabled; boot with lsm=landlock,… to enable it",
            _ => "Landlock returned an error",
        }
    }
}

#[cfg(target_os = "linux")]
mod imp {
    use super::{Access, Error, Result, check};
    use crate::path::{Kind, status};
    use landlock::{
        ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus, NetPort, PathBeneath,
        PathFd, RestrictSelf, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, make_bitflags,
    };
    use std::os::fd::{AsRawFd, OwnedFd, RawFd};
    use std::path::Path;

    #[derive(Debug)]
    pub(super) struct Rules(RulesetCreated);

    #[derive(Debug)]
    pub(super) struct Sandbox(OwnedFd);

    impl Rules {
        pub(super) fn new() -> Result<Self> {
            let call = "landlock_create_ruleset";
            // This restricts nothing: it only reports what the kernel supports.
            let known = RestrictSelf::default().no_new_privs(false).apply().map_err(|error| of(call, &error))?;
            match known.landlock {
                LandlockStatus::NotImplemented => return Err(Error::unsupported(call)),
                LandlockStatus::NotEnabled => return Err(Error::not_supported(call)),
                LandlockStatus::Available { .. } => {}
            }
            let made = Ruleset::default()
                .set_compatibility(CompatLevel::HardRequirement)
                .handle_access(AccessFs::from_all(ABI::V1))
                .and_then(|ruleset| {
                    ruleset.set_compatibility(CompatLevel::BestEffort).handle_access(AccessNet::from_all(ABI::V4))
                })
                .and_then(Ruleset::create);
            made.map(Self).map_err(|error| of(call, &error))
        }

        pub(super) fn allow(&mut self, path: &Path, access: Access) -> Result<()> {
            let call = "landlock_add_rule";
            let parent = PathFd::new(path).map_err(|error| of("open", &error))?;
            let is_directory = status(&parent)?.kind == Kind::Directory;
            let allowed: BitFlags<AccessFs> = match (access, is_directory) {
                (Access::Read, true) => make_bitflags!(AccessFs::{ReadFile | ReadDir}),
                (Access::Read, false) => AccessFs::ReadFile.into(),
                (Access::Write, true) => make_bitflags!(AccessFs::{WriteFile | MakeReg}),
                (Access::Write, false) => AccessFs::WriteFile.into(),
                // Removing a file changes its directory.
                (Access::Remove, true) => AccessFs::RemoveFile.into(),
                (Access::Remove, false) => return Err(Error { call, errno: libc::ENOTDIR }),
            };
            let added = (&mut self.0).add_rule(PathBeneath::new(parent, allowed));
            added.map(drop).map_err(|error| of(call, &error))
        }

        pub(super) fn allow_connect(&mut self, port: u16) -> Result<()> {
            let added = (&mut self.0).add_rule(NetPort::new(port, AccessNet::ConnectTcp));
            added.map(drop).map_err(|error| of("landlock_add_rule", &error))
        }

        pub(super) fn build(self) -> Result<Sandbox> {
            let fd: Option<OwnedFd> = self.0.into();
            fd.map(Sandbox).ok_or(Error::unsupported("landlock_create_ruleset"))
        }
    }

    impl Sandbox {
        /// The crate's `restrict_self` consumes the ruleset, but here every thread enters the same one. Some have a
        /// separate descriptor table, in which only its number is known.
        pub(super) fn enter(&self) -> Result<()> {
            // SAFETY: the call takes a descriptor, which is open, and an integer.
            let entered = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, self.0.as_raw_fd(), 0) };
            check("landlock_restrict_self", entered as libc::c_int).map(drop)
        }

        #[allow(clippy::unnecessary_wraps, reason = "other systems have none")]
        pub(super) fn descriptor(&self) -> Option<RawFd> {
            Some(self.0.as_raw_fd())
        }
    }

    /// Returns the error number at the end of a chain of errors; EINVAL if there is none.
    fn of(call: &'static str, error: &(dyn std::error::Error + 'static)) -> Error {
        let chain = std::iter::successors(Some(error), |error| error.source());
        let io = chain.filter_map(|error| error.downcast_ref::<std::io::Error>()).last();
        io.map_or(Error::invalid(call), |error| Error::from_io(call, error))
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use super::{Access, Error, Result};
    use std::os::fd::RawFd;
    use std::path::Path;

    #[derive(Debug)]
    pub(super) struct Rules;

    #[derive(Debug)]
    pub(super) struct Sandbox;

    impl Rules {
        pub(super) fn new() -> Result<Self> {
            Err(Error::unsupported("landlock_create_ruleset"))
        }

        pub(super) fn allow(&mut self, _: &Path, _: Access) -> Result<()> {
            Err(Error::unsupported("landlock_add_rule"))
        }

        pub(super) fn allow_connect(&mut self, _: u16) -> Result<()> {
            Err(Error::unsupported("landlock_add_rule"))
        }

        pub(super) fn build(self) -> Result<Sandbox> {
            Err(Error::unsupported("landlock_create_ruleset"))
        }
    }

    impl Sandbox {
        pub(super) fn enter(&self) -> Result<()> {
            Err(Error::unsupported("landlock_restrict_self"))
        }

        pub(super) fn descriptor(&self) -> Option<RawFd> {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_groups_are_found_by_name_and_number() {
        assert_eq!(user("root").unwrap(), Some(Identity { user: 0, group: 0 }));
        assert_eq!(user("4711").unwrap(), Some(Identity { user: 4711, group: 4711 }));
        assert_eq!(user("no such user").unwrap(), None);
        assert_eq!(group("4711").unwrap(), Some(4711));
        assert_eq!(group("no such group").unwrap(), None);
    }

    /// Before the fix, the group was the one with the user's number.
    #[test]
    fn a_user_of_a_number_has_its_primary_group() {
        let text = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let mut known = std::collections::HashSet::new();
        for line in text.lines() {
            let fields: Vec<&str> = line.split(':').collect();
            let &[_, _, number, group, ..] = &fields[..] else { continue };
            let (Ok(user_id), Ok(group)) = (number.parse(), group.parse()) else { continue };
            // Of several users with one number, the first one is found.
            if known.insert(user_id) {
                assert_eq!(user(number).unwrap(), Some(Identity { user: user_id, group }), "{line}");
            }
        }
    }

    /// Before the fix, a group with thousands of members was an error.
    #[test]
    fn a_large_entry_gets_a_larger_buffer() {
        let needing = |bytes: usize| {
            let mut asked = 0;
            let found = entry("getgrnam_r", |buffer| {
                asked += 1;
                if buffer.len() < bytes { Err(libc::ERANGE) } else { Ok(buffer.len()) }
            });
            (found, asked)
        };
        assert_eq!(needing(1), (Ok(Some(FIRST_BUFFER)), 1));
        assert_eq!(needing(1_000_000), (Ok(Some(1 << 20)), 7));
        let too_large = Error { call: "getgrnam_r", errno: libc::ERANGE };
        assert_eq!(needing(LARGEST_BUFFER + 1), (Err(too_large), 11));
    }

    /// In another thread, because a sandbox cannot be left.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_sandboxed_thread_opens_only_allowed_files() {
        let Ok(mut rules) = SandboxRules::new() else { return };
        let room = tempfile::tempdir().unwrap();
        let path = |name: &str| room.path().join(name);
        std::fs::create_dir(path("in")).unwrap();
        std::fs::write(path("in/file"), "x").unwrap();
        std::fs::write(path("out"), "x").unwrap();
        rules.allow(&path("in"), Access::Read).unwrap();
        let refused = rules.allow(&path("out"), Access::Remove).unwrap_err();
        assert_eq!((refused.call, refused.errno), ("landlock_add_rule", libc::ENOTDIR));
        let missing = rules.allow(&path("missing"), Access::Read).unwrap_err();
        assert_eq!((missing.call, missing.errno), ("open", libc::ENOENT));
        let listen = || std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (permitted, other) = (listen(), listen());
        let port = |of: &std::net::TcpListener| of.local_addr().unwrap().port();
        rules.allow_connect(port(&permitted)).unwrap();
        let sandbox = rules.build().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                set_no_new_privileges().unwrap();
                sandbox.enter().unwrap();
                assert_eq!(std::fs::read(path("in/file")).unwrap(), b"x");
                for forbidden in [path("out"), "/etc/passwd".into()] {
                    let error = std::fs::read(forbidden).unwrap_err();
                    assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
                }
                assert!(std::fs::write(path("in/new"), "x").is_err());
                let connect = |to| std::net::TcpStream::connect(("127.0.0.1", port(to))).map_err(|error| error.kind());
                assert!(connect(&permitted).is_ok());
                // Before Linux 6.7, the connection is not refused.
                let refused = connect(&other).err();
                assert!(refused.is_none() || refused == Some(std::io::ErrorKind::PermissionDenied), "{refused:?}");
            });
        });
        assert!(std::fs::read(path("out")).is_ok());
    }
}
