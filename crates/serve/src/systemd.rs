//! The protocol between a service manager and a server, without a library: inherited sockets (`sd_listen_fds`) and
//! notifications (`sd_notify`). Both need only a few environment variables, and the library would add systemd's
//! dependencies.

use crate::config::Listen;
use std::os::fd::RawFd;
use std::os::unix::net::UnixDatagram;

/// The first inherited descriptor.
const FIRST: RawFd = 3;

/// Returns the sockets that the service manager passed to this process. Empty if it passed none, or passed them to
/// another process.
pub fn passed_sockets() -> Vec<Listen> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    sockets(number("LISTEN_PID"), number("LISTEN_FDS"), std::process::id())
}

fn sockets(pid: Option<u32>, count: Option<u32>, own_pid: u32) -> Vec<Listen> {
    if pid != Some(own_pid) {
        return Vec::new();
    }
    // A service has few sockets; a descriptor that is not open causes an error when it is used.
    let count = count.unwrap_or(0).min(1024).cast_signed();
    (FIRST..FIRST + count).map(Listen::Inherited).collect()
}

/// The connection to the service manager; by default there is none.
#[derive(Debug, Default)]
pub struct Notifier(Option<UnixDatagram>);

impl Notifier {
    /// Connects to the socket in `NOTIFY_SOCKET`, before the sandbox prevents it. Without the variable, notifications
    /// do nothing.
    pub fn from_environment() -> Self {
        Self(std::env::var("NOTIFY_SOCKET").ok().and_then(|place| connected(&place)))
    }

    /// Sends lines of the form `NAME=VALUE`; there is no reply.
    pub fn tell(&self, text: &str) {
        if let Some(line) = &self.0 {
            // Errors are ignored: a manager that does not listen needs no notification.
            let _ = line.send(text.as_bytes());
        }
    }

    /// Notifies that the configuration is being reloaded, with the time on the monotonic clock.
    pub fn tell_reloading(&self) {
        let now_us = landau_sys::clock::monotonic_ns() / 1000;
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={now_us}"));
    }
}

fn connected(place: &str) -> Option<UnixDatagram> {
    let line = UnixDatagram::unbound().ok()?;
    match place.strip_prefix('@') {
        #[cfg(target_os = "linux")]
        Some(name) => {
            use std::os::linux::net::SocketAddrExt;
            let address = std::os::unix::net::SocketAddr::from_abstract_name(name).ok()?;
            line.connect_addr(&address).ok()?;
        }
        _ => line.connect(place).ok()?,
    }
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_of_another_process_are_ignored() {
        let three = vec![Listen::Inherited(3), Listen::Inherited(4), Listen::Inherited(5)];
        assert_eq!(sockets(Some(7), Some(3), 7), three);
        for (pid, count) in [(Some(8), Some(3)), (None, Some(3)), (Some(7), None), (Some(7), Some(0))] {
            assert_eq!(sockets(pid, count, 7), vec![], "{pid:?} {count:?}");
        }
    }

    #[test]
    fn notifications_arrive() {
        let room = tempfile::tempdir().unwrap();
        let place = room.path().join("notify");
        let manager = UnixDatagram::bind(&place).unwrap();
        Notifier(connected(place.to_str().unwrap())).tell("READY=1");
        let mut buffer = [0; 64];
        let len = manager.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..len], b"READY=1");
        Notifier(connected("/nowhere/at/all")).tell("READY=1");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn abstract_socket_names_work() {
        use std::os::linux::net::SocketAddrExt;
        let name = format!("landau-serve-{}", std::process::id());
        let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        Notifier(connected(&format!("@{name}"))).tell_reloading();
        let mut buffer = [0; 64];
        let len = manager.recv(&mut buffer).unwrap();
        assert!(buffer[..len].starts_with(b"RELOADING=1\nMONOTONIC_USEC="));
    }
}
