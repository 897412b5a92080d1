//! Reads the files of a reload: certificates and keys, the configuration and its users.
//!
//! A server that root has started serves as another user, who should not be able to read keys. It may therefore first
//! start a process that keeps root's user and only reads these files on request, in a separate sandbox if possible. The
//! process gets the number of a file, never a name, so a compromised worker could request only the named files. The
//! process follows links, as at the start of the server. If another user can write to the directory of such a file,
//! that user can point its name elsewhere.

use crate::config::Config;
use crate::error::Error;
use crate::privilege;
use landau_sys::child::Forker;
use landau_sys::descriptor::close_others;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The maximum size of a file. Certificate chains have a few kilobytes.
const LARGEST_BYTES: u64 = 1 << 20;

/// Reads files that are reloaded while the server runs, through a process that keeps its user, if one was started.
#[derive(Debug, Clone, Default)]
pub struct Reader(Option<Arc<Privileged>>);

/// The process that keeps its user. It ends when the socket is closed.
#[derive(Debug)]
struct Privileged {
    files: Vec<PathBuf>,
    socket: Mutex<UnixStream>,
}

impl Reader {
    /// Starts a process that keeps the user of this one and reads the files that the configuration names now. The
    /// calling process must have a single thread. Fails with the error that the process reports if it could not confine
    /// itself.
    pub fn privileged(config: &Config) -> Result<Self, Error> {
        let failed = |cause| Error::Helper { name: "reader process", cause };
        let files: Vec<PathBuf> = config.files().map(Path::to_owned).collect();
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        // The child has a copy of both ends, and would not notice the end of the server if it kept this one.
        let mut ours = Some(ours);
        Forker::new()?.fork(|| {
            drop(ours.take());
            let confined = close_others(&[theirs.as_raw_fd()])
                .map_err(Error::from)
                .and_then(|()| privilege::restrict_to_reading(config, &files));
            let is_confined = confined.is_ok();
            let answer = confined.map(|()| Vec::new()).map_err(|error| error.to_string());
            // These calls fail if the server has ended.
            if tell(&theirs, answer).is_ok() && is_confined {
                let _ = serve(&theirs, &files);
            }
        })?;
        drop(theirs);
        // Unreachable: only the child takes it out.
        let Some(mut ours) = ours else { return Err(landau_sys::Error::invalid("fork").into()) };
        answer(&mut ours).map_err(failed)?;
        Ok(Self(Some(Arc::new(Privileged { files, socket: Mutex::new(ours) }))))
    }

    /// Reads a regular file of at most 1 MiB. A FIFO or device would block the reload, and a later SIGTERM.
    pub(crate) fn read(&self, path: &Path) -> std::io::Result<Vec<u8>> {
        let number = self.0.as_ref().and_then(|own| Some((own, own.files.iter().position(|file| file == path)?)));
        match number {
            Some((privileged, number)) => {
                let mut socket = privileged.socket.lock().unwrap_or_else(PoisonError::into_inner);
                ask(&mut socket, number as u32)
            }
            None => read(path),
        }
    }
}

/// Requests a file by its number.
fn ask(socket: &mut UnixStream, number: u32) -> std::io::Result<Vec<u8>> {
    socket.write_all(&number.to_le_bytes()).map_err(gone)?;
    answer(socket)
}

/// Replaces the error of a closed peer by a clearer one.
fn gone(error: std::io::Error) -> std::io::Error {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::BrokenPipe => {
            std::io::Error::other("the reader process has ended; restart the server")
        }
        _ => error,
    }
}

/// Waits for an answer: a length and that many bytes, or 0xffffffff, the length of an error message and its text.
fn answer(socket: &mut UnixStream) -> std::io::Result<Vec<u8>> {
    let mut part = || -> std::io::Result<u32> {
        let mut bytes = [0; 4];
        socket.read_exact(&mut bytes).map_err(gone)?;
        Ok(u32::from_le_bytes(bytes))
    };
    let (is_error, len) = match part()? {
        u32::MAX => (true, part()?),
        len => (false, len),
    };
    let mut bytes = vec![0; len as usize];
    socket.read_exact(&mut bytes).map_err(gone)?;
    if is_error { Err(std::io::Error::other(String::from_utf8_lossy(&bytes).into_owned())) } else { Ok(bytes) }
}

/// Answers requests until the server has ended.
fn serve(mut socket: &UnixStream, files: &[PathBuf]) -> std::io::Result<()> {
    loop {
        let mut number = [0; 4];
        socket.read_exact(&mut number)?;
        let Some(file) = files.get(u32::from_le_bytes(number) as usize) else { return Ok(()) };
        tell(socket, read(file).map_err(|error| error.to_string()))?;
    }
}

/// Writes an answer, of at most 1 MiB.
fn tell(mut socket: &UnixStream, answer: Result<Vec<u8>, String>) -> std::io::Result<()> {
    let (mark, bytes) = match answer {
        Ok(bytes) => (&[][..], bytes),
        Err(text) => (&[0xff; 4][..], text.into_bytes()),
    };
    socket.write_all(&[mark, &(bytes.len() as u32).to_le_bytes(), &bytes].concat())
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    landau_sys::path::open_regular(path)?.take(LARGEST_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST_BYTES {
        return Err(std::io::Error::other("the file is larger than 1 MiB"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a reader connected to a thread instead of a process.
    fn reader(files: Vec<PathBuf>) -> (Reader, std::thread::JoinHandle<std::io::Result<()>>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let own = files.clone();
        let thread = std::thread::spawn(move || serve(&theirs, &own));
        (Reader(Some(Arc::new(Privileged { files, socket: Mutex::new(ours) }))), thread)
    }

    #[test]
    fn files_are_read_again_and_again() {
        let room = tempfile::tempdir().unwrap();
        let place = |name: &str| room.path().join(name);
        let names = ["a", "missing", "large", "empty"];
        let (reader, thread) = reader(names.map(place).to_vec());
        std::fs::write(place("empty"), "").unwrap();
        std::fs::write(place("large"), vec![0; LARGEST_BYTES as usize + 1]).unwrap();
        for content in ["one", "other"] {
            std::fs::write(place("a"), content).unwrap();
            assert_eq!(reader.read(&place("a")).unwrap(), content.as_bytes());
            let told = ["missing", "large"].map(|name| reader.read(&place(name)).unwrap_err().to_string());
            assert!(told[0].contains("No such file") && told[1].contains("larger than 1 MiB"), "{told:?}");
            assert_eq!(reader.read(&place("empty")).unwrap(), b"");
        }
        // A file that the process does not know is read directly.
        std::fs::write(place("other"), "mine").unwrap();
        assert_eq!(reader.read(&place("other")).unwrap(), b"mine");
        drop(reader);
        assert!(thread.join().unwrap().is_err(), "it ends with the server");
    }

    #[test]
    fn an_unknown_number_ends_the_conversation() {
        let room = tempfile::tempdir().unwrap();
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let thread = std::thread::spawn(move || serve(&theirs, &[]));
        ours.write_all(&0_u32.to_le_bytes()).unwrap();
        thread.join().unwrap().unwrap();
        let own = Privileged { files: vec![room.path().join("a")], socket: Mutex::new(ours) };
        let error = Reader(Some(Arc::new(own))).read(&room.path().join("a")).unwrap_err();
        assert!(error.to_string().contains("has ended"), "{error}");
    }
}
