//! Passing descriptors to another process over a Unix socket (`SCM_RIGHTS`).

use crate::descriptor::own;
use crate::error::{Error, Result, check};
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// How many descriptors one message takes at most (Linux's `SCM_MAX_FD`).
pub const MOST: usize = 253;

/// A descriptor's number as it stands in the control data, which is aligned for a header and not for it.
type Number = [u8; size_of::<RawFd>()];

/// Room for the control data of so many descriptors, aligned as its header must be.
fn room(count: usize) -> Vec<u64> {
    let bytes = (count * size_of::<RawFd>()) as libc::c_uint;
    // SAFETY: the call computes a length.
    let space = unsafe { libc::CMSG_SPACE(bytes) } as usize;
    vec![0; space.div_ceil(size_of::<u64>())]
}

/// A message without anything in it.
fn empty() -> libc::msghdr {
    // SAFETY: `msghdr` is plain data for which all zeroes is a value.
    unsafe { std::mem::zeroed() }
}

/// Sends bytes, one at least, and descriptors with the first of them; how many bytes went. EINVAL for more descriptors
/// than [`MOST`].
pub fn send(socket: &impl AsFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<usize> {
    if fds.len() > MOST || bytes.is_empty() {
        return Err(Error::invalid("sendmsg"));
    }
    let piece = IoSlice::new(bytes);
    let mut message = empty();
    // `IoSlice` is documented to have the layout of `iovec`; the call only reads.
    message.msg_iov = (&raw const piece).cast_mut().cast();
    message.msg_iovlen = 1;
    let mut control = room(fds.len());
    if !fds.is_empty() {
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(control.as_slice()) as _;
        let payload = size_of_val(fds) as libc::c_uint;
        // SAFETY: the control data has room for one header and the descriptors, as `room` computed.
        let header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
        // SAFETY: the header lies in the control data, which nothing else refers to.
        let Some(header) = (unsafe { header.as_mut() }) else {
            return Err(Error::invalid("sendmsg"));
        };
        header.cmsg_level = libc::SOL_SOCKET;
        header.cmsg_type = libc::SCM_RIGHTS;
        // SAFETY: the call computes a length.
        header.cmsg_len = unsafe { libc::CMSG_LEN(payload) } as _;
        // SAFETY: the header is followed by its data.
        let data = unsafe { libc::CMSG_DATA(header) }.cast::<Number>();
        for (at, fd) in fds.iter().enumerate() {
            // SAFETY: there is room for all descriptors.
            let place = unsafe { data.add(at) };
            // SAFETY: the place is inside that room.
            unsafe { place.write(fd.as_raw_fd().to_ne_bytes()) };
        }
        // Not the padding behind the last: some systems refuse it.
        // SAFETY: the call computes a length.
        message.msg_controllen = unsafe { libc::CMSG_SPACE(payload) } as _;
    }
    let raw = socket.as_fd().as_raw_fd();
    // SAFETY: the message leads to one valid piece and to control data of the length that it says.
    let sent = unsafe { libc::sendmsg(raw, &raw const message, crate::stream::NO_SIGNAL) };
    check("sendmsg", sent as libc::c_int).map(|sent| sent as usize)
}

/// Receives bytes and at most `most` descriptors, which are not inherited by programs that this one starts; 0 bytes is
/// the end of the stream. If more descriptors came, or fewer could be opened, that is EMSGSIZE, and those that did
/// arrive are closed.
pub fn receive(socket: &impl AsFd, bytes: &mut [u8], most: usize) -> Result<(usize, Vec<OwnedFd>)> {
    let mut piece = IoSliceMut::new(bytes);
    let mut message = empty();
    message.msg_iov = (&raw mut piece).cast();
    message.msg_iovlen = 1;
    let mut control = room(most.min(MOST));
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(control.as_slice()) as _;
    let raw = socket.as_fd().as_raw_fd();
    // SAFETY: the message leads to one valid piece and to control data, all of which the call may write.
    let got = unsafe { libc::recvmsg(raw, &raw mut message, CLOSE_ON_EXEC) };
    let got = check("recvmsg", got as libc::c_int)? as usize;
    let fds = taken(&message);
    #[cfg(any(target_os = "macos", target_os = "ios", target_os = "solaris", target_os = "illumos"))]
    for fd in &fds {
        // SAFETY: the call takes integers.
        check("fcntl", unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) })?;
    }
    if message.msg_flags & libc::MSG_CTRUNC != 0 || fds.len() > most {
        return Err(Error { call: "recvmsg", errno: libc::EMSGSIZE });
    }
    Ok((got, fds))
}

