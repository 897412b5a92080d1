//! The servers of the list as rivals of `landau serve`, for the project's chores, which compare the CPU time of a
//! request. A rival is configured as by an operator who wants throughput; a benchmark keeps the server's defaults.

pub use super::Protocol;
use super::{Start, Tuning, list};
use landau_engine::{Settings, Support};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// The options with which a rival is started.
#[derive(Debug, Clone, Copy)]
pub struct Rival<'a> {
    /// The document root.
    pub root: &'a Path,
    /// A directory for the server's own files.
    pub directory: &'a Path,
    /// The port on 127.0.0.1 to listen on.
    pub port: u16,
    /// The limit on descriptors of the server's process.
    pub descriptors: u64,
    /// Whether connections are accepted with their first request (`TCP_DEFER_ACCEPT`), if the server can.
    pub defers_accept: bool,
    /// The protocol of the server at its port.
    pub protocol: Protocol<'a>,
}

/// Returns the names of the servers that this program does not contain.
pub fn names() -> impl Iterator<Item = &'static str> {
    list::SERVERS.iter().map(|(name, _)| *name).filter(|name| *name != "landau")
}

/// Writes a rival's configuration, and returns the command that starts the rival in the foreground.
///
/// # Errors
///
/// Fails with the reason why this server cannot be compared here, such as that it is not installed.
pub fn command(name: &str, rival: &Rival<'_>) -> Result<Command, String> {
    let (_, server) = list::SERVERS.iter().find(|(known, _)| *known == name).ok_or("no such server")?;
    let settings = Settings::from_map(BTreeMap::new());
    if let Support::No(reason) = server.support(&settings) {
        return Err(reason);
    }
    if !rival.defers_accept && !server.accepts_at_once() {
        return Err(format!("{name} cannot accept connections before their first request"));
    }
    if !server.speaks(rival.protocol) {
        return Err(format!("{name} is not configured for {:?}", rival.protocol));
    }
    let Rival { root, directory, port, descriptors, defers_accept, protocol } = *rival;
    let tuning = Some(Tuning { defers_accept, protocol });
    let start = Start { settings: &settings, root, directory, port, descriptors, tuning };
    server.configure(&start).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use landau_sys::process::OwnedChild;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::process::Stdio;
    use std::time::Duration;

    /// Requests the file until the server answers or has exited.
    fn first_line(server: &mut OwnedChild, port: u16) -> Option<String> {
        while matches!(server.try_wait(), Ok(None)) {
            if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) {
                let mut answer = String::new();
                stream.write_all(b"GET /f HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
                let _ = stream.read_to_string(&mut answer);
                return answer.lines().next().map(str::to_owned);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        None
    }

    #[test]
    fn each_rival_that_is_installed_serves_the_file() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("f"), "content").unwrap();
        for name in names() {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let directory = folder.path().join(name);
            std::fs::create_dir(&directory).unwrap();
            let protocol = Protocol::Http1;
            let (root, descriptors) = (folder.path(), 256);
            let rival = Rival { root, directory: &directory, port, descriptors, defers_accept: true, protocol };
            let Ok(mut command) = command(name, &rival) else { continue };
            command.stdout(Stdio::null()).stderr(Stdio::null());
            let mut server = OwnedChild::spawn(&mut command).unwrap();
            assert_eq!(first_line(&mut server, port).as_deref(), Some("HTTP/1.1 200 OK"), "{name}");
        }
    }

    #[test]
    fn a_rival_that_is_installed_is_tuned_and_a_benchmark_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path();
        for (name, tuned) in [("nginx", "open_file_cache"), ("lighttpd", "server.defer-accept = 1")] {
            let protocol = Protocol::Http1;
            let rival = Rival { root: directory, directory, port: 1, descriptors: 64, defers_accept: true, protocol };
            if command(name, &rival).is_err() {
                continue;
            }
            let conf = || std::fs::read_to_string(directory.join("conf")).unwrap();
            assert!(conf().contains(tuned), "{name}: {}", conf());
            let (_, server) = list::SERVERS.iter().find(|(known, _)| *known == name).unwrap();
            let settings = Settings::from_map(BTreeMap::new());
            let start =
                Start { settings: &settings, root: directory, directory, port: 1, descriptors: 64, tuning: None };
            server.configure(&start).unwrap();
            assert!(!conf().contains(tuned), "{name}: {}", conf());
        }
        assert!(names().all(|name| name != "landau") && names().count() > 2);
    }
}