#[cfg(not(any(target_os = "macos", target_os = "ios", target_os = "solaris", target_os = "illumos")))]
const CLOSE_ON_EXEC: libc::c_int = libc::MSG_CMSG_CLOEXEC;
#[cfg(any(target_os = "macos", target_os = "ios", target_os = "solaris", target_os = "illumos"))]
const CLOSE_ON_EXEC: libc::c_int = 0;

/// The descriptors of a message that was received.
#[allow(clippy::unnecessary_cast, reason = "the length is of another type on other systems")]
fn taken(message: &libc::msghdr) -> Vec<OwnedFd> {
    let mut fds = Vec::new();
    // SAFETY: the message is one that `recvmsg` has filled in.
    let mut at = unsafe { libc::CMSG_FIRSTHDR(message) };
    // SAFETY: the header, if there is one, lies in the control data.
    while let Some(header) = unsafe { at.as_ref() } {
        if header.cmsg_level == libc::SOL_SOCKET && header.cmsg_type == libc::SCM_RIGHTS {
            // SAFETY: the call computes a length.
            let begin = unsafe { libc::CMSG_LEN(0) } as usize;
            // SAFETY: the header is followed by its data.
            let data = unsafe { libc::CMSG_DATA(at) }.cast::<Number>();
            for index in 0..(header.cmsg_len as usize).saturating_sub(begin) / size_of::<RawFd>() {
                // SAFETY: the header says that so many follow.
                let place = unsafe { data.add(index) };
                // SAFETY: the kernel wrote a descriptor there.
                fds.push(own(RawFd::from_ne_bytes(unsafe { place.read() })));
            }
        }
        // SAFETY: message and header are those of above.
        at = unsafe { libc::CMSG_NXTHDR(message, at) };
    }
    fds
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    fn inherited(fd: &OwnedFd) -> bool {
        // SAFETY: F_GETFD reads a flag.
        unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFD) & libc::FD_CLOEXEC == 0 }
    }

    #[test]
    fn descriptors_arrive_with_their_bytes_and_are_not_inherited() {
        let (here, there) = UnixStream::pair().unwrap();
        let (reading, mut writing) = std::io::pipe().unwrap();
        let file = tempfile::tempfile().unwrap();
        assert_eq!(send(&here, b"two", &[reading.as_fd(), file.as_fd()]), Ok(3));
        assert_eq!(send(&here, b"none", &[]), Ok(4));
        let mut bytes = [0; 3];
        let (got, fds) = receive(&there, &mut bytes, 4).unwrap();
        assert_eq!((got, &bytes, fds.len()), (3, b"two", 2));
        assert!(fds.iter().all(|fd| !inherited(fd)));
        drop(reading);
        writing.write_all(b"x").unwrap();
        let mut byte = [0];
        File::from(fds.into_iter().next().unwrap()).read_exact(&mut byte).unwrap();
        let mut bytes = [0; 8];
        assert_eq!(receive(&there, &mut bytes, 4).map(|(got, fds)| (got, fds.len())), Ok((4, 0)));
        drop(here);
        assert_eq!(receive(&there, &mut bytes, 4).map(|(got, fds)| (got, fds.len())), Ok((0, 0)));
    }

    #[test]
    fn more_than_there_is_room_for_is_an_error_and_no_leak() {
        let (here, there) = UnixStream::pair().unwrap();
        let (reading, mut writing) = std::io::pipe().unwrap();
        assert_eq!(send(&here, b"x", &[reading.as_fd(); 3]), Ok(1));
        drop(reading);
        let error = receive(&there, &mut [0; 8], 1).unwrap_err();
        assert_eq!(error, Error { call: "recvmsg", errno: libc::EMSGSIZE });
        // Nobody holds the reading end any more.
        assert_eq!(writing.write(b"x").unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
        assert_eq!(send(&here, b"", &[]).map_err(|error| error.errno), Err(libc::EINVAL));
        assert_eq!(send(&here, b"x", &[here.as_fd(); MOST + 1]).map_err(|error| error.errno), Err(libc::EINVAL));
        assert_eq!(send(&here, b"x", &[here.as_fd(); MOST]), Ok(1));
        assert_eq!(receive(&there, &mut [0; 8], MOST).map(|(_, fds)| fds.len()), Ok(MOST));
    }
}
